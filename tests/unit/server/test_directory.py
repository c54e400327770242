"""Which processes are asked: those whose rows move, whatever their clocks say."""

from __future__ import annotations

from ingest.clock import ManualClock
from ingest.errors import StoreUnreachable
from ingest.metadata.memory import MemoryMetadataStore
from ingest.overlord.served import NODE_LEASE_MS
from server.directory import LOOK_MS, PROMPT_MS, Directory

HOURS_MS = 5 * 3_600_000


class Away(MemoryMetadataStore):
    """A database that can be cut off."""

    is_away = False

    def nodes(self):  # type: ignore[no-untyped-def]
        if self.is_away:
            raise StoreUnreachable("away", effect_known_absent=True)
        return super().nodes()


def renew(store: MemoryMetadataStore, node: str, at_ms: int) -> None:
    store.renew_node(node, ["query"], f"{node}:1", at_ms, {}, {})


def test_nodes_live_while_their_rows_move_though_their_clocks_are_hours_off() -> None:
    store, clock = MemoryMetadataStore(), ManualClock()
    directory = Directory(store, clock)
    for second in range(30):
        renew(store, "ahead", clock.now_ms() + HOURS_MS)
        renew(store, "behind", clock.now_ms() - HOURS_MS)
        if second < 10:
            renew(store, "dies", clock.now_ms())
        clock.advance(1_000)
        live = directory.query_nodes()
        assert set(live) >= {"ahead:1", "behind:1"}
        if 10 + PROMPT_MS // 1_000 < second < 9 + NODE_LEASE_MS // 1_000:
            assert live == ["ahead:1", "behind:1", "dies:1"], "who is late comes last"
    assert directory.query_nodes() == ["ahead:1", "behind:1"]


def test_a_wall_clock_that_jumps_leaves_every_node_where_it_was() -> None:
    store, clock = MemoryMetadataStore(), ManualClock()
    directory = Directory(store, clock)
    renew(store, "q", clock.now_ms())
    assert directory.query_nodes() == ["q:1"]
    clock.advance(LOOK_MS)
    renew(store, "q", clock.now_ms() - 24 * HOURS_MS)
    assert directory.query_nodes() == ["q:1"]


def test_nodes_stay_known_while_the_database_is_away() -> None:
    store, clock = Away(), ManualClock()
    directory = Directory(store, clock)
    renew(store, "q", clock.now_ms())
    assert directory.query_nodes() == ["q:1"]
    store.is_away = True
    clock.advance(10 * NODE_LEASE_MS)
    assert directory.query_nodes() == ["q:1"]
