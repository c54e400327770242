"""Rolls up rows in memory by one Arrow group-by: a saving before the merge, which alone has to be complete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from segments.arrow_arrays import ArrowArray
from segments.rollup import MergeFunction, RollupAggregation
from segments.schema import TIME_COLUMN, SegmentSchema
from segments.sketch.merge import merge_runs

_SURELY_LONG: Final = 2**62
# Arrow's names of what it does to a group. A sketch's rows are listed and united here.
_GROUPED: Final = {MergeFunction.ANY: "first", MergeFunction.SKETCH: "list"}


def can_roll_up(schema: SegmentSchema, aggregations: Sequence[RollupAggregation]) -> bool:
    """Not for first and last, whose ties need the order of arrival, nor for multi-value keys: both are left
    to the merge."""
    return not schema.multi_value_columns and all(item.time_column is None for item in aggregations)


def rolled_up(rows: pa.Table, schema: SegmentSchema, aggregations: Sequence[RollupAggregation]) -> pa.Table:
    """Rows equal in time and all dimensions become one; the rows as they are where a long sum might leave
    64 bits. Runs on the calling thread alone; no order is promised."""
    if not rows.num_rows or _might_overflow(rows, aggregations):
        return rows
    keys = [TIME_COLUMN, *schema.dimensions]
    wanted: Any = [(item.column, _grouped(item)) for item in aggregations]
    grouped = rows.group_by(keys, use_threads=False).aggregate(wanted)
    columns: list[ArrowArray] = [grouped.column(key) for key in keys]
    for item in aggregations:
        column: Any = grouped.column(f"{item.column}_{_grouped(item)}")
        if item.sketch is not None:
            column = _united(column, item)
        # Sums of 32-bit floats come back as doubles.
        columns.append(column.cast(rows.schema.field(item.column).type))
    fields: Any = [rows.schema.field(name) for name in [*keys, *schema.metrics]]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def _grouped(item: RollupAggregation) -> str:
    return _GROUPED.get(item.function, item.function.value)


def _united(listed: Any, item: RollupAggregation) -> ArrowArray:
    assert item.sketch is not None
    lists = listed.combine_chunks()
    starts = np.asarray(lists.offsets).astype(np.int64)
    return merge_runs(item.sketch, lists.flatten(), starts[:-1] - starts[0])


def _might_overflow(rows: pa.Table, aggregations: Sequence[RollupAggregation]) -> bool:
    for item in aggregations:
        column = rows.column(item.column)
        if item.function is MergeFunction.SUM and pa.types.is_integer(column.type):
            bounds: Any = pc.min_max(column).as_py()
            largest = max(abs(bounds["min"] or 0), abs(bounds["max"] or 0))
            if largest * rows.num_rows >= _SURELY_LONG:
                return True
    return False
