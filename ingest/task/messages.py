"""What happens to a task and what its machine decides: events in, commands out (pure data).

Every event carries ``now_ms``, monotonic milliseconds of the task's clock. The runner executes
commands in the order given and hands each completion back as an event. Messages that cross a
process live in ``ingest.protocol``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ingest.offsets import OffsetMap
from ingest.protocol import (
    CheckpointAnswer,
    CheckpointAsk,
    HeartbeatReply,
    PauseReport,
    PublishReply,
    SequenceRecord,
    SequenceRef,
    TaskCommand,
    TaskWelcome,
)


class TaskStatus(Enum):
    """What a task is doing, in the words of ``TaskHeartbeat.status``."""

    STARTING = "starting"
    READING = "reading"
    PAUSED = "paused"  # cut, waiting for an end or for its lease to run out
    BACK_PRESSURE = "back_pressure"  # its bytes reached their bound
    PUBLISHING = "publishing"  # nothing left to read, sequences on their way out
    STOPPING = "stopping"  # reads no further open sequence
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class TaskLimits:
    """When a sequence ends, when reading waits, and how long the task waits for others.

    ``segment_rows_max`` bounds one time chunk of the open sequence, ``sequence_rows_max`` and
    ``sequence_bytes_max`` all of it, ``period_ms`` its age (the smaller of taskDuration and
    intermediateHandoffPeriod; 0: no limit). ``held_bytes_max`` bounds everything the task holds in
    memory and on disk; ``unacknowledged_share`` is the percentage of it that published sequences
    may take before the oldest is dropped unasked (PR-6).
    """

    segment_rows_max: int = 5_000_000
    sequence_rows_max: int = 20_000_000
    sequence_bytes_max: int = 8 << 30
    period_ms: int = 3_600_000
    held_bytes_max: int = 20 << 30
    unacknowledged_share: int = 50
    pause_lease_ms: int = 15_000  # of a pause the task began itself
    ask_again_ms: int = 2_000  # doubles up to ask_again_max_ms
    ask_again_max_ms: int = 15_000
    learn_ms: int = 2_000  # how often a replica asks whether its complete sequences were published
    retry_ms: int = 500  # of a publish; doubles up to retry_max_ms
    retry_max_ms: int = 30_000


@dataclass(frozen=True, slots=True)
class Run:
    """Offsets ``[first, end)`` of a partition were read; holes inside count as read."""

    partition: int
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Totals:
    """What the appenderator holds after an append or a drop: of one sequence, and ``held_bytes`` of all."""

    rows: int = 0
    segment_rows: int = 0  # the largest time chunk of the sequence
    sequence_bytes: int = 0
    held_bytes: int = 0
    parse_exceptions: int = 0  # messages of the sequence that were bad as a whole or in a field


@dataclass(frozen=True, slots=True)
class ReadWindow:
    """A sequence records may be appended to now. ``end`` is None for the open one.

    A batch is split along the windows in order: what lies below ``end`` goes into the first, the
    rest is offered to the next; what is left after the last is thrown away.
    """

    number: int
    end: OffsetMap | None


# ---------------------------------------------------------------- events


@dataclass(frozen=True, slots=True)
class Tick:
    now_ms: int


@dataclass(frozen=True, slots=True)
class Started:
    """The attempt has registered. ``restored`` holds, per sequence found in the manifest, how far its
    hydrants reach; the welcome's sequences are the saved ones, asked for first (PR-9)."""

    now_ms: int
    welcome: TaskWelcome
    restored: Mapping[int, OffsetMap] = field(default_factory=dict)
    totals: Mapping[int, Totals] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Read:
    """``runs`` were appended to ``sequence``, none past its window's end."""

    now_ms: int
    sequence: int
    runs: tuple[Run, ...]
    totals: Totals


@dataclass(frozen=True, slots=True)
class Dropped:
    """Answers ``DropPast``: every hydrant passing the end is gone; reading goes on at ``positions``
    (all partitions of the sequence, none above the end)."""

    now_ms: int
    sequence: int
    positions: OffsetMap
    totals: Totals = Totals()


@dataclass(frozen=True, slots=True)
class RereadImpossible:
    """Answers ``DropPast``: what would have to be read again is below the log start; nothing was dropped."""

    now_ms: int
    sequence: int


@dataclass(frozen=True, slots=True)
class EndRaised:
    """Answers ``RaiseEnd``: the saved record, or None when the store refused."""

    now_ms: int
    ref: SequenceRef
    record: SequenceRecord | None


@dataclass(frozen=True, slots=True)
class BelowLogStart:
    """The next offset to read is no longer in the stream (PR-17)."""

    now_ms: int
    partition: int
    position: int
    log_start: int


@dataclass(frozen=True, slots=True)
class CommandReceived:
    """A command of the overlord arrived; answered by exactly one ``Reply``."""

    now_ms: int
    command: TaskCommand


@dataclass(frozen=True, slots=True)
class CheckpointAnswered:
    """Answers ``AskCheckpoint``; None when no overlord was reached."""

    now_ms: int
    ref: SequenceRef
    answer: CheckpointAnswer | None


@dataclass(frozen=True, slots=True)
class SequencesAnswered:
    """Answers ``AskSequences``; None when no overlord was reached. ``specs`` are for the shell."""

    now_ms: int
    records: tuple[SequenceRecord, ...] | None
    specs: dict[int, dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Beaten:
    """A heartbeat was answered."""

    now_ms: int
    reply: HeartbeatReply


@dataclass(frozen=True, slots=True)
class PublishEnded:
    """Answers ``Publish``: what the transaction said."""

    now_ms: int
    number: int
    reply: PublishReply


@dataclass(frozen=True, slots=True)
class PublishFailed:
    """Answers ``Publish``: merge, allocation, staging or upload failed before the transaction."""

    now_ms: int
    number: int
    error: str


@dataclass(frozen=True, slots=True)
class DiskScarce:
    """The file system under the task has only its reserve left, or has more again (PR-12)."""

    now_ms: int
    scarce: bool


@dataclass(frozen=True, slots=True)
class SpaceFreed:
    """Answers ``Drop`` and ``Discard``: what is held now."""

    now_ms: int
    held_bytes: int


@dataclass(frozen=True, slots=True)
class Refused:
    """The overlord refused the attempt's token: it stops by itself (PR-26)."""

    now_ms: int
    reason: str


Event = (
    Tick
    | Started
    | Read
    | Dropped
    | RereadImpossible
    | EndRaised
    | BelowLogStart
    | CommandReceived
    | CheckpointAnswered
    | SequencesAnswered
    | Beaten
    | PublishEnded
    | PublishFailed
    | SpaceFreed
    | DiskScarce
    | Refused
)


# ---------------------------------------------------------------- commands


@dataclass(frozen=True, slots=True)
class OpenSequence:
    """Prepare to append to this sequence (idempotent; also for one restored)."""

    record: SequenceRecord


@dataclass(frozen=True, slots=True)
class Cut:
    """End the sequence's buffers at the current positions; what follows goes to separate hydrants (PR-9)."""

    sequence: int


@dataclass(frozen=True, slots=True)
class AskCheckpoint:
    """Ask the overlord to end the sequence; answered by ``CheckpointAnswered``."""

    ask: CheckpointAsk


@dataclass(frozen=True, slots=True)
class AskSequences:
    """Ask for saved sequences from this number on; answered by ``SequencesAnswered``."""

    from_number: int


@dataclass(frozen=True, slots=True)
class DropPast:
    """Drop, whole, every hydrant of the sequence that passes ``end`` in any partition; answered by
    ``Dropped`` or ``RereadImpossible``. Queries keep their copies (PR-4)."""

    sequence: int
    end: OffsetMap


@dataclass(frozen=True, slots=True)
class RaiseEnd:
    """Ask that the saved end be raised to ``end`` (PR-9, last sentence); answered by ``EndRaised``."""

    ref: SequenceRef
    end: OffsetMap


@dataclass(frozen=True, slots=True)
class Seek:
    """Forget polled but unappended records and read on at these positions (every partition of the group)."""

    positions: OffsetMap


@dataclass(frozen=True, slots=True)
class Publish:
    """On the publish executor: merge, stage, push, and the transaction.

    ``again`` repeats only the transaction, with the files already pushed; not ``again`` uploads to
    new paths. Answered by ``PublishEnded`` or ``PublishFailed``.
    """

    record: SequenceRecord
    again: bool


@dataclass(frozen=True, slots=True)
class Drop:
    """Free a published sequence; ``dropped_through`` is now at least ``version`` (PR-6)."""

    number: int
    version: int


@dataclass(frozen=True, slots=True)
class Discard:
    """Free a sequence that was voided or closed empty."""

    number: int


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a ``CommandReceived``; ``report`` for a pause, ``refused`` says why nothing was done."""

    command: TaskCommand
    report: PauseReport | None = None
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class Finish:
    """End the process with this result."""

    succeeded: bool
    error: str | None = None


Command = (
    OpenSequence
    | Cut
    | AskCheckpoint
    | AskSequences
    | DropPast
    | RaiseEnd
    | Seek
    | Publish
    | Drop
    | Discard
    | Reply
    | Finish
)
