"""What a JSON value becomes in a column of each type."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segments.coercion import (
    BadValue,
    Truncated,
    double_of,
    float_of,
    java_double,
    long_of,
    metric_double_of,
    metric_long_of,
    several_texts,
    text_of,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (12.0, "12.0"),
        (-0.0, "-0.0"),
        (0.001, "0.001"),
        (0.000999, "9.99E-4"),
        (9_999_999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (9223372036854775808.0, "9.223372036854776E18"),
        (1.5e300, "1.5E300"),
        (123456.789, "123456.789"),
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
    ],
)
def test_doubles_are_spelt_as_java_does(value: float, text: str) -> None:
    assert java_double(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_spelt_double_reads_back_to_itself(value: float) -> None:
    assert float(java_double(value)) == value


@pytest.mark.parametrize(
    ("value", "stored"),
    [(12, 12), ("12", 12), (12.0, 12), ("12.0", 12), (True, 1), (False, 0), ("+5", 5), ("1e3", 1000), (-0.0, 0)],
)
def test_a_long_column_takes_whole_numbers_in_every_spelling(value: Any, stored: int) -> None:
    assert long_of(value) == stored


@pytest.mark.parametrize(
    "value",
    ["12.9", "abc", " 7 ", "1,234", "", "NaN", "true", [1], [], {"a": 1}, 2**63, -(2**63) - 1, str(2**63), 1e30],
)
def test_what_a_long_column_cannot_hold_is_bad_and_never_clamped(value: Any) -> None:
    with pytest.raises(BadValue):
        long_of(value)


def test_a_fraction_sent_as_a_number_is_cut_off_and_said_so() -> None:
    with pytest.raises(Truncated) as cut:
        long_of(-12.9)
    assert cut.value.value == -12
    with pytest.raises(Truncated):
        metric_long_of("2.5")


def test_double_columns_take_numbers_and_their_texts_but_no_booleans() -> None:
    assert double_of("1e3") == 1000.0
    assert double_of(2**63) == 9.223372036854776e18
    assert math.isnan(double_of("NaN") or 0.0)
    wrong: list[Any] = [True, "true", " 7 ", "", [1.0], {}]
    for bad in wrong:
        with pytest.raises(BadValue):
            double_of(bad)


def test_float_columns_refuse_what_only_a_double_can_hold() -> None:
    assert float_of(1.5) == 1.5
    with pytest.raises(BadValue):
        float_of(1e300)


def test_aggregators_read_texts_more_loosely_than_dimensions() -> None:
    assert [metric_long_of(v) for v in ("1,234", " 7 ", "+5", "1e2", None)] == [1234, 7, 5, 100, None]
    assert metric_double_of(" 1,234.5 ") == 1234.5
    for bad in ("abc", ""):
        with pytest.raises(BadValue):
            metric_long_of(bad)


def test_texts_keep_digits_and_objects_become_json() -> None:
    assert text_of(9223372036854775808) == "9223372036854775808"
    assert text_of({"a": [1, None]}) == '{"a":[1,null]}'
    assert [text_of(v) for v in (True, 12.0, "", None)] == ["true", "12.0", "", None]
    with pytest.raises(BadValue):
        text_of("\ud800")


def test_lists_become_several_texts_sorted_with_nulls_first() -> None:
    assert several_texts(["b", None, "a", "b"]) == [None, "a", "b", "b"]
    assert several_texts(["b", "a", "b"], distinct=True) == ["a", "b"]
    assert several_texts(["b", "a"], ordered=False) == ["b", "a"]
    assert several_texts([]) == []
    assert several_texts(["a", "a"], distinct=True) == "a"
    assert several_texts([[1, "x"], 2.5]) == ["2.5", '[1,"x"]']


@given(JSON)
def test_no_json_value_raises_anything_but_the_two_named_outcomes(value: Any) -> None:
    coercions: list[Callable[[Any], Any]] = [long_of, double_of, float_of, metric_long_of, metric_double_of, text_of]
    for coerce in coercions:
        try:
            result = coerce(value)
        except (BadValue, Truncated):
            continue
        if coerce is long_of and result is not None:
            assert -(2**63) <= result < 2**63
