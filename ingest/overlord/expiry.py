"""Gives up quarantine files past their bounds of age and bytes: what was replayed first, then the oldest.

Never silently: each pass that gives records up leaves an audit row per supervisor, a warning, and totals that stay.
The sweeper removes the files (PR-20).
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

    def expire(self) -> int:
        """One bounded pass over all tables; how many files were given up. Times by the leader's wall clock."""
        if self._bounds == QuarantineBounds():
            return 0
        held: dict[str, int] = defaultdict(int)
        for (table, state), totals in self._store.quarantine_totals().items():
            held[table] += totals.size_bytes if state != EXPIRED else 0
        return sum(self._expire(table, size_bytes) for table, size_bytes in held.items() if size_bytes)

    def _expire(self, table: str, held_bytes: int) -> int:
        now_ms = self._clock.now_ms()
        chosen = past_bounds(self._store.unexpired_quarantine(table, FILES_AT_ONCE), held_bytes, now_ms, self._bounds)
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
            note = log.warning if lost else log.info
            note("quarantine files given up", supervisor=supervisor, **told)
        return len(chosen)


def past_bounds(
    files: list[QuarantineRow], held_bytes: int, now_ms: int, bounds: QuarantineBounds
) -> list[QuarantineRow]:
    """Of a table's oldest files (in order) those to give up; ``held_bytes`` of all its files (pure)."""
    chosen: dict[str, QuarantineRow] = {}
    if bounds.max_age_days is not None:
        oldest_ms = now_ms - int(bounds.max_age_days * DAY_MS)
        chosen = {file.path: file for file in files if file.published_ms < oldest_ms}
    left = held_bytes - sum(file.size_bytes for file in chosen.values())
    for file in sorted(files, key=lambda file: file.state == WAITING):
        if bounds.max_bytes is None or left <= bounds.max_bytes:
            break
        if file.path not in chosen:
            chosen[file.path] = file
            left -= file.size_bytes
    return list(chosen.values())
