"""Sorts rows by several columns: ranks packed into one integer, and further columns for the rows still tied."""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

from segments.parquet.columns import BoolArray, Column, Indices, Numbers, Ranked
from segments.truncation import Int64Array

# The sign bit free, and one bit to spare for sums of ranks and offsets.
_WORD_BITS = 62
_MINUTE_MS = 60_000


class Sortable(Protocol):
    """What rows can be sorted by: see ``columns``."""

    @property
    def ranks_cheaply(self) -> bool:
        """Whether ranking all rows costs next to nothing."""
        ...

    def ranks(self, rows: Indices | None = None) -> Ranked: ...


def sorted_rows(rows: int, columns: Iterable[Sortable]) -> tuple[Indices, BoolArray]:
    """The stable order of the rows by the columns, nulls first, and for every row in that order whether it differs
    from the one before.

    Columns are looked at one after the other, each only for the rows that those before it leave tied.
    """
    order: Indices = np.arange(rows, dtype=np.int64)
    first = np.zeros(rows, dtype=np.bool_)
    first[:1] = True
    waiting = deque(columns)
    places: Indices | None = None  # where the tied rows lie in the order; None: everywhere
    groups: Ranked = (np.zeros(rows, dtype=np.int64), 1)  # which of them are tied with each other
    while waiting and rows:
        tied = order if places is None else order[places]
        word, span = _next_word(groups, None if places is None else tied, waiting, len(tied))
        moved, word = _sorted_word(word, span)
        tied = tied[moved]
        starts = np.ones(len(tied), dtype=np.bool_)
        starts[1:] = word[1:] != word[:-1]
        if places is None:
            order, first = tied, starts
        else:
            order[places], first[places] = tied, starts
        still = ~starts
        still[:-1] |= still[1:]
        at = np.flatnonzero(still)
        if not len(at):
            break
        numbers = np.cumsum(starts[at]) - 1
        groups = numbers, int(numbers[-1]) + 1
        places = at if places is None else places[at]
    return order, first


def _next_word(groups: Ranked, rows: Indices | None, waiting: deque[Sortable], count: int) -> tuple[Int64Array, int]:
    """One integer a row: its group, the next column's rank, and the ranks of what follows for little work."""
    word, span = groups[0].astype(np.int64), groups[1]
    limit = 1 << (_WORD_BITS - _bits(count))
    alone = True
    while waiting and (alone or waiting[0].ranks_cheaply):
        ranks, ranks_span = waiting[0].ranks(rows)
        if span * ranks_span > limit:
            if not alone:
                break
            distinct, ranks = np.unique(ranks, return_inverse=True)
            ranks_span = len(distinct)
        word, span = word * max(1, ranks_span) + ranks, span * max(1, ranks_span)
        waiting.popleft()
        alone = False
    return word, span


def _sorted_word(word: Int64Array, span: int) -> tuple[Indices, Int64Array]:
    """The stable sorted order of the words, and the words in it."""
    bits = _bits(len(word))
    if span <= 1 << (_WORD_BITS - bits):
        # Sorting values that carry their position is faster than sorting positions, and stable.
        carried = np.sort((word << bits) | np.arange(len(word), dtype=np.int64))
        return carried & ((1 << bits) - 1), carried >> bits
    order = np.argsort(word, kind="stable")
    return order, word[order]


def _bits(count: int) -> int:
    return max(1, (count - 1).bit_length())


def segment_order(granules: Int64Array, columns: Sequence[Column], times: Int64Array) -> tuple[Indices, BoolArray]:
    """Rows in segment order: sort granule, columns in their order, time; as ``sorted_rows``."""
    keys: list[Sortable] = [Numbers(numbered(granules), None), *columns]
    if not np.array_equal(granules, times):
        keys.append(Numbers(times, None))
    return sorted_rows(len(times), keys)


def numbered(granules: Int64Array) -> Int64Array:
    """Granules as small numbers in the same order, which leaves more of a word for columns."""
    minutes = granules // _MINUTE_MS
    return minutes if np.array_equal(minutes * _MINUTE_MS, granules) else granules
