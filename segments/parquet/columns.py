"""Columns of a slice while it is sorted and rolled up: numbers, texts by codes or as they are, lists.

A column ranks only those of its rows that sorting cannot tell apart without it: sorting the texts of a
dictionary is the dearest step of a merge, and columns far back in the order are seldom needed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from segments.arrow_arrays import ArrowArray, array_of
from segments.parquet.blobs import Blobs

Indices = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
# Codes and ranks of texts: half the memory of 64 bits, and a slice never has 2 ** 31 distinct texts.
Codes = npt.NDArray[np.int32]
Ranked = tuple[npt.NDArray[Any], int]
"""Integer ranks of some rows from 0, equal values equal, nulls before all values; and how many there may be."""

# A dictionary this much smaller than the rows is sorted for next to nothing.
_CHEAP = 16
# Integers that lie this close together are their own ranks.
_OWN_RANKS = 1 << 40


@dataclass(frozen=True, slots=True)
class Numbers:
    """Values of a numeric column; ``valid`` is None where all are."""

    values: npt.NDArray[Any]
    valid: BoolArray | None

    def take(self, order: Indices) -> "Numbers":
        return Numbers(self.values[order], None if self.valid is None else self.valid[order])

    def to_arrow(self, arrow_type: pa.DataType) -> ArrowArray:
        array = array_of(self.values, None if self.valid is None else ~self.valid)
        return array if array.type == arrow_type else array.cast(arrow_type)

    @property
    def ranks_cheaply(self) -> bool:
        return self.values.dtype == np.int64

    def ranks(self, rows: Indices | None = None) -> Ranked:
        """NaN equals NaN and comes last, -0.0 equals 0.0."""
        taken = self if rows is None else self.take(rows)
        ranks, span = _number_ranks(taken.values)
        return (ranks, span) if taken.valid is None else (np.where(taken.valid, ranks + 1, 0), span + 1)


def _number_ranks(values: npt.NDArray[Any]) -> Ranked:
    if not len(values):
        return values.astype(np.int64), 0
    if values.dtype == np.int64:
        low, high = int(values.min()), int(values.max())
        if high - low < _OWN_RANKS:
            return values - low, high - low + 1
    distinct, inverse = np.unique(values, return_inverse=True)
    return inverse.astype(np.int64), len(distinct)


@dataclass(frozen=True)
class Texts:
    """A text column by codes into a dictionary without repeats, in no order; null is -1."""

    codes: Codes
    dictionary: ArrowArray

    @property
    def valid(self) -> BoolArray:
        present: BoolArray = self.codes >= 0
        return present

    def take(self, order: Indices) -> "Texts":
        codes = self.codes[order]
        if "_sorted" not in self.__dict__:
            return Texts(codes, self.dictionary)
        # Codes that rise with the rows compress better, and the order is known already.
        places, ranks = self._sorted
        return Texts(ranks[codes] - np.int32(1), self.dictionary.take(array_of(places)))

    def to_arrow(self, arrow_type: pa.DataType) -> ArrowArray:
        """Plain texts, or dictionary-encoded where the type says so."""
        missing = self.codes < 0
        indices = array_of(self.codes, missing) if missing.any() else array_of(self.codes)
        if pa.types.is_dictionary(arrow_type):
            return pa.DictionaryArray.from_arrays(indices, self.dictionary)
        return self.dictionary.take(indices)

    @property
    def ranks_cheaply(self) -> bool:
        return _CHEAP * len(self.dictionary) <= len(self.codes)

    def ranks(self, rows: Indices | None = None) -> Ranked:
        """In the order of the texts' UTF-8 bytes."""
        codes = self.codes if rows is None else self.codes[rows]
        if len(self.dictionary) <= len(codes):
            return self._sorted[1][codes], len(self.dictionary) + 1
        used, inverse = np.unique(codes, return_inverse=True)
        some = used[used >= 0]
        _, ranks = _sorted_dictionary(self.dictionary.take(array_of(some)))
        # The code of null is the lowest, and its rank the last of the table.
        return ranks[inverse - (len(used) - len(some))], len(some) + 1

    @cached_property
    def _sorted(self) -> tuple[Indices, Codes]:
        return _sorted_dictionary(self.dictionary)


def _sorted_dictionary(dictionary: ArrowArray) -> tuple[Indices, Codes]:
    """The entries' places in order; and the rank of each entry from 1, with 0 as last (at -1, the code of null)."""
    places = np.asarray(pc.array_sort_indices(dictionary)).astype(np.int64)
    ranks = np.zeros(len(dictionary) + 1, dtype=np.int32)
    ranks[places] = np.arange(1, len(dictionary) + 1, dtype=np.int32)
    return places, ranks


@dataclass(frozen=True, slots=True)
class PlainTexts:
    """A column of texts as they are: they get codes where they must be ranked, and only there."""

    values: ArrowArray
    ranks_cheaply = False

    @property
    def valid(self) -> BoolArray:
        return np.asarray(self.values.is_valid())

    def take(self, order: Indices) -> "PlainTexts":
        return PlainTexts(self.values.take(array_of(order)))

    def to_arrow(self, arrow_type: pa.DataType) -> ArrowArray:
        return self.values

    def ranks(self, rows: Indices | None = None) -> Ranked:
        """In the order of the texts' UTF-8 bytes."""
        return coded(self.values if rows is None else self.values.take(array_of(rows))).ranks()


def coded(values: ArrowArray) -> Texts:
    """Plain texts by codes."""
    encoded = values.dictionary_encode()
    return Texts(np.asarray(encoded.indices.fill_null(-1)), encoded.dictionary)


@dataclass(frozen=True)
class Lists:
    """A multi-value column: the lists themselves, and how to rank them all in the order of their texts."""

    values: ArrowArray
    rank_all: Callable[[], Codes]
    ranks_cheaply = False

    @property
    def valid(self) -> BoolArray:
        return np.asarray(self.values.is_valid())

    def take(self, order: Indices) -> "Lists":
        return Lists(self.values.take(array_of(order)), lambda: self._all[order])

    def to_arrow(self, arrow_type: pa.DataType) -> ArrowArray:
        return self.values

    @cached_property
    def _all(self) -> Codes:
        return self.rank_all()

    def ranks(self, rows: Indices | None = None) -> Ranked:
        """Element by element, a shorter one before its continuation, no list first."""
        ranks = self._all if rows is None else self._all[rows]
        return ranks, int(self._all.max(initial=-1)) + 1


Column = Numbers | Texts | PlainTexts | Lists | Blobs
