"""Puts decoded columns together as a segment's rows: truncated time, dimensions in order, one-row aggregates."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingest.appenderator.decoding.batch import Ints
from ingest.appenderator.decoding.columns import ColumnReader, as_strings_where_single, cut_at_bytes, first_texts
from ingest.appenderator.decoding.plan import Kind, Plan, PlannedMetric
from ingest.spec.model import DataSchema, Metric
from segments.arrow_arrays import ArrowArray, array_of, without_empty
from segments.arrow_schema import tagged
from segments.filter.evaluate import passing_rows
from segments.rollup import MergeFunction, RollupAggregation
from segments.schema import TIME_COLUMN, ColumnSpec, SegmentSchema
from segments.sketch.build import row_sketches
from segments.truncation import truncate_ms


def aggregations(schema: DataSchema) -> tuple[RollupAggregation, ...]:
    """How each metric of the schema merges."""
    return tuple(RollupAggregation(metric.name, _function(metric), metric.sketch) for metric in schema.metrics)


def _function(metric: Metric) -> MergeFunction:
    if metric.sketch is not None:
        return MergeFunction.SKETCH
    if metric.type == "count":
        return MergeFunction.SUM
    return next(function for function in MergeFunction if metric.type.lower().endswith(function.value))


def assemble(
    plan: Plan,
    times_ms: Ints,
    columns: list[ArrowArray],
    discovered: dict[str, tuple[ArrowArray, ColumnReader]],
    readers: list[ColumnReader],
    keep: npt.NDArray[np.bool_] | None,
) -> tuple[SegmentSchema, pa.RecordBatch]:
    """The kept rows with their schema: texts of which a row has several are multi-value, auto columns as wide as
    their readers have become. ``readers`` built ``columns``."""
    mask = None if keep is None else pa.array(keep)

    def kept(array: ArrowArray) -> ArrowArray:
        return array if mask is None else array.filter(mask)

    names = [TIME_COLUMN]
    kept_times = times_ms if keep is None else times_ms[keep]
    arrays: list[ArrowArray] = [pa.array(truncate_ms(plan.schema.query_granularity, kept_times))]
    specs: list[ColumnSpec] = []
    stored = [(dimension.name, columns[at], readers[at]) for dimension, at in plan.dimensions]
    for name, array, reader in [*stored, *((name, *found) for name, found in discovered.items())]:
        array = array if mask is None else array.filter(mask)
        if plan.schema.rollup:
            array = _as_key(array, is_text=reader.field.kind is Kind.STRING)
        if reader.field.kind is Kind.STRING:
            array = as_strings_where_single(array)
        arrays.append(array)
        specs.append(reader.column_of(name, array))
        names.append(name)
    inputs = _Inputs(plan, times_ms, columns)
    for planned, merging in zip(plan.metrics, aggregations(plan.schema), strict=True):
        values = kept(inputs.values_of(planned))
        specs.append(planned.metric.column)
        names.append(planned.metric.name)
        arrays.append(values)
        if merging.time_column is not None:
            names.append(merging.time_column)
            times = inputs.times_of(planned)
            arrays.append(array_of(times if keep is None else times[keep], ~np.asarray(values.is_valid())))
    schema = SegmentSchema.of(specs, plan.schema.query_granularity, plan.schema.rollup)
    rows = tagged(pa.Table.from_arrays(arrays, names=names), schema)
    return schema, pa.RecordBatch.from_arrays(arrays, schema=rows.schema)


def _as_key(values: ArrowArray, *, is_text: bool) -> ArrowArray:
    """A dimension of rows that roll up, with one value for what is no difference between two of them.

    A text's list without members is null, and zero has no sign. That is so for every row: what becomes of one never
    depends on those beside it in its batch or its segment. An empty array stays one, which null is not.
    """
    if is_text and pa.types.is_list(values.type):
        return without_empty(values)
    return pc.add(values, pa.scalar(0.0, values.type)) if pa.types.is_floating(values.type) else values


class _Inputs:
    """What the aggregators of one batch take in, before rows are left out."""

    def __init__(self, plan: Plan, times_ms: Ints, columns: list[ArrowArray]) -> None:
        self._plan = plan
        self._times_ms = times_ms
        self._columns = columns

    def values_of(self, planned: PlannedMetric) -> ArrowArray:
        """One value a row: a count's 1, a sketch of the row's value, or the value; null where a filter says so."""
        metric = planned.metric
        passing = None
        if metric.filter is not None:
            named = {name: self._columns[at] for name, at in planned.filter_fields}
            passing = passing_rows(metric.filter, named, self._times_ms)
        if planned.value is None:
            ones = np.ones(len(self._times_ms), dtype=np.int64)
            return array_of(ones if passing is None else passing.astype(np.int64))
        values = self._columns[planned.value]
        if metric.sketch is not None and not pa.types.is_binary(values.type):
            numbers = [self._columns[at] for at in planned.numbers]
            values = row_sketches(metric.sketch, values, numbers)
        if pa.types.is_list(values.type):
            # A text aggregator takes a row's first text.
            values = first_texts(values)
        if metric.type_prefix == "string":
            values = cut_at_bytes(values, metric.max_bytes)
        return values if passing is None else pc.if_else(array_of(passing), values, pa.scalar(None, values.type))

    def times_of(self, planned: PlannedMetric) -> Ints:
        """What decides between two values of a first or last."""
        if planned.time is None:
            return self._times_ms
        # As in Druid a row without that time counts as of 1970.
        return np.asarray(self._columns[planned.time].fill_null(0))
