"""Reads pairs of text from a table of somebody else's database: reading only, with time limits."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from ingest.errors import IngestError
from ingest.metadata.patience import patient

CONNECT_S = 10
STATEMENT_MS = 300_000
BATCH_ROWS = 10_000


class ForeignUnreadable(IngestError):
    """The database does not answer, refuses the login, or has no such table or column. No password is told."""

    retryable = True


@dataclass(frozen=True, slots=True)
class ForeignTable:
    """Where the pairs are. ``url`` as JDBC spells it; ``filter`` is SQL of that database, empty for all rows."""

    url: str
    user: str
    password: str
    table: str
    key: str
    value: str
    time_column: str = ""
    filter: str = ""


def newest_time(table: ForeignTable, roots: Sequence[Path]) -> str:
    """The largest value of the time column as text; empty when there is no such column. ``roots`` are the folders
    whose SQLite files may be read.

    Raises:
        ForeignUnreadable: see there.
    """
    if not table.time_column:
        return ""
    with _reading(table, roots) as connection:
        query: sa.Select[Any] = sa.select(sa.func.max(sa.column(table.time_column))).select_from(_source(table))
        return str(connection.execute(_filtered(query, table)).scalar())


def pairs(table: ForeignTable, roots: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """Keys and values that are not null, as texts, a batch in memory at a time; raises as ``newest_time``."""
    with _reading(table, roots) as connection:
        key: sa.ColumnClause[Any] = sa.column(table.key)
        value: sa.ColumnClause[Any] = sa.column(table.value)
        query = sa.select(key, value).select_from(_source(table)).where(key.is_not(None), value.is_not(None))
        rows = connection.execution_options(yield_per=BATCH_ROWS).execute(_filtered(query, table))
        for found in rows:
            yield str(found[0]), str(found[1])


def _source(table: ForeignTable) -> sa.TableClause:
    schema, _, name = table.table.rpartition(".")
    return sa.table(name, schema=schema or None)


def _filtered(query: sa.Select[Any], table: ForeignTable) -> sa.Select[Any]:
    # A text of ours in brackets: what is in it is for the database's own rights to bound.
    return query.where(sa.text(f"({table.filter})".replace(":", r"\:"))) if table.filter else query


@contextlib.contextmanager
def _reading(table: ForeignTable, roots: Sequence[Path]) -> Iterator[Connection]:
    engine = sa.create_engine(_url(table, roots), poolclass=sa.NullPool, connect_args=_options(table))
    try:
        with engine.connect() as connection:
            yield connection
    except SQLAlchemyError as error:
        reason = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
        raise ForeignUnreadable(f"{_shown(table)}, table {table.table!r}: {reason}") from error
    finally:
        engine.dispose()


def _options(table: ForeignTable) -> dict[str, Any]:
    if table.url.startswith("jdbc:sqlite:"):
        return {"timeout": CONNECT_S}
    limits = f"-c default_transaction_read_only=on -c statement_timeout={STATEMENT_MS}"
    return {"connection_factory": patient(STATEMENT_MS / 1_000 + CONNECT_S, CONNECT_S), "options": limits}


def _url(table: ForeignTable, roots: Sequence[Path]) -> URL:
    kind, _, rest = table.url.removeprefix("jdbc:").partition(":")
    if kind == "sqlite":
        path = Path(rest.removeprefix("//")).resolve()
        if not any(path.is_relative_to(root.resolve()) for root in roots):
            raise ForeignUnreadable(f"{path} is outside the folders that lookups may read; add its folder there")
        return URL.create("sqlite", database=f"file:{quote(str(path))}", query={"mode": "ro", "uri": "true"})
    try:
        parsed = make_url(f"postgresql+psycopg2:{rest}")
    except ArgumentError as error:
        raise ForeignUnreadable(f"{_shown(table)} is not the address of a database") from error
    user, password = table.user or parsed.username, table.password or parsed.password
    return parsed.set(username=user, password=password)


def _shown(table: ForeignTable) -> str:
    head, at, tail = table.url.partition("?")[0].rpartition("@")
    return f"{head.partition('//')[0]}//{tail}" if at else tail
