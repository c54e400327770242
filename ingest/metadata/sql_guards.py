"""What a supervisor's spec and its reading must know of each other, within one transaction, on SQL.

A spec is judged against what has been read, and what is read is decided under a spec. Both sides take the lock of the
supervisor's row, so whichever comes second sees the first and is refused.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ingest.metadata import supervisor_rules
from ingest.metadata import tables as t
from ingest.metadata.records import SpecGuard
from ingest.metadata.sql_streams import UNPUBLISHED, load_offsets


def check_version(connection: Connection, supervisor: str, version: int) -> None:
    """Refuses (StoreConflict) unless ``version`` is that of the stored spec; it stays so until the transaction ends."""
    mine = t.supervisors.c.supervisor == supervisor
    held = sa.select(t.supervisors.c.version).where(mine).with_for_update(read=True)
    supervisor_rules.check_version(supervisor, connection.execute(held).scalar(), version)


def check_guard(connection: Connection, supervisor: str, guard: SpecGuard) -> None:
    """Refuses (StoreConflict) when ``guard`` no longer holds; the caller has the lock of the supervisor's row."""
    unpublished = sa.and_(t.sequences.c.supervisor == supervisor, t.sequences.c.state.in_(UNPUBLISHED))
    begun = guard.idle and connection.execute(sa.select(sa.exists().where(unpublished))).scalar_one()
    read = guard.unread is not None and load_offsets(connection, supervisor, guard.unread) is not None
    supervisor_rules.check_guard(supervisor, guard, begun, read)
