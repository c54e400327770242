"""A decoded batch: rows as Arrow columns, and for every message where it stood and how it ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingest.offsets import OffsetMap
from ingest.protocol import PartitionCounts
from ingest.stream.supplier import Headers, OpenDocuments
from segments.schema import SegmentSchema

Ints = npt.NDArray[np.int64]
Fates = npt.NDArray[np.uint8]


class Fate(IntEnum):
    """How one message ended; each in exactly one (PR-22)."""

    GOOD = 0
    PARTLY = 1
    UNPARSEABLE = 2
    FILTERED = 3
    TOMBSTONE = 4
    EARLY = 5
    LATE = 6


_COUNT_FIELDS = ("good", "partly_good", "unparseable", "filtered", "tombstones", "early", "late")


@dataclass(frozen=True, slots=True)
class Rejected:
    """A message for the quarantine: raw bytes, place, Kafka's time (-1: none), the reason. ``source``: see ``Poll``.

    ``key`` and ``headers`` are there as far as ``parts`` were read. ``documents``: those that became no row, where
    others did; None where none did.
    """

    partition: int
    offset: int
    timestamp_ms: int
    value: bytes | None
    reason: str
    source: tuple[str, int] | None = None
    key: bytes | None = None
    headers: Headers | None = None
    parts: frozenset[str] = frozenset()
    documents: OpenDocuments | None = None

    @property
    def size_bytes(self) -> int:
        """About what it takes in memory."""
        beside = sum(len(name) + len(value or b"") for name, value in self.headers or ())
        return 100 + len(self.value or b"") + len(self.key or b"") + beside


@dataclass(frozen=True, slots=True)
class RowProblem:
    """For samples: what was wrong with a message, unparseable as a whole or kept with nulls."""

    partition: int
    offset: int
    unparseable: bool
    details: tuple[str, ...]
    input: str
    source: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """Messages ``[first_message, end_message)`` of the batch: a partition's ``[start, end)``, holes included."""

    partition: int
    start: int
    end: int
    first_message: int
    end_message: int


@dataclass(frozen=True, slots=True)
class DecodedBatch:
    """Immutable. Rows lie in message order; ``row_message`` gives each row's message position.

    ``rows`` has the columns of ``schema`` with ``__time`` as int64 ms truncated to the query granularity,
    and beside each first or last metric the event time of its value (``segments.rollup``).
    ``event_times_ms`` are the rows' times before truncation. ``offsets`` and ``fates`` are per message.
    """

    schema: SegmentSchema
    rows: pa.RecordBatch
    row_message: Ints
    event_times_ms: Ints
    runs: tuple[Run, ...]
    offsets: Ints
    fates: Fates
    rejected: tuple[Rejected, ...] = ()
    problems: tuple[RowProblem, ...] = ()
    truncated: Mapping[str, int] = field(default_factory=dict)

    @property
    def messages(self) -> int:
        return len(self.fates)

    def ranges(self) -> dict[int, tuple[int, int]]:
        """Per partition the half-open range covered, holes included."""
        found: dict[int, tuple[int, int]] = {}
        for run in self.runs:
            start, end = found.get(run.partition, (run.start, run.end))
            found[run.partition] = (min(start, run.start), max(end, run.end))
        return found

    def ends(self) -> OffsetMap:
        """The next offset to read after this batch, per partition in it."""
        return OffsetMap({partition: end for partition, (_, end) in self.ranges().items()})

    def counts(self) -> dict[int, PartitionCounts]:
        """Per partition how the messages ended, and the offsets without a record."""
        found: dict[int, PartitionCounts] = {}
        for run in self.runs:
            tally = np.bincount(self.fates[run.first_message : run.end_message], minlength=len(Fate))
            counts = dict(zip(_COUNT_FIELDS, map(int, tally), strict=True))
            holes = run.end - run.start - (run.end_message - run.first_message)
            found[run.partition] = add_counts(found.get(run.partition), PartitionCounts(**counts, no_record=holes))
        return found

    def watermarks(self) -> dict[int, int]:
        """Per partition the largest event time of its kept rows."""
        found: dict[int, int] = {}
        for run in self.runs:
            first, end = np.searchsorted(self.row_message, (run.first_message, run.end_message))
            if first < end:
                largest = int(self.event_times_ms[first:end].max())
                found[run.partition] = max(largest, found.get(run.partition, largest))
        return found

    def split_at_message(self, at: int) -> tuple[DecodedBatch, DecodedBatch]:
        """The first ``at`` messages and the rest; holes stay with the message before them."""
        cuts: list[int] = []
        for run in self.runs:
            if run.end_message <= at:
                cuts.append(run.end)
            else:
                cuts.append(run.start if run.first_message >= at else int(self.offsets[at]))
        return self._split(cuts)

    def split_at_ends(self, ends: Mapping[int, int]) -> tuple[DecodedBatch, DecodedBatch]:
        """What lies below the ends and what lies at or past them; partitions without an end are inside."""
        return self._split([min(max(ends.get(r.partition, r.end), r.start), r.end) for r in self.runs])

    def message_of_row(self, row: int) -> int:
        """The number of messages up to and including the one that holds the row."""
        return int(self.row_message[row]) + 1

    def _split(self, cuts: Sequence[int]) -> tuple[DecodedBatch, DecodedBatch]:
        inside = np.ones(self.messages, dtype=np.bool_)
        for run, cut in zip(self.runs, cuts, strict=True):
            span = slice(run.first_message, run.end_message)
            inside[span] = self.offsets[span] < cut
        return self._select(inside, cuts, below=True), self._select(~inside, cuts, below=False)

    def _select(self, wanted: npt.NDArray[np.bool_], cuts: Sequence[int], *, below: bool) -> DecodedBatch:
        runs: list[Run] = []
        position = 0
        for run, cut in zip(self.runs, cuts, strict=True):
            start, end = (run.start, cut) if below else (cut, run.end)
            if start < end:
                taken = int(np.count_nonzero(wanted[run.first_message : run.end_message]))
                runs.append(Run(run.partition, start, end, position, position + taken))
                position += taken
        keep = wanted[self.row_message]
        renumbered = np.cumsum(wanted) - 1
        return replace(
            self,
            rows=_masked(self.rows, keep),
            row_message=renumbered[self.row_message[keep]],
            event_times_ms=self.event_times_ms[keep],
            runs=tuple(runs),
            offsets=self.offsets[wanted],
            fates=self.fates[wanted],
            rejected=tuple(r for r in self.rejected if _covers(runs, r.partition, r.offset)),
            problems=tuple(p for p in self.problems if _covers(runs, p.partition, p.offset)),
            # Truncations are counted per batch; the whole count stays with the first part.
            truncated=self.truncated if below else {},
        )


def _covers(runs: Sequence[Run], partition: int, offset: int) -> bool:
    return any(run.partition == partition and run.start <= offset < run.end for run in runs)


def _masked(rows: pa.RecordBatch, keep: npt.NDArray[np.bool_]) -> pa.RecordBatch:
    """Slices where the rows to keep lie together, which copies nothing."""
    if keep.all():
        return rows
    positions = np.flatnonzero(keep)
    if not len(positions):
        return rows.slice(0, 0)
    first, last = int(positions[0]), int(positions[-1])
    if last - first + 1 == len(positions):
        return rows.slice(first, len(positions))
    return rows.filter(pa.array(keep))


def add_counts(one: PartitionCounts | None, other: PartitionCounts) -> PartitionCounts:
    """Field by field."""
    if one is None:
        return other
    names: Any = (*_COUNT_FIELDS, "no_record")
    return PartitionCounts(**{name: getattr(one, name) + getattr(other, name) for name in names})
