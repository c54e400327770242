"""Decides which ended attempts' files a middle manager may remove, and removes them.

An ended attempt's rows (``work/``) are kept until a later attempt of its group has linked them in
or finished well, or a day has passed; its log and result are kept for a week and within a count.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import Final

from ingest.protocol import TaskSpec
from ingest.task.directory import AttemptDirectory, TaskResult

ROWS_KEPT_MS: Final = 24 * 3_600_000
LOGS_KEPT_MS: Final = 7 * 24 * 3_600_000
LOGS_KEPT_MAX: Final = 200

Attempt = tuple[TaskSpec, AttemptDirectory]


def sweep_ended(attempts: Sequence[Attempt], now_ms: int) -> None:
    """Removes what no successor can need. Only acknowledged attempts are touched: their process is gone."""
    ended: list[tuple[int, TaskSpec, AttemptDirectory]] = []
    for spec, directory in attempts:
        result = directory.result() if directory.is_marked("acknowledged") else None
        if result is not None:
            ended.append((result.ended_ms, spec, directory))
            if directory.work.exists() and not _rows_needed(spec, result, attempts, now_ms):
                shutil.rmtree(directory.work, ignore_errors=True)
    ended.sort(key=lambda entry: entry[0])
    for number, (ended_ms, _, directory) in enumerate(ended):
        surplus = number < len(ended) - LOGS_KEPT_MAX
        if not directory.work.exists() and (surplus or ended_ms < now_ms - LOGS_KEPT_MS):
            shutil.rmtree(directory.path, ignore_errors=True)


def _rows_needed(spec: TaskSpec, result: TaskResult, attempts: Sequence[Attempt], now_ms: int) -> bool:
    if result.succeeded or result.ended_ms < now_ms - ROWS_KEPT_MS:
        return False
    return not any(
        other.supervisor == spec.supervisor
        and other.group == spec.group
        and other.attempt > spec.attempt
        and other.task_id == spec.task_id
        and (directory.is_marked("restored") or _succeeded(directory))
        for other, directory in attempts
    )


def _succeeded(directory: AttemptDirectory) -> bool:
    result = directory.result()
    return result is not None and result.succeeded is True
