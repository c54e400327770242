"""Writes and maps spills: the Arrow IPC files in which a task keeps rows until they are merged into a segment.

A spill's batches are each sorted by ``__time`` (int64 or timestamp milliseconds). Text columns are
dictionary-encoded unless most of their texts occur once; buffers are not compressed, so that a mapped spill
is read in place. Columns that no row of a spill has may be absent. First and last metrics have their time
beside them (``segments.rollup``).
"""

import mmap
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from segments.arrow_arrays import ArrowArray, array_of, list_lengths
from segments.errors import SpillUnreadable
from segments.interval import Interval
from segments.schema import TIME_COLUMN
from segments.storage.durable import disk_error, replace_durably, sync_file, temporary_beside
from segments.truncation import Int64Array


def write_spill(rows: pa.Table | pa.RecordBatch, path: Path) -> int:
    """Sorts rows by time (equal times keep their order) and writes one spill; returns its bytes.

    Durable, whole and under its name when it returns; text columns come out as of ``with_dictionaries``.

    Raises:
        StorageFull, StorageMisconfigured, StorageUnavailable: the disk refused.
    """
    table = pa.table(rows) if isinstance(rows, pa.RecordBatch) else rows
    times = np.asarray(table.column(TIME_COLUMN).cast(pa.int64()))
    if np.any(times[1:] < times[:-1]):
        table = table.take(array_of(np.argsort(times, kind="stable")))
    table = with_dictionaries(table)
    try:
        with temporary_beside(path) as (file, temporary):
            sink: Any = file
            with pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)
            sync_file(file)
            size_bytes = os.fstat(file.fileno()).st_size
            replace_durably(temporary, path)
    except OSError as error:
        raise disk_error(error, path, "spilling to") from error
    return size_bytes


# Rows looked at to tell whether a column's texts repeat.
_SAMPLE_ROWS = 16_384
_FEW_ROWS = 4_096
# Of the texts in a sample: up to so many distinct ones are encoded, with more than so many none repeats.
_ENCODED_SHARE = 0.6
_UNIQUE_SHARE = 0.9


def with_dictionaries(table: pa.Table) -> pa.Table:
    """The rows as one batch, with a dictionary for each text column whose texts repeat.

    A dictionary of texts that mostly occur once takes more time and space than the texts.
    """
    fields, columns = list(table.schema), table.columns
    for index, field in enumerate(fields):
        if pa.types.is_string(field.type) and distinct_share(columns[index]) <= _ENCODED_SHARE:
            columns[index] = columns[index].dictionary_encode()
            fields[index] = field.with_type(columns[index].type)
    table = pa.Table.from_arrays(columns, schema=pa.schema(fields))
    # One batch, so that a file needs one dictionary per column.
    return table.unify_dictionaries().combine_chunks()


def hardly_repeat(values: ArrowArray | None) -> bool:
    """Whether a dictionary of these values would hold nearly all of them."""
    flat = values is not None and not pa.types.is_nested(values.type)
    return flat and distinct_share(values) > _UNIQUE_SHARE


def distinct_share(values: ArrowArray) -> float:
    """The share of distinct values among the first present ones, judged by more of them where a few do not
    tell; 0 where there are hardly any."""
    share = 0.0
    for rows in (_FEW_ROWS, _SAMPLE_ROWS):
        sample = values.slice(0, rows)
        present = len(sample) - sample.null_count
        if len(sample) < _FEW_ROWS or 2 * present < len(sample):
            return 0.0
        share = int(pc.count_distinct(sample).as_py()) / present
        if share < _ENCODED_SHARE / 2:
            break
    return share


# Each mapping holds a file descriptor; late rows make many tiny spills, which are better read.
_MAPPED_BYTES_MIN = 64 << 10


class MappedSpill:
    """A spill in memory by address, not by copy (tiny ones are copied); keep it while its batches are in use."""

    def __init__(self, path: Path) -> None:
        """Maps the file.

        Raises:
            SpillUnreadable: missing or not a whole spill.
        """
        self.path = path
        self._map: mmap.mmap | None = None
        try:
            with path.open("rb") as file:
                if os.fstat(file.fileno()).st_size < _MAPPED_BYTES_MIN:
                    content = pa.py_buffer(file.read())
                else:
                    self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                    content = pa.py_buffer(self._map)
            reader = pa.ipc.open_file(content)
            self.batches = [reader.get_batch(index) for index in range(reader.num_record_batches)]
        except (OSError, ValueError, pa.ArrowException) as error:
            raise SpillUnreadable(f"spill {path} cannot be read: {error}") from error

    def release_pages(self) -> None:
        """Lets go of the resident pages; later reads bring them back from the page cache.

        Without this a merge would count every byte of every spill as its own memory until its end.
        """
        if self._map is not None:
            self._map.madvise(mmap.MADV_DONTNEED)


@dataclass(frozen=True, eq=False)
class Run:
    """One batch of one spill, sorted by time; ``number`` is its place in the order of arrival."""

    spill: MappedSpill
    batch: pa.RecordBatch
    number: int

    @cached_property
    def times(self) -> Int64Array:
        """Milliseconds, a view into the mapped file."""
        times: ArrowArray = self.column(TIME_COLUMN)
        return np.asarray(times.view(pa.int64()))

    def column(self, name: str) -> ArrowArray | None:
        index = self.batch.schema.get_field_index(name)
        return self.batch.column(index) if index >= 0 else None


def open_runs(sources: list[Path], interval: Interval = Interval.ETERNITY) -> list[Run]:
    """Maps spills and checks that they are sorted; only their rows inside the interval.

    Raises:
        SpillUnreadable: a spill is missing, damaged, without times or not sorted.
    """
    runs: list[Run] = []
    for path in sources:
        spill = MappedSpill(path)
        for batch in spill.batches:
            run = Run(spill, _inside(batch, interval, path), len(runs))
            if run.batch.num_rows:
                _check_times(run)
                runs.append(run)
        spill.release_pages()
    return runs


def _inside(batch: pa.RecordBatch, interval: Interval, path: Path) -> pa.RecordBatch:
    """A slice without copying; a batch is sorted by time."""
    if not batch.num_rows or TIME_COLUMN not in batch.schema.names:
        return batch
    times = batch.column(batch.schema.get_field_index(TIME_COLUMN))
    try:
        milliseconds = np.asarray(times.view(pa.int64()))
    except pa.ArrowException as error:
        raise SpillUnreadable(f"spill {path}: {TIME_COLUMN} is not in milliseconds: {error}") from error
    if times.null_count or (milliseconds[0] >= interval.start_ms and milliseconds[-1] < interval.end_ms):
        return batch
    first, end = np.searchsorted(milliseconds, (interval.start_ms, interval.end_ms))
    return batch.slice(int(first), int(end - first))


def _check_times(run: Run) -> None:
    column = run.column(TIME_COLUMN)
    if column is None or column.type not in (pa.int64(), pa.timestamp("ms", "UTC"), pa.timestamp("ms")):
        raise SpillUnreadable(f"spill {run.spill.path} has no {TIME_COLUMN} column in milliseconds")
    if column.null_count or np.any(run.times[1:] < run.times[:-1]):
        raise SpillUnreadable(f"spill {run.spill.path} has null times or is not sorted by {TIME_COLUMN}")


def has_several_values(column: ArrowArray) -> bool:
    """True if some row of a list column holds more than one value."""
    if not pa.types.is_list(column.type):
        return False
    longest = pc.max(list_lengths(column)).as_py()
    return longest is not None and longest > 1


def has_empty_list(column: ArrowArray) -> bool:
    """True if some row of a list column holds a list without members."""
    return pa.types.is_list(column.type) and pc.min(list_lengths(column)).as_py() == 0
