"""Looks after what a process depends on, and tells its health: database, deep storage, room on disk."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import structlog

from ingest.clock import Clock
from ingest.metadata.store import MetadataStore
from segments.errors import ServiceError
from segments.storage.base import DeepStorage
from server.health import Health

log = structlog.get_logger()

EVERY_S = 2.0
STORAGE_WELL_MS = 60_000
STORAGE_ILL_MS = 5_000
DISK_MIN_BYTES = 256 * 2**20


class Monitor:
    """Two threads, for deep storage may take long to fail. ``start`` and ``stop`` once."""

    def __init__(
        self, health: Health, storage: DeepStorage, store: MetadataStore | None, data_dir: Path, clock: Clock
    ) -> None:
        self._health = health
        self._storage = storage
        self._store = store
        self._data_dir = data_dir
        self._clock = clock
        self._announce: Callable[[], None] | None = None
        self._keep: Callable[[], None] | None = None
        self._storage_due_ms = 0
        self._told: dict[str, str] = {}
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(look,), name="monitor", daemon=True)
            for look in (self.look, self.look_at_storage)
        ]

    def announce(self, renew: Callable[[], None]) -> None:
        """``renew`` keeps this process's lease row fresh; a query node does that by itself."""
        self._announce = renew

    def keep(self, save: Callable[[], None]) -> None:
        """``save`` is called at every round; it must not raise."""
        self._keep = save

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Leaves a check of deep storage that is under way alone: it ends by its own deadline."""
        self._stopping.set()
        if self._threads[0].is_alive():
            self._threads[0].join(EVERY_S)

    def _run(self, look: Callable[[], None]) -> None:
        while not self._stopping.is_set():
            look()
            self._stopping.wait(EVERY_S)

    def look(self) -> None:
        """One round; for the thread of this object, or for a test."""
        if self._keep is not None:
            self._keep()
        if self._store is not None:
            self._tell("metadata", _fault(self._store.check))
            if self._announce is not None:
                self._tell("announcement", _fault(self._announce))
        self._tell("disk", self._disk_fault())

    def look_at_storage(self) -> None:
        """Checks deep storage where it is due: often while it is ill, seldom while it is well."""
        if self._clock.monotonic_ms() < self._storage_due_ms:
            return
        fault = _fault(self._storage.check)
        self._tell("deep_storage", fault)
        pause_ms = STORAGE_WELL_MS if fault is None else STORAGE_ILL_MS
        self._storage_due_ms = self._clock.monotonic_ms() + pause_ms

    def _disk_fault(self) -> str | None:
        try:
            room = os.statvfs(self._data_dir)
        except OSError as error:
            return f"{self._data_dir}: {error.strerror}"
        free = room.f_bavail * room.f_frsize
        if free >= DISK_MIN_BYTES:
            return None
        return f"{self._data_dir}: {free >> 20} MiB free; tasks pause when nothing is left: make room"

    def _tell(self, concern: str, fault: str | None) -> None:
        self._health.report(concern, fault)
        if fault == self._told.get(concern):
            return
        if fault is None:
            self._told.pop(concern, None)
            log.info("fault gone", concern=concern)
        else:
            self._told[concern] = fault
            log.warning("fault", concern=concern, error=fault)


def _fault(check: Callable[[], object]) -> str | None:
    try:
        check()
    except ServiceError as error:
        return str(error)
    except Exception as error:  # a thread that dies would leave health as it was, and this process's lease to run out
        log.exception("look broke")
        return f"{type(error).__name__}: {error}"
    return None
