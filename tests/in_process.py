"""A whole system in one process: overlord, tasks as threads, everything else in memory; fast enough for plain tests."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ingest.clock import SystemClock
from ingest.errors import AttemptRefused, IngestError, TaskUnreachable
from ingest.metadata.memory import MemoryMetadataStore
from ingest.metadata.records import LedgerRow
from ingest.offsets import OffsetMap
from ingest.overlord.leader import LeaderSettings
from ingest.overlord.overlord import Overlord
from ingest.overlord.term import OverlordPorts
from ingest.protocol import (
    PROTOCOL_VERSION,
    AllocateRequest,
    CheckpointAnswer,
    CheckpointAsk,
    EndedTask,
    HeartbeatReply,
    PauseReport,
    PendingSegment,
    PublishReply,
    PublishRequest,
    RunningTask,
    SequenceRecord,
    SequenceRef,
    StageRequest,
    TaskCommand,
    TaskHeartbeat,
    TaskHello,
    TaskSpec,
    TaskWelcome,
    WorkerHeartbeat,
)
from ingest.spec import parse_supervisor_spec
from ingest.stream.bounded import within
from ingest.stream.memory import MemoryStream, MemorySupplier
from ingest.stream.schemas import SchemaSources
from ingest.stream.supplier import RecordSupplier
from ingest.stream.topics import Naming, TopicsObserver, TopicsSupplier
from ingest.task.appending import AppenderRows, has_rows
from ingest.task.directory import AttemptDirectory
from ingest.task.restore import restorable
from ingest.task.runner import Outcome, TaskPorts, TaskRunner
from segments.storage.memory import MemoryDeepStorage

BROKER = "localhost:9092"
HOUR_MS = 3_600_000
NOON_MS = 1_780_000_000_000 // HOUR_MS * HOUR_MS


def eventually(condition: Callable[[], object], deadline_s: float = 60.0, what: str = "") -> None:
    """Polls until the condition holds; fails after the deadline."""
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, f"not in time: {what}"
        time.sleep(0.005)


def spec(topic: str = "clicks", broker: str = BROKER, **tuning: Any) -> dict[str, Any]:
    """A supervisor spec over hourly segments; ``replicas``, ``taskCount`` and ``taskDuration`` go to ioConfig."""
    io = {name: tuning.pop(name) for name in ("replicas", "taskCount", "taskDuration") if name in tuning}
    return {
        "type": "kafka",
        "spec": {
            "dataSchema": {
                "dataSource": "clicks",
                "timestampSpec": {"column": "at", "format": "millis"},
                "dimensionsSpec": {"dimensions": ["page", {"type": "long", "name": "n"}]},
                "granularitySpec": {"segmentGranularity": "HOUR", "queryGranularity": "NONE", "rollup": False},
            },
            "ioConfig": {
                "topic": topic,
                "inputFormat": {"type": "json"},
                "consumerProperties": {"bootstrap.servers": broker},
                "useEarliestOffset": True,
                **io,
            },
            "tuningConfig": {"type": "kafka", **tuning},
        },
    }


def ends_of(posted: dict[str, Any]) -> dict[int, int] | None:
    """Where a spec's bounded range ends."""
    bounds = parse_supervisor_spec(posted)[0].io.bounds
    return None if bounds is None else bounds.ends


def click(n: int, at_ms: int = NOON_MS) -> bytes:
    return json.dumps({"at": at_ms, "page": f"p{n % 7}", "n": n}).encode()


class LocalActions:
    """``OverlordActions`` of whoever leads among in-process overlords."""

    def __init__(self, system: System) -> None:
        self._system = system

    def register(self, hello: TaskHello) -> TaskWelcome:
        return self._system.overlord.actions.register(hello)

    def heartbeat(self, beat: TaskHeartbeat) -> HeartbeatReply:
        return self._system.overlord.actions.heartbeat(beat)

    def ask_checkpoint(self, ask: CheckpointAsk) -> CheckpointAnswer:
        return self._system.overlord.actions.ask_checkpoint(ask)

    def sequences(self, token: str, from_number: int) -> CheckpointAnswer:
        return self._system.overlord.actions.sequences(token, from_number)

    def raise_end(self, token: str, ref: SequenceRef, end: OffsetMap) -> SequenceRecord | None:
        return self._system.overlord.actions.raise_end(token, ref, end)

    def allocate(self, request: AllocateRequest) -> PendingSegment:
        return self._system.overlord.actions.allocate(request)

    def stage(self, request: StageRequest) -> None:
        self._system.overlord.actions.stage(request)

    def publish(self, request: PublishRequest) -> PublishReply:
        return self._system.overlord.actions.publish(request)


class TaskThread:
    """One attempt in a thread. ``kill`` cuts it off from everything, as a dead process is."""

    def __init__(self, system: System, task: TaskSpec) -> None:
        self._system = system
        self.task = task
        self.outcome: Outcome | None = None
        directory = AttemptDirectory.of(system.root, task)
        directory.create(task)
        older = restorable(system.root / "attempts", task, has_rows)
        self.rows = AppenderRows(directory, task, system.clock, older, system.schemas)
        ports = TaskPorts(
            LocalActions(system), self.rows, self._supplier, system.storage, system.clock, lambda: system.disk_scarce
        )
        hello = TaskHello(task.token, task.token, 1, system.protocol)
        self.runner = TaskRunner(task, ports, hello, system.held_bytes_max)
        self._held = directory.held()
        self._held.__enter__()
        self.thread = threading.Thread(target=self._run, name=task.task_id, daemon=True)
        self.thread.start()

    def _supplier(self, posted: dict[str, Any], parts: frozenset[str]) -> RecordSupplier:
        columns = {"timestamps", *parts}
        broker, task = self._system.broker(posted), self.task
        if not task.places:
            reader = MemorySupplier(broker, task.topic, topic_id=task.topic_id, columns=columns)
            return within(reader, ends_of(posted))
        return TopicsSupplier(
            task.places, task.topic_id, lambda topic, id_: MemorySupplier(broker, topic, topic_id=id_, columns=columns)
        )

    def _run(self) -> None:
        self.outcome = self.runner.run()
        self._held.__exit__(None, None, None)

    def stop(self) -> None:
        self.runner.stop_restorable()
        self.thread.join(10)


class ThreadWorker:
    """A middle manager whose tasks are threads; also the way the overlord reaches them."""

    def __init__(self, system: System, name: str = "w1", capacity: int = 8) -> None:
        self._system = system
        self.name = name
        self._capacity = capacity
        self.enabled = True
        self.tasks: dict[str, TaskThread] = {}
        self._ended: dict[str, EndedTask] = {}
        self._stopping = False
        self._thread = threading.Thread(target=self._beat_forever, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping = True
        self._thread.join(5)

    def _beat_forever(self) -> None:
        while not self._stopping:
            for token, task in list(self.tasks.items()):
                if not task.thread.is_alive() and token not in self._ended:
                    outcome = task.outcome
                    succeeded, error = (None, "killed") if outcome is None else (outcome.succeeded, outcome.error)
                    self._ended[token] = EndedTask(task.task.task_id, task.task.attempt, token, succeeded, error)
            running = tuple(
                RunningTask(t.task.task_id, t.task.attempt, token, 1, False)
                for token, t in self.tasks.items()
                if t.thread.is_alive()
            )
            beat = WorkerHeartbeat(
                self.name, "", self._capacity, self.enabled, running, tuple(self._ended.values()), wait_ms=50
            )
            try:
                orders = self._system.overlord.beat(beat)
            except IngestError:
                time.sleep(0.02)
                continue
            for token in orders.acknowledged:
                self._ended.pop(token, None)
                self.tasks.pop(token, None)
            for token in orders.kill:
                self.tasks[token].stop()
            for ordered in orders.start:
                if ordered.token not in self.tasks:
                    self.tasks[ordered.token] = TaskThread(self._system, ordered)


class System:
    """The parts; ``start`` them, ``stop`` them. ``overlord`` may be replaced by a new one."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "attempts").mkdir(parents=True, exist_ok=True)
        self.clock = SystemClock()
        self.held_bytes_max = 1 << 30
        self.disk_scarce = False  # as tasks see it
        self.protocol = PROTOCOL_VERSION  # announced by tasks that start from now on
        self.store = MemoryMetadataStore()
        self.storage = MemoryDeepStorage()
        self.schemas: SchemaSources | None = None
        self.stream = MemoryStream()
        self.brokers = {BROKER: self.stream}  # by the bootstrap.servers of a spec
        self._tokens = itertools.count(1)
        self.workers: list[ThreadWorker] = []
        self.overlord = self.new_overlord("overlord-1")

    def new_overlord(self, node: str) -> Overlord:
        ports = OverlordPorts(
            self.store,
            self.storage,
            self,
            self._observer,
            lambda: f"token-{next(self._tokens)}",
            self.clock,
        )
        return Overlord(ports, LeaderSettings(node, f"{node}:1", lease_ms=1_000))

    def start(self, workers: int = 1) -> None:
        self.overlord.start()
        eventually(lambda: self.overlord.is_leading)
        self.workers = [ThreadWorker(self, f"w{number}") for number in range(workers)]
        eventually(lambda: len(self.overlord.workers()) == workers)

    def stop(self) -> None:
        for worker in self.workers:
            worker.stop()
        for task in self.tasks():
            task.stop()
        self.overlord.stop()

    def _observer(self, posted: dict[str, Any], naming: Naming) -> RecordSupplier:
        io, broker = posted["spec"]["ioConfig"], self.broker(posted)
        if "topicPattern" not in io:
            return within(MemorySupplier(broker, io["topic"]), ends_of(posted))
        return TopicsObserver(io["topicPattern"], broker.topics, naming, lambda topic, _: MemorySupplier(broker, topic))

    def broker(self, posted: dict[str, Any]) -> MemoryStream:
        """The stream that a spec's properties lead to."""
        return self.brokers[posted["spec"]["ioConfig"]["consumerProperties"]["bootstrap.servers"]]

    def tasks(self) -> list[TaskThread]:
        return [task for worker in self.workers for task in list(worker.tasks.values()) if task.thread.is_alive()]

    def send(self, address: str, token: str, command: TaskCommand) -> PauseReport | None:
        """``TaskClient``: a task's address is its token."""
        for task in self.tasks():
            if task.task.token == address:
                if address != token:
                    raise AttemptRefused(address)
                return task.runner.command(command)
        raise TaskUnreachable(address)

    def look(self) -> bool:
        """Lets the supervisor look at the stream at once; always true."""
        runner = self.overlord.leading().runner("clicks")
        assert runner is not None
        runner.look_now()
        return True

    def ledger(self) -> list[LedgerRow]:
        return self.store.ledger("clicks", 0, 1_000)

    def committed(self) -> OffsetMap:
        stored = self.store.offsets("clicks", "clicks")
        return OffsetMap() if stored is None else stored.committed

    def records_read(self) -> int:
        """Offsets read by the task that stands furthest."""
        return max((sum(task.runner.view.positions.values()) for task in self.tasks()), default=0)

    def rows_published(self) -> int:
        return sum(row.rows_stored for row in self.ledger())


def chain_is_whole(system: System) -> None:
    """Every published range of a partition starts where the one before ended, and counts its messages."""
    at: dict[int, int] = {}
    for row in system.ledger():
        for partition, start in row.start.items():
            assert at.get(partition, 0) == start, row
            at[partition] = row.end[partition]
            assert row.counts[partition].offsets == row.end[partition] - start
    assert OffsetMap(at) == system.committed()
