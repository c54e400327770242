"""Merges stored sketches: runs of neighbouring rows into one each, or all into one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa

from segments.arrow_arrays import ArrowArray, array_of
from segments.sketch import hll, quantiles, theta, tuples
from segments.sketch.blobs import Starts, runs_of
from segments.sketch.runs import united_small
from segments.sketch.shape import SketchKind, SketchShape

_MERGES: dict[SketchKind, Callable[[SketchShape, Iterable[bytes]], bytes | None]] = {
    SketchKind.HLL: hll.merge,
    SketchKind.THETA: theta.merge,
    SketchKind.QUANTILES: quantiles.merge,
    SketchKind.TUPLE: tuples.merge,
}


def merge_values(shape: SketchShape, sketches: Iterable[bytes | None]) -> bytes | None:
    """One sketch of all; nulls are left out; None of nothing.

    Raises:
        ValueError: a value is no sketch of the shape's kind.
    """
    return _MERGES[shape.kind](shape, (sketch for sketch in sketches if sketch is not None))


def merge_all(shape: SketchShape, blobs: ArrowArray) -> bytes | None:
    """``merge_values`` of a binary array, faster where every value is a sketch of one value."""
    merged: bytes | None = None
    if len(blobs) and blobs.null_count < len(blobs):
        merged = merge_runs(shape, blobs.drop_null(), np.zeros(1, dtype=np.int64))[0].as_py()
    return merged


def merge_runs(shape: SketchShape, blobs: ArrowArray, starts: Starts) -> ArrowArray:
    """One sketch for each run of rows that begins at one of ``starts`` (ascending, the first is 0).

    Null where a run has no sketch. A run of one row keeps its bytes.

    Raises:
        ValueError: a value is no sketch of the shape's kind.
    """
    rows = len(blobs)
    if len(starts) == rows:
        return blobs
    lengths = np.diff(np.append(starts, rows))
    several = np.flatnonzero(lengths > 1)
    in_several = np.repeat(lengths > 1, lengths)
    run_of = np.repeat(np.cumsum(lengths > 1) - 1, lengths)[in_several]
    merged = _merged(shape, blobs.filter(array_of(in_several)), run_of, len(several))
    if len(several) == len(starts):
        return merged
    # The merged ones stand behind all rows, and every run takes its own place.
    joined = pa.concat_arrays([blobs, merged])
    places = starts.copy()
    places[several] = rows + np.arange(len(several))
    return joined.take(array_of(places))


def _merged(shape: SketchShape, blobs: ArrowArray, run_of: Starts, runs: int) -> ArrowArray:
    """One sketch for each of the runs that rows belong to, in ascending order."""
    if shape.kind in (SketchKind.HLL, SketchKind.THETA):
        united, done = united_small(shape, blobs, run_of, runs)
        if done.all():
            return united
        waiting = np.flatnonzero(~done)
        others = pa.array([merge_values(shape, values) for values in _values(blobs, run_of, waiting)], pa.binary())
        places = np.arange(runs)
        places[waiting] = runs + np.arange(len(waiting))
        return pa.concat_arrays([united, others]).take(array_of(places))
    if shape.kind is SketchKind.QUANTILES:
        numbers = quantiles.single_numbers(blobs.drop_null())
        if numbers is not None:
            present = run_of[np.asarray(blobs.is_valid())] if blobs.null_count else run_of
            bounds = runs_of(np.flatnonzero(np.diff(present, prepend=-1)), len(numbers))
            made = {int(present[at]): quantiles.of_numbers(shape, numbers[at:end]) for at, end in bounds}
            return pa.array([made.get(run) for run in range(runs)], pa.binary())
    return pa.array([merge_values(shape, values) for values in _values(blobs, run_of, np.arange(runs))], pa.binary())


def _values(blobs: ArrowArray, run_of: Starts, wanted: Starts) -> Iterator[list[bytes | None]]:
    """The rows of each wanted run."""
    firsts, ends = np.searchsorted(run_of, wanted), np.searchsorted(run_of, wanted, side="right")
    for first, end in zip(firsts.tolist(), ends.tolist(), strict=True):
        yield blobs.slice(first, end - first).to_pylist()
