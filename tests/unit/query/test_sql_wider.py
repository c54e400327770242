"""Forms of statements as a running Druid 33 took them: ALL and ANY, natural joins, aliases, texts, rounding."""

from __future__ import annotations

from typing import Any

import pytest

from query.errors import InvalidQuery, UnsupportedQuery
from tests.conformance.engine import answered_rows
from tests.unit.query.rows import ask, one, planned, table

ROWS = table(n=[1, 2, 3, 4], s=["a", "b", "a", None], d=[0.5, 1.5, 2.5, None], mv=[["x", "y"], ["z"], [], None])


@pytest.mark.parametrize(
    ("condition", "count"),
    [
        ("n > ALL (SELECT 2)", 2),
        ("n >= ANY (SELECT n FROM t WHERE n > 2)", 2),
        ("n = SOME (SELECT n FROM t WHERE n > 2)", 2),
        ("n <> ALL (SELECT n FROM t WHERE n > 2)", 2),
        ("n < ALL (SELECT n FROM t WHERE n > 9)", 4),
        ("n < ANY (SELECT n FROM t WHERE n > 9)", 0),
        ("s = ANY (SELECT s FROM t)", 3),
        ("n = ANY (SELECT '3')", 1),
        ("n BETWEEN SYMMETRIC 3 AND 2", 2),
        ("n NOT BETWEEN SYMMETRIC 3 AND 2", 2),
        ("n BETWEEN ASYMMETRIC 3 AND 2", 0),
    ],
)
def test_quantified_comparisons_and_symmetric_bounds(condition: str, count: int) -> None:
    assert ask(f"SELECT COUNT(*) FROM t WHERE {condition}", ROWS) == [[count]]


def test_a_quantified_comparison_needs_a_query_of_one_column() -> None:
    for condition in ("n > ALL (SELECT n, s FROM t)", "mv = ANY (SELECT s FROM t)"):
        with pytest.raises(InvalidQuery):
            planned(f"SELECT 1 FROM t WHERE {condition}")


def test_symmetric_bounds_of_the_time_leave_no_file_out() -> None:
    between = "SELECT n FROM t WHERE __time BETWEEN {} TIMESTAMP '2024-03-01' AND TIMESTAMP '2024-02-01'"
    assert planned(between.format("SYMMETRIC")).tables[0].time_bounds == (None, None)
    assert planned(between.format("")).tables[0].time_bounds != (None, None)
    assert answered_rows(f"SELECT COUNT(*) FROM events WHERE {between.format('SYMMETRIC').split('WHERE ')[1]}") != [[0]]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("ARRAY_TO_STRING({}, '-')", '1-x-{"b":2}-null'),
        ("ARRAY_CONTAINS({}, 'x')", True),
        ("ARRAY_CONTAINS({}, 1)", True),
        ("SCALAR_IN_ARRAY('x', {})", True),
        ("ARRAY_OFFSET_OF({}, 'x')", 1),
        ("ARRAY_OVERLAP({}, ARRAY['x'])", True),
        ("ARRAY_LENGTH(ARRAY_APPEND({}, 'q'))", 5),
        ("JSON_VALUE(ARRAY_OFFSET({}, 2), '$.b' RETURNING BIGINT)", 2),
        ("TO_JSON_STRING({})", '[1,"x",{"b":2},null]'),
        ("TO_JSON_STRING(JSON_OBJECT('k': {}))", '{"k":[1,"x",{"b":2},null]}'),
        ("ARRAY_TO_STRING(CAST({} AS VARCHAR ARRAY), '+')", '1+x+{"b":2}+null'),
        ("MV_TO_STRING(ARRAY_TO_MV({}), '+')", '1+x+{"b":2}+null'),
    ],
)
def test_members_of_a_json_list_are_values_where_texts_are_asked_for(expression: str, value: Any) -> None:
    listed = """JSON_QUERY_ARRAY(PARSE_JSON('{"a":[1,"x",{"b":2},null]}'), '$.a')"""
    assert one(expression.format(listed)) == value


def test_a_natural_join_is_one_by_all_shared_names() -> None:
    left, right = "(VALUES (1, 'a'), (2, 'b')) AS v(x, y)", "(VALUES (1, 'c'), (3, 'd')) AS w(x, z)"
    assert ask(f"SELECT * FROM {left} NATURAL JOIN {right}") == [[1, "a", "c"]]
    assert ask(f"SELECT x, y, z FROM {left} NATURAL LEFT JOIN {right} ORDER BY 1") == [[1, "a", "c"], [2, "b", None]]
    assert ask(f"SELECT COUNT(*) FROM {left} NATURAL JOIN (VALUES (7)) AS w(q)") == [[2]]
    again = "JOIN (VALUES (1, 'e')) AS u(x, q) USING (x)"
    assert ask(f"SELECT * FROM {left} JOIN {right} USING (x) {again}") == [[1, "a", "c", "e"]]
    with pytest.raises(UnsupportedQuery, match="ASOF"):
        planned("SELECT 1 FROM t ASOF JOIN t AS u ON t.n = u.n")


@pytest.mark.parametrize(
    ("from_", "rows"),
    [
        ("(t a JOIN t b ON a.n = b.n + 1) JOIN t c ON c.n = a.n", [[2, 1, 2], [3, 2, 3], [4, 3, 4]]),
        ("t a LEFT JOIN (t b JOIN t c ON b.n = c.n + 2) ON a.n = b.n WHERE a.n > 2", [[3, 3, 1], [4, 4, 2]]),
        ("((t a CROSS JOIN t b)) JOIN (t c) ON c.n = a.n AND b.n = 9 - c.n", []),
        ("((SELECT 1 AS n) a JOIN t b ON a.n = b.n) LEFT JOIN t c ON FALSE", [[1, 1, None]]),
    ],
)
def test_joins_stand_in_brackets(from_: str, rows: Any) -> None:
    assert ask(f"SELECT a.n, b.n, c.n FROM {from_} ORDER BY 1", ROWS) == rows


def test_a_join_in_brackets_sees_its_own_tables_only() -> None:
    with pytest.raises(InvalidQuery, match="Table 'a' not found"):
        planned("SELECT 1 FROM t a JOIN (t b JOIN t c ON a.n = c.n) ON a.n = b.n")
    with pytest.raises(UnsupportedQuery, match="no name of its own"):
        planned("SELECT 1 FROM (t a JOIN t b ON a.n = b.n) AS c")


def test_having_sees_names_of_the_select_list() -> None:
    grouped = "SELECT s AS k, COUNT(*) AS c FROM t GROUP BY 1 HAVING c > 1 AND k IS NOT NULL"
    assert ask(grouped, ROWS) == [["a", 2]]
    assert ask("SELECT s, SUM(n) AS total FROM t GROUP BY s HAVING total / 2 = 2 ORDER BY total", ROWS) == [
        ["a", 4],
        [None, 4],
    ]
    with pytest.raises(InvalidQuery, match="'cc' not found"):
        planned("SELECT s, COUNT(*) AS c FROM t GROUP BY s HAVING cc > 1")


def test_a_multi_value_string_is_aggregated_as_one_text() -> None:
    assert ask("SELECT ANY_VALUE(mv) FROM t WHERE n = 1", ROWS) == [["[x, y]"]]
    by_n = "SELECT EARLIEST_BY(mv, MILLIS_TO_TIMESTAMP(n)), LATEST_BY(mv, MILLIS_TO_TIMESTAMP(n)) FROM t WHERE n < 3"
    assert ask(by_n, ROWS) == [["[x, y]", "z"]]
    assert ask("SELECT EARLIEST_BY(mv, MILLIS_TO_TIMESTAMP(n), 3) FROM t", ROWS) == [["[x,"]]


@pytest.mark.parametrize(
    "explain",
    [
        "EXPLAIN PLAN FOR",
        "EXPLAIN PLAN WITHOUT IMPLEMENTATION FOR",
        "EXPLAIN PLAN WITH IMPLEMENTATION FOR",
        "explain plan including all attributes for",
        "EXPLAIN PLAN EXCLUDING ATTRIBUTES FOR",
    ],
)
def test_explain_is_read_in_all_its_spellings(explain: str) -> None:
    assert len(ask(f"{explain} SELECT n FROM t")[0]) == 3


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        (r"U&'\00fcx'", "üx"),
        (r"U&'a\\b\+01F600'", "a\\b😀"),
        ("REPLACE('', '', 'x')", "x"),
        ("REPLACE(CAST(NULL AS VARCHAR), '', 'x')", None),
        ("RPAD('abc', 2, '')", "ab"),
        ("ROUND(-1.005, 2)", -1.01),
        ("ROUND(0.15, 1)", 0.2),
        ("ROUND(1e300, 2)", 1e300),
        ("ROUND(123456789.125, 2)", 123456789.13),
        ("MOD(5.5, -2)", 1.5),
        ("REGEXP_EXTRACT('x', '(a)|(x)', 1)", None),
        ("REGEXP_EXTRACT('abc', 'b(c?)', 1)", "c"),
        ("CAST(123456789.0 AS VARCHAR)", "1.23456789E8"),
        ("CAST(0.00001 * 1 AS VARCHAR)", "1.0E-5"),
        ("ARRAY_CONTAINS(ARRAY[1, NULL], NULL)", True),
        ("ARRAY_SLICE(ARRAY[1, 2, 3], 4, 5)", None),
    ],
)
def test_values_are_those_of_java(expression: str, value: Any) -> None:
    assert one(expression) == value


def test_what_names_no_character_is_refused() -> None:
    with pytest.raises(InvalidQuery, match="names no character"):
        one(r"U&'\d800'")


def test_a_slice_far_beyond_its_end_makes_no_endless_list() -> None:
    assert one("ARRAY_LENGTH(ARRAY_SLICE(ARRAY[1], 0, 9000000000))") == 10_001


@pytest.mark.parametrize(
    ("expression", "answer"),
    [
        ("REPLACE(s, S, d)", "x1.5x"),
        ("REPLACE(s, CASE WHEN n = 1 THEN '' ELSE 'a' END, S)", "yxyyyxy"),
        ("FLOOR(TIME_PARSE(mv) TO YEAR) = TIME_FLOOR(TIME_PARSE(mv), 'P1Y')", True),
        ("EXTRACT(MONTH FROM TIME_PARSE(mv))", "[3]"),
        ("STRLEN(mv) = mv", False),
        ("MV_CONTAINS(STRING_TO_MV('10,2', ','), STRLEN(mv))", True),
        ("STRLEN(mv) = STRING_TO_MV('9,10', ',')", True),
    ],
)
def test_what_only_columns_and_lists_of_numbers_bring_about(expression: str, answer: object) -> None:
    rows = table(n=[1], s=["xyx"], S=["y"], d=[1.5], mv=[["2024-03-04"]])
    assert ask(f"SELECT {expression} FROM t", rows) == [[answer]]
