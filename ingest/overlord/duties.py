"""What the leading overlord does by the clock: hand-off check, sweep of staged files, lag log, clean-up of dead nodes.

APScheduler with its memory store: duties are rebuilt by every leader and live only as long as its
generation. A duty that runs late is skipped, never piled up, and that is told once a minute in our words.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import UTC
from typing import Any, Final

import structlog
from apscheduler.events import (
    EVENT_JOB_ERROR,
    EVENT_JOB_MAX_INSTANCES,
    EVENT_JOB_MISSED,
    JobEvent,
    JobExecutionEvent,
)
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from ingest.clock import Clock
from ingest.errors import LeadershipLost, StoreUnreachable
from ingest.metadata.store import MetadataStore
from ingest.overlord.lateness import Lateness
from ingest.overlord.served import NodeWatch, ServedVersions
from segments.errors import ServiceError
from segments.storage.base import DeepStorage

log = structlog.get_logger()

SERVED_EVERY_S: Final = 0.5
SWEEP_EVERY_S: Final = 30.0
LAG_EVERY_S: Final = 60.0
NODES_EVERY_S: Final = 60.0
OTHERS_EVERY_S: Final = 30.0
SWEPT_AT_ONCE: Final = 100
UPLOAD_MAX_MS: Final = 15 * 60_000
"""Longer than any upload may take; a deletion is repeated once after it (PR-20)."""
NODE_FORGOTTEN_MS: Final = 24 * 3_600_000
SCHEDULER_LOGS: Final = ("apscheduler.scheduler", "apscheduler.executors.default")


def not_of_lateness(record: logging.LogRecord) -> bool:
    """The scheduler's own lines come at every turn that is missed, twice a second on a busy machine."""
    return not record.msg.startswith(("Execution of job", "Run time of job"))


class Sweeper:
    """Removes files that fenced or ended attempts left in deep storage, and no others (PR-20).

    A row is made ``deleting`` before its file is touched, and the deletion is repeated once after
    the longest upload, because a write that was under way may still arrive.
    """

    def __init__(self, store: MetadataStore, storage: DeepStorage, generation: int, clock: Clock) -> None:
        self._store = store
        self._storage = storage
        self._generation = generation
        self._clock = clock
        self._removed_ms: dict[int, int] = {}  # by row: when its first removal was first seen, monotonic

    def sweep(self) -> int:
        """One bounded pass; returns how many files were deleted."""
        now_ms = self._clock.now_ms()
        rows = self._store.staged_of_ended(SWEPT_AT_ONCE)
        due = [row for row in rows if row.removed_ms is None or self._waited_ms(row.row_id) >= UPLOAD_MAX_MS]
        listed = {row.row_id for row in rows}
        self._removed_ms = {row_id: since for row_id, since in self._removed_ms.items() if row_id in listed}
        allowed = set(self._store.begin_delete(self._generation, [row.row_id for row in due])) if due else set()
        done: list[int] = []
        for row in due:
            if row.row_id in allowed and self._delete(row.path):
                done.append(row.row_id)
        if done:
            self._store.finish_delete(self._generation, done, now_ms)
            log.info("staged files swept", files=len(done))
        return len(done)

    def _delete(self, path: str) -> bool:
        """False where the storage refuses now; the others go all the same."""
        try:
            self._storage.delete(self._storage.load_spec(path))
        except ServiceError as error:
            log.warning("staged file not removed", path=path, error=str(error))
            return False
        return True

    def _waited_ms(self, row_id: int) -> int:
        """Since this leader first saw the row removed: the wall clock may have jumped since it was written."""
        now_ms = self._clock.monotonic_ms()
        return now_ms - self._removed_ms.setdefault(row_id, now_ms)


class Duties:
    """One leadership's scheduler. ``start`` and ``stop`` once."""

    def __init__(
        self,
        store: MetadataStore,
        served: ServedVersions,
        sweeper: Sweeper,
        lags: Callable[[], dict[str, int]],
        clock: Clock,
        others: Mapping[str, Callable[[], Any]] | None = None,
    ) -> None:
        self._store = store
        self._served = served
        self._sweeper = sweeper
        self._lags = lags
        self._others = others or {}
        self._clock = clock
        self._nodes = NodeWatch(store, clock)
        self._lateness = Lateness(clock)
        self.on_skipped: Callable[[str], None] = lambda duty: None
        """Told of every turn of a duty that is left out."""
        for name in SCHEDULER_LOGS:
            logging.getLogger(name).addFilter(not_of_lateness)
        self._scheduler = BackgroundScheduler(
            timezone=UTC,
            executors={"default": ThreadPoolExecutor(2)},
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": 30},
        )

    def start(self) -> None:
        self._scheduler.add_listener(self._on_error, EVENT_JOB_ERROR)
        self._scheduler.add_listener(self._on_late, EVENT_JOB_MAX_INSTANCES | EVENT_JOB_MISSED)
        for name, duty, seconds in (
            ("handoff check", self._served.refresh, SERVED_EVERY_S),
            ("sweep", self._sweeper.sweep, SWEEP_EVERY_S),
            ("lag report", self._report_lag, LAG_EVERY_S),
            ("node clean-up", self._forget_nodes, NODES_EVERY_S),
            *((name, duty, OTHERS_EVERY_S) for name, duty in self._others.items()),
        ):
            self._scheduler.add_job(self._guarded(name, duty), "interval", seconds=seconds, id=name)
        self._scheduler.start()

    def stop(self) -> None:
        """Lets running duties end; starts no other."""
        if self._scheduler.running:  # not where a term ends before it has begun
            self._scheduler.shutdown(wait=True)

    def _guarded(self, name: str, duty: Callable[[], Any]) -> Callable[[], None]:
        def run() -> None:
            self._lateness.begun(name)
            try:
                duty()
            except (StoreUnreachable, LeadershipLost) as error:
                log.debug("duty postponed", duty=name, error=str(error))
            except ServiceError as error:
                log.warning("duty failed", duty=name, error=str(error))
            finally:
                self._lateness.ended(name)

        return run

    def _on_late(self, event: JobEvent) -> None:
        self.on_skipped(event.job_id)
        late = self._lateness.skipped(event.job_id)
        if late is not None:
            running_s = None if late.running_ms is None else round(late.running_ms / 1_000, 1)
            log.warning("duty late", duty=late.duty, running_s=running_s, turns_skipped=late.skipped)

    def _report_lag(self) -> None:
        for supervisor, lag in self._lags().items():
            log.info("lag", supervisor=supervisor, records=lag)

    def _forget_nodes(self) -> None:
        """A day by the wall clock alone is not enough: it may jump, and this node's next renewal would show it."""
        now_ms = self._clock.now_ms()
        rows, gone = self._nodes.look(), self._nodes.gone()
        for node in rows:
            if node.node in gone and now_ms - node.renewed_ms > NODE_FORGOTTEN_MS:
                self._store.forget_node(node.node)

    def _on_error(self, event: JobExecutionEvent) -> None:
        log.error("duty broke", duty=event.job_id, error=repr(event.exception))
