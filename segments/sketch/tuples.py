"""Tuple sketches (Druid's array of doubles): theta's hashes, each with sums of numbers beside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import datasketches
import numpy as np
import numpy.typing as npt

from segments.arrow_arrays import ArrowArray
from segments.sketch import theta
from segments.sketch.blobs import BoolArray, binary_of
from segments.sketch.hashing import Hashes
from segments.sketch.shape import SketchShape
from segments.sketch.theta import SEED_HASH, WHOLE, Operation

Doubles = npt.NDArray[np.float64]

_VERSION, _FAMILY, _COMPACT_TYPE = 1, 9, 3
_IS_EMPTY, _HAS_ENTRIES, _IS_ORDERED = 4, 8, 16


@dataclass(frozen=True, slots=True)
class Entries:
    """Hashes in ascending order, all below ``theta``; ``values`` has one row of numbers a hash."""

    theta: int
    hashes: Hashes
    values: Doubles


def singles(shape: SketchShape, first: Hashes, counts: BoolArray, numbers: Sequence[Doubles]) -> ArrowArray:
    """One sketch a row, with one number of each of ``numbers``; null where the key does not count."""
    assert len(numbers) == shape.values, "one column of numbers for each value"
    rows = np.zeros((len(first), 32 + 8 * shape.values), dtype=np.uint8)
    rows[:, :24] = np.frombuffer(_start(shape.values, WHOLE, 1), dtype=np.uint8)
    rows[:, 24:32] = (first >> np.uint64(1)).astype("<u8").view(np.uint8).reshape(-1, 8)
    for at, column in enumerate(numbers):
        begin = 32 + 8 * at
        rows[:, begin : begin + 8] = column.astype("<f8").view(np.uint8).reshape(-1, 8)
    return binary_of(rows, counts)


def merge(shape: SketchShape, sketches: Iterable[bytes]) -> bytes | None:
    """The union, numbers of equal keys added; None of nothing.

    Raises:
        ValueError: a value is not a tuple sketch with as many numbers as the shape has.
    """
    found = [read(sketch) for sketch in sketches]
    if not found:
        return None
    for entries in found:
        if entries.values.shape[1] != shape.values:
            raise ValueError(f"a tuple sketch with {entries.values.shape[1]} values, not {shape.values}")
    bound = min(entries.theta for entries in found)
    all_hashes = np.concatenate([entries.hashes for entries in found])
    hashes, place = np.unique(all_hashes, return_inverse=True)
    sums = np.zeros((len(hashes), shape.values))
    np.add.at(sums, place, np.concatenate([entries.values for entries in found]))
    below = hashes < np.uint64(bound)
    return write(_cut(Entries(bound, hashes[below], sums[below]), shape.size))


def _cut(entries: Entries, most: int) -> Entries:
    kept = theta.cut(theta.Entries(entries.theta, entries.hashes), most)
    return Entries(kept.theta, kept.hashes, entries.values[: len(kept.hashes)])


def read(sketch: bytes) -> Entries:
    """The entries of the bytes of a compact sketch.

    Raises:
        ValueError: it is not one.
    """
    if len(sketch) < 16 or (sketch[1], sketch[2], sketch[3]) != (_VERSION, _FAMILY, _COMPACT_TYPE) or not sketch[5]:
        raise ValueError("not a compact tuple sketch of doubles")
    values, bound = sketch[5], int.from_bytes(sketch[8:16], "little")
    count = int.from_bytes(sketch[16:20], "little") if sketch[4] & _HAS_ENTRIES else 0
    if len(sketch) != (24 + 8 * count * (1 + values) if count else 16):
        raise ValueError("a tuple sketch of another length than it says")
    hashes = np.frombuffer(sketch, "<u8", count, 24 if count else 0)
    numbers = np.frombuffer(sketch, "<f8", count * values, 24 + 8 * count if count else 0).reshape(count, values)
    order = np.argsort(hashes)
    return Entries(bound, hashes[order], numbers[order])


def write(entries: Entries) -> bytes:
    """The bytes of an ordered compact sketch."""
    start = _start(entries.values.shape[1], entries.theta, len(entries.hashes))
    return start + entries.hashes.astype("<u8").tobytes() + entries.values.astype("<f8").tobytes()


def _start(values: int, bound: int, count: int) -> bytes:
    flags = _IS_ORDERED | (_HAS_ENTRIES if count else 0) | (_IS_EMPTY if not count and bound == WHOLE else 0)
    start = bytes((1, _VERSION, _FAMILY, _COMPACT_TYPE, flags, values)) + SEED_HASH.to_bytes(2, "little")
    return start + bound.to_bytes(8, "little") + (count.to_bytes(8, "little") if count else b"")


def combine(shape: SketchShape, operation: Operation, sketches: Sequence[bytes]) -> bytes | None:
    """The union; the keys of all with their numbers added; or the first without the keys of all others."""
    if operation == "UNION" or not sketches:
        return merge(shape, sketches)
    first, *others = [read(sketch) for sketch in sketches]
    for other in others:
        bound = min(first.theta, other.theta)
        common = np.isin(first.hashes, other.hashes)
        values = first.values
        if operation == "INTERSECT":
            at = np.searchsorted(other.hashes, first.hashes[common])
            values = values.copy()
            values[common] += other.values[at]
        kept = (common if operation == "INTERSECT" else ~common) & (first.hashes < np.uint64(bound))
        first = Entries(bound, first.hashes[kept], values[kept])
    return write(first)


def estimate(sketch: bytes) -> float:
    """The number of distinct keys.

    Raises:
        ValueError: not a tuple sketch.
    """
    entries = read(sketch)
    return len(entries.hashes) if entries.theta == WHOLE else len(entries.hashes) / (entries.theta / 2.0**63)


def bounds(sketch: bytes, deviations: int) -> tuple[float, float, float]:
    """The estimate with the lower and upper bound that 1, 2 or 3 standard deviations give."""
    entries = read(sketch)
    return theta.bounds(theta.write(theta.Entries(entries.theta, entries.hashes)), deviations)


def sums(sketch: bytes) -> list[float]:
    """The estimated sum over all keys of each number."""
    entries = read(sketch)
    share = 1.0 if entries.theta == WHOLE else entries.theta / 2.0**63
    return [float(total) / share for total in entries.values.sum(axis=0)]


def means(sketch: bytes) -> list[float]:
    """The mean over the kept keys of each number; NaN of no key."""
    entries = read(sketch)
    if not len(entries.hashes):
        return [float("nan")] * entries.values.shape[1]
    return [float(mean) for mean in entries.values.mean(axis=0)]


def variances(sketch: bytes) -> list[float]:
    """The sample variance over the kept keys of each number; NaN of fewer than two keys."""
    entries = read(sketch)
    if len(entries.hashes) < 2:
        return [float("nan")] * entries.values.shape[1]
    return [float(variance) for variance in entries.values.var(axis=0, ddof=1)]


def quantiles_of(sketch: bytes, column: int, size: int) -> bytes:
    """A quantiles sketch of one of the numbers of every kept key; ``column`` from 1, as in Druid."""
    found = datasketches.quantiles_doubles_sketch(size)
    found.update(np.ascontiguousarray(read(sketch).values[:, column - 1]))
    return bytes(found.serialize())


def summary(sketch: bytes) -> str:
    """A description for people, in the words of Druid's library."""
    entries = read(sketch)
    found, low, high = bounds(sketch, 2)
    told = {
        "Estimate": float(found),
        "Upper Bound, 95% conf": high,
        "Lower Bound, 95% conf": low,
        "Theta (double)": entries.theta / WHOLE,
        "Theta (long)": entries.theta,
        "EstMode?": str(entries.theta < WHOLE).lower(),
        "Empty?": str(not len(entries.hashes) and entries.theta == WHOLE).lower(),
        "Retained Entries": len(entries.hashes),
        "Seed Hash": f"{SEED_HASH:x} | {SEED_HASH}",
    }
    lines = "".join(f"   {name:<24}: {value}\n" for name, value in told.items())
    return f"### HeapArrayOfDoublesCompactSketch SUMMARY: \n{lines}### END SKETCH SUMMARY\n"
