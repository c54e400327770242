"""What an expression's values are and how they turn into each other, as in Druid (pure).

A value is None, a text, a whole number, a floating-point number, a list of these, or (nested data) any
other JSON value. Truth is 1 or 0. Whole numbers are exact: they never wrap.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from segments.coercion import java_double

Value = Any
Row = Mapping[str, Value]
"""Column names to values; a name that is absent is null."""
Evaluator = Callable[[Row], Value]
Function = Callable[[Sequence[Value]], Value]

LONG_MIN: Final = -(2**63)
LONG_MAX: Final = 2**63 - 1
TEXT_MOST: Final = 1_000_000
"""The most characters that a function may make of its arguments, so that no row can fill the memory."""
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_SPECIAL: Final = {"NaN": math.nan, "Infinity": math.inf, "+Infinity": math.inf, "-Infinity": -math.inf}


class ExpressionFailed(ValueError):
    """The expression has no value for this row; the text says why."""


def from_json(value: Any) -> Value:
    """A JSON value as an expression sees it: truth as 1 and 0."""
    if value is True or value is False:
        return int(value)
    if isinstance(value, list) and not any(isinstance(item, dict | list) for item in value):
        return [int(item) if isinstance(item, bool) else item for item in value]
    return value


def is_number(value: Value) -> bool:
    return isinstance(value, int | float)


def text_of(value: Value) -> str | None:
    """The value as text: numbers in Java's form, a list of one as that one, nested data as JSON."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return digits_of(value)
    if isinstance(value, float):
        return java_double(value)
    if isinstance(value, list) and len(value) == 1:
        return text_of(value[0])
    if isinstance(value, list) and not any(isinstance(item, dict | list) for item in value):
        return f"[{', '.join('null' if item is None else text_of(item) or '' for item in value)}]"
    return json_text(value)


def digits_of(value: int) -> str:
    try:
        return str(value)
    except ValueError as error:
        raise ExpressionFailed("a number has more digits than are read") from error


def json_text(value: Value) -> str:
    """Compact JSON.

    Raises:
        ExpressionFailed: a number that JSON cannot spell.
    """
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise ExpressionFailed("a value has no JSON: it holds NaN, an infinity, or is nested too deeply") from error


def number_of(value: Value) -> int | float | None:
    """The value as a number; a text that is none, or a list of other than one, is null."""
    if isinstance(value, int | float):
        return value
    if isinstance(value, str):
        if _WHOLE.fullmatch(value) and LONG_MIN <= (whole := int(value)) <= LONG_MAX:
            return whole
        if _NUMBER.fullmatch(value):
            return float(value)
        return _SPECIAL.get(value)
    if isinstance(value, list) and len(value) == 1:
        return number_of(value[0])
    return None


def double_of(value: Value) -> float | None:
    number = number_of(value)
    try:
        return None if number is None else float(number)
    except OverflowError:
        return math.copysign(math.inf, number or 0)


def long_of(value: Value) -> int | None:
    """The value as a whole number: fractions are cut, NaN is 0, what is beyond 64 bits is the nearest inside."""
    number = number_of(value)
    if isinstance(number, float):
        if math.isnan(number):
            return 0
        return max(LONG_MIN, min(LONG_MAX, int(number))) if math.isfinite(number) else _edge(number)
    return number


def _edge(number: float) -> int:
    return LONG_MAX if number > 0 else LONG_MIN


def truth_of(value: Value) -> bool | None:
    """Numbers above 0 and the text ``true`` are true; null is unknown."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.lower() == "true"
    if isinstance(value, list):
        return truth_of(value[0]) if len(value) == 1 else False
    return value > 0 if is_number(value) else False


def truth(value: bool | None) -> int | None:
    return None if value is None else int(value)


def list_of(value: Value) -> list[Value] | None:
    """A single value is a list of one."""
    return value if value is None or isinstance(value, list) else [value]


def bounded(text: str) -> str:
    """The text.

    Raises:
        ExpressionFailed: it is longer than any function may make.
    """
    if len(text) > TEXT_MOST:
        raise ExpressionFailed(f"a text of more than {TEXT_MOST} characters")
    return text


def small(value: Value, what: str) -> int:
    """A whole number that is used as a length or position.

    Raises:
        ExpressionFailed: there is none.
    """
    number = long_of(value)
    if number is None:
        raise ExpressionFailed(f"{what} must be a whole number")
    return number


def common_kind(values: Sequence[Value]) -> type[Any]:
    """``str`` where any is a text, else ``float`` where any is one, else ``int``; nulls do not count."""
    kinds = {type(value) for value in values if value is not None}
    return str if kinds - {int, float} else float if float in kinds else int


def as_kind(value: Value, kind: type[Any]) -> Value:
    return text_of(value) if kind is str else double_of(value) if kind is float else value
