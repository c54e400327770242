"""PIVOT, UNPIVOT, subqueries that see the query around them, Java's patterns, and texts that would grow too long."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

from query.errors import InvalidQuery, QueryError, ResourceLimitExceeded, UnknownName
from tests.unit.query.rows import ask, one, planned, table

GROUPED, ALL = [["a", 3, 2], ["b", 3, 1]], [[1], [2], [3]]
SOURCE = "SELECT * FROM (SELECT s, S, n FROM t)"
ROWS = table(s=["a", "a", "b"], S=["x", "y", "x"], n=[1, 2, 3], d=[1.0, None, 3.0])


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        (
            f"{SOURCE} PIVOT (SUM(n) AS total, COUNT(*) AS c FOR S IN ('x' AS ex, 'y')) ORDER BY s",
            [["a", 1, 1, 2, 1], ["b", 3, 1, None, 0]],
        ),
        (f"{SOURCE} PIVOT (SUM(n) FOR S IN ('x' AS ex)) AS p ORDER BY p.s", [["a", 1], ["b", 3]]),
        ("SELECT * FROM (SELECT S, s, n FROM t) PIVOT (MAX(n) FOR (S, s) IN (('x', 'b') AS xb))", [[3]]),
        (
            "SELECT * FROM (SELECT s, n, d FROM t) UNPIVOT (v FOR k IN (n, d AS 'dee')) ORDER BY s, k, v",
            [["a", "dee", 1.0], ["a", "n", 1.0], ["a", "n", 2.0], ["b", "dee", 3.0], ["b", "n", 3.0]],
        ),
        ("SELECT COUNT(*) FROM (SELECT n, d FROM t) UNPIVOT INCLUDE NULLS (v FOR k IN (n, d))", [[6]]),
    ],
)  # fmt: skip
def test_pivot_and_unpivot_turn_rows_to_columns_and_back(query: str, answer: Any) -> None:
    assert ask(query, ROWS) == answer


def test_what_stands_before_the_first_and_behind_the_last_row_may_be_said() -> None:
    asked = "SELECT LAG(n, 1, 2.5) OVER w, LEAD(s, 2, 'none') OVER w, LEAD(n, 3) OVER w FROM t WINDOW w AS (ORDER BY n)"
    assert ask(asked, ROWS) == [[2.5, "b", None], [1.0, "none", None], [2.0, "none", None]]
    with pytest.raises(InvalidQuery, match="LAG: BIGINT and its default"):
        ask("SELECT LAG(n, 1, ARRAY[1]) OVER (ORDER BY n) FROM t", ROWS)


def test_a_pivots_columns_are_named_by_value_and_aggregate() -> None:
    query = "SELECT * FROM (SELECT S, n FROM t) PIVOT (SUM(n), COUNT(*) AS c FOR S IN ('x' AS ex, 'y'))"
    assert [column.name for column in planned(query).result_columns] == ["ex", "ex_c", "'y'", "'y'_c"]


def test_a_pivot_reads_its_source_once_and_takes_parameters() -> None:
    query = "SELECT * FROM (SELECT s, S, n FROM t WHERE n > ?) PIVOT (SUM(n) FOR S IN ('x' AS ex, ?)) ORDER BY s"
    parameters = (("BIGINT", 1), ("VARCHAR", "y"))
    assert ask(query, ROWS, parameters) == [["a", None, 2], ["b", 3, None]]
    assert len(planned("SELECT * FROM (SELECT S, n FROM t) PIVOT (SUM(n) FOR S IN ('x'))").tables) == 1


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("SELECT * FROM t UNPIVOT (v FOR k IN (nope))", "'nope'"),
        ("SELECT * FROM t PIVOT (SUM(n) FOR (S, s) IN ('x'))", "1 values for 2 columns"),
        ("SELECT * FROM t PIVOT (n FOR S IN ('x'))", "aggregation function"),
    ],
)
def test_what_is_no_pivot_is_refused(query: str, told: str) -> None:
    with pytest.raises(QueryError) as refused:
        planned(query)
    assert told in refused.value.message


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("SELECT n, (SELECT MAX(n) FROM t i WHERE i.s = o.s) FROM t o ORDER BY n", [[1, 2], [2, 2], [3, 3]]),
        ("SELECT n FROM t o WHERE EXISTS (SELECT 1 FROM t i WHERE i.n > o.n AND i.s = o.s)", [[1]]),
        ("SELECT n FROM t o WHERE n = (SELECT MIN(n) FROM t i WHERE i.s = o.s) ORDER BY n", [[1], [3]]),
        ("SELECT n FROM t o WHERE n + 2 IN (SELECT n FROM t i WHERE i.S = o.S) ORDER BY n", [[1]]),
        ("SELECT s, SUM(n), (SELECT COUNT(*) FROM t i WHERE i.s = o.s) FROM t o GROUP BY s ORDER BY s", GROUPED),
        ("SELECT n FROM t o WHERE (SELECT SUM(i.n) FROM t i WHERE i.s = o.s GROUP BY o.s) = 3 ORDER BY n", ALL),
    ],
)  # fmt: skip
def test_a_subquery_sees_the_columns_of_the_query_around_it(query: str, answer: Any) -> None:
    assert ask(query, ROWS) == answer


def test_a_time_of_the_query_around_prunes_nothing_of_it() -> None:
    query = "SELECT n FROM t o WHERE NOT EXISTS (SELECT 1 FROM t i WHERE o.__time > TIMESTAMP '2030-01-01')"
    assert all(use.time_bounds == (None, None) for use in planned(query).tables)
    assert len(ask(query, ROWS)) == 3


def test_a_query_that_stands_by_itself_sees_nothing_around_it() -> None:
    with pytest.raises(UnknownName):
        planned("SELECT (SELECT MAX(m) FROM (SELECT i.n AS m FROM t i WHERE i.n = o.n) AS q) FROM t o")
    with pytest.raises(InvalidQuery, match="not being grouped"):
        planned("SELECT s, (SELECT MAX(i.n) FROM t i WHERE i.n = o.n) FROM t o GROUP BY s")


@pytest.mark.parametrize(
    ("expression", "answer"),
    [
        ("REGEXP_LIKE('abc', 'a(?=b)')", True),
        ("REGEXP_LIKE('abc', 'a(?!b)')", False),
        ("REGEXP_REPLACE('a1b2', '(?<=[a-z])([0-9])', '<$1>')", "a<1>b<2>"),
        ("REGEXP_EXTRACT('abab', '(?<two>ab)\\k<two>', 1)", "ab"),
        ("REGEXP_EXTRACT('xyz', '(.)\\1')", None),
        ("REGEXP_LIKE('aaa', 'a++a')", False),
        ("PARSE_LONG('-zz', 36)", -1295),
        ("PARSE_LONG('8', 8)", None),
        ("IPV6_MATCH('not one', '::/0')", False),
    ],
)
def test_patterns_and_numbers_that_the_engine_cannot_read_are_read_as_java_does(expression: str, answer: Any) -> None:
    assert one(expression) == answer


@pytest.mark.parametrize(
    "expression", ["REPEAT('ab', 2000000000)", "LPAD('a', 2000000000)", "RPAD('a', 2000000000, 'xy')"]
)
def test_a_constant_text_that_would_be_too_long_is_refused_before_it_is_made(expression: str) -> None:
    with pytest.raises(ResourceLimitExceeded, match="more than 16777216 characters"):
        planned(f"SELECT {expression} FROM t")


@pytest.mark.parametrize(
    "expression", ["REPEAT(s, n * 2000000000)", "LPAD(s, n * 2000000000)", "REPEAT(REPEAT(s, 16000), n * 2000)"]
)
def test_a_text_that_grows_too_long_while_rows_are_read_is_refused(expression: str) -> None:
    with pytest.raises(duckdb.InvalidInputException, match="more than 16777216 characters"):
        ask(f"SELECT {expression} FROM t", ROWS)
