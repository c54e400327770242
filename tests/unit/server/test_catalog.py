"""What a query node is told of a table, as its metadata have it."""

from __future__ import annotations

from ingest.clock import ManualClock
from ingest.metadata.memory import MemoryMetadataStore
from ingest.metadata.records import AuditRow, DesiredState, NextSequence
from ingest.offsets import OffsetMap
from server.catalog import StoreCatalog
from tests.in_process import spec


def test_the_offsets_of_a_supervisor_are_those_of_the_topic_it_reads_now() -> None:
    store = MemoryMetadataStore()
    leader = store.take_leadership("one", "one:1", None)
    assert leader is not None
    catalog = StoreCatalog(store, ManualClock(), ("query",), {})
    seen: dict[int, tuple[int, int]] = {}
    for topic in ("zebra", "apple", "mouse", "zebra"):
        posted = store.put_supervisor(leader.generation, "clicks", "clicks", spec(topic), DesiredState.RUNNING, 0)
        between = catalog.snapshot("clicks", None)
        assert between is not None
        stored = store.init_offsets(leader.generation, "clicks", "clicks", topic, None, OffsetMap({0: 0}))
        snapshot = catalog.snapshot("clicks", None)
        assert snapshot is not None
        assert snapshot.committed == {"clicks": dict(stored.committed)}, f"live rows of {topic} begin there"
        assert snapshot.epochs == {"clicks": dict(stored.epochs)}
        record = store.open_group(leader.generation, "clicks", topic, (0,), NextSequence(posted.version, 0))
        assert dict(record.start) == snapshot.committed["clicks"]
        audit = AuditRow(0, "clicks", "reset", {"topic": topic, "try": len(seen)})
        moves = OffsetMap({0: stored.committed[0] + 20})
        moved = store.reset_offsets(leader.generation, "clicks", topic, moves, None, audit)
        assert moved.epochs[0] not in seen or seen[moved.epochs[0]][0] < moved.committed[0], "else it passes for less"
        seen[moved.epochs[0]] = (moved.committed[0], 0)
