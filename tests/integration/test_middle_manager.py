"""The middle manager with real processes: starts, ends, adoption, and what it must never signal."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from ingest.clock import SystemClock
from ingest.errors import OverlordUnreachable
from ingest.protocol import EndedTask, TaskSpec, WorkerHeartbeat, WorkerOrders
from ingest.task.directory import AttemptDirectory, ProcessIdentity, boot_id, start_ticks
from ingest.worker.launchers import CommandLauncher, ForkserverLauncher
from ingest.worker.middle_manager import MiddleManager, StateRootTaken, WorkerSettings
from ingest.worker.ports import TaskLauncher

pytestmark = pytest.mark.integration

ENTRY = "tests.integration.scripted_task:run"


class ScriptedOverlord:
    """Hands out the orders a test wants and remembers the beats."""

    def __init__(self) -> None:
        self.beats: list[WorkerHeartbeat] = []
        self.reachable = True
        self._generation = 0
        self._orders: list[WorkerOrders] = []
        self._changed = threading.Condition()

    def order(self, start: tuple[TaskSpec, ...] = (), kill: tuple[str, ...] = (), generation: int = 1) -> None:
        with self._changed:
            self._orders.append(WorkerOrders(generation, start, kill, ()))
            self._changed.notify_all()

    def beat(self, beat: WorkerHeartbeat) -> WorkerOrders:
        with self._changed:
            if not self.reachable:
                raise OverlordUnreachable("no overlord")
            self.beats.append(beat)
            ended = tuple(end.token for end in beat.ended)
            if not ended:
                self._changed.wait_for(lambda: self._orders, beat.wait_ms / 1_000)
            if self._orders:
                orders = self._orders.pop(0)
                self._generation = max(self._generation, orders.generation)
                return WorkerOrders(orders.generation, orders.start, orders.kill, ended)
            return WorkerOrders(self._generation, (), (), ended)

    def ended(self) -> dict[str, EndedTask]:
        return {end.token: end for beat in list(self.beats) for end in beat.ended}


class DirectoryChallenge:
    """Believes the processes it is told to, once ``together`` of them are asked at a time."""

    def __init__(self, believes: bool = True, together: int = 1) -> None:
        self.believes = believes
        self._all_asked = threading.Barrier(together)

    def proves(self, address: str, token: str, pid: int) -> bool:
        self._all_asked.wait(20)
        return self.believes


def task(name: str = "clicks_0", attempt: int = 1) -> TaskSpec:
    return TaskSpec(name, attempt, f"token-{name}-{attempt}", "clicks", "clicks", 0, 1, "t", None, (), {}, True)


def eventually(condition: Callable[[], object], deadline_s: float = 60.0) -> None:
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.005)


def command_launcher() -> TaskLauncher:
    return CommandLauncher([sys.executable, "-m", "tests.integration.scripted_task"])


@contextmanager
def middle_manager(
    root: Path,
    overlord: ScriptedOverlord,
    launcher: TaskLauncher | None = None,
    challenge: DirectoryChallenge | None = None,
) -> Iterator[MiddleManager]:
    challenge = challenge or DirectoryChallenge()
    settings = WorkerSettings(root, "worker-1", "127.0.0.1:0", 4)
    manager = MiddleManager(settings, overlord, launcher or ForkserverLauncher(ENTRY), challenge, SystemClock())
    manager.start()
    try:
        yield manager
    finally:
        manager.stop()


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for path in tmp_path.glob("attempts/*/process.json"):
        identity = AttemptDirectory(path.parent).identity()
        # Also one that was too slow to tell where it listens: it would go on for ever.
        if identity is not None and identity.pid != os.getpid() and start_ticks(identity.pid) == identity.start_ticks:
            os.kill(identity.pid, signal.SIGKILL)


def attempt_directory(root: Path, spec: TaskSpec) -> AttemptDirectory:
    return AttemptDirectory.of(root, spec)


@pytest.mark.parametrize("launcher", [lambda: ForkserverLauncher(ENTRY), command_launcher])
def test_a_task_starts_in_its_own_session_with_nothing_but_its_log(
    root: Path, launcher: Callable[[], TaskLauncher]
) -> None:
    overlord, spec = ScriptedOverlord(), task()
    with middle_manager(root, overlord, launcher()) as manager:
        overlord.order(start=(spec,))
        directory = attempt_directory(root, spec)
        eventually(lambda: directory.log.exists() and "descriptors" in directory.log.read_text())
        line = directory.log.read_text().split()
        pid = int(line[3])
        assert line[1] == line[3], "the task leads its session"
        assert [running.pid for running in manager.running()] == [pid]
        # 0, 1, 2, its own lock, and the listing of the descriptors themselves.
        assert len(line[5:]) <= 5, line
        (directory.path / "finish").touch()
        eventually(lambda: spec.token in overlord.ended())
        assert overlord.ended()[spec.token].succeeded is True
        eventually(lambda: directory.is_marked("acknowledged"))


def test_a_second_task_is_forked_from_the_warm_server(root: Path) -> None:
    overlord = ScriptedOverlord()
    with middle_manager(root, overlord) as manager:
        overlord.order(start=(task("first"),))
        eventually(lambda: len(manager.running()) == 1)
        started = time.monotonic()
        overlord.order(start=(task("second"),))
        eventually(lambda: len(manager.running()) == 2)
        print(f"second task started after {time.monotonic() - started:.3f} s")


def test_a_killed_task_is_reported_without_result(root: Path) -> None:
    overlord, spec = ScriptedOverlord(), task()
    with middle_manager(root, overlord) as manager:
        overlord.order(start=(spec,))
        eventually(lambda: attempt_directory(root, spec).identity())
        pid = manager.running()[0].pid
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: spec.token in overlord.ended())
        assert overlord.ended()[spec.token].succeeded is None
        eventually(lambda: not Path(f"/proc/{pid}").exists())  # reaped: no zombie, its CPU time counted on


def test_tasks_survive_their_middle_manager_and_its_forkserver_and_are_adopted(root: Path) -> None:
    overlord, spec, ending = ScriptedOverlord(), task("stays"), task("ends")
    with middle_manager(root, overlord) as manager:
        overlord.order(start=(spec, ending))
        eventually(lambda: len(manager.running()) == 2)
        eventually(lambda: all(attempt_directory(root, found).identity() for found in (spec, ending)))
        pids = {running.token: running.pid for running in manager.running()}
    (attempt_directory(root, ending).path / "fail").touch()
    eventually(lambda: attempt_directory(root, ending).result())
    overlord.beats.clear()
    with middle_manager(root, overlord) as successor:
        found = {running.token: running for running in successor.running()}
        assert found[spec.token].pid == pids[spec.token]
        assert found[spec.token].adopted
        eventually(lambda: ending.token in overlord.ended())
        assert overlord.ended()[ending.token].error == "it was told to fail"
        (attempt_directory(root, spec).path / "finish").touch()
        eventually(lambda: spec.token in overlord.ended())
        assert overlord.ended()[spec.token].succeeded is True


def test_tasks_that_are_slow_to_prove_themselves_do_not_wait_for_each_other(root: Path) -> None:
    overlord, specs = ScriptedOverlord(), tuple(task(f"clicks_{number}") for number in range(3))
    with middle_manager(root, overlord):
        overlord.order(start=specs)
        eventually(lambda: all(attempt_directory(root, spec).identity() for spec in specs))
    with middle_manager(root, overlord, challenge=DirectoryChallenge(together=len(specs))) as successor:
        assert {running.token for running in successor.running()} == {spec.token for spec in specs}


def test_a_drain_is_remembered_over_a_restart_until_it_is_undone(root: Path) -> None:
    with middle_manager(root, ScriptedOverlord()) as first:
        first.set_enabled(False)
    second_overlord = ScriptedOverlord()
    with middle_manager(root, second_overlord) as second:
        assert not second.enabled
        eventually(lambda: second_overlord.beats)
        assert not second_overlord.beats[0].enabled
        second.set_enabled(True)
    with middle_manager(root, ScriptedOverlord()) as third:
        assert third.enabled


def test_a_second_middle_manager_is_kept_out_of_the_state_root(root: Path) -> None:
    with (
        middle_manager(root, ScriptedOverlord()),
        pytest.raises(StateRootTaken, match="in use by another"),
        middle_manager(root, ScriptedOverlord()),
    ):
        pass


def test_a_process_that_does_not_prove_itself_is_never_killed(root: Path) -> None:
    overlord, spec = ScriptedOverlord(), task()
    with middle_manager(root, overlord):
        overlord.order(start=(spec,))
        eventually(lambda: attempt_directory(root, spec).identity())
    with middle_manager(root, overlord, challenge=DirectoryChallenge(believes=False)) as successor:
        pid = successor.running()[0].pid
        beats = len(overlord.beats)
        overlord.order(kill=(spec.token,))
        eventually(lambda: len(overlord.beats) > beats + 1)
        os.kill(pid, 0)
    with middle_manager(root, overlord):
        overlord.order(kill=(spec.token,))
        eventually(lambda: spec.token in overlord.ended())


def test_an_order_to_kill_that_is_repeated_while_the_process_dies_is_carried_out_once(root: Path) -> None:
    overlord, spec = ScriptedOverlord(), task()
    with middle_manager(root, overlord):
        overlord.order(start=(spec,))
        eventually(lambda: attempt_directory(root, spec).identity())
        with capture_logs() as said:
            for _ in range(20):
                overlord.order(kill=(spec.token,))
            eventually(lambda: spec.token in overlord.ended())
    assert [line["event"] for line in said].count("task killed") == 1


def test_a_reused_pid_is_not_taken_for_the_task(root: Path) -> None:
    spec = task()
    directory = attempt_directory(root, spec)
    directory.create(spec)
    directory.write_identity(ProcessIdentity(os.getpid(), 1, boot_id(), spec.token, "", 1))
    overlord = ScriptedOverlord()
    with middle_manager(root, overlord) as manager:
        eventually(lambda: spec.token in overlord.ended())
        assert manager.running() == ()


def test_orders_of_an_older_generation_are_refused(root: Path) -> None:
    overlord, spec, late = ScriptedOverlord(), task("new"), task("late")
    with middle_manager(root, overlord) as manager:
        overlord.order(start=(spec,), generation=7)
        overlord.order(start=(late,), generation=6)
        eventually(lambda: len(manager.running()) == 1)
        beats = len(overlord.beats)
        eventually(lambda: len(overlord.beats) > beats + 1)
        assert [running.task_id for running in manager.running()] == ["new"]


def test_a_start_that_is_repeated_starts_one_process(root: Path) -> None:
    overlord, spec = ScriptedOverlord(), task()
    with middle_manager(root, overlord) as manager:
        overlord.order(start=(spec,))
        overlord.order(start=(spec,))
        eventually(lambda: attempt_directory(root, spec).identity())
        beats = len(overlord.beats)
        eventually(lambda: len(overlord.beats) > beats + 1)
        assert len(manager.running()) == 1
        assert attempt_directory(root, spec).log.read_text().count("session") == 1
