"""Decides what columns a segment has, of which types, and in which order its rows lie.

Importing this module does not load Arrow, so that protocol messages may carry schemas.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Literal

import orjson

from segments.errors import InvalidSchema
from segments.interval import Granularity

if TYPE_CHECKING:
    import pyarrow as pa

TIME_COLUMN = "__time"
RESERVED_PREFIX = "__time_of:"
"""Spills keep the event times of first and last metrics in columns of such names."""

ColumnKind = Literal["time", "dimension", "metric"]
_KINDS: tuple[ColumnKind, ...] = ("time", "dimension", "metric")


def is_column_name(name: str) -> bool:
    """Whether a column may be called so. Arrow hands names between libraries as texts that end at a NUL."""
    return bool(name) and "\0" not in name and not name.startswith(RESERVED_PREFIX)


class ColumnType(StrEnum):
    """Druid's stored types. COMPLEX (sketches, JSON) is stored as bytes or text by its own column code.

    An array may be empty, which is not null; so may a multi-value STRING, where only few questions tell it from null.
    """

    STRING = "STRING"
    LONG = "LONG"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    COMPLEX = "COMPLEX"
    LONG_ARRAY = "ARRAY<LONG>"
    DOUBLE_ARRAY = "ARRAY<DOUBLE>"
    STRING_ARRAY = "ARRAY<STRING>"

    @property
    def element(self) -> "ColumnType | None":
        """The type of an array's values; None for all other types."""
        return _ELEMENTS.get(self)


_ELEMENTS = {
    ColumnType.LONG_ARRAY: ColumnType.LONG,
    ColumnType.DOUBLE_ARRAY: ColumnType.DOUBLE,
    ColumnType.STRING_ARRAY: ColumnType.STRING,
}
_WIDTHS = {ColumnType.LONG: 0, ColumnType.FLOAT: 1, ColumnType.DOUBLE: 2, ColumnType.STRING: 3}
JSON = "json"
"""The complex type of nested data."""

NO_VALUES = "null"
"""What ``ColumnSpec.values`` is where all of them are null."""

_TYPES = frozenset(kind.value for kind in ColumnType)
_VALUES = (_TYPES - {ColumnType.COMPLEX.value}) | {NO_VALUES}


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """One column. ``multi_value`` (strings only): stored as a list, because some row has several values.
    ``empty_lists`` (strings only): no row has several, but some row has an empty list, so that it is stored as a list
    too; it is told and read as a plain text, unless another segment has rows of several values.

    ``complex_type`` names what a COMPLEX column holds, as in Druid's ``COMPLEX<json>``. ``untyped``: null in every
    row, and of a type that values would tell; it is stored as LONG and gives way to any type. ``aggregator`` says how
    values of a metric unite: the JSON text of Druid's combining aggregator without its names, "" where unknown.
    ``values`` of nested data: the least type that holds every value there, as long as none is an object or a list of
    lists; ``NO_VALUES`` where all are null, "" where one is nested or nobody looked. It changes how a column is told
    and bound, never how it is stored.
    """

    name: str
    type: ColumnType
    multi_value: bool = False
    kind: ColumnKind = "dimension"
    complex_type: str = ""
    untyped: bool = False
    aggregator: str = ""
    values: str = ""
    empty_lists: bool = False

    def __post_init__(self) -> None:
        # What a spill keeps for its merge is described too; a segment's own columns cannot be called so.
        if not is_column_name(self.name.removeprefix(RESERVED_PREFIX)):
            raise InvalidSchema(f"no column can be called {self.name!r}")
        if self.multi_value and self.type is not ColumnType.STRING:
            raise InvalidSchema(f"column {self.name!r}: only a STRING column can be multi-value, not {self.type}")
        if self.empty_lists and (self.multi_value or self.type is not ColumnType.STRING):
            raise InvalidSchema(f"column {self.name!r}: only a STRING column of single values has empty lists")
        if (self.kind == "time") != (self.name == TIME_COLUMN):
            raise InvalidSchema(f"column {self.name!r}: the time column, and only it, is called {TIME_COLUMN}")
        if (self.type is ColumnType.COMPLEX) != bool(self.complex_type):
            raise InvalidSchema(f"column {self.name!r}: a COMPLEX column, and only such, names its complex type")
        if self.values and (not self.is_json or self.values not in _VALUES):
            raise InvalidSchema(f"column {self.name!r}: no nested data has values of type {self.values!r}")

    @property
    def is_list(self) -> bool:
        """Whether a text column is stored as lists of texts."""
        return self.multi_value or self.empty_lists

    @property
    def type_signature(self) -> str:
        """Druid's spelling of the type: ``LONG``, ``COMPLEX<json>``."""
        return f"COMPLEX<{self.complex_type}>" if self.complex_type else self.type.value

    @property
    def told_type(self) -> str:
        """The type as users are told it: what only held nulls is a text, as in Druid, and nested data without
        anything nested what its values are."""
        if self.untyped:
            return ColumnType.STRING.value
        return self.type_signature if self.values in ("", NO_VALUES) else self.values

    @property
    def told(self) -> "ColumnSpec":
        """The column of ``told_type``, where that is not how it is stored."""
        if self.values in ("", NO_VALUES):
            return self
        return replace(self, type=ColumnType(self.values), complex_type="", values="")

    @property
    def is_sketch(self) -> bool:
        """Whether it holds bytes that only ``segments.sketch`` reads; null is an empty sketch."""
        return self.type is ColumnType.COMPLEX and self.complex_type != JSON

    @property
    def is_json(self) -> bool:
        """Whether it holds nested data as JSON texts."""
        return self.complex_type == JSON

    def to_json(self) -> dict[str, object]:
        value: dict[str, object] = {"name": self.name, "type": self.type.value, "kind": self.kind}
        if self.is_list:
            # Whoever does not know of empty lists reads the lists all the same.
            value["multiValue"] = True
        if self.empty_lists:
            value["emptyLists"] = True
        if self.complex_type:
            value["complexType"] = self.complex_type
        if self.untyped:
            value["untyped"] = True
        if self.aggregator:
            value["aggregator"] = self.aggregator
        if self.values:
            value["values"] = self.values
        return value

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> "ColumnSpec":
        """Reads what ``to_json`` wrote.

        Raises:
            InvalidSchema: a field is missing or not one of its values.
        """
        kind = value.get("kind")
        if kind not in _KINDS or value.get("type") not in _TYPES:
            raise InvalidSchema(f"column {dict(value)!r} has an unknown type or kind")
        return cls(
            name=str(value.get("name", "")),
            type=ColumnType(str(value["type"])),
            multi_value=value.get("multiValue") is True and value.get("emptyLists") is not True,
            empty_lists=value.get("emptyLists") is True,
            kind=kind,
            complex_type=str(value.get("complexType", "")),
            untyped=value.get("untyped") is True,
            aggregator=str(value.get("aggregator", "")),
            values=str(value.get("values", "")),
        )


def array_type(element: ColumnType) -> ColumnType:
    """The array that holds such values; floats become doubles."""
    found = next((array for array, inner in _ELEMENTS.items() if inner is element), None)
    return ColumnType.DOUBLE_ARRAY if found is None else found


def wider(one: ColumnSpec, other: ColumnSpec) -> ColumnSpec:
    """The first column with the least type that holds the values of both: long, float, double, text; an array where
    one is an array; nested data where one is nested. A sketch stays what it is."""
    if one == other or one.is_sketch or other.is_sketch or one.kind == "time":
        return one
    if one.untyped or other.untyped:
        known = other if one.untyped else one
        return replace(known, name=one.name, kind=one.kind)
    if one.is_json or other.is_json:
        values = _values_of(one, other)
        plain = replace(one, multi_value=False, empty_lists=False)
        return replace(plain, type=ColumnType.COMPLEX, complex_type=JSON, values=values)
    inner = [column.type.element or column.type for column in (one, other)]
    widest = max(inner, key=_WIDTHS.__getitem__)
    if one.type.element or other.type.element:
        return replace(one, type=array_type(widest), multi_value=False, empty_lists=False)
    is_text = widest is ColumnType.STRING
    several = (one.multi_value or other.multi_value) and is_text
    empty = (one.empty_lists or other.empty_lists) and is_text and not several
    return replace(one, type=widest, multi_value=several, empty_lists=empty)


def _values_of(one: ColumnSpec, other: ColumnSpec) -> str:
    """The type of the values of two columns, of which one at least is nested data."""
    if any(column.is_json and not column.values for column in (one, other)):
        return ""
    told = [column.told for column in (one, other) if column.values != NO_VALUES]
    if not told:
        return NO_VALUES
    found = told[0] if len(told) == 1 else wider(told[0], told[1])
    return array_type(found.type).value if found.multi_value else found.type.value


TIME = ColumnSpec(TIME_COLUMN, ColumnType.LONG, kind="time")


@dataclass(frozen=True)
class SegmentSchema:
    """The columns of a segment in stored order, time among them, and what was done to its rows.

    ``sort_order`` names dimensions; rows lie by (``sort_granularity`` bucket of the time, these columns with
    nulls first, time). Column names are exact: ``userId`` and ``userid`` are two.
    """

    columns: tuple[ColumnSpec, ...]
    sort_order: tuple[str, ...]
    query_granularity: Granularity = Granularity.NONE
    rollup: bool = False

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        reserved = [name for name in names if not is_column_name(name)]
        if reserved:
            raise InvalidSchema(f"no column can be called {reserved[0]!r}")
        twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
        if twice:
            raise InvalidSchema(f"columns occur twice: {', '.join(twice)}")
        known = frozenset(names)
        if TIME_COLUMN not in known:
            raise InvalidSchema(f"a segment needs its time column {TIME_COLUMN}")
        unknown = [name for name in self.sort_order if name not in known or name == TIME_COLUMN]
        if unknown or len(set(self.sort_order)) < len(self.sort_order):
            raise InvalidSchema(f"sort order {list(self.sort_order)} must name each dimension once; unknown: {unknown}")

    @classmethod
    def of(
        cls, columns: Iterable[ColumnSpec], query_granularity: Granularity = Granularity.NONE, rollup: bool = False
    ) -> "SegmentSchema":
        """A schema that is sorted by all its dimensions in their order; adds the time column in front if absent.

        Raises:
            InvalidSchema: a name occurs twice.
        """
        given = tuple(columns)
        if all(column.kind != "time" for column in given):
            given = (TIME, *given)
        order = tuple(column.name for column in given if column.kind == "dimension")
        return cls(given, order, query_granularity, rollup)

    @property
    def dimensions(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns if column.kind == "dimension")

    @property
    def metrics(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns if column.kind == "metric")

    @property
    def multi_value_columns(self) -> frozenset[str]:
        return frozenset(column.name for column in self.columns if column.multi_value)

    @property
    def sort_granularity(self) -> Granularity:
        """The coarser of query granularity and a minute.

        Sorting by exact milliseconds would leave every dimension in random order, which costs a third of
        the file's size; a minute keeps row groups narrow enough in time to be skipped.
        """
        if self.query_granularity.nominal_width_ms < Granularity.MINUTE.nominal_width_ms:
            return Granularity.MINUTE
        return self.query_granularity

    def column(self, name: str) -> ColumnSpec | None:
        """The column of exactly this name, or None."""
        return self._by_name.get(name)

    @cached_property
    def _by_name(self) -> dict[str, ColumnSpec]:
        return {column.name: column for column in self.columns}

    def with_multi_value(self, names: Iterable[str], empty: Iterable[str] = ()) -> "SegmentSchema":
        """The same schema in which exactly the named columns are multi-value, and of the others those in ``empty``
        have empty lists."""
        lists = frozenset(names)
        bare = frozenset(empty) - lists
        columns = (replace(c, multi_value=c.name in lists, empty_lists=c.name in bare) for c in self.columns)
        return replace(self, columns=tuple(columns))

    def to_arrow(self) -> "pa.Schema":
        """Arrow types as they stand in segment files; see ``segments.arrow_schema``."""
        from segments.arrow_schema import to_arrow

        return to_arrow(self)

    @classmethod
    def from_arrow(
        cls, schema: "pa.Schema", metrics: Iterable[str] = (), query_granularity: Granularity = Granularity.NONE
    ) -> "SegmentSchema":
        """The schema of columns with such Arrow types; what is not named a metric is a dimension.

        Raises:
            InvalidSchema: an Arrow type that no segment column has.
        """
        from segments.arrow_schema import from_arrow

        return from_arrow(schema, metrics, query_granularity)

    def to_json(self) -> dict[str, object]:
        return {
            "columns": [column.to_json() for column in self.columns],
            "sortOrder": list(self.sort_order),
            "queryGranularity": self.query_granularity.to_json(),
            "rollup": self.rollup,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> "SegmentSchema":
        """Reads what ``to_json`` wrote. The segments of a table mostly have one schema: it is the same object then.

        Raises:
            InvalidSchema, InvalidGranularity: fields are missing or wrong.
        """
        try:
            return _read(orjson.dumps(value))
        except TypeError as error:  # a value that JSON does not have
            raise InvalidSchema(f"a segment schema cannot hold {error}") from error

    @classmethod
    def _of_json(cls, value: Mapping[str, object]) -> "SegmentSchema":
        columns, order = value.get("columns"), value.get("sortOrder")
        if not isinstance(columns, list) or not isinstance(order, list):
            raise InvalidSchema("a segment schema has the fields columns and sortOrder")
        return cls(
            columns=tuple(ColumnSpec.from_json(column) for column in columns),
            sort_order=tuple(str(name) for name in order),
            # Whatever stands there, it is judged by `of`.
            query_granularity=Granularity.of(value.get("queryGranularity") or "NONE"),  # type: ignore[arg-type]
            rollup=value.get("rollup") is True,
        )


@lru_cache(maxsize=1_024)
def _read(document: bytes) -> SegmentSchema:
    return SegmentSchema._of_json(orjson.loads(document))
