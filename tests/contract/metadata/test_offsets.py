"""Committed offsets, reset epochs and the life of groups and sequences."""

from __future__ import annotations

import pytest

from ingest.metadata.records import ResetWish, StreamOffsets
from ingest.metadata.store import StoreConflict
from ingest.offsets import OffsetMap
from ingest.protocol import PublishOutcome, SequenceState
from tests.contract.metadata.world import NOON_MS, SUPERVISOR, TABLE, TOPIC, World, at, audit, following

OPEN, SEALED, VOID = SequenceState.OPEN, SequenceState.SEALED, SequenceState.VOID


def stream(world: World) -> StreamOffsets:
    stored = world.store.offsets(SUPERVISOR, TOPIC)
    assert stored is not None
    return stored


def version(world: World) -> int:
    return world.store.table_versions()[TABLE]


def states(world: World, group: int) -> list[SequenceState]:
    return [record.state for record in world.store.sequences(SUPERVISOR, group, 0)]


def test_first_offsets_are_stored_once_and_raise_the_version(world: World) -> None:
    assert stream(world) == StreamOffsets(SUPERVISOR, TOPIC, "topic-id", at(p0=0, p1=0), at(p0=0, p1=0), at(p0=0, p1=0))
    before = version(world)
    again = world.store.init_offsets(world.generation, SUPERVISOR, TABLE, TOPIC, "other", at(p0=99))
    assert again == stream(world) and again.topic_id == "topic-id" and version(world) == before


def test_a_new_topic_of_the_same_supervisor_has_its_own_offsets(world: World) -> None:
    world.store.init_offsets(world.generation, SUPERVISOR, TABLE, "second", None, at(p0=7))
    assert stream(world).committed == at(p0=0, p1=0)
    second = world.store.offsets(SUPERVISOR, "second")
    assert second is not None and second.committed == at(p0=7) and second.topic_id is None
    assert world.store.offsets(SUPERVISOR, "third") is None


def test_partitions_found_later_are_added_and_known_ones_stay(world: World) -> None:
    before = version(world)
    added = world.store.add_partitions(world.generation, SUPERVISOR, TOPIC, at(p1=50, p2=3))
    assert added.committed == at(p0=0, p1=0, p2=3) and added.epochs == at(p0=0, p1=0, p2=0)
    assert version(world) == before + 1
    assert world.store.add_partitions(world.generation, SUPERVISOR, TOPIC, at(p2=9)) == added
    assert version(world) == before + 1
    with pytest.raises(StoreConflict, match="no offsets of topic 'unknown'"):
        world.store.add_partitions(world.generation, SUPERVISOR, "unknown", at(p0=0))


def test_a_partition_found_later_has_no_epoch_of_another_topic(world: World) -> None:
    """What was answered of it there would pass for what is answered here."""
    store, generation = world.store, world.generation
    store.init_offsets(generation, SUPERVISOR, TABLE, "second", None, at(p0=0, p1=0, p2=0))
    store.reset_offsets(generation, SUPERVISOR, "second", at(p2=900), None, audit())
    store.reset_offsets(generation, SUPERVISOR, TOPIC, at(p0=0, p1=0), None, audit("back"))
    second = store.offsets(SUPERVISOR, "second")
    assert second is not None and second.epochs == at(p0=1, p1=1, p2=2)
    added = store.add_partitions(generation, SUPERVISOR, TOPIC, at(p2=3, p3=0))
    assert added.epochs == at(p0=2, p1=2, p2=3, p3=2)


def test_a_group_starts_at_the_committed_offsets(world: World) -> None:
    world.publish(world.ready(at(p0=5, p1=7), last=True))
    record = world.open(1)
    assert (record.start, record.epochs, record.state) == (at(p1=7), at(p1=0), OPEN)
    assert (record.ref.group, record.ref.number, record.assigned, record.opened_at_ms) == (2, 0, False, NOON_MS)


def test_an_open_sequence_owns_its_partitions(world: World) -> None:
    record = world.open(0, 1)
    with pytest.raises(StoreConflict, match=f"owned by the open sequence {record.ref.name}"):
        world.open(1)
    with pytest.raises(StoreConflict, match="partition 7 has no offset row"):
        world.open(7)
    assert [group.group for group in world.store.groups(SUPERVISOR)] == [record.ref.group]


def test_released_partitions_are_acquired_at_their_saved_end(world: World) -> None:
    one = world.open(0, 1)
    [sealed] = world.seal(one.ref, at(p0=5, p1=7), last=True)
    assert sealed.released and sealed.state is SEALED
    two, three = world.open(0), world.open(1)
    assert (two.start, three.start) == (at(p0=5), at(p1=7)), "before the predecessor is published"


def test_group_epochs_and_sequence_numbers_are_never_used_twice(world: World) -> None:
    groups = []
    for _ in range(3):
        record = world.open(0, 1)
        groups.append(record.ref.group)
        world.store.void(world.generation, SUPERVISOR, record.ref.group, 0, audit())
    assert groups == [1, 2, 3]


def test_sealing_opens_the_next_sequence_where_this_one_ends(world: World) -> None:
    record = world.open(0, 1)
    sealed, successor = world.store.seal(world.generation, record.ref, at(p0=5, p1=0), following(4))
    assert (sealed.state, sealed.end, sealed.released) == (SEALED, at(p0=5, p1=0), False)
    assert (successor.ref.number, successor.start, successor.state) == (1, at(p0=5, p1=0), OPEN)
    assert (successor.spec_version, sealed.spec_version, successor.end) == (4, 1, None)


def test_the_first_saved_end_wins(world: World) -> None:
    record = world.open(0, 1)
    first = world.seal(record.ref, at(p0=5, p1=0))
    assert world.seal(record.ref, at(p0=9, p1=9)) == first
    assert world.seal(record.ref, at(p0=9, p1=9), last=True) == first
    assert world.store.sequences(SUPERVISOR, record.ref.group, 0) == first


def test_a_seal_is_answered_alike_after_the_publish(world: World) -> None:
    record = world.open(0, 1)
    token = world.attempt(record.ref)
    sealed, successor = world.seal(record.ref, at(p0=5, p1=0))
    world.publish(world.prepare(token, sealed))
    again = world.seal(record.ref, at(p0=6, p1=6))
    assert again[0].state is SequenceState.PUBLISHED and again[0].end == sealed.end
    assert again[1].start == successor.start


def test_a_range_that_is_empty_everywhere_is_closed_and_needs_no_publish(world: World) -> None:
    record = world.open(0, 1)
    [closed] = world.seal(record.ref, at(p0=0, p1=0), last=True)
    assert closed.state is SequenceState.CLOSED_EMPTY and closed.released and closed.is_empty
    assert world.open(0, 1).start == at(p0=0, p1=0)


def test_no_end_lies_below_the_start_or_names_other_partitions(world: World) -> None:
    world.publish(world.ready(at(p0=5, p1=7), last=True))
    record = world.open(0, 1)
    with pytest.raises(StoreConflict, match="starts at"):
        world.seal(record.ref, at(p0=4, p1=7))
    with pytest.raises(AssertionError, match="other partitions"):
        world.seal(record.ref, at(p0=9))
    assert states(world, record.ref.group) == [OPEN]


def test_a_sequence_that_does_not_exist_or_was_voided_cannot_be_sealed(world: World) -> None:
    record = world.open(0, 1)
    world.store.void(world.generation, SUPERVISOR, record.ref.group, 0, audit())
    with pytest.raises(StoreConflict, match="voided"):
        world.seal(record.ref, at(p0=5, p1=7))
    with pytest.raises(StoreConflict, match="does not exist"):
        world.seal(type(record.ref)(SUPERVISOR, 77, 0), at(p0=5))


def test_a_successor_is_assigned_when_attempts_read_on_into_it(world: World) -> None:
    record = world.open(0)
    token = world.attempt(record.ref)
    _, second = world.seal(record.ref, at(p0=5))
    assert second.assigned
    world.end(token)
    _, third = world.seal(second.ref, at(p0=6))
    assert not third.assigned, "nobody lives who could read it"


def test_voiding_takes_dependents_along_and_reopens_at_the_stored_offsets(world: World) -> None:
    one = world.open(0, 1)
    world.seal(one.ref, at(p0=5, p1=7), last=True)
    two = world.open(1)
    world.seal(two.ref, at(p1=9))
    before = version(world)
    voided = world.store.void(world.generation, SUPERVISOR, one.ref.group, 0, audit("conflict"))
    assert [(r.ref.group, r.ref.number, r.state) for r in voided] == [(1, 0, VOID), (2, 0, VOID), (2, 1, VOID)]
    assert version(world) == before + 1
    assert [row.action for row in world.store.audit(SUPERVISOR, 1)] == ["conflict"]
    assert world.open(0, 1).start == at(p0=0, p1=0)
    assert stream(world).epochs == at(p0=0, p1=0)


def test_voiding_leaves_alone_what_does_not_depend_on_it(world: World) -> None:
    one, two = world.open(0), world.open(1)
    world.seal(two.ref, at(p1=4))
    world.store.void(world.generation, SUPERVISOR, one.ref.group, 0, audit())
    assert states(world, two.ref.group) == [SEALED, OPEN]


def test_a_group_that_took_over_an_unread_partition_does_not_depend_on_the_old_one(world: World) -> None:
    one = world.open(0, 1)
    world.seal(one.ref, at(p0=5, p1=0), last=True)
    two, three = world.open(0), world.open(1)
    world.store.void(world.generation, SUPERVISOR, one.ref.group, 0, audit())
    assert states(world, two.ref.group) == [VOID]
    assert states(world, three.ref.group) == [OPEN]


def test_voiding_a_tail_keeps_the_sealed_head_publishable(world: World) -> None:
    record = world.open(0)
    token = world.attempt(record.ref)
    head, tail = world.seal(record.ref, at(p0=5))
    world.store.void(world.generation, SUPERVISOR, record.ref.group, 1, audit())
    assert states(world, record.ref.group) == [SEALED, VOID]
    assert world.seal(record.ref, at(p0=5))[0].released, "nothing follows it in its group any more"
    assert world.open(0).start == at(p0=5)
    assert world.publish(world.prepare(token, head)).outcome is PublishOutcome.PUBLISHED


def test_voiding_twice_changes_nothing_more(world: World) -> None:
    record = world.open(0)
    world.store.void(world.generation, SUPERVISOR, record.ref.group, 0, audit())
    before = version(world)
    assert world.store.void(world.generation, SUPERVISOR, record.ref.group, 0, audit()) == []
    assert version(world) == before and len(world.store.audit(SUPERVISOR, 10)) == 1


def test_a_void_that_is_not_read_again_raises_the_epochs_of_its_partitions(world: World) -> None:
    record = world.open(0)
    world.store.void(world.generation, SUPERVISOR, record.ref.group, 0, audit(), raise_epochs=True)
    assert stream(world).epochs == at(p0=1, p1=0) and stream(world).committed == at(p0=0, p1=0)
    assert world.open(0).epochs == at(p0=1)


def test_epochs_are_not_raised_under_a_sequence_that_is_still_to_be_published(world: World) -> None:
    record = world.open(0)
    world.seal(record.ref, at(p0=5))
    with pytest.raises(StoreConflict, match="still unpublished"):
        world.store.void(world.generation, SUPERVISOR, record.ref.group, 1, audit(), raise_epochs=True)
    assert states(world, record.ref.group) == [SEALED, OPEN] and not world.store.audit(SUPERVISOR, 9)


def test_a_reset_moves_named_partitions_and_voids_what_holds_them(world: World) -> None:
    one, two = world.open(0), world.open(1)
    before = version(world)
    moved = world.store.reset_offsets(world.generation, SUPERVISOR, TOPIC, at(p0=100), "new-id", audit("reset"))
    assert moved == stream(world)
    assert (moved.committed, moved.epochs, moved.starts) == (at(p0=100, p1=0), at(p0=1, p1=0), at(p0=100, p1=0))
    assert moved.topic_id == "new-id" and version(world) == before + 1
    assert states(world, one.ref.group) == [VOID] and states(world, two.ref.group) == [OPEN]
    assert (world.open(0).start, stream(world).epochs[0]) == (at(p0=100), 1)


def test_a_repeated_reset_raises_no_further_epoch(world: World) -> None:
    for _ in range(2):
        world.store.reset_offsets(world.generation, SUPERVISOR, TOPIC, at(p0=100), None, audit("reset", 5))
    assert stream(world).epochs == at(p0=1, p1=0) and len(world.store.audit(SUPERVISOR, 9)) == 1
    world.store.reset_offsets(world.generation, SUPERVISOR, TOPIC, at(p0=100), None, audit("reset", 6))
    assert stream(world).epochs == at(p0=2, p1=0)


def ask(world: World, moves: OffsetMap, supervisor: str = SUPERVISOR, now_ms: int = NOON_MS) -> ResetWish:
    wish = ResetWish(0, supervisor, TOPIC, moves, "topic-id", False, now_ms)
    return world.store.ask_reset(world.generation, wish)


def test_a_wished_reset_waits_in_the_store_and_is_carried_out_once(world: World) -> None:
    record, wish = world.open(0), ask(world, at(p0=100))
    assert world.store.reset_wishes(SUPERVISOR) == [wish] == world.store.reset_wishes(None)
    assert (wish.moves, wish.topic, wish.topic_id, wish.discard) == (at(p0=100), TOPIC, "topic-id", False)
    assert states(world, record.ref.group) == [OPEN], "nothing has moved"
    for at_ms in (5, 6):  # the second by a leader that has not heard of the first
        world.lead(f"overlord-{at_ms}")
        world.store.carry_out_reset(world.generation, SUPERVISOR, TOPIC, wish.wish_id, audit("reset", at_ms))
        assert not world.store.reset_wishes(SUPERVISOR)
    assert stream(world).committed == at(p0=100, p1=0) and stream(world).epochs == at(p0=1, p1=0)
    assert len(world.store.audit(SUPERVISOR, 9)) == 1


def test_equal_wishes_are_one_until_it_is_carried_out_and_ids_are_not_used_again(world: World) -> None:
    first = ask(world, at(p0=100))
    assert ask(world, at(p0=100), now_ms=NOON_MS + 1) == first
    other = ask(world, at(p1=3))
    assert other.wish_id > first.wish_id and world.store.reset_wishes(SUPERVISOR) == [first, other]
    for wish in (first, other):
        world.store.carry_out_reset(world.generation, SUPERVISOR, TOPIC, wish.wish_id, audit("reset", wish.wish_id))
    again = ask(world, at(p0=100))
    assert again.wish_id > other.wish_id
    assert world.store.reset_wishes("unknown") == []


def test_a_reset_of_a_topic_without_offsets_is_refused_before_it_is_stored(world: World) -> None:
    with pytest.raises(StoreConflict, match="no offsets of topic"):
        ask(world, at(p0=1), supervisor="unknown")
    assert world.store.reset_wishes(None) == []


def test_a_reset_to_the_stored_offsets_raises_epochs_only(world: World) -> None:
    world.publish(world.ready(at(p0=5, p1=7)))
    moved = world.store.reset_offsets(world.generation, SUPERVISOR, TOPIC, at(p0=5), None, audit("suspend"))
    assert (moved.committed, moved.epochs, moved.starts) == (at(p0=5, p1=7), at(p0=1, p1=0), at(p0=5, p1=0))
    # What was committed between a look at the offsets and this is not moved back: nobody looks outside.
    raised = world.store.reset_offsets(world.generation, SUPERVISOR, TOPIC, None, None, audit("rest"))
    assert (raised.committed, raised.epochs, raised.topic_id) == (at(p0=5, p1=7), at(p0=2, p1=1), moved.topic_id)


def test_a_reset_voids_followers_through_partitions_that_were_not_reset(world: World) -> None:
    one = world.open(0, 1)
    world.seal(one.ref, at(p0=5, p1=7), last=True)
    two = world.open(1)
    world.store.reset_offsets(world.generation, SUPERVISOR, TOPIC, at(p0=100), None, audit())
    assert states(world, one.ref.group) == [VOID] and states(world, two.ref.group) == [VOID]
    assert world.open(1).start == at(p1=0), "other partitions lose nothing: they are read again"


def test_an_end_is_raised_while_nobody_has_read_the_next_sequence(world: World) -> None:
    record = world.open(0)
    token = world.attempt(record.ref)
    world.seal(record.ref, at(p0=5))
    raised = world.store.raise_end(world.generation, token, record.ref, at(p0=8))
    assert (raised.end, raised.state) == (at(p0=8), SEALED)
    assert world.store.raise_end(world.generation, token, record.ref, at(p0=8)) == raised
    head, tail = world.store.sequences(SUPERVISOR, record.ref.group, 0)
    assert head == raised and tail.start == at(p0=8)
    assert world.publish(world.prepare(token, head)).outcome is PublishOutcome.PUBLISHED


def test_a_seal_below_where_a_raised_end_moved_the_start_is_of_an_outdated_view(world: World) -> None:
    record = world.open(0)
    token = world.attempt(record.ref)
    _, tail = world.seal(record.ref, at(p0=5))
    world.store.raise_end(world.generation, token, record.ref, at(p0=8))
    with pytest.raises(StoreConflict, match="starts at"):
        world.seal(tail.ref, at(p0=5), last=True)
    [_, moved] = world.store.sequences(SUPERVISOR, record.ref.group, 0)
    assert (moved.state, moved.start) == (SequenceState.OPEN, at(p0=8))


def test_an_end_is_not_raised_over_what_somebody_read_or_continued_or_published(world: World) -> None:
    record = world.open(0)
    token = world.attempt(record.ref)
    head, tail = world.seal(record.ref, at(p0=5))
    with pytest.raises(StoreConflict, match="does not reach"):
        world.store.raise_end(world.generation, token, record.ref, at(p0=4))
    world.store.record_positions(world.generation, token, 1, at(p0=6), NOON_MS)
    with pytest.raises(StoreConflict, match="has read past"):
        world.store.raise_end(world.generation, token, record.ref, at(p0=8))
    world.publish(world.prepare(token, head))
    with pytest.raises(StoreConflict, match="only a sealed"):
        world.store.raise_end(world.generation, token, record.ref, at(p0=8))
    with pytest.raises(StoreConflict, match="only a sealed"):
        world.store.raise_end(world.generation, token, tail.ref, at(p0=8))


def test_an_end_is_not_raised_once_another_group_starts_there(world: World) -> None:
    record = world.open(0)
    token = world.attempt(record.ref)
    world.seal(record.ref, at(p0=5), last=True)
    world.open(0)
    with pytest.raises(StoreConflict, match="already continues"):
        world.store.raise_end(world.generation, token, record.ref, at(p0=8))


def test_a_publish_to_the_end_before_it_was_raised_comes_too_early(world: World) -> None:
    record = world.open(0)
    token, other = world.attempt(record.ref), world.attempt(record.ref)
    head, _ = world.seal(record.ref, at(p0=5))
    request = world.prepare(other, head)
    world.store.raise_end(world.generation, token, record.ref, at(p0=8))
    assert world.publish(request).outcome is PublishOutcome.TOO_EARLY
    assert stream(world).committed == at(p0=0, p1=0)


def test_groups_show_unpublished_sequences_live_attempts_and_what_was_reported(world: World) -> None:
    record = world.open(0, 1)
    gone, alive = world.attempt(record.ref), world.attempt(record.ref)
    world.store.record_positions(world.generation, gone, 0, at(p0=9, p1=2), NOON_MS)
    world.store.record_positions(world.generation, alive, 0, at(p0=4, p1=3), NOON_MS)
    world.end(gone)
    [group] = world.store.groups(SUPERVISOR)
    assert (group.group, group.partitions) == (1, (0, 1))
    assert [attempt.token for attempt in group.attempts] == [alive]
    assert group.reported == at(p0=9, p1=3), "the dead one was answered from, too"
    head, tail = world.seal(record.ref, at(p0=9, p1=3))
    world.publish(world.prepare(alive, head))
    [group] = world.store.groups(SUPERVISOR)
    assert [r.ref.number for r in group.sequences] == [1] and group.reported == OffsetMap()
    world.seal(tail.ref, at(p0=9, p1=3), last=True)
    [group] = world.store.groups(SUPERVISOR)
    assert group.sequences == () and len(group.attempts) == 1, "a live attempt keeps its group listed"
    world.end(alive)
    assert world.store.groups(SUPERVISOR) == []


def test_a_group_of_an_unknown_supervisor_or_stream_is_refused(world: World) -> None:
    with pytest.raises(StoreConflict, match="no offsets of topic"):
        world.store.open_group(world.generation, "nobody", TOPIC, [0], following())
    with pytest.raises(StoreConflict, match="no group 9"):
        world.store.void(world.generation, SUPERVISOR, 9, 0, audit())
    assert world.store.sequences(SUPERVISOR, 9, 0) == ()
