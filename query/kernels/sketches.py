"""Sketch functions: made of lists of values, merged, combined and asked, one Arrow array at a time.

The first argument of most is a text that says what kind of sketch, see ``query.sql.sketches``. A null list or
sketch is one of nothing. Bytes that are no sketch of the kind fail the statement.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from query.kernels.kernel import Kernel
from query.sql.sketches import shape_of
from segments.sketch import answers, distinct, hll, quantiles, theta, tuples
from segments.sketch.build import column_sketch, row_sketches
from segments.sketch.merge import merge_values
from segments.sketch.shape import SketchKind, SketchShape
from segments.sketch.t_test import p_values

BLOCK = 1_000_000
"""Values of one group that are hashed at a time."""
LONG_LISTS = 1_000
"""Groups of more values on average are taken one by one, for a sketch of each of their values would be too much."""


def _flat(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _constant(column: Any) -> Any:
    """The value of an argument that is the same in every row."""
    return column[0].as_py()


def _of_values(specs: Any, lists: Any) -> Any:
    if not len(specs):
        return pa.array([], pa.binary())
    shape, lists = shape_of(_constant(specs)), _flat(lists)
    if len(lists.flatten()) <= LONG_LISTS * len(lists):
        return row_sketches(shape, lists)
    return pa.array([_of_one(shape, one.values) if one.is_valid else None for one in lists], pa.binary())


def _of_one(shape: SketchShape, values: Any) -> bytes | None:
    # A quantiles sketch that is put together of others is another one than that of all values.
    block = len(values) if shape.kind is SketchKind.QUANTILES else BLOCK
    parts = [column_sketch(shape, values.slice(at, block)) for at in range(0, len(values), max(block, 1))]
    return parts[0] if len(parts) == 1 else merge_values(shape, parts)


def _marks(specs: Any, values: Any) -> Any:
    if not len(specs):
        return pa.array([], pa.uint64())
    return distinct.marks(shape_of(_constant(specs)), _flat(values))


def _of_marks(specs: Any, lists: Any) -> Any:
    if not len(specs):
        return pa.array([], pa.binary())
    shape = shape_of(_constant(specs))
    made = [distinct.of_marks(shape, one.values) if one.is_valid else None for one in _flat(lists)]
    return pa.array(made, pa.binary())


def _of_pairs(specs: Any, lists: Any) -> Any:
    """Tuple sketches: each member of a list is a key with its numbers."""
    if not len(specs):
        return pa.array([], pa.binary())
    shape, lists = shape_of(_constant(specs)), _flat(lists)
    made: list[bytes | None] = []
    for one in lists:
        if not one.is_valid or not len(one.values):
            made.append(None)
            continue
        keys, numbers = one.values.field("k"), one.values.field("v")
        columns = [numbers.field(f"v{at}") for at in range(shape.values)]
        made.append(column_sketch(shape, keys, columns))
    return pa.array(made, pa.binary())


def _of_sketches(specs: Any, lists: Any) -> Any:
    if not len(specs):
        return pa.array([], pa.binary())
    shape = shape_of(_constant(specs))
    merged = [None if one is None else merge_values(_fitting(shape, one), one) for one in lists.to_pylist()]
    return pa.array(merged, pa.binary())


def _fitting(shape: SketchShape, given: Sequence[bytes | None]) -> SketchShape:
    """The shape with as many numbers beside each key as the sketches have."""
    first = next((sketch for sketch in given if sketch is not None), None)
    if shape.kind is not SketchKind.TUPLE or first is None:
        return shape
    return replace(shape, values=tuples.read(first).values.shape[1])


def _combined(specs: Any, operations: Any, lists: Any) -> Any:
    if not len(specs):
        return pa.array([], pa.binary())
    shape, operation = shape_of(_constant(specs)), _constant(operations)
    return pa.array([_combine(shape, operation, one or []) for one in lists.to_pylist()], pa.binary())


def _combine(shape: SketchShape, operation: Any, given: Sequence[bytes | None]) -> bytes | None:
    present = [sketch for sketch in given if sketch is not None]
    shape = _fitting(shape, present)
    if operation == "UNION" or shape.kind is SketchKind.HLL:
        return merge_values(shape, present)
    if operation == "INTERSECT" and len(present) < len(given):
        return None
    if operation == "NOT" and (not given or given[0] is None):
        return None
    if shape.kind is SketchKind.TUPLE:
        return tuples.combine(shape, operation, present)
    return theta.combine(shape, operation, present)


def _each(function: Callable[[bytes], Any], type_: Any) -> Callable[[Any], Any]:
    def of_column(sketches: Any) -> Any:
        return pa.array([None if one is None else function(one) for one in sketches.to_pylist()], type_)

    return of_column


def _estimates(specs: Any, sketches: Any) -> Any:
    kind = shape_of(_constant(specs)).kind if len(specs) else SketchKind.HLL
    return pa.array([answers.estimate(kind, one) for one in sketches.to_pylist()], pa.float64())


_BOUNDS: dict[SketchKind, Callable[[bytes, int], tuple[float, float, float]]] = {
    SketchKind.HLL: hll.bounds,
    SketchKind.THETA: theta.bounds,
    SketchKind.TUPLE: tuples.bounds,
}


def _bounds(specs: Any, sketches: Any, deviations: Any) -> Any:
    """The estimate with its lower and upper bound."""
    found: list[Any] = []
    for sketch in sketches.to_pylist():
        kind = shape_of(_constant(specs)).kind
        nothing = (0.0, 0.0, 0.0)
        found.append(nothing if sketch is None else _BOUNDS[kind](sketch, _constant(deviations)))
    return pa.array([list(one) for one in found], pa.list_(pa.float64()))


_SUMMARIES: dict[SketchKind, Callable[[bytes], str]] = {
    SketchKind.HLL: hll.summary,
    SketchKind.THETA: theta.summary,
    SketchKind.QUANTILES: quantiles.summary,
    SketchKind.TUPLE: tuples.summary,
}


def _summaries(specs: Any, sketches: Any) -> Any:
    summary = _SUMMARIES[shape_of(_constant(specs)).kind] if len(specs) else hll.summary
    return _each(summary, pa.string())(sketches)


def _with_points(function: Callable[[bytes, list[float]], list[float]]) -> Callable[[Any, Any], Any]:
    def of_columns(sketches: Any, points: Any) -> Any:
        pairs = zip(sketches.to_pylist(), points.to_pylist(), strict=True)
        return pa.array([_numbers(function, one, at) for one, at in pairs], pa.list_(pa.float64()))

    return of_columns


def _numbers(function: Callable[[bytes, list[float]], list[float]], one: bytes | None, at: Any) -> Any:
    if one is None or at is None or any(point is None for point in at):
        return None
    return function(one, at)


def _ranks(sketch: bytes, values: list[float]) -> list[float]:
    return [quantiles.rank(sketch, value) for value in values]


def _even_histogram(sketch: bytes, bins: list[float]) -> list[float]:
    points = quantiles.even_points(sketch, int(bins[0]))
    return quantiles.histogram(sketch, points)


def _tuple_quantiles(sketches: Any, columns: Any, sizes: Any) -> Any:
    rows = zip(sketches.to_pylist(), columns.to_pylist(), sizes.to_pylist(), strict=True)
    return pa.array(
        [None if one is None else tuples.quantiles_of(one, at, size) for one, at, size in rows], pa.binary()
    )


def _t_tests(firsts: Any, seconds: Any) -> Any:
    pairs = zip(firsts.to_pylist(), seconds.to_pylist(), strict=True)
    return pa.array(
        [None if one is None or other is None else p_values(one, other) for one, other in pairs],
        pa.list_(pa.float64()),
    )


_DOUBLES = pa.list_(pa.float64())
KERNELS = {
    "sketch_marks_of_texts": Kernel(_marks, ("VARCHAR", "VARCHAR"), "UBIGINT"),
    "sketch_marks_of_longs": Kernel(_marks, ("VARCHAR", "BIGINT"), "UBIGINT"),
    "sketch_marks_of_doubles": Kernel(_marks, ("VARCHAR", "DOUBLE"), "UBIGINT"),
    "sketch_of_marks": Kernel(_of_marks, ("VARCHAR", "UBIGINT[]"), "BLOB"),
    "sketch_of_texts": Kernel(_of_values, ("VARCHAR", "VARCHAR[]"), "BLOB"),
    "sketch_of_longs": Kernel(_of_values, ("VARCHAR", "BIGINT[]"), "BLOB"),
    "sketch_of_doubles": Kernel(_of_values, ("VARCHAR", "DOUBLE[]"), "BLOB"),
    "sketch_of_sketches": Kernel(_of_sketches, ("VARCHAR", "BLOB[]"), "BLOB"),
    "sketch_combined": Kernel(_combined, ("VARCHAR", "VARCHAR", "BLOB[]"), "BLOB"),
    "sketch_estimate": Kernel(_estimates, ("VARCHAR", "BLOB"), "DOUBLE"),
    "sketch_bounds": Kernel(_bounds, ("VARCHAR", "BLOB", "BIGINT"), "DOUBLE[]"),
    "sketch_summary": Kernel(_summaries, ("VARCHAR", "BLOB"), "VARCHAR"),
    "sketch_quantiles": Kernel(_with_points(quantiles.quantiles), ("BLOB", "DOUBLE[]"), "DOUBLE[]"),
    "sketch_ranks": Kernel(_with_points(_ranks), ("BLOB", "DOUBLE[]"), "DOUBLE[]"),
    "sketch_cdf": Kernel(_with_points(quantiles.shares_below), ("BLOB", "DOUBLE[]"), "DOUBLE[]"),
    "sketch_histogram": Kernel(_with_points(quantiles.histogram), ("BLOB", "DOUBLE[]"), "DOUBLE[]"),
    "sketch_even_histogram": Kernel(_with_points(_even_histogram), ("BLOB", "DOUBLE[]"), "DOUBLE[]"),
    "sketch_sums": Kernel(_each(tuples.sums, _DOUBLES), ("BLOB",), "DOUBLE[]"),
    "sketch_means": Kernel(_each(tuples.means, _DOUBLES), ("BLOB",), "DOUBLE[]"),
    "sketch_variances": Kernel(_each(tuples.variances, _DOUBLES), ("BLOB",), "DOUBLE[]"),
    "sketch_entries": Kernel(_each(lambda sketch: len(tuples.read(sketch).hashes), pa.int64()), ("BLOB",), "BIGINT"),
    "sketch_t_test": Kernel(_t_tests, ("BLOB", "BLOB"), "DOUBLE[]"),
    "sketch_tuple_quantiles": Kernel(_tuple_quantiles, ("BLOB", "BIGINT", "BIGINT"), "BLOB"),
}


def pairs_kernel(key: str, values: int) -> Kernel:
    """The kernel that makes tuple sketches of keys of a type with so many numbers each."""
    numbers = ", ".join(f"v{at} DOUBLE" for at in range(values))
    return Kernel(_of_pairs, ("VARCHAR", f"STRUCT(k {key}, v STRUCT({numbers}))[]"), "BLOB")


def kernel(name: str) -> Kernel:
    """A kernel by its name; ``sketch_of_pairs_KEY_COUNT`` are made when they are asked for."""
    if name in KERNELS:
        return KERNELS[name]
    _, _, _, key, count = name.split("_")
    return pairs_kernel(key, int(count))
