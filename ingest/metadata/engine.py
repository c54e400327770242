"""Opens the metadata database by its URL: what each kind of database needs to keep the port's promises."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from ingest.errors import StoreSchemaError, StoreUnreachable
from ingest.metadata.patience import patient
from ingest.metadata.tables import dump_json, load_json

EXAMPLES = "sqlite:////var/lib/siltstone/metadata.db or postgresql://user:password@host:5432/siltstone"

SQLITE_BUSY_MS = 2_000
"""How long SQLite itself waits for another process's write; waits within a process are queued before."""

READ_STATEMENT_MS = 600_000
"""A full load of a table's ten million segments takes minutes and locks nothing."""

SILENCE_SLACK_S = 1.0
"""How much later than the server's own time-out its word of it may come."""

TAKEOVER_MS = "siltstone_takeover_ms"
"""Execution option: how long a takeover waits for the transactions of the leader before."""

WRITING = "siltstone_writing"
"""Execution option of a connection that is about to write."""


@dataclass(frozen=True, slots=True)
class StoreTimeouts:
    """Limits of one PostgreSQL session, all below the leader's lease (PR-23), in milliseconds.

    A frozen client must not hold the leadership row's share lock past the lease, so its statement, an
    idle open transaction and an unanswered packet each end the session before a standby may take over.
    """

    statement_ms: int
    idle_in_transaction_ms: int
    tcp_user_ms: int
    lock_ms: int
    connect_s: int
    takeover_ms: int

    @classmethod
    def below(cls, lease_ms: int) -> StoreTimeouts:
        """The limits for a lease of ``lease_ms`` (at least 1,000)."""
        assert lease_ms >= 1_000, "a lease below a second cannot be told from a pause of the scheduler"
        statement_ms, idle_ms = lease_ms * 8 // 10, lease_ms // 2
        takeover_ms = min(idle_ms + 1_000, lease_ms * 7 // 10)
        return cls(statement_ms, idle_ms, statement_ms, idle_ms, max(2, lease_ms // 2_000), takeover_ms)


def parse_url(url: str) -> URL:
    """The URL as SQLAlchemy reads it, with the driver we ship.

    Raises:
        StoreSchemaError: not a URL, or of a database we do not know; the message shows no password.
    """
    try:
        parsed = make_url(url)
        kind = parsed.get_backend_name()
    except (ArgumentError, NoSuchModuleError):
        raise StoreSchemaError(
            f"metadata.url {_before_password(url)!r} is not a database URL; use {EXAMPLES}"
        ) from None
    if kind == "sqlite":
        if parsed.database in (None, "", ":memory:"):
            raise StoreSchemaError("metadata.url names no SQLite file; a database in memory dies with the process")
        return parsed
    if kind in ("postgresql", "postgres"):
        return parsed.set(drivername="postgresql+psycopg2")
    raise StoreSchemaError(f"metadata.url is of kind {kind!r}; this service keeps metadata in {EXAMPLES}")


def _before_password(url: str) -> str:
    scheme, found, _ = url.partition("://")
    return f"{scheme}://..." if found else "..."


def mask_url(url: str | URL) -> str:
    """The URL for people and logs: no password, wherever it stands."""
    parsed = parse_url(url) if isinstance(url, str) else url
    secret = {name: "***" for name in parsed.query if "password" in name.lower() or name == "sslkey"}
    return parsed.update_query_dict(secret).render_as_string(hide_password=True)


def open_engine(url: str, lease_ms: int) -> Engine:
    """An engine whose transactions begin as the store needs them; nothing is opened yet.

    Raises:
        StoreSchemaError: not a URL of SQLite or PostgreSQL.
        StoreUnreachable: the SQLite file's folder cannot be made.
    """
    parsed = parse_url(url)
    if parsed.get_backend_name() == "sqlite":
        return _sqlite(parsed)
    return _postgresql(parsed, StoreTimeouts.below(lease_ms))


def _sqlite(url: URL) -> Engine:
    assert url.database is not None
    try:
        Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"metadata database {mask_url(url)}: the folder cannot be made ({error})"
        raise StoreUnreachable(message, effect_known_absent=True) from error
    engine = sa.create_engine(
        url,
        json_serializer=dump_json,
        json_deserializer=load_json,
        connect_args={"timeout": SQLITE_BUSY_MS / 1_000, "check_same_thread": False},
        pool_size=8,
        max_overflow=-1,
    )
    event.listen(engine, "connect", _set_pragmas)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _set_pragmas(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # the driver begins nothing behind our back; _begin_sqlite does
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", f"busy_timeout={SQLITE_BUSY_MS}"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    # A transaction that reads first and writes later fails at once when another wrote in between,
    # whatever the busy timeout says; a writer therefore takes the write lock before it reads.
    writing = connection.get_execution_options().get(WRITING, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def _postgresql(url: URL, timeouts: StoreTimeouts) -> Engine:
    settings = {
        "statement_timeout": timeouts.statement_ms,
        "idle_in_transaction_session_timeout": timeouts.idle_in_transaction_ms,
        "lock_timeout": timeouts.lock_ms,
        "timezone": "UTC",
    }
    return sa.create_engine(
        url,
        json_serializer=dump_json,
        json_deserializer=load_json,
        pool_pre_ping=True,
        executemany_mode="values_plus_batch",
        execution_options={TAKEOVER_MS: timeouts.takeover_ms},
        pool_size=8,
        max_overflow=24,
        pool_timeout=timeouts.connect_s,
        connect_args={
            "application_name": "siltstone",
            "connection_factory": patient(timeouts.statement_ms / 1_000 + SILENCE_SLACK_S, timeouts.connect_s),
            "tcp_user_timeout": timeouts.tcp_user_ms,
            "keepalives_idle": max(1, timeouts.tcp_user_ms // 3_000),
            "keepalives_interval": max(1, timeouts.tcp_user_ms // 6_000),
            "keepalives_count": 3,
            "options": " ".join(f"-c {name}={value}" for name, value in settings.items()),
        },
    )
