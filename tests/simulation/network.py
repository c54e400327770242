"""The modelled network: requests and replies are lost, repeated and late, hence out of order."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ingest.errors import AttemptRefused, LeadershipLost, StoreUnreachable
from ingest.metadata.store import StoreConflict
from ingest.protocol import TaskCommand

if TYPE_CHECKING:
    from tests.simulation.overlord_node import OverlordNode
    from tests.simulation.task_process import TaskProcess
    from tests.simulation.world import World

TIMEOUT_MS = 1_500


class Network:
    """Between tasks and overlords. A task that is cut off hears and says nothing."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.clock = world.clock

    def delay_ms(self) -> int:
        if self.clock.chance(self.world.faults.slow):
            return self.clock.between(500, 5_000)
        return self.clock.between(5, 60)

    def ask_overlord(self, task: TaskProcess, ask: Callable[[OverlordNode], Any], done: Callable[[Any], None]) -> None:
        """Follows the leader; a stale leader may be met too. Lost either way means None after a while."""
        faults = self.world.faults
        if task.cut_off or self.clock.chance(faults.drop):
            self._answer_later(task, done, None, TIMEOUT_MS)
            return
        self.clock.after(self.delay_ms(), lambda: self._arrive(task, ask, done))
        if self.clock.chance(faults.repeat):
            self.clock.after(self.delay_ms() * 2, lambda: self._arrive(task, ask, lambda _: None))

    def _arrive(self, task: TaskProcess, ask: Callable[[OverlordNode], Any], done: Callable[[Any], None]) -> None:
        leader = self.world.some_leader()
        if leader is None:
            self._answer_later(task, done, None, TIMEOUT_MS)
            return
        try:
            answer = ask(leader)
        except AttemptRefused as error:
            refusal = error
            self._later(task, lambda: task.refused(refusal))
            return
        except LeadershipLost:
            leader.step_down()
            answer = None
        except (StoreUnreachable, StoreConflict) as error:
            self.clock.note(task.token, "was not answered:", error)
            answer = None
        if task.cut_off or self.clock.chance(self.world.faults.reply_lost):
            answer = None
        self._answer_later(task, done, answer, self.delay_ms())

    def _answer_later(self, task: TaskProcess, done: Callable[[Any], None], answer: Any, delay_ms: int) -> None:
        self.clock.after(delay_ms, lambda: self._later(task, lambda: done(answer)))

    def _later(self, task: TaskProcess, action: Callable[[], None]) -> None:
        """A frozen process reads its socket when it wakes up; a dead one never."""
        if not task.alive:
            return
        if task.frozen:
            self.clock.after(task.frozen_ms - self.clock.now_ms, lambda: self._later(task, action))
            return
        action()

    # ------------------------------------------------------------ overlord to task

    def send_task(self, sender: OverlordNode, token: str, command: TaskCommand) -> None:
        """Delivered late, twice or not at all; the sender learns of some failures only."""
        faults = self.world.faults
        if self.clock.chance(faults.drop):
            self.clock.after(TIMEOUT_MS, lambda: sender.task_silent(token, command))
            return
        self.clock.after(self.delay_ms(), lambda: self._deliver(sender, token, command, True))
        if self.clock.chance(faults.repeat):
            self.clock.after(self.delay_ms() * 3, lambda: self._deliver(sender, token, command, False))

    def _deliver(self, sender: OverlordNode, token: str, command: TaskCommand, replies: bool) -> None:
        task = self.world.tasks.get(token)
        if task is None or not task.alive or not task.registered or task.cut_off:
            if replies:
                self.clock.after(TIMEOUT_MS, lambda: sender.task_silent(token, command))
            return
        if task.frozen:
            self.clock.after(task.frozen_ms - self.clock.now_ms, lambda: self._deliver(sender, token, command, replies))
            return
        reply = task.receive(command)
        if not replies or self.clock.chance(self.world.faults.reply_lost / 2):
            return
        if reply.refused is not None:
            self.clock.after(self.delay_ms(), lambda: sender.task_silent(token, command))
        else:
            self.clock.after(self.delay_ms(), lambda: sender.task_answered(token, command, reply.report))
