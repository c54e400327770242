"""Nightly: a second service on another data directory takes the port of the first, whose tasks outlive that."""

from __future__ import annotations

from pathlib import Path

import pytest

from siltstone import Client
from tests.acceptance.service import Service
from tests.acceptance.table import COUNT, Table
from tests.servers.kfake import Kfake
from tests.servers.topics import wait_for

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(600)]


def logs(service: Service) -> str:
    """What the service's tasks have logged."""
    attempts = service.home / "data" / "tasks" / "attempts"
    return "".join(path.read_text() for path in attempts.glob("*/log.txt"))


def test_tasks_wait_for_their_own_service_while_another_listens_on_its_address(kfake: Kfake, tmp_path: Path) -> None:
    first_home, second_home = tmp_path / "first", tmp_path / "second"
    first_home.mkdir()
    second_home.mkdir()
    first = Service(first_home)
    second = Service(second_home, {"http": {"port": first.port}})
    second.port, second.client = first.port, Client(first.client.url, timeout_s=90.0)
    with first:
        table = Table(first, kfake.bootstrap)
        table.client.submit(table.spec())
        table.send()
        wait_for(lambda: table.count() == COUNT, 90, "all rows are seen")
        pids = sorted(identity.pid for identity in first.task_processes())
        first.stop(patience_s=60)
        with second:
            wait_for(lambda: "service of another metadata database" in logs(first), 60, "its tasks meet the other one")
            assert second.client.supervisors() == [] and second.client.tasks() == []
            assert sorted(identity.pid for identity in first.task_processes()) == pids, "none has ended"
        first.start()
        wait_for(lambda: "overlord reached again" in logs(first), 60, "they meet their own again")
        assert table.count() == COUNT
        assert sorted(identity.pid for identity in first.task_processes()) == pids
        table.rest(COUNT)
        assert first.verify(table.name)["rows"] == COUNT
