"""What crosses a process boundary between overlord, tasks and the metadata store (pure data).

Every type is a frozen dataclass of plain values; ``ingest.wire`` turns them into JSON. Each
message carries what fences it: an attempt ``token``, a leader ``generation`` or both (PR-23).
Offsets are next-to-read and ranges half-open everywhere. Times are milliseconds UTC.
"""

from ingest.protocol.actions import (
    CheckpointAnswer,
    CheckpointAsk,
    HeartbeatReply,
    TaskHeartbeat,
    TaskHello,
    TaskWelcome,
)
from ingest.protocol.attempts import AttemptRecord, AttemptState, TaskSpec
from ingest.protocol.commands import (
    CommitterCommand,
    PauseCommand,
    PauseReport,
    ResumeCommand,
    SealCommand,
    StopCommand,
    TaskCommand,
)
from ingest.protocol.places import Place, Source, join_ids, pattern_of, split_ids, stream_of_pattern
from ingest.protocol.publishing import (
    AllocateRequest,
    PartitionCounts,
    PendingSegment,
    PublishOutcome,
    PublishReply,
    PublishRequest,
    StagedFile,
    StageRequest,
)
from ingest.protocol.sequences import PROTOCOL_VERSION, SequenceRecord, SequenceRef, SequenceState
from ingest.protocol.workers import EndedTask, KeptRows, RunningTask, WorkerHeartbeat, WorkerOrders

__all__ = [
    "AllocateRequest",
    "AttemptRecord",
    "AttemptState",
    "CheckpointAnswer",
    "CheckpointAsk",
    "CommitterCommand",
    "EndedTask",
    "HeartbeatReply",
    "KeptRows",
    "PROTOCOL_VERSION",
    "PartitionCounts",
    "PauseCommand",
    "PauseReport",
    "PendingSegment",
    "Place",
    "PublishOutcome",
    "PublishReply",
    "PublishRequest",
    "ResumeCommand",
    "RunningTask",
    "SealCommand",
    "SequenceRecord",
    "SequenceRef",
    "SequenceState",
    "Source",
    "StageRequest",
    "StagedFile",
    "StopCommand",
    "TaskCommand",
    "TaskHeartbeat",
    "TaskHello",
    "TaskSpec",
    "TaskWelcome",
    "WorkerHeartbeat",
    "WorkerOrders",
    "join_ids",
    "pattern_of",
    "split_ids",
    "stream_of_pattern",
]
