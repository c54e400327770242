"""Plans of statements are used again while the tables and lookups they look at are as they were, and only then."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from query.errors import QueryError, UnknownName
from query.model import PlannedQuery, SqlParameter, SqlRequest
from query.native import planner as native
from query.native.plan import NativePlan
from query.plan_cache import NativePlanCache, PlanCache
from query.sql.catalogue import ColumnDef, MemoryCatalogue, TableDef
from query.sql.planner import plan
from query.sql.types import BIGINT, DOUBLE, VARCHAR
from tests.conformance.native import RecordedCatalogue, catalogue
from tests.unit.query.rows import NOW_MS

T = TableDef("t", (ColumnDef("s", VARCHAR), ColumnDef("n", BIGINT)))
SUM = "SELECT s, SUM(n) AS x FROM t WHERE LOOKUP(s, 'names') IS NOT NULL GROUP BY 1"


class Moved(RecordedCatalogue):
    """The same tables with rows of other times."""

    def time_range(self, name: str) -> tuple[int, int] | None:
        return 0, 1


class Node:
    """A cache over tables that change; each question is bound anew, as a query is."""

    def __init__(self, most: int = 100) -> None:
        self.tables, self.lookups = [T], {"names": {"a": "b"}}
        self.cache = PlanCache(plan, most)

    def plan(self, sql: str, *parameters: SqlParameter, at_ms: int = NOW_MS, **context: Any) -> PlannedQuery:
        request = SqlRequest(sql, context, parameters)
        catalogue = MemoryCatalogue(self.tables, self.lookups)
        found = self.cache.plan(request, catalogue, at_ms)
        assert found == plan(request, catalogue, at_ms), "the plan that it always had"
        return found


def test_the_same_statement_is_planned_once_and_keeps_its_own_id() -> None:
    node = Node()
    first, second = node.plan(SUM, sqlQueryId="a"), node.plan(SUM, sqlQueryId="b", panel=7)
    assert (first.query_id, second.query_id, node.cache.hits) == ("a", "b", 1)
    assert second.tables is first.tables and replace(second, query_id="a") == first
    assert node.plan("SELECT 1 FROM t WHERE s = ?", SqlParameter("VARCHAR", "x")).duckdb_sql
    assert node.plan("SELECT 1 FROM t WHERE s = ?", SqlParameter("VARCHAR", "y")).duckdb_sql
    for context in ({"sqlTimeZone": "Asia/Tokyo"}, {"sqlOuterLimit": 5}, {"timeout": 9}, {"priority": 1}):
        node.plan(SUM, **context)
    node.plan(SUM, useCache=False)
    node.plan(SUM, useCache="false")
    assert node.cache.hits == 1


def test_a_plan_ends_when_its_tables_or_lookups_change() -> None:
    node = Node()
    before = node.plan(SUM)
    node.tables = [replace(T, columns=(*T.columns[:1], ColumnDef("n", DOUBLE)))]
    assert node.plan(SUM) != before and node.cache.hits == 0
    # The same columns, told anew: the plan holds.
    node.tables = [replace(node.tables[0], columns=tuple(list(node.tables[0].columns)))]
    node.plan(SUM)
    assert node.cache.hits == 1
    for tables, lookups in (([T], {}), ([], node.lookups)):
        node.tables, node.lookups = list(tables), dict(lookups)
        with pytest.raises(UnknownName):
            node.plan(SUM)
    assert node.cache.hits == 1


@pytest.mark.parametrize("now", ["CURRENT_TIMESTAMP", "CURRENT_DATE", "LOCALTIMESTAMP"])
def test_what_says_the_time_is_planned_each_time_but_read_once(now: str) -> None:
    node, sql = Node(), f"SELECT COUNT(*) FROM t WHERE {now} > TIMESTAMP '2024-01-01' LIMIT 7"
    first, day_ms = node.plan(sql, sqlOuterLimit=3), 86_400_000
    assert node.plan(sql, at_ms=NOW_MS + day_ms).duckdb_sql != first.duckdb_sql and node.cache.hits == 0
    # What the planner changes of a statement is not seen by the next.
    node.plan(sql, sqlOuterLimit=5)
    assert node.plan(sql, sqlOuterLimit=3) == first and node.cache.parsed_hits == 3
    for at_ms in (NOW_MS, NOW_MS + day_ms):
        node.plan(sql, at_ms=at_ms, sqlCurrentTimestamp="2025-05-05T00:00:00Z")
    assert node.cache.hits == 1


def test_the_least_recently_used_plans_go_first_and_long_statements_are_not_kept() -> None:
    node = Node(most=2)
    for sql in ("SELECT 1", "SELECT 2", "SELECT 1", "SELECT 3", "SELECT 1", "SELECT 2"):
        node.plan(sql)
    assert node.cache.hits == 2
    long = f"SELECT '{'x' * 20_000}'"
    for _ in range(2):
        node.plan(long)
    assert node.cache.hits == 2


def test_a_native_query_is_planned_once_until_what_it_asks_changes() -> None:
    cache = NativePlanCache(native.plan)
    hours = {"queryType": "timeseries", "dataSource": "events", "granularity": "hour", "intervals": "2024/2025"}
    query: dict[str, Any] = hours | {"aggregations": [{"type": "count", "name": "n"}]}
    known: Any = catalogue()

    def planned(body: Any) -> NativePlan:
        found = cache.plan(body, known, NOW_MS)
        assert found == native.plan(body, known, NOW_MS), "the plan that it always had"
        return found

    first, second = planned(query | {"context": {"queryId": "a"}}), planned(query | {"context": {"queryId": "b"}})
    assert (first.planned.query_id, second.planned.query_id, cache.hits) == ("a", "b", 1)
    for change in ({"granularity": "day"}, {"filter": {"type": "false"}}, {"context": {"skipEmptyBuckets": True}}):
        planned(query | change)
    assert cache.hits == 1
    known = Moved((known.table("events"),), known.lookups)
    planned(query | {"context": {}})
    planned(query | {"context": {}})
    assert cache.hits == 2
    described = {"queryType": "segmentMetadata", "dataSource": "events"}
    planned(described)
    planned(described)
    with pytest.raises(QueryError):
        cache.plan("no query", known, NOW_MS)
    assert cache.hits == 2
