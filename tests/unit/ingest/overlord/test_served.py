"""Which version is served, on clocks that disagree."""

from __future__ import annotations

from ingest.clock import ManualClock
from ingest.metadata.memory import MemoryMetadataStore
from ingest.metadata.records import DesiredState
from ingest.offsets import OffsetMap
from ingest.overlord.served import NODE_LEASE_MS, ServedVersions


def served_beside(node_clock_ahead_ms: int) -> tuple[MemoryMetadataStore, ServedVersions, ManualClock, int]:
    """A table at version 1 and a node that acknowledged 0, by a clock of its own."""
    store, clock = MemoryMetadataStore(), ManualClock()
    leader = store.take_leadership("o", "o:1", None)
    assert leader is not None
    store.put_supervisor(leader.generation, "wiki", "wiki", {}, DesiredState.RUNNING, 0)
    store.init_offsets(leader.generation, "wiki", "wiki", "wiki", None, OffsetMap({0: 0}))
    renewed_ms = clock.now_ms() + node_clock_ahead_ms
    store.renew_node("q", ["query"], "q:1", renewed_ms, {"wiki": 0}, {})
    served = ServedVersions(store, clock)
    served.of("wiki")
    return store, served, clock, renewed_ms


def test_a_node_whose_clock_is_behind_still_holds_hand_off_back() -> None:
    store, served, clock, renewed_ms = served_beside(-3_600_000)
    for _ in range(30):
        clock.advance(1_000)
        renewed_ms += 1_000
        store.renew_node("q", ["query"], "q:1", renewed_ms, {}, {})
        served.refresh()
        assert served.of("wiki") == 0


def test_a_dead_node_whose_clock_was_ahead_holds_hand_off_back_no_longer_than_its_lease() -> None:
    _, served, clock, _ = served_beside(3_600_000)
    served.refresh()
    clock.advance(NODE_LEASE_MS - 1)
    served.refresh()
    assert served.of("wiki") == 0
    clock.advance(1)
    served.refresh()
    assert served.of("wiki") == 1


def test_who_holds_hand_off_back_is_named_until_it_follows_or_is_gone() -> None:
    store, served, clock, renewed_ms = served_beside(0)
    assert served.waits_for("wiki") == ("query node q at q:1: it answers at version 0 of 1",)
    assert served.waits_for("another") == ()
    store.renew_node("q", ["query"], "q:1", renewed_ms + 1, {"wiki": 1}, {})
    assert served.waits_for("wiki") == ()
    _, served, clock, _ = served_beside(0)
    served.refresh()
    clock.advance(NODE_LEASE_MS)
    assert served.waits_for("wiki") == ()
