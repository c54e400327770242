"""Tables in one snapshot: versions, visibility over time, and marks."""

from __future__ import annotations

from ingest.metadata.records import DesiredState, TableState
from tests.contract.metadata.world import NOON_MS, SPEC, SUPERVISOR, TABLE, TOPIC, World, at


def table(world: World, since: int | None = None) -> TableState:
    state = world.store.table(TABLE, since)
    assert state is not None
    return state


def names(state: TableState) -> list[str]:
    return [str(row.segment.id) for row in state.segments]


def mark(world: World, names: list[str], used: bool) -> int:
    return world.store.mark_segments(world.generation, TABLE, names, used, NOON_MS)


def test_an_unknown_table_is_none_and_a_supervisor_makes_its_table_known(world: World) -> None:
    assert world.store.table("unknown", None) is None
    assert world.store.datasources() == [TABLE]
    state = table(world)
    assert state.segments == () and state.groups == () and state.version == 1
    assert [stream.topic for stream in state.streams] == [TOPIC]
    assert state.specs == {SUPERVISOR: {1: SPEC}}


def test_a_table_shows_its_segments_with_everything_that_was_published(world: World) -> None:
    request = world.ready(at(p0=5, p1=7), hours=2)
    reply = world.publish(request)
    state = table(world)
    assert [row.segment.to_json() for row in state.segments] == sorted(request.segments, key=lambda s: str(s["id"]))
    assert {(row.added, row.removed, row.state) for row in state.segments} == {(reply.version, None, "published")}
    [stream] = state.streams
    assert (state.version, stream.committed) == (reply.version, at(p0=5, p1=7))


def test_since_a_version_only_the_difference_is_told(world: World) -> None:
    world.publish(world.ready(at(p0=5), last=True))
    held = table(world)
    assert table(world, held.version).segments == ()
    world.publish(world.ready(at(p1=5)))
    later = table(world, held.version)
    assert names(later) == sorted(set(names(table(world))) - set(names(held))) and later.removed == ()
    mark(world, names(held), used=False)
    difference = table(world, later.version)
    assert (difference.segments, list(difference.removed)) == ((), names(held))
    assert table(world, difference.version).removed == ()


def test_a_segment_marked_unused_and_used_again_is_visible_in_two_spans(world: World) -> None:
    world.publish(world.ready(at(p0=5)))
    start = table(world)
    assert mark(world, names(start), used=False) == 1 and table(world).segments == ()
    hidden = table(world)
    assert mark(world, names(start), used=True) == 1
    [row] = table(world).segments
    assert (row.added, row.removed, row.state) == (start.version + 2, None, "published")
    assert names(table(world, hidden.version)) == names(start)
    seen = table(world, start.version)
    assert names(seen) == names(start) and seen.removed == (), "gone and back is not gone"


def test_marks_that_change_nothing_leave_the_version(world: World) -> None:
    world.publish(world.ready(at(p0=5)))
    before = table(world)
    assert mark(world, names(before), used=True) == 0
    assert mark(world, ["unknown"], used=False) == 0
    assert mark(world, [], used=False) == 0
    assert world.store.mark_segments(world.generation, "other", names(before), False, NOON_MS) == 0
    assert mark(world, names(before) * 2, used=False) == 1
    assert mark(world, names(before), used=False) == 0
    assert table(world).version == before.version + 1


def test_many_segments_are_marked_at_one_version(world: World) -> None:
    world.publish(world.ready(at(p0=5), hours=30))
    before = table(world)
    assert mark(world, names(before), used=False) == 30
    assert table(world).version == before.version + 1


def test_segments_are_paged_in_the_order_of_their_ids(world: World) -> None:
    world.publish(world.ready(at(p0=5), hours=5))
    everything = names(table(world))
    mark(world, everything[1:2], used=False)
    page = world.store.segments(TABLE, None, 2, True)
    assert [str(row.segment.id) for row in page] == everything[:2]
    assert [row.state for row in page] == ["published", "unused"] and page[1].removed == table(world).version
    rest = world.store.segments(TABLE, everything[1], 99, True)
    assert [str(row.segment.id) for row in rest] == everything[2:]
    used = world.store.segments(TABLE, None, 99, False)
    assert [str(row.segment.id) for row in used] == everything[:1] + everything[2:]
    assert world.store.segments("unknown", None, 9, True) == []


def test_a_segment_with_two_spans_is_listed_once(world: World) -> None:
    world.publish(world.ready(at(p0=5)))
    for used in (False, True, False):
        mark(world, names(table(world, 0)) or [str(world.store.segments(TABLE, None, 1, True)[0].segment.id)], used)
    [row] = world.store.segments(TABLE, None, 9, True)
    assert (row.state, row.removed) == ("unused", table(world).version)


def test_tables_count_their_versions_apart(world: World) -> None:
    world.start(supervisor="ads-feed", table="ads")
    before = world.store.table_versions()
    world.publish(world.ready(at(p0=5)))
    assert world.store.table_versions() == {"ads": before["ads"], TABLE: before[TABLE] + 1}


def test_two_supervisors_feed_one_table(world: World) -> None:
    world.start(supervisor="more", first=50)
    mine, other = world.open(0), world.open(0, supervisor="more")
    world.attempt(other.ref)
    state = table(world)
    assert [stream.supervisor for stream in state.streams] == [SUPERVISOR, "more"]
    assert [(group.supervisor, group.group) for group in state.groups] == [(SUPERVISOR, 1), ("more", 1)]
    assert [group.sequences[0].assigned for group in state.groups] == [False, True]
    assert mine.start == at(p0=0) and other.start == at(p0=50)
    assert set(state.specs) == {SUPERVISOR, "more"}


def test_specs_are_those_that_unpublished_sequences_follow_and_the_newest(world: World) -> None:
    world.open(0)
    for version in (2, 3):
        world.store.put_supervisor(world.generation, SUPERVISOR, TABLE, {"v": version}, DesiredState.RUNNING, NOON_MS)
    assert table(world).specs == {SUPERVISOR: {1: SPEC, 3: {"v": 3}}}
