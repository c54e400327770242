"""Cuts runs at common places into slices of bounded size that follow each other in segment order.

A slice is first a range of sort granules. A granule with too many rows for one slice is cut again by ranges
of its first sort column, then of the next, so that memory stays bounded whatever the granularity.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from segments.interval import Granularity
from segments.parquet.columns import Indices, Lists
from segments.parquet.spill import Run
from segments.parquet.window import Window, gather, release_pages
from segments.schema import SegmentSchema
from segments.truncation import Int64Array, truncate_ms


@dataclass(frozen=True, slots=True)
class _Granules:
    """A run's distinct granules in order, and the row at which each begins (with the run's end as last)."""

    run: Run
    granules: Int64Array
    begins: Indices


def slices_of(runs: Sequence[Run], schema: SegmentSchema, rows_target: int) -> Iterator[list[Window]]:
    """Slices in segment order; each holds all rows of its keys and about ``rows_target`` rows if keys allow."""
    per_run = [_granules_of(run, schema.sort_granularity) for run in runs]
    granules, inverse = np.unique(np.concatenate([part.granules for part in per_run]), return_inverse=True)
    counts = np.bincount(inverse, weights=np.concatenate([np.diff(part.begins) for part in per_run]))
    ends = np.cumsum(counts.astype(np.int64))
    first, done = 0, 0
    while first < len(granules):
        following = max(first + 1, int(np.searchsorted(ends, done + rows_target, side="right")))
        windows = [window for part in per_run for window in _windows(part, granules, first, following)]
        rows = int(ends[following - 1]) - done
        if rows > 2 * rows_target:
            yield from _cut_by_columns(windows, schema, list(schema.sort_order), rows_target)
        else:
            yield windows
        first, done = following, int(ends[following - 1])


def _granules_of(run: Run, granularity: Granularity) -> _Granules:
    of_rows = truncate_ms(granularity, run.times)
    begins = np.concatenate([[0], np.flatnonzero(of_rows[1:] != of_rows[:-1]) + 1])
    return _Granules(run, of_rows[begins], np.append(begins, len(of_rows)))


def _windows(part: _Granules, granules: Int64Array, first: int, following: int) -> Iterator[Window]:
    low = int(np.searchsorted(part.granules, granules[first]))
    high = int(np.searchsorted(part.granules, granules[following - 1], side="right"))
    if low < high:
        yield Window(part.run, int(part.begins[low]), int(part.begins[high]))


def _cut_by_columns(
    windows: list[Window], schema: SegmentSchema, columns: list[str], rows_target: int
) -> Iterator[list[Window]]:
    rows = sum(map(len, windows))
    if rows <= 2 * rows_target or not columns:
        yield from _cut_by_time(windows, schema, rows_target) if rows > 2 * rows_target else [windows]
        return
    name, rest = columns[0], columns[1:]
    ranks = _ranks(windows, schema, name)
    if ranks is None:
        yield windows
        return
    # One number per rank says which part it goes to; a part takes ranks until it has enough rows.
    counts = np.bincount(ranks)
    part_of = (np.cumsum(counts) - counts) // rows_target
    heavy = counts > rows_target
    # A rank with a slice's worth of rows gets a part of its own, which the next column may cut.
    steps = np.concatenate([[True], (part_of[1:] != part_of[:-1]) | heavy[1:] | heavy[:-1]])
    parts = (np.cumsum(steps, dtype=np.int32) - np.int32(1))[ranks]
    del ranks
    release_pages(windows)
    for chosen in _distribute(windows, parts):
        if sum(map(len, chosen)) <= 2 * rows_target:
            yield chosen
        else:
            yield from _cut_by_columns(chosen, schema, rest, rows_target)


def _distribute(windows: list[Window], parts: npt.NDArray[Any]) -> Iterator[list[Window]]:
    """For each part in order, the rows of every window that belong to it."""
    ordered: list[npt.NDArray[np.int32]] = []
    bounds, begin = [], 0
    numbers = np.arange(int(parts.max()) + 2)
    for window in windows:
        mine = parts[begin : begin + len(window)]
        order = np.argsort(mine, kind="stable")
        bounds.append(np.searchsorted(mine[order], numbers))
        ordered.append(order.astype(np.int32))
        begin += len(window)
    for part in range(len(numbers) - 1):
        chosen = []
        for window, places, bound in zip(windows, ordered, bounds, strict=True):
            rows = places[bound[part] : bound[part + 1]].astype(np.int64)
            if len(rows):
                picked = rows + window.start if window.picked is None else window.picked[rows]
                chosen.append(Window(window.run, 0, 0, picked))
        if chosen:
            yield chosen


def _ranks(windows: list[Window], schema: SegmentSchema, name: str) -> npt.NDArray[np.int32] | None:
    """Dense ranks of a column with nulls as 0, or None for a multi-value column, which is never cut."""
    column = gather(windows, name, schema.to_arrow().field(name).type)
    if isinstance(column, Lists):
        return None
    ranks, span = column.ranks()
    if span > 2 * len(ranks):
        ranks = np.unique(ranks, return_inverse=True)[1]
    return ranks.astype(np.int32)


def _cut_by_time(windows: list[Window], schema: SegmentSchema, rows_target: int) -> Iterator[list[Window]]:
    """Rows equal in all sort columns: cut by exact time, and with equal times anywhere unless they roll up."""
    times = np.concatenate([window.times for window in windows])
    ranks = np.unique(times, return_inverse=True)[1]
    if not schema.rollup:
        order = np.argsort(ranks, kind="stable")
        ranks = np.empty_like(order)
        ranks[order] = np.arange(len(order))
    counts = np.bincount(ranks)
    yield from _distribute(windows, ((np.cumsum(counts) - counts) // rows_target)[ranks])
