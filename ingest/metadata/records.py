"""The rows of the metadata store as plain values (pure data)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from ingest.offsets import OffsetMap
from ingest.protocol import AttemptRecord, PartitionCounts, SequenceRecord, SequenceRef
from segments.data_segment import DataSegment


@dataclass(frozen=True, slots=True)
class Leadership:
    """The one leadership row. ``beats`` is the heartbeat counter; a standby watches it change (PR-25)."""

    generation: int
    node: str
    address: str
    beats: int


class DesiredState(Enum):
    """What an operator wants of a supervisor; not what is observed."""

    RUNNING = "running"
    SUSPENDED = "suspended"
    TERMINATED = "terminated"


@dataclass(frozen=True, slots=True)
class SpecGuard:
    """What the judgement of a posted spec relied on; it is stored only while this still holds."""

    idle: bool = False  # nothing that was read is unpublished
    unread: str | None = None  # no offsets of this topic are stored


UNGUARDED = SpecGuard()


@dataclass(frozen=True, slots=True)
class SupervisorRecord:
    """A supervisor as its operator last left it. ``spec`` is exactly what was posted.

    ``version`` grows with each accepted spec and survives deletion (PR-19).
    """

    supervisor: str
    datasource: str
    version: int
    spec: dict[str, Any]
    desired: DesiredState
    updated_ms: int


@dataclass(frozen=True, slots=True)
class SpecVersion:
    """One entry of a supervisor's history; ``spec`` is None where it was terminated."""

    version: int
    spec: dict[str, Any] | None
    created_ms: int


@dataclass(frozen=True, slots=True)
class StreamOffsets:
    """Committed offsets and reset epochs of one (supervisor, topic).

    ``starts`` are the first offsets ever committed to be read per partition *in the current
    epoch*: where the ledger chain that ``verify`` walks begins.
    """

    supervisor: str
    topic: str
    topic_id: str | None
    committed: OffsetMap
    epochs: OffsetMap
    starts: OffsetMap


@dataclass(frozen=True, slots=True)
class GroupState:
    """A group with its unpublished sequences (order of number) and its live attempts.

    ``reported`` is the furthest position that any attempt, ended ones included, made durable in the
    open sequence (PR-7); partitions without a report are missing.
    """

    supervisor: str
    group: int
    partitions: tuple[int, ...]
    sequences: tuple[SequenceRecord, ...]
    attempts: tuple[AttemptRecord, ...]
    reported: OffsetMap = OffsetMap()


@dataclass(frozen=True, slots=True)
class NextSequence:
    """How the sequence that follows a seal is opened: under which spec and at which stored time."""

    spec_version: int
    opened_at_ms: int


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """The permanent proof of one publish (PR-18)."""

    ref: SequenceRef
    topic: str
    start: OffsetMap
    end: OffsetMap
    epochs: OffsetMap
    counts: dict[int, PartitionCounts]
    rows_in: int
    rows_stored: int
    segment_ids: tuple[str, ...]
    quarantine_path: str | None
    spec_version: int
    version: int
    published_ms: int
    token: str
    replayed_path: str | None = None
    """Of a replay: the quarantine file whose records it counts. Its range was published before, by another row."""


@dataclass(frozen=True, slots=True)
class AuditRow:
    """What an operator or the system did to the course of things: resets, losses, voids, jumps."""

    at_ms: int
    supervisor: str
    action: str
    detail: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ResetWish:
    """An operator's reset that waits for what was read to be published (PR-24); gone once carried out.

    ``discard``: it does not wait. ``topic_id`` is the topic the moves were meant for. ``backfill``: the spec, but for
    its range, of a new supervisor that reads what is skipped; then no partition moves back.
    """

    wish_id: int
    supervisor: str
    topic: str
    moves: OffsetMap
    topic_id: str | None
    discard: bool
    asked_ms: int
    backfill: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class SegmentRow:
    """A published segment with its visibility: visible at V iff ``added <= V < removed``."""

    segment: DataSegment
    added: int
    removed: int | None
    state: str  # published | unused | deleting
    published_ms: int


@dataclass(frozen=True, slots=True)
class StagedRow:
    """A file that the sweeper owns (PR-20). ``removed_ms``: when it was removed for the first time."""

    row_id: int
    path: str
    token: str
    state: str  # staged | superseded | deleting
    staged_ms: int
    removed_ms: int | None = None


@dataclass(frozen=True, slots=True)
class LookupTiers:
    """All lookups as they were posted, by tier and name; ``change`` grows with every change of them."""

    change: int
    tiers: dict[str, dict[str, dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class LookupChange:
    """What a request does to the lookups: ``put`` by tier and name, ``removed`` as pairs of them.

    ``author`` and ``comment`` are for the audit trail.
    """

    put: dict[str, dict[str, dict[str, Any]]]
    removed: tuple[tuple[str, str], ...] = ()
    author: str = ""
    comment: str = ""


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A server process: overlord, query node, api or middle manager, live while its lease is fresh."""

    node: str
    roles: tuple[str, ...]
    address: str
    renewed_ms: int
    acknowledged: dict[str, int]
    detail: dict[str, Any]


@dataclass(frozen=True, slots=True)
class QuarantineRow:
    """A published quarantine file: the raw bytes of a sequence's rejected records.

    ``state``: ``published`` while its records wait, ``replayed`` once a replay (``replayed_by``, its name) has taken
    all of them, ``expired`` once the file was given up for its age or size.
    """

    datasource: str
    ref: SequenceRef
    path: str
    rows: int
    size_bytes: int
    load_spec: dict[str, Any]
    published_ms: int
    state: str = "published"
    replayed_by: str | None = None


@dataclass(frozen=True, slots=True)
class QuarantineTotals:
    """All quarantine files of a table in one state."""

    files: int
    rows: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ReplayRecord:
    """One try to ingest a quarantine file's records: under a group epoch of its own, by one generation.

    ``state``: ``begun``, ``published`` (it took the whole file) or ``ended`` (it took nothing and never will).
    ``opened_at_ms`` is the stored time of the sequence that read the records first: their windows do not move.
    """

    ref: SequenceRef
    token: str
    datasource: str
    topic: str
    path: str
    generation: int
    spec_version: int
    opened_at_ms: int
    state: str
    begun_ms: int


@dataclass(frozen=True, slots=True)
class TableState:
    """One table in one database snapshot (PR-2); the source of ``query.source.TableSnapshot``."""

    datasource: str
    version: int
    segments: tuple[SegmentRow, ...]  # all visible ones, or those that changed since the asked version
    removed: tuple[str, ...]
    streams: tuple[StreamOffsets, ...]
    groups: tuple[GroupState, ...]
    specs: dict[str, dict[int, dict[str, Any]]]
    """Per supervisor: spec versions that unpublished sequences were opened under, and the newest."""
