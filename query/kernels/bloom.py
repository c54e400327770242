"""Bloom filters as Druid's extension keeps them: made of values, united, and asked, byte for byte the same.

A value's mark is the 64-bit hash by which the filter knows it: of a text's UTF-8 bytes, a long, a double, a float; null
has one too. A filter is one byte with how many bits a mark sets, four with how many words there are, and the words
(big endian). A mark's bits lie in one block of eight words.
"""

from __future__ import annotations

import base64
import binascii
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from query.kernels.kernel import Kernel

FALSE_POSITIVES = 0.05
BLOCK_WORDS = 8
MAX_ENTRIES = 100_000_000
"""Most values that a filter can be asked to hold: 75 MiB."""
_HEAD = 5
_MASK = (1 << 64) - 1
_SEED = np.uint64(104_729)
_C1, _C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
_ADDED, _FIVE = np.uint64(0x52DCE729), np.uint64(5)
_NULL_MARK = 2_862_933_555_777_941_757
Words = npt.NDArray[np.uint64]


def _rotated(words: Words, bits: int) -> Words:
    return (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))


def _mixed(words: Words) -> Words:
    return _rotated(words * _C1, 31) * _C2


def _finished(hashes: Words, lengths: Words) -> Words:
    hashes = hashes ^ lengths
    hashes = (hashes ^ (hashes >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    hashes = (hashes ^ (hashes >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return hashes ^ (hashes >> np.uint64(33))


def _of_longs(values: npt.NDArray[np.int64]) -> Words:
    words = values.view(np.uint64).byteswap()
    hashes = _rotated(_SEED ^ _mixed(words), 27) * _FIVE + _ADDED
    return _finished(hashes, np.full(len(words), 8, np.uint64))


def _of_bytes(value: bytes) -> int:
    found, whole = int(_SEED), len(value) // 8 * 8
    for at in range(0, whole, 8):
        word = found ^ _mixed_word(int.from_bytes(value[at : at + 8], "little"))
        found = (((word << 27 | word >> 37) & _MASK) * 5 + 0x52DCE729) & _MASK
    if value[whole:]:
        found ^= _mixed_word(int.from_bytes(value[whole:], "little"))
    found ^= len(value)
    found = ((found ^ found >> 33) * 0xFF51AFD7ED558CCD) & _MASK
    found = ((found ^ found >> 33) * 0xC4CEB9FE1A85EC53) & _MASK
    found ^= found >> 33
    return found - (found >> 63 << 64)


def _mixed_word(word: int) -> int:
    word = (word * 0x87C37B91114253D5) & _MASK
    word = (word << 31 | word >> 33) & _MASK
    return (word * 0x4CF5AD432745937F) & _MASK


def _flat(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _marks_of_texts(texts: Any) -> Any:
    encoded = _flat(texts).dictionary_encode()
    marks = pa.array([_of_bytes(text.encode()) for text in encoded.dictionary.to_pylist()], pa.int64())
    return marks.take(encoded.indices).fill_null(_NULL_MARK)


def _numbered(numbers: Any, marks: Words) -> Any:
    absent = np.asarray(numbers.is_null())
    return pa.array(np.where(absent, np.int64(_NULL_MARK), marks.view(np.int64)))


def _marks_of_longs(longs: Any) -> Any:
    longs = _flat(longs)
    return _numbered(longs, _of_longs(np.asarray(longs.fill_null(0))))


def _marks_of_doubles(doubles: Any) -> Any:
    doubles = _flat(doubles)
    values = np.asarray(doubles.fill_null(0.0))
    # Java has one NaN.
    return _numbered(doubles, _of_longs(np.where(np.isnan(values), np.nan, values).view(np.int64)))


def _marks_of_floats(floats: Any) -> Any:
    floats = _flat(floats)
    values = np.asarray(floats.fill_null(0.0), dtype=np.float32)
    marks = [_of_bytes(bits.tobytes()) for bits in np.where(np.isnan(values), np.float32(np.nan), values)]
    return _numbered(floats, np.array(marks, np.int64).view(np.uint64))


def _layout(entries: int) -> tuple[int, int]:
    """How many bits a mark sets, and how many words there are."""
    share = float(np.float32(FALSE_POSITIVES))
    bits = int(-entries * math.log(share) / (math.log(2) * math.log(2)))
    words = math.ceil(bits / 64)
    return max(1, math.floor(bits / entries * math.log(2) + 0.5)), words + BLOCK_WORDS - words % BLOCK_WORDS


def _places(marks: npt.NDArray[np.int64], bits: int, words: int) -> tuple[npt.NDArray[np.int64], Words]:
    """The words of each mark and the bit that it has in each: a row for each of its bits."""
    low = marks.astype(np.int32)
    high = (marks >> 32).astype(np.int32)
    first = low + high
    first = np.where(first < 0, ~first, first).astype(np.int64)
    block = first % (words // BLOCK_WORDS) * BLOCK_WORDS
    factors = np.arange(2, bits + 2, dtype=np.int32)[:, None]
    mixed = low[None, :] + factors * high[None, :]
    mixed = np.where(mixed < 0, ~mixed, mixed).astype(np.int64)
    return block[None, :] + (mixed & (BLOCK_WORDS - 1)), np.uint64(1) << ((mixed >> 3) & 63).astype(np.uint64)


def made_of(entries: int, marks: npt.NDArray[np.int64]) -> bytes:
    """The filter for so many values that holds these marks."""
    bits, words = _layout(entries)
    found = np.zeros(words, np.uint64)
    at, masks = _places(marks, bits, words)
    np.bitwise_or.at(found, at.ravel(), masks.ravel())
    return bytes([bits]) + words.to_bytes(4, "big") + found.astype(">u8").tobytes()


def read_filter(text: str) -> bytes | None:
    """The filter of a base64 text; None where it is none."""
    try:
        found = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    words = int.from_bytes(found[1:_HEAD], "big")
    sound = len(found) == _HEAD + words * 8 and words > 0 and words % BLOCK_WORDS == 0 and found[0] > 0
    return found if sound else None


def holds(filter_: bytes, marks: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Which marks the filter may hold: never False of one that it does."""
    words = np.frombuffer(filter_, dtype=">u8", offset=_HEAD).astype(np.uint64)
    at, masks = _places(marks, filter_[0], len(words))
    present: npt.NDArray[np.bool_] = np.all((words[at] & masks) != 0, axis=0)
    return present


def _of_marks(entries: Any, lists: Any) -> Any:
    if not len(entries):
        return pa.array([], pa.binary())
    size = entries[0].as_py()
    empty = np.array([], np.int64)
    made = [made_of(size, np.asarray(one.values) if one.is_valid else empty) for one in _flat(lists)]
    return pa.array(made, pa.binary())


def _held(filters: Any, marks: Any) -> Any:
    if not len(marks):
        return pa.array([], pa.bool_())
    filter_ = read_filter(filters[0].as_py())
    assert filter_ is not None, "the planner looked at it"
    return pa.array(holds(filter_, np.asarray(_flat(marks))))


KERNELS = {
    "bloom_marks_of_texts": Kernel(_marks_of_texts, ("VARCHAR",), "BIGINT"),
    "bloom_marks_of_longs": Kernel(_marks_of_longs, ("BIGINT",), "BIGINT"),
    "bloom_marks_of_doubles": Kernel(_marks_of_doubles, ("DOUBLE",), "BIGINT"),
    "bloom_marks_of_floats": Kernel(_marks_of_floats, ("FLOAT",), "BIGINT"),
    "bloom_of_marks": Kernel(_of_marks, ("BIGINT", "BIGINT[]"), "BLOB"),
    "bloom_holds": Kernel(_held, ("VARCHAR", "BIGINT"), "BOOLEAN"),
}
