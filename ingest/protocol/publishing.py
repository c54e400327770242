"""Allocation, staging and publishing of a sequence: questions and answers (pure data)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from ingest.offsets import OffsetMap
from ingest.protocol.sequences import SequenceRef


@dataclass(frozen=True, slots=True)
class AllocateRequest:
    """Asks for the segment id of (sequence, time chunk); the same question always gets the same id."""

    token: str
    ref: SequenceRef
    interval_start_ms: int
    interval_end_ms: int


@dataclass(frozen=True, slots=True)
class PendingSegment:
    """An allocated id, spelled as ``segments.identity.SegmentId`` does; never used twice."""

    segment_id: str
    version: str
    partition_num: int


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file about to be uploaded: its row exists before the first byte is sent (PR-20)."""

    path: str  # deep-storage key, unique to the attempt and the try
    segment_id: str | None  # None: a quarantine file
    size_bytes: int


@dataclass(frozen=True, slots=True)
class StageRequest:
    """Inserts or renews the staged rows of one upload; replaces earlier staged rows of the same
    (token, ref), which the sweeper then owns."""

    token: str
    ref: SequenceRef
    files: tuple[StagedFile, ...]


@dataclass(frozen=True, slots=True)
class PartitionCounts:
    """How the messages of one partition's range ended, each in exactly one field (PR-22)."""

    good: int = 0
    partly_good: int = 0  # kept, with at least one field nulled (processedWithError)
    unparseable: int = 0
    filtered: int = 0
    tombstones: int = 0
    early: int = 0  # thrown away by the early/late windows
    late: int = 0
    no_record: int = 0  # offsets without a visible record (holes, aborted, control)

    @property
    def parse_exceptions(self) -> int:
        """What maxParseExceptions counts, as in Druid: messages that were bad as a whole or in a field (PR-16)."""
        return self.unparseable + self.partly_good

    @property
    def messages(self) -> int:
        return (
            self.good + self.partly_good + self.unparseable + self.filtered + self.tombstones + self.early + self.late
        )

    @property
    def offsets(self) -> int:
        """Equals ``end - start`` of the partition's range; ``verify`` checks it."""
        return self.messages + self.no_record


@dataclass(frozen=True, slots=True)
class PublishRequest:
    """Publishes one sealed sequence: its segments, its quarantine file, its offsets, its ledger row.

    ``quarantine`` is None or ``{"path", "rows", "sizeBytes", "loadSpec"}`` with ``path`` as staged.
    ``segments`` are ``segments.data_segment.DataSegment`` JSON objects; ``rows_in`` counts rows
    before rollup (one message may hold several). ``watermark_ms`` per partition is the largest
    event time read.
    """

    token: str
    ref: SequenceRef
    start: OffsetMap
    end: OffsetMap
    epochs: OffsetMap
    segments: tuple[dict[str, Any], ...]
    quarantine: dict[str, Any] | None
    counts: dict[int, PartitionCounts]
    rows_in: int
    rows_stored: int
    watermark_ms: OffsetMap = OffsetMap()

    @property
    def parse_exceptions(self) -> int:
        return sum(counts.parse_exceptions for counts in self.counts.values())


class PublishOutcome(Enum):
    """Answers of the publish transaction; values, not exceptions (design 4.5)."""

    PUBLISHED = "published"  # this call wrote segments, offsets and ledger
    ALREADY = "already"  # the ledger row exists; also told to fenced attempts (PR-18)
    TOO_EARLY = "too_early"  # an earlier range is not published yet: ask again later
    CONFLICT = "conflict"  # the stored offsets lie inside or past this range: will be voided (PR-13)
    RESTAGE = "restage"  # its staged rows are gone or not exactly these: upload to new paths
    FENCED = "fenced"  # token, epoch or generation refused
    UNKNOWN = "unknown"  # no reply; it may or may not have been applied: ask again, never clean up


@dataclass(frozen=True, slots=True)
class PublishReply:
    """``version`` is the table version of the publish for PUBLISHED and ALREADY, else 0."""

    outcome: PublishOutcome
    version: int = 0
    detail: str = ""
