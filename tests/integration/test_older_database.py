"""The service on a database that was replaced by an older copy while it was down, and with it running on."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from siltstone import ApiError, Client, ClientError
from tests.acceptance.service import Service
from tests.servers.topics import wait_for

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


def faults(client: Client) -> dict[str, Any]:
    """What ``/status/health`` names; empty when all is well or nobody answers."""
    try:
        client.get("/status/health")
    except ApiError as error:
        found: dict[str, Any] = error.body["faults"]
        return found
    except ClientError:
        pass
    return {}


def replace(database: Path, copy: Path) -> None:
    for tail in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            database.with_name(database.name + tail).unlink()
    shutil.copy(copy, database)


def test_an_older_database_is_named_and_left_alone_until_the_newer_one_is_back_or_given_up(tmp_path: Path) -> None:
    database, older, newer = (tmp_path / name for name in ("data/metadata.db", "older.db", "newer.db"))
    with Service(tmp_path) as service:
        service.stop()
        shutil.copy(database, older)  # a stop leaves everything in the one file
        service.start()
        service.stop()
        shutil.copy(database, newer)
        replace(database, older)
        service.spawn()
        wait_for(lambda: "older copy" in faults(service.client).get("metadata", ""), 90, "the copy is named")
        assert "generation 2 has led, and 1 is the last there" in faults(service.client)["metadata"]
        with pytest.raises(ApiError) as refused:
            service.client.supervisors()
        assert refused.value.status == 503 and "accept-database" in str(refused.value)
        assert database.read_bytes() == older.read_bytes(), "nothing was written"
        replace(database, newer)
        wait_for(service.ready, 90, "all is well with the newer one, without a restart")
        service.cli("accept-database", "--config", str(service.config), "--yes", code=1)  # it is running
        service.stop()
        replace(database, older)
        told = service.cli("accept-database", "--config", str(service.config), "--yes")
        assert told.startswith("0 task attempts removed")
        service.start()
        assert service.client.health()
