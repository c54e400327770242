"""Threads that a process cannot do without outlive whatever goes wrong in one of their rounds."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from ingest.clock import SystemClock
from ingest.errors import StoreSchemaError, StoreUnreachable, TaskUnreachable
from ingest.metadata.memory import MemoryMetadataStore
from ingest.metadata.records import Leadership, SupervisorRecord
from ingest.overlord.leader import LeaderElection, LeaderSettings
from ingest.overlord.overlord import Overlord
from ingest.overlord.term import OverlordPorts
from ingest.protocol import PROTOCOL_VERSION, PauseReport, TaskCommand, TaskSpec, WorkerHeartbeat, WorkerOrders
from ingest.stream.memory import MemoryStream, MemorySupplier
from ingest.stream.supplier import RecordSupplier
from ingest.supervisor.discovery import StreamDiscovery
from ingest.supervisor.messages import StreamFailed, StreamSeen
from ingest.task.directory import AttemptDirectory, own_identity
from ingest.wire import WireError
from ingest.worker import middle_manager
from ingest.worker.launchers import CommandLauncher
from ingest.worker.middle_manager import MiddleManager, WorkerSettings
from ingest.worker.stopping import tell_ended, tell_left
from segments.storage.memory import MemoryDeepStorage

WAIT_S = 10.0
LEASE_MS = 40


class TroubledStore(MemoryMetadataStore):
    """A store whose next reads of the lease, or of the supervisors, fail."""

    def __init__(self) -> None:
        super().__init__()
        self.lease_faults: list[Exception] = []
        self.supervisor_faults: list[Exception] = []

    def leadership(self) -> Leadership | None:
        if self.lease_faults:
            raise self.lease_faults.pop()
        return super().leadership()

    def supervisors(self) -> list[SupervisorRecord]:
        if self.supervisor_faults:
            raise self.supervisor_faults.pop()
        return super().supervisors()


@pytest.mark.parametrize("fault", [StoreSchemaError("the schema is missing"), ValueError("not of ours")])
def test_an_overlord_leads_after_its_database_was_without_a_schema_for_a_moment(fault: Exception) -> None:
    store, gained = TroubledStore(), threading.Event()
    store.lease_faults = [fault, fault]
    settings = LeaderSettings("one", "one:1", LEASE_MS)
    election = LeaderElection(store, settings, SystemClock(), lambda _: gained.set(), lambda: None)
    election.start()
    assert gained.wait(WAIT_S)
    election.stop()


class NoTasks:
    """There are none."""

    def send(self, address: str, token: str, command: TaskCommand) -> PauseReport | None:
        raise AssertionError("nobody to send to")


def until(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(int(WAIT_S / 0.01)):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError("it did not come about")


@pytest.mark.parametrize(
    "fault", [StoreUnreachable("gone", effect_known_absent=True), StoreSchemaError("no table"), ValueError("odd")]
)
def test_an_overlord_that_cannot_begin_its_term_begins_another(fault: Exception) -> None:
    store = TroubledStore()
    store.supervisor_faults = [fault]
    stream = MemoryStream()
    ports = OverlordPorts(
        store, MemoryDeepStorage(), NoTasks(), lambda *_: MemorySupplier(stream, "t"), lambda: "token", SystemClock()
    )
    overlord = Overlord(ports, LeaderSettings("one", "one:1", LEASE_MS))
    overlord.start()
    until(lambda: overlord.is_leading)
    assert overlord.leading().generation == 2
    overlord.stop()


class OddOverlord:
    """Answers the first beats with what a middle manager cannot read."""

    def __init__(self, faults: list[Exception]) -> None:
        self._faults = faults
        self.understood = threading.Event()

    def beat(self, beat: WorkerHeartbeat) -> WorkerOrders:
        if self._faults:
            raise self._faults.pop()
        self.understood.set()
        return WorkerOrders(1, (), (), ())


class Silent:
    """No task answers in time."""

    def proves(self, address: str, token: str, pid: int) -> bool:
        raise TaskUnreachable("no answer")


class Unasked:
    """No task is there to prove itself."""

    def proves(self, address: str, token: str, pid: int) -> bool:
        raise AssertionError("nobody to ask")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Middle managers that beat again at once."""
    monkeypatch.setattr(middle_manager, "RETRY_S", 0.01)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("fault", [WireError("malformed WorkerOrders"), KeyError("odd")])
def test_a_middle_manager_beats_on_after_an_answer_that_it_cannot_read(tmp_path: Path, fault: Exception) -> None:
    overlord = OddOverlord([fault])
    settings = WorkerSettings(tmp_path, "w", "w:1", 1)
    manager = MiddleManager(settings, overlord, CommandLauncher(["true"]), Unasked(), SystemClock())
    manager.start()
    assert overlord.understood.wait(WAIT_S)
    manager.stop()


class Another:
    """An overlord of another database, which knows nothing of what runs here and would have it away."""

    database = "theirs"

    def __init__(self) -> None:
        self.beats: list[WorkerHeartbeat] = []

    def beat(self, beat: WorkerHeartbeat) -> WorkerOrders:
        self.beats.append(beat)
        tokens = tuple(each.token for each in beat.ended)
        return WorkerOrders(9, (), tokens, tokens, tokens, database=self.database)


def test_a_stop_names_the_tasks_that_go_on_and_those_that_it_has_ended(tmp_path: Path) -> None:
    spec = TaskSpec("clicks_0", 3, "t", "clicks", "clicks", 0, 1, "t", None, (), {}, True)
    directory = AttemptDirectory.of(tmp_path, spec)
    directory.create(spec)
    directory.write_identity(own_identity("t", "127.0.0.1:9", PROTOCOL_VERSION))  # this process stands for the task's
    settings, overlord = WorkerSettings(tmp_path, "w", "w:1", 1), OddOverlord([])
    manager = MiddleManager(settings, overlord, CommandLauncher(["true"]), Silent(), SystemClock())
    manager.start()
    left = manager.stop()
    with capture_logs() as told:
        tell_left(left, tmp_path)
        tell_ended(left, ["clicks_0"])
        tell_ended(left, [])
        tell_left((), tmp_path)
    goes_on, late, ended = told
    assert goes_on["tasks"] == [f"clicks_0, attempt 3: pid {os.getpid()}"]
    assert str(tmp_path) in goes_on["adopted_by"] and "kill -TERM" in goes_on["ended_by"]
    assert late["tasks"] == [f"clicks_0: pid {os.getpid()}"] and ended["tasks"] == ["clicks_0"]


@pytest.mark.usefixtures("impatient")
def test_a_middle_manager_takes_no_orders_of_a_service_that_does_not_know_its_tasks(tmp_path: Path) -> None:
    spec = TaskSpec("clicks_0", 1, "t", "clicks", "clicks", 0, 1, "t", None, (), {}, True, database="ours")
    directory = AttemptDirectory.of(tmp_path, spec)
    directory.create(spec)
    overlord = Another()
    settings = WorkerSettings(tmp_path, "w", "w:1", 1)
    manager = MiddleManager(settings, overlord, CommandLauncher(["true"]), Unasked(), SystemClock())
    manager.start()
    until(lambda: len(overlord.beats) > 1)
    assert overlord.beats[1].database == "ours" and [end.token for end in overlord.beats[1].ended] == ["t"]
    assert "belong to another service" in manager.trouble and "overlord.urls" in manager.trouble
    assert not directory.is_marked("acknowledged")
    overlord.database = "ours"
    until(lambda: directory.is_marked("acknowledged"))
    assert manager.trouble == ""
    manager.stop()


def test_the_stream_is_looked_at_again_after_anything_went_wrong() -> None:
    stream, seen = MemoryStream(), threading.Event()
    stream.create_topic("t", 1)
    faults: list[Exception] = [ValueError("not of ours")]
    told: list[StreamFailed] = []

    def supplier() -> RecordSupplier:
        if faults:
            raise faults.pop()
        return MemorySupplier(stream, "t")

    def post(event: StreamSeen | StreamFailed) -> None:
        if isinstance(event, StreamSeen):
            seen.set()
        else:
            told.append(event)

    discovery = StreamDiscovery("s", supplier, True, lambda: None, post, SystemClock())
    discovery.start()
    assert seen.wait(WAIT_S)
    assert "not of ours" in told[0].error
    discovery.stop()
