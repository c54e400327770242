"""An overlord and a middle manager with real task processes, over SQLite and local deep storage.

``Node`` runs in the test's process, or as ``python -m tests.integration.harness ROOT PORT`` in one
of its own that a test may kill. ``Cluster`` looks at what it left: database, attempts, tasks.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette

from ingest.clock import SystemClock
from ingest.metadata.records import LedgerRow
from ingest.metadata.sql import open_store
from ingest.offsets import OffsetMap
from ingest.overlord.leader import LeaderSettings
from ingest.overlord.overlord import Overlord
from ingest.overlord.term import OverlordPorts
from ingest.protocol import AttemptRecord
from ingest.task.directory import AttemptDirectory
from ingest.worker.launchers import ForkserverLauncher
from ingest.worker.middle_manager import MiddleManager, WorkerSettings
from query.source import LiveAttempt
from segments.live import LiveAnswer, LiveAsk
from segments.storage.local import LocalDeepStorage
from server.api.internal import internal_routes
from server.belonging import Belonging
from server.clients import HttpLiveSource, HttpTaskChallenge, HttpTaskClient, HttpWorkers
from server.config import LocalStorage
from server.http_pool import HttpPool
from server.suppliers import kafka_observer
from server.task_settings import TaskSettings, storage_section
from tests.servers.process import free_ports

HOUR_MS = 3_600_000
NOON_MS = 1_780_000_000_000 // HOUR_MS * HOUR_MS
SECRET = "secret-of-the-tests"


PATIENCE_S = 150.0
"""Processes that start in two seconds took forty on a machine with forty others to do; only a failure waits so long."""


def eventually(
    condition: Callable[[], object], deadline_s: float = PATIENCE_S, what: Callable[[], object] = str
) -> None:
    """Polls until the condition holds; fails with what ``what`` says after the deadline."""
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, f"not within {deadline_s} s: {what()}"
        time.sleep(0.05)  # most conditions open the database, which who is waited for wants to write


def spec(bootstrap: str, topic: str, **settings: Any) -> dict[str, Any]:
    """A supervisor ``clicks`` over hourly segments; ioConfig's names go there, the rest is tuning."""
    io = {name: settings.pop(name) for name in ("replicas", "taskCount", "taskDuration") if name in settings}
    return {
        "type": "kafka",
        "spec": {
            "dataSchema": {
                "dataSource": "clicks",
                "timestampSpec": {"column": "at", "format": "millis"},
                "dimensionsSpec": {"dimensions": ["page", {"type": "long", "name": "n"}]},
                "granularitySpec": {"segmentGranularity": "HOUR", "queryGranularity": "NONE", "rollup": False},
            },
            "ioConfig": {
                "topic": topic,
                "inputFormat": {"type": "json"},
                "consumerProperties": {"bootstrap.servers": bootstrap},
                "useEarliestOffset": True,
                **io,
            },
            "tuningConfig": {"type": "kafka", **settings},
        },
    }


def click(n: int, at_ms: int = NOON_MS) -> bytes:
    return json.dumps({"at": at_ms, "page": f"p{n % 7}", "n": n}).encode()


class Node:
    """Overlord, middle manager and their HTTP in the calling process."""

    def __init__(self, root: Path, port: int, worker: str = "w1") -> None:
        self.clock = SystemClock()
        self.store = open_store(f"sqlite:///{root / 'metadata.db'}", create=True)
        self.storage = LocalDeepStorage(root / "segments")
        self.pool = HttpPool()
        address = f"127.0.0.1:{port}"
        self.url = f"http://{address}"
        ports = OverlordPorts(
            self.store,
            self.storage,
            HttpTaskClient(self.pool),
            kafka_observer,
            lambda: secrets.token_hex(16),
            self.clock,
        )
        self.overlord = Overlord(ports, LeaderSettings(address, address, lease_ms=2_000))
        self._server = uvicorn.Server(
            uvicorn.Config(
                Belonging(Starlette(routes=internal_routes(self.overlord, SECRET)), self.store.database_id()),
                port=port,
                log_level="warning",
                lifespan="off",
            )
        )
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        worker_root = root / worker
        section = storage_section(LocalStorage(), root / "segments")
        TaskSettings((self.url,), "127.0.0.1", "127.0.0.1", section, 1 << 30).write(worker_root)
        self.middle_manager = MiddleManager(
            WorkerSettings(worker_root, worker, address, 6),
            HttpWorkers([self.url], self.pool, SECRET),
            ForkserverLauncher("server.peon:run"),
            HttpTaskChallenge(self.pool),
            self.clock,
        )

    def start(self) -> None:
        self._thread.start()
        eventually(lambda: self._server.started)
        self.overlord.start()
        self.middle_manager.start()
        eventually(lambda: self.overlord.is_leading and self.overlord.workers())

    def stop(self) -> None:
        self.middle_manager.stop()
        self.overlord.stop()
        self._server.should_exit = True
        self._thread.join(5)
        self.store.close()


@dataclass
class Cluster:
    """What runs under one root: a node here or in a process, and its tasks. ``end`` kills the tasks by their pids."""

    root: Path
    port: int
    node: Node | None = None
    process: subprocess.Popen[bytes] | None = None

    @staticmethod
    def under(root: Path) -> Cluster:
        return Cluster(root, free_ports(1)[0])

    def start(self) -> Node:
        self.node = Node(self.root, self.port)
        self.node.start()
        return self.node

    def stop(self) -> None:
        if self.node is not None:
            self.node.stop()
            self.node = None

    def start_process(self, posted: dict[str, Any] | None = None) -> None:
        """The node as a process of its own; with a spec it submits that first."""
        if posted is not None:
            (self.root / "spec.json").write_text(json.dumps(posted))
        command = [sys.executable, "-m", "tests.integration.harness", str(self.root), str(self.port)]
        with (self.root / "node.log").open("ab") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)

    def kill_process(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.process = None

    def end(self) -> None:
        self.stop()
        if self.process is not None:
            self.kill_process()
        for path in self.root.glob("*/attempts/*"):
            directory = AttemptDirectory(path)
            identity = directory.identity()
            if identity is not None and not directory.has_ended():
                with suppress(ProcessLookupError):
                    os.kill(identity.pid, signal.SIGKILL)

    # ---------------------------------------------------------------- what is there

    def attempts(self) -> list[AttemptRecord]:
        """Live attempts with an address."""
        with closing_store(self.root) as store:
            return [a for a in store.attempts(None, True, 100) if a.address is not None]

    def pid(self, attempt: AttemptRecord) -> int:
        for path in self.root.glob("*/attempts/*"):
            identity = AttemptDirectory(path).identity()
            if identity is not None and identity.token == attempt.token:
                return identity.pid
        raise AssertionError(f"no process of {attempt.task_id}")

    def ledger(self) -> list[LedgerRow]:
        with closing_store(self.root) as store:
            rows: list[LedgerRow] = store.ledger("clicks", 0, 10_000)
            return rows

    def rows_published(self) -> int:
        return sum(row.rows_stored for row in self.ledger())

    def await_rows(self, count: int) -> None:
        """Waits until at least so many rows are published."""
        eventually(lambda: self.rows_published() >= count, PATIENCE_S, self.logs)

    def positions(self) -> OffsetMap:
        found = [attempt.positions for attempt in self.attempts()]
        return max(found, key=lambda positions: sum(positions.values()), default=OffsetMap())

    def ask_live(self, attempt: AttemptRecord, committed: OffsetMap) -> LiveAnswer:
        """What a query node would hear of the attempt's rows past ``committed``."""
        assert attempt.address is not None
        live = LiveAttempt(attempt.supervisor, attempt.group, attempt.token, attempt.address, attempt.committer)
        ask = LiveAsk(1 << 40, attempt.group, dict(committed), dict.fromkeys(committed, 0))
        return HttpLiveSource(HttpPool()).ask(live, ask, 5_000)

    def check_chain(self) -> None:
        """Published ranges join per partition, count their offsets, and end at the committed offsets."""
        at: dict[int, int] = {}
        for row in self.ledger():
            for partition, start in row.start.items():
                assert at.get(partition, 0) == start, row
                at[partition] = row.end[partition]
                assert row.counts[partition].offsets == row.end[partition] - start
        with closing_store(self.root) as store:
            topics = {row.topic for row in self.ledger()}
            for topic in topics:
                stored = store.offsets("clicks", topic)
                assert stored is not None
                assert {p: o for p, o in stored.committed.items() if o} == {p: o for p, o in at.items() if o}

    def logs(self) -> str:
        """The ends of all logs, for a failing test."""
        texts = [path.read_text()[-2_000:] for path in self.root.glob("*/attempts/*/log.txt")]
        node = self.root / "node.log"
        return "\n".join([*texts, node.read_text()[-3_000:] if node.exists() else ""])


class closing_store:
    """The database, opened for one look."""

    def __init__(self, root: Path) -> None:
        self._store = open_store(f"sqlite:///{root / 'metadata.db'}", create=True)

    def __enter__(self) -> Any:
        return self._store

    def __exit__(self, *_: object) -> None:
        self._store.close()


def main() -> None:
    root, port = Path(sys.argv[1]), int(sys.argv[2])
    node = Node(root, port)
    node.start()
    posted = root / "spec.json"
    if posted.exists():
        node.overlord.submit(json.loads(posted.read_text()))
    signal.pause()


if __name__ == "__main__":
    main()
