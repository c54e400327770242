"""Lets one machine forget what it knows of a metadata database that was lost, so that an older copy can be used.

What survives of the lost commits outside of the database are the state directories of tasks, which hold
ends, tokens and rows that the copy does not know, and the note of how far the database was seen.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from ingest.clock import SystemClock
from ingest.task.directory import AttemptDirectory
from ingest.wire import WireError
from ingest.worker.held_task import find_running
from ingest.worker.stopping import stop_tasks
from segments.errors import ServiceError
from server.clients import HttpTaskChallenge
from server.config import Settings
from server.data_dir import open_data_dir
from server.http_pool import HttpPool

TASKS_END_S = 20.0


class TasksRun(ServiceError):
    """Task processes of this machine go on: what they know must not be taken from under them."""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was removed: state directories of task attempts, and whether there was a note of the database."""

    attempts: int
    note: bool


def forget_newer_database(settings: Settings) -> Forgotten:
    """Ends the machine's tasks and removes their rows and the note. The database is not touched; everything after
    its committed offsets is read again from the stream.

    Raises:
        DataDirUnusable: a process of the service still runs on the data directory.
        TasksRun: a task did not end in time, or does not prove that it is one.
    """
    data = open_data_dir(settings.data_dir, settings.secret)
    pool = HttpPool()
    try:
        stop_tasks(data.tasks, HttpTaskChallenge(pool), TASKS_END_S, SystemClock())
        attempts = data.tasks / "attempts"
        found = sorted(attempts.iterdir()) if attempts.exists() else []
        running = [str(path) for path in found if _runs(path)]
        if running:
            raise TasksRun(f"these tasks still run: {', '.join(running)}; end their processes, then try again")
        for path in found:
            shutil.rmtree(path)
        note = data.seen.exists()
        data.seen.unlink(missing_ok=True)
        return Forgotten(len(found), note)
    finally:
        pool.close()
        data.close()


def _runs(path: Path) -> bool:
    directory = AttemptDirectory(path)
    try:
        held = find_running(directory.spec(), directory)
    except WireError:
        return False
    if held is None:
        return False
    held.close()
    return True
