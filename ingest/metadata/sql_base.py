"""What every part of the SQL store uses: fenced transactions, locks in their order, counters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from ingest.errors import StoreWentBack
from ingest.metadata import rules
from ingest.metadata import tables as t
from ingest.metadata.engine import mask_url
from ingest.metadata.records import AuditRow
from ingest.metadata.sql_marks import note_raised
from ingest.metadata.sql_session import SqlSession

T = TypeVar("T")


def insert(connection: Connection, table: sa.Table) -> Any:
    """An INSERT of the connection's dialect, which both know ``on_conflict_do_...``."""
    return (postgresql if connection.dialect.name == "postgresql" else sqlite).insert(table)


class SqlBase:
    """One session. Every public method of the store is one ``_read``, ``_write`` or ``_fenced``.

    Locks on PostgreSQL are taken in this order, whichever are needed: leadership (share), the
    stream's row (offsets and sequences of all its partitions), attempt, staged files or segments,
    the table's version. On SQLite the write transaction is the one lock.
    """

    def __init__(self, session: SqlSession) -> None:
        self.session = session

    def _read(self, work: Callable[[Connection], T]) -> T:
        return self.session.read(work)

    def _write(self, work: Callable[[Connection], T]) -> T:
        return self.session.write(work)

    def _fenced(self, generation: int, work: Callable[[Connection], T]) -> T:
        """A write transaction that holds a share lock on the leadership row until it commits (PR-23)."""

        def fenced(connection: Connection) -> T:
            rules.check_generation(leading_generation(connection), generation)
            return work(connection)

        return self._write(fenced)


_GATE = 7_158_279
"""The advisory lock in front of the leadership row. Who waits for the row alone is passed by every new sharer,
for ever if they overlap; advisory locks are queued, so a takeover waits for the transactions under way only."""


def leading_generation(connection: Connection) -> int | None:
    """Takes the share lock of PR-23 and says who leads; None after the last leader resigned."""
    query = sa.select(t.leadership.c.generation, t.leadership.c.node)
    if connection.dialect.name == "postgresql":
        # In one statement, and below the row's lock: who holds the row has passed the gate.
        gate = sa.select(sa.func.pg_advisory_xact_lock_shared(_GATE).label("passed")).cte("gate")
        query = query.select_from(t.leadership.join(gate.prefix_with("MATERIALIZED"), sa.true()))
    row = connection.execute(query.with_for_update(read=True, of=t.leadership)).one()
    return None if row.node is None else int(row.generation)


def close_gate(connection: Connection) -> None:
    """Waits for the fenced transactions under way, and keeps new ones waiting, until this one ends."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_GATE)))


def next_count(connection: Connection, kind: str, name: str) -> int:
    """The next number of a counter that nothing ever lowers, from 1 (PR-19)."""
    return add_count(connection, kind, name, 1)


def add_count(connection: Connection, kind: str, name: str, by: int) -> int:
    """Raises such a counter; returns its value."""
    statement = insert(connection, t.counters).values(kind=kind, name=name, value=by)
    raised = {"value": t.counters.c.value + by}
    statement = statement.on_conflict_do_update(index_elements=["kind", "name"], set_=raised)
    return int(connection.execute(statement.returning(t.counters.c.value)).scalar_one())


def ensure_table(connection: Connection, datasource: str) -> None:
    """The table's version row, at 0 when it is new."""
    statement = insert(connection, t.datasources).values(datasource=datasource, version=0)
    connection.execute(statement.on_conflict_do_nothing())


def raise_version(connection: Connection, datasource: str) -> int:
    """The table's next version; its row stays locked until commit, so version order is commit order (PR-2)."""
    columns = t.datasources.c
    statement = sa.update(t.datasources).where(columns.datasource == datasource).values(version=columns.version + 1)
    version = int(connection.execute(statement.returning(columns.version)).scalar_one())
    missing = note_raised(connection, datasource, version)
    if missing is not None:
        # Also on a connection that has been proved: something in between may have changed servers.
        raise StoreWentBack(mask_url(connection.engine.url), missing)
    return version


def append_audit(connection: Connection, row: AuditRow) -> None:
    """One line of the trail, in the running transaction."""
    values = {"at_ms": row.at_ms, "supervisor": row.supervisor, "action": row.action, "detail": row.detail}
    connection.execute(sa.insert(t.audit).values(**values))
