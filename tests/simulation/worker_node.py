"""One middle manager: starts and kills processes as the leader says, reports ends until they are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingest.errors import LeadershipLost
from ingest.protocol import AttemptRecord, AttemptState
from ingest.supervisor import messages as m
from tests.simulation.disk import Hydrant
from tests.simulation.task_process import TaskProcess

if TYPE_CHECKING:
    from tests.simulation.overlord_node import OverlordNode
    from tests.simulation.world import World

LOOP_MS = 500


class WorkerNode:
    """Its tasks outlive it, so that its own crash is nothing but missing heartbeats."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.clock = world.clock
        self.name = name
        self.acknowledged: set[str] = set()
        self.burnt = False
        self.clock.after(self.clock.between(0, LOOP_MS), self.loop)

    def mine(self) -> list[TaskProcess]:
        return [task for task in self.world.tasks.values() if task.worker == self.name]

    def loop(self) -> None:
        if self.burnt:
            return
        self.clock.after(LOOP_MS, self.loop)
        leader = self.world.some_leader()
        if leader is None or self.clock.chance(self.world.faults.drop):
            return
        running = {task.token for task in self.mine() if task.alive}
        ended = {
            task.token: task.result
            for task in self.mine()
            if task.result is not None and task.token not in self.acknowledged
        }
        try:
            start, kill, known = heard(leader, self.name, running, ended)
        except LeadershipLost:
            leader.step_down()
            return
        if self.clock.chance(self.world.faults.reply_lost):
            return
        self.acknowledged.update(known)
        for token in kill:
            task = self.world.tasks[token]
            if not task.frozen:
                self.clock.note(self.name, "kills", token)
                task.end(None, "killed by order")
        for attempt in start:
            self.start(attempt.token, attempt.task_id)

    def burn(self) -> None:
        """The host is gone for good, with its processes and disks; nobody reports anything."""
        self.burnt = True
        for task in self.mine():
            if task.alive:
                task.end(None, "burnt")

    def start(self, token: str, task_id: str) -> None:
        """Hydrants of an earlier attempt are taken over only when its process is proved ended (PR-26)."""
        if token in self.world.tasks:
            return
        restored: list[Hydrant] = []
        before, hydrants = self.world.manifests.get((self.name, task_id), ("", []))
        earlier = self.world.tasks.get(before)
        lost = self.clock.chance(self.world.faults.manifest_lost)
        if earlier is not None and not earlier.alive and not lost:
            restored = hydrants
        self.clock.note(self.name, "starts", token, task_id, "restored" if restored else "empty")
        self.world.tasks[token] = TaskProcess(self.world, token, task_id, self.name, restored)


def restarts(leader: OverlordNode) -> dict[int, int]:
    """By group: before when nothing is started again."""
    groups = leader.machine.groups if leader.machine is not None else {}
    return {epoch: group.restart_ms for epoch, group in groups.items()}


def heard(
    leader: OverlordNode, worker: str, running: set[str], ended: dict[str, tuple[bool | None, str | None]]
) -> tuple[list[AttemptRecord], list[str], list[str]]:
    """A middle manager's heartbeat: what to start, what to kill, which ends are known."""
    for token, (succeeded, error) in sorted(ended.items()):
        before = restarts(leader)
        leader.post(m.TaskEnded(leader.clock.now_ms, token, succeeded, error))
        if succeeded is None:
            leader.world.checks.killed(token, before, restarts(leader))
    live = {a.token: a for a in leader.store.attempts(leader.world.supervisor, True, 1_000)}
    known = [token for token in sorted(ended) if token not in live]
    kill = [token for token in sorted(running) if token not in live]
    mine = [a for a in live.values() if a.worker == worker and a.token not in ended and a.token not in running]
    return [a for a in mine if a.state is AttemptState.ASSIGNED], kill, known
