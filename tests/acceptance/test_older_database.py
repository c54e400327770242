"""Nightly: a fail-over to a database that lost the last commits is named, and the runbook's cure brings all back."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from siltstone import ApiError, ClientError
from tests.acceptance.service import Service
from tests.acceptance.table import COUNT, Table
from tests.servers.fixtures import missing
from tests.servers.kafka import KafkaCluster
from tests.servers.postgres import Postgres, postgres_binaries
from tests.servers.topics import wait_for

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def database() -> Iterator[Postgres]:
    """A server that this test may replace by a copy of itself."""
    if postgres_binaries() is None:
        missing("the PostgreSQL server", "apt-get install -y postgresql")
    server = Postgres(durable=True)
    with server:
        yield server
    shutil.rmtree(server.home, ignore_errors=True)


def copied(source: Path, to: Path) -> None:
    """With its owner and rights, without which the server refuses it."""
    shutil.rmtree(to, ignore_errors=True)
    subprocess.run(["cp", "-a", source, to], check=True)


def test_an_older_copy_of_the_database_is_named_and_the_runbook_reads_the_rest_again(
    kafka: KafkaCluster, database: Postgres, tmp_path: Path
) -> None:
    service = Service(tmp_path, {"metadata": {"url": database.url()}})
    service.patience_s = 180.0
    service.cli("migrate", "--config", str(service.config))
    data, kept = database.home / "data", database.home / "kept"
    with service:
        table = Table(service, kafka.bootstrap)
        table.send()
        table.client.submit(table.spec(maxTotalRows=COUNT // 4))
        wait_for(lambda: table.published() == COUNT, 90, "the first half is published")
        database.stop()
        copied(data, kept)
        database.start()
        wait_for(service.ready, 120, "the service leads again")
        table.send()
        wait_for(lambda: table.published() == 2 * COUNT, 90, "the second half is published")
        assert table.count() == 2 * COUNT
        files = contents(tmp_path / "data" / "segments")
        database.stop()
        copied(kept, data)
        database.start()
        wait_for(lambda: "is older than it was" in str(health(service)), 120, "health names it")
        assert counted(table) in (-1, 2 * COUNT), "what was loaded is answered, or nothing, never less"
        assert files.items() <= contents(tmp_path / "data" / "segments").items(), "no file was overwritten"
        # The cure as docs/operations.md has it.
        service.stop(patience_s=30)
        service.cli("accept-database", "--config", str(service.config), "--yes")
        assert not service.task_processes()
        service.start()
        wait_for(lambda: counted(table) == 2 * COUNT, 90, "what the copy did not know is read again")
        table.rest(2 * COUNT)
        assert table.count() == 2 * COUNT
        assert files.items() <= contents(tmp_path / "data" / "segments").items()
        report = json.loads(service.cli("verify", table.name, "--json", code=1))
        left = [fault for fault in report["faults"] if "that no row names" in fault]
        assert left == report["faults"], "nothing is wrong but files of what the copy had forgotten"
        assert report["checked"]["rows"] == 2 * COUNT


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*.parquet")}


def counted(table: Table) -> int:
    with suppress(ClientError):
        return table.count()
    return -1


def health(service: Service) -> dict[str, str]:
    try:
        service.client.health()
    except ApiError as error:
        found: dict[str, str] = error.body["faults"]
        return found
    return {}
