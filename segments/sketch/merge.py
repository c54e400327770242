"""Merges stored sketches: runs of neighbouring rows into one each, or all into one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from segments.arrow_arrays import ArrowArray, array_of
from segments.sketch import hll, quantiles, theta, tuples
from segments.sketch.blobs import Starts, runs_of
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
    merged = _merged_singles(shape, blobs, lengths, several)
    if merged is None:
        merged = [merge_values(shape, blobs.slice(int(starts[run]), int(lengths[run])).to_pylist()) for run in several]
    if len(several) == len(starts):
        return pa.array(merged, pa.binary())
    # The merged ones stand behind all rows, and every run takes its own place.
    joined = pa.concat_arrays([blobs, pa.array(merged, pa.binary())])
    places = starts.copy()
    places[several] = rows + np.arange(len(several))
    return joined.take(array_of(places))


def _merged_singles(
    shape: SketchShape, blobs: ArrowArray, lengths: Starts, several: Starts
) -> list[bytes | None] | None:
    """Sketches of the runs of several rows, where every row's sketch is of one value or null; else None."""
    of_singles: Any = {
        SketchKind.HLL: hll.single_coupons,
        SketchKind.THETA: theta.single_hashes,
        SketchKind.QUANTILES: quantiles.single_numbers,
    }.get(shape.kind)
    values = None if of_singles is None else of_singles(blobs.drop_null())
    if values is None:
        return None
    wanted = np.repeat(lengths > 1, lengths)
    run_of = np.repeat(np.arange(len(lengths)), lengths)
    if blobs.null_count:
        present = np.asarray(blobs.is_valid())
        wanted, run_of = wanted[present], run_of[present]
    run_of, values = run_of[wanted], values[wanted]
    build: Any = quantiles.of_numbers
    if shape.kind is not SketchKind.QUANTILES:
        run_of, values = _distinct(run_of, values)
        build = hll.of_coupons if shape.kind is SketchKind.HLL else theta.of_hashes
    bounds = np.flatnonzero(np.diff(run_of, prepend=-1))
    made = {int(run_of[begin]): build(shape, values[begin:end]) for begin, end in runs_of(bounds, len(values))}
    return [made.get(run) for run in several.tolist()]


def _distinct(run_of: Starts, values: npt.NDArray[Any]) -> tuple[Starts, npt.NDArray[Any]]:
    """Each run's distinct values in ascending order."""
    order = np.lexsort((values, run_of))
    run_of, values = run_of[order], values[order]
    kept = np.ones(len(values), dtype=np.bool_)
    kept[1:] = (values[1:] != values[:-1]) | (run_of[1:] != run_of[:-1])
    return run_of[kept], values[kept]
