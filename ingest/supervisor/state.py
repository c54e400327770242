"""What a supervisor machine knows of its groups and replicas (pure data with small questions)."""

from __future__ import annotations

from dataclasses import dataclass, field

from ingest.metadata.records import DesiredState, StreamOffsets
from ingest.offsets import OffsetMap, furthest
from ingest.protocol import AttemptRecord, AttemptState, SealCommand, SequenceRecord, SequenceState
from ingest.supervisor.agreement import CheckpointRound
from ingest.supervisor.assignment import PartitionSet
from ingest.supervisor.config import SupervisorConfig
from ingest.supervisor.health import Health
from ingest.supervisor.scaling import LagScaler

# A loop that stood still (a frozen process, a slow store call) must not find all its deadlines passed
# before it has read what arrived meanwhile: time for deadlines moves at most this far per event (PR-25).
STALL_MS = 1_000

News = tuple[int, OffsetMap, OffsetMap | None]


@dataclass(slots=True)
class Replica:
    """One live attempt. ``heard_ms`` is deadline time; ``told`` the newest saved facts it has taken;
    ``behind`` as it last said, so until it has said anything."""

    attempt: AttemptRecord
    heard_ms: int
    told: News | None = None
    tell_ms: int = 0
    ending: bool = False  # its end is on the way to the store
    leaving: bool = False  # asked to stop gracefully
    left: bool = False  # ... and it knows
    stop_ms: int = 0
    behind: bool = True
    read: OffsetMap | None = None  # where it reads on, as it last said
    claimed: bool = False  # it was told to be placed before all others (PR-12)
    freed: bool = False  # it counts against no capacity any more

    @property
    def token(self) -> str:
        return self.attempt.token

    @property
    def slot(self) -> int:
        return int(self.attempt.task_id.rsplit("_", 1)[1])

    @property
    def runs(self) -> bool:
        """Whether commands can reach it."""
        return not self.ending and self.attempt.state in (AttemptState.RUNNING, AttemptState.STOPPING)

    def read_of(self, record: SequenceRecord, partition: int) -> int:
        """How far it has read this range of its group; before its first word, by what is stored of it."""
        start = record.start[partition]
        if self.read is not None:
            return self.read.get(partition, start)
        number = self.attempt.positions_sequence
        if number > record.ref.number and record.end is not None:
            return record.end[partition]
        return self.attempt.positions.get(partition, start) if number == record.ref.number else start

    def reached(self, other: Replica) -> bool:
        """Whether it has read at least as far as ``other`` last reported. Standing at the start of the
        open sequence is no proof: what is sealed before it may still be unread."""
        if self.behind:
            return False
        mine, theirs = self.attempt, other.attempt
        if mine.positions_sequence != theirs.positions_sequence:
            return mine.positions_sequence > theirs.positions_sequence
        return mine.positions.reached(theirs.positions)


@dataclass(slots=True)
class Group:
    """A task group: one epoch, one fixed set of partitions, its unpublished sequences, its replicas."""

    epoch: int
    partitions: PartitionSet
    sequences: dict[int, SequenceRecord]
    replicas: dict[str, Replica] = field(default_factory=dict)
    round: CheckpointRound | None = None
    round_not_before_ms: int = 0
    news: News | None = None
    news_round: int = 0
    last_records: tuple[SequenceRecord, ...] = ()
    committer: str | None = None
    setting_committer: bool = False
    waiting_since_ms: int = 0
    oldest_seen: int = -1
    creating: int = 0
    failures: int = 0  # attempts in a row that ended badly, whatever ended them
    faults: int = 0  # of those, the ones that told a failure of their own
    restart_ms: int = 0
    attempt_numbers: dict[str, int] = field(default_factory=dict)
    last_workers: dict[str, str] = field(default_factory=dict)
    voiding: bool = False
    release_reason: str = ""
    reported: OffsetMap = OffsetMap()  # the furthest that any attempt has said of the open sequence (PR-7)
    parse_exceptions: dict[int, int] = field(default_factory=dict)  # by sequence, the most that anybody has said
    reader_wait_ms: int | None = None  # until when a release waits for somebody who has read as far again
    reached_ms: int | None = None  # since when a living reader has read as far as was reported
    unheard_since_ms: int | None = None  # when an attempt was lost that may have read more than it reported
    unheard_ends: OffsetMap | None = None  # where the log ended after that
    excused: set[str] = field(default_factory=set)  # silent ones that a suspension has waited for

    @property
    def open(self) -> SequenceRecord | None:
        return next((r for r in self.sequences.values() if r.state is SequenceState.OPEN), None)

    @property
    def is_done(self) -> bool:
        """Nothing unpublished is left."""
        return not self.sequences

    def in_order(self) -> tuple[SequenceRecord, ...]:
        return tuple(self.sequences[number] for number in sorted(self.sequences))

    def running(self) -> list[Replica]:
        return sorted((r for r in self.replicas.values() if r.runs), key=lambda r: (r.slot, r.token))

    def take_records(self, records: tuple[SequenceRecord, ...], round_number: int) -> None:
        """Saved facts: unpublished ones are kept, the last one is what replicas must be told of."""
        before = self.open
        for record in records:
            if record.state in (SequenceState.OPEN, SequenceState.SEALED):
                self.sequences[record.ref.number] = record
            else:
                self.sequences.pop(record.ref.number, None)
        if records:
            last = max(records, key=lambda record: record.ref.number)
            self.news = (last.ref.number, last.start, last.end)
            self.news_round = round_number
            self.last_records = records
        if self.open is None or before is None or self.open.ref != before.ref:
            self.reported = OffsetMap()

    def take_positions(self, sequence: int, positions: OffsetMap) -> None:
        """Remembers how far the open sequence was read, whatever becomes of who read it."""
        if self.open is not None and self.open.ref.number == sequence:
            self.reported = furthest(self.reported, positions)

    def take_exceptions(self, number: int, count: int) -> None:
        """Remembers the bad messages of a sequence: every replica finds the same ones, the furthest the most."""
        if number in self.sequences and count > self.parse_exceptions.get(number, 0):
            self.parse_exceptions[number] = count

    def exceptions_of(self, record: SequenceRecord) -> int:
        return max(record.parse_exceptions, self.parse_exceptions.get(record.ref.number, 0))

    def facts(self) -> tuple[SequenceRecord, ...]:
        """Everything a replica may not know yet: unpublished sequences and what was saved last."""
        merged = {record.ref.number: record for record in (*self.last_records, *self.in_order())}
        return tuple(merged[number] for number in sorted(merged))


@dataclass(slots=True)
class PendingReset:
    """A reset that waits for what was read to be published (PR-24). ``forwards``: only partitions that
    still stand below their target are moved then; what was published meanwhile is not read twice."""

    moves: OffsetMap
    reason: str
    topic_id: str | None
    deadline_ms: int
    wish: int | None = None
    resetting: bool = False
    forwards: bool = False


class SupervisorStateBase:
    """The machine's memory; ``now_ms`` is deadline time, ``wall_ms`` the wall clock as last told."""

    def __init__(self, config: SupervisorConfig, generation: int) -> None:
        self.config = config
        self.generation = generation
        self.now_ms = 0
        self.seen_ms: int | None = None
        self.wall_ms = 0
        self.round_number = 0
        self.loaded = False
        self.reloading = False
        self.reload_sent = False
        self.reload_ms = 0
        self.desired = DesiredState.RUNNING
        self.offsets: StreamOffsets | None = None
        self.storing_offsets = False
        self.groups: dict[int, Group] = {}
        self.group_of: dict[str, int] = {}  # token to epoch, of every live attempt
        self.plan: tuple[PartitionSet, ...] = ()
        self.planned: frozenset[PartitionSet] = frozenset()
        self.plan_for: tuple[tuple[int, ...], int] | None = None
        self.opening: set[PartitionSet] = set()
        self.inherited_ms: dict[int, int] = {}
        self.resets: list[PendingReset] = []
        self.scaler = None if config.scaling is None else LagScaler(config.scaling)
        self.task_count = config.task_count
        self.published_exceptions = 0  # bad messages published under the present version of the spec
        self.stopped: str | None = None  # why nothing is read any more until an operator acts (PR-16)
        self.alike_since = config.spec_version  # the version since which the spec has said the same
        self.scaling = False  # a decision is on its way to the store
        self.rested = False
        self.idle = False  # the stream is quiet: nothing is read until it is not
        self.complete = False  # the bounded range was read to its ends
        self.quiet_ends = OffsetMap()  # where the stream has ended since ``quiet_since_ms``, and was read to
        self.quiet_since_ms: int | None = None
        self.topic_id: str | None = None
        self.log_ends = OffsetMap()
        self.log_starts = OffsetMap()
        self.health = Health(config.unhealthiness_threshold, config.healthiness_threshold)

    def advance_time(self, now_ms: int) -> None:
        """Moves deadline time by what passed, at most ``STALL_MS`` (see there)."""
        if self.seen_ms is None:
            self.seen_ms = now_ms
        passed = max(now_ms - self.seen_ms, 0)
        self.seen_ms = max(now_ms, self.seen_ms)
        self.now_ms += min(passed, STALL_MS)
        self.wall_ms += passed

    @property
    def reads(self) -> bool:
        """Whether anything shall be read: an operator wants it, nothing forbids it, and there is something."""
        return self.desired is DesiredState.RUNNING and self.stopped is None and not (self.idle or self.complete)

    def find(self, token: str) -> tuple[Group, Replica] | None:
        group = self.groups.get(self.group_of.get(token, -1))
        replica = group.replicas.get(token) if group is not None else None
        return (group, replica) if group is not None and replica is not None else None

    def seal_command(self, group: Group) -> SealCommand:
        """Every saved fact, under the number of the round that saved the last one: so it ends that
        round's pause and no newer one."""
        return SealCommand(self.generation, group.news_round, group.facts())

    def next_round(self) -> int:
        self.round_number += 1
        return self.round_number
