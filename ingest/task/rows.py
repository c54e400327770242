"""What the task's shell asks of the row path: decode, append, cut, drop, merge, restore and answer live questions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ingest.offsets import OffsetMap
from ingest.protocol import PartitionCounts, PendingSegment, SequenceRecord
from ingest.stream.supplier import Poll
from ingest.task.messages import Run, Totals
from segments.data_segment import DataSegment
from segments.live import LiveAnswer, LiveAsk

Allocate = Callable[[int, int], PendingSegment]
"""Segment id of the time chunk ``[start_ms, end_ms)`` of the sequence being merged."""


@dataclass(frozen=True, slots=True)
class Appended:
    """One append: the ``runs`` it covers, the sequence's totals after it, and the ``rest`` that a limit
    left unread (in order, from the same polls)."""

    runs: tuple[Run, ...]
    totals: Totals
    rest: list[Poll]


@dataclass(frozen=True, slots=True)
class MergedFile:
    """A file ready to be pushed. ``segment`` describes it but for where it will lie; None: quarantine."""

    local: Path
    size_bytes: int
    segment: DataSegment | None


@dataclass(frozen=True, slots=True)
class Merged:
    """Everything one sequence publishes. Counts cover exactly ``[start, end)`` of the sequence."""

    files: tuple[MergedFile, ...]
    quarantined_rows: int
    counts: dict[int, PartitionCounts]
    rows_in: int
    rows_stored: int
    watermark_ms: OffsetMap


class TaskRows(Protocol):
    """The rows of one task. Methods are for the ingest thread unless they say otherwise."""

    def open(self, record: SequenceRecord, posted: dict[str, Any]) -> None:
        """Prepares to append to a sequence under its spec; repeating it (also with a saved end) is harmless."""
        ...

    def append(self, number: int, polls: list[Poll]) -> Appended:
        """Decodes and appends; ends early after the message that reaches a row limit of the sequence.

        Raises:
            StreamError: what the records are read by (a schema registry, a descriptor) cannot be had now;
                nothing was appended, and the same polls are to be given again.
        """
        ...

    def cut(self, number: int) -> None:
        """What is appended next goes to buffers of its own (PR-9)."""
        ...

    def reread_from(self, number: int, end: OffsetMap) -> OffsetMap:
        """Where reading would go on if everything that passes ``end`` were dropped."""
        ...

    def drop_past(self, number: int, end: OffsetMap) -> tuple[OffsetMap, Totals]:
        """Drops it; positions to read on from and the totals that are left."""
        ...

    def forget(self, number: int, dropped_through: int) -> int:
        """Frees a sequence; returns the bytes still held. Live questions below that version are TOO_OLD."""
        ...

    def maintain(self, now_ms: int) -> None:
        """Spills and persists what is due by size or time; ``now_ms`` is monotonic."""
        ...

    def persist(self) -> None:
        """Everything appended is on disk and in the manifest when it returns."""
        ...

    def restored(self) -> tuple[dict[int, OffsetMap], dict[int, Totals]]:
        """Per sequence found in the manifest: how far its rows reach, and its totals."""
        ...

    def merge(self, record: SequenceRecord, allocate: Allocate) -> Merged:
        """Writes the files of a sequence read to its end, what is only in memory included; for the publish thread."""
        ...

    def live(self, ask: LiveAsk) -> LiveAnswer:
        """Which chunks make up the answer; safe from any thread."""
        ...

    def chunk_bytes(self, number: int) -> bytes | None:
        """One chunk as an Arrow IPC stream; safe from any thread."""
        ...

    def counters(self) -> dict[str, int]:
        """Totals since the attempt started; safe from any thread."""
        ...

    def parse_errors(self) -> tuple[dict[str, Any], ...]:
        """The newest samples of records that could not be read, in Druid's shape; safe from any thread."""
        ...

    def held(self) -> tuple[int, int]:
        """Rows and bytes held by all sequences; safe from any thread."""
        ...

    def close(self) -> None: ...
