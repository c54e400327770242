"""The publish transaction: its answers, their order, and that it is all or nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ingest.errors import LeadershipLost
from ingest.metadata.store import StoreConflict
from ingest.offsets import OffsetMap
from ingest.protocol import PartitionCounts, PublishOutcome, SequenceState, StageRequest
from tests.contract.metadata.world import NOON_MS, SUPERVISOR, TABLE, TOPIC, World, at, audit


def committed(world: World) -> OffsetMap:
    stored = world.store.offsets(SUPERVISOR, TOPIC)
    assert stored is not None
    return stored.committed


def version(world: World) -> int:
    return world.store.table_versions()[TABLE]


def visible(world: World) -> list[str]:
    table = world.store.table(TABLE, None)
    assert table is not None
    return [str(row.segment.id) for row in table.segments]


def test_a_publish_moves_segments_offsets_ledger_state_and_version_together(world: World) -> None:
    before = version(world)
    request = world.ready(at(p0=5, p1=7), hours=2, quarantined=3)
    reply = world.publish(request)
    assert (reply.outcome, reply.version) == (PublishOutcome.PUBLISHED, before + 1)
    assert committed(world) == at(p0=5, p1=7)
    assert visible(world) == sorted(str(segment["id"]) for segment in request.segments)
    [row] = world.store.ledger(SUPERVISOR, 0, 10)
    assert (row.ref, row.start, row.end, row.version) == (request.ref, request.start, request.end, reply.version)
    assert row.counts == request.counts and row.token == request.token and row.topic == TOPIC
    [record] = world.store.sequences(SUPERVISOR, request.ref.group, 0)[:1]
    assert (record.state, record.version) == (SequenceState.PUBLISHED, reply.version)
    [quarantine] = world.store.quarantine_files(TABLE, 10)
    assert (quarantine.rows, quarantine.ref) == (3, request.ref)
    assert version(world) == before + 1


def test_a_repeated_publish_is_already_even_when_the_attempt_was_fenced_since(world: World) -> None:
    request = world.ready(at(p0=5, p1=7))
    first = world.publish(request)
    world.end(request.token)
    again = world.publish(request)
    assert (again.outcome, again.version) == (PublishOutcome.ALREADY, first.version)
    assert version(world) == first.version


def test_already_is_told_even_by_an_overlord_that_leads_no_more(world: World) -> None:
    request = world.ready(at(p0=5, p1=7))
    world.publish(request)
    old = world.generation
    world.lead("overlord-2")
    assert world.store.publish(old, request, NOON_MS).outcome is PublishOutcome.ALREADY


def test_an_overlord_that_leads_no_more_publishes_nothing(world: World) -> None:
    request = world.ready(at(p0=5, p1=7))
    old = world.generation
    world.lead("overlord-2")
    with pytest.raises(LeadershipLost):
        world.store.publish(old, request, NOON_MS)
    assert committed(world) == at(p0=0, p1=0) and not visible(world)
    assert world.publish(request).outcome is PublishOutcome.PUBLISHED


def test_a_fenced_attempt_publishes_nothing(world: World) -> None:
    request = world.ready(at(p0=5, p1=7))
    world.end(request.token)
    assert world.publish(request).outcome is PublishOutcome.FENCED
    assert world.publish(replace(request, token="never-created")).outcome is PublishOutcome.FENCED
    assert committed(world) == at(p0=0, p1=0) and not visible(world)


def test_a_publish_of_another_groups_attempt_is_fenced(world: World) -> None:
    request = world.ready(at(p0=5))
    other = world.attempt(world.open(1).ref)
    assert world.publish(replace(request, token=other)).outcome is PublishOutcome.FENCED


def test_the_other_replica_that_publishes_later_is_told_already(world: World) -> None:
    record = world.open(0, 1)
    one, two = world.attempt(record.ref), world.attempt(record.ref)
    sealed, _ = world.seal(record.ref, at(p0=3, p1=3))
    first, second = world.prepare(one, sealed), world.prepare(two, sealed)
    assert [s["id"] for s in first.segments] == [s["id"] for s in second.segments]
    assert world.publish(first).outcome is PublishOutcome.PUBLISHED
    assert world.publish(second).outcome is PublishOutcome.ALREADY
    assert len(visible(world)) == 1
    [row] = [row for row in world.store.staged_of_ended(10) if row.token == two]
    assert row.state == "superseded", "what the loser uploaded belongs to the sweeper"


def test_the_second_sequence_waits_for_the_first(world: World) -> None:
    record = world.open(0)
    token = world.attempt(record.ref)
    first, following = world.seal(record.ref, at(p0=3))
    second, _ = world.seal(following.ref, at(p0=9))
    later, earlier = world.prepare(token, second), world.prepare(token, first)
    assert world.publish(later).outcome is PublishOutcome.TOO_EARLY
    assert world.publish(earlier).outcome is PublishOutcome.PUBLISHED
    assert world.publish(later).outcome is PublishOutcome.PUBLISHED
    assert committed(world) == at(p0=9, p1=0)


def test_an_open_sequence_is_too_early(world: World) -> None:
    record = world.open(0)
    token = world.attempt(record.ref)
    sealed = replace(record, end=at(p0=3))
    request = world.prepare(token, sealed)
    assert world.publish(request).outcome is PublishOutcome.TOO_EARLY


def test_another_range_than_the_saved_one_is_a_conflict(world: World) -> None:
    request = world.ready(at(p0=5, p1=7))
    assert world.publish(replace(request, start=at(p0=1, p1=0))).outcome is PublishOutcome.CONFLICT
    assert world.publish(replace(request, end=at(p0=6, p1=7))).outcome is PublishOutcome.CONFLICT
    assert world.publish(request).outcome is PublishOutcome.PUBLISHED


def test_a_voided_sequence_is_a_conflict(world: World) -> None:
    request = world.ready(at(p0=5, p1=7))
    world.store.void(world.generation, SUPERVISOR, request.ref.group, 0, audit("void"))
    assert world.publish(request).outcome is PublishOutcome.CONFLICT
    assert committed(world) == at(p0=0, p1=0)


def test_a_publish_from_before_a_reset_is_refused(world: World) -> None:
    request = world.ready(at(p0=5, p1=7))
    world.store.reset_offsets(world.generation, SUPERVISOR, TOPIC, at(p0=0), None, audit("reset"))
    assert world.publish(request).outcome in (PublishOutcome.CONFLICT, PublishOutcome.FENCED)
    assert not visible(world)


def test_an_epoch_that_is_not_the_sequences_is_fenced(world: World) -> None:
    request = world.ready(at(p0=5, p1=7))
    assert world.publish(replace(request, epochs=at(p0=1, p1=0))).outcome is PublishOutcome.FENCED


def test_files_that_are_not_staged_must_be_staged_again(world: World) -> None:
    request = world.ready(at(p0=5, p1=7), hours=2)
    assert world.publish(replace(request, segments=request.segments[:1])).outcome is PublishOutcome.RESTAGE
    world.store.stage(world.generation, StageRequest(request.token, request.ref, ()), NOON_MS)
    assert world.publish(request).outcome is PublishOutcome.RESTAGE
    assert not visible(world)


def test_a_late_copy_of_a_publish_does_not_show_files_that_a_later_upload_replaced(world: World) -> None:
    record = world.open(0)
    token = world.attempt(record.ref)
    sealed, _ = world.seal(record.ref, at(p0=3))
    stale, fresh = world.prepare(token, sealed), world.prepare(token, sealed)
    assert world.publish(stale).outcome is PublishOutcome.RESTAGE
    assert world.publish(fresh).outcome is PublishOutcome.PUBLISHED


def test_a_swept_upload_must_be_staged_again(world: World) -> None:
    record = world.open(0)
    token, other = world.attempt(record.ref), world.attempt(record.ref)
    sealed, _ = world.seal(record.ref, at(p0=3))
    request = world.prepare(other, sealed)
    world.end(other)
    [row] = world.store.staged_of_ended(10)
    assert world.store.begin_delete(world.generation, [row.row_id]) == (row.row_id,)
    assert world.publish(replace(request, token=token)).outcome is PublishOutcome.RESTAGE


def test_a_range_whose_records_were_all_rejected_moves_offsets_and_is_already_when_repeated(world: World) -> None:
    request = world.ready(at(p0=5, p1=7), hours=0, quarantined=12)
    assert world.publish(request).outcome is PublishOutcome.PUBLISHED
    assert world.publish(request).outcome is PublishOutcome.ALREADY
    assert committed(world) == at(p0=5, p1=7) and not visible(world)
    [row] = world.store.ledger(SUPERVISOR, 0, 10)
    assert row.segment_ids == () and row.quarantine_path is not None


def test_quarantine_files_are_paged_from_the_newest_and_found_by_path(world: World) -> None:
    for partition in (0, 1):
        world.publish(world.ready(OffsetMap({partition: 5}), quarantined=partition + 1))
    found = world.store.quarantine_files(TABLE, 10)
    assert [file.rows for file in found] == [2, 1]
    for at_file, file in enumerate(found):
        assert world.store.quarantine_files(TABLE, 10, file.path) == found[at_file + 1 :]
        assert world.store.quarantine_file(TABLE, file.path) == file
    assert world.store.quarantine_files(TABLE, 1, found[0].path) == [found[1]]
    assert world.store.quarantine_files("other", 10, found[0].path) == []
    assert world.store.quarantine_files(TABLE, 10, "nowhere") == []
    assert world.store.quarantine_file("other", found[0].path) is None
    assert world.store.quarantine_file(TABLE, "nowhere") is None


def test_a_range_without_any_visible_record_moves_offsets_only(world: World) -> None:
    request = world.ready(at(p0=5, p1=0), hours=0)
    assert world.publish(request).outcome is PublishOutcome.PUBLISHED
    assert committed(world) == at(p0=5, p1=0)


def test_a_sequence_that_was_never_opened_is_fenced(world: World) -> None:
    request = world.ready(at(p0=5))
    unknown = replace(request, ref=replace(request.ref, group=99))
    assert world.publish(unknown).outcome is PublishOutcome.FENCED


def test_segments_that_were_not_allocated_to_the_sequence_are_a_fault_of_the_caller(world: World) -> None:
    one, two = world.ready(at(p0=5)), world.ready(at(p1=5))
    with pytest.raises(StoreConflict, match="not allocated"):
        world.publish(replace(one, segments=two.segments))
    assert not visible(world)


def test_groups_with_disjoint_partitions_publish_in_any_order(world: World) -> None:
    one, two = world.ready(at(p0=5)), world.ready(at(p1=6))
    assert world.publish(two).outcome is PublishOutcome.PUBLISHED
    assert world.publish(one).outcome is PublishOutcome.PUBLISHED
    assert [row.ref for row in world.store.ledger(SUPERVISOR, 0, 10)] == [two.ref, one.ref]
    assert committed(world) == at(p0=5, p1=6)


def test_bad_messages_are_counted_per_spec_version_in_sequence_ledger_and_store(world: World) -> None:
    first = world.ready(at(p0=5))
    world.publish(replace(first, counts={0: PartitionCounts(good=2, partly_good=1, unparseable=2)}))
    assert world.store.parse_exceptions(SUPERVISOR, 1) == 3
    assert world.store.sequences(SUPERVISOR, first.ref.group, first.ref.number)[0].parse_exceptions == 3
    second = world.store.sequences(SUPERVISOR, first.ref.group, 1)[0]
    sealed, *_ = world.store.seal(world.generation, second.ref, at(p0=9), None, 7)
    assert sealed.parse_exceptions == 7, "as far as was known"
    request = world.prepare(first.token, sealed)
    exact = replace(request, counts={0: PartitionCounts(good=3, unparseable=1)})
    assert world.publish(exact).outcome is PublishOutcome.PUBLISHED
    assert world.publish(exact).outcome is PublishOutcome.ALREADY
    assert world.store.parse_exceptions(SUPERVISOR, 1) == 4, "once"
    assert world.store.parse_exceptions(SUPERVISOR, 2) == 0


def test_a_later_group_does_not_overtake_a_range_that_is_empty_where_they_meet(world: World) -> None:
    first = world.open(0, 1)
    token = world.attempt(first.ref)
    sealed, *_ = world.seal(first.ref, at(p0=0, p1=7), last=True)
    earlier = world.prepare(token, sealed)
    later = world.ready(at(p0=5))
    assert later.start == at(p0=0)
    early = world.publish(later)
    assert early.outcome is PublishOutcome.TOO_EARLY and first.ref.name in early.detail
    assert world.publish(earlier).outcome is PublishOutcome.PUBLISHED
    assert world.publish(later).outcome is PublishOutcome.PUBLISHED
    assert committed(world) == at(p0=5, p1=7)
