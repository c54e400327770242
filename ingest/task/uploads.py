"""Pushes the files of one publish, several at once.

Most of an upload is waiting: for a disk's sync, or for an answer over the network. One after the other, two
thousand small files take as many waits. The bound is one of memory and connections: each upload in progress
holds one part of its file.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog

from ingest.clock import Clock
from ingest.errors import IngestError
from segments.errors import ServiceError
from segments.storage.base import DeepStorage

log = structlog.get_logger()

UPLOAD_S: Final = 600.0
"""Hard deadline of one upload; below the overlord's distance between two deletions of a path (PR-20)."""
AT_ONCE: Final = 8


class UploadTimedOut(IngestError):
    """An upload did not end in time; its path is given up, the file may still appear there."""

    retryable = True


class Upload:
    """One push in a thread of its own, because a dead mount answers never.

    Given up, it goes on for as long as it likes, past the sweeper's second look too; so it removes by itself
    what arrives late. No publish claims that path any more. ``ended`` is called at the end, in its thread.
    """

    def __init__(self, storage: DeepStorage, local: Path, key: str, ended: Callable[[], None] = lambda: None) -> None:
        self._storage, self._local, self.key = storage, local, key
        self._lock = threading.Lock()
        self._on_end = ended
        self._given_up = False
        self.has_ended = False
        self.failure: Exception | None = None
        self._thread = threading.Thread(target=self._push, name="upload", daemon=True)
        self._thread.start()

    def done_within(self, deadline_s: float) -> bool:
        """Waits for the end, successful or not; False gives the upload up."""
        self._thread.join(deadline_s)
        return not self.give_up()

    def give_up(self) -> bool:
        """Nobody wants it any more; False when it has ended before."""
        with self._lock:
            self._given_up = not self.has_ended
        return self._given_up

    def _push(self) -> None:
        try:
            self._storage.push(self._local, self.key)
        except Exception as error:  # whatever it is, the file has not arrived for certain
            self.failure = error
        with self._lock:
            self.has_ended = True
        self._on_end()
        if self._given_up:
            log.warning("late upload removed", path=self.key)
            with suppress(ServiceError):
                self._storage.delete(self._storage.load_spec(self.key))


class Uploads:
    """At most ``at_once`` uploads in progress, over all calls. For one thread.

    Those of a call that failed keep their places until they end, so that the next call does not add to them;
    one past its deadline keeps none, or a dead mount would stop every later call.
    """

    def __init__(self, storage: DeepStorage, clock: Clock, at_once: int = AT_ONCE) -> None:
        self._storage, self._clock, self._at_once = storage, clock, at_once
        self._changed = threading.Condition()
        self._running: dict[Upload, int] = {}  # with its deadline, monotonic

    def push_all(self, files: Sequence[tuple[Path, str]]) -> None:
        """Pushes each file to its key, durably. The first failure ends the call at once: what has not begun
        does not begin, what is under way is given up and removes what it brings.

        Raises:
            UploadTimedOut: an upload did not end within ``UPLOAD_S``.
            Exception: whatever the first upload that failed said.
        """
        mine: set[Upload] = set()
        try:
            for local, key in files:
                self._wait(mine, lambda: len(self._running) < self._at_once)
                upload = Upload(self._storage, local, key, self._notify)
                self._running[upload] = self._clock.monotonic_ms() + int(UPLOAD_S * 1_000)
                mine.add(upload)
            self._wait(mine, lambda: not mine)
        except BaseException:
            for upload in mine:
                upload.give_up()
            raise

    def _wait(self, mine: set[Upload], is_enough: Callable[[], bool]) -> None:
        with self._changed:
            while True:
                self._settle(mine, self._clock.monotonic_ms())
                if is_enough():
                    return
                left_ms = min(self._running.values()) - self._clock.monotonic_ms()
                self._changed.wait(max(left_ms, 1) / 1_000)

    def _settle(self, mine: set[Upload], now_ms: int) -> None:
        """Takes out what has ended or is past its deadline; raises what is wrong with one of ``mine``."""
        over = [upload for upload, deadline_ms in self._running.items() if upload.has_ended or now_ms >= deadline_ms]
        for upload in over:
            del self._running[upload]
        for upload in over:
            if upload not in mine:
                continue
            if not upload.has_ended:
                waited = f"the upload of {upload.key} did not end within {UPLOAD_S:.0f} s"
                raise UploadTimedOut(f"{waited}; it starts again elsewhere")
            mine.remove(upload)
            if upload.failure is not None:
                raise upload.failure

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()
