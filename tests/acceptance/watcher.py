"""Asks for count and sum all the time and holds every answer to the promises: never fewer, never more than sent."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from siltstone import Client, ClientError
from tests.acceptance.edits import Facts


class Watcher:
    """One thread. A query may fail by name while something is down; an answer may never be wrong."""

    def __init__(self, client: Client, table: str, sent: Callable[[], int]) -> None:
        self._client = Client(client.url, timeout_s=20.0)
        self._sql = f'SELECT COUNT(*) AS n, SUM(added) AS added FROM "{table}"'
        self._sent = sent
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.answers = 0
        self.failures: list[str] = []
        self.faults: list[str] = []
        self.last = (0, 0)

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *ended_by: Any) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                rows = self._client.sql(self._sql)
            except ClientError as error:
                self.failures.append(str(error))
            else:
                self._judge(int(rows[0]["n"]), int(rows[0]["added"] or 0))
            self._stop.wait(0.02)

    def _judge(self, count: int, added: int) -> None:
        most = self._sent()
        self.answers += 1
        if count < self.last[0] or added < self.last[1]:
            self.faults.append(f"answer {self.answers}: {self.last} fell to {(count, added)}")
        if count > most:
            self.faults.append(f"answer {self.answers}: {count} rows of {most} that were sent")
        self.last = (max(self.last[0], count), max(self.last[1], added))

    def assert_exact(self, expected: Facts) -> None:
        """No answer was wrong, and the last one is what was sent."""
        print(f"{self.answers} answers, {len(self.failures)} failures, last {self.last}")
        assert self.faults == []
        assert self.answers > 10, self.failures[-3:]
        assert self.last == (expected.rows, expected.added)
