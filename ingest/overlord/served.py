"""Which table version every live query node has acknowledged: what tasks may drop up to (PR-6)."""

from __future__ import annotations

import threading

from ingest.clock import Clock
from ingest.metadata.records import NodeRecord
from ingest.metadata.store import LeadershipStore, MetadataStore

NODE_LEASE_MS = 10_000
"""A query node whose lease row has stood still for so long holds no hand-off back."""


class NodeWatch:
    """Which nodes are gone, judged by whether their rows change, on the watcher's own monotonic clock:
    clocks of machines are never compared (PR-25). What is seen for the first time lives."""

    def __init__(self, store: LeadershipStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: dict[str, tuple[int, int]] = {}  # renewed_ms, since when on our clock

    def look(self) -> list[NodeRecord]:
        """Reads the nodes' rows, and returns them; to be called well within the lease."""
        nodes, now_ms = self._store.nodes(), self._clock.monotonic_ms()
        with self._lock:
            before, self._seen = self._seen, {}
            for node in nodes:
                known = before.get(node.node)
                stands_still = known is not None and known[0] == node.renewed_ms
                self._seen[node.node] = known if known and stands_still else (node.renewed_ms, now_ms)
        return nodes

    def still_ms(self) -> dict[str, int]:
        """For how long each node's row has stood still; one that was never seen to move, since it was first seen."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            return {name: now_ms - since_ms for name, (_, since_ms) in self._seen.items()}

    def gone(self) -> dict[str, int]:
        """The nodes that are, by the ``renewed_ms`` at which they stand still."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            seen = self._seen.items()
            return {name: renewed for name, (renewed, since_ms) in seen if now_ms - since_ms >= NODE_LEASE_MS}


class ServedVersions:
    """The hand-off check: refreshed by a duty, read by heartbeats; safe from any thread."""

    def __init__(self, store: MetadataStore, clock: Clock) -> None:
        self._store = store
        self._nodes = NodeWatch(store, clock)
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
        self._nodes.look()
        with self._lock:
            names = list(self._versions)
        for name in names:
            self._look(name)

    def _look(self, datasource: str) -> int:
        version = self._store.served_version(datasource, self._nodes.gone())
        with self._lock:
            # It never goes back: what was dropped stays dropped.
            version = max(version, self._versions.get(datasource, 0))
            self._versions[datasource] = version
        return version

    def waits_for(self, datasource: str) -> tuple[str, ...]:
        """Which live query nodes hold the hand-off of what is published back, in words for a status."""
        newest = self._store.table_versions().get(datasource, 0)
        gone = self._nodes.gone()
        found = []
        for node in self._store.nodes():
            at = node.acknowledged.get(datasource, newest)
            if at < newest and gone.get(node.node) != node.renewed_ms:
                found.append(f"query node {node.node} at {node.address}: it answers at version {at} of {newest}")
        return tuple(found)
