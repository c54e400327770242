"""Evaluates a row filter on Arrow columns, with SQL's three-valued logic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from segments.arrow_arrays import ArrowArray, without_empty
from segments.arrow_schema import is_array
from segments.coercion import BadValue, double_of, java_double
from segments.filter.model import (
    And,
    Between,
    Constant,
    ContainsElement,
    Filter,
    Holds,
    InIntervals,
    IsNull,
    IsTrue,
    Matches,
    Not,
    OneOf,
    Or,
    Ordering,
    SameValue,
)
from segments.schema import TIME_COLUMN

Columns = Mapping[str, ArrowArray]
ArrowScalar = Any
_TEXT: Final = pa.string()


def passing_rows(item: Filter, columns: Columns, times_ms: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """A mask of the rows for which the filter is true. ``columns`` are string, number or list<string> arrays of
    one length; a missing one is all null. ``times_ms`` stands for ``__time``."""
    rows = len(times_ms)
    evaluation = _Evaluation({**columns, TIME_COLUMN: pa.array(times_ms)}, rows)
    result = evaluation.of(item)
    return np.asarray(pc.fill_null(result, False))


class _Evaluation:
    def __init__(self, columns: Columns, rows: int) -> None:
        self._columns = columns
        self._rows = rows

    def of(self, item: Filter) -> ArrowArray:
        """A boolean array, null where unknown."""
        if isinstance(item, Constant):
            return pa.array(np.full(self._rows, item.passes))
        if isinstance(item, And | Or):
            result = self.of(item.parts[0])
            for part in item.parts[1:]:
                other = self.of(part)
                result = pc.and_kleene(result, other) if isinstance(item, And) else pc.or_kleene(result, other)
            return result
        if isinstance(item, Not):
            return pc.invert(self.of(item.part))
        if isinstance(item, IsTrue):
            known = self.of(item.part)
            wanted: ArrowArray = known if item.wanted else pc.invert(known)
            return pc.fill_null(wanted, False)
        if isinstance(item, SameValue):
            return self._same(item)
        return self._of_column(item, self._column(item.column))

    def _of_column(
        self, item: OneOf | Between | IsNull | Matches | InIntervals | Holds | ContainsElement, column: ArrowArray
    ) -> ArrowArray:
        if isinstance(item, IsNull):
            return pc.is_null(column)
        if isinstance(item, Holds):
            return pc.equal(_as_numbers(column, Ordering.LONG), pa.scalar(1))
        if isinstance(item, ContainsElement):
            return self._contains(item, column)
        if pa.types.is_list(column.type):
            return self._any_of(item, column)
        return _compare(item, column)

    def _column(self, name: str) -> ArrowArray:
        found = self._columns.get(name)
        if found is None:
            return pa.nulls(self._rows, _TEXT)
        if pa.types.is_list(found.type) and not is_array(found.type):
            # As in Druid a text without members is null to every filter.
            return without_empty(found)
        return found

    def _any_of(self, item: OneOf | Between | Matches | InIntervals, column: ArrowArray) -> ArrowArray:
        """True where any value of the row matches; unknown where the row is null."""
        matches = np.asarray(pc.fill_null(_compare(item, column.flatten()), False))
        parents = np.asarray(pc.list_parent_indices(column))
        found = np.zeros(self._rows, dtype=np.bool_)
        found[parents[matches]] = True
        unknown = np.asarray(column.is_null())
        if isinstance(item, OneOf) and None in item.values:
            return pa.array(found | unknown)
        return pa.array(found, mask=unknown)

    def _contains(self, item: ContainsElement, column: ArrowArray) -> ArrowArray:
        wanted = OneOf(item.column, (item.value,))
        if not pa.types.is_list(column.type):
            return _compare(wanted, column)
        if item.value is not None:
            return self._any_of(wanted, column)
        found = np.zeros(self._rows, dtype=np.bool_)
        found[np.asarray(pc.list_parent_indices(column))[np.asarray(column.flatten().is_null())]] = True
        return pa.array(found, mask=np.asarray(column.is_null()))

    def _same(self, item: SameValue) -> ArrowArray:
        first, *others = [_as_text(self._column(name)) for name in item.columns]
        result = pa.array(np.ones(self._rows, dtype=np.bool_))
        for other in others:
            both_null = pc.and_(pc.is_null(first), pc.is_null(other))
            result = pc.and_(result, pc.or_(both_null, pc.fill_null(pc.equal(first, other), False)))
        return result


def _compare(item: OneOf | Between | Matches | InIntervals, column: ArrowArray) -> ArrowArray:
    if isinstance(item, OneOf):
        return _one_of(item, column)
    if isinstance(item, Between):
        return _between(item, column)
    if isinstance(item, Matches):
        return pc.match_substring_regex(_as_text(column), item.pattern)
    numbers = _as_numbers(column, Ordering.LONG)
    result = pa.array(np.zeros(len(column), dtype=np.bool_))
    for start_ms, end_ms in item.intervals:
        bounds = pa.scalar(start_ms), pa.scalar(end_ms)
        inside = pc.and_(pc.greater_equal(numbers, bounds[0]), pc.less(numbers, bounds[1]))
        result = pc.or_kleene(result, inside)
    return result


def _one_of(item: OneOf, column: ArrowArray) -> ArrowArray:
    wants_null = None in item.values
    wanted = [value for value in item.values if value is not None]
    numeric = not pa.types.is_string(column.type) and item.ordering is Ordering.COLUMN
    if item.ordering in (Ordering.LONG, Ordering.DOUBLE) or numeric:
        numbers = [number for value in wanted if (number := _number(value)) is not None]
        whole = pa.types.is_integer(column.type) and all(isinstance(number, int) for number in numbers)
        values = _as_numbers(column, Ordering.LONG if whole else Ordering.DOUBLE)
        found = pc.is_in(values, pa.array(numbers, pa.int64() if whole else pa.float64()))
    else:
        values = _as_text(column)
        texts = [java_double(value) if isinstance(value, float) else str(value) for value in wanted]
        found = pc.is_in(values, pa.array(texts, _TEXT))
    known = pc.is_valid(values)
    if wants_null:
        return pc.or_(pc.and_(found, known), pc.is_null(column))
    return pc.if_else(known, found, pa.scalar(None, pa.bool_()))


def _between(item: Between, column: ArrowArray) -> ArrowArray:
    values = _as_text(column) if item.ordering is Ordering.TEXT else _as_numbers(column, item.ordering)
    result = pc.if_else(pc.is_valid(values), True, pa.scalar(None, pa.bool_()))
    if item.lower is not None:
        above = pc.greater if item.lower_strict else pc.greater_equal
        result = pc.and_kleene(result, above(values, _bound(item.lower, values.type)))
    if item.upper is not None:
        below = pc.less if item.upper_strict else pc.less_equal
        result = pc.and_kleene(result, below(values, _bound(item.upper, values.type)))
    return result


def _bound(value: str | int | float, kind: pa.DataType) -> ArrowScalar:
    if pa.types.is_string(kind):
        return pa.scalar(str(value), kind)
    # A fraction against whole numbers is compared as doubles, by Arrow's own promotion.
    return pa.scalar(value)


def _number(value: str | int | float) -> int | float | None:
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else float(value)
    try:
        number = double_of(value)
    except BadValue:
        return None
    return int(number) if number is not None and number.is_integer() and abs(number) < 2**53 else number


def _as_text(column: ArrowArray) -> ArrowArray:
    if pa.types.is_string(column.type):
        return column
    if pa.types.is_list(column.type):
        return pa.array([None if v is None else ",".join(t or "" for t in v) for v in column.to_pylist()], _TEXT)
    if pa.types.is_floating(column.type):
        return pa.array([None if v is None else java_double(v) for v in column.to_pylist()], _TEXT)
    return column.cast(_TEXT)


def _as_numbers(column: ArrowArray, ordering: Ordering) -> ArrowArray:
    if pa.types.is_string(column.type):
        return pa.array([_parsed(text) for text in column.to_pylist()], pa.float64())
    if pa.types.is_integer(column.type) and ordering is Ordering.LONG:
        return column
    return column.cast(pa.float64(), safe=False)


def _parsed(text: str | None) -> float | None:
    try:
        return double_of(text)
    except BadValue:
        return None
