"""What a supervisor machine decides (pure data); ``ingest.supervisor.messages`` says how commands are executed."""

from __future__ import annotations

from dataclasses import dataclass

from ingest.metadata.records import AuditRow, DesiredState, NextSequence
from ingest.offsets import OffsetMap
from ingest.protocol import AttemptState, SequenceRef, TaskCommand


@dataclass(frozen=True, slots=True)
class InitOffsets:
    """``MetadataStore.init_offsets``."""

    topic_id: str | None
    starts: OffsetMap


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """``MetadataStore.add_partitions``."""

    starts: OffsetMap


@dataclass(frozen=True, slots=True)
class ResetOffsets:
    """``MetadataStore.reset_offsets``, or ``carry_out_reset`` of a wish: moves, raises epochs, voids."""

    moves: OffsetMap
    topic_id: str | None
    audit: AuditRow
    wish: int | None = None


@dataclass(frozen=True, slots=True)
class RaiseEpochs:
    """``MetadataStore.reset_offsets`` of every partition to where it is committed: nothing moves, but
    positions answered to queries past it are void. Completed by ``OffsetsStored``."""

    audit: AuditRow


@dataclass(frozen=True, slots=True)
class ScaleTasks:
    """``MetadataStore.append_audit``: the supervisor decided on another number of tasks."""

    task_count: int
    audit: AuditRow


@dataclass(frozen=True, slots=True)
class OpenGroup:
    """``MetadataStore.open_group``."""

    partitions: tuple[int, ...]
    following: NextSequence


@dataclass(frozen=True, slots=True)
class SealSequence:
    """``MetadataStore.seal``; ``following`` None releases the partitions."""

    ref: SequenceRef
    end: OffsetMap
    following: NextSequence | None
    parse_exceptions: int = 0


@dataclass(frozen=True, slots=True)
class VoidSequences:
    """``MetadataStore.void``."""

    group: int
    from_number: int
    audit: AuditRow


@dataclass(frozen=True, slots=True)
class CreateAttempt:
    """``MetadataStore.create_attempt`` with a token the runner draws; then it is queued for a worker.

    ``attempt`` counts the starts of ``task_id``. ``prefer_worker`` may hold the hydrants of an
    earlier attempt; ``avoid_workers`` run other replicas of the group (both are wishes).
    """

    group: int
    task_id: str
    attempt: int
    committer: bool
    prefer_worker: str | None
    avoid_workers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClaimSlot:
    """The waiting attempt shall publish the oldest unpublished range of its partitions: it is placed before
    all others, where nothing is free also in the slot beyond capacity (PR-12). Repeating is harmless."""

    token: str


@dataclass(frozen=True, slots=True)
class FreeSlot:
    """Everything the attempt held is published: it only waits for query nodes, and counts against no worker's
    capacity any more. Repeating is harmless."""

    token: str


@dataclass(frozen=True, slots=True)
class MoveAttempt:
    """``MetadataStore.set_attempt_state``."""

    token: str
    state: AttemptState
    error: str | None


@dataclass(frozen=True, slots=True)
class SetCommitter:
    """``MetadataStore.set_committer``."""

    token: str


@dataclass(frozen=True, slots=True)
class KillAttempt:
    """Order the worker to end the process; its token is already refused. Repeating is harmless."""

    token: str


@dataclass(frozen=True, slots=True)
class SendTask:
    """Send without waiting; answered by ``TaskAnswered`` or ``TaskSilent``. The runner adds to a
    ``SealCommand`` the specs its sequences were opened under."""

    token: str
    command: TaskCommand


@dataclass(frozen=True, slots=True)
class Reload:
    """Read the supervisor's state from the store; answered by ``StateLoaded``."""


@dataclass(frozen=True, slots=True)
class Rested:
    """Suspended or terminated, and nothing is left to publish; said once."""

    desired: DesiredState


Command = (
    InitOffsets
    | AddPartitions
    | ResetOffsets
    | RaiseEpochs
    | ScaleTasks
    | OpenGroup
    | SealSequence
    | VoidSequences
    | CreateAttempt
    | ClaimSlot
    | FreeSlot
    | MoveAttempt
    | SetCommitter
    | KillAttempt
    | SendTask
    | Reload
    | Rested
)
