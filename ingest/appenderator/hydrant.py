"""The unit in which a sequence's rows are held, dropped and restored: a range of offsets with all that came of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from ingest.appenderator.decoding.batch import DecodedBatch, Rejected, add_counts
from ingest.offsets import OffsetMap
from ingest.protocol import PartitionCounts
from segments.interval import Granularity
from segments.live import ChunkInfo, PartitionRange
from segments.schema import TIME_COLUMN, SegmentSchema
from segments.truncation import truncate_ms

TIME_TYPE = pa.timestamp("ms", tz="UTC")


@dataclass(frozen=True, slots=True)
class Piece:
    """One live chunk: a batch in memory, or a spill of one time chunk on disk.

    ``bucket_ms`` is the start of a spill's time chunk; a batch in memory may hold rows of many. Where a
    flush has rows of many time chunks, their spills share one file of ``file_bytes``, sorted by time.
    """

    number: int
    rows: int
    size_bytes: int
    min_time_ms: int
    max_time_ms: int
    batch: pa.RecordBatch | None = None
    path: Path | None = None
    bucket_ms: int = 0
    replaces: tuple[int, ...] = ()
    file_bytes: int = 0

    @property
    def shares_file(self) -> bool:
        return self.path is not None and self.file_bytes != self.size_bytes

    def info(self, sequence: int, ranges: tuple[PartitionRange, ...]) -> ChunkInfo:
        """How a query node is told of it."""
        return ChunkInfo(
            number=self.number,
            sequence=sequence,
            rows=self.rows,
            size_bytes=self.size_bytes,
            ranges=ranges,
            min_time_ms=self.min_time_ms,
            max_time_ms=self.max_time_ms,
            # A node that links a file takes all of it for the chunk.
            path=None if self.path is None or self.shares_file else str(self.path),
            replaces=self.replaces,
        )


@dataclass(frozen=True, slots=True)
class QuarantinePart:
    """Rejected records that were spilled to a Parquet file of their own."""

    path: Path
    rows: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Hydrant:
    """Immutable. ``ranges`` per partition are half-open and join those of the hydrants before it.

    ``rows_in`` counts rows before rollup by time chunk. ``generation`` tells hydrants apart that a cut
    separated: they are never merged. A hydrant without rows still has ranges and counts.
    """

    generation: int
    schema: SegmentSchema
    ranges: Mapping[int, tuple[int, int]]
    counts: Mapping[int, PartitionCounts]
    rows_in: Mapping[int, int]
    watermarks: Mapping[int, int]
    pieces: tuple[Piece, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    quarantine: tuple[QuarantinePart, ...] = ()
    spilled: bool = False

    @property
    def rows(self) -> int:
        return sum(piece.rows for piece in self.pieces)

    @property
    def parse_exceptions(self) -> int:
        return sum(counts.parse_exceptions for counts in self.counts.values())

    @property
    def memory_bytes(self) -> int:
        rejected = sum(record.size_bytes for record in self.rejected)
        return rejected + sum(piece.size_bytes for piece in self.pieces if piece.path is None)

    @property
    def disk_bytes(self) -> int:
        spilled = sum(piece.size_bytes for piece in self.pieces if piece.path is not None)
        return spilled + sum(part.size_bytes for part in self.quarantine)

    def passes(self, end: Mapping[int, int]) -> bool:
        """Whether the hydrant reaches past ``end`` in any partition."""
        return any(stop > end.get(partition, stop) for partition, (_, stop) in self.ranges.items())

    def ranges_for_chunks(self) -> tuple[PartitionRange, ...]:
        return tuple((partition, start, end) for partition, (start, end) in sorted(self.ranges.items()))


def hydrant_of(batch: DecodedBatch, generation: int, number: int, segment_granularity: Granularity) -> Hydrant:
    """A hydrant of one decoded batch; its rows become one chunk in memory."""
    rows = with_time_type(batch.rows)
    pieces: tuple[Piece, ...] = ()
    if rows.num_rows:
        first_ms, last_ms = time_bounds(rows)
        pieces = (Piece(number, rows.num_rows, rows.nbytes, first_ms, last_ms, batch=rows),)
    return Hydrant(
        generation=generation,
        schema=batch.schema,
        ranges=batch.ranges(),
        counts=batch.counts(),
        rows_in=rows_by_bucket(rows, segment_granularity),
        watermarks=batch.watermarks(),
        pieces=pieces,
        rejected=batch.rejected,
    )


def with_time_type(rows: pa.RecordBatch) -> pa.RecordBatch:
    """``__time`` as a segment stores it; no value is touched."""
    at = rows.schema.get_field_index(TIME_COLUMN)
    return rows.set_column(at, pa.field(TIME_COLUMN, TIME_TYPE, nullable=False), rows.column(at).view(TIME_TYPE))


def times_of(rows: pa.RecordBatch | pa.Table) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Milliseconds of every row."""
    column = rows.column(TIME_COLUMN)
    if isinstance(column, pa.ChunkedArray):
        return np.asarray(column.cast(pa.int64()))
    return np.asarray(column.view(pa.int64()))


def time_bounds(rows: pa.RecordBatch | pa.Table) -> tuple[int, int]:
    """The first and the last time, both inclusive."""
    times = times_of(rows)
    return int(times.min()), int(times.max())


def rows_by_bucket(rows: pa.RecordBatch | pa.Table, granularity: Granularity) -> dict[int, int]:
    """How many rows fall into each time chunk, by its start; O(1) Python work where all fall into one."""
    if not rows.num_rows:
        return {}
    first_ms, last_ms = time_bounds(rows)
    bucket = granularity.bucket(first_ms)
    if last_ms < bucket.end_ms:
        return {bucket.start_ms: rows.num_rows}
    starts, counts = np.unique(truncate_ms(granularity, times_of(rows)), return_counts=True)
    return dict(zip(starts.tolist(), counts.tolist(), strict=True))


@dataclass(slots=True)
class Sums:
    """Adds up what hydrants carry."""

    ranges: dict[int, tuple[int, int]] = field(default_factory=dict)
    counts: dict[int, PartitionCounts] = field(default_factory=dict)
    rows_in: dict[int, int] = field(default_factory=dict)
    watermarks: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, hydrants: Iterable[Hydrant]) -> Sums:
        sums = cls()
        for hydrant in hydrants:
            for partition, (start, end) in hydrant.ranges.items():
                known = sums.ranges.get(partition)
                sums.ranges[partition] = (start, end) if known is None else (known[0], end)
            for partition, counts in hydrant.counts.items():
                sums.counts[partition] = add_counts(sums.counts.get(partition), counts)
            for bucket, rows in hydrant.rows_in.items():
                sums.rows_in[bucket] = sums.rows_in.get(bucket, 0) + rows
            for partition, time_ms in hydrant.watermarks.items():
                sums.watermarks[partition] = max(time_ms, sums.watermarks.get(partition, time_ms))
        return sums


def positions_of(start: OffsetMap, hydrants: Sequence[Hydrant]) -> OffsetMap:
    """How far the hydrants reach, from the sequence's start; asked for by every live query."""
    return start.with_({partition: end for hydrant in hydrants for partition, (_, end) in hydrant.ranges.items()})
