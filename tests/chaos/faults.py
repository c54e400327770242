"""The faults a run may do to processes, and what operators wish; which are drawn, `tests.chaos.kinds` says."""

from __future__ import annotations

import os
import resource
import signal
import urllib.request
from collections.abc import Callable, Iterable
from contextlib import suppress

from ingest.task.directory import ProcessIdentity, start_ticks
from siltstone import Client, ClientError
from tests.chaos.breaking import Broken, nothing
from tests.chaos.cluster import Member
from tests.chaos.server_faults import ServerFaults
from tests.chaos.stream_faults import StreamFaults


class Faults(StreamFaults, ServerFaults):
    """Breaks processes, tasks first; and is everything that breaks anything."""

    # -- tasks

    def _some_task(self) -> ProcessIdentity | None:
        tasks = self._cluster.tasks()
        return self._dice.choice(tasks) if tasks else None

    def kill_task(self, busy: frozenset[str]) -> Broken | None:
        return self._signal_task(signal.SIGKILL)

    def end_task(self, busy: frozenset[str]) -> Broken | None:
        return self._signal_task(signal.SIGTERM)

    def _signal_task(self, how: signal.Signals) -> Broken | None:
        task = self._some_task()
        if task is None:
            return None
        _send(task, how)
        return Broken(f"task {task.pid} gets {how.name}", frozenset(), nothing)

    def kill_tasks(self, busy: frozenset[str]) -> Broken | None:
        """Every replica of every group at once: what was in memory only is read again."""
        tasks = self._cluster.tasks()
        for task in tasks:
            _send(task, signal.SIGKILL)
        return Broken(f"all {len(tasks)} tasks are killed", frozenset(), nothing) if tasks else None

    def freeze_task(self, busy: frozenset[str]) -> Broken | None:
        task = self._some_task()
        if task is None or f"task {task.pid}" in busy:
            return None
        _send(task, signal.SIGSTOP)
        name = f"task {task.pid}"
        return Broken(f"{name} is frozen", frozenset({name}), lambda: _send(task, signal.SIGCONT))

    def fill_disk_of_task(self, busy: frozenset[str]) -> Broken | None:
        """No file of the task may grow: what a full disk is to it, without root."""
        task = self._some_task()
        if task is None or f"task {task.pid}" in busy:
            return None
        _limit_files(task, 0)
        name = f"task {task.pid}"
        return Broken(f"{name} cannot write", frozenset({name}), lambda: _limit_files(task, resource.RLIM_INFINITY))

    def fill_disk_of_worker(self, busy: frozenset[str]) -> Broken | None:
        """The same for a middle manager: neither its log nor its state directories take anything."""
        whole = [worker for worker in self._cluster.workers if worker.home.name not in busy and worker.alive]
        if not whole:
            return None
        worker = self._dice.choice(whole)
        assert worker.proc is not None
        pid, ticks = worker.proc.pid, start_ticks(worker.proc.pid)
        _limit_process(pid, ticks, 0)
        # Not marked as busy: it may be killed meanwhile, its successor has no limit.
        return Broken(
            f"{worker.home.name} cannot write",
            frozenset({f"disk of {worker.home.name}"}),
            lambda: _limit_process(pid, ticks, resource.RLIM_INFINITY),
        )

    # -- processes of the installation

    def kill_worker(self, busy: frozenset[str]) -> Broken | None:
        return self._down(self._cluster.workers, busy, Member.kill, "killed")

    def stop_worker(self, busy: frozenset[str]) -> Broken | None:
        return self._down(self._cluster.workers, busy, Member.stop, "stopped")

    def roll_workers(self, busy: frozenset[str]) -> Broken | None:
        """Each middle manager in turn is stopped and started, as for an upgrade."""
        workers = self._cluster.workers
        names = frozenset(worker.home.name for worker in workers)
        if names & busy or not all(worker.alive for worker in workers):
            return None
        return Broken("middle managers are restarted one by one", names, Rolling(list(workers)).step)

    def freeze_worker(self, busy: frozenset[str]) -> Broken | None:
        return self._frozen(self._cluster.workers, busy)

    def lose_host(self, busy: frozenset[str]) -> Broken | None:
        """A middle manager with all its tasks, as when its machine burns and comes back with its disk."""

        def lose(member: Member) -> None:
            member.kill()
            for task in member.task_processes():
                _send(task, signal.SIGKILL)

        return self._down(self._cluster.workers, busy, lose, "and its tasks are killed")

    def kill_overlord(self, busy: frozenset[str]) -> Broken | None:
        leader = self._cluster.leader()
        return self._down([leader] if leader else self._cluster.overlords, busy, Member.kill, "(leading) killed")

    def kill_overlords(self, busy: frozenset[str]) -> Broken | None:
        return self._all_down(self._cluster.overlords, busy)

    def freeze_overlord(self, busy: frozenset[str]) -> Broken | None:
        leader = self._cluster.leader()
        return self._frozen([leader] if leader else self._cluster.overlords, busy)

    def kill_query_node(self, busy: frozenset[str]) -> Broken | None:
        return self._all_down([self._dice.choice(self._cluster.fronts)], busy)

    def freeze_query_node(self, busy: frozenset[str]) -> Broken | None:
        return self._frozen(self._cluster.fronts, busy)

    def kill_all(self, busy: frozenset[str]) -> Broken | None:
        """Every process but the tasks."""
        return self._all_down(self._cluster.members, busy)

    def lose_machine(self, busy: frozenset[str]) -> Broken | None:
        """Every process and every task, as when the power fails and comes back."""
        broken = self._all_down(self._cluster.members, busy)
        if broken is None:
            return None
        for task in self._cluster.tasks():
            _send(task, signal.SIGKILL)
        return Broken("all processes and tasks are killed", broken.parts, broken.mend)

    def _down(
        self, among: Iterable[Member], busy: frozenset[str], how: Callable[[Member], None], word: str
    ) -> Broken | None:
        whole = [member for member in among if member.home.name not in busy and member.alive]
        if not whole:
            return None
        member = self._dice.choice(whole)
        how(member)
        return Broken(f"{member.home.name} {word}", frozenset({member.home.name}), member.spawn)

    def _all_down(self, members: list[Member], busy: frozenset[str]) -> Broken | None:
        names = frozenset(member.home.name for member in members)
        if names & busy:
            return None
        for member in members:
            member.kill()
        # Not before: until it is dead the node may still answer a question that is asked now.
        for front, witness in zip(self._cluster.fronts, self._witnesses, strict=True):
            if front in members:
                witness.begin_life()

        def mend() -> None:
            for member in members:
                member.spawn()

        return Broken(f"{', '.join(sorted(names))} killed", names, mend)

    def _frozen(self, among: list[Member], busy: frozenset[str]) -> Broken | None:
        whole = [member for member in among if member.home.name not in busy and member.alive]
        if not whole:
            return None
        member = self._dice.choice(whole)
        member.freeze()
        return Broken(f"{member.home.name} is frozen", frozenset({member.home.name}), member.thaw)

    # -- what operators do

    def change_spec(self, busy: frozenset[str]) -> Broken | None:
        """Scales groups and replicas, which cuts over at a checkpoint."""
        replicas, groups = self._dice.choice([1, 2]), self._dice.choice([1, 2, 3])
        spec = self._posted(replicas, groups)
        return self._asked(f"spec of {replicas} replicas and {groups} groups posted", lambda c: c.submit(spec))

    def drain_worker(self, busy: frozenset[str]) -> Broken | None:
        """A middle manager is given nothing new for a while."""
        whole = [worker for worker in self._cluster.workers if worker.home.name not in busy and worker.alive]
        if not whole:
            return None
        worker = self._dice.choice(whole)
        client = Client(worker.client.url, timeout_s=3.0)
        with suppress(ClientError):
            client.disable_worker()
        return Broken(
            f"{worker.home.name} is drained", frozenset({f"drain of {worker.home.name}"}), lambda: enable(worker)
        )

    def suspend(self, busy: frozenset[str]) -> Broken | None:
        return self._asked("supervisor suspended", lambda client: client.supervisor_action("chaos", "suspend"))

    def _asked(self, what: str, ask: Callable[[Client], object]) -> Broken | None:
        """Asks once, as somebody would who has other things to do; whether it arrived is part of the game."""
        client = Client(self._cluster.front.client.url, timeout_s=3.0)
        try:
            ask(client)
        except ClientError:
            what += " (refused)"
        return Broken(what, frozenset({"supervisor"}), lambda: _resume(client))


class Rolling:
    """Restarts members one by one; ``step`` never waits long, and is True when the last one answers."""

    def __init__(self, members: list[Member]) -> None:
        self._left = members
        self._started: Member | None = None

    def step(self) -> bool:
        """To be called again until it is True: the next is stopped only when the one before answers."""
        if self._started is not None:
            if not self._started.alive:
                self._started.spawn()  # as a service manager does for one that finds its disk full
            if not self._started.ready():
                return False
            self._left, self._started = self._left[1:], None
        if not self._left:
            return True
        member = self._left[0]
        if member.alive:
            assert member.proc is not None
            member.proc.terminate()
        else:
            member.spawn()
            self._started = member
        return False


def enable(worker: Member) -> None:
    """Lets a middle manager take tasks again; one that does not answer is enabled by its restart."""
    request = urllib.request.Request(f"{worker.client.url}/druid/worker/v1/enable", method="POST")
    with suppress(OSError), urllib.request.urlopen(request, timeout=3):
        pass


def _resume(client: Client) -> None:
    with suppress(ClientError):  # asked again when all is healed
        client.supervisor_action("chaos", "resume")


def _send(task: ProcessIdentity, how: signal.Signals) -> None:
    """To this very process only: pids are reused."""
    with suppress(ProcessLookupError):
        if start_ticks(task.pid) == task.start_ticks:
            os.kill(task.pid, how)


def _limit_files(task: ProcessIdentity, size: int) -> None:
    _limit_process(task.pid, task.start_ticks, size)


def _limit_process(pid: int, ticks: int | None, size: int) -> None:
    with suppress(ProcessLookupError):
        if start_ticks(pid) == ticks:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
