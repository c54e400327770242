"""The rows of one open or sealed sequence: a list of hydrants that grows, is compacted, spilled, cut and shortened."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from ingest.appenderator.decoding.assembly import aggregations
from ingest.appenderator.decoding.batch import DecodedBatch
from ingest.appenderator.hydrant import (
    Hydrant,
    Piece,
    QuarantinePart,
    Sums,
    hydrant_of,
    positions_of,
    rows_by_bucket,
    time_bounds,
    times_of,
)
from ingest.appenderator.quarantine import write_part
from ingest.appenderator.rolling import rolled_up
from ingest.appenderator.schemas import conformed, widest, without_dictionaries
from ingest.offsets import OffsetMap
from ingest.protocol import SequenceRecord
from ingest.spec.model import SupervisorSpec
from segments.arrow_arrays import array_of
from segments.parquet.spill import write_spill
from segments.schema import SegmentSchema
from segments.truncation import truncate_ms

# Grouping fewer rows at a time costs more than it saves; see docs/performance.md.
_COMPACT_ROWS: Final = 100_000
# Every file is synced on its own; late rows of many time chunks would otherwise stop reading for seconds.
_FILES_PER_SPILL: Final = 16
# A live answer lists every chunk, and every spill walks the hydrants: small ones are put together.
_SMALL_HYDRANTS: Final = 32
_SMALL_ROWS: Final = 1_024


@dataclass(frozen=True, slots=True)
class FileNames:
    """Gives every file of a task's directory a name of its own."""

    directory: Path
    take: Callable[[], int]

    def spill(self, sequence: int) -> Path:
        return self.directory / f"{sequence}-{self.take()}.arrow"

    def quarantine(self, sequence: int) -> Path:
        return self.directory / f"{sequence}-{self.take()}.quarantine.parquet"


class SequenceRows:
    """Changed by the ingest thread, and once it is read to its end spilled by the publish thread; ``hydrants``
    is replaced as a whole, so that other threads may read it."""

    def __init__(self, record: SequenceRecord, spec: SupervisorSpec, next_chunk: Callable[[], int]) -> None:
        self.record = record
        self.spec = spec
        self.hydrants: tuple[Hydrant, ...] = ()
        self.aggregations = aggregations(spec.data_schema)
        self._next_chunk = next_chunk
        self._generation = 0
        self._uncompacted = 0
        self._rolling_pays = True
        self._rows_by_bucket: dict[int, int] = {}
        self.positions = record.start
        self.rows = 0
        self.bytes_held = 0
        self.parse_exceptions = 0
        self._in_memory = (0, 0)
        self._spilling = threading.Lock()

    # ------------------------------------------------------------ what is held

    @property
    def segment_rows(self) -> int:
        """Rows of the largest time chunk, as far as they are rolled up yet."""
        return max(self._rows_by_bucket.values(), default=0)

    def memory(self) -> tuple[int, int]:
        """Rows and bytes that are in memory only."""
        return self._in_memory

    @property
    def is_being_spilled(self) -> bool:
        """Whether some thread is at it."""
        return self._spilling.locked()

    def messages_that_fit(self, batch: DecodedBatch) -> int | None:
        """How many messages of a batch may be appended until a row limit is reached; None: all, and more.

        Exact without rollup; with rollup rows count before they are rolled up in this batch.
        """
        tuning, rows = self.spec.tuning, batch.rows.num_rows
        limits: list[int] = []
        room = tuning.max_total_rows - self.rows
        if rows >= room:
            limits.append(max(room, 1) - 1)
        largest = max(self._rows_by_bucket.values(), default=0)
        if rows + largest >= tuning.max_rows_per_segment:
            limits += self._segment_limits(batch, tuning.max_rows_per_segment)
        return batch.message_of_row(min(limits)) if limits and rows else None

    def _segment_limits(self, batch: DecodedBatch, rows_max: int) -> list[int]:
        """For each time chunk that fills up, the row of the batch that fills it."""
        starts = truncate_ms(self.spec.data_schema.segment_granularity, np.asarray(batch.rows.column(0)))
        limits: list[int] = []
        for bucket, count in zip(*np.unique(starts, return_counts=True), strict=True):
            room = max(rows_max - self._rows_by_bucket.get(int(bucket), 0), 1)
            if count >= room:
                limits.append(int(np.flatnonzero(starts == bucket)[room - 1]))
        return limits

    # ------------------------------------------------------------ changes, by the ingest thread

    def append(self, batch: DecodedBatch) -> None:
        """Adds a batch that begins where the sequence stands."""
        for partition, (start, _) in batch.ranges().items():
            assert self.positions[partition] == start, f"{partition}: {start} does not follow {self.positions}"
        granularity = self.spec.data_schema.segment_granularity
        hydrant = hydrant_of(batch, self._generation, self._next_chunk(), granularity)
        rows_read = hydrant.rows
        if self.spec.data_schema.rollup:
            hydrant = self._grouped(hydrant)
            for piece in hydrant.pieces:
                assert piece.batch is not None
                self._count(rows_by_bucket(piece.batch, granularity))
        else:
            self._count(hydrant.rows_in)
        self.hydrants = (*self.hydrants, hydrant)
        self.positions = self.positions.with_(batch.ends())
        self.rows += hydrant.rows
        self.parse_exceptions += hydrant.parse_exceptions
        size_bytes = hydrant.memory_bytes
        self.bytes_held += size_bytes
        self._in_memory = (self._in_memory[0] + hydrant.rows, self._in_memory[1] + size_bytes)
        self._join_small()
        self._uncompacted += rows_read
        if self.spec.data_schema.rollup and self._uncompacted >= _COMPACT_ROWS:
            self._compact()

    def _grouped(self, hydrant: Hydrant) -> Hydrant:
        """The hydrant with equal rows put together: so live queries see it."""
        pieces: list[Piece] = []
        for piece in hydrant.pieces:
            assert piece.batch is not None
            rows = rolled_up(pa.Table.from_batches([piece.batch]), hydrant.schema, self.aggregations)
            [batch] = rows.to_batches()
            pieces.append(replace(piece, rows=batch.num_rows, size_bytes=batch.nbytes, batch=batch))
        return replace(hydrant, pieces=tuple(pieces))

    def _join_small(self) -> None:
        """Keeps the list short while records trickle in: a run of small hydrants becomes one."""
        trailing = self.hydrants[-_SMALL_HYDRANTS:]
        if len(trailing) == _SMALL_HYDRANTS and all(
            not h.spilled and h.rows < _SMALL_ROWS and h.generation == self._generation for h in trailing
        ):
            self.hydrants = (*self.hydrants[:-_SMALL_HYDRANTS], self._joined(trailing))
            if self.spec.data_schema.rollup:
                self._recount()

    def cut(self) -> None:
        """What is appended from now on is never put together with what is there."""
        self._generation += 1

    def reread_from(self, end: OffsetMap) -> OffsetMap:
        """Where reading would go on if every hydrant passing ``end`` were dropped."""
        kept = self._kept(end)
        return positions_of(self.record.start, kept)

    def drop_past(self, end: OffsetMap) -> OffsetMap:
        """Drops, whole, every hydrant that passes ``end``, and all that follow one in a partition it holds."""
        self.hydrants = self._kept(end)
        self._recount()
        return self.positions

    def _kept(self, end: OffsetMap) -> tuple[Hydrant, ...]:
        gone: set[int] = set()
        kept: list[Hydrant] = []
        for hydrant in self.hydrants:
            if hydrant.passes(end) or gone & hydrant.ranges.keys():
                # A later hydrant cannot follow on a gap.
                gone |= hydrant.ranges.keys()
            else:
                kept.append(hydrant)
        return tuple(kept)

    def _compact(self) -> None:
        """Rolls up what is in memory, generation by generation, if that still shrinks it."""
        self._uncompacted = 0
        if not self._rolling_pays:
            return
        done: list[Hydrant] = []
        for waiting, group in itertools.groupby(self.hydrants, key=lambda h: (h.spilled, h.generation)):
            members = list(group)
            done += members if waiting[0] or len(members) < 2 else [self._joined(members)]
        self.hydrants = tuple(done)
        self._recount()

    def _joined(self, members: Sequence[Hydrant], *, roll_up: bool = True) -> Hydrant:
        rows, schema = self._rows_of(members, roll_up)
        pieces: tuple[Piece, ...] = ()
        if rows.num_rows:
            replaced = tuple(piece.number for member in members for piece in member.pieces)
            pieces = tuple(
                Piece(self._next_chunk(), batch.num_rows, batch.nbytes, *time_bounds(batch), batch, replaces=replaced)
                # Several where a column of texts passes 2 GiB, which is as far as Arrow puts arrays together.
                for batch in rows.combine_chunks().to_batches()
            )
        rejected = tuple(record for member in members for record in member.rejected)
        return replace(self._empty(members, schema), pieces=pieces, rejected=rejected)

    def _empty(self, members: Sequence[Hydrant], schema: SegmentSchema) -> Hydrant:
        """A hydrant with all that members carry but their rows."""
        sums = Sums.of(members)
        generation = members[0].generation
        return Hydrant(generation, schema, sums.ranges, sums.counts, sums.rows_in, sums.watermarks)

    def _rows_of(self, members: Sequence[Hydrant], roll_up: bool) -> tuple[pa.Table, SegmentSchema]:
        schema = widest(member.schema for member in members)
        batches = [piece.batch for member in members for piece in member.pieces if piece.batch is not None]
        if not batches:
            return pa.table({}), schema
        described = {member.schema for member in members if member.pieces}
        # JSON and plain texts are of one Arrow type.
        if len({batch.schema for batch in batches}) == 1 and len(described) == 1:
            rows = pa.Table.from_batches(batches)
        else:
            tables = [conformed(without_dictionaries(pa.table(batch)), schema) for batch in batches]
            rows = pa.concat_tables(tables, promote_options="default")
        roll_up = roll_up and self.spec.data_schema.rollup and self._rolling_pays
        if roll_up:
            before = rows.num_rows
            rows = rolled_up(rows, schema, self.aggregations)
            # Rows that hardly shrink cost more to group than to merge once at the end.
            self._rolling_pays = rows.num_rows * 5 < before * 4 or before < _COMPACT_ROWS // 10
        return rows, schema

    def spill(self, names: FileNames, *, wait: bool) -> bool:
        """Writes everything in memory to durable files; returns whether there was anything to write.

        One spill a time chunk and generation. The hydrants in memory are replaced when all files are there.
        While another thread is at it, waits for its end, or without ``wait`` leaves it all to that thread.

        Raises:
            StorageFull, StorageMisconfigured, StorageUnavailable: the disk refused; nothing has changed.
        """
        if not self._spilling.acquire(blocking=wait):
            return False
        try:
            return self._spill(names)
        finally:
            self._spilling.release()

    def _spill(self, names: FileNames) -> bool:
        if all(hydrant.spilled for hydrant in self.hydrants):
            return False
        done: list[Hydrant] = []
        for key, group in itertools.groupby(self.hydrants, key=lambda h: (h.spilled, h.generation)):
            members = list(group)
            done += members if key[0] else [self._spilled(members, names)]
        self.hydrants = tuple(done)
        self._uncompacted = 0
        self._recount()
        return True

    def _spilled(self, members: Sequence[Hydrant], names: FileNames) -> Hydrant:
        rows, schema = self._rows_of(members, len(members) > 1)
        replaced = tuple(piece.number for member in members for piece in member.pieces)
        parts: tuple[QuarantinePart, ...] = ()
        rejected = tuple(record for member in members for record in member.rejected)
        if rejected:
            parts = (write_part(rejected, self.spec.io.topic, names.quarantine(self.record.ref.number)),)
        pieces = tuple(self._write(rows, replaced, names)) if rows.num_rows else ()
        return replace(self._empty(members, schema), pieces=pieces, quarantine=parts, spilled=True)

    def _write(self, rows: pa.Table, replaced: tuple[int, ...], names: FileNames) -> list[Piece]:
        """One spill per time chunk, in order of time; a file for each of a few, one file for many."""
        granularity = self.spec.data_schema.segment_granularity
        counts = sorted(rows_by_bucket(rows, granularity).items())
        if len(counts) > 1:
            rows = rows.take(array_of(np.argsort(times_of(rows), kind="stable")))
        shared = len(counts) > _FILES_PER_SPILL
        path = names.spill(self.record.ref.number)
        file_bytes = write_spill(rows, path) if shared else 0
        pieces: list[Piece] = []
        begin = 0
        for bucket_ms, count in counts:
            part = rows.slice(begin, count)
            begin += count
            size_bytes = max(1, file_bytes * count // rows.num_rows)
            if not shared:
                path = names.spill(self.record.ref.number) if pieces else path
                size_bytes = file_bytes = write_spill(part, path)
            number, bounds = self._next_chunk(), time_bounds(part)
            pieces.append(
                Piece(number, count, size_bytes, *bounds, None, path, bucket_ms, replaced, file_bytes=file_bytes)
            )
        return pieces

    def restore(self, hydrants: Sequence[Hydrant]) -> None:
        """Takes spilled hydrants of an earlier attempt over; their chunks get numbers of this one."""
        self.hydrants = tuple(
            replace(hydrant, pieces=tuple(replace(piece, number=self._next_chunk()) for piece in hydrant.pieces))
            for hydrant in hydrants
        )
        self._generation = 1 + max((hydrant.generation for hydrant in hydrants), default=0)
        self._recount()

    def _count(self, rows: Mapping[int, int]) -> None:
        for bucket, count in rows.items():
            self._rows_by_bucket[bucket] = self._rows_by_bucket.get(bucket, 0) + count

    def _recount(self) -> None:
        """Totals from what is held now."""
        self._rows_by_bucket = {}
        self.positions = positions_of(self.record.start, self.hydrants)
        self.rows = sum(hydrant.rows for hydrant in self.hydrants)
        self.parse_exceptions = sum(hydrant.parse_exceptions for hydrant in self.hydrants)
        self.bytes_held = sum(hydrant.memory_bytes + hydrant.disk_bytes for hydrant in self.hydrants)
        waiting = [hydrant for hydrant in self.hydrants if not hydrant.spilled]
        self._in_memory = (sum(h.rows for h in waiting), sum(h.memory_bytes for h in waiting))
        granularity = self.spec.data_schema.segment_granularity
        for hydrant in self.hydrants:
            for piece in hydrant.pieces:
                if piece.batch is None:
                    self._count({piece.bucket_ms: piece.rows})
                else:
                    self._count(rows_by_bucket(piece.batch, granularity))
