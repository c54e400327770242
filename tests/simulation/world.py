"""A world by seed: stream, network, overlords, workers, tasks, query nodes, readers, operators, faults."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from ingest.metadata.memory import MemoryMetadataStore
from ingest.metadata.records import DesiredState, SupervisorRecord
from ingest.offsets import OffsetMap
from ingest.protocol import AttemptRecord, PublishOutcome, TaskWelcome
from ingest.supervisor import messages as m
from ingest.supervisor.config import SupervisorConfig
from ingest.supervisor.machine import SupervisorMachine
from ingest.task.machine import IndexTaskMachine
from ingest.task.messages import TaskLimits
from tests.simulation.checks import Checks, Violation
from tests.simulation.clock import Clock
from tests.simulation.disk import ROW_BYTES, Hydrant, Row
from tests.simulation.faults import (
    BY_LAG,
    BadRecords,
    Faults,
    Quiet,
    Scaling,
    Shape,
    draw_bad_records,
    draw_bounds,
    draw_faults,
    draw_more_acts,
    draw_quiet,
    draw_scaling,
    draw_shape,
)
from tests.simulation.network import Network
from tests.simulation.overlord_node import OverlordNode
from tests.simulation.query_node import EpochRow, QueryNode
from tests.simulation.reader_session import join_readers
from tests.simulation.stream import Topic
from tests.simulation.task_process import TaskProcess
from tests.simulation.worker_node import WorkerNode

WALL_MS = 1_760_000_000_000
FAULTS_MS = 24_000
HEALING_MS = 90_000
SETTLE_MS = 500
EVENTS_MAX = 60_000

TIMING = SupervisorConfig(
    supervisor="edits",
    datasource="edits",
    topic="edits",
    spec_version=1,
    pause_ms=1_500,
    lease_ms=3_500,
    retell_ms=700,
    tell_ms=1_500,
    round_again_ms=500,
    silence_ms=3_000,
    beside_ms=1_500,
    burnt_ms=9_000,
    start_ms=4_000,
    restart_ms=200,
    restart_max_ms=2_000,
    restart_killed_max_ms=2_000,
    patience_ms=5_000,
    reset_ms=6_000,
    reread_ms=6_000,
    settle_ms=1_500,
    reset_automatically=True,
)
LIMITS = TaskLimits(
    segment_rows_max=14,
    sequence_rows_max=40,
    sequence_bytes_max=10_000,
    period_ms=4_000,
    held_bytes_max=120 * ROW_BYTES,
    pause_lease_ms=3_000,
    ask_again_ms=700,
    ask_again_max_ms=2_500,
    learn_ms=900,
    retry_ms=250,
    retry_max_ms=1_500,
)


class Rules:
    """What a mutant replaces: the machines, the store, the reader, the welcome."""

    def task(self, token: str, limits: TaskLimits) -> IndexTaskMachine:
        return IndexTaskMachine(token, limits)

    def supervisor(self, config: SupervisorConfig, generation: int) -> SupervisorMachine:
        return SupervisorMachine(config, generation)

    def store(self) -> MemoryMetadataStore:
        return MemoryMetadataStore()

    def node(self, world: World, name: str) -> QueryNode:
        return QueryNode(world, name)

    def welcome(self, leader: OverlordNode, attempt: AttemptRecord) -> TaskWelcome:
        groups = {group.group: group for group in leader.store.groups(attempt.supervisor)}
        group = groups.get(attempt.group)
        sequences = group.sequences if group is not None else ()
        return TaskWelcome(leader.generation, sequences, {}, attempt.committer)


class World:
    """Everything of one run. ``run`` raises ``Violation`` or AssertionError with the seed's story."""

    def __init__(self, seed: int, rules: Rules | None = None, keep_trace: bool = False) -> None:
        self.seed = seed
        self.rules = rules or Rules()
        self.clock = Clock(seed, keep_trace)
        rng = self.clock.random
        self.shape: Shape = draw_shape(rng)
        self.faults: Faults = draw_faults(rng)
        self.scaling: Scaling = draw_scaling(seed)
        self.bad: BadRecords = draw_bad_records(seed)
        self.quiet: Quiet = draw_quiet(seed)
        self.bad_random = random.Random(seed)
        self.late_looks = seed % 13 == 11  # what was committed since a look is known before the look is
        self.most = self.bad.most
        if self.scaling.tight:
            acts = tuple(act for act in self.shape.acts if act != "host_lost")
            self.shape = replace(self.shape, workers=1, acts=acts)
            more = max(self.faults.task_crash, 2.5), max(self.faults.upload_fails, 40)
            self.faults = replace(self.faults, task_crash=more[0], upload_fails=more[1])
        self.bounds: dict[int, int] | None = None
        self.timing = replace(TIMING, restart_killed_max_ms=800) if seed % 10 == 0 else TIMING  # a bound of its own
        self.limits = LIMITS
        self.supervisor = self.table = self.topic_name = "edits"
        self.counters: dict[str, int] = {}
        self.poison: tuple[int, int, int] | None = None
        self.topic = Topic()
        self.first: dict[int, int] = {}
        self.store = self.rules.store()
        self.deep_storage: dict[str, list[Row]] = {}
        self.published_rows: dict[str, list[EpochRow]] = {}
        self.pushed: dict[str, dict[int, dict[str, Any] | None]] = {}
        self.manifests: dict[tuple[str, str], tuple[str, list[Hydrant]]] = {}
        self.tasks: dict[str, TaskProcess] = {}
        self.checks = Checks(self)
        self.store.hooks.committed = lambda _: self.checks.after_commit()
        self.network = Network(self)
        self._begin()

    def _begin(self) -> None:
        shape, clock = self.shape, self.clock
        clock.note("seed", self.seed, shape, self.faults)
        for p in range(shape.partitions):
            self.add_partition(p)
        self.bounds = draw_bounds(self.seed, self.first)
        if self.bounds is not None:
            shape = self.shape = replace(shape, late_partitions=0)
        founder = self.store.take_leadership("founder", "founder", None)
        assert founder is not None
        self.put_spec(founder.generation, shape.task_count, shape.replicas, DesiredState.RUNNING)
        self.store.resign(founder.generation)
        self.overlords = [OverlordNode(self, name) for name in (("o1", "o2") if shape.two_leaders else ("o1",))]
        self.workers = {name: WorkerNode(self, name) for name in [f"w{i}" for i in range(shape.workers)]}
        self.nodes = [self.rules.node(self, f"q{i}") for i in range(shape.nodes)]
        self.readers = join_readers(self)
        for p in range(shape.partitions):
            clock.after(clock.between(0, 1_500), lambda p=p: self.produce(p))  # type: ignore[misc]
        for late in range(shape.late_partitions):
            p = shape.partitions + late
            clock.after(clock.between(3_000, FAULTS_MS), lambda p=p: self.appear(p))  # type: ignore[misc]
        for act in (*shape.acts, *draw_more_acts(self.seed), *self.scaling.acts, *self.bad.acts, *self.quiet.acts):
            clock.after(clock.between(2_000, FAULTS_MS - 4_000), lambda act=act: self.act(act))  # type: ignore[misc]

    # ------------------------------------------------------------ small services

    def count(self, name: str) -> int:
        self.counters[name] = self.counters.get(name, 0) + 1
        return self.counters[name]

    def capacity(self) -> int:
        """Slots of each worker; where they are scarce, just enough for every group that reads."""
        record = self.store.supervisor(self.supervisor)
        if not self.scaling.tight or record is None:
            return 6
        stream = self.store.offsets(self.supervisor, self.topic_name)
        partitions = 1 if stream is None else len(stream.committed)
        count = BY_LAG.task_count_max if self.scaling.by_lag else record.spec["taskCount"]
        return int(min(count, partitions) * record.spec["replicas"])

    def wall_ms(self) -> int:
        return WALL_MS + self.clock.now_ms

    def some_leader(self) -> OverlordNode | None:
        """Any overlord that believes it leads, the stale one too."""
        leading = [overlord for overlord in self.overlords if overlord.leads]
        return self.clock.random.choice(leading) if leading else None

    def segment_payload(self, segment_id: str, path: str, rows: list[Row]) -> dict[str, Any]:
        """A segment record as the store keeps it; nobody parses it here."""
        return {"id": segment_id, "rows": len(rows), "loadSpec": {"type": "memory", "path": path}}

    # ------------------------------------------------------------ stream

    def add_partition(self, partition: int) -> None:
        self.first[partition] = self.clock.random.choice((0, 0, 5, 100))
        self.topic.add_partition(partition, self.first[partition])

    def appear(self, partition: int) -> None:
        self.clock.note("partition", partition, "appears")
        self.add_partition(partition)
        self.produce(partition)

    def produce(self, partition: int) -> None:
        """A burst, then silence, then again: idle streams resume."""
        if self.clock.now_ms > FAULTS_MS:
            return
        if self.quiet.from_ms <= self.clock.now_ms < self.quiet.to_ms:
            self.clock.after(self.quiet.to_ms - self.clock.now_ms, lambda: self.produce(partition))
            return
        for _ in range(self.clock.between(1, 14)):
            self.append(partition, visible=not self.clock.chance(12))
        pause_ms = self.clock.between(200, 2_500) if self.clock.chance(80) else self.clock.between(4_000, 9_000)
        self.clock.after(pause_ms, lambda: self.produce(partition))

    def end_of(self, partition: int) -> int:
        """Where the stream ends for whoever reads it."""
        end = self.topic.ends[partition]
        return end if self.bounds is None else min(end, self.bounds[partition])

    def append(self, partition: int, visible: bool) -> None:
        if visible and self.bad_random.random() * 100 < self.bad.percent:
            self.topic.bad.add((partition, self.topic.ends[partition]))
        self.topic.append(partition, visible)

    # ------------------------------------------------------------ operators

    def put_spec(self, generation: int, task_count: int, replicas: int, desired: DesiredState) -> None:
        spec = {"taskCount": task_count, "replicas": replicas, "edition": self.count("edition"), "most": self.most}
        self.store.put_supervisor(generation, self.supervisor, self.table, spec, desired, self.wall_ms())

    def act(self, act: str) -> None:
        """What an operator does, through whoever leads; repeated until somebody does."""
        leader = self.some_leader()
        if leader is None or leader.generation != self.store.state.generation:
            self.clock.after(500, lambda: self.act(act))
            return
        record = self.store.supervisor(self.supervisor)
        assert record is not None
        if record.desired is DesiredState.TERMINATED:
            if act == "respec":
                self._free_ending(leader, record)
            return
        self.clock.note("operator:", act)
        acts = {
            "drain": self._drain,
            "conflict": self._conflict,
            "reset": self._reset,
            "discard": self._discard,
            "host_lost": self._lose_host,
            "expire": self._expire,
            "poison": self._poison,
            "start_again": self._start_again,
            "hand_off": self._hand_off,
        }
        if act in acts:
            acts[act](leader)
            return
        count, replicas = record.spec["taskCount"], record.spec["replicas"]
        if act == "respec":
            self.put_spec(leader.generation, count, replicas, record.desired)
        elif act == "rescale":
            self.put_spec(leader.generation, 3 - count if count < 3 else 1, replicas, record.desired)
        elif act == "scale":
            others = [n for n in range(1, 5) if n != count]
            self.put_spec(leader.generation, self.clock.random.choice(others), replicas, record.desired)
        elif act == "replicas":
            self.put_spec(leader.generation, count, self.clock.between(1, 3), record.desired)
        else:
            self._want(leader, act)
        current = self.store.supervisor(self.supervisor)
        assert current is not None
        leader.post(m.DesiredChanged(self.clock.now_ms, current.desired, leader.config()))

    def _free_ending(self, leader: OverlordNode, record: SupervisorRecord) -> None:
        """What no task can finish holds the end up for ever: a cured spec is posted, and then ended too."""
        poisoned = self.poison is not None and self.poison[0] == record.version
        if not poisoned or not self.store.state.unpublished.get(self.supervisor):
            return
        self.clock.note("operator: cures what cannot end")
        self.put_spec(leader.generation, record.spec["taskCount"], record.spec["replicas"], DesiredState.RUNNING)
        leader.post(m.DesiredChanged(self.clock.now_ms, DesiredState.RUNNING, leader.config()))
        self.clock.after(self.clock.between(5_000, 9_000), lambda: self.act("terminate"))

    def _want(self, leader: OverlordNode, act: str) -> None:
        wanted = {
            "suspend": DesiredState.SUSPENDED,
            "resume": DesiredState.RUNNING,
            "terminate": DesiredState.TERMINATED,
        }
        self.store.set_desired(leader.generation, self.supervisor, wanted[act], self.wall_ms())
        if act == "suspend":
            self.clock.after(self.clock.between(500, 9_000), lambda: self.act("resume"))

    def _start_again(self, leader: OverlordNode) -> None:
        """An operator starts a supervisor that has stopped for its bad records; one that has not stays."""
        if leader.machine is None or leader.machine.stopped is None:
            return
        version = leader.machine.config.spec_version
        record = self.store.start_again(leader.generation, self.supervisor, version, self.wall_ms())
        leader.post(m.DesiredChanged(self.clock.now_ms, record.desired, leader.config()))

    def _hand_off(self, leader: OverlordNode) -> None:
        """Some groups, and one that there is not."""
        groups = leader.machine.groups if leader.machine is not None else {}
        chosen = {epoch for epoch in sorted(groups) if self.clock.chance(60)}
        leader.post(m.HandOffAsked(self.clock.now_ms, frozenset({*chosen, 999})))

    def cure(self) -> str:
        """What stopped was watched to its end: a spec without the limit goes on."""
        leader = self.some_leader()
        if leader is not None:
            self.most = None
            self.act("respec")
        return "PX-1 the cured supervisor has not gone on"

    def _conflict(self, leader: OverlordNode) -> None:
        """As if the stored offsets lay inside the oldest range (a database restored by hand)."""
        unpublished = sorted(self.store.state.unpublished.get(self.supervisor, ()), key=lambda r: r.ref)
        if unpublished:
            oldest = unpublished[0].ref
            leader.post(m.PublishSeen(self.clock.now_ms, "", oldest, PublishOutcome.CONFLICT))

    def _lose_host(self, leader: OverlordNode) -> None:
        self.clock.note(leader.name, "will hear no more of w0")
        self.workers["w0"].burn()

    def _expire(self, leader: OverlordNode) -> None:
        """Retention deletes records of one partition, whoever has read them; now and then all of them."""
        p = self.clock.random.choice(sorted(self.topic.ends))
        low, end = self.topic.log_starts[p], self.topic.ends[p]
        self.topic.expire(p, end if self.clock.chance(25) else self.clock.between(low, end))
        self.clock.note("partition", p, "begins at", self.topic.log_starts[p])

    def _poison(self, leader: OverlordNode) -> None:
        """Every task dies of some unpublished record under the present spec, until another one is posted;
        now and then those that run now lose what they had read before."""
        p = self.clock.random.choice(sorted(self.topic.ends))
        stream = self.store.offsets(self.supervisor, self.topic_name)
        low = self.topic.ends[p] if stream is None else stream.committed.get(p, self.topic.ends[p])
        self.poison = (leader.config().spec_version, p, self.clock.between(low, self.topic.ends[p]))
        if self.clock.chance(50):
            self.manifests.clear()
            for _, task in sorted(self.tasks.items()):
                if task.alive:
                    task.crash()
        self.clock.after(self.clock.between(5_000, 9_000), lambda: self.act("respec"))

    def _discard(self, leader: OverlordNode) -> None:
        self._reset(leader, discard=True)

    def _drain(self, leader: OverlordNode) -> None:
        live = sorted(token for token, task in self.tasks.items() if task.alive)
        if live:
            leader.post(m.ReplicaLeaving(self.clock.now_ms, self.clock.random.choice(live), "drain"))

    def _reset(self, leader: OverlordNode, discard: bool = False) -> None:
        """Moves one partition somewhere in its log, back or forth."""
        partition = self.clock.random.choice(sorted(self.topic.ends))
        to = self.clock.between(self.topic.log_starts[partition], self.topic.ends[partition])
        leader.post(m.ResetAsked(self.clock.now_ms, OffsetMap({partition: to}), discard))

    # ------------------------------------------------------------ running

    def run(self) -> World:
        """Faults for a while, then healing, then a last burst; all of it published and answered in time."""
        self._run_until(FAULTS_MS)
        self.faults = self.faults.healed()
        self.clock.note("healed")
        for p in sorted(self.topic.ends):
            self.append(p, visible=True)
            while self.bounds is not None and self.topic.ends[p] < self.bounds[p]:
                self.append(p, visible=True)
        deadline_ms = self.clock.now_ms + HEALING_MS
        unfinished: str | None = ""
        while unfinished is not None:
            if self.clock.now_ms > deadline_ms:
                raise Violation(unfinished)
            self._run_until(self.clock.now_ms + SETTLE_MS)
            unfinished = self.checks.unfinished()
        self.clock.note("done")
        return self

    def _run_until(self, until_ms: int) -> None:
        clock = self.clock
        while clock.next_ms <= until_ms:
            clock.step()
            if clock.events > EVENTS_MAX:
                raise Violation(f"LV-0 {EVENTS_MAX} events are not enough")
        clock.now_ms = max(clock.now_ms, until_ms)
