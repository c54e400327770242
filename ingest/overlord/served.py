"""Which table version every live query node has acknowledged: what tasks may drop up to (PR-6)."""

from __future__ import annotations

import threading

from ingest.clock import Clock
from ingest.metadata.store import LeadershipStore

NODE_LEASE_MS = 10_000
"""A query node whose lease row is older than this holds no hand-off back."""


class ServedVersions:
    """The hand-off check: refreshed by a duty, read by heartbeats; safe from any thread."""

    def __init__(self, store: LeadershipStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._versions: dict[str, int] = {}

    def of(self, datasource: str) -> int:
        """The version as of the last refresh; asks the store the first time."""
        with self._lock:
            if datasource in self._versions:
                return self._versions[datasource]
        return self._look(datasource)

    def refresh(self) -> None:
        """Looks again for every table that was asked about."""
        with self._lock:
            names = list(self._versions)
        for name in names:
            self._look(name)

    def _look(self, datasource: str) -> int:
        version = self._store.served_version(datasource, self._clock.now_ms(), NODE_LEASE_MS)
        with self._lock:
            # It never goes back: what was dropped stays dropped.
            version = max(version, self._versions.get(datasource, 0))
            self._versions[datasource] = version
        return version
