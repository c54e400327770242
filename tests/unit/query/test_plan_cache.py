"""Plans of statements are used again while the tables and lookups they look at are as they were, and only then."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from query.errors import UnknownName
from query.model import PlannedQuery, SqlParameter, SqlRequest
from query.plan_cache import PlanCache
from query.sql.catalogue import ColumnDef, MemoryCatalogue, TableDef
from query.sql.planner import plan
from query.sql.types import BIGINT, DOUBLE, VARCHAR
from tests.unit.query.rows import NOW_MS

T = TableDef("t", (ColumnDef("s", VARCHAR), ColumnDef("n", BIGINT)))
SUM = "SELECT s, SUM(n) AS x FROM t WHERE LOOKUP(s, 'names') IS NOT NULL GROUP BY 1"


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


@pytest.mark.parametrize("now", ["CURRENT_TIMESTAMP", "CURRENT_DATE"])
def test_what_says_the_time_is_planned_each_time(now: str) -> None:
    node, sql = Node(), f"SELECT COUNT(*) FROM t WHERE {now} > TIMESTAMP '2024-01-01'"
    first, day_ms = node.plan(sql), 86_400_000
    assert node.plan(sql, at_ms=NOW_MS + day_ms).duckdb_sql != first.duckdb_sql and node.cache.hits == 0
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
