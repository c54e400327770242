"""What can be asked of a stored sketch whose kind is known when the question is asked."""

from __future__ import annotations

from segments.sketch import hll, quantiles, theta, tuples
from segments.sketch.shape import SketchKind


def estimate(kind: SketchKind, sketch: bytes | None) -> float:
    """How many distinct values (quantiles: how many values); 0 where there is no sketch.

    Raises:
        ValueError: the bytes are not a sketch of this kind.
    """
    if sketch is None:
        return 0.0
    if kind is SketchKind.HLL:
        return hll.estimate(sketch)
    if kind is SketchKind.THETA:
        return theta.estimate(sketch)
    if kind is SketchKind.TUPLE:
        return tuples.estimate(sketch)
    return float(quantiles.count(sketch))


def is_sketch(kind: SketchKind, sketch: bytes) -> bool:
    """Whether the bytes can be read as a sketch of the kind."""
    try:
        estimate(kind, sketch)
    except ValueError:
        return False
    return True
