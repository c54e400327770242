"""Keeps the lease rows fresh by which processes find each other, also for workers, who know no database."""

from __future__ import annotations

from ingest.clock import Clock
from ingest.errors import OverlordUnreachable
from ingest.metadata.records import NodeRecord
from ingest.metadata.store import MetadataStore
from ingest.overlord.overlord import Overlord

WORKER_FRESH_MS = 5_000


class Announcement:
    """Called now and then by one thread. A query node renews its own row, with what it acknowledges."""

    def __init__(self, store: MetadataStore, overlord: Overlord | None, clock: Clock, own: NodeRecord) -> None:
        self._store = store
        self._overlord = overlord
        self._clock = clock
        self._own = own

    def __call__(self) -> None:
        """Raises StoreUnreachable."""
        own = self._own
        if "query" not in own.roles:
            self._store.renew_node(own.node, own.roles, own.address, self._clock.now_ms(), {}, own.detail)
        if self._overlord is not None and self._overlord.is_leading:
            self._announce_workers(self._overlord)

    def _announce_workers(self, overlord: Overlord) -> None:
        """The leader speaks for middle managers: they beat to it and know no database."""
        try:
            workers = overlord.workers()
        except OverlordUnreachable:
            return
        for beat, age_ms in workers:
            if beat.worker != self._own.node and age_ms < WORKER_FRESH_MS:
                now_ms = self._clock.now_ms()
                self._store.renew_node(beat.worker, ("middle-manager",), beat.address, now_ms, {}, {})
