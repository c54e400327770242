"""What the store notes of the database for ``ingest.metadata.marks``, on SQL."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ingest.metadata import tables as t
from ingest.metadata.marks import Marks, Seen

MARKS: Final = "siltstone_marks"
RAISED: Final = "siltstone_raised"
"""In a connection's ``info``: the process's marks; versions that the running transaction raised."""


def found_in(connection: Connection, expected: Seen) -> Seen:
    """The database now, as far as ``expected`` asks for it."""
    leader = connection.execute(sa.select(t.leadership.c.generation, t.leadership.c.database_id)).one()
    beats = connection.execute(sa.select(t.leader_heartbeat.c.beats)).scalar_one()
    rows = connection.execute(sa.select(t.datasources.c.datasource, t.datasources.c.version))
    versions = {row.datasource: row.version for row in rows}
    return Seen(leader.generation, beats, versions, _sealed(connection, expected), leader.database_id or "")


def _sealed(connection: Connection, expected: Seen) -> dict[tuple[str, int], int]:
    if not expected.sealed:
        return {}
    columns = t.sequences.c
    wanted = [(supervisor, group, number) for (supervisor, group), number in expected.sealed.items()]
    key = sa.tuple_(columns.supervisor, columns.group_epoch, columns.number)
    query = sa.select(columns.supervisor, columns.group_epoch, columns.number).where(key.in_(wanted))
    rows = connection.execute(query.where(columns.state != "open"))
    return {(row.supervisor, row.group_epoch): row.number for row in rows}


def note_raised(connection: Connection, datasource: str, version: int) -> str | None:
    """Notes a version that the running transaction gives a table; says what is wrong when it was given before."""
    marks: Marks = connection.info[MARKS]
    known = marks.version_of(datasource)
    if version <= known:
        return f"table {datasource} was at version {known} and would get {version} again"
    connection.info[RAISED][datasource] = version
    return None
