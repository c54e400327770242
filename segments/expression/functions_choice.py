"""Functions that choose among values: null tests, comparisons of several, conditions, casts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from segments.expression.operators import distinct, equal
from segments.expression.values import (
    Evaluator,
    ExpressionFailed,
    Function,
    Row,
    Value,
    as_kind,
    common_kind,
    double_of,
    list_of,
    long_of,
    text_of,
    truth_of,
)


def _nullif(a: Sequence[Value]) -> Value:
    return None if equal(a[0], a[1]) == 1 else a[0]


def _extreme(pick: Callable[..., Any]) -> Function:
    def apply(values: Sequence[Value]) -> Value:
        present = [value for value in values if value is not None]
        if any(isinstance(value, list | dict) for value in present):
            raise ExpressionFailed("only single values are compared")
        kind = common_kind(present)
        return pick([as_kind(value, kind) for value in present]) if present else None

    return apply


_CASTS: Final[Mapping[str, Callable[[Value], Value]]] = {
    "STRING": text_of,
    "LONG": long_of,
    "DOUBLE": double_of,
    "FLOAT": double_of,
}


def cast(value: Value, name: str) -> Value:
    """The value as Druid's type of this name: STRING, LONG, DOUBLE, FLOAT or ARRAY<...> of these.

    Raises:
        ExpressionFailed: another name.
    """
    kind = name.upper()
    if kind.startswith("ARRAY<") and kind.endswith(">") and kind[6:-1] in _CASTS:
        members, inner = list_of(value), _CASTS[kind[6:-1]]
        return None if members is None else [inner(member) for member in members]
    if kind in ("STRING_ARRAY", "LONG_ARRAY", "DOUBLE_ARRAY"):
        return cast(value, f"ARRAY<{kind.removesuffix('_ARRAY')}>")
    if kind == "COMPLEX<JSON>":
        return value
    if kind not in _CASTS:
        raise ExpressionFailed(f"cast knows STRING, LONG, DOUBLE, FLOAT and arrays of these, not {name!r}")
    if isinstance(value, list) and len(value) != 1:
        raise ExpressionFailed(f"a list of {len(value)} values cannot become one {kind}")
    return _CASTS[kind](value)


FUNCTIONS: Final[dict[str, Function]] = {
    "isnull": lambda a: int(a[0] is None),
    "notnull": lambda a: int(a[0] is not None),
    "istrue": lambda a: int(truth_of(a[0]) is True),
    "isfalse": lambda a: int(truth_of(a[0]) is False),
    "nottrue": lambda a: int(truth_of(a[0]) is not True),
    "notfalse": lambda a: int(truth_of(a[0]) is not False),
    "isdistinctfrom": lambda a: int(distinct(a[0], a[1])),
    "notdistinctfrom": lambda a: int(not distinct(a[0], a[1])),
    "nullif": _nullif,
    "greatest": _extreme(max),
    "least": _extreme(min),
    "cast": lambda a: cast(a[0], str(a[1])),
}


def _if(arguments: Sequence[Evaluator]) -> Evaluator:
    test, then, otherwise = arguments
    return lambda row: then(row) if truth_of(test(row)) else otherwise(row)


def _coalesce(arguments: Sequence[Evaluator]) -> Evaluator:
    def evaluate(row: Row) -> Value:
        for argument in arguments:
            value = argument(row)
            if value is not None:
                return value
        return None

    return evaluate


def _case_searched(arguments: Sequence[Evaluator]) -> Evaluator:
    pairs = list(zip(arguments[0::2], arguments[1::2], strict=False))
    otherwise = arguments[-1] if len(arguments) % 2 else None

    def evaluate(row: Row) -> Value:
        for test, then in pairs:
            if truth_of(test(row)):
                return then(row)
        return None if otherwise is None else otherwise(row)

    return evaluate


def _case_simple(arguments: Sequence[Evaluator]) -> Evaluator:
    subject, *rest = arguments
    pairs = list(zip(rest[0::2], rest[1::2], strict=False))
    otherwise = rest[-1] if len(rest) % 2 else None

    def evaluate(row: Row) -> Value:
        value = subject(row)
        for candidate, then in pairs:
            if equal(value, candidate(row)) == 1:
                return then(row)
        return None if otherwise is None else otherwise(row)

    return evaluate


LAZY: Final[dict[str, Callable[[Sequence[Evaluator]], Evaluator]]] = {
    "if": _if,
    "nvl": _coalesce,
    "coalesce": _coalesce,
    "case_searched": _case_searched,
    "case_simple": _case_simple,
}
"""Functions that ask only for the arguments they need."""
