"""What a task asks of others: every question it may put to the overlord."""

from __future__ import annotations

from typing import Protocol

from ingest.offsets import OffsetMap
from ingest.protocol import (
    AllocateRequest,
    CheckpointAnswer,
    CheckpointAsk,
    HeartbeatReply,
    PendingSegment,
    PublishReply,
    PublishRequest,
    SequenceRecord,
    SequenceRef,
    StageRequest,
    TaskHeartbeat,
    TaskHello,
    TaskWelcome,
)


class OverlordActions(Protocol):
    """The overlord as a task sees it; safe from any thread.

    Every method may raise ``OverlordUnreachable`` (retry; the effect is unknown, and every request
    is idempotent) or ``AttemptRefused`` (stop by yourself, PR-26). An implementation over HTTP
    tries every configured overlord and follows the leader.
    """

    def register(self, hello: TaskHello) -> TaskWelcome:
        """Announces the task's address; the reply may hold checkpoints its TaskSpec did not."""
        ...

    def heartbeat(self, beat: TaskHeartbeat) -> HeartbeatReply:
        """Proves life and makes the positions durable."""
        ...

    def ask_checkpoint(self, ask: CheckpointAsk) -> CheckpointAnswer:
        """Asks to end the open sequence; answers at once, the end is told or already in the reply."""
        ...

    def sequences(self, token: str, from_number: int) -> CheckpointAnswer:
        """The group's saved sequences from ``from_number`` on (published ones included)."""
        ...

    def raise_end(self, token: str, ref: SequenceRef, end: OffsetMap) -> SequenceRecord | None:
        """Raises a saved end to ``end`` (PR-9); None when refused because the next sequence was read."""
        ...

    def allocate(self, request: AllocateRequest) -> PendingSegment:
        """The segment id of a (sequence, time chunk)."""
        ...

    def stage(self, request: StageRequest) -> None:
        """Durable rows for files about to be uploaded, or their renewal."""
        ...

    def publish(self, request: PublishRequest) -> PublishReply:
        """The publish transaction. A lost reply is the value UNKNOWN, not an exception."""
        ...
