"""Errors say what is wrong, where, and what was probably meant, in Druid's body."""

import pytest

from query.errors import InvalidQuery, QueryError, SqlParseError, UnknownName, UnsupportedQuery
from query.model import SqlRequest
from query.sql.planner import plan
from tests.unit.query.rows import catalogue, planned


@pytest.mark.parametrize(
    ("statement", "line", "column", "near"),
    [
        ("SELECT\n  nn\nFROM t", "2", "3", "n"),
        ("SELECT n FROM tt", "1", "15", "t"),
        ("SELECT n,\n UPER(s) FROM t", "2", "2", "UPPER"),
        ("SELECT x.n FROM t", "1", "8", None),
        ("SELECT __tim FROM t", "1", "8", "__time"),
    ],
)
def test_an_unknown_name_is_placed_and_the_nearest_offered(
    statement: str, line: str, column: str, near: str | None
) -> None:
    with pytest.raises(UnknownName) as found:
        planned(statement)
    context = found.value.context
    assert (context["sourceType"], context["line"], context["column"]) == ("sql", line, column)
    if near:
        assert repr(near) in found.value.message


def test_a_syntax_error_has_line_column_and_token() -> None:
    with pytest.raises(SqlParseError) as found:
        planned("SELECT n\nFROM t\nWHERE n >>> 'x' y z")
    assert found.value.context["line"] == "3"
    assert found.value.context["token"]
    assert found.value.legacy_code == "SQL parse failed"


def test_the_body_pleases_old_and_new_clients() -> None:
    error = InvalidQuery("why", {"line": "1"})
    assert error.status == 400
    assert error.body("host:1") == {
        "error": "Plan validation failed",
        "errorCode": "invalidInput",
        "persona": "USER",
        "category": "INVALID_INPUT",
        "errorMessage": "why",
        "errorClass": "org.apache.druid.error.INVALID_INPUT",
        "host": "host:1",
        "context": {"line": "1"},
    }


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT s, COUNT(*) FROM t",
        "SELECT s FROM t GROUP BY n",
        "SELECT COUNT(*) FROM t WHERE COUNT(*) > 1",
        "SELECT COUNT(COUNT(*)) FROM t",
        "SELECT s FROM t GROUP BY COUNT(*)",
        "SELECT SUM(n, d) FROM t",
        "SELECT UPPER() FROM t",
        "SELECT TIME_PARSE(s, '') FROM t",
        "SELECT APPROX_QUANTILE(n, 1.5) FROM t",
        "SELECT SPECTATOR_PERCENTILE(n, 101) FROM t",
        "SELECT APPROX_QUANTILE(n, d) FROM t",
        "SELECT APPROX_QUANTILE(n, 0.5, 0) FROM t",
        "SELECT APPROX_QUANTILE_FIXED_BUCKETS(n, 0.5, 0, 1, 2) FROM t",
        "SELECT APPROX_QUANTILE_FIXED_BUCKETS(n, 0.5, 10, 2, 2) FROM t",
        "SELECT APPROX_QUANTILE_FIXED_BUCKETS(n, 2, 10, 1, 2) FROM t",
        "SELECT APPROX_QUANTILE_FIXED_BUCKETS(n, 0.5, 10, 1, 2, 'drop') FROM t",
        "SELECT a.n FROM t a JOIN t b ON a.n = b.n WHERE n = 1",
        "SELECT a.n FROM t a JOIN t b",
        "SELECT a.n FROM t a INNER JOIN t b",
        "SELECT a.n FROM t POSITIONAL JOIN t b",
        "SELECT a.n FROM t a CROSS JOIN t b ON a.n = b.n",
        "SELECT n FROM t WHERE s",
        "SELECT n FROM t ORDER BY 2",
        "SELECT n FROM t LIMIT 'x'",
        "SELECT n FROM t UNION ALL SELECT n, s FROM t",
        "SELECT ? FROM t",
        "SELECT 99999999999999999999",
        "SELECT REGEXP_LIKE(s, '(') FROM t",
        "SELECT CASE WHEN n = 1 THEN ARRAY[1] ELSE 'a' END FROM t",
        "SELECT s FROM t GROUP BY s ORDER BY n",
    ],
)
def test_a_statement_that_means_nothing_is_invalid_input(statement: str) -> None:
    with pytest.raises(InvalidQuery):
        planned(statement)


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("SELECT REGEXP_LIKE(s, '(?=a)\\p{L}') FROM t", "look-around"),
        ("SELECT TDIGEST_GENERATE_SKETCH(n) FROM t", "TDIGEST_GENERATE_SKETCH is not supported: it comes"),
        ("WITH RECURSIVE r AS (SELECT 1) SELECT * FROM r", "RECURSIVE"),
        ("SELECT TIME_FORMAT(__time, 'zzzz') FROM t", "zzzz"),
        ("SELECT n FROM t EXCEPT SELECT n FROM t", "EXCEPT"),
        ("SELECT ARRAY[s, mv] FROM t", "an array cannot hold lists; MV_TO_ARRAY"),
        ("SELECT ARRAY[ARRAY[1], ARRAY[2]]", "an array cannot hold lists"),
    ],
)
def test_what_is_not_built_is_refused_by_name(statement: str, named: str) -> None:
    with pytest.raises(UnsupportedQuery) as found:
        planned(statement)
    assert named in found.value.message


@pytest.mark.parametrize(
    "context",
    [
        {"sqlTimeZone": "Mars/Base"},
        {"sqlOuterLimit": "many"},
        {"timeout": -1},
        {"sqlStringifyArrays": "perhaps"},
        {"sqlCurrentTimestamp": "soon"},
    ],
)
def test_a_context_value_that_cannot_be_is_refused(context: dict[str, object]) -> None:
    with pytest.raises(InvalidQuery) as found:
        planned("SELECT 1", **context)
    assert next(iter(context)) in found.value.message or "Mars/Base" in found.value.message


def test_unknown_context_keys_pass_and_known_ones_are_read() -> None:
    found = planned("SELECT n FROM t", sqlQueryId="q1", timeout="5000", anything=[1], sqlTimeZone="Asia/Tokyo")
    assert (found.query_id, found.timeout_ms, found.time_zone) == ("q1", 5000, "Asia/Tokyo")


def test_set_in_front_of_a_statement_wins_over_the_context() -> None:
    found = planned("SET timeout = 7; SET sqlQueryId = 'it''s'; SELECT 1;", timeout=5)
    assert (found.timeout_ms, found.query_id) == (7, "it's")


def test_type_headers_need_the_header() -> None:
    with pytest.raises(QueryError):
        plan(SqlRequest("SELECT 1", types_header=True), catalogue(), 0)


@pytest.mark.parametrize(("own", "outer", "limit"), [("", 5, 5), (" LIMIT 3", 5, 3), (" LIMIT 9", 5, 5)])
def test_the_outer_limit_only_lowers(own: str, outer: int, limit: int) -> None:
    found = planned(f"SELECT n FROM t ORDER BY n{own}", sqlOuterLimit=outer)
    assert found.duckdb_sql.endswith(f" LIMIT {limit}")


def test_a_statement_of_too_many_words_is_refused_before_it_is_planned() -> None:
    with pytest.raises(SqlParseError, match="more than 110000 words and signs"):
        planned("SELECT 1 WHERE " + " AND ".join(["1 = 1"] * 30_000))
    assert planned("SELECT '" + "a " * 200_000 + "'")


@pytest.mark.parametrize(
    "expression",
    ["INTERVAL '1' MONTH", "COALESCE(INTERVAL '1' DAY, 5)", "COUNT(INTERVAL '1' DAY)", "-INTERVAL '1' DAY",
     "CASE WHEN TRUE THEN INTERVAL '1' DAY END", "CAST(INTERVAL '1' DAY AS VARCHAR)", "INTERVAL '1' DAY IS NULL",
     "INTERVAL '1' DAY * 2"],
)  # fmt: skip
def test_an_interval_is_no_value_of_its_own(expression: str) -> None:
    with pytest.raises(InvalidQuery, match="an INTERVAL is added to or taken from a TIMESTAMP"):
        planned(f"SELECT {expression} FROM t")


@pytest.mark.parametrize(
    "interval",
    ["'--5' DAY", "'\u00b2' DAY", "'" + "9" * 5_000 + "' DAY", "'x-y' YEAR TO MONTH", "'1-\u0662' YEAR TO MONTH",
     "'a:b' HOUR TO MINUTE", "'1 nan' DAY TO HOUR", "'x 1' DAY TO HOUR", "'1e400' HOUR TO MINUTE", "NULL DAY"],
)  # fmt: skip
def test_an_interval_that_cannot_be_read_is_refused(interval: str) -> None:
    with pytest.raises(QueryError, match="INTERVAL|whole number|expected"):
        planned(f"SELECT __time + INTERVAL {interval} FROM t")


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("SELECT JSON_VALUE(s, , n) FROM t", "expression is missing|expected|Expecting"),
        ("SELECT JSON_VALUE(s, '$.a' RETURNING ) FROM t", "type is missing"),
        ("SELECT GROUPING(1.5, TRUE) FROM t", "GROUPING"),
        ("SELECT GROUPING(n), s, COUNT(*) FROM t GROUP BY ROLLUP(s)", "GROUPING|n"),
        ("SELECT -1e.n FROM t", "is no number"),
        ("SELECT 1 FROM t WHERE (s, n) IN (('a', 1), ('b' 'c'))", "two texts stand side by side"),
        ("SELECT 1 FROM t WHERE (s, n) IN (('a', 1, 2))", "rows are compared"),
        ("SELECT 1 FROM t WHERE (s, n) = 1", "rows are compared"),
        ("SELECT ANY_VALUE(s, TRUE) FROM t", "whole number"),
        ("SELECT ROUND(d, TRUE) FROM t", "number of digits"),
        ("SELECT COUNT(DISTINCT *) FROM t", "name a column"),
    ],
)
def test_what_only_looks_like_a_statement_is_refused(statement: str, told: str) -> None:
    with pytest.raises(QueryError, match=told) as found:
        planned(statement)
    assert found.value.status == 400
