"""HLL sketches: few values as coupons that are put together here, more by the library's union.

A coupon is what a sketch keeps of one value: 26 bits of an address and the number of leading zeros.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import datasketches
import numpy as np
import numpy.typing as npt

from segments.arrow_arrays import ArrowArray
from segments.sketch.blobs import BoolArray, Starts, binary_of
from segments.sketch.hashing import Hashes
from segments.sketch.shape import HLL_TYPES, SketchShape

Coupons = npt.NDArray[np.uint32]

_LIST, _SET, _HLL = 0, 1, 2
_COMPACT, _OUT_OF_ORDER = 8, 16
_SINGLE_BYTES: Final = 12
# A list becomes a set with its eighth coupon.
_LIST_MOST: Final = 7


def singles(shape: SketchShape, first: Hashes, second: Hashes, counts: BoolArray) -> ArrowArray:
    """One sketch a value; null where the value does not count."""
    rows = np.zeros((len(first), _SINGLE_BYTES), dtype=np.uint8)
    rows[:, :8] = np.frombuffer(_header(shape, _LIST, 3, 1), dtype=np.uint8)
    rows[:, 8:] = coupons(first, second).astype("<u4").view(np.uint8).reshape(-1, 4)
    return binary_of(rows, counts)


def coupons(first: Hashes, second: Hashes) -> Coupons:
    """What a sketch keeps of each value, from both halves of its hash."""
    address = first & np.uint64(0x3FFFFFF)
    zeros = 64 - _bit_length(second)
    value = np.minimum(zeros, 62).astype(np.uint64) + np.uint64(1)
    return (address | (value << np.uint64(26))).astype(np.uint32)


def _bit_length(words: Hashes) -> npt.NDArray[np.int64]:
    """Bits up to the highest one set; exact, as each half is below 2 ** 53."""
    high, low = (words >> np.uint64(32)).astype(np.float64), (words & np.uint64(0xFFFFFFFF)).astype(np.float64)
    return np.where(high > 0, np.frexp(high)[1] + 32, np.frexp(low)[1]).astype(np.int64)


def merge(shape: SketchShape, sketches: Iterable[bytes]) -> bytes | None:
    """The union; None of nothing.

    Raises:
        ValueError: a value is not an HLL sketch.
    """
    coupons: list[Coupons] = []
    others: list[bytes] = []
    for sketch in sketches:
        found = _coupons_of(sketch)
        if found is None:
            others.append(sketch)
        else:
            coupons.append(found)
    if not coupons and not others:
        return None
    distinct = np.unique(np.concatenate(coupons)) if coupons else np.empty(0, np.uint32)
    return _united(shape, distinct, others)


def of_coupons(shape: SketchShape, distinct: Coupons) -> bytes:
    """The sketch of distinct coupons in ascending order."""
    return _united(shape, distinct, [])


def small_most(shape: SketchShape) -> int:
    """How many coupons a sketch can have that keeps them all."""
    return max(_LIST_MOST, _set_most(shape))


def headers(shape: SketchShape, counts: Starts) -> tuple[npt.NDArray[np.uint8], Starts]:
    """For every count of coupons the first bytes of a small sketch, one row of 12 each, and how many of them count."""
    rows = np.zeros((len(counts), 12), dtype=np.uint8)
    is_set = counts > _LIST_MOST
    log_slots = np.full(len(counts), 3)
    log_slots[is_set] = 5
    while (growing := is_set & (4 * counts > 3 << log_slots)).any():
        log_slots[growing] += 1
    rows[:, 0] = np.where(is_set, 3, 2)
    rows[:, 1], rows[:, 2], rows[:, 3], rows[:, 4], rows[:, 5] = 1, 7, shape.size, log_slots, _COMPACT
    rows[:, 6] = np.where(is_set, 0, counts)
    rows[:, 7] = HLL_TYPES.index(shape.hll_type) << 2 | np.where(is_set, _SET, _LIST)
    rows[:, 8:] = counts.astype("<u4").view(np.uint8).reshape(-1, 4)
    return rows, np.where(is_set, 12, 8)


def _coupons_of(sketch: bytes) -> Coupons | None:
    """The coupons of a small sketch, or None where there is more to it than these."""
    if len(sketch) < 8 or not sketch[5] & _COMPACT or sketch[7] & 3 == _HLL:
        return None
    if sketch[7] & 3 == _LIST:
        count, at = sketch[6], 8
    else:
        count, at = int.from_bytes(sketch[8:12], "little"), 12
    if len(sketch) != at + 4 * count:
        return None
    return np.frombuffer(sketch, "<u4", count, at)


def _united(shape: SketchShape, coupons: Coupons, others: list[bytes]) -> bytes:
    if not others:
        small = _small(shape, coupons)
        if small is not None:
            return small
    union = datasketches.hll_union(shape.size)
    part = max(_LIST_MOST, _set_most(shape) // 2)
    for begin in range(0, len(coupons), part):
        small = _small(shape, coupons[begin : begin + part])
        assert small is not None, "so few coupons always fit"
        union.update(_read(small))
    for other in others:
        union.update(_read(other))
    # Equal registers give equal bytes and estimates, whatever was merged first.
    return _in_no_order(union.get_result(_type(shape)).serialize_compact())


def _small(shape: SketchShape, coupons: Coupons) -> bytes | None:
    count = len(coupons)
    if count <= _LIST_MOST:
        return _header(shape, _LIST, 3, count) + coupons.astype("<u4").tobytes()
    if count > _set_most(shape):
        return None
    log_slots = 5
    while 4 * count > 3 << log_slots:
        log_slots += 1
    return _header(shape, _SET, log_slots, 0) + count.to_bytes(4, "little") + coupons.astype("<u4").tobytes()


def _set_most(shape: SketchShape) -> int:
    """How many coupons a set holds before it becomes registers; below 256 registers there is no set."""
    return (3 << (shape.size - 3)) // 4 if shape.size >= 8 else 0


def _header(shape: SketchShape, mode: int, log_slots: int, count: int) -> bytes:
    flags = _COMPACT | (4 if mode == _LIST and not count else 0)
    ints = 3 if mode == _SET else 2
    return bytes((ints, 1, 7, shape.size, log_slots, flags, count, HLL_TYPES.index(shape.hll_type) << 2 | mode))


def _in_no_order(sketch: bytes) -> bytes:
    if len(sketch) < 8 or sketch[7] & 3 != _HLL:
        return sketch
    return sketch[:5] + bytes((sketch[5] | _OUT_OF_ORDER,)) + sketch[6:]


def _type(shape: SketchShape) -> Any:
    return getattr(datasketches, shape.hll_type)


def _read(sketch: bytes) -> Any:
    try:
        return datasketches.hll_sketch.deserialize(sketch)
    except (RuntimeError, ValueError, IndexError) as error:
        raise ValueError(f"not an HLL sketch: {error}") from error


def estimate(sketch: bytes) -> float:
    """The number of distinct values.

    Raises:
        ValueError: not an HLL sketch.
    """
    return float(_read(_in_no_order(sketch)).get_estimate())


def bounds(sketch: bytes, deviations: int) -> tuple[float, float, float]:
    """The estimate with the lower and upper bound that 1, 2 or 3 standard deviations give."""
    read = _read(_in_no_order(sketch))
    return (
        float(read.get_estimate()),
        float(read.get_lower_bound(deviations)),
        float(read.get_upper_bound(deviations)),
    )


def summary(sketch: bytes) -> str:
    """A description for people."""
    return str(_read(sketch).to_string())
