"""Theta sketches: the smallest hashes of a set, read and written here; set operations by the library."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import datasketches
import numpy as np
import numpy.typing as npt

from segments.arrow_arrays import ArrowArray
from segments.sketch.blobs import BoolArray, Starts, binary_of
from segments.sketch.hashing import Hashes
from segments.sketch.shape import SketchShape

Operation = Literal["UNION", "INTERSECT", "NOT"]
"""What is made of several sets; NOT is the first without all others."""

WHOLE: Final = (1 << 63) - 1
"""The bound of a sketch that has kept every hash."""
SEED_HASH: Final = 0x93CC
_READ_ONLY, _EMPTY, _COMPACT, _ORDERED = 2, 4, 8, 16
_FLAGS: Final = _READ_ONLY | _COMPACT | _ORDERED
_SINGLE_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Entries:
    """What a sketch has kept: hashes in ascending order, all below ``theta``."""

    theta: int
    hashes: Hashes


def singles(shape: SketchShape, first: Hashes, counts: BoolArray) -> ArrowArray:
    """One sketch a value; null where the value does not count."""
    rows = np.zeros((len(first), _SINGLE_BYTES), dtype=np.uint8)
    rows[:, :8] = np.frombuffer(_header(1, _FLAGS), dtype=np.uint8)
    rows[:, 8:] = (first >> np.uint64(1)).astype("<u8").view(np.uint8).reshape(-1, 8)
    return binary_of(rows, counts)


def of_hashes(shape: SketchShape, distinct: Hashes) -> bytes:
    """The sketch of distinct hashes in ascending order."""
    return write(cut(Entries(WHOLE, distinct), shape.size))


def headers(shape: SketchShape, counts: Starts) -> tuple[npt.NDArray[np.uint8], Starts]:
    """For every count of hashes the first bytes of a sketch that keeps them all, one row of 16 each, and how many of
    them count."""
    rows = np.zeros((len(counts), 16), dtype=np.uint8)
    several = counts > 1
    rows[:, :8] = np.frombuffer(_header(1, _FLAGS), dtype=np.uint8)
    rows[several, 0] = 2
    rows[:, 8:] = counts.astype("<u8").view(np.uint8).reshape(-1, 8)
    return rows, np.where(several, 16, 8)


def merge(shape: SketchShape, sketches: Iterable[bytes]) -> bytes | None:
    """The union; None of nothing.

    Raises:
        ValueError: a value is not a theta sketch.
    """
    found = [read(sketch) for sketch in sketches]
    if not found:
        return None
    theta = min(entries.theta for entries in found)
    hashes = np.unique(np.concatenate([entries.hashes for entries in found]))
    return write(cut(Entries(theta, hashes[hashes < np.uint64(theta)]), shape.size))


def cut(entries: Entries, most: int) -> Entries:
    """At most so many of the smallest hashes; the first one left out is the new bound."""
    if len(entries.hashes) <= most:
        return entries
    return Entries(int(entries.hashes[most]), entries.hashes[:most])


def read(sketch: bytes) -> Entries:
    """The entries of the bytes of a compact sketch.

    Raises:
        ValueError: it is not one.
    """
    if len(sketch) >= 8 and sketch[1] == 3 and sketch[2] == 3 and sketch[5] & _COMPACT and sketch[5] & _ORDERED:
        longs = sketch[0] & 0x3F
        if sketch[5] & _EMPTY:
            return Entries(WHOLE, np.empty(0, np.uint64))
        if longs == 1 and len(sketch) == _SINGLE_BYTES:
            return Entries(WHOLE, np.frombuffer(sketch, "<u8", 1, 8))
        count = int.from_bytes(sketch[8:12], "little")
        if longs in (2, 3) and len(sketch) == 8 * (longs + count):
            theta = WHOLE if longs == 2 else int.from_bytes(sketch[16:24], "little")
            return Entries(theta, np.frombuffer(sketch, "<u8", count, 8 * longs))
    # Older, unordered and compressed forms.
    found = parsed(sketch)
    return Entries(int(found.theta64), np.sort(np.fromiter(iter(found), dtype=np.uint64)))


def write(entries: Entries) -> bytes:
    """The bytes of an ordered compact sketch."""
    count = len(entries.hashes)
    if entries.theta == WHOLE:
        if not count:
            return _header(1, _FLAGS | _EMPTY)
        if count == 1:
            return _header(1, _FLAGS) + entries.hashes.astype("<u8").tobytes()
        start = _header(2, _FLAGS) + count.to_bytes(8, "little")
    else:
        start = _header(3, _FLAGS) + count.to_bytes(8, "little") + entries.theta.to_bytes(8, "little")
    return start + entries.hashes.astype("<u8").tobytes()


def _header(longs: int, flags: int) -> bytes:
    return bytes((longs, 3, 3, 0, 0, flags)) + SEED_HASH.to_bytes(2, "little")


def parsed(sketch: bytes) -> Any:
    """The library's object."""
    try:
        return datasketches.compact_theta_sketch.deserialize(sketch)
    except (RuntimeError, ValueError, IndexError) as error:
        raise ValueError(f"not a theta sketch: {error}") from error


def combine(shape: SketchShape, operation: Operation, sketches: Sequence[bytes]) -> bytes | None:
    """The union, the intersection, or the first without all others; None of nothing.

    Raises:
        ValueError: a value is not a theta sketch.
    """
    if operation == "UNION" or not sketches:
        return merge(shape, sketches)
    first, *others = [parsed(sketch) for sketch in sketches]
    if operation == "INTERSECT":
        intersection = datasketches.theta_intersection()
        for one in (first, *others):
            intersection.update(one)
        return bytes(intersection.get_result().serialize())
    for other in others:
        first = datasketches.theta_a_not_b().compute(first, other)
    return bytes(first.serialize())


def estimate(sketch: bytes) -> float:
    """The number of distinct values.

    Raises:
        ValueError: not a theta sketch.
    """
    entries = read(sketch)
    return len(entries.hashes) if entries.theta == WHOLE else len(entries.hashes) / (entries.theta / 2.0**63)


def bounds(sketch: bytes, deviations: int) -> tuple[float, float, float]:
    """The estimate with the lower and upper bound that 1, 2 or 3 standard deviations give."""
    found = parsed(sketch)
    return estimate(sketch), float(found.get_lower_bound(deviations)), float(found.get_upper_bound(deviations))


def summary(sketch: bytes) -> str:
    """A description for people."""
    return str(parsed(sketch).to_string())
