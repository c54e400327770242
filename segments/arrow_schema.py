"""Maps segment columns to the Arrow types of segment files and live batches, and back."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from segments.errors import InvalidSchema
from segments.interval import Granularity
from segments.schema import TIME, TIME_COLUMN, ColumnKind, ColumnSpec, ColumnType, SegmentSchema, array_type

TIME_TYPE = pa.timestamp("ms", tz="UTC")
_PLAIN: dict[ColumnType, pa.DataType] = {
    ColumnType.STRING: pa.string(),
    ColumnType.LONG: pa.int64(),
    ColumnType.FLOAT: pa.float32(),
    ColumnType.DOUBLE: pa.float64(),
}


_ARRAY_ITEM = "element"
_TYPE_KEY = b"siltstone.type"
_VALUES_KEY = b"siltstone.values"
_UNTYPED = "UNTYPED"
_EMPTY_LISTS_KEY = b"siltstone.emptyLists"


def arrow_type(column: ColumnSpec) -> pa.DataType:
    """The stored Arrow type; never a dictionary type (see docs/reference/segment-format.md)."""
    if column.kind == "time":
        return TIME_TYPE
    if column.type is ColumnType.COMPLEX:
        return pa.string() if column.is_json else pa.binary()
    if column.type.element is not None:
        return pa.list_(pa.field(_ARRAY_ITEM, _PLAIN[column.type.element]))
    return pa.list_(pa.string()) if column.is_list else _PLAIN[column.type]


def is_array(arrow: pa.DataType) -> bool:
    """Whether ``arrow_type`` gave this list type for an array, in which an empty list is not null.

    Arrow calls types equal whose items have different names: ask of the schema's own type, not of a column's.
    """
    return pa.types.is_list(arrow) and arrow.value_field.name == _ARRAY_ITEM


def tagged(rows: pa.Table, schema: SegmentSchema) -> pa.Table:
    """The rows with fields that say what their Arrow type does not: JSON is a text, an array a list, a sketch bytes.

    Only so a reader of chunks and spills, which has no schema beside it, can tell.
    """
    fields = []
    for field in rows.schema:
        column = schema.column(field.name)
        fields.append(field if column is None else _tagged(field, column))
    return pa.Table.from_arrays(rows.columns, schema=pa.schema(fields))


def _tagged(field: "pa.Field[Any]", column: ColumnSpec) -> "pa.Field[Any]":
    if column.untyped:
        return field.with_metadata({_TYPE_KEY: _UNTYPED})
    if column.empty_lists:
        return field.with_metadata({_EMPTY_LISTS_KEY: b"true"})
    if column.type is ColumnType.COMPLEX or column.type.element is not None:
        told: dict[bytes | str, bytes | str] = {_TYPE_KEY: column.type_signature}
        if column.values:
            told[_VALUES_KEY] = column.values
        return field.with_metadata(told)
    return field.remove_metadata()


def column_of_field(field: "pa.Field[Any]") -> ColumnSpec:
    """The column of a field of ``tagged`` rows.

    Raises:
        InvalidSchema: no segment column is stored so.
    """
    tag = (field.metadata or {}).get(_TYPE_KEY)
    if tag is None:
        column = column_of(field.name, field.type)
        only_empty = column.multi_value and _EMPTY_LISTS_KEY in (field.metadata or {})
        return replace(column, multi_value=False, empty_lists=True) if only_empty else column
    signature = tag.decode()
    if signature == _UNTYPED:
        return ColumnSpec(field.name, ColumnType.LONG, untyped=True)
    if signature.startswith("COMPLEX<"):
        values = (field.metadata or {}).get(_VALUES_KEY, b"").decode()
        return ColumnSpec(field.name, ColumnType.COMPLEX, complex_type=signature[8:-1], values=values)
    return ColumnSpec(field.name, ColumnType(signature))


def to_arrow(schema: SegmentSchema) -> pa.Schema:
    """One nullable field per column, the time not nullable, in stored order."""
    return pa.schema([pa.field(c.name, arrow_type(c), nullable=c.kind != "time") for c in schema.columns])


def column_of(name: str, arrow: pa.DataType, kind: ColumnKind = "dimension") -> ColumnSpec:
    """The segment column that an Arrow field stands for; dictionary types count as their values' type.

    Raises:
        InvalidSchema: no segment column is stored so.
    """
    if name == TIME_COLUMN:
        return TIME
    if pa.types.is_dictionary(arrow):
        arrow = arrow.value_type
    if pa.types.is_list(arrow):
        inner = column_of(name, arrow.value_type, kind)
        if inner.type is not ColumnType.STRING or is_array(arrow):
            return ColumnSpec(name, array_type(inner.type), kind=kind)
        return ColumnSpec(name, inner.type, multi_value=True, kind=kind)
    if pa.types.is_large_string(arrow) or pa.types.is_null(arrow):
        arrow = pa.string()
    for column_type, plain in _PLAIN.items():
        if arrow == plain:
            return ColumnSpec(name, column_type, kind=kind)
    raise InvalidSchema(f"column {name!r} has Arrow type {arrow}, which no segment column is stored as")


def from_arrow(
    schema: pa.Schema, metrics: Iterable[str] = (), query_granularity: Granularity = Granularity.NONE
) -> SegmentSchema:
    """The schema of an Arrow table; see ``SegmentSchema.from_arrow``."""
    names = frozenset(metrics)
    columns = [column_of(field.name, field.type, "metric" if field.name in names else "dimension") for field in schema]
    return SegmentSchema.of(columns, query_granularity)
