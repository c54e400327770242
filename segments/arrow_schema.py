"""Maps segment columns to the Arrow types of segment files and live batches, and back."""

from collections.abc import Iterable

import pyarrow as pa

from segments.errors import InvalidSchema
from segments.interval import Granularity
from segments.schema import TIME, TIME_COLUMN, ColumnKind, ColumnSpec, ColumnType, SegmentSchema

TIME_TYPE = pa.timestamp("ms", tz="UTC")
_PLAIN: dict[ColumnType, pa.DataType] = {
    ColumnType.STRING: pa.string(),
    ColumnType.LONG: pa.int64(),
    ColumnType.FLOAT: pa.float32(),
    ColumnType.DOUBLE: pa.float64(),
}


def arrow_type(column: ColumnSpec) -> pa.DataType:
    """The stored Arrow type; never a dictionary type (see docs/reference/segment-format.md)."""
    if column.kind == "time":
        return TIME_TYPE
    if column.type is ColumnType.COMPLEX:
        return pa.string() if column.complex_type == "json" else pa.binary()
    return pa.list_(pa.string()) if column.multi_value else _PLAIN[column.type]


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
