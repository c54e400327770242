"""Histogram functions: what lists of numbers are like, as JSON texts in the shapes of Druid's extension, and exact.

A break belongs to the bucket that it ends. Numbers that are not finite count nowhere; a list without numbers has no
histogram.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from query.kernels.kernel import Kernel


def _answers(tell: Callable[..., dict[str, Any]], lists: Any, *constants: Any) -> Any:
    """An answer for each list; the other arguments are the same in every row."""
    flat = lists.combine_chunks() if isinstance(lists, pa.ChunkedArray) else lists
    given = [column[0].as_py() for column in constants] if len(flat) else []
    return pa.array([_one(tell, one.values, given) if one.is_valid else None for one in flat], pa.string())


def _with_one(tell: Callable[..., dict[str, Any]]) -> Callable[..., Any]:
    return lambda lists, first: _answers(tell, lists, first)


def _with_two(tell: Callable[..., dict[str, Any]]) -> Callable[..., Any]:
    return lambda lists, first, second: _answers(tell, lists, first, second)


def _one(tell: Callable[..., dict[str, Any]], values: Any, given: list[Any]) -> str | None:
    numbers = np.sort(np.asarray(values.drop_null()))
    numbers = numbers[np.isfinite(numbers)]
    if not len(numbers):
        return None
    with np.errstate(over="ignore"):
        told = tell(numbers, *given)
    try:
        return json.dumps(told, allow_nan=False)
    except ValueError as error:
        raise ValueError("a histogram whose breaks are beyond the largest number") from error


def _between(numbers: Any, breaks: list[float]) -> list[float]:
    below = np.searchsorted(numbers, breaks, side="right")
    return [float(count) for count in np.diff(below)]


def _even(numbers: Any, buckets: int) -> dict[str, Any]:
    """Buckets of one width from below the least number to the largest, as many as asked for."""
    least, largest = float(numbers[0]), float(numbers[-1])
    width = (largest - least) / (buckets - 1)
    breaks = [least + (at - 1) * width for at in range(buckets)] + [largest]
    counts = _between(numbers, breaks) if width > 0 else [0.0] * (buckets - 1) + [float(len(numbers))]
    return {"breaks": breaks, "counts": counts}


def _stepped(numbers: Any, size: float, offset: float) -> dict[str, Any]:
    """Buckets of a size that begin at an offset: those that hold numbers, and what lies between them as one."""
    places, counted = np.unique(np.ceil((numbers - offset) / size), return_counts=True)
    breaks: list[float] = []
    counts: list[float] = []
    before = None
    for place, count in zip(places.tolist(), counted.tolist(), strict=True):
        if before is None or place != before + 1:
            breaks.append((place - 1) * size + offset)
            counts += [0.0] if before is not None else []
        breaks.append(place * size + offset)
        counts.append(float(count))
        before = place
    return {"breaks": breaks, "counts": counts}


def _broken(numbers: Any, breaks: list[float]) -> dict[str, Any]:
    return {"breaks": breaks, "counts": _between(numbers, breaks)}


def _quantiles(numbers: Any, shares: list[float]) -> dict[str, Any]:
    """The least numbers that have at least such a share of all at or below them."""
    places = np.maximum(np.ceil(np.asarray(shares) * len(numbers)) - 1, 0).astype(np.int64)
    return {
        "probabilities": shares,
        "quantiles": [float(one) for one in numbers[places]],
        "min": float(numbers[0]),
        "max": float(numbers[-1]),
    }


KERNELS = {
    "histogram_even": Kernel(_with_one(_even), ("DOUBLE[]", "BIGINT"), "VARCHAR"),
    "histogram_stepped": Kernel(_with_two(_stepped), ("DOUBLE[]", "DOUBLE", "DOUBLE"), "VARCHAR"),
    "histogram_broken": Kernel(_with_one(_broken), ("DOUBLE[]", "DOUBLE[]"), "VARCHAR"),
    "histogram_quantiles": Kernel(_with_one(_quantiles), ("DOUBLE[]", "DOUBLE[]"), "VARCHAR"),
}
