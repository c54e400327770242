"""Hashes whole columns as the sketches do: MurmurHash3 (128 bits, seed 9001) in numpy, equal to the library's own.

A sketch object a value would cost many times as much as the hash itself.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from segments.arrow_arrays import ArrowArray

Hashes = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]
Starts = npt.NDArray[np.int64]

SEED: Final = 9001
_C1, _C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
_MIX1, _MIX2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_FIVE, _ADD1, _ADD2 = np.uint64(5), np.uint64(0x52DCE729), np.uint64(0x38495AB5)
# Bytes that are hashed at a time: the index of each takes eight more.
_PART_BYTES: Final = 4 << 20


def hash_column(column: ArrowArray, encoding: str = "utf8") -> tuple[Hashes, Hashes, npt.NDArray[np.bool_]]:
    """Both halves of the hash of every value, and which values count: nulls and empty texts do not.

    Whole numbers are hashed as 64-bit integers, others as doubles, texts in ``encoding`` (utf8, utf16le). For
    string, binary, integer and floating arrays.
    """
    counts: npt.NDArray[np.bool_] = np.asarray(column.is_valid())
    if pa.types.is_floating(column.type) or pa.types.is_integer(column.type):
        floating = pa.types.is_floating(column.type)
        filled = column.fill_null(0) if column.null_count else column
        numbers = np.asarray(filled).astype(np.float64 if floating else np.int64)
        if floating:
            # One zero and one NaN, whatever their bits.
            numbers = np.where(numbers == 0, 0.0, numbers)
            numbers[np.isnan(numbers)] = np.nan
        lengths = np.full(len(numbers), 8, dtype=np.int64)
        return (*murmur3(numbers.view(np.uint8), lengths), counts)
    data, lengths = _bytes_of(column, encoding)
    return (*murmur3(data, lengths), counts & (lengths > 0))


def _bytes_of(column: ArrowArray, encoding: str) -> tuple[Bytes, Starts]:
    """The bytes of all values one after the other, and the length of each; nulls have none."""
    if column.null_count:
        empty: Any = "" if pa.types.is_string(column.type) else b""
        column = column.fill_null(empty)
    column = column.cast(pa.large_binary())
    _, offset_buffer, data_buffer = column.buffers()
    offsets = np.frombuffer(offset_buffer, dtype=np.int64)[column.offset : column.offset + len(column) + 1]
    data = np.frombuffer(data_buffer, dtype=np.uint8) if data_buffer is not None else np.empty(0, np.uint8)
    data = data[offsets[0] : offsets[-1]] if len(offsets) else data[:0]
    lengths: Starts = np.diff(offsets)
    if encoding == "utf8":
        return data, lengths
    if not (data >= 0x80).any():
        return data.astype("<u2").view(np.uint8), lengths * 2
    encoded = [text.decode().encode("utf-16le") for text in column.to_pylist()]
    return np.frombuffer(b"".join(encoded), np.uint8), np.array([len(one) for one in encoded], dtype=np.int64)


def murmur3(data: Bytes, lengths: Starts) -> tuple[Hashes, Hashes]:
    """Both halves for values that lie one after the other in ``data``."""
    ends = np.cumsum(lengths)
    firsts: list[Hashes] = []
    seconds: list[Hashes] = []
    begin = 0
    while begin < len(lengths):
        base = int(ends[begin] - lengths[begin])
        stop = max(begin + 1, int(np.searchsorted(ends, base + _PART_BYTES, side="right")))
        first, second = _murmur3(data[base : int(ends[stop - 1])], lengths[begin:stop])
        firsts.append(first)
        seconds.append(second)
        begin = stop
    if not firsts:
        return np.empty(0, np.uint64), np.empty(0, np.uint64)
    return np.concatenate(firsts), np.concatenate(seconds)


def _murmur3(data: Bytes, lengths: Starts) -> tuple[Hashes, Hashes]:
    blocks = lengths // 16
    padded = (blocks + 1) * 16
    targets = np.cumsum(padded) - padded
    sources = np.cumsum(lengths) - lengths
    flat = np.zeros(int(padded.sum()), dtype=np.uint8)
    if len(lengths) and (lengths == lengths[0]).all():
        # Identities mostly are of one length: rows of a table.
        flat.reshape(len(lengths), -1)[:, : int(lengths[0])] = data.reshape(len(lengths), -1)
    else:
        flat[np.arange(len(data)) + np.repeat(targets - sources, lengths)] = data
    words = flat.view("<u8")
    at = targets // 8
    # Longest first: the values that still have a block are always a prefix.
    order: Starts = np.argsort(-blocks, kind="stable")
    at, ordered_blocks = at[order], blocks[order]
    first = np.full(len(lengths), SEED, dtype=np.uint64)
    second = first.copy()
    with np.errstate(over="ignore"):
        for block in range(int(blocks.max(initial=0))):
            active = int(np.searchsorted(-ordered_blocks, -block, side="left"))
            _mix_block(first[:active], second[:active], words, at[:active] + 2 * block)
        tail = at + 2 * ordered_blocks
        second ^= _mixed_second(words[tail + 1])
        first ^= _mixed_first(words[tail])
        size = lengths[order].astype(np.uint64)
        first ^= size
        second ^= size
        first += second
        second += first
        first, second = _finished(first), _finished(second)
        first += second
        second += first
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return first[back], second[back]


def _mix_block(first: Hashes, second: Hashes, words: Hashes, at: Starts) -> None:
    """One block of 16 bytes into the hashes, in place."""
    first ^= _mixed_first(words[at])
    first[:] = (_rotated(first, 27) + second) * _FIVE + _ADD1
    second ^= _mixed_second(words[at + 1])
    second[:] = (_rotated(second, 31) + first) * _FIVE + _ADD2


def _mixed_first(word: Hashes) -> Hashes:
    return _rotated(word * _C1, 31) * _C2


def _mixed_second(word: Hashes) -> Hashes:
    return _rotated(word * _C2, 33) * _C1


def _rotated(word: Hashes, bits: int) -> Hashes:
    return (word << np.uint64(bits)) | (word >> np.uint64(64 - bits))


def _finished(word: Hashes) -> Hashes:
    word = (word ^ (word >> np.uint64(33))) * _MIX1
    word = (word ^ (word >> np.uint64(33))) * _MIX2
    return word ^ (word >> np.uint64(33))
