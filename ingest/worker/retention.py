"""Decides which files of attempts a middle manager may remove, and removes them; bounds the logs of running ones.

An ended attempt's rows (``work/``) are kept until a later attempt of its group has linked them in
or finished well, the overlord says that nothing of them is unpublished, or a day has passed; its
log and result are kept for a week and within a count.
The wall clock alone removes nothing: it may jump, so that an hour must also have passed on the
middle manager's own monotonic clock since it saw the end.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Sequence, Set
from contextlib import suppress
from typing import Final

import structlog

from ingest.appenderator.manifest import newest_sequence
from ingest.protocol import KeptRows, TaskSpec
from ingest.task.directory import AttemptDirectory, TaskResult

ROWS_KEPT_MS: Final = 24 * 3_600_000
LOGS_KEPT_MS: Final = 7 * 24 * 3_600_000
LOGS_KEPT_MAX: Final = 200
SEEN_MS: Final = 3_600_000
LOG_BYTES_MAX: Final = 16 << 20
OLDER_LOG: Final = "log.1.txt"

log = structlog.get_logger()

Attempt = tuple[TaskSpec, AttemptDirectory]


class EndedSweep:
    """Removes what no successor can need. For one thread, but for ``kept`` and ``remove``, which are safe from any."""

    def __init__(self) -> None:
        self._seen_ms: dict[str, int] = {}  # by token: when its end was first seen here, monotonic
        self._lock = threading.Lock()
        self._left: dict[str, tuple[KeptRows, AttemptDirectory]] = {}
        self._to_ask: tuple[KeptRows, ...] = ()

    def kept(self) -> tuple[KeptRows, ...]:
        """The rows that the last sweep left, to be asked about once."""
        with self._lock:
            found, self._to_ask = self._to_ask, ()
            return found

    def remove(self, tokens: Sequence[str], busy: Set[tuple[str, int]]) -> None:
        """Rows of which nothing is unpublished. Not of a group that runs here: a task that starts may be linking
        them in at this moment; they are asked about again."""
        with self._lock:
            going = [self._left.pop(token) for token in tokens if token in self._left]
        for rows, directory in going:
            if (rows.supervisor, rows.group) not in busy:
                log.info("rows of an ended attempt removed", path=str(directory.path), sequence=rows.sequence)
                shutil.rmtree(directory.work, ignore_errors=True)

    def sweep(self, attempts: Sequence[Attempt], now_ms: int, monotonic_ms: int) -> None:
        """One pass over every attempt under a state root; ``now_ms`` is wall-clock time. Only acknowledged
        attempts are touched: their process is gone."""
        left: dict[str, tuple[KeptRows, AttemptDirectory]] = {}
        ended: list[tuple[int, TaskSpec, AttemptDirectory, bool]] = []
        for spec, directory in attempts:
            result = directory.result() if directory.is_marked("acknowledged") else None
            if result is not None:
                may_age = monotonic_ms - self._seen_ms.setdefault(spec.token, monotonic_ms) >= SEEN_MS
                ended.append((result.ended_ms, spec, directory, may_age))
                is_old = may_age and result.ended_ms < now_ms - ROWS_KEPT_MS
                if directory.work.exists() and (is_old or not _rows_needed(spec, result, attempts)):
                    shutil.rmtree(directory.work, ignore_errors=True)
                elif directory.work.exists() and (newest := newest_sequence(directory.work)) is not None:
                    left[spec.token] = (KeptRows(spec.token, spec.supervisor, spec.group, newest), directory)
        self._seen_ms = {spec.token: self._seen_ms[spec.token] for _, spec, _, _ in ended}
        with self._lock:
            self._left, self._to_ask = left, tuple(rows for rows, _ in left.values())
        ended.sort(key=lambda entry: entry[0])
        for number, (ended_ms, _, directory, may_age) in enumerate(ended):
            surplus = number < len(ended) - LOGS_KEPT_MAX
            if not directory.work.exists() and (surplus or (may_age and ended_ms < now_ms - LOGS_KEPT_MS)):
                shutil.rmtree(directory.path, ignore_errors=True)


def database_of(attempts: Sequence[Attempt]) -> str:
    """The metadata database of the attempts under a root for which it matters: those that run, whose end is not
    told, or whose rows are kept. Empty when there is none, or none says so."""
    held = (
        spec.database
        for spec, directory in attempts
        if spec.database and (not directory.is_marked("acknowledged") or directory.work.exists())
    )
    return next(held, "")


def bound_log(directory: AttemptDirectory) -> None:
    """Moves a log that has grown too long aside, in place of the one moved before. Its process appends to the
    same open file, so the text is copied and the file cut; lines written in between are lost."""
    with suppress(OSError):
        if directory.log.stat().st_size <= LOG_BYTES_MAX:
            return
        try:
            shutil.copyfile(directory.log, directory.path / OLDER_LOG)
        except OSError as error:  # a disk that is full has room for nothing but the newest lines
            log.warning("long log not kept", path=str(directory.log), error=str(error))
        os.truncate(directory.log, 0)


def _rows_needed(spec: TaskSpec, result: TaskResult, attempts: Sequence[Attempt]) -> bool:
    if result.succeeded:
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
