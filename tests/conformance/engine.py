"""Runs planned statements in a plain DuckDB over Arrow tables: what a query node does, without the node."""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa

from query.kernels.offering import offered
from query.model import PlannedQuery, ResultFormat, SqlParameter, SqlRequest, TableUse
from query.results import render
from query.sql.catalogue import Catalogue, MemoryCatalogue
from query.sql.metadata import NoSystemTables, SystemTables, inline_rows
from query.sql.planner import plan
from tests.conformance import tables

NOW_MS = 1_710_000_000_000


def request_of(body: dict[str, Any], **overrides: Any) -> SqlRequest:
    """A request from its JSON body."""
    fields: dict[str, Any] = {
        "query": body["query"],
        "context": body.get("context") or {},
        "parameters": tuple(SqlParameter(one["type"], one["value"]) for one in body.get("parameters") or []),
        "result_format": ResultFormat(body.get("resultFormat", "object")),
        "header": body.get("header", False),
        "types_header": body.get("typesHeader", False),
        "sql_types_header": body.get("sqlTypesHeader", False),
    }
    return SqlRequest(**fields | overrides)


def run(planned: PlannedQuery, catalogue: Catalogue, rows: Any, system: SystemTables) -> Iterator[pa.RecordBatch]:
    """Binds the relations of a plan and executes it; ``rows`` gives a stored table by name."""
    connection = _connection()
    for use in planned.tables:
        connection.register(use.relation, _relation(use, catalogue, rows, system))
    with offered(connection, planned.functions, lambda name: _pairs(catalogue, name)):
        yield from connection.sql(planned.duckdb_sql).to_arrow_reader(1_000)


def _relation(use: TableUse, catalogue: Catalogue, rows: Any, system: SystemTables) -> pa.Table:
    if use.is_lookup:
        pairs = _pairs(catalogue, use.datasource)
        cells = {"k": pa.array(pairs, pa.string()), "v": pa.array(pairs.values(), pa.string())}
        return pa.table({column.internal: cells[column.name] for column in use.columns})
    return _bound(use, rows(use.datasource)) if use.is_stored else inline_rows(use, catalogue, system)


def _pairs(catalogue: Catalogue, name: str) -> Mapping[str, str]:
    assert isinstance(catalogue, MemoryCatalogue)
    return catalogue.lookups[name]


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1, "autoload_known_extensions": False})
    # Another zone than UTC, so that an answer that depends on the host's shows.
    connection.execute("SET TimeZone = 'America/New_York'")
    return connection


def _bound(use: TableUse, table: pa.Table) -> pa.Table:
    picked = table.select([column.name for column in use.columns])
    return picked.rename_columns([column.internal for column in use.columns])


def answer(
    request: SqlRequest,
    catalogue: Catalogue | None = None,
    rows: Any = tables.rows_of,
    system: SystemTables | None = None,
    now_ms: int = NOW_MS,
) -> str:
    """The body of an answer as text."""
    catalogue = catalogue or tables.catalogue()
    planned = plan(request, catalogue, now_ms)
    batches = run(planned, catalogue, rows, system or NoSystemTables())
    return b"".join(render(batches, planned, request)).decode()


def answered_rows(query: str, **context: Any) -> list[list[Any]]:
    """The rows of an answer over the tables of the cases."""
    body: list[list[Any]] = json.loads(answer(SqlRequest(query, context, result_format=ResultFormat.ARRAY)))
    return body
