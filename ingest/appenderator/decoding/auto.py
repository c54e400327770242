"""Columns whose type follows from their values: how wide they are by now, and what their values become in it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import orjson
import pyarrow as pa

from segments.arrow_arrays import ArrowArray
from segments.arrow_schema import arrow_type
from segments.coercion import LONG_MAX, LONG_MIN, BadValue, Truncated, double_of, java_double, long_of, text_of
from segments.schema import JSON, NO_VALUES, ColumnSpec, ColumnType, array_type, wider

_NONE: Final = type(None)
_ENCODE: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_SCALARS: Final[dict[type, ColumnType]] = {
    bool: ColumnType.LONG,
    int: ColumnType.LONG,
    float: ColumnType.DOUBLE,
    str: ColumnType.STRING,
}
_NESTED: Final = ColumnSpec("x", ColumnType.COMPLEX, complex_type=JSON)


def auto_value(value: Any) -> Any:
    """Scalars and lists of them as they are, integers beyond 64 bits in them as doubles; nested data as it is.

    Raises:
        BadValue: a text holds half of a surrogate pair, or a number is beyond the range of doubles.
    """
    if isinstance(value, str):
        return text_of(value)
    if isinstance(value, float):
        return double_of(value)
    if isinstance(value, int):
        return value if LONG_MIN <= value <= LONG_MAX else double_of(value)
    if isinstance(value, list) and all(type(item) in _SCALARS or item is None for item in value):
        return [auto_value(item) for item in value]
    if value is not None:
        json_text(value)
    return value


def json_text(value: Any) -> str | None:
    """The JSON text that a nested column keeps; a number that JSON has not is its name as a text.

    Raises:
        BadValue: as ``auto_value``.
    """
    if value is None:
        return None
    if isinstance(value, float) and not math.isfinite(value):
        value = java_double(value)
    try:
        text = _ENCODE(value)
        text.encode()
    except UnicodeEncodeError as error:
        raise BadValue("a text holds half of a surrogate pair") from error
    except (ValueError, TypeError, RecursionError) as error:
        raise BadValue("it holds a number that JSON cannot spell, or is nested too deeply") from error
    return text


def type_of(values: Sequence[Any]) -> ColumnSpec | None:
    """The least type that holds all values of ``auto_value``; None where all are null."""
    kinds = set(map(type, values)) - {_NONE}
    found: ColumnSpec | None = None
    for kind in kinds & _SCALARS.keys():
        found = _with(found, ColumnSpec("x", _SCALARS[kind]))
    if dict in kinds:
        found = _with(found, _NESTED)
    if list in kinds:
        found = _with(found, _type_of_lists([value for value in values if type(value) is list]))
    return found


def _type_of_lists(lists: Sequence[list[Any]]) -> ColumnSpec:
    kinds = {type(item) for value in lists for item in value} - {_NONE}
    if kinds - _SCALARS.keys():
        return _NESTED
    # An empty list fits every array.
    inner: ColumnSpec = ColumnSpec("x", ColumnType.LONG)
    for kind in kinds:
        inner = wider(inner, ColumnSpec("x", _SCALARS[kind]))
    return ColumnSpec("x", array_type(inner.type))


def _with(one: ColumnSpec | None, other: ColumnSpec) -> ColumnSpec:
    return other if one is None else wider(one, other)


def build(values: Sequence[Any], column: ColumnSpec) -> ArrowArray:
    """The values of ``auto_value`` as a column of a type that holds them."""
    arrow = arrow_type(column)
    if column.is_json:
        return pa.array([json_text(value) for value in values], arrow)
    element = column.type.element
    if element is None:
        convert = _CONVERSIONS[column.type]
        return pa.array([None if value is None else convert(value) for value in values], arrow)
    inner = _CONVERSIONS[element]
    return pa.array([_array(value, inner) for value in values], arrow)


def _array(value: Any, convert: Callable[[Any], Any]) -> list[Any] | None:
    if value is None:
        return None
    items = value if isinstance(value, list) else [value]
    return [None if item is None else convert(item) for item in items]


def _text(value: Any) -> str | None:
    return java_double(value) if isinstance(value, float) else text_of(value)


_CONVERSIONS: Final[dict[ColumnType, Callable[[Any], Any]]] = {
    ColumnType.LONG: int,
    ColumnType.FLOAT: float,
    ColumnType.DOUBLE: float,
    ColumnType.STRING: _text,
}
_CASTS: Final[dict[ColumnType, Callable[[Any], Any]]] = {
    ColumnType.LONG: long_of,
    ColumnType.DOUBLE: double_of,
    ColumnType.STRING: text_of,
}


def array_cast(array: ColumnType) -> Callable[[Any], Any]:
    """What a value becomes in a column of this array type: a list of cast values, of one for a single value. It raises
    ``Truncated`` with the whole list, and ``BadValue`` for one bad value."""
    assert array.element is not None
    cast = _CASTS[array.element]

    def apply(value: Any) -> list[Any] | None:
        if value is None:
            return None
        kept: list[Any] = []
        cut = False
        for item in value if isinstance(value, list) else [value]:
            try:
                kept.append(cast(item))
            except Truncated as short:
                kept.append(short.value)
                cut = True
        if cut:
            raise Truncated(kept)
        return kept

    return apply


class AutoType:
    """The type of an auto column, which only ever widens. For one thread."""

    def __init__(self) -> None:
        self.column = ColumnSpec("x", ColumnType.LONG, untyped=True)

    def widen(self, values: Sequence[Any]) -> ColumnSpec:
        """The type that holds these values and all before."""
        found = type_of(values)
        if found is not None:
            self.column = wider(self.column, found)
        return self.column


class ValuesType:
    """``ColumnSpec.values`` of a nested column, which only ever widens, and ends at the first value that is nested.
    For one thread."""

    def __init__(self) -> None:
        self._told = NO_VALUES
        self._auto = AutoType()

    def widen(self, texts: ArrowArray) -> str:
        """What holds these values, as JSON texts, and all before."""
        if self._told:
            found = [text for text in texts.to_pylist() if text is not None]
            if any(text[0] == "{" for text in found):
                self._told = ""
            elif found:
                self._told = self._of(found)
        return self._told

    def _of(self, texts: list[str]) -> str:
        if all(text[0] == '"' for text in texts):
            values: list[Any] = [""]  # any text has the type of all of them
        else:
            values = [auto_value(orjson.loads(text)) for text in texts]
        column = self._auto.widen(values)
        return "" if column.is_json else column.type.value
