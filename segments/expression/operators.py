"""The operators of expressions over two values: texts with texts, whole numbers exactly, everything else as doubles."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from segments.expression.values import (
    ExpressionFailed,
    Value,
    double_of,
    is_number,
    list_of,
    text_of,
    truth_of,
)

_BITS_MOST: Final = 16_384


def binary(symbol: str) -> Callable[[Value, Value], Value]:
    """The function of an operator other than && and ||."""
    if symbol in _COMPARISONS:
        return _comparison(symbol)
    return _arithmetic(symbol)


def paired(left: Value, right: Value) -> tuple[Value, Value, type[Any]] | None:
    """Both as what they are compared as: two texts, two whole numbers, or doubles; None if one is null then."""
    if left is None or right is None:
        return None
    if isinstance(left, str) and isinstance(right, str):
        return left, right, str
    if isinstance(left, int) and isinstance(right, int):
        return left, right, int
    one, other = double_of(left), double_of(right)
    return None if one is None or other is None else (one, other, float)


def _arithmetic(symbol: str) -> Callable[[Value, Value], Value]:
    of_longs, of_doubles = _LONG[symbol], _DOUBLE[symbol]

    def apply(left: Value, right: Value) -> Value:
        pair = paired(left, right)
        if pair is None:
            return None
        one, other, kind = pair
        if kind is str:
            if symbol == "+":
                return one + other
            raise ExpressionFailed(f"texts cannot be used with {symbol}")
        return _bounded(of_longs(one, other)) if kind is int else of_doubles(one, other)

    return apply


def _bounded(number: int) -> int:
    """Exact, but not without end: repeated squaring would double its digits with every step."""
    if number.bit_length() > _BITS_MOST:
        raise ExpressionFailed(f"a whole number of more than {_BITS_MOST} bits")
    return number


def long_quotient(left: int, right: int) -> int:
    """Cut towards zero.

    Raises:
        ExpressionFailed: by zero.
    """
    if right == 0:
        raise ExpressionFailed("division by zero")
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def long_rest(left: int, right: int) -> int:
    """What ``long_quotient`` leaves; it has the sign of ``left``."""
    return left - long_quotient(left, right) * right


def double_quotient(left: float, right: float) -> float:
    """As IEEE 754 has it, by zero too."""
    if right != 0:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def double_rest(left: float, right: float) -> float:
    return math.fmod(left, right) if right != 0 and math.isfinite(left) else math.nan


def double_power(base: float, exponent: float) -> float:
    """As Java has it: NaN and infinities in place of errors."""
    try:
        power = base**exponent
    except ZeroDivisionError:
        odd = exponent.is_integer() and exponent % 2 == 1
        return math.copysign(math.inf, base) if odd else math.inf
    except OverflowError:
        return -math.inf if base < 0 and exponent % 2 == 1 else math.inf
    return power if isinstance(power, float) else math.nan


def _long_power(base: int, exponent: int) -> int:
    if exponent < 0:
        raise ExpressionFailed("a whole number cannot be raised to a negative power")
    if abs(base) > 1 and exponent > 64:
        raise ExpressionFailed("a power beyond 64 bits")
    return int(base**exponent)


def _product(left: float, right: float) -> float:
    return left * right


_LONG: Final[Mapping[str, Callable[[int, int], int]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": long_quotient,
    "%": long_rest,
    "^": _long_power,
}
_DOUBLE: Final[Mapping[str, Callable[[float, float], float]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": _product,
    "/": double_quotient,
    "%": double_rest,
    "^": double_power,
}
_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


def _comparison(symbol: str) -> Callable[[Value, Value], Value]:
    test = _COMPARISONS[symbol]

    def apply(left: Value, right: Value) -> Value:
        if isinstance(left, list) or isinstance(right, list):
            return _lists(test, list_of(left), list_of(right))
        pair = paired(left, right)
        return None if pair is None else int(test(pair[0], pair[1]))

    return apply


def _lists(test: Callable[[Any, Any], bool], left: list[Value] | None, right: list[Value] | None) -> int | None:
    if left is None or right is None:
        return None
    texts = any(isinstance(value, str) for value in (*left, *right))

    def key(value: Value) -> tuple[bool, Any]:
        # Nulls come before all values.
        return (False, "") if value is None else (True, text_of(value) if texts else value)

    return int(test([key(value) for value in left], [key(value) for value in right]))


def distinct(left: Value, right: Value) -> bool:
    """Whether two values differ, null being a value like any other."""
    if left is None or right is None:
        return (left is None) != (right is None)
    return equal(left, right) != 1


_equals = _comparison("==")


def equal(left: Value, right: Value) -> int | None:
    """1, 0, or null where one is."""
    result: int | None = _equals(left, right)
    return result


def negated(value: Value) -> Value:
    """The number with its sign turned.

    Raises:
        ExpressionFailed: not a number.
    """
    if value is None or is_number(value):
        return None if value is None else -value
    raise ExpressionFailed("only numbers have a sign")


def inverted(value: Value) -> int | None:
    """1 for false, 0 for true, null for null."""
    known = truth_of(value)
    return None if known is None else int(not known)
