"""Plans a request: from Druid SQL to one DuckDB SELECT over named relations, without touching any data."""

from __future__ import annotations

import json

from sqlglot import exp

from query.errors import InvalidQuery, QueryError, SqlParseError
from query.lanes import LOW_LANES
from query.model import PlannedQuery, ResultColumn, SqlRequest
from query.sql import (
    aggregates,
    aggregates_quantile,
    aggregates_sketch,
    choices,
    comparison,
    functions_address,
    functions_bloom,
    functions_format,
    functions_json,
    functions_list,
    functions_lookup,
    functions_numeric,
    functions_sketch,
    functions_spelling,
    functions_string,
    functions_time,
    operators,
    subqueries,
    windows,
)
from query.sql.calendar_math import known_zone, parse_time_ms
from query.sql.catalogue import Catalogue
from query.sql.dialect import Statement, parse_statement
from query.sql.frame import LARGEST_CHARS, Frame, Session, is_aggregate
from query.sql.parameters import number_markers
from query.sql.relations import Plan
from query.sql.scope import Output, Scope
from query.sql.select import QueryPlanner, row_count
from query.sql.splitting import split
from query.sql.term import text_sql
from query.sql.types import VARCHAR

SMALL_ROWS = 100
_GROWTH = 20
"""How many times a statement and its parameters one expression of it may become."""
# Importing a module of rules registers them.
RULES = (
    aggregates,
    aggregates_quantile,
    aggregates_sketch,
    choices,
    comparison,
    functions_address,
    functions_bloom,
    functions_format,
    functions_json,
    functions_list,
    functions_lookup,
    functions_numeric,
    functions_sketch,
    functions_spelling,
    functions_string,
    functions_time,
    operators,
    subqueries,
    windows,
)


def plan(request: SqlRequest, catalogue: Catalogue, now_ms: int, parsed: Statement | None = None, /) -> PlannedQuery:
    """Translates a request; ``now_ms`` is what CURRENT_TIMESTAMP means throughout. ``parsed`` is its statement where
    that was read already; it is changed. Pure.

    Raises:
        QueryError: the statement or the request cannot be answered; nothing was run.
    """
    try:
        return _planned(request, catalogue, now_ms, parsed)
    except RecursionError as error:
        raise SqlParseError("the statement is nested too deeply") from error
    except QueryError as error:
        error.placed()
        raise


def _planned(request: SqlRequest, catalogue: Catalogue, now_ms: int, parsed: Statement | None) -> PlannedQuery:
    if (request.types_header or request.sql_types_header) and not request.header:
        raise InvalidQuery("typesHeader and sqlTypesHeader need header: true")
    statement = parsed or parse_statement(request.query)
    context = {**request.context, **statement.settings}
    zone = known_zone(str(context.get("sqlTimeZone") or "UTC"))
    planner = QueryPlanner()
    session = Session(catalogue, zone, _now_ms(context, now_ms), planner, request.parameters)
    given = len(request.query) + sum(len(str(parameter.value)) for parameter in request.parameters)
    session.large_chars = max(LARGEST_CHARS, _GROWTH * given)
    number_markers(session, statement.tree)
    _limit_outside(session, statement.tree, whole_number(context, "sqlOuterLimit"))
    planned = planner.plan(session, statement.tree)
    tables = tuple(table.closed() for table in session.tables)
    parted = None if statement.explain else split(session, statement.tree, tables)
    if statement.explain:
        names = sorted({table.datasource for table in tables if table.is_stored})
        planned, tables = _explained(planned, names), ()
        session.functions.clear()
    query_id = context.get("sqlQueryId")
    return PlannedQuery(
        tables,
        planned.sql,
        tuple(_result_column(column) for column in planned.columns),
        None if query_id is None else str(query_id),
        zone,
        whole_number(context, "timeout") or 0,
        flag(context, "sqlStringifyArrays", True),
        tuple(session.functions.values()),
        *urgency(context.get("priority"), context.get("lane")),
        flag(context, "useCache", True),
        not session.told_time or "sqlCurrentTimestamp" in context,
        statement.explain or _is_small(statement.tree),
        parted,
        populate_cache=flag(context, "populateCache", True),
    )


def urgency(priority: object, lane: object) -> tuple[int, bool]:
    """A context's ``priority`` (any whole number), and whether the query can wait: by a negative one, or its ``lane``.

    Raises:
        InvalidQuery: the priority is no number.
    """
    try:
        number = 0 if priority is None or isinstance(priority, bool) else int(str(priority))
    except ValueError as error:
        raise InvalidQuery(f"context priority: {priority!r} is not a whole number") from error
    return number, number < 0 or lane in LOW_LANES


def _result_column(column: Output) -> ResultColumn:
    return ResultColumn(column.name, column.type.druid, column.type.name, column.type)


def _now_ms(context: dict[str, object], now_ms: int) -> int:
    given = context.get("sqlCurrentTimestamp")
    if given is None:
        return now_ms
    value_ms = parse_time_ms(str(given), "UTC")
    if value_ms is None:
        raise InvalidQuery(f"context sqlCurrentTimestamp: {given!r} is not an ISO 8601 time")
    return value_ms


def whole_number(context: dict[str, object], key: str) -> int | None:
    """A context value that is a number, not negative; None when it is not set.

    Raises:
        InvalidQuery: it is something else.
    """
    value = context.get(key)
    if value is None:
        return None
    try:
        number = int(str(value))
    except ValueError:
        number = -1
    if number < 0 or isinstance(value, bool):
        raise InvalidQuery(f"context {key}: {value!r} is not a whole number, 0 or more")
    return number


def flag(context: dict[str, object], key: str, default: bool) -> bool:
    """A context value that is true or false, also as text.

    Raises:
        InvalidQuery: it is something else.
    """
    value = context.get(key)
    if value is None:
        return default
    if str(value).lower() in ("true", "false"):
        return str(value).lower() == "true"
    raise InvalidQuery(f"context {key}: {value!r} is neither true nor false")


def _limit_outside(session: Session, tree: exp.Expr, limit: int | None) -> None:
    """Lowers the statement's own limit, so that its order is kept."""
    if limit is None:
        return
    own = tree.args.get("limit")
    if own is not None:
        written = own.args.get("count") if isinstance(own, exp.Fetch) else own.expression
        limit = min(limit, row_count(Frame(session, Scope()), written or exp.Literal.number(1)))
    if isinstance(tree, exp.Values):
        return
    tree.set("limit", exp.Limit(expression=exp.Literal.number(limit)))


def _is_small(tree: exp.Expr) -> bool:
    """Whether it says of itself that it gives few rows: by its limit, or as one row of aggregates."""
    limit = tree.args.get("limit")
    if isinstance(limit, exp.Limit) and isinstance(limit.expression, exp.Literal) and limit.expression.is_int:
        return int(limit.expression.this) <= SMALL_ROWS
    if not isinstance(tree, exp.Select) or tree.args.get("group"):
        return False
    cells = [cell.unalias() for cell in tree.expressions]
    return any(is_aggregate(cell.this if isinstance(cell, exp.Filter) else cell) for cell in cells)


def _explained(planned: Plan, tables: list[str]) -> Plan:
    """EXPLAIN's one row: the plan, what it reads, and the kind of statement."""
    query = {"queryType": "duckdb", "sql": planned.sql}
    signature = [{"name": column.internal, "type": column.type.druid} for column in planned.columns]
    mappings = [{"queryColumn": column.internal, "outputColumn": column.name} for column in planned.columns]
    steps = [{"query": query, "signature": signature, "columnMappings": mappings}]
    resources = [{"name": name, "type": "DATASOURCE"} for name in tables]
    cells = {"PLAN": steps, "RESOURCES": resources, "ATTRIBUTES": {"statementType": "SELECT"}}
    sql = ", ".join(f"{text_sql(json.dumps(cell))} AS o{at}" for at, cell in enumerate(cells.values()))
    return Plan(f"SELECT {sql}", tuple(Output(name, f"o{at}", VARCHAR) for at, name in enumerate(cells)))
