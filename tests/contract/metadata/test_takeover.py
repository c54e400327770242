"""A takeover on PostgreSQL waits for the transactions under way, never for those that come after it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest
from sqlalchemy.engine import Connection

from ingest.errors import LeadershipLost, StoreUnreachable
from ingest.metadata.sql import SqlMetadataStore, open_store
from ingest.metadata.sql_base import leading_generation
from tests.contract.metadata.world import World, audit

pytestmark = pytest.mark.integration

LEASE_MS = 4_000
HELD_S = 0.2
SHARERS = 4


@pytest.fixture
def stores(new_url: Callable[[str], str]) -> Iterator[tuple[SqlMetadataStore, SqlMetadataStore]]:
    url = new_url("postgres")
    with closing(open_store(url, lease_ms=LEASE_MS)) as old, closing(open_store(url, lease_ms=LEASE_MS)) as new:
        yield old, new


@contextmanager
def overlapping_publishes(store: SqlMetadataStore) -> Iterator[list[int | None]]:
    """Transactions of the leader that share the lock one over the other, without a gap; the generations they saw."""
    stop, seen = threading.Event(), list[int | None]()

    def hold(connection: Connection) -> None:
        seen.append(leading_generation(connection))
        stop.wait(HELD_S)

    def share(offset: int) -> None:
        stop.wait(offset * HELD_S / SHARERS)
        while not stop.is_set():
            try:
                store.session.write(hold)
            except StoreUnreachable:  # a lock time-out while the takeover waits
                continue

    threads = [threading.Thread(target=share, args=(offset,)) for offset in range(SHARERS)]
    for thread in threads:
        thread.start()
    while len(seen) < 2 * SHARERS:
        stop.wait(0.01)
    try:
        yield seen
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_publishes_that_overlap_without_end_do_not_hold_a_takeover_up(
    stores: tuple[SqlMetadataStore, SqlMetadataStore],
) -> None:
    old, new = stores
    world = World(old)
    world.lead("old")
    with overlapping_publishes(old) as seen:
        row = new.leadership()
        begun = time.monotonic()
        taken = new.take_leadership("new", "new:1", row)
        took_s = time.monotonic() - begun
        assert taken is not None and taken.generation == world.generation + 1
        assert took_s < 10 * HELD_S, f"{took_s:.2f} s"
        count = len(seen)
        while len(seen) < count + SHARERS:
            time.sleep(0.01)
    assert seen[-1] == taken.generation, "whoever waited meanwhile sees the new leader"
    with pytest.raises(LeadershipLost):
        old.append_audit(world.generation, audit())


def test_a_transaction_that_stands_still_holds_a_takeover_up_no_longer_than_its_own_time_out(
    stores: tuple[SqlMetadataStore, SqlMetadataStore],
) -> None:
    old, new = stores
    world = World(old)
    world.lead("old")
    with old.session.engine.connect() as frozen:
        frozen.begin()
        leading_generation(frozen)
        begun = time.monotonic()
        taken = new.take_leadership("new", "new:1", new.leadership())
        took_s = time.monotonic() - begun
        assert taken is not None and took_s < LEASE_MS / 1_000, f"{took_s:.2f} s"
        frozen.invalidate()
