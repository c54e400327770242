"""Where other processes of the installation are: the leading overlord, query nodes, middle managers."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from ingest.clock import Clock
from ingest.errors import StoreUnreachable
from ingest.metadata.records import NodeRecord
from ingest.metadata.store import MetadataStore

FRESH_MS = 10_000
"""A node whose lease row is older is not asked."""


class Directory:
    """Addresses (``host:port``), best first, from the lease rows and the configured overlords. Thread-safe."""

    def __init__(
        self, store: MetadataStore | None = None, clock: Clock | None = None, overlord_urls: Sequence[str] = ()
    ) -> None:
        self._store = store
        self._clock = clock
        self._configured = [urlsplit(url).netloc for url in overlord_urls]

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
        """Live query nodes, the most recently heard first."""
        return [node.address for node in self.nodes() if "query" in node.roles and node.address]

    def nodes(self) -> list[NodeRecord]:
        """Every live process with a lease row; none while the database is away."""
        if self._store is None or self._clock is None:
            return []
        try:
            rows = self._store.nodes()
        except StoreUnreachable:
            return []
        oldest_ms = self._clock.now_ms() - FRESH_MS
        return sorted((row for row in rows if row.renewed_ms >= oldest_ms), key=lambda row: -row.renewed_ms)
