"""Turns Python values of one field into an Arrow column: vectorised where all are of the expected type."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.appenderator.decoding.auto import AutoType, ValuesType, array_cast, auto_value, build, json_text
from ingest.appenderator.decoding.non_finite import keeping
from ingest.appenderator.decoding.plan import Field, Kind
from ingest.appenderator.decoding.sketches import SketchInput
from ingest.spec.model import MultiValueHandling
from segments.arrow_arrays import ArrowArray, array_of, without_empty
from segments.arrow_schema import arrow_type
from segments.coercion import (
    BadValue,
    Truncated,
    double_of,
    float_of,
    java_double,
    long_of,
    metric_double_of,
    metric_float_of,
    metric_long_of,
    several_texts,
    text_of,
)
from segments.expression.columns import Computed
from segments.parquet.spill import has_empty_list, has_several_values
from segments.schema import JSON, ColumnSpec, ColumnType

STRINGS: Final = pa.list_(pa.string())
_NONE: Final = type(None)
_FLOAT32_MAX: Final = float(np.finfo(np.float32).max)

_ARRAYS: Final = {
    Kind.LONG_ARRAY: ColumnType.LONG_ARRAY,
    Kind.DOUBLE_ARRAY: ColumnType.DOUBLE_ARRAY,
    Kind.STRING_ARRAY: ColumnType.STRING_ARRAY,
}
_ARROW: Final[dict[Kind, pa.DataType]] = {
    Kind.STRING: pa.string(),
    Kind.LONG: pa.int64(),
    Kind.DOUBLE: pa.float64(),
    Kind.FLOAT: pa.float32(),
    Kind.METRIC_LONG: pa.int64(),
    Kind.METRIC_DOUBLE: pa.float64(),
    Kind.METRIC_FLOAT: pa.float32(),
    Kind.SKETCH: pa.binary(),
    Kind.JSON: pa.string(),
    **{kind: arrow_type(ColumnSpec("x", array)) for kind, array in _ARRAYS.items()},
}
_EXPECTED: Final[dict[pa.DataType, frozenset[type]]] = {
    pa.string(): frozenset((str, _NONE)),
    pa.int64(): frozenset((int, _NONE)),
    pa.float64(): frozenset((float, _NONE)),
    pa.float32(): frozenset((float, _NONE)),
}
_AS_IT_STANDS: Final = frozenset({Kind.STRING, Kind.LONG, Kind.DOUBLE, Kind.METRIC_LONG, Kind.METRIC_DOUBLE})
_COERCIONS: Final[dict[Kind, Callable[[Any], Any]]] = {
    Kind.LONG: long_of,
    Kind.DOUBLE: double_of,
    Kind.FLOAT: float_of,
    Kind.METRIC_LONG: metric_long_of,
    Kind.METRIC_DOUBLE: metric_double_of,
    Kind.METRIC_FLOAT: metric_float_of,
}


class ColumnReader:
    """One field's values to an Arrow array. Auto columns only ever widen: long, double, string. For one thread.

    ``non_finite``: floats that are no finite number are values, and stored exactly.
    """

    def __init__(self, field: Field, *, non_finite: bool = False) -> None:
        self.field = field
        self._non_finite = non_finite
        coerce = self._coercion()
        self.coerce: Callable[[Any], Any] = keeping(field.kind, coerce) if non_finite else coerce
        self._arrow: pa.DataType | None = _ARROW.get(field.kind)
        self._auto = AutoType()
        self._values = ValuesType()

    def _coercion(self) -> Callable[[Any], Any]:
        plain = self._plain_coercion()
        return plain if self.field.computed is None else _of_computed(plain, self.field.kind)

    def _plain_coercion(self) -> Callable[[Any], Any]:
        kind, handling = self.field.kind, self.field.multi_value
        if kind is Kind.RAW:
            return lambda value: value
        if kind is Kind.AUTO:
            return auto_value
        if kind is Kind.JSON:
            return json_text
        if kind in _ARRAYS:
            return array_cast(_ARRAYS[kind])
        if self.field.sketch is not None:
            return SketchInput(self.field.sketch, self.field.stored_input).coerce
        if kind is not Kind.STRING:
            return _COERCIONS[kind]
        ordered, distinct = handling is not MultiValueHandling.ARRAY, handling is MultiValueHandling.SORTED_SET

        def texts(value: Any) -> str | list[str | None] | None:
            if isinstance(value, list):
                return several_texts(value, ordered=ordered, distinct=distinct)
            return text_of(value)

        return texts

    def read(self, values: list[Any], *, typed: bool = False) -> tuple[ArrowArray | list[Any], list[int]]:
        """The column, and the positions (null in the column) whose value needs the rules for single rows.

        ``typed``: every value is known to be null or of the column's own type. An auto column stays a
        list of canonical values, because rows yet to come may widen it.
        """
        if self.field.kind is Kind.RAW:
            return values, []
        column = None if self._arrow is None else self._at_once(values, self._arrow, typed)
        if column is not None:
            return column, []
        return self._one_by_one(values)

    def takes(self, column: ArrowArray) -> bool:
        """Whether a column of values is this field's as it stands: what ``read`` would make of them is the same."""
        return column.type == self._arrow and self.field.kind in _AS_IT_STANDS

    def _one_by_one(self, values: list[Any]) -> tuple[ArrowArray | list[Any], list[int]]:
        bad: list[int] = []
        canonical: list[Any] = []
        for at, value in enumerate(values):
            try:
                canonical.append(self.coerce(value))
            except (BadValue, Truncated):
                canonical.append(None)
                bad.append(at)
        return canonical if self._arrow is None else self.build(canonical), bad

    def read_computed(self, computed: Computed) -> tuple[ArrowArray | list[Any], list[int]]:
        """As ``read``, of a transform's values; what is of the column's own type is taken as it is."""
        if computed.column is not None and computed.column.type == self._arrow:
            return computed.column, []
        values = computed.to_list()
        # Infinities come from expressions, never from JSON, and only the rules for single values know both.
        if any(type(value) is float and math.isinf(value) for value in values):
            return self._one_by_one(values)
        return self.read(values)

    def _at_once(self, values: list[Any], arrow: pa.DataType, typed: bool) -> ArrowArray | None:
        """The column without looking at single values; None where their types are mixed or out of range."""
        try:
            if self.field.kind is Kind.STRING:
                return pa.array(values, pa.string())
            if self.field.kind is Kind.JSON:
                return None
            if self.field.sketch is not None:
                return SketchInput(self.field.sketch, self.field.stored_input).at_once(values)
            if arrow in _EXPECTED and (typed or set(map(type, values)) <= _EXPECTED[arrow]):
                return self._of_expected(values)
        except (OverflowError, UnicodeEncodeError, pa.ArrowInvalid, pa.ArrowTypeError):
            pass
        if self.field.kind is Kind.STRING:
            kinds = set(map(type, values)) - {_NONE}
            return self._texts_in_lists(values) if list in kinds else self._texts_of_one_type(kinds, values)
        return None

    def _texts_in_lists(self, values: list[Any]) -> ArrowArray | None:
        """Texts and lists of texts, as the rules for single values have them; None where anything else is there."""
        order: Callable[[Any], Any] = list
        if self.field.multi_value is MultiValueHandling.SORTED_ARRAY:
            order = sorted
        elif self.field.multi_value is MultiValueHandling.SORTED_SET:
            order = _sorted_set
        try:
            lists = [[v] if type(v) is not list else order(v) if len(v) > 1 else v for v in values]
            lists = [None if v is None else one for v, one in zip(values, lists, strict=True)]
            if [None] in lists:
                return None
            return pa.array(lists, STRINGS)
        except (TypeError, UnicodeEncodeError, pa.ArrowInvalid, pa.ArrowTypeError):
            return None

    def _texts_of_one_type(self, kinds: set[type], values: list[Any]) -> ArrowArray | None:
        if kinds == {bool}:
            return pa.array(values, pa.bool_()).cast(pa.string())
        if kinds == {int}:
            try:
                return pa.array(values, pa.int64()).cast(pa.string())
            except (OverflowError, pa.ArrowInvalid):
                return None
        return None

    def _of_expected(self, values: Sequence[Any]) -> ArrowArray:
        if self._arrow != pa.float32():
            return pa.array(values, self._arrow)
        wide = np.array(values, dtype=np.float64)  # None becomes NaN, which JSON cannot hold
        finite = wide[np.isfinite(wide)] if self._non_finite else wide
        if finite.size and np.nanmax(np.abs(finite), initial=0.0) > _FLOAT32_MAX:
            raise OverflowError
        if self._non_finite:
            absent = np.fromiter((value is None for value in values), dtype=np.bool_, count=len(values))
            return array_of(wide.astype(np.float32), absent)
        return pa.array(wide.astype(np.float32), from_pandas=True)

    def build(self, canonical: list[Any]) -> ArrowArray:
        """The column of values that ``coerce`` gave; raw ones stay a list."""
        if self.field.kind is Kind.RAW:
            return canonical
        if self._arrow is None:
            return build(canonical, self._auto.widen(canonical))
        if self.field.kind is Kind.STRING and list in set(map(type, canonical)):
            return pa.array([v if v is None or isinstance(v, list) else [v] for v in canonical], STRINGS)
        return pa.array(canonical, self._arrow)

    def column_of(self, name: str, array: ArrowArray) -> ColumnSpec:
        """What the column ``array``, which this reader has built, is stored as."""
        kind = self.field.kind
        if kind is Kind.AUTO:
            return replace(self._auto.column, name=name)
        if kind is Kind.JSON:
            return ColumnSpec(name, ColumnType.COMPLEX, complex_type=JSON, values=self._values.widen(array))
        if kind in _ARRAYS:
            return ColumnSpec(name, _ARRAYS[kind])
        several = has_several_values(array)
        return ColumnSpec(
            name, _STORED[kind], multi_value=several, empty_lists=pa.types.is_list(array.type) and not several
        )


_STORED: Final = {
    Kind.STRING: ColumnType.STRING,
    Kind.LONG: ColumnType.LONG,
    Kind.DOUBLE: ColumnType.DOUBLE,
    Kind.FLOAT: ColumnType.FLOAT,
}


def _sorted_set(values: list[Any]) -> list[Any]:
    return sorted(set(values))


def _of_computed(plain: Callable[[Any], Any], kind: Kind) -> Callable[[Any], Any]:
    """An expression's infinity is stored exactly, where one of JSON's numbers would be too large to read."""
    exact = {Kind.DOUBLE, Kind.FLOAT, Kind.METRIC_DOUBLE, Kind.METRIC_FLOAT, Kind.AUTO}

    def coerce(value: Any) -> Any:
        if type(value) is float and math.isinf(value):
            if kind in exact:
                return value
            if kind is Kind.STRING:
                return java_double(value)
        return plain(value)

    return coerce


def joined(one: ArrowArray, other: ArrowArray) -> ArrowArray:
    """Both arrays, of which one may be of strings and the other of lists of strings."""
    if one.type != other.type and pa.types.is_string(one.type if pa.types.is_list(other.type) else other.type):
        one, other = as_lists(one), as_lists(other)
    return pa.concat_arrays([one, other])


def as_strings_where_single(array: ArrowArray) -> ArrowArray:
    """A list column as plain strings if every row has one value or none; an empty list is neither."""
    if not pa.types.is_list(array.type) or has_several_values(array) or has_empty_list(array):
        return array
    return pc.list_element(array, 0)


def first_texts(lists: ArrowArray) -> ArrowArray:
    """The first text of each list, null where there is none."""
    if has_empty_list(lists):
        lists = without_empty(lists)
    return pc.list_element(lists, 0)


def cut_at_bytes(texts: ArrowArray, most: int) -> ArrowArray:
    """Texts of at most so many bytes of UTF-8, never with a part of a character."""
    lengths: ArrowArray = pc.binary_length(texts)
    if (pc.max(lengths).as_py() or 0) <= most:
        return texts
    cut = [None if t is None else t.encode()[:most].decode(errors="ignore") for t in texts.to_pylist()]
    return pa.array(cut, pa.string())


def as_lists(array: ArrowArray) -> ArrowArray:
    """A string column as lists of one value; null stays null."""
    if array.type == STRINGS:
        return array
    valid = np.asarray(array.is_valid())
    ends = np.concatenate(([0], np.cumsum(valid))).astype(np.int32)
    mask = pa.array(~valid) if array.null_count else None
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), array.drop_null(), mask=mask)
