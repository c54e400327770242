"""What crosses a process boundary between overlord, tasks and the metadata store (pure data).

Every type is a frozen dataclass of plain values; ``ingest.wire`` turns them into JSON. Each
message carries what fences it: an attempt ``token``, a leader ``generation`` or both (PR-23).
Offsets are next-to-read and ranges half-open everywhere. Times are milliseconds UTC.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from ingest.offsets import OffsetMap

PROTOCOL_VERSION: Final = 1
"""Announced by every process; a task of an older number is adopted and replaced at its next sequence end."""


# ---------------------------------------------------------------- names


@dataclass(frozen=True, slots=True, order=True)
class SequenceRef:
    """Names one sequence: supervisor, group epoch and sequence number.

    ``group`` and ``number`` come from stored counters that survive deletion (PR-19); ``number``
    grows within the group.
    """

    supervisor: str
    group: int
    number: int

    @property
    def name(self) -> str:
        return f"{self.supervisor}_{self.group}_{self.number}"


class SequenceState(Enum):
    """Life of a sequence in the metadata store."""

    OPEN = "open"  # its end is not agreed yet
    SEALED = "sealed"  # end saved, rows not yet published
    PUBLISHED = "published"  # its ledger row exists
    CLOSED_EMPTY = "closed_empty"  # sealed with end == start: nothing to publish (PR-10)
    VOID = "void"  # given up in favour of new sequences over the same range (PR-13)


@dataclass(frozen=True, slots=True)
class SequenceRecord:
    """One sequence as the store holds it; also what replacements are given.

    ``start`` fixes the partition set (PR-11). ``epochs`` are the reset epochs of those partitions
    when it was opened. ``opened_at_ms`` is the stored time from which rejection windows are
    computed (PR-15). ``assigned`` says whether any attempt was ever told to read it (PR-7);
    ``released`` that no sequence follows it in its group.
    """

    ref: SequenceRef
    start: OffsetMap
    epochs: OffsetMap
    spec_version: int
    opened_at_ms: int
    state: SequenceState = SequenceState.OPEN
    end: OffsetMap | None = None
    assigned: bool = False
    released: bool = False

    @property
    def is_empty(self) -> bool:
        return self.end == self.start


# ---------------------------------------------------------------- attempts


class AttemptState(Enum):
    """Life of one attempt (one process start) of a task."""

    PENDING = "pending"  # wanted, not yet taken by a worker
    ASSIGNED = "assigned"  # a worker was chosen
    RUNNING = "running"  # the process has registered its address
    STOPPING = "stopping"  # told to end; serves until published or voided
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    FENCED = "fenced"  # its token is refused for ever

    @property
    def is_live(self) -> bool:
        return self in (AttemptState.PENDING, AttemptState.ASSIGNED, AttemptState.RUNNING, AttemptState.STOPPING)


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """Everything a task process is started with; written to its directory as JSON.

    ``sequences`` are the group's unpublished sequences in order, the open one last. ``specs`` maps
    spec version to the supervisor spec (JSON object) each of them was opened under.
    """

    task_id: str
    attempt: int
    token: str
    supervisor: str
    datasource: str
    group: int
    generation: int
    topic: str
    topic_id: str | None
    sequences: tuple[SequenceRecord, ...]
    specs: dict[int, dict[str, Any]]
    committer: bool
    protocol: int = PROTOCOL_VERSION


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """One attempt as the store holds it. ``address`` is ``host:port`` once registered."""

    task_id: str
    attempt: int
    token: str
    supervisor: str
    datasource: str
    group: int
    state: AttemptState
    committer: bool
    created_ms: int
    worker: str | None = None
    address: str | None = None
    protocol: int = PROTOCOL_VERSION
    positions: OffsetMap = OffsetMap()
    positions_sequence: int = 0
    heartbeat_ms: int = 0
    ended_ms: int | None = None
    error: str | None = None


# ---------------------------------------------------------------- task -> overlord


@dataclass(frozen=True, slots=True)
class TaskHello:
    """A task's first words: where it can be reached. ``token`` proves the attempt."""

    token: str
    address: str
    pid: int
    protocol: int = PROTOCOL_VERSION


@dataclass(frozen=True, slots=True)
class TaskWelcome:
    """The store's view of the group when the attempt registered (fresher than its TaskSpec)."""

    generation: int
    sequences: tuple[SequenceRecord, ...]
    specs: dict[int, dict[str, Any]]
    committer: bool


@dataclass(frozen=True, slots=True)
class TaskHeartbeat:
    """At most a second apart (PR-7): what the task has read, holds and is doing.

    ``positions`` belong to the open sequence ``sequence``. ``status`` is a word for people
    (reading, paused, back_pressure, publishing, stopping). ``counters`` are totals since the
    attempt started (processed, processedWithError, thrownAway, unparseable, ...).
    """

    token: str
    sequence: int
    positions: OffsetMap
    status: str
    paused_since_ms: int | None
    unpublished_rows: int
    unpublished_bytes: int
    pending_publishes: int
    counters: dict[str, int]
    lag: OffsetMap | None = None
    detail: str | None = None
    parse_errors: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class HeartbeatReply:
    """``served_version`` is the lowest table version every live query node has acknowledged (PR-6);
    the task may drop published sequences whose publish version is not above it."""

    generation: int
    served_version: int
    committer: bool


@dataclass(frozen=True, slots=True)
class CheckpointAsk:
    """A task's wish to end its open sequence; it has cut its buffers at ``positions`` and is paused.

    ``reason``: rows, total_rows, bytes, period, disk.
    """

    token: str
    ref: SequenceRef
    positions: OffsetMap
    reason: str


@dataclass(frozen=True, slots=True)
class CheckpointAnswer:
    """``sequences`` is empty while the round goes on (the end will be told); otherwise the saved
    records from ``ref`` on, also long after the publish, from the ledger."""

    generation: int
    sequences: tuple[SequenceRecord, ...]


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


# ---------------------------------------------------------------- overlord -> task


@dataclass(frozen=True, slots=True)
class PauseCommand:
    """Stop reading, cut buffers, report positions; a lease of ``lease_ms`` (PR-9)."""

    generation: int
    round: int
    lease_ms: int


@dataclass(frozen=True, slots=True)
class PauseReport:
    """The task's positions in its open sequence ``sequence`` when it paused for ``round``."""

    round: int
    sequence: int
    positions: OffsetMap


@dataclass(frozen=True, slots=True)
class SealCommand:
    """Tells saved ends: ``sequences`` are the group's records from the first the task may not know
    sealed; the last may be a newly opened one. Idempotent. Ends the pause of ``round``."""

    generation: int
    round: int
    sequences: tuple[SequenceRecord, ...]
    specs: dict[int, dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ResumeCommand:
    """The round is void: read on in the open sequence."""

    generation: int
    round: int


@dataclass(frozen=True, slots=True)
class CommitterCommand:
    """Makes the task the one that uploads (or no longer)."""

    generation: int
    committer: bool


@dataclass(frozen=True, slots=True)
class StopCommand:
    """``graceful``: finish publishing sealed sequences and their hand-off, then end with success.
    Otherwise end at once; the token is already refused."""

    generation: int
    graceful: bool
    reason: str


TaskCommand = PauseCommand | SealCommand | ResumeCommand | CommitterCommand | StopCommand


# ---------------------------------------------------------------- overlord <-> middle manager


@dataclass(frozen=True, slots=True)
class RunningTask:
    """A task process a middle manager holds: started or adopted by it."""

    task_id: str
    attempt: int
    token: str
    pid: int
    adopted: bool


@dataclass(frozen=True, slots=True)
class EndedTask:
    """A task process that ended; repeated in every beat until acknowledged.

    ``succeeded`` is None when no result file was found (it was killed).
    """

    task_id: str
    attempt: int
    token: str
    succeeded: bool | None
    error: str | None


@dataclass(frozen=True, slots=True)
class WorkerHeartbeat:
    """A middle manager's state, sent at least once a second; the reply may be long-polled."""

    worker: str
    address: str
    capacity: int
    enabled: bool
    running: tuple[RunningTask, ...]
    ended: tuple[EndedTask, ...]
    protocol: int = PROTOCOL_VERSION
    wait_ms: int = 0


@dataclass(frozen=True, slots=True)
class WorkerOrders:
    """What the middle manager shall do. Every order is idempotent by token."""

    generation: int
    start: tuple[TaskSpec, ...]
    kill: tuple[str, ...]  # tokens whose process must end now
    acknowledged: tuple[str, ...]  # ended tokens that need not be repeated
