"""The faults a run may do: each knows what it breaks and how that is mended again."""

from __future__ import annotations

import os
import random
import resource
import signal
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ingest.task.directory import ProcessIdentity, start_ticks
from siltstone import Client, ClientError
from tests.chaos.cluster import ChaosCluster, Member
from tests.chaos.witness import Witness
from tests.servers.process import Server
from tests.servers.proxy import Proxy

Mend = Callable[[], None]
Posted = Callable[[int, int], dict[str, Any]]
"""The spec for so many replicas and groups."""


@dataclass(frozen=True, slots=True)
class Broken:
    """Something that was broken: ``what`` names it, no second fault touches ``parts`` until ``mend``."""

    what: str
    parts: frozenset[str]
    mend: Mend


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault: how long it lasts in seconds, and how often it is drawn beside the others."""

    do: Callable[[Faults, frozenset[str]], Broken | None]
    shortest_s: float
    longest_s: float
    weight: int


class Faults:
    """Breaks parts of a cluster that are whole; every choice is the dice's. Main thread only."""

    def __init__(self, cluster: ChaosCluster, witnesses: list[Witness], posted: Posted, dice: random.Random) -> None:
        self._cluster = cluster
        self._witnesses = witnesses
        self._posted = posted
        self._dice = dice

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
        return Broken(f"task {task.pid} gets {how.name}", frozenset(), _nothing)

    def kill_tasks(self, busy: frozenset[str]) -> Broken | None:
        """Every replica of every group at once: what was in memory only is read again."""
        tasks = self._cluster.tasks()
        for task in tasks:
            _send(task, signal.SIGKILL)
        return Broken(f"all {len(tasks)} tasks are killed", frozenset(), _nothing) if tasks else None

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

    # -- servers

    def kill_postgres(self, busy: frozenset[str]) -> Broken | None:
        return self._server_down(self._cluster.postgres, "postgres", busy, Server.kill)

    def stop_postgres(self, busy: frozenset[str]) -> Broken | None:
        return self._server_down(self._cluster.postgres, "postgres", busy, lambda server: server.stop())

    def kill_kafka(self, busy: frozenset[str]) -> Broken | None:
        return self._server_down(self._cluster.kafka.nodes[1], "kafka", busy, Server.kill)

    def freeze_kafka(self, busy: frozenset[str]) -> Broken | None:
        node = self._cluster.kafka.nodes[1]
        if "kafka" in busy:
            return None
        node.freeze()
        return Broken("kafka is frozen", frozenset({"kafka"}), node.thaw)

    def kill_s3(self, busy: frozenset[str]) -> Broken | None:
        return self._server_down(self._cluster.seaweed, "s3", busy, Server.kill)

    def _server_down(
        self, server: Server, name: str, busy: frozenset[str], how: Callable[[Server], None]
    ) -> Broken | None:
        if name in busy:
            return None
        how(server)
        return Broken(f"{name} goes down", frozenset({name}), server.spawn)

    # -- connections

    def cut_connections(self, busy: frozenset[str]) -> Broken | None:
        """Resets open connections and refuses new ones, of one proxy or of all before a server."""
        return self._connections(busy, "cut", Proxy.cut, Proxy.open)

    def hang_connections(self, busy: frozenset[str]) -> Broken | None:
        """Nothing passes any more, and nobody is told."""
        return self._connections(busy, "hang", Proxy.hang, Proxy.heal)

    def _connections(
        self, busy: frozenset[str], word: str, apply: Callable[[Proxy], None], undo: Callable[[Proxy], None]
    ) -> Broken | None:
        name = self._dice.choice(sorted(self._cluster.proxies))
        part = f"connections to {name}"
        if part in busy:
            return None
        proxies = list(self._cluster.proxies[name])
        if len(proxies) > 1 and self._dice.random() < 0.5:
            proxies = [self._dice.choice(proxies)]
        for proxy in proxies:
            apply(proxy)

        def mend() -> None:
            for proxy in proxies:
                undo(proxy)

        return Broken(f"{len(proxies)} {part} {word}", frozenset({part}), mend)


KINDS: dict[str, Kind] = {
    "task killed": Kind(Faults.kill_task, 0, 0, 6),
    "all tasks killed": Kind(Faults.kill_tasks, 0, 0, 1),
    "task ended": Kind(Faults.end_task, 0, 0, 2),
    "task frozen": Kind(Faults.freeze_task, 1, 25, 4),
    "task's disk full": Kind(Faults.fill_disk_of_task, 2, 10, 2),
    "middle manager's disk full": Kind(Faults.fill_disk_of_worker, 2, 10, 1),
    "middle manager killed": Kind(Faults.kill_worker, 0, 10, 3),
    "middle manager stopped": Kind(Faults.stop_worker, 0, 5, 2),
    "middle manager frozen": Kind(Faults.freeze_worker, 1, 20, 2),
    "host lost": Kind(Faults.lose_host, 0, 25, 2),
    "overlord killed": Kind(Faults.kill_overlord, 0, 8, 3),
    "both overlords killed": Kind(Faults.kill_overlords, 0, 8, 1),
    "overlord frozen": Kind(Faults.freeze_overlord, 1, 12, 3),
    "query node killed": Kind(Faults.kill_query_node, 0, 4, 2),
    "query node frozen": Kind(Faults.freeze_query_node, 1, 15, 1),
    "all processes killed": Kind(Faults.kill_all, 0, 4, 1),
    "machine lost": Kind(Faults.lose_machine, 0, 4, 1),
    "PostgreSQL killed": Kind(Faults.kill_postgres, 0, 8, 2),
    "PostgreSQL stopped": Kind(Faults.stop_postgres, 0, 12, 1),
    "Kafka killed": Kind(Faults.kill_kafka, 0, 8, 2),
    "Kafka frozen": Kind(Faults.freeze_kafka, 1, 10, 1),
    "S3 killed": Kind(Faults.kill_s3, 0, 15, 2),
    "connections cut": Kind(Faults.cut_connections, 0, 8, 4),
    "connections hung": Kind(Faults.hang_connections, 1, 15, 4),
    "spec changed": Kind(Faults.change_spec, 0, 0, 2),
    "middle manager drained": Kind(Faults.drain_worker, 1, 8, 1),
    "supervisor suspended": Kind(Faults.suspend, 0, 10, 1),
}


def schedule(dice: random.Random) -> Iterator[tuple[float, str, float]]:
    """Without end: seconds to wait, which kind of fault, how many seconds it lasts."""
    names = list(KINDS)
    weights = [KINDS[name].weight for name in names]
    while True:
        [name] = dice.choices(names, weights)
        kind = KINDS[name]
        yield dice.uniform(0.5, 5.0), name, dice.uniform(kind.shortest_s, kind.longest_s)


def _nothing() -> None:
    pass


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
