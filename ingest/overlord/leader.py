"""Who leads: one overlord at a time, by a lease row whose heartbeat counter a standby watches (PR-25).

The lease is judged by the standby's own monotonic clock and the counter alone, so clocks of machines
are never compared. A leader that lost the lease without noticing is stopped by the store: every write
carries its generation.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from ingest.clock import Clock
from ingest.errors import IngestError, LeadershipLost
from ingest.metadata.records import Leadership
from ingest.metadata.store import LeadershipStore

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class LeaderSettings:
    """``node`` and ``address`` name this overlord in the lease row; ``lease_ms`` is how long the
    counter must stand still before a standby takes over. The leader beats four times in it."""

    node: str
    address: str
    lease_ms: int = 4_000


class LeaderElection:
    """One thread that takes, keeps or watches the lease.

    ``on_gain`` gets the new generation, ``on_loss`` is called once for it; both in this object's
    thread. Where ``on_gain`` raises, the lease is given back. A row that names this very node is our own
    earlier life (two processes cannot hold one address) and is taken over at once.
    """

    def __init__(
        self,
        store: LeadershipStore,
        settings: LeaderSettings,
        clock: Clock,
        on_gain: Callable[[int], None],
        on_loss: Callable[[], None],
    ) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._on_gain = on_gain
        self._on_loss = on_loss
        self._generation: int | None = None
        self._lost_generation = 0
        self._watched: Leadership | None = None
        self._still_since_ms = 0
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="leader", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float = 10.0) -> None:
        """Gives up the lease so that a standby takes over at once."""
        self._stopping = True
        self._wake.set()
        self._thread.join(timeout_s)

    def report_loss(self, generation: int) -> None:
        """Says that a write of this generation was refused for a newer one; safe from any thread.

        Word of an earlier generation comes late and says nothing about the present one.
        """
        self._lost_generation = max(generation, self._lost_generation)
        self._wake.set()

    @property
    def generation(self) -> int | None:
        """The generation this overlord leads in, None while it does not."""
        return self._generation

    def _run(self) -> None:
        while not self._stopping:
            try:
                self.step()
            except Exception:  # a thread that dies would leave a living process that never leads again
                log.exception("look at the lease broke", node=self._settings.node)
            self._wake.wait(self._settings.lease_ms / 4 / 1_000)
            self._wake.clear()
        self._resign()

    def step(self) -> None:
        """One look at the lease: keep it, or take it when it is free. For the thread of this object."""
        try:
            if self._generation is None:
                self._watch()
            else:
                self._keep(self._generation)
        except IngestError as error:
            # Without the store, or its schema, nobody can take over either: go on leading, fenced by generation.
            log.warning("metadata store unreachable", error=str(error))

    def _watch(self) -> None:
        row = self._store.leadership()
        now_ms = self._clock.monotonic_ms()
        if row is None or row != self._watched:
            self._watched, self._still_since_ms = row, now_ms
        own_earlier_life = row is not None and row.node == self._settings.node
        stood_still = now_ms - self._still_since_ms >= self._settings.lease_ms
        if row is not None and not own_earlier_life and not stood_still:
            return
        taken = self._store.take_leadership(self._settings.node, self._settings.address, row)
        if taken is not None:
            self._generation = taken.generation
            log.info("leadership taken", generation=taken.generation, node=self._settings.node)
            try:
                self._on_gain(taken.generation)
            except Exception:
                self._resign()  # else the lease would be kept by who does nothing with it
                raise

    def _keep(self, generation: int) -> None:
        try:
            if self._lost_generation >= generation:
                raise LeadershipLost("a write was refused")
            self._store.beat(generation)
        except LeadershipLost:
            log.warning("leadership lost", generation=generation)
            self._step_down()

    def _step_down(self) -> None:
        self._generation, self._watched = None, None
        self._on_loss()

    def _resign(self) -> None:
        generation = self._generation
        if generation is None:
            return
        self._step_down()
        try:
            self._store.resign(generation)
        except IngestError as error:
            log.warning("lease not given back", error=str(error))
