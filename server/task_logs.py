"""Finds the log of a task: on this machine if its worker is here, else by asking that worker."""

from __future__ import annotations

from urllib.parse import quote

from ingest.protocol import AttemptRecord
from server.api.worker import read_from
from server.http_pool import HttpPool, Unanswered
from server.parts import Parts

READ_S = 10.0


class TaskLogs:
    """``server.api.tasks.LogReader``; safe from any thread."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._pool = HttpPool()

    def read(self, attempt: AttemptRecord, offset: int) -> bytes | None:
        """From ``offset`` on, the tail when negative; None when no worker that answers has it."""
        here = self._parts.middle_manager
        if here is not None:
            path = here.log_path(attempt.task_id, attempt.attempt)
            if path is not None and path.exists():
                return read_from(path, offset)
        overlord = self._parts.overlord
        if overlord is None:
            return None
        for beat, _ in overlord.workers():
            if beat.worker == attempt.worker and beat.address != self._parts.address:
                return self._ask(beat.address, attempt.task_id, offset)
        return None

    def _ask(self, address: str, task: str, offset: int) -> bytes | None:
        url = f"http://{address}/druid/worker/v1/task/{quote(task, safe='')}/log?offset={offset}"
        try:
            status, body = self._pool.request("GET", url, read_s=READ_S)
        except Unanswered:
            return None
        return body if status == 200 else None
