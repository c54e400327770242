"""What keeps a process from starting is one clear line: a port, a directory, another instance."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from ingest.clock import ManualClock
from ingest.metadata.memory import MemoryMetadataStore
from segments.storage.local import LocalDeepStorage
from segments.storage.memory import MemoryDeepStorage
from server.config import HttpSettings
from server.data_dir import DataDirUnusable, open_data_dir
from server.health import Health
from server.monitor import STORAGE_ILL_MS, Monitor
from server.process import CannotListen, Front, listen
from server.stopping import Stopping


def test_a_port_in_use_is_named_with_a_cure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CannotListen, match=f"http.port {port} on 127.0.0.1 is in use.*--port"):
            listen(HttpSettings(port=port))


def test_port_0_takes_a_free_one() -> None:
    with listen(HttpSettings(port=0)) as listener:
        assert listener.getsockname()[1] > 0


def test_a_data_directory_serves_one_process_and_keeps_its_name_and_secret(tmp_path: Path) -> None:
    first = open_data_dir(tmp_path / "data", None)
    with pytest.raises(DataDirUnusable, match=rf"in use by another instance \(process {os.getpid()}\)"):
        open_data_dir(tmp_path / "data", None)
    first.close()
    again = open_data_dir(tmp_path / "data", None)
    assert (again.node, again.secret) == (first.node, first.secret)
    assert (tmp_path / "data" / "secret").stat().st_mode & 0o077 == 0
    again.close()
    told = open_data_dir(tmp_path / "data", "ours")
    assert told.secret == "ours"
    told.close()


def test_copies_that_a_killed_process_was_working_on_are_removed_at_the_next_start(tmp_path: Path) -> None:
    first = open_data_dir(tmp_path, None)
    (first.scratch / "verify-abc").mkdir()
    (first.scratch / "verify-abc" / "segment.parquet").write_bytes(b"pulled")
    first.close()
    again = open_data_dir(tmp_path, None)
    assert list(again.scratch.iterdir()) == []
    again.close()


def test_a_data_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataDirUnusable, match="cannot be used"):
        open_data_dir(tmp_path / "file" / "data", None)


def test_until_the_services_are_there_every_route_says_what_is_waited_for() -> None:
    health = Health()
    client = TestClient(Front(health, Stopping(5, health)))
    assert client.get("/druid/v2/sql").status_code == 503
    health.report("metadata", "database x did not answer")
    answer = client.get("/status/health")
    assert answer.status_code == 503 and answer.json()["faults"] == {"metadata": "database x did not answer"}


def test_the_monitor_tells_faults_and_takes_them_back(tmp_path: Path) -> None:
    clock, health, storage = ManualClock(), Health(), MemoryDeepStorage()
    monitor = Monitor(health, storage, MemoryMetadataStore(), tmp_path, clock)
    monitor.look()
    assert health.faults() == {}
    beats: list[int] = []
    monitor.announce(lambda: beats.append(1))
    monitor.look()
    assert beats == [1] and health.faults() == {}

    def break_() -> None:
        raise KeyError("not of ours")

    monitor.announce(break_)
    monitor.look()
    assert health.faults() == {"announcement": "KeyError: 'not of ours'"}, "the next round takes place"
    monitor.announce(lambda: beats.append(2))
    monitor.look()
    assert health.faults() == {}
    broken = Monitor(health, LocalDeepStorage(tmp_path / "file" / "deep"), None, tmp_path, clock)
    (tmp_path / "file").write_text("")
    broken.look_at_storage()
    assert "file" in health.faults()["deep_storage"]
    (tmp_path / "file").unlink()
    broken.look_at_storage()
    assert "deep_storage" in health.faults(), "it is not asked all the time"
    clock.advance(STORAGE_ILL_MS)
    broken.look_at_storage()
    assert health.faults() == {}
    gone = Monitor(health, storage, None, tmp_path / "gone", clock)
    gone.look()
    assert "gone" in health.faults()["disk"]
