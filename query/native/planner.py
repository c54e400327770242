"""Plans a native query: from its JSON to one DuckDB SELECT over named relations and the shape of the answer."""

from __future__ import annotations

import difflib
from dataclasses import replace
from typing import Any

from query.errors import InvalidQuery, UnsupportedQuery
from query.model import PlannedQuery, TableUse
from query.native import expression_functions
from query.native.group_by import group_by
from query.native.metadata import data_source_metadata, segment_metadata, time_boundary
from query.native.plan import Draft, NativeCatalogue, NativePlan, Setting, TypePlanner
from query.native.request import Part, part_of
from query.native.scan import scan, search
from query.native.timeseries import timeseries, top_n
from query.splits import CannotSplit, Split, Splitting
from query.sql import planner as sql_planner
from query.sql.frame import Session
from query.sql.planner import urgency
from query.sql.scope import Output
from query.sql.select import QueryPlanner

# Importing modules of rules registers them; those of SQL serve here as well.
RULES = (expression_functions, *sql_planner.RULES)

DEEPEST = 20
"""Queries inside each other."""
QUERY_TYPES: dict[str, TypePlanner] = {
    "timeseries": timeseries,
    "topN": top_n,
    "groupBy": group_by,
    "scan": scan,
    "search": search,
    "timeBoundary": time_boundary,
    "segmentMetadata": segment_metadata,
    "dataSourceMetadata": data_source_metadata,
}
_GROUPING = ("timeseries", "topN", "groupBy")
_NOT_BUILT = ("select", "windowOperator", "union", "unionQuery", "movingAverage", "materializedView")


def plan(body: Any, catalogue: NativeCatalogue, now_ms: int, /) -> NativePlan:
    """Translates a query object. Pure.

    Raises:
        QueryError: it cannot be answered; nothing was run.
    """
    query = part_of(body, "")
    session = Session(catalogue, "UTC", now_ms, QueryPlanner())
    setting = _setting(query, session, catalogue)
    try:
        draft = _drafted(setting)
    except RecursionError as error:
        raise InvalidQuery("the query is nested too deeply") from error
    context = setting.context
    query_id = context.get("queryId")
    tables = tuple(table.closed() for table in session.tables)
    planned = PlannedQuery(
        tables,
        draft.sql,
        draft.result_columns,
        None if query_id is None else str(query_id),
        "UTC",
        context.whole("timeout", 0) or 0,
        False,
        tuple(session.functions.values()),
        *urgency(context.get("priority"), context.get("lane")),
        context.flag("useCache", True),
        populate_cache=context.flag("populateCache", True),
        split=_split(setting, tables) if _is_plain(query, session, tables) else None,
    )
    return NativePlan(planned, draft.shape)


def _setting(query: Part, session: Session, catalogue: NativeCatalogue) -> Setting:
    setting = Setting(query, session, catalogue, lambda _, part: _inner(setting, part, 1))
    return setting


def _is_plain(query: Part, session: Session, tables: tuple[TableUse, ...]) -> bool:
    """Whether it groups the rows of one stored table, of which more is asked than how many they are."""
    source = query.get("dataSource")
    is_table = isinstance(source, str) or (isinstance(source, dict) and source.get("type") == "table")
    if not is_table or query.get("queryType") not in _GROUPING or session.told_time or len(tables) != 1:
        return False
    return tables[0].is_stored and not tables[0].counts_only and not tables[0].within_bounds


def _split(setting: Setting, tables: tuple[TableUse, ...]) -> Split | None:
    """The query in groups of parts and what is made of them, if that is the same to the last bit."""
    session, splitting = setting.session, Splitting()
    second = Session(session.catalogue, session.zone, session.now_ms, QueryPlanner(), splitting=splitting)
    try:
        final = _drafted(_setting(setting.query, second, setting.catalogue)).sql
    except CannotSplit:
        return None
    same_tables = tuple(table.closed() for table in second.tables) == tables
    return splitting.split(final) if same_tables and second.functions == session.functions else None


def _drafted(setting: Setting) -> Draft:
    if setting.context.flag("bySegment"):
        raise UnsupportedQuery("context bySegment is not supported: a query sees a table as a whole")
    name = setting.query.text("queryType")
    planner = QUERY_TYPES.get(name)
    if planner is None:
        if name in _NOT_BUILT:
            raise UnsupportedQuery(f"queryType: {name!r} is not supported")
        near = difflib.get_close_matches(name, QUERY_TYPES, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(QUERY_TYPES)}"
        raise InvalidQuery(f"queryType: {name!r} is unknown{hint}")
    return planner(setting)


def _inner(outer: Setting, query: Part, depth: int) -> tuple[str, tuple[Output, ...]]:
    """A query that is the data source of another."""
    if depth > DEEPEST:
        raise InvalidQuery(f"{query.path}: queries are nested deeper than {DEEPEST}")
    setting = replace(outer, query=query, subquery=lambda _, part: _inner(outer, part, depth + 1))
    draft = _drafted(setting)
    if draft.inner is None:
        raise UnsupportedQuery(f"{query.at('queryType')}: {query.text('queryType')!r} is no data source")
    return draft.inner()
