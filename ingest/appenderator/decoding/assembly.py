"""Puts decoded columns together as a segment's rows: truncated time, dimensions in order, one-row aggregates."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingest.appenderator.decoding.batch import Ints
from ingest.appenderator.decoding.columns import as_strings_where_single
from ingest.appenderator.decoding.plan import Plan
from ingest.spec.model import DataSchema, Metric
from segments.arrow_arrays import ArrowArray, array_of
from segments.rollup import MergeFunction, RollupAggregation
from segments.schema import TIME_COLUMN, ColumnSpec, ColumnType, SegmentSchema
from segments.truncation import truncate_ms

_COLUMN_TYPES: Final[dict[pa.DataType, ColumnType]] = {
    pa.string(): ColumnType.STRING,
    pa.int64(): ColumnType.LONG,
    pa.float64(): ColumnType.DOUBLE,
    pa.float32(): ColumnType.FLOAT,
}
_METRIC_TYPES: Final = {"long": ColumnType.LONG, "double": ColumnType.DOUBLE, "float": ColumnType.FLOAT}


def metric_column(metric: Metric) -> ColumnSpec:
    """The stored column of an aggregator."""
    prefix = next((prefix for prefix in _METRIC_TYPES if metric.type.startswith(prefix)), "long")
    return ColumnSpec(metric.name, _METRIC_TYPES[prefix], kind="metric")


def aggregations(schema: DataSchema) -> tuple[RollupAggregation, ...]:
    """How each metric of the schema merges."""
    return tuple(RollupAggregation(metric.name, _function(metric)) for metric in schema.metrics)


def _function(metric: Metric) -> MergeFunction:
    if metric.type == "count":
        return MergeFunction.SUM
    return next(function for function in MergeFunction if metric.type.lower().endswith(function.value))


def assemble(
    plan: Plan,
    times_ms: Ints,
    columns: list[ArrowArray],
    discovered: dict[str, ArrowArray],
    keep: npt.NDArray[np.bool_] | None,
) -> tuple[SegmentSchema, pa.RecordBatch]:
    """The kept rows with their schema, which follows the columns' types: what is a list here is multi-value."""
    mask = None if keep is None else pa.array(keep)

    def kept(array: ArrowArray) -> ArrowArray:
        return as_strings_where_single(array if mask is None else array.filter(mask))

    names = [TIME_COLUMN]
    kept_times = times_ms if keep is None else times_ms[keep]
    arrays: list[ArrowArray] = [pa.array(truncate_ms(plan.schema.query_granularity, kept_times))]
    specs: list[ColumnSpec] = []
    stored = [(dimension.name, columns[at]) for dimension, at in plan.dimensions]
    for name, array in [*stored, *discovered.items()]:
        arrays.append(kept(array))
        several = pa.types.is_list(arrays[-1].type)
        kind = ColumnType.STRING if several else _COLUMN_TYPES[arrays[-1].type]
        specs.append(ColumnSpec(name, kind, multi_value=several))
        names.append(name)
    for (metric, at), merging in zip(plan.metrics, aggregations(plan.schema), strict=True):
        values = pa.array(np.ones(len(kept_times), dtype=np.int64)) if at is None else kept(columns[at])
        specs.append(metric_column(metric))
        names.append(metric.name)
        arrays.append(values)
        if merging.time_column is not None:
            names.append(merging.time_column)
            arrays.append(array_of(kept_times, ~np.asarray(values.is_valid())))
    schema = SegmentSchema.of(specs, plan.schema.query_granularity, plan.schema.rollup)
    return schema, pa.RecordBatch.from_arrays(arrays, names=names)
