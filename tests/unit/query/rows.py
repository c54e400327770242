"""Small tables for statements: what each test needs, by column."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from query.model import PlannedQuery, ResultFormat, SqlParameter, SqlRequest
from query.sql.catalogue import ColumnDef, MemoryCatalogue, TableDef
from query.sql.planner import plan
from query.sql.types import BIGINT, DOUBLE, MULTI_VARCHAR, TIMESTAMP, VARCHAR, SqlType
from segments.civil import parse_iso_ms
from tests.conformance.engine import answer
from tests.conformance.tables import LOOKUPS

NOW_MS = parse_iso_ms("2024-03-10T12:34:56.789Z")

COLUMNS: dict[str, tuple[SqlType, Any]] = {
    "__time": (TIMESTAMP, pa.timestamp("ms", "UTC")),
    "s": (VARCHAR, pa.string()),
    "S": (VARCHAR, pa.string()),
    "mv": (MULTI_VARCHAR, pa.list_(pa.string())),
    "n": (BIGINT, pa.int64()),
    "d": (DOUBLE, pa.float64()),
}


def catalogue(*names: str) -> MemoryCatalogue:
    """One table or more, all with the same columns."""
    columns = tuple(ColumnDef(name, kind) for name, (kind, _) in COLUMNS.items())
    return MemoryCatalogue((TableDef(name, columns) for name in names or ("t",)), LOOKUPS)


def table(**cells: list[Any]) -> pa.Table:
    """Rows by column; columns left out are null, times are ISO texts."""
    count = max((len(values) for values in cells.values()), default=1)
    full = {name: cells.get(name, [None] * count) for name in COLUMNS}
    full["__time"] = [parse_iso_ms(text or "2024-01-01") for text in full["__time"]]
    return pa.table({name: pa.array(full[name], kind) for name, (_, kind) in COLUMNS.items()})


def ask(query: str, rows: pa.Table | None = None, parameters: tuple[Any, ...] = (), **context: Any) -> list[list[Any]]:
    """The rows of an answer over a table called ``t`` (one row of nulls, when none is given)."""
    given = table() if rows is None else rows
    typed = tuple(SqlParameter(kind, value) for kind, value in parameters)
    request = SqlRequest(query, context, typed, ResultFormat.ARRAY)
    body: list[list[Any]] = json.loads(answer(request, catalogue(), lambda name: given, now_ms=NOW_MS))
    return body


def one(expression: str, **context: Any) -> Any:
    """The value of an expression without a table."""
    return ask(f"SELECT {expression}", **context)[0][0]


def planned(query: str, *tables: str, **context: Any) -> PlannedQuery:
    """A plan over tables that have no rows."""
    return plan(SqlRequest(query, context), catalogue(*tables), NOW_MS)
