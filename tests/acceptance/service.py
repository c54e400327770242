"""Siltstone as its users have it: `siltstone serve` in a process, asked over HTTP and by the command line only."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ingest.task.directory import AttemptDirectory, ProcessIdentity, boot_id, start_ticks
from siltstone import Client, ClientError
from tests.servers.process import Server, free_ports
from tests.servers.topics import wait_for

ROOT = Path(__file__).resolve().parents[2]


class Service(Server):
    """One process with every role on its own data directory. Its tasks are ended when the test is over."""

    def __init__(self, home: Path, settings: Mapping[str, Any] | None = None, **environment: str) -> None:
        super().__init__(home)
        [self.port] = free_ports(1)
        self.client = Client(f"http://127.0.0.1:{self.port}", timeout_s=90.0)
        self.config = home / "siltstone.yaml"
        told = dict(settings or {})
        http = {"port": self.port, **told.pop("http", {})}
        content = {"data_dir": str(home / "data"), "http": http, **told}
        self.config.write_text(json.dumps(content))  # JSON is YAML
        self._environment = environment

    def command(self) -> Sequence[str | Path]:
        return [sys.executable, "-m", "server", "serve", "--config", self.config]

    def environment(self) -> Mapping[str, str]:
        return {**os.environ, "PYTHONPATH": str(ROOT), **self._environment}

    def ready(self) -> bool:
        with suppress(ClientError):
            return self.client.health() and self.client.leads()
        return False

    def cli(self, *words: str, code: int = 0) -> str:
        """Runs a command of the command line; its standard output."""
        done = subprocess.run(
            [sys.executable, "-m", "server", *words],
            env={**self.environment(), "SILTSTONE_URL": self.client.url},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == code, f"{words} ended with {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout

    def query(self, sql: str) -> dict[str, Any]:
        """The first row of a query by the command line."""
        row: dict[str, Any] = json.loads(self.cli("query", sql, "--json"))[0]
        return row

    def published(self, table: str) -> int:
        """Rows in published segments; all of them once no task is left with any."""
        return 0 if self.task_processes() else sum(int(each["num_rows"]) for each in self.client.segments(table))

    def verify(self, table: str) -> dict[str, int]:
        """Proves a table; what was checked."""
        report = json.loads(self.cli("verify", table, "--json"))
        assert report["faults"] == []
        checked: dict[str, int] = report["checked"]
        return checked

    def task_processes(self) -> list[ProcessIdentity]:
        """The processes of the tasks that run now, found where an operator would look: by their state directories."""
        attempts = self.home / "data" / "tasks" / "attempts"
        found = []
        for path in sorted(attempts.iterdir()) if attempts.exists() else ():
            identity = AttemptDirectory(path).identity()
            if identity is not None and _is_alive(identity):
                found.append(identity)
        return found

    def end_tasks(self) -> None:
        """Kills what the service has left running, as it should."""
        for identity in self.task_processes():
            with suppress(ProcessLookupError):
                os.kill(identity.pid, signal.SIGKILL)
        wait_for(lambda: not self.task_processes(), what="tasks gone")

    def __exit__(self, *ended_by: Any) -> None:
        self.stop(patience_s=30)
        self.end_tasks()


def _is_alive(identity: ProcessIdentity) -> bool:
    return identity.boot_id == boot_id() and start_ticks(identity.pid) == identity.start_ticks
