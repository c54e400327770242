"""Merges the spills of one segment into its file: slice by slice in segment order, rolling up equal keys.

All work per row is in numpy and Arrow, which let other threads run meanwhile. Memory is bounded by the slice
size, whatever the number of rows: spills are mapped, and their pages are let go after every slice.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from segments.arrow_arrays import ArrowArray
from segments.parquet.columns import BoolArray, Column, Indices, Numbers
from segments.parquet.footer import SegmentFileMeta
from segments.parquet.regroup import merge_groups, unmerged_starts
from segments.parquet.slices import slices_of
from segments.parquet.sort_keys import segment_order
from segments.parquet.spill import Run, hardly_repeat, has_empty_list, has_several_values, open_runs
from segments.parquet.window import Window, gather, gather_numbers, release_pages
from segments.parquet.writer import ROW_GROUP_ROWS, SegmentFileWriter, WriteResult
from segments.rollup import MergeFunction, RollupAggregation
from segments.schema import TIME_COLUMN, ColumnType, SegmentSchema
from segments.truncation import truncate_ms

# Sums of doubles within this stay finite for any number of rows that a segment can have.
_SAFE_MAGNITUDE = 1e290
_FLOATS = (ColumnType.FLOAT, ColumnType.DOUBLE)


def merge_spills(
    sources: Sequence[Path],
    out: Path,
    schema: SegmentSchema,
    aggregations: Sequence[RollupAggregation] | None,
    meta: SegmentFileMeta,
    slice_rows: int = ROW_GROUP_ROWS,
) -> WriteResult:
    """Writes the rows of all spills, in segment order, to a new file at ``out``.

    ``sources`` are in order of arrival and hold at least one row inside the segment's interval; rows outside
    of it belong to other segments and are left out. ``schema`` has every column; multi-value
    marks are ignored and found anew: the result's schema marks exactly the columns of which a row has several
    values, and of the others those with an empty list. With ``aggregations`` (one per metric, or None: no rollup) rows
    equal in time and all dimensions become one, except where a long sum would leave 64 bits: such rows stay as they
    are. A list without members and a missing one are two keys, which the rows of a text do not have both. Rows that
    cannot be merged any more keep their order of arrival.

    The file is whole, synced and under its name when this returns.

    Raises:
        SpillUnreadable: a spill is missing, damaged, or has columns that do not fit.
        StorageFull, StorageMisconfigured, StorageUnavailable: the disk refused.
    """
    runs = open_runs(list(sources), meta.id.interval)
    assert runs, "a segment has rows"
    if aggregations is not None:
        merged = {aggregation.column for aggregation in aggregations}
        assert merged == set(schema.metrics), f"every metric rolls up, and nothing else: {merged ^ set(schema.metrics)}"
    several = set(_columns_where(has_several_values, runs, schema))
    actual = schema.with_multi_value(several, _columns_where(has_empty_list, runs, schema))
    hazards = _may_hold_nan(runs, actual, aggregations)
    repeating, unique = _encodings(runs, actual)
    with SegmentFileWriter(out, actual, meta, hazards, encoded=repeating, unique=unique) as writer:
        for windows in slices_of(runs, actual, slice_rows):
            writer.write(_merged(windows, actual, aggregations, writer.batch_schema))
            release_pages(windows)
        return writer.close()


def _merged(
    windows: Sequence[Window],
    schema: SegmentSchema,
    aggregations: Sequence[RollupAggregation] | None,
    types: pa.Schema,
) -> pa.RecordBatch:
    """One slice, sorted and rolled up, with the columns of the segment as their writer takes them."""
    plain = schema.to_arrow()
    columns: dict[str, Column] = {}
    times = np.concatenate([window.times for window in windows])
    for column in schema.columns:
        if column.kind == "dimension":
            columns[column.name] = _gathered(windows, column.name, plain.field(column.name).type)
    # Dimensions outside of the sort order still tell rows apart.
    others = [name for name in schema.dimensions if name not in schema.sort_order]
    keys_by = [columns[name] for name in [*schema.sort_order, *(others if aggregations is not None else [])]]
    order, first = segment_order(truncate_ms(schema.sort_granularity, times), keys_by, times)
    for name in schema.metrics:
        columns[name] = _gathered(windows, name, plain.field(name).type)
    columns = {name: column.take(order) for name, column in columns.items()}
    columns[TIME_COLUMN] = Numbers(times[order], None)
    if aggregations is not None:
        columns = _rolled_up(windows, columns, first, order, aggregations)
    arrays = [columns[field.name].to_arrow(field.type) for field in types]
    return pa.RecordBatch.from_arrays(arrays, schema=types)


def _gathered(windows: Sequence[Window], name: str, arrow_type: pa.DataType) -> Column:
    column = gather(windows, name, arrow_type)
    if any(window.picked is not None for window in windows):
        # Picked rows lie scattered over whole columns of all spills.
        release_pages(windows)
    return column


def _rolled_up(
    windows: Sequence[Window],
    columns: Mapping[str, Column],
    first: BoolArray,
    order: Indices,
    aggregations: Sequence[RollupAggregation],
) -> dict[str, Column]:
    if first.all():
        return dict(columns)
    first = unmerged_starts(first, columns, aggregations)
    starts = np.flatnonzero(first)
    functions = {aggregation.column: aggregation for aggregation in aggregations}
    merged: dict[str, Column] = {}
    for name, column in columns.items():
        aggregation = functions.get(name)
        if aggregation is None:
            merged[name] = column.take(starts)
            continue
        times = None
        if aggregation.time_column is not None:
            times = gather_numbers(windows, aggregation.time_column, pa.int64()).take(order)
        merged[name] = merge_groups(column, times, first, aggregation)
    return merged


def _columns_where(holds: Callable[[ArrowArray], bool], runs: Sequence[Run], schema: SegmentSchema) -> Iterator[str]:
    for column in schema.columns:
        if column.type is not ColumnType.STRING:
            continue
        found = (run.column(column.name) for run in runs)
        if any(holds(array) for array in found if array is not None):
            yield column.name


def _encodings(runs: Sequence[Run], schema: SegmentSchema) -> tuple[list[str], list[str]]:
    """Dimensions whose texts every spill has dictionary-encoded, and those whose values hardly repeat."""
    repeating: list[str] = []
    unique: list[str] = []
    for column in schema.columns:
        if column.kind != "dimension" or column.is_list or column.type is ColumnType.COMPLEX:
            continue
        arrays = [array for run in runs if (array := run.column(column.name)) is not None]
        encoded = [pa.types.is_dictionary(array.type) for array in arrays]
        if column.type is ColumnType.STRING and all(encoded):
            repeating.append(column.name)
        elif not any(encoded) and hardly_repeat(max(arrays, key=len, default=None)):
            unique.append(column.name)
    return repeating, unique


def _may_hold_nan(
    runs: Sequence[Run], schema: SegmentSchema, aggregations: Sequence[RollupAggregation] | None
) -> list[str]:
    """Float columns in which a NaN is stored, or could come out of a sum of what is stored."""
    sums = {a.column for a in aggregations or () if a.function is MergeFunction.SUM}
    found = []
    for column in schema.columns:
        if column.type not in _FLOATS:
            continue
        arrays = [array for run in runs if (array := run.column(column.name)) is not None]
        if any(_is_hazardous(array, column.name in sums) for array in arrays):
            found.append(column.name)
        for run in runs:
            run.spill.release_pages()
    return found


def _is_hazardous(array: ArrowArray, summed: bool) -> bool:
    if not pa.types.is_floating(array.type):
        return False
    if pc.any(pc.is_nan(array)).as_py():
        return True
    if not summed:
        return False
    bounds = (pc.min(array).as_py(), pc.max(array).as_py())
    return any(bound is not None and abs(bound) > _SAFE_MAGNITUDE for bound in bounds)
