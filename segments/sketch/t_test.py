"""Welch's test of two tuple sketches: how likely means as far apart come from the same values (pure)."""

from __future__ import annotations

import math

from segments.sketch import tuples

_STEPS = 500
_CLOSE = 1e-15
_TINY = 1e-300


def p_values(first: bytes, second: bytes) -> list[float]:
    """The two-sided p-value of each number beside the keys; NaN where a sketch keeps fewer than two keys.

    Raises:
        ValueError: one is no tuple sketch, or they hold different numbers of numbers.
    """
    sides = [tuples.read(sketch) for sketch in (first, second)]
    if sides[0].values.shape[1] != sides[1].values.shape[1]:
        raise ValueError("tuple sketches with different numbers of values cannot be compared")
    counts = [len(side.hashes) for side in sides]
    if min(counts) < 2:
        return [math.nan] * sides[0].values.shape[1]
    means = zip(tuples.means(first), tuples.means(second), strict=True)
    spreads = zip(tuples.variances(first), tuples.variances(second), strict=True)
    return [
        _p_value(one - other, (here / counts[0], counts[0] - 1), (there / counts[1], counts[1] - 1))
        for (one, other), (here, there) in zip(means, spreads, strict=True)
    ]


def _p_value(distance: float, first: tuple[float, int], second: tuple[float, int]) -> float:
    """Of a distance of means whose squared errors and degrees of freedom are given."""
    squared = first[0] + second[0]
    if squared == 0:
        return math.nan if distance == 0 else 0.0
    freedom = squared**2 / (first[0] ** 2 / first[1] + second[0] ** 2 / second[1])
    return two_sided(distance / math.sqrt(squared), freedom)


def two_sided(t: float, freedom: float) -> float:
    """The share of Student's distribution that lies farther from 0 than ``t``."""
    return _beta_share(freedom / (freedom + t * t), freedom / 2, 0.5)


def _beta_share(x: float, a: float, b: float) -> float:
    """The regularized incomplete beta function."""
    if x <= 0 or x >= 1:
        return min(max(x, 0.0), 1.0)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(x, a, b) / a
    return 1 - front * _fraction(1 - x, b, a) / b


def _fraction(x: float, a: float, b: float) -> float:
    """Its continued fraction, by Lentz's method."""
    c, d = 1.0, 1 / _not_zero(1 - (a + b) * x / (a + 1))
    found = d
    for m in range(1, _STEPS):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _not_zero(1 + numerator * d)
            c = _not_zero(1 + numerator / c)
            found *= c * d
        if abs(c * d - 1) < _CLOSE:
            break
    return found


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
