"""Gathers columns of a part of several runs: numbers as numpy values, texts by codes or as they are."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from segments.arrow_arrays import ArrowArray, array_of, list_lengths, lists_of, nulls
from segments.arrow_schema import is_array
from segments.errors import SpillUnreadable
from segments.parquet.blobs import join_blobs
from segments.parquet.columns import BoolArray, Codes, Column, Indices, Lists, Numbers, PlainTexts, Texts, coded
from segments.parquet.spill import Run
from segments.truncation import Int64Array


@dataclass(frozen=True, slots=True)
class Window:
    """Some rows of one run: a range, or picked ones in ascending order."""

    run: Run
    start: int
    end: int
    picked: Indices | None = None

    def __len__(self) -> int:
        return self.end - self.start if self.picked is None else len(self.picked)

    @property
    def times(self) -> Int64Array:
        return self.run.times[self.start : self.end] if self.picked is None else self.run.times[self.picked]

    def column(self, name: str) -> ArrowArray | None:
        """The rows of a column, or None if the run does not have it."""
        column = self.run.column(name)
        if column is None:
            return None
        if self.picked is not None:
            return column.take(array_of(self.picked))
        return column.slice(self.start, self.end - self.start)


def release_pages(windows: Sequence[Window]) -> None:
    """Lets go of the mapped pages of all spills that the windows look into."""
    for spill in {window.run.spill for window in windows}:
        spill.release_pages()


def gather(windows: Sequence[Window], name: str, arrow_type: pa.DataType) -> Column:
    """A column of all windows, one after the other, as its stored type.

    Raises:
        SpillUnreadable: a run has values that do not fit the type.
    """
    if is_array(arrow_type):
        return _gather_arrays(windows, name, arrow_type)
    if pa.types.is_list(arrow_type):
        return _gather_lists(windows, name)
    if pa.types.is_binary(arrow_type):
        return join_blobs([_plain(window, name, arrow_type) for window in windows])
    if pa.types.is_string(arrow_type):
        return _gather_texts([_plain(window, name, arrow_type) for window in windows], arrow_type)
    return gather_numbers(windows, name, arrow_type)


def gather_numbers(windows: Sequence[Window], name: str, arrow_type: pa.DataType) -> Numbers:
    """A numeric column of all windows; as ``gather``."""
    parts, valids, any_null = [], [], False
    for window in windows:
        column = window.column(name)
        if column is None:
            column = nulls(len(window), arrow_type)
        column = _cast(window, name, column, arrow_type)
        any_null |= column.null_count > 0
        valids.append(np.asarray(column.is_valid()) if column.null_count else np.ones(len(column), dtype=np.bool_))
        parts.append(np.asarray(column.fill_null(0) if column.null_count else column))
    return Numbers(np.concatenate(parts), np.concatenate(valids) if any_null else None)


def _plain(window: Window, name: str, arrow_type: pa.DataType) -> ArrowArray:
    """A window's texts, still encoded if they are; lists of at most one value become that value."""
    column = window.column(name)
    if column is None:
        return nulls(len(window), arrow_type)
    if pa.types.is_list(column.type):
        column = _single_values(column)
    if pa.types.is_dictionary(column.type) or column.type == arrow_type:
        return column
    return _cast(window, name, column, arrow_type)


def _single_values(column: ArrowArray) -> ArrowArray:
    lengths = np.asarray(pc.fill_null(list_lengths(column), 0))
    assert not len(lengths) or lengths.max() <= 1, "a list of several values in a column that is not multi-value"
    positions = np.cumsum(lengths) - 1
    return column.flatten().take(array_of(positions.astype(np.int64), lengths == 0))


def _gather_texts(parts: Sequence[ArrowArray], arrow_type: pa.DataType) -> Texts | PlainTexts:
    if not any(pa.types.is_dictionary(part.type) for part in parts):
        return PlainTexts(pa.concat_arrays(parts) if len(parts) > 1 else parts[0])
    compacted = [_compact(part, arrow_type) for part in parts]
    if len(compacted) == 1:
        [(codes, used, dictionary)] = compacted
        return Texts(_recoded(codes, used, np.arange(len(dictionary), dtype=np.int32)), dictionary)
    unified = pa.concat_arrays([dictionary for _, _, dictionary in compacted]).dictionary_encode()
    of_entries = np.asarray(unified.indices)
    recoded: list[Codes] = []
    begin = 0
    for codes, used, dictionary in compacted:
        recoded.append(_recoded(codes, used, of_entries[begin : begin + len(dictionary)]))
        begin += len(dictionary)
    return Texts(np.concatenate(recoded), unified.dictionary)


def _recoded(codes: Codes, used: Indices | None, of_entries: Codes) -> Codes:
    """Codes into a part's entries (null: -1) as codes into the common dictionary; ``used``: which entries stayed."""
    if used is None:
        if np.array_equal(of_entries, np.arange(len(of_entries))):
            return codes  # the first part's always are
        return np.append(of_entries, np.int32(-1))[codes]
    table = np.full(int(used[-1]) + 2 if len(used) else 1, -1, dtype=np.int32)
    table[used] = of_entries
    return table[codes]


def _compact(part: ArrowArray, arrow_type: pa.DataType) -> tuple[Codes, Indices | None, ArrowArray]:
    """Codes (null: -1), the codes that occur where not all do, and the dictionary entries that occur."""
    if not pa.types.is_dictionary(part.type):
        part = part.dictionary_encode()
    dictionary = part.dictionary
    if dictionary.type != arrow_type:
        dictionary = dictionary.cast(arrow_type)
    indices = part.indices.cast(pa.int32())
    codes = np.asarray(indices.fill_null(-1) if part.null_count else indices)
    if len(dictionary) <= 2 * len(codes):
        seen = np.zeros(len(dictionary) + 1, dtype=np.bool_)
        seen[codes] = True
        used = np.flatnonzero(seen[:-1])
        return (
            (codes, None, dictionary)
            if len(used) == len(dictionary)
            else (codes, used, dictionary.take(array_of(used)))
        )
    # A few rows of a large dictionary: their distinct codes are cheaper than a table of all.
    used, compacted = np.unique(codes, return_inverse=True)
    nulls_first = int(len(used) > 0 and used[0] < 0)
    return (compacted - nulls_first).astype(np.int32), None, dictionary.take(array_of(used[nulls_first:]))


def _gather_lists(windows: Sequence[Window], name: str) -> Lists:
    lengths, valids, values = [], [], []
    for window in windows:
        column = window.column(name)
        if column is None:
            column = nulls(len(window), pa.string())
        if pa.types.is_list(column.type):
            lengths.append(np.asarray(pc.fill_null(list_lengths(column), 0)).astype(np.int64))
            valids.append(np.asarray(column.is_valid()))
            values.append(_cast(window, name, column.flatten(), pa.string()))
        else:
            # A single value is a list of one; a missing one is no list.
            valid = np.asarray(column.is_valid())
            lengths.append(valid.astype(np.int64))
            valids.append(valid)
            values.append(_cast(window, name, column.drop_null(), pa.string()))
    all_lengths = np.concatenate(lengths)
    offsets = np.concatenate([[0], np.cumsum(all_lengths)]).astype(np.int32)
    flat = pa.concat_arrays(values)
    # A single missing value is stored as null, as it is where the column has no lists; a list without members is not.
    missing = np.append(np.asarray(flat.is_null()), True)[offsets[:-1]]
    valid = np.concatenate(valids) & ((all_lengths != 1) | ~missing)
    mask = None if valid.all() else array_of(~valid)
    lists = lists_of(offsets, flat, mask)
    return Lists(lists, lambda: _list_ranks(offsets, flat, valid))


def _gather_arrays(windows: Sequence[Window], name: str, arrow_type: pa.DataType) -> Lists:
    """Arrays as they are: an empty one is not null, and neither is one of a single null."""
    parts = []
    for window in windows:
        column = window.column(name)
        parts.append(nulls(len(window), arrow_type) if column is None else _cast(window, name, column, arrow_type))
    arrays = pa.concat_arrays(parts)
    valid = np.asarray(arrays.is_valid())
    lengths = np.asarray(pc.fill_null(list_lengths(arrays), 0)).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return Lists(arrays, lambda: _list_ranks(offsets, arrays.flatten(), valid))


def _list_ranks(offsets: npt.NDArray[np.int32], flat: ArrowArray, valid: BoolArray) -> Codes:
    """Ranks whole lists: element by element, a shorter one before its continuation, no list (0) first.

    Every element becomes its rank in fixed-width hexadecimal, so that comparing the joined texts compares
    the lists.
    """
    if pa.types.is_string(flat.type):
        elements, span = coded(flat).ranks()
    else:
        valid_items = np.asarray(flat.is_valid()) if flat.null_count else None
        ranked = Numbers(np.asarray(flat.fill_null(0) if flat.null_count else flat), valid_items).ranks()[0]
        distinct, elements = np.unique(ranked, return_inverse=True)
        span = len(distinct)
    spelt = pa.array([f"{rank:08x}" for rank in range(span)], pa.string())
    joined = pc.binary_join(lists_of(offsets, spelt.take(array_of(elements.astype(np.int64)))), "")
    ranks, _ = coded(joined).ranks()
    return np.where(valid, ranks, np.int32(0))


def _cast(window: Window, name: str, column: ArrowArray, arrow_type: pa.DataType) -> ArrowArray:
    if column.type == arrow_type:
        return column
    try:
        # Past 2 ** 53 a double rounds an integer: the column's type asks for that. All other casts are exact.
        rounds = pa.types.is_integer(column.type) and pa.types.is_floating(arrow_type)
        return column.cast(arrow_type, safe=not rounds)
    except pa.ArrowException as error:
        raise SpillUnreadable(
            f"spill {window.run.spill.path}: column {name!r} of type {column.type} does not fit {arrow_type}: {error}"
        ) from error
