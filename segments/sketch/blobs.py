"""Arrow binary arrays of sketches: made of rows of equal length, or cut into runs of neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from segments.arrow_arrays import ArrowArray

Starts = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


def binary_of(rows: npt.NDArray[np.uint8], valid: BoolArray) -> ArrowArray:
    """A binary array of the rows of a table of bytes; those that are not valid are null."""
    kept = rows if valid.all() else rows[valid]
    offsets = np.concatenate(([0], np.cumsum(valid, dtype=np.int64) * rows.shape[1])).astype(np.int32)
    bitmap = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    data = np.ascontiguousarray(kept).tobytes()
    untyped: Any = pa.Array
    return untyped.from_buffers(
        pa.binary(), len(valid), [bitmap, pa.py_buffer(offsets.tobytes()), pa.py_buffer(data)], int((~valid).sum())
    )


def as_table(blobs: ArrowArray, width: int) -> npt.NDArray[np.uint8] | None:
    """The bytes of all values as a table, if each of them has exactly ``width`` bytes and none is null."""
    if blobs.null_count or not len(blobs):
        return None
    _, offset_buffer, data_buffer = blobs.buffers()
    offsets = np.frombuffer(offset_buffer, dtype=np.int32)[blobs.offset : blobs.offset + len(blobs) + 1]
    if not (np.diff(offsets) == width).all():
        return None
    data = np.frombuffer(data_buffer, dtype=np.uint8)[offsets[0] : offsets[-1]]
    return data.reshape(len(blobs), width)


def runs_of(starts: Starts, rows: int) -> Iterator[tuple[int, int]]:
    """The half-open bounds of the runs that begin at ``starts``."""
    ends = np.append(starts[1:], rows)
    yield from zip(starts.tolist(), ends.tolist(), strict=True)
