"""What an overlord and a middle manager tell each other (pure data)."""

from __future__ import annotations

from dataclasses import dataclass

from ingest.protocol.attempts import TaskSpec
from ingest.protocol.sequences import PROTOCOL_VERSION


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
class KeptRows:
    """Rows that an ended attempt has left on a middle manager's disk; ``sequence`` is the newest they belong to
    (-1: there are none)."""

    token: str
    supervisor: str
    group: int
    sequence: int


@dataclass(frozen=True, slots=True)
class WorkerHeartbeat:
    """A middle manager's state, sent at least once a second; the reply may be long-polled. ``generation`` is the
    highest whose orders it has taken, ``kept`` what it asks about now and then: whether it may go. ``database`` is
    the one that its attempts belong to; empty while it holds none."""

    worker: str
    address: str
    capacity: int
    enabled: bool
    running: tuple[RunningTask, ...]
    ended: tuple[EndedTask, ...]
    protocol: int = PROTOCOL_VERSION
    wait_ms: int = 0
    generation: int = 0
    kept: tuple[KeptRows, ...] = ()
    database: str = ""


@dataclass(frozen=True, slots=True)
class WorkerOrders:
    """What the middle manager shall do. Every order is idempotent by token."""

    generation: int
    start: tuple[TaskSpec, ...]
    kill: tuple[str, ...]  # tokens whose process must end now
    acknowledged: tuple[str, ...]  # ended tokens that need not be repeated
    unneeded: tuple[str, ...] = ()  # of those kept: nothing of them is unpublished
    database: str = ""  # whose orders they are
