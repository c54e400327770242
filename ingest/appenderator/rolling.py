"""Rolls up rows in memory: a saving before the merge, which alone has to be complete, and what live queries see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.appenderator.hydrant import times_of
from segments.arrow_arrays import ArrowArray, list_lengths
from segments.parquet.blobs import Blobs
from segments.parquet.columns import BoolArray, Codes, Column, Indices, Lists, Numbers, Ranked, Texts, coded
from segments.parquet.regroup import merge_groups, unmerged_starts
from segments.parquet.sort_keys import Sortable, numbered, sorted_rows
from segments.rollup import MergeFunction, RollupAggregation
from segments.schema import TIME_COLUMN, SegmentSchema

_ENCODED = pa.dictionary(pa.int32(), pa.string())


def rolled_up(rows: pa.Table, schema: SegmentSchema, aggregations: Sequence[RollupAggregation]) -> pa.Table:
    """Rows equal in time and all dimensions become one, except where a long sum would leave 64 bits.

    Sorted by time, texts dictionary-encoded, rows that stay apart in their order of arrival; the rows as they are
    where no two are equal. What makes two keys one was done to each row when it was read
    (``decoding.assembly``). Runs on the calling thread alone.
    """
    if rows.num_rows < 2:
        return rows
    columns = {name: _column(rows.column(name)) for name in rows.schema.names if name != TIME_COLUMN}
    times = times_of(rows)
    keys: list[Sortable] = [Numbers(numbered(times), None)]
    keys += [_alike(columns[name]) for name in schema.dimensions if name in columns]
    order, first = sorted_rows(rows.num_rows, keys)
    if first.all():
        return rows
    sorted_metrics = {item.column: columns[item.column].take(order) for item in aggregations}
    first = unmerged_starts(first, sorted_metrics, aggregations)
    merged: dict[str, Column] = {TIME_COLUMN: Numbers(times[order[first]], None)}
    for item in aggregations:
        merged |= _merged(item, sorted_metrics[item.column], columns, order, first)
    fields: list[pa.Field[Any]] = []
    arrays: list[ArrowArray] = []
    for field in rows.schema:
        column = merged.get(field.name) or columns[field.name].take(order[first])
        kind = _ENCODED if isinstance(column, Texts) else field.type
        fields.append(field.with_type(kind))
        arrays.append(column.to_arrow(kind))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _merged(
    item: RollupAggregation, metric: Column, columns: dict[str, Column], order: Indices, first: BoolArray
) -> dict[str, Column]:
    """A metric, and beside a first or last one the time of the value that was taken."""
    if item.time_column is None:
        return {item.column: merge_groups(metric, None, first, item)}
    times = columns[item.time_column].take(order)
    assert isinstance(times, Numbers)
    bound = MergeFunction.MIN if item.function is MergeFunction.FIRST else MergeFunction.MAX
    return {
        item.column: merge_groups(metric, times, first, item),
        item.time_column: merge_groups(times, None, first, RollupAggregation(item.time_column, bound)),
    }


def _column(chunked: ArrowArray) -> Column:
    """A column of a table as the merge knows it; texts by codes."""
    kind = chunked.type
    if pa.types.is_dictionary(kind):
        array = chunked.unify_dictionaries().combine_chunks()
        indices = array.indices.cast(pa.int32())
        return Texts(np.asarray(indices.fill_null(-1)), array.dictionary)
    array = chunked.combine_chunks()
    if pa.types.is_string(kind):
        return coded(array)
    if pa.types.is_binary(kind):
        return Blobs(array)
    if pa.types.is_list(kind):
        return Lists(array, lambda: _list_codes(array))
    valid = np.asarray(array.is_valid()) if array.null_count else None
    return Numbers(np.asarray(array.fill_null(0) if array.null_count else array), valid)


def _list_codes(lists: ArrowArray) -> Codes:
    """Numbers that are equal where lists are, no list is 0: each list as the bytes of its texts' codes."""
    codes = coded(lists.flatten()).codes
    lengths = np.asarray(pc.fill_null(list_lengths(lists), 0))
    ends = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32) * np.int32(codes.itemsize)
    buffers = [None, pa.py_buffer(ends.data), pa.py_buffer(np.ascontiguousarray(codes).data)]
    joined = pa.Array.from_buffers(pa.binary(), len(lists), buffers)
    return np.where(np.asarray(lists.is_valid()), coded(joined).codes + np.int32(1), np.int32(0))


@dataclass(frozen=True, slots=True)
class _Alike:
    """A key by numbers that are equal where its values are, in no order: nothing has to be sorted for them."""

    numbers: Codes
    span: int
    ranks_cheaply = True

    def ranks(self, rows: Indices | None = None) -> Ranked:
        return (self.numbers if rows is None else self.numbers[rows]), self.span


def _alike(column: Column) -> Sortable:
    if isinstance(column, Texts):
        return _Alike(column.codes + np.int32(1), len(column.dictionary) + 1)
    return column
