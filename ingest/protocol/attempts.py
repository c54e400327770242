"""Task attempts: what a task process is started with and how the store knows it (pure data)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from ingest.offsets import OffsetMap
from ingest.protocol.places import Place
from ingest.protocol.sequences import PROTOCOL_VERSION, SequenceRecord


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
    spec version to the supervisor spec (JSON object) each of them was opened under. ``places`` say
    what the group's partitions stand for where ``topic`` is a pattern's. ``database`` names the metadata
    database that knows the attempt; empty from an overlord of a time before they had names.
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
    places: tuple[Place, ...] = ()
    database: str = ""


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

    @property
    def is_placed(self) -> bool:
        """Whether a worker may run it: it has a slot and may have read something."""
        return self.state.is_live and self.state is not AttemptState.PENDING
