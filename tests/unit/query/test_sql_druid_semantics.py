"""Where DuckDB or sqlglot would silently answer otherwise than Druid: one test for each such default."""

import math
from typing import Any

import pytest

from tests.unit.query.rows import ask, one, table


@pytest.mark.parametrize(("expression", "value"), [("5 / 2", 2), ("-5 / 2", -2), ("5 / 2.0", 2.5), ("7 % 3", 1)])
def test_longs_divide_to_longs(expression: str, value: float) -> None:
    assert one(expression) == value
    assert type(one(expression)) is type(value)


def test_division_of_a_long_by_zero_is_null_and_of_a_double_infinite() -> None:
    assert ask("SELECT 1 / 0, MOD(1, 0), 1.0 / 0, -1.0 / 0, 0.0 / 0") == [[None, None, "Infinity", "-Infinity", "NaN"]]


def test_monday_is_day_one_and_sunday_day_seven() -> None:
    assert one("EXTRACT(DOW FROM TIMESTAMP '2024-03-10')") == 7
    assert one("EXTRACT(DOW FROM TIMESTAMP '2024-03-11')") == 1


def test_regexp_extract_takes_a_group_and_is_null_without_a_match() -> None:
    assert one("REGEXP_EXTRACT('ab12', '([a-z]+)([0-9]+)', 2)") == "12"
    assert one("REGEXP_EXTRACT('ab12', '[0-9]+')") == "12"
    assert one("REGEXP_EXTRACT('ab', '([0-9]+)', 1)") is None


def test_concat_with_null_is_null() -> None:
    assert ask("SELECT CONCAT('a', NULL), 'a' || NULL, CONCAT('a', 'b')") == [[None, None, "ab"]]


def test_grouping_by_a_multi_value_string_makes_a_group_of_each_member() -> None:
    rows = table(mv=[["a", "b"], ["b"], [], None])
    assert ask("SELECT mv, COUNT(*) FROM t GROUP BY mv ORDER BY mv", rows) == [[None, 2], ["a", 1], ["b", 2]]


def test_zeros_of_either_sign_are_one_value_told_as_zero() -> None:
    for zeros in ([0.0, -0.0], [-0.0, 0.0], [-0.0, -0.0]):
        rows = table(d=zeros, s=["a", "b"])
        for told in ("d, COUNT(*)", "DISTINCT d, 2", "MIN(d), 2", "MAX(d), COUNT(d)", "ABS(d) * -1.0, COUNT(*)"):
            grouped = " GROUP BY 1" if "COUNT(*)" in told else ""
            assert repr(ask(f"SELECT {told} FROM t{grouped}", rows)) == "[[0.0, 2]]", told
        assert repr(ask("SELECT ARRAY_AGG(DISTINCT d) FROM t", rows)) == "[['[0.0]']]"
        assert repr(ask("SELECT d FROM t WHERE s = 'a' UNION SELECT d FROM t WHERE s = 'b'", rows)) == "[[0.0]]"
        assert (
            repr(ask("SELECT d, s, COUNT(*) FROM t GROUP BY ROLLUP(1, 2) HAVING s IS NOT NULL", rows)).count("-") == 0
        )
        # A row is told as it is.
        assert repr(ask("SELECT d FROM t", rows)) == repr([[zero] for zero in zeros])


def test_a_limit_takes_groups_that_are_equal_in_the_order_of_their_keys() -> None:
    texts = ["c", "b", None, "e", "d", "a"]
    for turn in range(len(texts)):
        rows = table(s=texts[turn:] + texts[:turn], n=[1] * 6)
        assert ask("SELECT s, COUNT(*) FROM t GROUP BY 1 ORDER BY 2 DESC LIMIT 3", rows) == [
            [None, 1],
            ["a", 1],
            ["b", 1],
        ]
        assert ask("SELECT n, MAX(1) FROM t GROUP BY s, n ORDER BY 2 LIMIT 2 OFFSET 1", rows) == [[1, 1], [1, 1]]
        assert ask("SELECT COUNT(*), s FROM t GROUP BY s LIMIT 2 OFFSET 1", rows) == [[1, "a"], [1, "b"]]
        assert ask("SELECT DISTINCT n, s FROM t ORDER BY n LIMIT 2", rows) == [[1, None], [1, "a"]]
        assert ask("SELECT DISTINCT COUNT(*) FROM t GROUP BY s ORDER BY 1 LIMIT 2", rows) == [[1]]
        sets = "SELECT s, n, GROUPING(s, n), COUNT(*) FROM t WHERE s IS NULL GROUP BY CUBE(s, n) ORDER BY 4 LIMIT 3"
        assert ask(sets, rows) == [[None, None, 1, 1], [None, None, 3, 1], [None, 1, 0, 1]]


def test_a_multi_value_string_is_null_in_a_group_key_if_it_has_nothing_else() -> None:
    rows = table(n=[1, 2, 3, 4], mv=[["a", None], ["b"], [], None])
    missing = [[True, 2]]
    for rest in (
        "1 HAVING mv IS NULL",
        "mv IS NULL HAVING mv IS NULL ORDER BY mv IS NULL",
        "1 ORDER BY 1 DESC LIMIT 1",
    ):
        assert ask(f"SELECT mv IS NULL, COUNT(*) FROM t GROUP BY {rest}", rows) == missing, rest
    told = "SELECT CASE WHEN mv IS NULL THEN 1 ELSE 0 END FROM t GROUP BY mv IS NULL ORDER BY 1"
    assert ask(told, rows) == [[0], [1]]
    assert ask("SELECT COUNT(*) FILTER (WHERE mv IS NULL) FROM t WHERE mv IS NULL", rows) == [[3]]


def test_quantiles_are_those_of_the_values() -> None:
    rows = table(n=[1, 2, 3, 4, 5, 6])
    assert ask("SELECT APPROX_QUANTILE_DS(n, 0.5) FROM t", rows) == [[3.0]]


@pytest.mark.parametrize(
    ("text", "value"),
    [("abc", None), ("", None), ("3.5", 3), ("-3.9", -3), (" 9 ", None), ("1e3", 1000), ("007", 7), ("9" * 30, None)],
)
def test_a_text_casts_to_a_long_by_cutting_and_to_null_where_it_is_no_number(text: str, value: int | None) -> None:
    assert one(f"CAST('{text}' AS BIGINT)") == value
    assert ask("SELECT CAST(s AS BIGINT) FROM t", table(s=[text])) == [[value]]


def test_comparing_a_text_with_a_number_never_fails() -> None:
    rows = table(s=["7", "007", "x", "", None])
    assert ask("SELECT COUNT(*) FROM t WHERE s = 7", rows) == [[2]]
    assert ask("SELECT COUNT(*) FROM t WHERE s < 1", rows) == [[2]]
    assert ask("SELECT COUNT(*) FROM t WHERE s <> 7", rows) == [[2]]


def test_sums_of_longs_do_not_wrap_and_stay_integers() -> None:
    rows = table(n=[2**63 - 1] * 3)
    assert ask("SELECT SUM(n), SUM(n) + 1 FROM t", rows) == [[3 * (2**63 - 1), 3 * (2**63 - 1) + 1]]
    assert ask("SELECT SUM(s) FROM (SELECT SUM(n) AS s FROM t GROUP BY d)", rows) == [[3 * (2**63 - 1)]]


def test_averages_of_longs_keep_the_fraction() -> None:
    assert ask("SELECT AVG(n) FROM t", table(n=[1, 2])) == [[1.5]]


def test_the_epoch_of_a_time_is_a_whole_number() -> None:
    found = one("EXTRACT(EPOCH FROM TIMESTAMP '2024-01-01 00:00:00.900')")
    assert found == 1_704_067_200
    assert isinstance(found, int)
    assert one("EXTRACT(EPOCH FROM TIMESTAMP '1969-12-31 23:59:59.500')") == -1


def test_shifting_by_months_ends_on_the_last_day_of_a_shorter_month() -> None:
    assert one("TIME_SHIFT(TIMESTAMP '2000-01-31', 'P1M', 1)") == "2000-02-29T00:00:00.000Z"


def test_days_of_a_zone_are_calendar_days_over_a_change_of_clocks() -> None:
    times = ["2024-03-10T07:59:59Z", "2024-03-10T08:00:00Z", "2024-03-11T06:59:59Z", "2024-03-11T07:00:00Z"]
    query = (
        "SELECT TIME_FLOOR(__time, 'P1D', NULL, 'America/Los_Angeles') AS day, COUNT(*) FROM t GROUP BY 1 ORDER BY 1"
    )
    assert ask(query, table(__time=times)) == [
        ["2024-03-09T08:00:00.000Z", 1],
        ["2024-03-10T08:00:00.000Z", 2],
        ["2024-03-11T07:00:00.000Z", 1],
    ]


def test_distinct_counts_are_exact() -> None:
    rows = table(s=[str(n % 5_000) for n in range(20_000)])
    query = "SELECT COUNT(DISTINCT s), APPROX_COUNT_DISTINCT(s), APPROX_COUNT_DISTINCT_DS_HLL(s) FROM t"
    assert ask(query, rows) == [[5_000] * 3]


@pytest.mark.parametrize(("direction", "order"), [("ASC", [None, 1, 2]), ("DESC", [2, 1, None])])
def test_nulls_sort_below_everything(direction: str, order: list[Any]) -> None:
    assert ask(f"SELECT n FROM t ORDER BY n {direction}", table(n=[2, None, 1])) == [[value] for value in order]


def test_texts_compare_by_case() -> None:
    rows = table(s=["Phone", "phone"])
    assert ask("SELECT COUNT(*) FROM t WHERE s LIKE 'p%'", rows) == [[1]]
    assert ask("SELECT COUNT(*) FROM t WHERE s = 'PHONE'", rows) == [[0]]


def test_not_like_is_not_read_as_like() -> None:
    rows = table(s=["ab", "b", None])
    assert ask("SELECT s FROM t WHERE s NOT LIKE 'a%'", rows) == [["b"]]
    assert ask("SELECT s FROM t WHERE s NOT LIKE 'a!%' ESCAPE '!' ORDER BY s", rows) == [["ab"], ["b"]]


def test_columns_whose_names_differ_in_case_are_different_columns() -> None:
    rows = table(s=["small"], S=["large"])
    assert ask('SELECT s, S, "s", t."S" FROM t', rows) == [["small", "large", "small", "large"]]
    assert ask("SELECT S, COUNT(*) FROM t GROUP BY S HAVING S = 'large'", rows) == [["large", 1]]


def test_a_text_without_a_zone_is_in_the_session_zone_whatever_the_engine_is_set_to() -> None:
    # The engine of these tests runs with another default zone than UTC.
    rows = table(s=["2024-07-01 00:00:00", "2024-07-01T00:00:00Z", "2024-07-01T00:00:00+02:00"])
    query = "SELECT TIMESTAMP_TO_MILLIS(TIME_PARSE(s)) FROM t"
    assert [row[0] for row in ask(query, rows)] == [1719792000000, 1719792000000, 1719784800000]
    zoned = ask(query, rows, sqlTimeZone="Asia/Tokyo")
    assert [row[0] for row in zoned] == [1719792000000 - 9 * 3_600_000, 1719792000000, 1719784800000]


def test_conditions_on_a_multi_value_string_ask_for_any_member() -> None:
    rows = table(n=[1, 2, 3, 4], mv=[["red", "blue"], ["green"], [], None])
    for condition, found in {
        "mv = 'red'": [1],
        "mv <> 'red'": [2],
        "NOT mv = 'red'": [2],
        "mv IN ('blue', 'green')": [1, 2],
        "mv LIKE 'gr%'": [2],
        "mv > 'g'": [1, 2],
        "mv IS NULL": [3, 4],
        "mv IS NOT NULL": [1, 2],
        "MV_CONTAINS(mv, ARRAY['red', 'blue'])": [1],
    }.items():
        assert ask(f"SELECT n FROM t WHERE {condition} ORDER BY n", rows) == [[n] for n in found], condition


def test_nan_is_the_largest_number_and_infinities_are_written_as_texts() -> None:
    rows = table(d=[1.0, math.nan, math.inf, None])
    assert ask("SELECT d FROM t ORDER BY d", rows) == [[None], [1.0], ["Infinity"], ["NaN"]]
    assert ask("SELECT COUNT(*) FROM t WHERE d > 5", rows) == [[2]]


def test_unnamed_columns_are_named_by_the_count_of_names_before_them() -> None:
    from tests.unit.query.rows import planned

    names = [column.name for column in planned("SELECT n, n, n + 1, s AS x, 5 FROM t").result_columns]
    assert names == ["n", "n", "EXPR$1", "x", "EXPR$3"]


def test_nulls_are_values_to_latest_but_not_to_any_value() -> None:
    rows = table(__time=["2024-01-01", "2024-01-02"], s=["first", None])
    assert ask("SELECT EARLIEST(s), LATEST(s), ANY_VALUE(s), EARLIEST(s, 2) FROM t", rows) == [
        ["first", None, "first", "fi"]
    ]


def test_a_sum_may_be_used_wherever_a_long_may() -> None:
    rows = table(n=[1, 2], s=["abc", "abc"])
    query = (
        "SELECT MILLIS_TO_TIMESTAMP(SUM(n)), LEFT('abcdef', SUM(n)), FLOOR(SUM(n) TO SECOND), REPEAT('x', SUM(n)), "
        "BITWISE_AND(SUM(n), 1), SUM(n) / 2, CAST(SUM(n) AS VARCHAR) FROM t"
    )
    assert ask(query, rows) == [
        ["1970-01-01T00:00:00.003Z", "abc", "1970-01-01T00:00:00.000Z", "xxx", 1, 1, "3"],
    ]
