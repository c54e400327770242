"""Gives up quarantine files past their bounds of age and bytes: what was replayed first, then the oldest.

Never silently: each pass that gives records up leaves an audit row per supervisor, a warning, and totals that stay.
The sweeper removes the files (PR-20).

A clock that jumps must not delete. A file is too old only while two clocks say so, the leader's and the database
server's, and after they have said so for an hour by a clock that does not jump; and it is no older than
those before it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Final

import structlog

from ingest.clock import Clock
from ingest.metadata.records import AuditRow, QuarantineRow
from ingest.metadata.replay_rules import EXPIRED, WAITING
from ingest.metadata.store import MetadataStore

log = structlog.get_logger()

FILES_AT_ONCE: Final = 1_000
DAY_MS: Final = 86_400_000
RIPE_MS: Final = 3_600_000
"""So long a file must have been too old before age gives it up: a clock that was wrong is set right by then."""


@dataclass(frozen=True, slots=True)
class QuarantineBounds:
    """Per table: ``max_bytes`` of files that are there, ``max_age_days`` since they were published. None: unbounded."""

    max_bytes: int | None = None
    max_age_days: float | None = None


class QuarantineExpiry:
    """One leadership's. ``expire`` is for one thread."""

    def __init__(self, store: MetadataStore, generation: int, clock: Clock, bounds: QuarantineBounds) -> None:
        self._store = store
        self._generation = generation
        self._clock = clock
        self._bounds = bounds
        self._old_since_ms: dict[str, int] = {}  # by path, monotonic

    def expire(self) -> int:
        """One bounded pass over all tables; how many files were given up."""
        if self._bounds == QuarantineBounds():
            return 0
        held: dict[str, int] = defaultdict(int)
        for (table, state), totals in self._store.quarantine_totals().items():
            held[table] += totals.size_bytes if state != EXPIRED else 0
        return sum(self._expire(table, size_bytes) for table, size_bytes in held.items() if size_bytes)

    def _expire(self, table: str, held_bytes: int) -> int:
        now_ms = self._clock.now_ms()
        files = self._store.unexpired_quarantine(table, FILES_AT_ONCE)
        old = too_old(files, min(now_ms, self._store.database_ms() or now_ms), self._bounds.max_age_days)
        chosen = past_bounds(files, held_bytes, self._ripe(files, old), self._bounds.max_bytes)
        by_supervisor: dict[str, list[QuarantineRow]] = defaultdict(list)
        for file in chosen:
            by_supervisor[file.ref.supervisor].append(file)
        for supervisor, files in by_supervisor.items():
            lost = [file for file in files if file.state == WAITING]
            told = {
                "table": table,
                "files": len(files),
                "bytes": sum(file.size_bytes for file in files),
                "recordsNeverIngested": sum(file.rows for file in lost),
                "from": files[0].path,
            }
            audit = AuditRow(now_ms, supervisor, "quarantine-expired", told)
            self._store.expire_quarantine(self._generation, table, [file.path for file in files], audit)
            for file in files:
                self._old_since_ms.pop(file.path, None)
            note = log.warning if lost else log.info
            note("quarantine files given up", supervisor=supervisor, **told)
        return len(chosen)

    def _ripe(self, files: list[QuarantineRow], old: set[str]) -> set[str]:
        """Those that this leader has seen too old for long enough, without a break."""
        now_ms = self._clock.monotonic_ms()
        for file in files:
            if file.path not in old:
                self._old_since_ms.pop(file.path, None)
        return {path for path in old if now_ms - self._old_since_ms.setdefault(path, now_ms) >= RIPE_MS}


def too_old(files: list[QuarantineRow], now_ms: int, max_age_days: float | None) -> set[str]:
    """Paths of those published so long ago. ``files`` are in the order of their publishes: one that bears an earlier
    time than one before it was written by a clock that stood wrong, and is as young as that one (pure)."""
    if max_age_days is None:
        return set()
    oldest_ms = now_ms - int(max_age_days * DAY_MS)
    found: set[str] = set()
    latest_ms = 0
    for file in files:
        if file.published_ms <= now_ms:
            latest_ms = max(latest_ms, file.published_ms)
        if max(file.published_ms, latest_ms) < oldest_ms:
            found.add(file.path)
    return found


def past_bounds(
    files: list[QuarantineRow], held_bytes: int, ripe: set[str], max_bytes: int | None
) -> list[QuarantineRow]:
    """Of a table's oldest files (in order) those to give up: the ``ripe`` ones, then as many as are too many bytes;
    ``held_bytes`` of all its files (pure)."""
    chosen = {file.path: file for file in files if file.path in ripe}
    left = held_bytes - sum(file.size_bytes for file in chosen.values())
    for file in sorted(files, key=lambda file: file.state == WAITING):
        if max_bytes is None or left <= max_bytes:
            break
        if file.path not in chosen:
            chosen[file.path] = file
            left -= file.size_bytes
    return list(chosen.values())
