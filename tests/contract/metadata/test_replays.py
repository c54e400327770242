"""Replays of quarantine files: every record waits in one file or is counted by one replay, whatever is repeated."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from ingest.errors import AttemptRefused, LeadershipLost
from ingest.metadata.records import DesiredState, QuarantineTotals, ReplayRecord
from ingest.metadata.store import StoreConflict
from ingest.offsets import OffsetMap
from ingest.protocol import (
    PartitionCounts,
    PublishOutcome,
    PublishReply,
    PublishRequest,
    SequenceRecord,
    StagedFile,
)
from tests.contract.metadata.world import HOUR_MS, NOON_MS, SUPERVISOR, TABLE, TOPIC, World, at, audit, segment_json

TOKEN = "replay-1"


def published_file(world: World, rows: int = 3) -> str:
    """A sequence of partition 0 published with a quarantine file; the file's path."""
    request = world.ready(at(p0=10), quarantined=rows)
    assert world.publish(request).outcome is PublishOutcome.PUBLISHED
    assert request.quarantine is not None
    return str(request.quarantine["path"])


def begin(world: World, path: str, token: str = TOKEN) -> ReplayRecord | None:
    return world.store.begin_replay(world.generation, TABLE, path, token, NOON_MS)


def prepared(world: World, path: str, token: str = TOKEN, good: int = 2, bad: int = 1) -> PublishRequest:
    """A begun replay with one segment, and a new file for what is bad again."""
    replay = begin(world, path, token)
    assert replay is not None
    pending = world.store.allocate_replayed(world.generation, token, NOON_MS, NOON_MS + HOUR_MS, NOON_MS)
    key, kept = f"{TABLE}/{token}/segment.parquet", f"_quarantine/{token}.parquet"
    files = [StagedFile(key, pending.segment_id, 1_000)] + ([StagedFile(kept, None, 10)] if bad else [])
    world.store.stage_replayed(world.generation, token, files, NOON_MS)
    record = SequenceRecord(replay.ref, at(p0=4), at(p0=0), 1, NOON_MS, end=at(p0=9))
    quarantine: dict[str, Any] = {"path": kept, "rows": bad, "sizeBytes": 10, "loadSpec": {"path": f"/deep/{kept}"}}
    return PublishRequest(
        token=token,
        ref=replay.ref,
        start=record.start,
        end=at(p0=9),
        epochs=OffsetMap(),
        segments=(segment_json(pending.segment_id, record, key),),
        quarantine=quarantine if bad else None,
        counts={0: PartitionCounts(good=good, unparseable=bad, no_record=2)},
        rows_in=good,
        rows_stored=10,
    )


def publish(world: World, request: PublishRequest) -> PublishReply:
    return world.store.publish_replay(world.generation, request, NOON_MS + 1)


def states(world: World) -> dict[str, str]:
    return {file.path: file.state for file in world.store.quarantine_files(TABLE, 100)}


def test_a_replay_moves_all_records_of_a_file_in_one_step(world: World) -> None:
    path = published_file(world)
    before, offsets = world.store.table_versions()[TABLE], world.store.offsets(SUPERVISOR, TOPIC)
    request = prepared(world, path)
    assert len(world.store.segments(TABLE, None, 10, True)) == 1, "nothing is visible yet"
    reply = publish(world, request)
    assert (reply.outcome, reply.version) == (PublishOutcome.PUBLISHED, before + 1)
    again = f"_quarantine/{TOKEN}.parquet"
    assert states(world) == {path: "replayed", again: "published"}
    taken = world.store.quarantine_file(TABLE, path)
    assert taken is not None and taken.replayed_by == request.ref.name
    state = world.store.table(TABLE, before)
    assert state is not None and [str(row.segment.id) for row in state.segments] == [request.segments[0]["id"]]
    assert world.store.offsets(SUPERVISOR, TOPIC) == offsets, "no offset moves"
    row = world.store.ledger(SUPERVISOR, before, 10)[0]
    assert (row.replayed_path, row.quarantine_path, row.rows_in) == (path, again, 2)
    assert (row.counts, row.topic, row.version) == (request.counts, TOPIC, reply.version)
    assert world.store.staged_of_ended(10) == []


def test_a_repeated_publish_is_told_that_it_was_done_also_by_the_next_leader(world: World) -> None:
    request = prepared(world, published_file(world))
    first = publish(world, request)
    for _ in range(2):
        again = publish(world, request)
        assert (again.outcome, again.version) == (PublishOutcome.ALREADY, first.version)
        world.lead("overlord-2")
    assert len(world.store.segments(TABLE, None, 10, True)) == 2


def test_a_file_is_replayed_once(world: World) -> None:
    path = published_file(world)
    publish(world, prepared(world, path))
    assert begin(world, path, "replay-2") is None
    assert begin(world, "_quarantine/unknown.parquet", "replay-3") is None
    assert world.store.begin_replay(world.generation, "other", path, "replay-4", NOON_MS) is None


def test_a_later_replay_ends_an_earlier_one_whose_files_are_swept(world: World) -> None:
    path = published_file(world)
    one = prepared(world, path, "replay-1")
    two = prepared(world, path, "replay-2")
    assert one.ref.group < two.ref.group
    assert publish(world, one).outcome is PublishOutcome.FENCED
    swept = {row.path: row.state for row in world.store.staged_of_ended(10)}
    assert swept == {f"{TABLE}/replay-1/segment.parquet": "superseded", "_quarantine/replay-1.parquet": "superseded"}
    with pytest.raises(AttemptRefused, match="begin another"):
        world.store.allocate_replayed(world.generation, "replay-1", NOON_MS, NOON_MS + HOUR_MS, NOON_MS)
    with pytest.raises(AttemptRefused):
        world.store.stage_replayed(world.generation, "replay-1", [], NOON_MS)
    assert publish(world, two).outcome is PublishOutcome.PUBLISHED
    assert world.store.segments(TABLE, None, 10, True)[-1].segment.id.partition_num == 2, "no number is used twice"


def test_another_leader_ends_what_its_predecessor_began(world: World) -> None:
    path = published_file(world)
    request = prepared(world, path)
    old = world.generation
    world.lead("overlord-2")
    with pytest.raises(LeadershipLost):
        world.store.publish_replay(old, request, NOON_MS)
    assert publish(world, request).outcome is PublishOutcome.FENCED, "it belongs to the generation that began it"
    assert world.store.end_replays(world.generation, None) == 1
    assert world.store.end_replays(world.generation, None) == 0
    assert len(world.store.staged_of_ended(10)) == 2
    assert states(world) == {path: "published"}
    assert publish(world, prepared(world, path, "replay-2")).outcome is PublishOutcome.PUBLISHED


def test_a_replay_ends_by_its_token(world: World) -> None:
    path = published_file(world)
    request = prepared(world, path)
    assert world.store.end_replays(world.generation, "stranger") == 0
    assert world.store.end_replays(world.generation, TOKEN) == 1
    assert publish(world, request).outcome is PublishOutcome.FENCED


def test_other_files_than_the_staged_ones_are_not_published(world: World) -> None:
    path = published_file(world)
    request = prepared(world, path)
    assert publish(world, replace(request, quarantine=None)).outcome is PublishOutcome.RESTAGE
    assert states(world) == {path: "published"}


def test_a_count_that_is_not_the_files_is_refused(world: World) -> None:
    request = prepared(world, published_file(world))
    with pytest.raises(StoreConflict, match="2 messages were counted"):
        publish(world, replace(request, counts={0: PartitionCounts(good=1, unparseable=1)}))
    assert publish(world, request).outcome is PublishOutcome.PUBLISHED


def test_what_is_bad_again_can_be_replayed_again_with_the_same_stored_time(world: World) -> None:
    path = published_file(world)
    first = begin(world, path, "replay-0")
    assert first is not None
    publish(world, prepared(world, path))
    again = begin(world, f"_quarantine/{TOKEN}.parquet", "replay-2")
    assert again is not None
    assert (again.opened_at_ms, again.topic) == (first.opened_at_ms, TOPIC) == (NOON_MS, TOPIC)
    assert again.ref.group > first.ref.group


def test_the_newest_spec_reads_the_records_also_of_a_supervisor_that_was_terminated(world: World) -> None:
    path = published_file(world)
    changed = world.store.put_supervisor(
        world.generation, SUPERVISOR, TABLE, {"type": "kafka", "v": 2}, DesiredState.RUNNING, NOON_MS
    )
    world.store.set_desired(world.generation, SUPERVISOR, DesiredState.TERMINATED, NOON_MS)
    replay = begin(world, path)
    assert replay is not None
    assert world.store.spec(SUPERVISOR, replay.spec_version) == changed.spec


def test_files_are_given_up_once_with_a_word_in_the_audit_and_go_to_the_sweeper(world: World) -> None:
    path = published_file(world)
    request = prepared(world, path)
    told = audit("quarantine-expired", files=1)
    assert world.store.expire_quarantine(world.generation, TABLE, [path, "unknown"], told) == (path,)
    assert world.store.expire_quarantine(world.generation, TABLE, [path], told) == ()
    assert world.store.expire_quarantine(world.generation, "other", [path], told) == ()
    assert world.store.audit(SUPERVISOR, 10).count(told) == 1
    assert path in {row.path for row in world.store.staged_of_ended(10)}
    assert publish(world, request).outcome is PublishOutcome.CONFLICT
    assert begin(world, path, "replay-2") is None
    assert world.store.unexpired_quarantine(TABLE, 10) == []


def test_totals_are_told_by_table_and_state(world: World) -> None:
    path = published_file(world)
    assert world.store.quarantine_totals() == {(TABLE, "published"): QuarantineTotals(1, 3, 10)}
    publish(world, prepared(world, path))
    assert world.store.quarantine_totals() == {
        (TABLE, "published"): QuarantineTotals(1, 1, 10),
        (TABLE, "replayed"): QuarantineTotals(1, 3, 10),
    }
    assert [file.path for file in world.store.unexpired_quarantine(TABLE, 1)] == [path]


def test_the_databases_clock_is_told_where_it_is_another_than_ours(world: World) -> None:
    told = world.store.database_ms()
    assert told is None or abs(told - time.time() * 1_000) < 60_000
