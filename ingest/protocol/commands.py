"""What an overlord tells a task; every command carries the leader generation (pure data)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ingest.offsets import OffsetMap
from ingest.protocol.sequences import SequenceRecord


@dataclass(frozen=True, slots=True)
class PauseCommand:
    """Stop reading, cut buffers, report positions; a lease of ``lease_ms`` (PR-9)."""

    generation: int
    round: int
    lease_ms: int


@dataclass(frozen=True, slots=True)
class PauseReport:
    """The task's positions and bad messages in its open sequence ``sequence`` when it paused for ``round``."""

    round: int
    sequence: int
    positions: OffsetMap
    parse_exceptions: int = 0


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
