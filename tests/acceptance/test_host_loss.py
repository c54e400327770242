"""A machine is lost with its middle manager and all its tasks: back in time, back never, back too late."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from ingest.task.directory import ProcessIdentity
from tests.acceptance.edits import PARTITIONS, facts, lines, spec
from tests.acceptance.service import Service
from tests.acceptance.watcher import Watcher
from tests.chaos.cluster import Member
from tests.servers.kafka import KafkaCluster
from tests.servers.topics import create_topic, produce, wait_for

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(600)]

SECRET = "of three machines"


class Hosts:
    """One machine with overlord, query node and API, two with a middle manager each; and a stream that a test fills."""

    def __init__(self, home: Path, kafka: KafkaCluster, stack: ExitStack) -> None:
        shared = {"secret": SECRET, "deep_storage": {"type": "local", "path": str(home / "storage")}}
        self.front = Service(home / "front", {**shared, "roles": ["overlord", "query", "api"]})
        stack.enter_context(self.front)
        where = {"overlord": {"urls": [self.front.client.url]}, "roles": ["middle-manager"]}
        self.workers = [Member(home / f"worker{n}", {**shared, **where}) for n in range(2)]
        for worker in self.workers:
            worker.spawn()
        for worker in self.workers:
            stack.enter_context(worker)
        self.kafka, self.topic, self.sent = kafka, create_topic(kafka.bootstrap, PARTITIONS), 0
        self.watcher = stack.enter_context(Watcher(self.front.client, "wikipedia", lambda: self.sent))

    def send(self, until: int) -> None:
        """The next edits; a multiple of the partitions."""
        batch, self.sent = lines()[self.sent : until], until
        for partition in range(PARTITIONS):
            produce(self.kafka.bootstrap, self.topic, batch[partition::PARTITIONS], partition=partition)

    def seen(self, count: int) -> None:
        wait_for(lambda: self.watcher.last[0] == count, 120, f"{count} rows are seen")

    def begin(self) -> Member:
        """A supervisor whose one task has read 2,000 records and persisted most of them; where it runs."""
        self.front.client.submit(spec(self.kafka.bootstrap, self.topic, maxRowsInMemory=100))
        self.send(2_000)
        self.seen(2_000)
        return next(worker for worker in self.workers if worker.task_processes())

    def prove(self, count: int) -> None:
        """Everything is published once, by tasks that then end."""
        self.front.client.supervisor_action("wikipedia", "suspend")
        wait_for(lambda: self.front.published("wikipedia") == count, 120, "everything is published")
        wait_for(lambda: not any(worker.task_processes() for worker in self.workers), 120, "no task is left")
        self.watcher.assert_exact(facts(count))
        assert self.front.verify("wikipedia")["rows"] == count


@pytest.fixture
def hosts(tmp_path: Path, kafka: KafkaCluster) -> Iterator[Hosts]:
    with ExitStack() as stack:
        yield Hosts(tmp_path, kafka, stack)


def send_signal(tasks: list[ProcessIdentity], how: signal.Signals) -> None:
    for task in tasks:
        with suppress(ProcessLookupError):
            os.kill(task.pid, how)


def logs(worker: Member) -> str:
    return "".join(path.read_text() for path in sorted((worker.home / "data/tasks/attempts").glob("*/log.txt")))


def test_a_machine_that_is_back_soon_goes_on_from_what_its_tasks_had_persisted(hosts: Hosts) -> None:
    lost = hosts.begin()
    lost.kill()
    send_signal(lost.task_processes(), signal.SIGKILL)
    hosts.send(2_400)
    lost.start()
    hosts.seen(2_400)
    assert lost.task_processes() and "rows restored" in logs(lost), "and not from the stream"
    hosts.prove(2_400)


def test_a_machine_that_is_not_back_is_replaced_and_what_comes_back_late_is_refused(hosts: Hosts) -> None:
    lost = hosts.begin()
    other = next(worker for worker in hosts.workers if worker is not lost)
    tasks = lost.task_processes()
    lost.freeze()  # cut off from everybody, and not dead
    send_signal(tasks, signal.SIGSTOP)
    hosts.send(2_400)
    hosts.seen(2_400)
    assert other.task_processes(), "it is read elsewhere"
    lost.thaw()
    send_signal(tasks, signal.SIGCONT)
    wait_for(lambda: not lost.task_processes(), 120, "tasks that were given up end when they come back")
    hosts.send(2_800)
    hosts.seen(2_800)
    hosts.prove(2_800)
