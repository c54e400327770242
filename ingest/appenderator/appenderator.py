"""Holds a task's rows: appends decoded batches to sequences, spills them, answers live questions, merges and restores.

One ingest thread changes it. ``live``, ``chunk_bytes``, ``merge``, ``drop`` and the totals may be
called from any thread: they read tuples that are replaced as a whole. ``merge`` spills the rest of its
sequence by itself, on its own thread: reading does not wait for that.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import structlog

from ingest.appenderator.decoding import DecodedBatch, RowDecoder
from ingest.appenderator.decoding.batch import RowProblem
from ingest.appenderator.live import chunk_stream, live_answer
from ingest.appenderator.manifest import (
    Manifest,
    StoredSequence,
    adopt_files,
    read_manifest,
    remove_leftovers,
    write_manifest,
)
from ingest.appenderator.merging import Allocate, MergedSequence, merge_sequence
from ingest.appenderator.sequence_rows import FileNames, SequenceRows
from ingest.offsets import OffsetMap
from ingest.protocol import SequenceRecord
from ingest.spec.model import SupervisorSpec, TuningConfig
from ingest.stream.schemas import SchemaSources
from ingest.stream.supplier import Poll
from segments.errors import StorageError
from segments.live import LiveAnswer, LiveAsk
from segments.storage.durable import make_directories

log = structlog.get_logger()

# Used where a spec leaves maxBytesInMemory to the task.
_MEMORY_BYTES: Final = 128 << 20
# However much may be there: Arrow puts texts together up to 2 GiB, and the bound is looked at after a batch.
_MEMORY_BYTES_MAX: Final = 1 << 30
_SAMPLES_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class SequenceTotals:
    """What one sequence holds; ``segment_rows`` is its largest time chunk, ``held_bytes`` of all sequences."""

    rows: int
    segment_rows: int
    sequence_bytes: int
    held_bytes: int
    parse_exceptions: int


@dataclass(frozen=True, slots=True)
class Appended:
    """One append. ``rest`` are the polls that a row limit left unread, in order; ``rows`` were stored."""

    ranges: tuple[tuple[int, int, int], ...]
    rows: int
    totals: SequenceTotals
    rest: tuple[Poll, ...]


class Appenderator:
    """The rows of one task attempt, kept below ``directory``, which is its own. ``schemas`` opens registries."""

    def __init__(self, directory: Path, group: int, token: str, schemas: SchemaSources | None = None) -> None:
        self._schemas = schemas
        make_directories(directory)
        self._directory = directory
        self._group = group
        self._token = token
        self._sequences: dict[int, SequenceRows] = {}
        self._decoders: dict[int, RowDecoder] = {}
        self._chunk_numbers = itertools.count(1)
        self._next_file = 1
        self._dropped_through = 0
        self._persisted_ms: int | None = None
        self._counters: dict[str, int] = {}
        self._samples: deque[RowProblem] = deque(maxlen=_SAMPLES_MAX)
        # Guards the dictionaries above against readers in other threads; never held while working on rows.
        self._lock = threading.Lock()
        # One manifest at a time, made of what is held at its turn.
        self._storing = threading.Lock()

    # ------------------------------------------------------------ the ingest thread

    def open_sequence(self, record: SequenceRecord, spec: SupervisorSpec) -> None:
        """Prepares to append to a sequence; repeating it, also with a saved end, only updates the record."""
        number = record.ref.number
        known = self._sequences.get(number)
        if known is not None:
            known.record = record
            return
        rows = SequenceRows(record, spec, lambda: next(self._chunk_numbers))
        with self._lock:
            self._sequences = {**self._sequences, number: rows}

    def append(self, number: int, polls: Sequence[Poll]) -> Appended:
        """Decodes polls and appends them; ends after the message that reaches a row limit of the sequence.

        Polls must begin where the sequence stands and stay below its end. A limit can only be passed
        by the rows of one message.

        Raises:
            StreamError: what the records are read by cannot be had now; nothing was appended.
        """
        sequence = self._sequences[number]
        batch = self._decoder(sequence).decode(polls, sequence.record.opened_at_ms)
        rest: tuple[Poll, ...] = ()
        fitting = sequence.messages_that_fit(batch)
        if fitting is not None and fitting < batch.messages:
            batch, after = batch.split_at_message(fitting)
            rest = _rest(polls, after.ranges())
        sequence.append(batch)
        self._count(batch, sequence.spec.tuning)
        ranges = tuple((partition, start, end) for partition, (start, end) in batch.ranges().items())
        return Appended(ranges, batch.rows.num_rows, self.totals(number), rest)

    def _decoder(self, sequence: SequenceRows) -> RowDecoder:
        version = sequence.record.spec_version
        decoder = self._decoders.get(version)
        if decoder is None:
            spec = sequence.spec
            decoder = RowDecoder(spec.data_schema, spec.io.rejection, schemas=self._schemas)
            self._decoders[version] = decoder
        return decoder

    def _count(self, batch: DecodedBatch, tuning: TuningConfig) -> None:
        if tuning.log_parse_exceptions:
            for problem in batch.problems:
                log.warning("record not read", partition=problem.partition, offset=problem.offset, why=problem.details)
        with self._lock:
            if self._samples.maxlen != (kept := min(tuning.max_saved_parse_exceptions, _SAMPLES_MAX)):
                self._samples = deque(self._samples, maxlen=kept)
            for counts in batch.counts().values():
                for name in ("good", "partly_good", "unparseable", "filtered", "tombstones", "early", "late"):
                    self._counters[name] = self._counters.get(name, 0) + getattr(counts, name)
            self._counters["rows"] = self._counters.get("rows", 0) + batch.rows.num_rows
            for column, cut in batch.truncated.items():
                name = f"truncated.{column}"
                self._counters[name] = self._counters.get(name, 0) + cut
            self._samples.extend(batch.problems)

    def cut(self, number: int) -> None:
        """What is appended next goes to hydrants of its own (PR-9)."""
        self._sequences[number].cut()

    def reread_from(self, number: int, end: OffsetMap) -> OffsetMap:
        """Where reading would go on if everything that passes ``end`` were dropped; drops nothing."""
        return self._sequences[number].reread_from(end)

    def drop_past(self, number: int, end: OffsetMap) -> OffsetMap:
        """Drops, whole, every hydrant that passes ``end`` in any partition; positions to read on from.

        Durable when it returns, so that a restore does not bring them back.
        """
        positions = self._sequences[number].drop_past(end)
        self._store()
        return positions

    def maintain(self, now_ms: int) -> bool:
        """Spills what is due by rows, bytes or time (monotonic ``now_ms``); returns whether it did."""
        if self._persisted_ms is None:
            self._persisted_ms = now_ms
        due = False
        rows = size_bytes = 0  # of all sequences: those read to their end wait for their turn to be published
        for sequence in self._sequences.values():
            if sequence.is_being_spilled:
                continue
            more_rows, more_bytes = sequence.memory()
            rows, size_bytes = rows + more_rows, size_bytes + more_bytes
            tuning = sequence.spec.tuning
            wanted = tuning.max_bytes_in_memory or _MEMORY_BYTES
            limit = min(wanted, _MEMORY_BYTES_MAX) if wanted > 0 else _MEMORY_BYTES_MAX
            due = due or rows >= tuning.max_rows_in_memory or size_bytes >= limit
            late = now_ms - self._persisted_ms >= tuning.intermediate_persist_period_ms
            due = due or (late and bool(rows or size_bytes))
        if due:
            # A merge spills its own sequence; to wait for that would hold up reading.
            self._spill(wait=False)
            self._persisted_ms = now_ms
        return due

    def persist(self) -> None:
        """Everything appended is on disk and in the manifest when it returns; safe to repeat.

        Raises:
            StorageFull, StorageMisconfigured, StorageUnavailable: rows stay in memory, nothing is lost.
        """
        self._spill(wait=True)

    def _spill(self, *, wait: bool) -> None:
        names = FileNames(self._directory, self._take_file)
        for sequence in self._sequences.values():
            sequence.spill(names, wait=wait)
        self._store()

    def _take_file(self) -> int:
        with self._lock:
            self._next_file += 1
            return self._next_file - 1

    def _store(self) -> None:
        with self._storing:
            stored = []
            for _, sequence in sorted(self._sequences.items()):
                # Hydrants that follow one still in memory could not be restored without it.
                spilled = tuple(itertools.takewhile(lambda hydrant: hydrant.spilled, sequence.hydrants))
                stored.append(StoredSequence(sequence.record, spilled))
            write_manifest(self._directory, Manifest(self._next_file, tuple(stored)))

    def _try_to_store(self) -> bool:
        try:
            self._store()
        except StorageError as error:
            log.warning("manifest not written", error=str(error))
            return False
        return True

    def restore(self, older: Path, specs: Mapping[int, SupervisorSpec]) -> dict[int, OffsetMap]:
        """Takes over what an ended attempt (or this directory's) left; per sequence how far its rows reach.

        ``specs`` by spec version; sequences of other versions are left out. What was in memory only is
        to be read again. Durable in this directory when it returns.
        """
        manifest = read_manifest(older)
        known = tuple(s for s in manifest.sequences if s.record.spec_version in specs)
        manifest = adopt_files(replace(manifest, sequences=known), self._directory)
        self._next_file = max(self._next_file, manifest.next_file)
        positions: dict[int, OffsetMap] = {}
        for stored in manifest.sequences:
            number = stored.record.ref.number
            self.open_sequence(stored.record, specs[stored.record.spec_version])
            self._sequences[number].restore(stored.hydrants)
            positions[number] = self._sequences[number].positions
        self._store()
        remove_leftovers(self._directory, manifest)
        return positions

    # ------------------------------------------------------------ any thread

    def totals(self, number: int) -> SequenceTotals:
        """What a sequence holds now."""
        sequence = self._sequences[number]
        held_bytes = self.held()[1]
        bad = sequence.parse_exceptions
        return SequenceTotals(sequence.rows, sequence.segment_rows, sequence.bytes_held, held_bytes, bad)

    def positions(self, number: int) -> OffsetMap:
        """The next offsets to read for a sequence."""
        return self._sequences[number].positions

    def held(self) -> tuple[int, int]:
        """Rows and bytes, in memory and on disk, of all sequences."""
        held = list(self._sequences.values())
        return sum(sequence.rows for sequence in held), sum(sequence.bytes_held for sequence in held)

    def counters(self) -> dict[str, int]:
        """Messages by fate, rows, and truncated numbers by column, since the attempt started."""
        with self._lock:
            return dict(self._counters)

    def samples(self) -> tuple[RowProblem, ...]:
        """The newest records that were bad as a whole or in a field, oldest first."""
        with self._lock:
            return tuple(self._samples)

    def live(self, ask: LiveAsk) -> LiveAnswer:
        """Which chunks answer a query at the asked committed offsets (PR-1)."""
        with self._lock:
            sequences = [sequence for _, sequence in sorted(self._sequences.items())]
            dropped_through = self._dropped_through
        return live_answer(ask, self._token, self._group, sequences, dropped_through)

    def chunk_bytes(self, number: int) -> bytes | None:
        """One live chunk as an Arrow IPC stream, a spilled one with dictionary-encoded texts; None when it is gone."""
        for sequence in list(self._sequences.values()):
            for hydrant in sequence.hydrants:
                for piece in hydrant.pieces:
                    if piece.number == number:
                        return chunk_stream(piece)
        return None

    def merge(self, record: SequenceRecord, allocate: Allocate) -> MergedSequence:
        """Spills what a sequence that is read to its end still has in memory, and writes its files; for the
        publish thread.

        Raises:
            StorageFull, StorageMisconfigured, StorageUnavailable: the disk refused; nothing is lost.
        """
        number = record.ref.number
        sequence = self._sequences[number]
        if sequence.spill(FileNames(self._directory, self._take_file), wait=True):
            self._store()
            if self._sequences.get(number) is not sequence:
                # Dropped meanwhile, and its files with it, save those that were not there yet.
                self._remove_files(number)
        return merge_sequence(record, sequence.spec, sequence.hydrants, self._directory, allocate)

    def drop(self, number: int, version: int = 0) -> int:
        """Frees a sequence with its files; live questions below table ``version`` are then too old (PR-6).

        Returns the bytes still held. Files are removed after the manifest that no longer names them is
        durable, so call it from the ingest thread; a full disk needs their space first.
        """
        with self._lock:
            sequence = self._sequences.get(number)
            self._sequences = {n: held for n, held in self._sequences.items() if n != number}
            self._dropped_through = max(self._dropped_through, version)
        if sequence is not None:
            stored = self._try_to_store()
            self._remove_files(number)
            if not stored:
                self._try_to_store()  # else the next persist does; a restore takes missing files for unread rows
        return self.held()[1]

    def _remove_files(self, number: int) -> None:
        for path in self._directory.glob(f"{number}[-.]*"):
            path.unlink(missing_ok=True)


def _rest(polls: Sequence[Poll], ranges: Mapping[int, tuple[int, int]]) -> tuple[Poll, ...]:
    """The parts of the polls from each partition's given start on."""
    rest: list[Poll] = []
    for poll in polls:
        start = max(ranges.get(poll.partition, (poll.end_offset, 0))[0], poll.first_offset)
        if start >= poll.end_offset:
            continue
        at = next((i for i, offset in enumerate(poll.offsets) if offset >= start), len(poll.offsets))
        rest.append(
            replace(
                poll,
                first_offset=start,
                offsets=poll.offsets[at:],
                values=poll.values[at:],
                timestamps_ms=poll.timestamps_ms[at:],
                keys=None if poll.keys is None else poll.keys[at:],
                headers=None if poll.headers is None else poll.headers[at:],
                documents=None if poll.documents is None else poll.documents[at:],
            )
        )
    return tuple(rest)
