"""What a supervisor machine is built from: its settings and what the store holds of it (pure data)."""

from __future__ import annotations

from dataclasses import dataclass

from ingest.metadata.records import AuditRow, DesiredState, GroupState, ResetWish, StreamOffsets
from ingest.offsets import OffsetMap
from ingest.protocol import AttemptRecord
from ingest.spec.model import AutoScaling


@dataclass(frozen=True, slots=True)
class SupervisorConfig:
    """What the machine needs of one spec version, and the deadlines of its waits.

    ``silence_ms`` without a heartbeat makes a replica silent; ``beside_ms`` later a second attempt
    starts beside the last one that holds rows, ``burnt_ms`` later it is fenced at any rate (PR-25).
    ``patience_ms`` is how long a sealed sequence may stay unpublished before another replica
    becomes the committer.
    """

    supervisor: str
    datasource: str
    topic: str
    spec_version: int
    task_count: int = 1
    replicas: int = 1
    pause_ms: int = 3_000  # deadline of the pausing step
    lease_ms: int = 8_000  # what a paused task is told; longer than pause_ms
    retell_ms: int = 1_000  # between two tries to tell ends
    tell_ms: int = 5_000  # deadline of the telling step
    round_again_ms: int = 1_000  # after a round that nobody answered
    silence_ms: int = 6_000
    beside_ms: int = 4_000
    burnt_ms: int = 60_000
    start_ms: int = 60_000  # from assignment to registration
    restart_ms: int = 500  # before a failed attempt is replaced; doubles up to restart_max_ms
    restart_max_ms: int = 60_000
    restart_killed_max_ms: int = 5_000  # the same after its process was ended from outside: the spec is not to blame
    patience_ms: int = 120_000
    reread_ms: int = 60_000  # for a replacement to read again what only dead attempts had read
    settle_ms: int = 5_000  # of that, for what a dead one may have read beyond its last report
    reset_ms: int = 60_000  # for publishing what was read before a reset
    failed_restarts: int = 3  # after so many a posted spec gives up what could not be finished (PR-14)
    reset_automatically: bool = False  # offsets the stream no longer holds are moved without being asked
    unhealthiness_threshold: int = 3
    healthiness_threshold: int = 3
    max_parse_exceptions: int | None = None  # bad messages beyond which reading stops (PR-16)
    idle_after_ms: int | None = None  # a stream that was quiet for so long has no tasks; None: never
    bounds: OffsetMap | None = None  # everything is read once these are reached; None: a stream has no end
    scaling: AutoScaling | None = None  # the number of tasks follows the lag, beginning at task_count


@dataclass(frozen=True, slots=True)
class SupervisorState:
    """What a new leader finds in the store; enough to go on with every round in progress.

    ``ended`` are attempts that ended lately: their numbers are not used again, and their workers
    are preferred for what follows them. ``resets`` are wishes not carried out yet, ``scaled`` the last
    decision on the number of tasks; ``parse_exceptions`` are the bad messages published under the
    present version of the spec, ``alike_since`` is the version since which it has said the same (None: the present).
    """

    desired: DesiredState
    offsets: StreamOffsets | None
    groups: tuple[GroupState, ...]
    ended: tuple[AttemptRecord, ...] = ()
    resets: tuple[ResetWish, ...] = ()
    scaled: AuditRow | None = None
    parse_exceptions: int = 0
    alike_since: int | None = None
