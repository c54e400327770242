"""Seconds without reading after each kind of death, pauses for checkpoints, and the time to adopt twenty tasks."""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from siltstone import Client, ClientError
from tests.benchmarks.reading import Reading, status_of
from tests.chaos.cluster import ChaosCluster
from tests.chaos.flow import Flow, spec
from tests.servers.topics import create_topic, wait_for

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]

RATE = 2_000.0
ROUNDS = 3
AFTER_S = 10.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ChaosCluster]:
    with ChaosCluster(tmp_path) as found:
        yield found


@pytest.mark.parametrize("replicas", [1, 2])
def test_seconds_without_reading(cluster: ChaosCluster, replicas: int) -> None:
    topic = create_topic(cluster.kafka.bootstrap, 1)
    flow = Flow(cluster.kafka.bootstrap, topic, partitions=1, rate=RATE, transactional=False)
    cluster.front.client.submit(spec(cluster.bootstrap, topic, replicas, 1, rows_per_segment=20_000))
    flow.start()
    with Reading(cluster) as reading:
        wait_for(partial(_reads, cluster, reading, replicas), 90, "every replica reads")
        for name, harm in _harms(cluster).items():
            gaps = []
            for _ in range(ROUNDS if "task" in name else 2):
                wait_for(partial(_reads, cluster, reading, replicas), 90, "every replica reads")
                since = time.monotonic()
                harm()
                time.sleep(AFTER_S)
                gaps.append(reading.gap(since - 0.5, since + AFTER_S))
                for member in cluster.members:
                    member.start()
            shown = ", ".join(f"{gap:.2f}" for gap in sorted(gaps))
            print(f"{replicas} replicas, {name}: median {statistics.median(gaps):.2f} s of {shown}")
        for task in cluster.tasks():
            print(f"{replicas} replicas, pauses of task {task.pid}: {status_of(task)['pauses']}")
    flow.stop()


def _harms(cluster: ChaosCluster) -> dict[str, Callable[[], None]]:
    def kill_worker() -> None:
        next(worker for worker in cluster.workers if worker.task_processes()).kill()

    def kill_leader() -> None:
        leader = cluster.leader()
        assert leader is not None
        leader.kill()

    return {
        "nothing": lambda: None,
        "middle manager killed": kill_worker,
        "leading overlord killed": kill_leader,
        "task killed": lambda: os.kill(cluster.tasks()[0].pid, signal.SIGKILL),
    }


def _reads(cluster: ChaosCluster, reading: Reading, replicas: int) -> bool:
    """Whether as many tasks as wanted are near the front, and an overlord leads."""
    tasks = cluster.tasks()
    if len(tasks) != replicas or cluster.leader() is None:
        return False
    try:
        positions = [int(status_of(task)["positions"].get("0", 0)) for task in tasks]
    except OSError:
        return False
    return min(positions) > max(reading.furthest.get("0", 0) - RATE, 1)


def test_pauses_for_checkpoints(cluster: ChaosCluster) -> None:
    topic = create_topic(cluster.kafka.bootstrap, 2)
    flow = Flow(cluster.kafka.bootstrap, topic, partitions=2, rate=RATE, transactional=False)
    flow.start()
    for replicas in (1, 2):
        cluster.front.client.submit(spec(cluster.bootstrap, topic, replicas, 1, rows_per_segment=4_000))
        wait_for(lambda n=replicas: len(cluster.tasks()) == n, 90, "the replicas run")  # type: ignore[misc]
        time.sleep(40)
        for task in cluster.tasks():
            counted = status_of(task)["pauses"]
            mean = counted["pausedMs"] / max(1, counted["pauses"])
            print(
                f"{replicas} replicas: {counted['pauses']} pauses, mean {mean:.0f} ms, "
                f"{counted['pausedMsLongest']} ms most"
            )
    flow.stop()


def test_time_to_adopt_twenty_tasks(cluster: ChaosCluster) -> None:
    tasks = 20
    worker = cluster.workers[0]
    cluster.workers[1].stop()
    worker.kill()
    worker.config.write_text(worker.config.read_text().replace('"capacity": 6', f'"capacity": {tasks}'))
    worker.start()
    topic = create_topic(cluster.kafka.bootstrap, tasks)
    flow = Flow(cluster.kafka.bootstrap, topic, partitions=tasks, rate=RATE, transactional=False)
    cluster.front.client.submit(spec(cluster.bootstrap, topic, 1, tasks, rows_per_segment=100_000))
    flow.start()
    wait_for(lambda: len(worker.task_processes()) == tasks, 180, "twenty tasks run")
    before = {task.pid for task in worker.task_processes()}
    with Reading(cluster, every_s=0.3) as reading:  # asking twenty tasks costs them something
        time.sleep(5)
        since = time.monotonic()
        worker.kill()
        worker.spawn()
        client = Client(worker.client.url, timeout_s=2.0)
        wait_for(lambda: _adopted(client) == tasks, 90, "all are adopted")
        took = time.monotonic() - since
        time.sleep(5)
        print(f"{tasks} tasks adopted {took:.2f} s after kill -9 and start of their middle manager")
        print(f"longest stand-still of all of them together {reading.gap(since, time.monotonic()):.2f} s")
    print(worker.tail(8))
    assert {task.pid for task in worker.task_processes()} == before
    flow.stop()


def _adopted(client: Client) -> int:
    try:
        return len(client.get("/druid/worker/v1/tasks"))
    except ClientError:
        return 0
