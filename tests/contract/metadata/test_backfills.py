"""A jump to the latest offsets: what is skipped becomes another supervisor's range, in the same transaction."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.metadata.records import DesiredState, ResetWish, StreamOffsets
from ingest.metadata.store import StoreConflict
from ingest.offsets import OffsetMap
from ingest.protocol import SequenceState
from tests.contract.metadata.world import NOON_MS, SUPERVISOR, TABLE, TOPIC, World, at, audit

LATER = "clicks_backfill_7"
SPEC: dict[str, Any] = {"type": "kafka", "id": LATER, "spec": {"ioConfig": {"topic": TOPIC}}}


def ask(world: World, moves: OffsetMap, topic_id: str | None = "topic-id") -> ResetWish:
    wish = ResetWish(0, SUPERVISOR, TOPIC, moves, topic_id, False, NOON_MS, SPEC)
    return world.store.ask_reset(world.generation, wish)


def carry_out(world: World, wish: ResetWish, at_ms: int = 5) -> StreamOffsets:
    row = audit("reset", at_ms, why="w")
    return world.store.carry_out_reset(world.generation, SUPERVISOR, TOPIC, wish.wish_id, row)


def offsets(world: World, supervisor: str) -> StreamOffsets | None:
    return world.store.offsets(supervisor, TOPIC)


def test_what_is_skipped_is_the_range_of_another_supervisor_from_the_same_version_on(world: World) -> None:
    world.publish(world.ready(at(p0=5, p1=7)))
    before, wish = world.store.table_versions()[TABLE], ask(world, at(p0=50, p1=70))
    assert world.store.reset_wishes(SUPERVISOR) == [wish] and wish.backfill == SPEC
    assert world.store.supervisor(LATER) is None, "nothing has moved"
    for _ in range(2):  # the second by a leader that has not heard of the first
        world.lead("overlord-2")
        assert carry_out(world, wish).committed == at(p0=50, p1=70)
    assert world.store.table_versions()[TABLE] == before + 1
    later = offsets(world, LATER)
    assert later == StreamOffsets(LATER, TOPIC, "topic-id", at(p0=5, p1=7), at(p0=0, p1=0), at(p0=5, p1=7))
    record = world.store.supervisor(LATER)
    assert record is not None and (record.datasource, record.desired) == (TABLE, DesiredState.RUNNING)
    assert record.spec["spec"]["ioConfig"] == {
        "topic": TOPIC,
        "boundedStreamConfig": {
            "startSequenceNumbers": {"0": 5, "1": 7},
            "endSequenceNumbers": {"0": 50, "1": 70},
        },
    }
    assert record in world.store.supervisors() and world.store.spec(LATER, record.version) == record.spec
    [row] = world.store.audit(SUPERVISOR, 9)
    assert row.detail == {"why": "w", "moves": {"0": 50, "1": 70}, "backfill": LATER}
    state = world.store.table(TABLE, None)
    assert state is not None and {s.supervisor: s.committed[0] for s in state.streams} == {SUPERVISOR: 50, LATER: 5}


def test_rows_that_were_not_published_in_time_are_the_ranges_too(world: World) -> None:
    record = world.open(0, 1)
    wish = ask(world, at(p0=50, p1=70))
    carry_out(world, wish)
    [void] = world.store.sequences(SUPERVISOR, record.ref.group, 0)
    later = offsets(world, LATER)
    assert void.state is SequenceState.VOID and later is not None and later.committed == at(p0=0, p1=0)


def test_a_partition_that_stands_further_is_not_moved_back(world: World) -> None:
    wish = ask(world, at(p0=3, p1=70))
    world.publish(world.ready(at(p0=5, p1=7)))
    moved = carry_out(world, wish)
    assert (moved.committed, moved.epochs) == (at(p0=5, p1=70), at(p0=1, p1=1))
    record = world.store.supervisor(LATER)
    assert record is not None
    bounds = record.spec["spec"]["ioConfig"]["boundedStreamConfig"]
    assert bounds == {"startSequenceNumbers": {"0": 5, "1": 7}, "endSequenceNumbers": {"0": 5, "1": 70}}


def test_a_second_jump_begins_where_the_first_one_ended(world: World) -> None:
    carry_out(world, ask(world, at(p0=50)))
    other = dict(SPEC, id="second")
    wish = world.store.ask_reset(
        world.generation, ResetWish(0, SUPERVISOR, TOPIC, at(p0=60), "topic-id", False, NOON_MS, other)
    )
    carry_out(world, wish, 6)
    first, second = offsets(world, LATER), offsets(world, "second")
    assert first is not None and second is not None
    assert (first.committed, second.committed) == (at(p0=0), at(p0=50))


@pytest.mark.parametrize("why", ["the topic was made again", "the name was taken"])
def test_a_jump_that_has_lost_its_meaning_changes_nothing_and_says_so(world: World, why: str) -> None:
    wish = ask(world, at(p0=50))
    if why == "the name was taken":
        world.store.put_supervisor(world.generation, LATER, TABLE, {"a": 1}, DesiredState.RUNNING, NOON_MS)
    else:
        world.store.reset_offsets(world.generation, SUPERVISOR, TOPIC, at(p0=2), "topic-id-2", audit("reset", 3))
    before = offsets(world, SUPERVISOR)
    assert carry_out(world, wish) == before and not world.store.reset_wishes(SUPERVISOR)
    assert offsets(world, LATER) is None
    row = world.store.audit(SUPERVISOR, 1)[0]
    assert row.action == "backfill refused" and row.detail["backfill"] == LATER and row.detail["refused"]


def test_another_leader_is_refused_and_the_wish_stays(world: World) -> None:
    wish, old = ask(world, at(p0=50)), world.generation
    world.lead("overlord-2")
    with pytest.raises(Exception, match="lead"):
        world.store.carry_out_reset(old, SUPERVISOR, TOPIC, wish.wish_id, audit("reset", 5))
    assert world.store.reset_wishes(SUPERVISOR) == [wish] and world.store.supervisor(LATER) is None
    with pytest.raises(StoreConflict):
        world.store.ask_reset(world.generation, ResetWish(0, "unknown", TOPIC, at(p0=1), None, False, NOON_MS, SPEC))
