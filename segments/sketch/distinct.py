"""Sketches of distinct values in two steps: what a sketch keeps of each value, then one sketch of many of these.

The first step goes batch by batch, so that whoever collects values for a sketch holds eight bytes of each.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from segments.arrow_arrays import ArrowArray
from segments.sketch import hll, theta
from segments.sketch.hashing import hash_column
from segments.sketch.shape import SketchKind, SketchShape

KINDS: Final = (SketchKind.HLL, SketchKind.THETA)
"""Kinds that keep nothing but a number of a value."""


def marks(shape: SketchShape, column: ArrowArray) -> ArrowArray:
    """What the sketch keeps of every value: a theta hash or an HLL coupon, as uint64; null where it does not count.

    ``column`` is of texts, whole numbers or doubles. Equal values have equal marks.
    """
    is_hll = shape.kind is SketchKind.HLL
    first, second, counts = hash_column(column, shape.encoding if is_hll else "utf8")
    kept = hll.coupons(first, second).astype(np.uint64) if is_hll else first >> np.uint64(1)
    return pa.array(kept, mask=~counts)


def of_marks(shape: SketchShape, collected: ArrowArray) -> bytes | None:
    """The sketch of marks in any order, repeated ones too; None of none."""
    distinct = np.unique(np.asarray(collected.drop_null()))
    if not len(distinct):
        return None
    if shape.kind is SketchKind.HLL:
        return hll.of_coupons(shape, distinct.astype(np.uint32))
    return theta.of_hashes(shape, distinct)
