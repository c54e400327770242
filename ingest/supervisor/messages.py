"""What happens to a supervisor and what its machine decides: events in, commands out (pure data).

``now_ms`` is monotonic milliseconds of the overlord's clock. Commands that change the metadata store
are executed in order, each exactly as it stands, repeated by the runner while the store is out of
reach; their completion comes back as an event. ``LeadershipLost`` ends the runner, ``StoreConflict``
comes back as ``StoreRefused``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ingest.metadata.records import DesiredState, StreamOffsets
from ingest.offsets import OffsetMap
from ingest.protocol import (
    AttemptRecord,
    CheckpointAsk,
    PauseReport,
    Place,
    PublishOutcome,
    SequenceRecord,
    SequenceRef,
    TaskCommand,
    TaskHeartbeat,
)
from ingest.supervisor.commands import (
    AddPartitions,
    ClaimSlot,
    Command,
    CreateAttempt,
    FreeSlot,
    InitOffsets,
    KillAttempt,
    MoveAttempt,
    OpenGroup,
    RaiseEpochs,
    Reload,
    ResetOffsets,
    Rested,
    ScaleTasks,
    SealSequence,
    SendTask,
    SetCommitter,
    VoidSequences,
)
from ingest.supervisor.config import SupervisorConfig, SupervisorState

__all__ = [
    "AddPartitions",
    "AttemptAssigned",
    "AttemptCreated",
    "AttemptMoved",
    "CheckpointAsked",
    "ClaimSlot",
    "Command",
    "CommitterSet",
    "CreateAttempt",
    "DesiredChanged",
    "Event",
    "FreeSlot",
    "GroupOpened",
    "HandOffAsked",
    "InitOffsets",
    "KillAttempt",
    "MoveAttempt",
    "OffsetsStored",
    "OpenGroup",
    "PublishSeen",
    "RaiseEpochs",
    "Reload",
    "ReplicaLeaving",
    "ResetAsked",
    "ResetOffsets",
    "Rested",
    "ScaleTasks",
    "SealSequence",
    "SendTask",
    "SequenceSealed",
    "SequencesVoided",
    "SetCommitter",
    "StateLoaded",
    "StoreRefused",
    "StreamFailed",
    "StreamSeen",
    "TaskAnswered",
    "TaskBeat",
    "TaskEnded",
    "TaskRegistered",
    "TaskSilent",
    "TasksScaled",
    "Tick",
    "VoidSequences",
]

# ---------------------------------------------------------------- events


@dataclass(frozen=True, slots=True)
class Tick:
    """At least twice a second. ``wall_ms`` is the wall clock, stored with sequences, never a deadline."""

    now_ms: int
    wall_ms: int


@dataclass(frozen=True, slots=True)
class StateLoaded:
    """The first event of every machine, and the answer to ``Reload``."""

    now_ms: int
    wall_ms: int
    state: SupervisorState


@dataclass(frozen=True, slots=True)
class StreamSeen:
    """The topic was listed. ``starts``: where a partition without stored offsets begins (resolved
    once, to numbers); ``log_starts``/``log_ends``: what the stream holds; ``topic`` None: the present;
    ``places``: what its numbers stand for, of several topics; ``committed``: the offsets stored before the look
    began, at ``now_ms``: the only ones it can contradict."""

    now_ms: int
    topic_id: str | None
    starts: OffsetMap
    log_starts: OffsetMap = OffsetMap()
    log_ends: OffsetMap = OffsetMap()
    topic: str | None = None
    places: Mapping[int, Place] = field(default_factory=dict)
    committed: OffsetMap = OffsetMap()


@dataclass(frozen=True, slots=True)
class StreamFailed:
    now_ms: int
    error: str


@dataclass(frozen=True, slots=True)
class OffsetsStored:
    """Completes ``InitOffsets``, ``AddPartitions``, ``ResetOffsets`` and ``RaiseEpochs``."""

    now_ms: int
    offsets: StreamOffsets


@dataclass(frozen=True, slots=True)
class TasksScaled:
    """Completes ``ScaleTasks``."""

    now_ms: int
    task_count: int


@dataclass(frozen=True, slots=True)
class GroupOpened:
    """Completes ``OpenGroup``: sequence 0 of a new group epoch."""

    now_ms: int
    record: SequenceRecord


@dataclass(frozen=True, slots=True)
class SequenceSealed:
    """Completes ``SealSequence``: the sealed record and, unless released, its successor."""

    now_ms: int
    records: tuple[SequenceRecord, ...]


@dataclass(frozen=True, slots=True)
class SequencesVoided:
    """Completes ``VoidSequences``: every sequence it voided, also in other groups."""

    now_ms: int
    group: int
    records: tuple[SequenceRecord, ...]


@dataclass(frozen=True, slots=True)
class AttemptCreated:
    """Completes ``CreateAttempt``."""

    now_ms: int
    attempt: AttemptRecord


@dataclass(frozen=True, slots=True)
class AttemptAssigned:
    """The task queue gave the attempt to a worker (stored)."""

    now_ms: int
    token: str
    worker: str


@dataclass(frozen=True, slots=True)
class TaskRegistered:
    """The process said hello (stored): it is running at ``attempt.address``."""

    now_ms: int
    attempt: AttemptRecord


@dataclass(frozen=True, slots=True)
class TaskBeat:
    """A heartbeat whose positions are stored."""

    now_ms: int
    beat: TaskHeartbeat


@dataclass(frozen=True, slots=True)
class CheckpointAsked:
    """A task wants its open sequence ended. Asks for sealed sequences are answered from the store
    by the shell; one that comes here late is answered by telling again."""

    now_ms: int
    ask: CheckpointAsk


@dataclass(frozen=True, slots=True)
class TaskAnswered:
    """A task took ``command``; ``report`` answers a pause."""

    now_ms: int
    token: str
    command: TaskCommand
    report: PauseReport | None = None


@dataclass(frozen=True, slots=True)
class TaskSilent:
    """``command`` could not be delivered, or was refused."""

    now_ms: int
    token: str
    command: TaskCommand


@dataclass(frozen=True, slots=True)
class TaskEnded:
    """A worker proved that the process ended; ``succeeded`` None: killed, no result file."""

    now_ms: int
    token: str
    succeeded: bool | None
    error: str | None


@dataclass(frozen=True, slots=True)
class ReplicaLeaving:
    """An attempt shall hand off early and end (its worker is drained); a successor starts at once."""

    now_ms: int
    token: str
    reason: str


@dataclass(frozen=True, slots=True)
class AttemptMoved:
    """Completes ``MoveAttempt``."""

    now_ms: int
    attempt: AttemptRecord


@dataclass(frozen=True, slots=True)
class CommitterSet:
    """Completes ``SetCommitter``."""

    now_ms: int
    token: str


@dataclass(frozen=True, slots=True)
class PublishSeen:
    """A publish transaction of this supervisor was answered with ``outcome``; the request counted
    ``parse_exceptions`` bad messages."""

    now_ms: int
    token: str
    ref: SequenceRef
    outcome: PublishOutcome
    parse_exceptions: int = 0


@dataclass(frozen=True, slots=True)
class DesiredChanged:
    """An operator posted a spec, suspended, resumed or terminated (stored). ``other``: the spec says something
    else than the one before; a resumption is a new version of the same."""

    now_ms: int
    desired: DesiredState
    config: SupervisorConfig
    other: bool = True


@dataclass(frozen=True, slots=True)
class ResetAsked:
    """Move offsets (PR-24). ``discard``: do not publish first what was read. ``wish``: as stored, if it is."""

    now_ms: int
    moves: OffsetMap
    discard: bool
    reason: str = "reset"
    topic_id: str | None = None
    wish: int | None = None


@dataclass(frozen=True, slots=True)
class HandOffAsked:
    """An operator wants the open sequences of these groups ended and published; not stored, done if it can be."""

    now_ms: int
    groups: frozenset[int]


@dataclass(frozen=True, slots=True)
class StoreRefused:
    """A store command met StoreConflict: this view is outdated."""

    now_ms: int
    detail: str


Event = (
    Tick
    | StateLoaded
    | StreamSeen
    | StreamFailed
    | OffsetsStored
    | TasksScaled
    | GroupOpened
    | SequenceSealed
    | SequencesVoided
    | AttemptCreated
    | AttemptAssigned
    | TaskRegistered
    | TaskBeat
    | CheckpointAsked
    | TaskAnswered
    | TaskSilent
    | TaskEnded
    | ReplicaLeaving
    | AttemptMoved
    | CommitterSet
    | PublishSeen
    | DesiredChanged
    | ResetAsked
    | HandOffAsked
    | StoreRefused
)
