"""The metadata store on SQL: one object for SQLite and PostgreSQL, and how it is opened."""

from __future__ import annotations

from ingest.metadata.engine import open_engine
from ingest.metadata.marks import Marks, Seen
from ingest.metadata.schema import check_schema, is_empty, migrate_engine
from ingest.metadata.sql_attempts import SqlAttempts
from ingest.metadata.sql_leadership import SqlLeadership, SqlSupervisors
from ingest.metadata.sql_lookups import SqlLookups
from ingest.metadata.sql_marks import found_in
from ingest.metadata.sql_offsets import SqlOffsets
from ingest.metadata.sql_places import SqlPlaces
from ingest.metadata.sql_publish import SqlPublishing
from ingest.metadata.sql_replays import SqlReplays
from ingest.metadata.sql_session import SqlSession
from ingest.metadata.sql_staging import SqlStaging
from ingest.metadata.sql_tables import SqlTables

LEASE_MS = 10_000
"""How long a leader may be silent; the time-outs of database sessions follow from it."""


class SqlMetadataStore(
    SqlPublishing,
    SqlReplays,
    SqlStaging,
    SqlTables,
    SqlAttempts,
    SqlOffsets,
    SqlPlaces,
    SqlSupervisors,
    SqlLookups,
    SqlLeadership,
):
    """``ingest.metadata.store.MetadataStore`` on SQLite or PostgreSQL; safe from any thread."""

    def check(self) -> None:
        check_schema(self.session.engine)
        marks = self.session.marks
        expected = marks.seen()
        self.session.read(lambda connection: self.session.judge(connection, expected))
        if not marks.database:
            found = self.session.read(lambda connection: found_in(connection, Seen()))
            marks.note_database(found.database)

    def close(self) -> None:
        self.session.close()


def open_store(
    url: str, *, lease_ms: int = LEASE_MS, create: bool = False, marks: Marks | None = None
) -> SqlMetadataStore:
    """Opens the store and checks its schema. ``marks``: what an earlier process has seen of it.

    ``create``: an empty SQLite database is given the schema first, as ``serve`` wants it on a new
    machine. A PostgreSQL database is migrated only by ``siltstone migrate``.

    Raises:
        StoreSchemaError: no schema, or an older or newer one; the message says what to do.
        StoreUnreachable: no answer, wrong password, no such database; StoreWentBack: an older one.
    """
    engine = open_engine(url, lease_ms)
    try:
        if create and engine.dialect.name == "sqlite" and is_empty(engine):
            migrate_engine(engine)
        store = SqlMetadataStore(SqlSession(engine, marks or Marks()))
        store.check()
    except BaseException:
        engine.dispose()
        raise
    return store
