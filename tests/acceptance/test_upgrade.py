"""An upgrade by a restart: tasks of the older version are adopted, go on, and are replaced at their sequence end."""

from __future__ import annotations

import json
import shutil
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ingest.protocol import PROTOCOL_VERSION
from ingest.task.directory import ProcessIdentity
from server.task_control import TOKEN_HEADER
from tests.acceptance.edits import PARTITIONS, facts, lines, spec
from tests.acceptance.service import ROOT, Service
from tests.acceptance.watcher import Watcher
from tests.servers.kafka import KafkaCluster
from tests.servers.topics import create_topic, produce, wait_for

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(600)]

PACKAGES = ("ingest", "migrations", "query", "segments", "server", "siltstone")
LIMIT = 3_000


class Installed(Service):
    """The service as installed in ``code``, the present one or another."""

    code = ROOT

    def environment(self) -> Mapping[str, str]:
        return {**super().environment(), "PYTHONPATH": str(self.code)}


def older_version(folder: Path) -> Path:
    """An installation of its own whose every process speaks the protocol before the present one."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package)
    file = folder / "ingest" / "protocol" / "sequences.py"
    present = f"PROTOCOL_VERSION: Final = {PROTOCOL_VERSION}"
    text = file.read_text()
    assert present in text
    file.write_text(text.replace(present, f"PROTOCOL_VERSION: Final = {PROTOCOL_VERSION - 1}"))
    return folder


@pytest.mark.parametrize("replicas", [1, 2])
def test_tasks_of_an_older_version_are_adopted_and_replaced_where_their_sequence_ends(
    kafka: KafkaCluster, tmp_path: Path, replicas: int
) -> None:
    topic, sent = create_topic(kafka.bootstrap, PARTITIONS), 0

    def send(until: int) -> None:
        nonlocal sent
        batch, first, sent = lines()[sent:until], sent, until
        for partition in range(PARTITIONS):
            produce(kafka.bootstrap, topic, batch[(partition - first) % PARTITIONS :: PARTITIONS], partition=partition)

    service = Installed(tmp_path / "home")
    service.code = older_version(tmp_path / "older")
    with service, Watcher(service.client, "wikipedia", lambda: sent) as watcher:
        service.client.submit(spec(kafka.bootstrap, topic, replicas=replicas, maxTotalRows=LIMIT))
        send(1_000)
        wait_for(lambda: watcher.last[0] == 1_000, 120, "rows are seen")
        wait_for(lambda: len(service.task_processes()) == replicas, 120, "every replica runs")
        older = service.task_processes()
        assert {task.protocol for task in older} == {PROTOCOL_VERSION - 1}

        service.stop()
        service.code = ROOT
        send(1_500)
        service.start()
        send(2_000)
        wait_for(lambda: watcher.last[0] == 2_000, 120, "they are adopted, read on and answer")
        assert pids(service.task_processes()) == pids(older)
        assert all(read_so_far(task) == 2_000 for task in older), "by no other"

        send(6_000)  # past the end of their sequence
        wait_for(lambda: not pids(service.task_processes()) & pids(older), 90, "the older ones have ended")
        send(8_000)
        wait_for(lambda: watcher.last[0] == 8_000, 120, "their successors read on")
        assert {task.protocol for task in service.task_processes()} == {PROTOCOL_VERSION}
        assert {entry["statusCode"] for entry in ended(service, older)} == {"SUCCESS"}, "nobody was killed for it"
        service.client.supervisor_action("wikipedia", "suspend")
        wait_for(lambda: service.published("wikipedia") == 8_000, 90, "everything is published")
        watcher.assert_exact(facts(8_000))
        assert service.verify("wikipedia")["rows"] == 8_000


def pids(tasks: list[ProcessIdentity]) -> set[int]:
    return {task.pid for task in tasks}


def read_so_far(task: ProcessIdentity) -> int:
    """Records before its positions, asked of itself."""
    request = urllib.request.Request(f"http://{task.address}/v1/status", headers={TOKEN_HEADER: task.token})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return sum(int(offset) for offset in json.load(answer)["positions"].values())


def ended(service: Service, tasks: list[ProcessIdentity]) -> list[dict[str, Any]]:
    """What the API says of the tasks whose processes these were."""
    names = {
        json.loads(path.with_name("task.json").read_text())["task_id"]
        for path in service.home.glob("data/tasks/attempts/*/process.json")
        if json.loads(path.read_text())["token"] in {task.token for task in tasks}
    }
    assert len(names) == len(tasks)
    return [entry for entry in service.client.tasks() if entry["id"] in names]
