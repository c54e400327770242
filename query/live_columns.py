"""Remembers which columns the live rows of tables have, for who asks about columns and not about rows.

A column that the stream brought is a column of its table before anything is published. Asking about columns must
not wait for a task that does not answer, so a look is bounded, and what was seen before stands in for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait

import structlog

from query.clock import Clock
from query.live import BoundTable
from segments.errors import ServiceError
from segments.schema import ColumnSpec

_log = structlog.get_logger(__name__)
LOOKS_AT_ONCE = 4
FRESH_MS = 2_000
PATIENCE_S = 1.0
Columns = tuple[ColumnSpec, ...]


class LiveColumns:
    """Safe for many threads. ``bind`` binds a table for a query, or returns None when there is no such table."""

    def __init__(self, bind: Callable[[str], BoundTable | None], clock: Clock) -> None:
        self._bind = bind
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: dict[str, tuple[Columns, ...]] = {}
        self._looked_ms: dict[str, int] = {}
        self._looks: dict[str, Future[None]] = {}
        self._executor = ThreadPoolExecutor(LOOKS_AT_ONCE, "query-columns")

    def stop(self) -> None:
        """Looks no more."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def look(self, tables: Iterable[str]) -> None:
        """Looks at those that were not looked at lately, all at once; returns when it has seen them or is tired."""
        wait([look for table in tables if (look := self._begun(table)) is not None], PATIENCE_S)

    def of(self, table: str) -> Collection[Columns]:
        """The columns of each kind of chunk that was there at the last look; empty without one."""
        with self._lock:
            return self._seen.get(table, ())

    def _begun(self, table: str) -> Future[None] | None:
        with self._lock:
            under_way = self._looks.get(table)
            if under_way is not None:
                return under_way
            now_ms = self._clock.monotonic_ms()
            if now_ms - self._looked_ms.get(table, now_ms - FRESH_MS - 1) <= FRESH_MS:
                return None
            look = self._looks[table] = self._executor.submit(self._look, table)
            return look

    def _look(self, table: str) -> None:
        try:
            bound = self._bind(table)
            layouts: dict[str, Columns] = {}
            if bound is not None:
                layouts = {chunk.layout: chunk.columns for chunk in bound.chunks}
                bound.close()
            with self._lock:
                self._seen[table] = tuple(layouts.values())
                self._looked_ms[table] = self._clock.monotonic_ms()
        except ServiceError as error:
            _log.debug("live_columns_not_seen", table=table, error=str(error))
        finally:
            with self._lock:
                self._looks.pop(table, None)
