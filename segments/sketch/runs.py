"""Unites runs of small HLL and theta sketches without an object a sketch: all their entries at once, in numpy.

A small sketch keeps every coupon (HLL) or hash (theta) that it was given; the union keeps the distinct ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from segments.arrow_arrays import ArrowArray
from segments.sketch import hll, theta
from segments.sketch.blobs import BoolArray, Starts
from segments.sketch.shape import SketchKind, SketchShape

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the bytes of each row lie; a null row has none."""

    data: Bytes
    begins: Starts
    lengths: Starts

    @classmethod
    def of(cls, blobs: ArrowArray) -> Layout:
        _, offset_buffer, data_buffer = blobs.buffers()
        offsets = np.frombuffer(offset_buffer, np.int32)[blobs.offset : blobs.offset + len(blobs) + 1].astype(np.int64)
        # Headers are looked at before lengths are judged.
        data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.empty(0, np.uint8)
        lengths = np.diff(offsets)
        if blobs.null_count:
            lengths = np.where(np.asarray(blobs.is_valid()), lengths, 0)
        return cls(data, offsets[:-1], lengths)

    def byte(self, at: int, rows: BoolArray) -> Starts:
        """The byte at a place of each chosen row, 0 of the others."""
        found = np.zeros(len(self.begins), dtype=np.int64)
        found[rows] = self.data[self.begins[rows] + at]
        return found

    def word(self, at: int, rows: BoolArray) -> Starts:
        """The 32-bit number at a place, as ``byte``."""
        parts = [self.byte(at + place, rows) << (8 * place) for place in range(4)]
        word: Starts = parts[0] + parts[1] + parts[2] + parts[3]
        return word


@dataclass(frozen=True, slots=True)
class Small:
    """Which rows are small sketches, where their entries begin and how many there are."""

    rows: BoolArray
    starts: Starts
    counts: Starts


def small_hll(layout: Layout) -> Small:
    """Lists and sets of coupons, in their compact form."""
    long_enough = layout.lengths >= 12
    flags, mode = layout.byte(5, long_enough), layout.byte(7, long_enough) & 3
    is_list = mode == 0
    counts = np.where(is_list, layout.byte(6, long_enough), layout.word(8, long_enough))
    starts = np.where(is_list, 8, 12)
    small = long_enough & (flags & 8 != 0) & (mode != 2) & (layout.lengths == starts + 4 * counts)
    return Small(small, starts, counts)


def small_theta(layout: Layout) -> Small:
    """Ordered compact sketches that have kept every hash."""
    long_enough = layout.lengths >= 16
    longs, flags = layout.byte(0, long_enough) & 0x3F, layout.byte(5, long_enough)
    known = long_enough & (layout.byte(1, long_enough) == 3) & (layout.byte(2, long_enough) == 3)
    known &= (flags & 24 == 24) & (flags & 4 == 0) & ((longs == 1) | (longs == 2))
    counts = np.where(longs == 1, 1, layout.word(8, long_enough))
    return Small(known & (layout.lengths == 8 * (longs + counts)), 8 * longs, counts)


def united_small(shape: SketchShape, blobs: ArrowArray, run_of: Starts, runs: int) -> tuple[ArrowArray, BoolArray]:
    """One sketch for each of the runs that rows belong to (ascending), and which runs are done.

    A run is not done that has a row which is no small sketch, or whose union is no small one; null where a run
    has no entry.
    """
    layout = Layout.of(blobs)
    is_hll = shape.kind is SketchKind.HLL
    small = small_hll(layout) if is_hll else small_theta(layout)
    done = np.ones(runs, dtype=np.bool_)
    done[run_of[(layout.lengths > 0) & ~small.rows]] = False
    taken = small.rows & done[run_of]
    width = 4 if is_hll else 8
    counts = small.counts[taken]
    entries = _gathered(layout.data, layout.begins[taken] + small.starts[taken], counts, width)
    values: npt.NDArray[Any] = entries.view("<u4" if is_hll else "<u8")
    of_run, values = _distinct(np.repeat(run_of[taken], counts), values)
    per_run = np.bincount(of_run, minlength=runs)
    most = hll.small_most(shape) if is_hll else shape.size
    too_many = per_run > most
    if too_many.any():
        done &= ~too_many
        kept = ~too_many[of_run]
        values, per_run = values[kept], np.where(too_many, 0, per_run)
    headers = hll.headers if is_hll else theta.headers
    return _written(values.view(np.uint8), per_run, width, lambda counts: headers(shape, counts)), done


def _gathered(data: Bytes, begins: Starts, counts: Starts, width: int) -> Bytes:
    """The bytes of so many entries from each begin on, one after the other."""
    sizes = counts * width
    places = np.arange(int(sizes.sum())) + np.repeat(begins - (np.cumsum(sizes) - sizes), sizes)
    gathered: Bytes = data[places]
    return gathered


def _distinct(run_of: Starts, values: npt.NDArray[Any]) -> tuple[Starts, npt.NDArray[Any]]:
    """Each run's distinct values in ascending order."""
    if values.dtype.itemsize == 4:
        keys = np.unique((run_of.astype(np.uint64) << np.uint64(32)) | values)
        low = (keys & np.uint64(0xFFFFFFFF)).astype("<u4")
        return (keys >> np.uint64(32)).astype(np.int64), low
    order = np.lexsort((values, run_of))
    run_of, values = run_of[order], values[order]
    kept = np.ones(len(values), dtype=np.bool_)
    kept[1:] = (values[1:] != values[:-1]) | (run_of[1:] != run_of[:-1])
    return run_of[kept], values[kept]


def _written(
    entries: Bytes, counts: Starts, width: int, headers: Callable[[Starts], tuple[Bytes, Starts]]
) -> ArrowArray:
    """A binary array of a header and its entries for every count; null where there are none."""
    valid = counts > 0
    table, header_sizes = headers(counts[valid])
    sizes = header_sizes + counts[valid] * width
    ends = np.cumsum(sizes)
    begins = ends - sizes
    data = np.empty(int(sizes.sum()), dtype=np.uint8)
    # Headers are rows of one table, of which each has taken as many bytes as its kind needs.
    columns = np.arange(table.shape[1])
    inside = columns < header_sizes[:, None]
    data[(begins[:, None] + columns)[inside]] = table[inside]
    body = counts[valid] * width
    places = np.arange(int(body.sum())) + np.repeat(begins + header_sizes - (np.cumsum(body) - body), body)
    data[places] = entries
    lengths = np.zeros(len(counts), dtype=np.int64)
    lengths[valid] = sizes
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    bitmap = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    buffers = [bitmap, pa.py_buffer(offsets.tobytes()), pa.py_buffer(data.tobytes())]
    untyped: Any = pa.Array
    return untyped.from_buffers(pa.binary(), len(counts), buffers, int((~valid).sum()))
