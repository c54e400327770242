"""kill -9 of tasks and of the whole server in the middle of everything: nothing lost, doubled or hidden."""

from __future__ import annotations

import json
import os
import signal
import urllib.request
from functools import partial
from pathlib import Path

import pytest

from ingest.task.directory import ProcessIdentity
from server.task_control import TOKEN_HEADER
from tests.acceptance.edits import PARTITIONS, Edits, facts, spec
from tests.acceptance.service import Service
from tests.acceptance.watcher import Watcher
from tests.servers.kafka import KafkaCluster
from tests.servers.topics import create_topic, wait_for

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

COUNT = 8_000
RATE = 800
KILLS = 3


@pytest.mark.parametrize("replicas", [1, 2])
def test_killed_tasks_lose_nothing_while_reading_and_publishing(
    kafka: KafkaCluster, tmp_path: Path, replicas: int
) -> None:
    topic = create_topic(kafka.bootstrap, PARTITIONS)
    with Service(tmp_path) as service, Edits(kafka.bootstrap, topic, rate=RATE, count=COUNT) as edits:
        # Small segments: at this rate something is being published nearly all the time.
        service.client.submit(spec(kafka.bootstrap, topic, replicas=replicas, maxRowsPerSegment=400))
        with Watcher(service.client, "wikipedia", lambda: edits.sent) as watcher:
            killed: set[int] = set()
            for _ in range(KILLS):
                known = watcher.last[0]
                wait_for(partial(_has_grown, watcher, known + 300), 120, "rows arrive")
                wait_for(lambda: len(service.task_processes()) >= replicas, 120, "tasks run")
                victim = service.task_processes()[0].pid
                os.kill(victim, signal.SIGKILL)
                killed.add(victim)
            wait_for(lambda: watcher.last[0] == edits.all_sent(), 90, "every row is seen")
            # What was seen must be published by a suspension, whoever dies before it was even reported.
            service.client.supervisor_action("wikipedia", "suspend")
            for process in service.task_processes()[:1]:
                os.kill(process.pid, signal.SIGKILL)
            wait_for(lambda: service.published("wikipedia") == COUNT, 90, "everything is published")
        watcher.assert_exact(facts(COUNT))
        assert len(killed) == KILLS
        assert service.verify("wikipedia")["rows"] == COUNT


def test_tasks_read_on_without_their_server_and_the_next_one_adopts_them(kafka: KafkaCluster, tmp_path: Path) -> None:
    topic = create_topic(kafka.bootstrap, PARTITIONS)
    with Service(tmp_path) as service, Edits(kafka.bootstrap, topic, rate=RATE, count=COUNT) as edits:
        service.client.submit(spec(kafka.bootstrap, topic, replicas=2, maxRowsPerSegment=1_000))
        with Watcher(service.client, "wikipedia", lambda: edits.sent) as watcher:
            wait_for(lambda: watcher.last[0] >= 1_000, 120, "rows arrive")
            wait_for(lambda: len(service.task_processes()) == 2, 120, "both replicas run")
            before = service.task_processes()
            service.kill()
            reached = _positions(before[0])
            wait_for(lambda: _positions(before[0]) > reached, 90, "the task reads on without a server")
            service.start()
            assert [task.pid for task in service.task_processes()] == [task.pid for task in before]
            wait_for(lambda: watcher.last[0] == edits.all_sent(), 90, "every row is seen")
            assert {task.pid for task in before} <= {task.pid for task in service.task_processes()}
            service.client.supervisor_action("wikipedia", "suspend")
            wait_for(lambda: service.published("wikipedia") == COUNT, 90, "everything is published")
        watcher.assert_exact(facts(COUNT))
        assert service.verify("wikipedia")["rows"] == COUNT


def _has_grown(watcher: Watcher, count: int) -> bool:
    return watcher.last[0] >= count


def _positions(task: ProcessIdentity) -> int:
    """How far a task has read, asked of itself: its server is gone."""
    request = urllib.request.Request(f"http://{task.address}/v1/status", headers={TOKEN_HEADER: task.token})
    with urllib.request.urlopen(request, timeout=10) as answer:
        status = json.load(answer)
    return sum(int(offset) for offset in status["positions"].values())
