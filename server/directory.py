"""Where other processes of the installation are: the leading overlord, query nodes, middle managers."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from urllib.parse import urlsplit

from ingest.clock import Clock
from ingest.errors import StoreUnreachable
from ingest.metadata.records import NodeRecord
from ingest.metadata.store import MetadataStore
from ingest.overlord.served import NODE_LEASE_MS, NodeWatch

LOOK_MS = 500
"""How long the nodes' rows count as read just now."""
PROMPT_MS = 3_000
"""A node renews its row every second: one that has not for so long is asked last."""


class Directory:
    """Addresses (``host:port``), best first, from the lease rows and the configured overlords. Thread-safe.

    Whether a node lives is judged by whether its row moves, on this process's monotonic clock: clocks of
    machines are never compared (PR-25). While the database is away the nodes seen last stay known.
    """

    def __init__(
        self, store: MetadataStore | None = None, clock: Clock | None = None, overlord_urls: Sequence[str] = ()
    ) -> None:
        self._store = store
        self._clock = clock
        self._configured = [urlsplit(url).netloc for url in overlord_urls]
        self._watch = None if store is None or clock is None else NodeWatch(store, clock)
        self._lock = threading.Lock()
        self._looked_ms: int | None = None
        self._live: list[NodeRecord] = []
        self._late: frozenset[str] = frozenset()

    def leaders(self) -> list[str]:
        """The leader by the store, then the configured overlords."""
        found: list[str] = []
        if self._store is not None:
            try:
                row = self._store.leadership()
            except StoreUnreachable:
                row = None
            found = [row.address] if row is not None and row.address else []
        return [*found, *(address for address in self._configured if address not in found)]

    def query_nodes(self) -> list[str]:
        """Addresses of live query nodes, those that renewed their rows lately first."""
        return [node.address for node in self.nodes() if "query" in node.roles and node.address]

    def late(self) -> frozenset[str]:
        """Names of live processes that have not renewed their rows lately."""
        return self._late

    def nodes(self) -> list[NodeRecord]:
        """Every live process with a lease row, those that renewed it lately first."""
        watch, clock = self._watch, self._clock
        if watch is None or clock is None:
            return []
        with self._lock:
            now_ms = clock.monotonic_ms()
            if self._looked_ms is None or now_ms - self._looked_ms >= LOOK_MS:
                try:
                    rows = watch.look()
                except StoreUnreachable:
                    return self._live
                still_ms = watch.still_ms()
                live = [row for row in rows if still_ms[row.node] < NODE_LEASE_MS]
                self._late = frozenset(row.node for row in live if still_ms[row.node] >= PROMPT_MS)
                self._live = sorted(live, key=lambda row: (row.node in self._late, row.node))
                self._looked_ms = now_ms
            return self._live
