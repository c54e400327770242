"""Writes rows as an Arrow IPC stream, with the types that a program would give them."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from query.errors import ResourceLimitExceeded
from query.model import PlannedQuery, ResultColumn
from query.sql.types import Family

_LONG_MAX = 2**63 - 1
_WIDE = pa.decimal128(38, 0)
_SIMPLE: dict[Family, pa.DataType] = {
    Family.STRING: pa.string(),
    Family.LONG: pa.int64(),
    Family.DOUBLE: pa.float64(),
    Family.BOOLEAN: pa.bool_(),
    Family.COMPLEX: pa.string(),
    Family.NULL: pa.string(),
}
_ELEMENTS: dict[str, pa.DataType] = {"BIGINT": pa.int64(), "DOUBLE": pa.float64()}


def arrow_pieces(batches: Iterable[pa.RecordBatch], planned: PlannedQuery) -> Iterator[bytes]:
    """The stream, a piece for each batch; nothing before the first batch is there.

    Times are ``timestamp[ms]`` in the query's zone, DATE is ``date32``, longs ``int64``, booleans ``bool``, arrays
    and strings with several values lists, complex values text. A column of sums is ``decimal128(38, 0)`` where the
    first batch holds one that 64 bits do not. Each field's metadata has Druid's names of its type.

    Raises:
        ResourceLimitExceeded: a later batch holds such a sum.
        QueryError: of ``batches``; the stream then lacks its end mark.
    """
    rows = iter(batches)
    first = next(rows, None)
    schema = _schema(planned, first)
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in _chained(first, rows):
            writer.write_batch(_converted(batch, schema, planned))
            yield _taken(sink)
    yield _taken(sink)


def _chained(first: pa.RecordBatch | None, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if first is not None:
        yield first
        yield from rest


def _taken(sink: io.BytesIO) -> bytes:
    piece = sink.getvalue()
    sink.seek(0)
    sink.truncate()
    return piece


def _schema(planned: PlannedQuery, first: pa.RecordBatch | None) -> pa.Schema:
    fields = []
    for at, column in enumerate(planned.result_columns):
        type_ = _arrow_type(column, planned.time_zone)
        if type_ == pa.int64() and first is not None and _is_beyond(first.column(at)):
            type_ = _WIDE
        told = {"druid.type": column.druid_type, "sql.type": column.sql_type}
        fields.append(pa.field(column.name, type_, metadata=told))
    return pa.schema(fields)


def _arrow_type(column: ResultColumn, zone: str) -> pa.DataType:
    kind = column.type
    if kind.multi:
        return pa.list_(pa.string())
    if kind.family is Family.ARRAY:
        return pa.list_(_ELEMENTS.get(kind.element, pa.string()))
    if kind.family is Family.TIME:
        return pa.date32() if kind.name == "DATE" else pa.timestamp("ms", zone)
    return pa.float32() if kind.name == "FLOAT" else _SIMPLE[kind.family]


def _is_beyond(array: pa.Array[Any]) -> bool:
    """Whether a column of wide integers holds one that needs more than 64 bits."""
    if not pa.types.is_decimal(array.type):
        return False
    bounds: Any = pc.min_max(array).as_py()
    low, high = bounds["min"], bounds["max"]
    return high is not None and (high > _LONG_MAX or low < -_LONG_MAX - 1)


def _converted(batch: pa.RecordBatch, schema: pa.Schema, planned: PlannedQuery) -> pa.RecordBatch:
    arrays = [_column(batch.column(at), field, planned.time_zone) for at, field in enumerate(schema)]
    for at, column in enumerate(planned.result_columns):
        if column.type.multi:
            # No value is NULL, as in Druid, not a list of none.
            empty = pc.equal(pc.list_value_length(arrays[at]), pa.scalar(0, pa.int32()))
            arrays[at] = pc.if_else(empty, pa.scalar(None, arrays[at].type), arrays[at])
    return pa.record_batch(arrays, schema=schema)


def _column(array: pa.Array[Any], field: pa.Field[Any], zone: str) -> pa.Array[Any]:
    wanted = field.type
    if array.type == wanted:
        return array
    if wanted == pa.date32():
        # The day that the clock of the zone shows at that instant. (The stubs know of zones given once for all only.)
        local: pa.Array[Any] = pc.local_timestamp(array.cast(pa.int64()).cast(pa.timestamp("ms", zone)))  # type: ignore[call-overload]
        return local.cast(wanted)
    if pa.types.is_timestamp(wanted):
        return array.cast(pa.int64()).cast(wanted)
    if wanted == pa.int64() and _is_beyond(array):
        raise ResourceLimitExceeded(
            f"column {field.name}: a sum needs more than 64 bits, but the stream began with sums that did not; "
            "ask for resultFormat object, or CAST the column to DOUBLE"
        )
    if wanted == _WIDE and pa.types.is_integer(array.type):
        return array.cast(pa.int64()).cast(wanted)
    return array.cast(wanted)
