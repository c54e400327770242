"""Merges rows of equal keys by their metrics' functions, exactly: a long sum that would leave 64 bits is not made."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from segments.parquet.blobs import Blobs
from segments.parquet.columns import BoolArray, Column, Indices, Numbers
from segments.rollup import MergeFunction, RollupAggregation

_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1
# Where the sum of magnitudes as doubles stays below this, no sum can leave 64 bits.
_SURELY_LONG = 2.0**62


def unmerged_starts(
    first: BoolArray, metrics: Mapping[str, Column], aggregations: Sequence[RollupAggregation]
) -> BoolArray:
    """``first`` (row begins a group), with every row of a group on its own if one of its long sums overflows."""
    starts = np.flatnonzero(first)
    overflowing = np.zeros(len(starts), dtype=np.bool_)
    for aggregation in aggregations:
        column = metrics[aggregation.column]
        if aggregation.function is not MergeFunction.SUM or not isinstance(column, Numbers):
            continue
        if column.values.dtype == np.int64:
            overflowing |= _sum_overflows(column, starts)
    if not overflowing.any():
        return first
    group_of = np.cumsum(first) - 1
    alone: BoolArray = first | overflowing[group_of]
    return alone


def _sum_overflows(column: Numbers, starts: Indices) -> BoolArray:
    values = _filled(column, 0)
    suspicious = np.add.reduceat(np.abs(values.astype(np.float64)), starts) >= _SURELY_LONG
    ends = np.append(starts[1:], len(values))
    for group in np.flatnonzero(suspicious):
        exact = sum(values[starts[group] : ends[group]].tolist())
        suspicious[group] = not _LONG_MIN <= exact <= _LONG_MAX
    return suspicious


def merge_groups(column: Column, times: Numbers | None, first: BoolArray, aggregation: RollupAggregation) -> Column:
    """One value per group of sorted rows; null where a group has none.

    ``times`` (FIRST and LAST only): the event time of each value, invalid where there is no value.

    Raises:
        SpillUnreadable: bytes that are no sketch.
    """
    starts = np.flatnonzero(first)
    function = aggregation.function
    if len(starts) == len(first):
        return column
    if aggregation.sketch is not None:
        assert isinstance(column, Blobs), "sketches are bytes"
        return column.united(starts, aggregation.sketch)
    if function is MergeFunction.ANY:
        # All values come at one time, so the first to arrive stays.
        same = Numbers(np.zeros(len(first), dtype=np.int64), column.valid)
        return _by_time(column, same, first, starts, MergeFunction.FIRST)
    if function in (MergeFunction.FIRST, MergeFunction.LAST):
        assert times is not None, "first and last need the times of their values"
        return _by_time(column, times, first, starts, function)
    assert isinstance(column, Numbers), f"{function} merges numbers only"
    valid = None if column.valid is None else np.logical_or.reduceat(column.valid, starts)
    with np.errstate(all="ignore"):
        return Numbers(_reduce(column, starts, function), valid)


def _reduce(column: Numbers, starts: Indices, function: MergeFunction) -> npt.NDArray[np.generic]:
    dtype = column.values.dtype
    if function is MergeFunction.SUM:
        # Floats add up in double, as Druid does.
        summed = np.add.reduceat(_filled(column, 0).astype(np.int64 if dtype == np.int64 else np.float64), starts)
        return summed.astype(dtype)
    limits = np.iinfo(np.int64) if dtype == np.int64 else None
    if function is MergeFunction.MIN:
        return np.minimum.reduceat(_filled(column, limits.max if limits else np.inf), starts)
    return np.maximum.reduceat(_filled(column, limits.min if limits else -np.inf), starts)


def _by_time(column: Column, times: Numbers, first: BoolArray, starts: Indices, function: MergeFunction) -> Column:
    if function is MergeFunction.FIRST:
        best = np.minimum.reduceat(_filled(times, _LONG_MAX), starts)
    else:
        best = np.maximum.reduceat(_filled(times, _LONG_MIN), starts)
    group_of = np.cumsum(first) - 1
    matches = times.values == best[group_of]
    if times.valid is not None:
        # A group without any value gives its first row's, which is null.
        none_valid = ~np.logical_or.reduceat(times.valid, starts)
        matches &= times.valid
        matches[starts[none_valid]] = True
    rows = np.flatnonzero(matches)
    groups = group_of[rows]
    edge = np.ones(len(rows), dtype=np.bool_)
    if function is MergeFunction.FIRST:
        edge[1:] = groups[1:] != groups[:-1]
    else:
        edge[:-1] = groups[:-1] != groups[1:]
    return column.take(rows[edge])


def _filled(column: Numbers, value: float | int) -> npt.NDArray[np.generic]:
    if column.valid is None:
        return column.values
    return np.where(column.valid, column.values, column.values.dtype.type(value))
