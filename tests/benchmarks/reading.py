"""Watches from outside how far the tasks of a supervisor have read, to find how long nothing was read."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from typing import Any

from ingest.task.directory import ProcessIdentity
from server.task_control import TOKEN_HEADER
from tests.chaos.cluster import ChaosCluster

EVERY_S = 0.02


def status_of(task: ProcessIdentity) -> dict[str, Any]:
    """The task's own status document, past every other process."""
    request = urllib.request.Request(f"http://{task.address}/v1/status", headers={TOKEN_HEADER: task.token})
    with urllib.request.urlopen(request, timeout=1) as answer:
        document: dict[str, Any] = json.load(answer)
    return document


class Reading:
    """One thread that asks every task; ``gap`` tells the longest time in which no replica of a partition moved."""

    def __init__(self, cluster: ChaosCluster, every_s: float = EVERY_S) -> None:
        self._cluster = cluster
        self._every_s = every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reading", daemon=True)
        self._moved: list[float] = []
        self.furthest: dict[str, int] = {}

    def __enter__(self) -> Reading:
        self._thread.start()
        return self

    def __exit__(self, *ended_by: Any) -> None:
        self._stop.set()
        self._thread.join()

    def gap(self, since: float, until: float) -> float:
        """Seconds of the longest stand-still that overlaps ``[since, until]`` (``time.monotonic``)."""
        moved = [since, *(at for at in self._moved if since <= at <= until), until]
        return max(later - earlier for earlier, later in zip(moved, moved[1:], strict=False))

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            for task in self._cluster.tasks():
                try:
                    positions = status_of(task)["positions"]
                except (OSError, ValueError):
                    continue
                ahead = {p: int(at) for p, at in positions.items() if int(at) > self.furthest.get(p, -1)}
                if ahead:
                    self.furthest |= ahead
                    self._moved.append(time.monotonic())
