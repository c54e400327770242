"""Quantiles sketches of doubles: exact up to twice their k values, then estimates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import datasketches
import numpy as np
import numpy.typing as npt

from segments.arrow_arrays import ArrowArray
from segments.sketch.blobs import BoolArray, as_table, binary_of
from segments.sketch.shape import SketchShape

Doubles = npt.NDArray[np.float64]

_SINGLE_BYTES: Final = 40


def singles(shape: SketchShape, numbers: Doubles, counts: BoolArray) -> ArrowArray:
    """One sketch a number; null where it does not count. NaN never does."""
    rows = np.zeros((len(numbers), _SINGLE_BYTES), dtype=np.uint8)
    start = bytes((2, 3, 8, 0x18)) + shape.size.to_bytes(4, "little") + (1).to_bytes(8, "little")
    rows[:, :16] = np.frombuffer(start, dtype=np.uint8)
    # The smallest value, the largest, and the values.
    for begin in (16, 24, 32):
        rows[:, begin : begin + 8] = numbers.astype("<f8").view(np.uint8).reshape(-1, 8)
    return binary_of(rows, counts & ~np.isnan(numbers))


def single_numbers(blobs: ArrowArray) -> Doubles | None:
    """The numbers of a column of which every value is a sketch of one number; None for any other column."""
    table = as_table(blobs, _SINGLE_BYTES)
    if table is None or (table[:, 8] != 1).any() or table[:, 9:16].any():
        return None
    return np.ascontiguousarray(table[:, 32:]).view("<f8").ravel()


def of_numbers(shape: SketchShape, numbers: Doubles) -> bytes:
    """The sketch of numbers; NaN is left out."""
    found = datasketches.quantiles_doubles_sketch(shape.size)
    found.update(np.ascontiguousarray(numbers, dtype=np.float64))
    return bytes(found.serialize())


def merge(shape: SketchShape, sketches: Iterable[bytes]) -> bytes | None:
    """The sketch of all values of all sketches; None of nothing.

    Raises:
        ValueError: a value is not a quantiles sketch.
    """
    found: Any = None
    for sketch in sketches:
        if found is None:
            found = datasketches.quantiles_doubles_sketch(shape.size)
        found.merge(_read(sketch))
    return None if found is None else bytes(found.serialize())


def _read(sketch: bytes) -> Any:
    try:
        return datasketches.quantiles_doubles_sketch.deserialize(sketch)
    except (RuntimeError, ValueError, IndexError) as error:
        raise ValueError(f"not a quantiles sketch: {error}") from error


def count(sketch: bytes) -> int:
    """How many values it has seen.

    Raises:
        ValueError: not a quantiles sketch.
    """
    return int(_read(sketch).n)


def quantiles(sketch: bytes, fractions: Sequence[float]) -> list[float]:
    """The values at the fractions (0 to 1) of all values in order; NaN of an empty sketch."""
    found = _read(sketch)
    if found.is_empty():
        return [float("nan")] * len(fractions)
    return [float(found.get_quantile(fraction, inclusive=True)) for fraction in fractions]


def rank(sketch: bytes, value: float) -> float:
    """The share of values up to ``value``, as Druid counts; NaN of an empty sketch."""
    found = _read(sketch)
    return float("nan") if found.is_empty() else float(found.get_rank(value, inclusive=True))


def shares_below(sketch: bytes, points: Sequence[float]) -> list[float]:
    """The share of values up to each of the ascending points, and 1 at the end."""
    found = _read(sketch)
    if found.is_empty():
        return [float("nan")] * (len(points) + 1)
    return [float(share) for share in found.get_cdf(points, inclusive=True)]


def histogram(sketch: bytes, points: Sequence[float]) -> list[float]:
    """How many values lie up to the first of the ascending points, between each two, and past the last."""
    found = _read(sketch)
    if found.is_empty():
        return [float("nan")] * (len(points) + 1)
    return [float(share) * int(found.n) for share in found.get_pmf(points, inclusive=True)]


def even_points(sketch: bytes, bins: int) -> list[float]:
    """The points that part the values' range into so many bins of equal width; none for an empty sketch."""
    found = _read(sketch)
    if found.is_empty():
        return []
    low, high = float(found.get_min_value()), float(found.get_max_value())
    width = (high - low) / bins
    points = [low + width * at for at in range(1, bins)]
    return points if width > 0 else []


def summary(sketch: bytes) -> str:
    """A description for people."""
    return str(_read(sketch).to_string())
