"""One overlord process: leader election, the supervisor machine in a shell, and the task actions."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ingest.errors import AttemptRefused, LeadershipLost
from ingest.metadata.records import DesiredState
from ingest.metadata.store import StoreConflict
from ingest.offsets import OffsetMap
from ingest.protocol import (
    AllocateRequest,
    AttemptRecord,
    AttemptState,
    CheckpointAnswer,
    CheckpointAsk,
    HeartbeatReply,
    PauseReport,
    PublishOutcome,
    PublishReply,
    PublishRequest,
    SequenceRecord,
    SequenceRef,
    SequenceState,
    StagedFile,
    StageRequest,
    TaskCommand,
    TaskHeartbeat,
    TaskWelcome,
)
from ingest.supervisor import messages as m
from ingest.supervisor.config import SupervisorConfig, SupervisorState
from ingest.supervisor.machine import SupervisorMachine
from tests.simulation.faults import BY_LAG
from tests.simulation.stream import look_at

if TYPE_CHECKING:
    from tests.simulation.world import World

LOOP_MS = 500
LEASE_LOOPS = 4
NODE_LEASE_MS = 4_000
CHUNK_MS = 3_600_000


class OverlordNode:
    """Follows or leads. ``dead_ms`` and ``frozen_ms`` are faults; a crash loses the machine."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.clock = world.clock
        self.store = world.store
        self.name = name
        self.generation = 0
        self.machine: SupervisorMachine | None = None
        self.queue: deque[m.Command] = deque()
        self.pumping = False
        self.dead_ms = self.frozen_ms = 0
        self.seen_beats: Any = None
        self.still_loops = 0
        self.hints: dict[str, tuple[str | None, tuple[str, ...]]] = {}
        self.claims: set[str] = set()
        self.freed: set[str] = set()
        self.loops = 0
        self.look: m.StreamSeen | None = None
        self.clock.after(self.clock.between(0, LOOP_MS), self.loop)

    # ------------------------------------------------------------ leading

    @property
    def leads(self) -> bool:
        return self.machine is not None and self.clock.now_ms >= max(self.dead_ms, self.frozen_ms)

    def loop(self) -> None:
        """One turn: fault, lease, tick, stream, queue, sweeper."""
        self.clock.after(LOOP_MS, self.loop)
        now_ms, faults = self.clock.now_ms, self.world.faults
        if now_ms < max(self.dead_ms, self.frozen_ms):
            return
        if self.machine is None:
            self.stand_by()
            return
        if self.clock.chance(faults.leader_crash):
            self.crash()
            return
        if self.clock.chance(faults.leader_freeze):
            self.frozen_ms = now_ms + self.clock.between(1_000, 8_000)
            self.clock.note(self.name, "freezes until", self.frozen_ms)
            return
        self.loops += 1
        try:
            self.store.beat(self.generation)
            self.post(m.Tick(now_ms, self.world.wall_ms()))
            self.look_at_stream()
            self.assign()
            if self.loops % 8 == 0:
                self.sweep()
        except LeadershipLost:
            self.step_down()

    def stand_by(self) -> None:
        leader = self.store.leadership()
        self.still_loops = self.still_loops + 1 if leader == self.seen_beats else 0
        self.seen_beats = leader
        if leader is not None and self.still_loops < LEASE_LOOPS:
            return
        taken = self.store.take_leadership(self.name, self.name, leader)
        if taken is None:
            return
        self.clock.note(self.name, "leads as generation", taken.generation)
        self.generation = taken.generation
        self.queue.clear()
        self.claims.clear()
        self.freed.clear()
        self.machine = self.world.rules.supervisor(self.config(), self.generation)
        self.post(m.StateLoaded(self.clock.now_ms, self.world.wall_ms(), self.load()))

    def crash(self) -> None:
        self.clock.note(self.name, "crashes")
        self.dead_ms = self.clock.now_ms + self.clock.between(500, 4_000)
        self.step_down()

    def step_down(self) -> None:
        self.machine = None
        self.queue.clear()
        self.still_loops = 0

    def config(self) -> SupervisorConfig:
        record = self.store.supervisor(self.world.supervisor)
        assert record is not None
        return replace(
            self.world.timing,
            spec_version=record.version,
            task_count=record.spec["taskCount"],
            replicas=record.spec["replicas"],
            max_parse_exceptions=record.spec["most"],
            scaling=BY_LAG if self.world.scaling.by_lag else None,
            idle_after_ms=self.world.quiet.idle_after_ms,
            bounds=None if self.world.bounds is None else OffsetMap(self.world.bounds),
        )

    @property
    def spec_version(self) -> int:
        """What the machine goes by; it may not have heard of the newest one yet."""
        return self.config().spec_version if self.machine is None else self.machine.config.spec_version

    def load(self) -> SupervisorState:
        world = self.world
        record = self.store.supervisor(world.supervisor)
        ended = self.store.attempts(world.supervisor, False, 100)
        return SupervisorState(
            record.desired if record else DesiredState.TERMINATED,
            self.store.offsets(world.supervisor, world.topic_name),
            tuple(self.store.groups(world.supervisor)),
            tuple(ended),
            scaled=self.store.last_audit(world.supervisor, "scale"),
            parse_exceptions=self.store.parse_exceptions(world.supervisor, self.spec_version),
        )

    def look_at_stream(self) -> None:
        """Every third turn; where looks are late, every other is heard of two turns after that."""
        if due := self.loops % 3 == 1:
            self.look = look_at(self.world, self.clock.now_ms)
        late = self.world.late_looks and self.loops % 6 != 1
        if self.look is not None and (self.loops % 6 == 0 if late else due):
            self.post(self.look)

    def assign(self) -> None:
        """The task queue: claims first, to workers with a free slot or, for them, the one beyond (PR-12)."""
        capacity = self.world.capacity()
        live = self.store.attempts(self.world.supervisor, True, 1_000)
        load = {
            name: sum(a.worker == name and a.token not in self.freed for a in live)
            for name, worker in self.world.workers.items()
            if not worker.burnt
        }
        beyond = set(load) - {a.worker for a in live if a.token in self.claims - self.freed}
        for attempt in sorted(reversed(live), key=lambda attempt: attempt.token not in self.claims):
            current = self.store.attempt(attempt.token)  # an event of this loop may have ended it
            if current is None or current.state is not AttemptState.PENDING:
                continue
            prefer, avoid = self.hints.get(attempt.token, (None, ()))
            claims = attempt.token in self.claims
            free = [name for name in sorted(load) if load[name] < capacity or (claims and name in beyond)]
            if not free:
                return
            free.sort(key=lambda name: (name != prefer, name in avoid, load[name]))
            load[free[0]] += 1
            beyond -= {free[0]} if claims else set()
            self.store.assign_attempt(self.generation, attempt.token, free[0])
            self.post(m.AttemptAssigned(self.clock.now_ms, attempt.token, free[0]))

    def sweep(self) -> None:
        """Deletes files of ended attempts: first the row, then the file, twice (PR-20)."""
        rows = self.store.staged_of_ended(20)
        deleting = self.store.begin_delete(self.generation, [row.row_id for row in rows])
        for row in rows:
            if row.row_id in deleting:
                self.world.deep_storage.pop(row.path, None)
        self.store.finish_delete(self.generation, deleting, self.clock.now_ms)

    # ------------------------------------------------------------ the machine's shell

    def post(self, event: m.Event) -> None:
        """Events one at a time; commands in order, each completed before the next."""
        if self.machine is None:
            return
        commands = self.machine.handle(event)
        for command in commands:
            self.clock.note(self.name, command)
            if isinstance(command, m.SealSequence) and self.generation == self.store.state.generation:
                self.world.checks.sealing(command)
        self.queue.extend(commands)
        self.pump()

    def pump(self) -> None:
        if self.pumping:
            return
        self.pumping = True
        try:
            while self.queue and self.machine is not None:
                if not self.execute_next():
                    break
        finally:
            self.pumping = False

    def execute_next(self) -> bool:
        """False when the store is out of reach: the same command is tried again later."""
        faults = self.world.faults
        command = self.queue[0]
        if isinstance(command, m.SendTask):
            self.queue.popleft()
            self.world.network.send_task(self, command.token, command.command)
            return True
        if self.clock.chance(faults.leader_crash):
            self.crash()
            return False
        if self.clock.chance(faults.store_refuses):
            self.clock.after(300, self.pump)
            return False
        try:
            event = self.apply(command)
        except LeadershipLost:
            self.step_down()
            return False
        except (StoreConflict, AttemptRefused) as error:
            event = m.StoreRefused(self.clock.now_ms, str(error))
        if self.clock.chance(faults.leader_crash):
            self.crash()
            return False
        self.queue.popleft()
        if event is not None:
            self.post(event)
        return True

    def apply(self, command: m.Command) -> m.Event | None:
        world, store, now_ms = self.world, self.store, self.clock.now_ms
        name, topic, gen = world.supervisor, world.topic_name, self.generation
        match command:
            case m.InitOffsets(topic_id, starts):
                offsets = store.init_offsets(gen, name, world.table, topic, topic_id, starts)
                return m.OffsetsStored(now_ms, offsets)
            case m.AddPartitions(starts):
                return m.OffsetsStored(now_ms, store.add_partitions(gen, name, topic, starts))
            case m.ResetOffsets(moves, topic_id, audit):
                world.checks.resetting(moves, audit)
                return m.OffsetsStored(now_ms, store.reset_offsets(gen, name, topic, moves, topic_id, audit))
            case m.RaiseEpochs(audit):
                return m.OffsetsStored(now_ms, store.reset_offsets(gen, name, topic, None, None, audit))
            case m.ScaleTasks(task_count, audit):
                store.append_audit(gen, audit)
                return m.TasksScaled(now_ms, task_count)
            case m.OpenGroup(partitions, following):
                world.checks.reading_on(following)
                return m.GroupOpened(now_ms, store.open_group(gen, name, topic, partitions, following))
            case m.SealSequence(ref, end, following, bad):
                return m.SequenceSealed(now_ms, store.seal(gen, ref, end, following, bad))
            case m.VoidSequences(group, number, audit):
                voided = store.void(gen, name, group, number, audit)
                return m.SequencesVoided(now_ms, group, tuple(voided))
            case _:
                return self.apply_to_attempt(command)

    def apply_to_attempt(self, command: m.Command) -> m.Event | None:
        store, now_ms, gen = self.store, self.clock.now_ms, self.generation
        match command:
            case m.CreateAttempt():
                return m.AttemptCreated(now_ms, self.create(command))
            case m.MoveAttempt(token, state, error):
                return m.AttemptMoved(now_ms, store.set_attempt_state(gen, token, state, error, now_ms))
            case m.SetCommitter(token):
                store.set_committer(gen, token)
                return m.CommitterSet(now_ms, token)
            case m.ClaimSlot(token):
                self.claims.add(token)
                return None
            case m.FreeSlot(token):
                self.freed.add(token)
                return None
            case m.Reload():
                return m.StateLoaded(now_ms, self.world.wall_ms(), self.load())
            case _:
                return None  # KillAttempt: workers learn from the store; Rested: nobody listens here

    def create(self, command: m.CreateAttempt) -> AttemptRecord:
        token = f"t{self.world.count('token')}"
        self.hints[token] = (command.prefer_worker, command.avoid_workers)
        record = AttemptRecord(
            command.task_id,
            command.attempt,
            token,
            self.world.supervisor,
            self.world.table,
            command.group,
            AttemptState.PENDING,
            command.committer,
            self.clock.now_ms,
        )
        return self.store.create_attempt(self.generation, record)[0]

    def task_answered(self, token: str, command: TaskCommand, report: PauseReport | None) -> None:
        if self.leads:
            self.post(m.TaskAnswered(self.clock.now_ms, token, command, report))

    def task_silent(self, token: str, command: TaskCommand) -> None:
        if self.leads:
            self.post(m.TaskSilent(self.clock.now_ms, token, command))

    # ------------------------------------------------------------ task actions

    def register(self, token: str) -> TaskWelcome:
        attempt = self.store.register_attempt(self.generation, token, token, 1, self.clock.now_ms)
        self.post(m.TaskRegistered(self.clock.now_ms, attempt))
        return self.world.rules.welcome(self, attempt)

    def heartbeat(self, beat: TaskHeartbeat) -> HeartbeatReply:
        now_ms = self.clock.now_ms
        attempt = self.store.record_positions(self.generation, beat.token, beat.sequence, beat.positions, now_ms)
        self.post(m.TaskBeat(now_ms, beat))
        gone = {n.node: n.renewed_ms for n in self.store.nodes() if now_ms - n.renewed_ms >= NODE_LEASE_MS}
        served = self.store.served_version(self.world.table, gone)
        return HeartbeatReply(self.generation, served, attempt.committer)

    def require(self, token: str) -> AttemptRecord:
        attempt = self.store.attempt(token)
        if attempt is None or not attempt.state.is_live:
            raise AttemptRefused("this attempt is not live")
        return attempt

    def ask_checkpoint(self, ask: CheckpointAsk) -> CheckpointAnswer:
        """Answered from the store when the end is saved, however long ago; else the machine decides."""
        self.require(ask.token)
        saved = self.store.sequences(ask.ref.supervisor, ask.ref.group, ask.ref.number)
        if saved and saved[0].state is not SequenceState.OPEN:
            return CheckpointAnswer(self.generation, saved)
        self.post(m.CheckpointAsked(self.clock.now_ms, ask))
        return CheckpointAnswer(self.generation, ())

    def sequences(self, token: str, from_number: int) -> tuple[SequenceRecord, ...]:
        attempt = self.require(token)
        saved = self.store.sequences(attempt.supervisor, attempt.group, from_number)
        for record in [record for record in saved if record.state is SequenceState.PUBLISHED][-1:]:
            bad = record.parse_exceptions
            self.post(m.PublishSeen(self.clock.now_ms, token, record.ref, PublishOutcome.ALREADY, bad))
        return saved

    def raise_end(self, token: str, ref: SequenceRef, end: OffsetMap) -> tuple[SequenceRecord | None]:
        """None inside: refused. Else this machine's picture is outdated now."""
        try:
            record = self.store.raise_end(self.generation, token, ref, end)
        except StoreConflict:
            return (None,)
        self.post(m.StoreRefused(self.clock.now_ms, f"the end of {ref.name} was raised"))
        return (record,)

    def stage(self, token: str, record: SequenceRecord, path: str, has_rows: bool) -> str:
        """Allocates the segment's id and stores the staged row."""
        now_ms, segment_id = self.clock.now_ms, ""
        if has_rows:
            chunk = AllocateRequest(token, record.ref, 0, CHUNK_MS)
            segment_id = self.store.allocate(self.generation, chunk, self.world.wall_ms()).segment_id
        files = (StagedFile(path, segment_id, 1),) if has_rows else ()
        self.store.stage(self.generation, StageRequest(token, record.ref, files), now_ms)
        return segment_id

    def publish(self, request: PublishRequest) -> PublishReply:
        """Now and then the database's reply to the overlord itself is lost."""
        reply = self.store.publish(self.generation, request, self.clock.now_ms)
        if self.clock.chance(self.world.faults.reply_lost / 3):
            reply = PublishReply(PublishOutcome.UNKNOWN)
        self.clock.note(self.name, request.token, request.ref.name, reply.outcome.value)
        bad = request.parse_exceptions
        self.post(m.PublishSeen(self.clock.now_ms, request.token, request.ref, reply.outcome, bad))
        return reply
