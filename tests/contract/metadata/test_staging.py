"""Segment ids that are never reused, and files that always have a row."""

from __future__ import annotations

import pytest

from ingest.errors import AttemptRefused
from ingest.metadata.store import StoreConflict
from ingest.protocol import AllocateRequest, SequenceRef, StagedFile, StageRequest
from segments.identity import SegmentId
from tests.contract.metadata.world import HOUR_MS, NOON_MS, SUPERVISOR, TABLE, World, at, audit


def stage(world: World, token: str, ref: SequenceRef, *paths: str, at_ms: int = NOON_MS) -> None:
    files = tuple(StagedFile(path, None, 1) for path in paths)
    world.store.stage(world.generation, StageRequest(token, ref, files), at_ms)


def swept(world: World) -> dict[str, str]:
    return {row.path: row.state for row in world.store.staged_of_ended(100)}


def test_the_same_sequence_and_time_chunk_get_the_same_id_from_every_replica(world: World) -> None:
    ref = world.open(0).ref
    one, two = world.attempt(ref), world.attempt(ref)
    name = world.allocate(one, ref)
    assert world.allocate(one, ref, now_ms=NOON_MS + 5_000) == world.allocate(two, ref) == name
    assert world.allocate(one, ref, hour=1) != name
    parsed = SegmentId.parse(name)
    assert (parsed.datasource, parsed.interval.start_ms, parsed.partition_num) == (TABLE, NOON_MS, 0)


def test_the_first_allocation_fixes_the_version_of_its_time_chunk(world: World) -> None:
    one, two = world.open(0).ref, world.open(1).ref
    first = SegmentId.parse(world.allocate(world.attempt(one), one, now_ms=NOON_MS))
    second = SegmentId.parse(world.allocate(world.attempt(two), two, now_ms=NOON_MS + 99_000))
    assert (second.version, second.partition_num) == (first.version, 1)


def test_ids_go_on_after_their_sequences_were_voided(world: World) -> None:
    numbers = []
    for _ in range(3):
        ref = world.open(0).ref
        numbers.append(SegmentId.parse(world.allocate(world.attempt(ref), ref)).partition_num)
        world.store.void(world.generation, SUPERVISOR, ref.group, 0, audit())
    assert numbers == [0, 1, 2]


def test_a_coarser_chunk_takes_the_highest_version_it_covers(world: World) -> None:
    ref = world.open(0).ref
    token = world.attempt(ref)
    hours = [SegmentId.parse(world.allocate(token, ref, hour, NOON_MS + hour)) for hour in range(3)]
    ask = AllocateRequest(token, ref, NOON_MS, NOON_MS + 24 * HOUR_MS)
    day = world.store.allocate(world.generation, ask, NOON_MS + 99)
    assert day.version == max(hour.version for hour in hours) and day.partition_num == 0
    before = AllocateRequest(token, ref, NOON_MS - HOUR_MS, NOON_MS)
    apart = world.store.allocate(world.generation, before, NOON_MS + 99)
    assert apart.version > day.version, "chunks that only touch have nothing in common"


def test_an_allocation_is_answered_alike_after_the_publish(world: World) -> None:
    request = world.ready(at(p0=5))
    world.publish(request)
    assert world.allocate(request.token, request.ref) == request.segments[0]["id"]
    with pytest.raises(StoreConflict, match="is published"):
        world.allocate(request.token, request.ref, hour=7)


def test_ids_are_given_only_to_live_attempts_of_the_sequences_group(world: World) -> None:
    ref = world.open(0).ref
    stranger = world.attempt(world.open(1).ref)
    fenced = world.attempt(ref, live=False)
    for token in (stranger, fenced, "guess"):
        with pytest.raises(AttemptRefused):
            world.allocate(token, ref)
        with pytest.raises(AttemptRefused):
            stage(world, token, ref, "a")
    assert swept(world) == {}


def test_nothing_is_allocated_or_staged_for_a_voided_sequence(world: World) -> None:
    ref = world.open(0).ref
    token = world.attempt(ref)
    world.store.void(world.generation, SUPERVISOR, ref.group, 0, audit())
    with pytest.raises(StoreConflict, match="is void"):
        world.allocate(token, ref)
    with pytest.raises(StoreConflict, match="is void"):
        stage(world, token, ref, "a")
    with pytest.raises(StoreConflict, match="does not exist"):
        stage(world, token, SequenceRef(SUPERVISOR, ref.group, 5), "a")


def test_staging_again_renews_the_same_paths_and_gives_up_others(world: World) -> None:
    ref = world.open(0).ref
    token = world.attempt(ref)
    stage(world, token, ref, "a", "b")
    stage(world, token, ref, "b", "c", at_ms=NOON_MS + 60_000)
    assert swept(world) == {"a": "superseded"}
    with pytest.raises(StoreConflict, match="path a is not new"):
        stage(world, token, ref, "a")
    world.end(token)
    assert swept(world) == {"a": "superseded", "b": "staged", "c": "staged"}
    renewed = {row.path: row.staged_ms - NOON_MS for row in world.store.staged_of_ended(9)}
    assert renewed == {"a": 0, "b": 60_000, "c": 60_000}


def test_a_path_belongs_to_one_attempt(world: World) -> None:
    ref = world.open(0).ref
    one, two = world.attempt(ref), world.attempt(ref)
    stage(world, one, ref, "a")
    with pytest.raises(StoreConflict, match="not new"):
        stage(world, two, ref, "b", "a")
    world.end(two)
    assert swept(world) == {}, "nothing of the refused call was kept"


def test_files_of_a_live_attempt_are_not_swept(world: World) -> None:
    ref = world.open(0).ref
    live = world.attempt(ref)
    stage(world, live, ref, "live")
    assert swept(world) == {}
    assert world.store.begin_delete(world.generation, [1, 2, 99]) == ()


def test_files_of_a_voided_sequence_are_swept_although_their_attempt_lives(world: World) -> None:
    ref = world.open(0).ref
    stage(world, world.attempt(ref), ref, "a")
    world.store.void(world.generation, SUPERVISOR, ref.group, 0, audit())
    assert swept(world) == {"a": "superseded"}


def test_a_file_is_marked_before_it_is_removed_and_removed_twice(world: World) -> None:
    ref = world.open(0).ref
    token = world.attempt(ref)
    stage(world, token, ref, "a", "b")
    world.end(token)
    first = next(row for row in world.store.staged_of_ended(9) if row.path == "a")
    assert world.store.begin_delete(world.generation, [first.row_id, 99]) == (first.row_id,)
    assert world.store.begin_delete(world.generation, [first.row_id]) == (first.row_id,), "it stays so"
    world.store.finish_delete(world.generation, [first.row_id], NOON_MS + 1)
    rows = world.store.staged_of_ended(9)
    assert [(r.path, r.state, r.removed_ms) for r in rows] == [
        ("b", "staged", None),
        ("a", "deleting", NOON_MS + 1),
    ], "what was not yet removed comes first"
    world.store.finish_delete(world.generation, [first.row_id, rows[0].row_id], NOON_MS + 2)
    assert swept(world) == {"b": "staged"}, "a file that was never marked is not noted as removed"
    assert len(world.store.staged_of_ended(0)) == 0


def test_published_files_are_never_swept(world: World) -> None:
    request = world.ready(at(p0=5), hours=2, quarantined=1)
    world.publish(request)
    world.end(request.token)
    assert swept(world) == {}
    assert world.store.begin_delete(world.generation, list(range(1, 20))) == ()


def test_unpublished_files_are_tracked_by_table_until_their_deletion_was_repeated(world: World) -> None:
    ref = world.open(0).ref
    token = world.attempt(ref)
    stage(world, token, ref, f"{TABLE}/one", f"{TABLE}/two", f"{TABLE}_other/three")
    assert world.store.tracked_paths(TABLE) == {f"{TABLE}/one", f"{TABLE}/two"}
    world.store.void(world.generation, SUPERVISOR, ref.group, 0, audit())
    rows = [row.row_id for row in world.store.staged_of_ended(100)]
    assert world.store.begin_delete(world.generation, rows)
    for _ in range(2):
        assert world.store.tracked_paths(TABLE) == {f"{TABLE}/one", f"{TABLE}/two"}
        world.store.finish_delete(world.generation, rows, NOON_MS)
    assert world.store.tracked_paths(TABLE) == set()
