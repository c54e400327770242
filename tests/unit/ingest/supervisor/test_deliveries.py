"""Commands reach the tasks that answer, whatever stands still elsewhere."""

from __future__ import annotations

import queue
import threading
from collections import Counter

from ingest.clock import SystemClock
from ingest.errors import CommandRefused, TaskUnreachable
from ingest.protocol import CommitterCommand, PauseCommand, PauseReport, ResumeCommand, TaskCommand
from ingest.supervisor.deliveries import CALLS_AT_ONCE, Deliveries, Delivery
from ingest.supervisor.messages import TaskAnswered, TaskSilent
from tests.in_process import eventually

WAIT_S = 10.0


class Tasks:
    """Those whose names begin with "frozen" answer nothing while ``held`` is not set."""

    def __init__(self) -> None:
        self.held = threading.Event()
        self.held.set()
        self.called = threading.Semaphore(0)
        self.calls: Counter[str] = Counter()
        self.sent: list[tuple[str, TaskCommand]] = []

    def send(self, address: str, token: str, command: TaskCommand) -> PauseReport | None:
        self.calls[token] += 1
        self.sent.append((token, command))
        self.called.release()
        if token.startswith("frozen"):
            assert self.held.wait(WAIT_S)
            raise TaskUnreachable(f"{address} did not answer")
        if token.startswith("odd"):
            raise KeyError("report")
        if token.startswith("busy"):
            raise CommandRefused("too busy")
        return None


class World:
    def __init__(self) -> None:
        self.tasks = Tasks()
        self.deliveries = Deliveries(self.tasks, SystemClock())
        self.told: queue.SimpleQueue[TaskAnswered | TaskSilent] = queue.SimpleQueue()

    def send(self, token: str, command: TaskCommand) -> None:
        self.deliveries.send(Delivery("a:1", token, command, command, self.told.put))

    def heard(self) -> TaskAnswered | TaskSilent:
        return self.told.get(timeout=WAIT_S)

    def close(self) -> None:
        self.tasks.held.set()
        self.deliveries.close()


def test_tasks_that_stand_still_do_not_delay_the_others() -> None:
    world = World()
    frozen = [f"frozen-{number}" for number in range(3 * CALLS_AT_ONCE)]
    for token in frozen:
        world.send(token, ResumeCommand(1, 1))
    for _ in frozen:
        assert isinstance(world.heard(), TaskSilent)
    world.tasks.held.clear()
    for number in range(2, 6):
        for token in frozen:
            world.send(token, ResumeCommand(1, number))
    world.send("well", PauseCommand(1, 9, 1_000))
    heard = world.heard()
    assert isinstance(heard, TaskAnswered) and heard.token == "well"
    world.close()


def test_to_one_task_one_call_is_made_at_a_time_and_of_what_waits_the_newest_of_each_kind() -> None:
    world = World()
    world.tasks.held.clear()
    world.send("frozen", ResumeCommand(1, 1))
    assert world.tasks.called.acquire(timeout=WAIT_S)
    for number in range(2, 50):
        world.send("frozen", ResumeCommand(1, number))
        world.send("frozen", CommitterCommand(1, number % 2 == 0))
    assert world.tasks.calls["frozen"] == 1
    world.tasks.held.set()
    told = [world.heard().command for _ in range(3)]
    assert told == [ResumeCommand(1, 1), ResumeCommand(1, 49), CommitterCommand(1, False)]
    assert [command for _, command in world.tasks.sent] == told
    world.close()


def test_what_waits_for_a_task_that_has_ended_is_not_sent() -> None:
    world = World()
    world.tasks.held.clear()
    world.send("frozen", ResumeCommand(1, 1))
    assert world.tasks.called.acquire(timeout=WAIT_S)
    world.send("frozen", CommitterCommand(1, True))
    world.deliveries.forget("frozen")
    world.tasks.held.set()
    assert world.heard().command == ResumeCommand(1, 1)
    world.send("well", ResumeCommand(1, 2))
    assert world.heard().token == "well" and world.tasks.calls["frozen"] == 1
    world.close()


def test_whatever_goes_wrong_the_supervisor_hears_of_it() -> None:
    world = World()
    for token in ("odd", "busy", "well"):
        world.send(token, ResumeCommand(1, 1))
        assert isinstance(world.heard(), TaskAnswered if token == "well" else TaskSilent)
    world.close()


def test_nothing_is_remembered_of_tasks_that_ended_also_while_they_were_called() -> None:
    world = World()
    for number in range(20):
        world.send(f"frozen-{number}", ResumeCommand(1, 1))
        assert isinstance(world.heard(), TaskSilent)
    world.tasks.held.clear()
    for number in range(5):
        world.send(f"frozen-{number}", ResumeCommand(1, 2))
        world.tasks.called.acquire(timeout=WAIT_S)
    for number in range(20):
        world.deliveries.forget(f"frozen-{number}")
    world.tasks.held.set()
    for _ in range(5):
        world.heard()
    eventually(lambda: len(world.deliveries) == 0)
    world.close()
