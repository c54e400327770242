"""Whether the database has the schema this program was built for, and how it gets it."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from ingest.errors import StoreSchemaError
from ingest.metadata.engine import WRITING, mask_url, open_engine
from ingest.metadata.patience import PatientConnection
from ingest.metadata.sql_session import SqlSession

HEAD = "0006"
"""The newest revision in ``migrations/``; a test holds the two together."""

# One number for all servers: two that start at once migrate one after the other.
_MIGRATION_LOCK = 7_158_278


def current_revision(connection: Connection) -> str | None:
    """The database's revision; None when it has no schema yet."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    found = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar_one_or_none()
    return None if found is None else str(found)


def check_schema(engine: Engine) -> None:
    """Refuses a database of another schema, and says what to do.

    Raises:
        StoreSchemaError: no schema, an older or a newer one.
        StoreUnreachable: the database did not answer.
    """
    revision = SqlSession(engine).read(current_revision)
    where = mask_url(engine.url)
    if revision is None:
        raise StoreSchemaError(f"metadata database {where} is empty; run `siltstone migrate` once")
    if revision > HEAD:
        raise StoreSchemaError(
            f"metadata database {where} has schema {revision}, newer than {HEAD} which this program knows;"
            " upgrade siltstone, or point metadata.url at another database"
        )
    if revision < HEAD:
        raise StoreSchemaError(
            f"metadata database {where} has schema {revision}, older than {HEAD};"
            " stop the servers and run `siltstone migrate`"
        )


def is_empty(engine: Engine) -> bool:
    """Whether the database has no schema yet (a new SQLite file is migrated without asking)."""
    return SqlSession(engine).read(current_revision) is None


def migrate(url: str, lease_ms: int = 60_000) -> tuple[str | None, str]:
    """Brings the database to this program's schema, all of it or nothing.

    Safe to repeat and to run from several servers at once. Returns the revisions before and after.

    Raises:
        StoreSchemaError: the database is newer than this program.
        StoreUnreachable: it did not answer.
    """
    return migrate_engine(open_engine(url, lease_ms))


def migrate_engine(engine: Engine) -> tuple[str | None, str]:
    """``migrate`` on an engine, whose sessions are closed."""
    try:
        return SqlSession(engine).write(_migrate)
    finally:
        engine.dispose()  # its session waits for ever


def _migrate(connection: Connection) -> tuple[str | None, str]:
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("SET LOCAL lock_timeout = 0"))
        connection.execute(sa.text("SET LOCAL statement_timeout = 0"))
        session = connection.connection.driver_connection
        assert isinstance(session, PatientConnection)
        session.silence_s = None
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:n)"), {"n": _MIGRATION_LOCK})
    else:
        assert connection.get_execution_options().get(WRITING), "SQLite migrates under its write lock"
    before = current_revision(connection)
    if before is not None and before > HEAD:
        raise StoreSchemaError(f"the database has schema {before}, newer than {HEAD}; upgrade siltstone")
    if before == HEAD:
        return before, HEAD
    # Loaded here: only a migration that has something to do pays for it.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "migrations:")
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, HEAD)
    return before, HEAD
