"""Numbers that stand for partitions of several topics: given once, in one transaction, and kept."""

from __future__ import annotations

import pytest

from ingest.errors import LeadershipLost
from ingest.metadata.store import MetadataStore
from ingest.protocol import Place, join_ids, split_ids
from ingest.protocol.places import ReadBefore
from tests.contract.metadata.world import SUPERVISOR, TABLE, World, at, audit

STREAM = "/edits-.*/"


def names(places: tuple[Place, ...]) -> list[str]:
    return [place.name for place in places]


def stored_ids(store: MetadataStore) -> dict[str, str]:
    stored = store.offsets(SUPERVISOR, STREAM)
    assert stored is not None
    return split_ids(stored.topic_id)


@pytest.fixture
def generation(world: World) -> int:
    return world.generation


def test_partitions_are_numbered_in_order_of_topic_and_later_ones_after_them(world: World, generation: int) -> None:
    store = world.store
    assert store.places(SUPERVISOR, STREAM) == ()
    first = store.name_partitions(generation, SUPERVISOR, STREAM, [("edits-b", 0), ("edits-a", 1), ("edits-a", 0)], {})
    assert names(first) == ["edits-a:0", "edits-a:1", "edits-b:0"] and [p.number for p in first] == [0, 1, 2]
    later = store.name_partitions(generation, SUPERVISOR, STREAM, [("edits-a", 2), ("edits-b", 0)], {})
    assert later[:3] == first and names(later[3:]) == ["edits-a:2"]
    assert store.places(SUPERVISOR, STREAM) == later
    assert store.name_partitions(generation, SUPERVISOR, STREAM, [], {}) == later, "what is gone keeps its number"


def test_each_stream_of_each_supervisor_counts_for_itself(world: World, generation: int) -> None:
    store = world.store
    store.name_partitions(generation, SUPERVISOR, STREAM, [("edits-a", 0)], {})
    other = store.name_partitions(generation, SUPERVISOR, "/.*/", [("z", 3)], {})
    another = store.name_partitions(generation, "another", STREAM, [("edits-b", 7)], {})
    assert [p.number for p in (*other, *another)] == [0, 0]


def test_an_old_leader_numbers_nothing(world: World, generation: int) -> None:
    with pytest.raises(LeadershipLost):
        world.store.name_partitions(generation - 1, SUPERVISOR, STREAM, [("edits-a", 0)], {})
    assert world.store.places(SUPERVISOR, STREAM) == ()


def test_topics_that_join_bring_their_ids_and_known_ones_keep_theirs(world: World, generation: int) -> None:
    store = world.store
    store.name_partitions(generation, SUPERVISOR, STREAM, [("a", 0)], {"a": "id-a"})
    store.init_offsets(generation, SUPERVISOR, TABLE, STREAM, join_ids({"a": "id-a"}), at(p0=0))
    store.name_partitions(generation, SUPERVISOR, STREAM, [("b", 0)], {"a": "made-again", "b": "id-b"})
    assert stored_ids(store) == {"a": "id-a", "b": "id-b"}


def test_a_reset_moves_the_ids_of_topics_whose_partitions_move(world: World, generation: int) -> None:
    store = world.store
    store.name_partitions(generation, SUPERVISOR, STREAM, [("a", 0), ("b", 0)], {})
    store.init_offsets(generation, SUPERVISOR, TABLE, STREAM, join_ids({"a": "a1", "b": "b1"}), at(p0=9, p1=9))
    store.reset_offsets(generation, SUPERVISOR, STREAM, at(p1=0), join_ids({"a": "a2", "b": "b2"}), audit())
    assert stored_ids(store) == {"a": "a1", "b": "b2"}


def test_what_other_streams_have_committed_is_told_by_topic_and_partition(world: World, generation: int) -> None:
    store = world.store
    assert store.read_before("fresh", STREAM) == {}
    store.init_offsets(generation, "fresh", TABLE, "a", "id-a", at(p0=5, p1=9))
    store.name_partitions(generation, "fresh", "/.*/", [("a", 0), ("b", 3)], {})
    store.init_offsets(generation, "fresh", TABLE, "/.*/", join_ids({"b": "id-b"}), at(p0=7, p1=2))
    store.init_offsets(generation, "another", TABLE, "a", None, at(p0=99))
    found = store.read_before("fresh", STREAM)
    assert found == {
        ("a", 0): ReadBefore(7, None),
        ("a", 1): ReadBefore(9, "id-a"),
        ("b", 3): ReadBefore(2, "id-b"),
    }
    assert set(store.read_before("fresh", "a")) == {("a", 0), ("b", 3)}, "not by itself"
    assert found[("b", 3)].of("id-b") and found[("b", 3)].of(None) and not found[("b", 3)].of("id-c")


def test_an_epoch_is_never_of_two_streams_of_one_supervisor(world: World, generation: int) -> None:
    store = world.store
    store.init_offsets(generation, "fresh", TABLE, "a", None, at(p0=5, p1=9))
    store.init_offsets(generation, "fresh", TABLE, "b", None, at(p0=1))
    raised = store.reset_offsets(generation, "fresh", "a", at(p0=5, p1=9), None, audit(at_ms=1))
    assert raised.epochs == at(p0=2, p1=1)
    assert store.reset_offsets(generation, "fresh", "b", at(p0=1), None, audit(at_ms=2)).epochs == at(p0=3)
    assert store.reset_offsets(generation, "fresh", "a", at(p0=5), None, audit(at_ms=3)).epochs == at(p0=4, p1=1)
