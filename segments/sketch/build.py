"""Makes sketches of values: one a row, or one of a whole column."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from segments.arrow_arrays import ArrowArray, nulls
from segments.sketch import hll, quantiles, theta, tuples
from segments.sketch.hashing import hash_column
from segments.sketch.merge import merge_all, merge_runs
from segments.sketch.shape import SketchKind, SketchShape

Doubles = npt.NDArray[np.float64]


def row_sketches(shape: SketchShape, column: ArrowArray, numbers: Sequence[ArrowArray] = ()) -> ArrowArray:
    """A binary array: for every row the sketch of its value, or of its list's values; null where there is none.

    ``column`` is of texts, numbers, booleans (as texts) or lists of texts. ``numbers`` (tuple only) are
    the columns beside the key, missing ones counting as 0.
    """
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_list(column.type):
        return _of_lists(shape, column, numbers)
    if pa.types.is_null(column.type):
        return nulls(len(column), pa.binary())
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.string())
    if shape.kind is SketchKind.QUANTILES:
        values, counts = _doubles(column)
        return quantiles.singles(shape, values, counts)
    first, second, counts = hash_column(column, shape.encoding if shape.kind is SketchKind.HLL else "utf8")
    if shape.kind is SketchKind.HLL:
        return hll.singles(shape, first, second, counts)
    if shape.kind is SketchKind.THETA:
        return theta.singles(shape, first, counts)
    return tuples.singles(shape, first, counts, [_doubles(one)[0] for one in numbers])


def _of_lists(shape: SketchShape, column: ArrowArray, numbers: Sequence[ArrowArray]) -> ArrowArray:
    parents = np.asarray(pc.list_parent_indices(column)).astype(np.int64)
    taken = [one.take(pa.array(parents)) for one in numbers]
    flat = row_sketches(shape, column.flatten(), taken)
    present = np.asarray(flat.is_valid())
    flat, parents = flat.drop_null(), parents[present]
    starts = np.flatnonzero(np.diff(parents, prepend=-1))
    merged = merge_runs(shape, flat, starts)
    place = np.full(len(column), -1, dtype=np.int64)
    place[parents[starts]] = np.arange(len(starts))
    return merged.take(pa.array(place, mask=place < 0))


def _doubles(column: ArrowArray) -> tuple[Doubles, npt.NDArray[np.bool_]]:
    """The numbers, 0 where there is none, and where there is one; a text that is no number is none."""
    if pa.types.is_string(column.type):
        column = pa.array([_parsed(text) for text in column.to_pylist()], pa.float64())
    column = column.cast(pa.float64(), safe=False)
    return np.asarray(column.fill_null(0.0)), np.asarray(column.is_valid())


def _parsed(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def column_sketch(shape: SketchShape, column: ArrowArray, numbers: Sequence[ArrowArray] = ()) -> bytes | None:
    """One sketch of all values of a column; None where it has none. Arguments as of ``row_sketches``."""
    if shape.kind is SketchKind.QUANTILES and not pa.types.is_list(column.type):
        values, counts = _doubles(column)
        return quantiles.of_numbers(shape, values[counts]) if counts.any() else None
    return merge_all(shape, row_sketches(shape, column, numbers))
