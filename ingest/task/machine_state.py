"""What a task machine knows, and the questions that follow from it without deciding anything."""

from __future__ import annotations

from dataclasses import dataclass

from ingest.offsets import OffsetMap
from ingest.protocol import SequenceRecord
from ingest.task.messages import Command, Finish, ReadWindow, TaskLimits, TaskStatus, Totals
from ingest.task.sequence import Sequence, SequencePhase, reader_positions


@dataclass(slots=True)
class Pause:
    """Why the task is paused: a round of the supervisor, or (round -1) its own ask.

    ``lapsed`` is set when the lease is over and the saved sequences were asked for; reading goes on
    with the answer, or at ``until_ms`` without one.
    """

    generation: int
    round: int
    until_ms: int
    lapsed: bool = False


@dataclass(slots=True)
class Ask:
    """The wish to end the open sequence, repeated until an end is told."""

    number: int
    reason: str
    tries: int = 0
    next_ms: int = 0


@dataclass(frozen=True, slots=True)
class TaskView:
    """An immutable picture for heartbeats, status pages and live answers; safe from any thread."""

    status: TaskStatus
    sequence: int
    positions: OffsetMap
    paused_since_ms: int | None
    pending_publishes: int
    committer: bool
    dropped_through: int
    sequences: tuple[tuple[SequenceRecord, OffsetMap, SequencePhase, int], ...]
    detail: str
    behind: bool
    read: OffsetMap
    parse_exceptions: dict[int, int]


class TaskState:
    """One replica's state; changed only by the machine that inherits it, on one thread.

    ``started`` is False until saved sequences are known; ``rewinding`` holds sequences whose
    ``DropPast`` is not answered yet, during which nothing is read.
    """

    def __init__(self, token: str, limits: TaskLimits) -> None:
        self.token = token
        self.limits = limits
        self.now_ms = 0
        self.generation = 0
        self.round = -1
        self.sequences: dict[int, Sequence] = {}
        self.pending_start: dict[int, OffsetMap] | None = None
        self.pending_totals: dict[int, Totals] = {}
        self.restored_numbers: frozenset[int] = frozenset()
        self.started = False
        self.committer = False
        self.stopping = False
        self.finished = False
        self.released = False
        self.last_number = -1
        self.last_positions = OffsetMap()
        self.dropped_number = -1
        self.dropped_through = 0
        self.served_version = 0
        self.pause: Pause | None = None
        self.paused_since_ms: int | None = None
        self.ask: Ask | None = None
        self.ask_not_before_ms = 0
        self.unheard = 0
        self.learn_ms = 0
        self.has_gap = False
        self.rewinding: set[int] = set()
        self.held_bytes = 0
        self.disk_scarce = False
        self.detail = ""

    # ------------------------------------------------------------ questions

    def in_order(self) -> list[Sequence]:
        return [self.sequences[number] for number in sorted(self.sequences)]

    @property
    def open_sequence(self) -> Sequence | None:
        """The one without an end; None once the group's partitions are released, or before the start."""
        last = self.sequences.get(self.last_number)
        return last if last is not None and last.is_open else None

    @property
    def has_to_read(self) -> bool:
        return any(
            sequence.phase is SequencePhase.READING and not (self.stopping and sequence.is_open)
            for sequence in self.sequences.values()
        )

    @property
    def is_behind(self) -> bool:
        """Whether a sequence with a saved end is not read to it yet (also: no longer)."""
        unread = (s for s in self.sequences.values() if s.record.end is not None and not s.is_complete)
        return not self.started or bool(self.rewinding) or any(unread)

    @property
    def under_pressure(self) -> bool:
        """Bytes at their bound, or the disk at its reserve. What is already promised to others (a told end)
        is read all the same, else nothing could be published and freed (PR-12)."""
        return self.disk_scarce or self.held_bytes >= self.limits.held_bytes_max

    @property
    def is_reading(self) -> bool:
        """Whether the runner may poll and append now."""
        idle = self.finished or not self.started or self.rewinding or self.pause is not None
        return not idle and bool(self.windows())

    def windows(self) -> tuple[ReadWindow, ...]:
        """Where records go now, in order; see ``ReadWindow``."""
        return tuple(
            ReadWindow(sequence.number, sequence.record.end)
            for sequence in self.in_order()
            if sequence.phase is SequencePhase.READING
            and not (sequence.is_open and (self.stopping or self.under_pressure))
        )

    def positions(self) -> OffsetMap:
        """Where the consumer reads on, per partition."""
        return reader_positions(self.in_order())

    def status(self) -> TaskStatus:
        if self.finished:
            return TaskStatus.FINISHED
        if not self.started:
            return TaskStatus.STARTING
        if self.pause is not None or self.rewinding:
            return TaskStatus.PAUSED
        if self.stopping:
            return TaskStatus.STOPPING
        if not self.has_to_read:
            return TaskStatus.PUBLISHING
        return TaskStatus.READING if self.is_reading else TaskStatus.BACK_PRESSURE

    def view(self) -> TaskView:
        """What a heartbeat tells: ``positions`` are those of the last sequence known."""
        last = self.sequences.get(self.last_number)
        return TaskView(
            self.status(),
            self.last_number,
            last.position if last is not None else self.last_positions,
            self.paused_since_ms,
            sum(s.phase in (SequencePhase.COMPLETE, SequencePhase.PUBLISHING) for s in self.sequences.values()),
            self.committer,
            self.dropped_through,
            tuple((s.record, s.position, s.phase, s.version) for s in self.in_order()),
            self.detail,
            self.is_behind,
            self.positions() if self.sequences else self.last_positions,
            {s.number: s.totals.parse_exceptions for s in self.in_order() if s.phase is not SequencePhase.PUBLISHED},
        )

    # ------------------------------------------------------------ small steps

    def finish(self, succeeded: bool, error: str | None = None) -> list[Command]:
        """Says once that the process shall end."""
        if self.finished:
            return []
        self.finished = True
        self.detail = error or ""
        return [Finish(succeeded, error)]

    def forget(self, number: int) -> None:
        """Takes a sequence out of the books; its number is never accepted again."""
        sequence = self.sequences.pop(number, None)
        if sequence is not None and number == self.last_number:
            self.last_positions = sequence.position
        self.rewinding.discard(number)
        self.dropped_number = max(self.dropped_number, number)
