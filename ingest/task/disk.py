"""Keeps a task alive while its own disk takes nothing: rows wait in memory, reading waits, all is tried again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import structlog

from ingest.clock import Clock
from ingest.task.messages import Command
from ingest.task.rows import TaskRows
from segments.errors import StorageError

log = structlog.get_logger()

T = TypeVar("T")

RETRY_MS: Final = 1_000


class TaskDisk:
    """The task's directory, full or not. For the ingest thread; ``error`` may be read from any thread.

    ``error`` says for people why nothing can be written at present. Until it is None again no row may be
    added: memory is bounded, and what is in it is still only there and in the stream. ``scarce`` says that
    only the reserve is left, which is kept for what others wait for (PR-12).
    """

    def __init__(self, rows: TaskRows, clock: Clock, is_scarce: Callable[[], bool]) -> None:
        self._rows = rows
        self._clock = clock
        self._is_scarce = is_scarce
        self._look_ms = 0
        self.scarce = False
        self._again_ms = 0
        self._postponed: list[Command] = []
        self.error: str | None = None

    def maintain(self, now_ms: int) -> list[Command]:
        """Spills what is due; after a failure everything, from time to time. Returns what was postponed
        once the disk takes writes again."""
        if now_ms >= self._look_ms:
            self._look_ms = now_ms + RETRY_MS
            self.scarce = self._is_scarce()
        if self.error is None:
            self.attempt(lambda: self._rows.maintain(now_ms))
        elif now_ms >= self._again_ms:
            self.persist()
        if self.error is not None:
            return []
        postponed, self._postponed = self._postponed, []
        return postponed

    def persist(self) -> bool:
        """Whether everything appended is on disk now."""
        return self.attempt(self._rows.persist) is not None

    def postpone(self, command: Command) -> None:
        """To be carried out when the disk takes writes again."""
        self._postponed.append(command)

    def attempt(self, write: Callable[[], T]) -> tuple[T] | None:
        """What a write returned, in a tuple of its own; None when the disk did not take it."""
        try:
            done = write()
        except (StorageError, OSError) as error:
            if self.error is None:
                log.warning("disk does not take writes; reading waits", error=str(error))
            self.error = (
                f"this task's directory takes no writes ({error}): its rows wait in memory and reading waits; make "
                "room on the disk of data_dir/tasks, or mend it. It goes on by itself"
            )
            self._again_ms = self._clock.monotonic_ms() + RETRY_MS
            return None
        if self.error is not None:
            log.info("disk takes writes again")
        self.error = None
        return (done,)
