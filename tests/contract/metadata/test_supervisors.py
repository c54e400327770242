"""Supervisors, their history and the audit trail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ingest.metadata.records import AuditRow, DesiredState, ResetWish, SpecGuard
from ingest.metadata.store import StoreConflict
from ingest.offsets import OffsetMap
from tests.contract.metadata.world import NOON_MS, SPEC, SUPERVISOR, TABLE, TOPIC, World, at, audit, following


def put(world: World, spec: dict[str, Any], desired: DesiredState = DesiredState.RUNNING, at_ms: int = NOON_MS) -> int:
    return world.store.put_supervisor(world.generation, SUPERVISOR, TABLE, spec, desired, at_ms).version


def test_each_new_spec_is_the_next_version_and_the_same_spec_keeps_its_own(world: World) -> None:
    assert put(world, SPEC, at_ms=NOON_MS + 1) == 1
    assert put(world, SPEC | {"context": {"a": 1}}) == 2
    assert put(world, SPEC | {"context": {"a": 1}}) == 2
    assert put(world, SPEC) == 3
    assert world.store.spec(SUPERVISOR, 2) == SPEC | {"context": {"a": 1}}
    assert [entry.version for entry in world.store.history(SUPERVISOR)] == [3, 2, 1]
    with pytest.raises(StoreConflict, match="version 9"):
        world.store.spec(SUPERVISOR, 9)


def test_a_spec_comes_back_exactly_as_it_was_posted(world: World) -> None:
    spec: dict[str, Any] = {"z": 1, "a": [None, 1.5, -0.0, 2**70, "ü\u2028\x00"], "nested": {"b": {}, "a": False}}
    put(world, spec)
    stored = world.store.supervisor(SUPERVISOR)
    assert stored is not None and stored.spec == spec
    assert list(stored.spec) == ["z", "a", "nested"], "also in the order of its keys"
    table = world.store.table(TABLE, None)
    assert table is not None and table.specs == {SUPERVISOR: {2: spec}}


def test_what_is_desired_is_stored_and_repeats(world: World) -> None:
    first = world.store.set_desired(world.generation, SUPERVISOR, DesiredState.SUSPENDED, NOON_MS + 1)
    again = world.store.set_desired(world.generation, SUPERVISOR, DesiredState.SUSPENDED, NOON_MS + 2)
    assert first == again and first.desired is DesiredState.SUSPENDED and first.version == 1
    assert world.store.supervisors() == [first]


def test_going_on_after_a_suspension_is_a_version_of_its_own(world: World) -> None:
    world.store.set_desired(world.generation, SUPERVISOR, DesiredState.SUSPENDED, NOON_MS + 1)
    first = world.store.set_desired(world.generation, SUPERVISOR, DesiredState.RUNNING, NOON_MS + 2)
    again = world.store.set_desired(world.generation, SUPERVISOR, DesiredState.RUNNING, NOON_MS + 3)
    assert first == again and (first.version, first.spec, first.desired) == (2, SPEC, DesiredState.RUNNING)
    assert put(world, SPEC, DesiredState.SUSPENDED) == 2
    assert put(world, SPEC, DesiredState.RUNNING) == 3 and put(world, SPEC, DesiredState.RUNNING) == 3
    assert world.store.spec(SUPERVISOR, 3) == SPEC
    assert [entry.version for entry in world.store.history(SUPERVISOR)] == [3, 2, 1]


def test_a_start_of_a_running_supervisor_is_the_next_version_once(world: World) -> None:
    first = world.store.start_again(world.generation, SUPERVISOR, 1, NOON_MS + 1)
    assert (first.version, first.spec, first.desired) == (2, SPEC, DesiredState.RUNNING)
    assert world.store.start_again(world.generation, SUPERVISOR, 1, NOON_MS + 2) == first, "a repetition"
    world.store.set_desired(world.generation, SUPERVISOR, DesiredState.SUSPENDED, NOON_MS + 3)
    with pytest.raises(StoreConflict, match="not running"):
        world.store.start_again(world.generation, SUPERVISOR, 2, NOON_MS + 4)


def test_a_terminated_supervisor_leaves_history_and_its_versions_go_on(world: World) -> None:
    world.store.set_desired(world.generation, SUPERVISOR, DesiredState.TERMINATED, NOON_MS + 1)
    world.store.set_desired(world.generation, SUPERVISOR, DesiredState.TERMINATED, NOON_MS + 2)
    assert world.store.supervisors() == []
    ended = world.store.supervisor(SUPERVISOR)
    assert ended is not None and ended.desired is DesiredState.TERMINATED and ended.spec == SPEC
    with pytest.raises(StoreConflict, match="post its spec"):
        world.store.set_desired(world.generation, SUPERVISOR, DesiredState.RUNNING, NOON_MS)
    assert put(world, SPEC, at_ms=NOON_MS + 5) == 3
    history = world.store.history(SUPERVISOR)
    assert [(e.version, e.spec is None, e.created_ms - NOON_MS) for e in history] == [
        (3, False, 5),
        (2, True, 1),
        (1, False, 0),
    ]


def test_a_supervisor_never_changes_its_table(world: World) -> None:
    with pytest.raises(StoreConflict, match="another id"):
        world.store.put_supervisor(world.generation, SUPERVISOR, "ads", SPEC, DesiredState.RUNNING, NOON_MS)
    assert world.store.datasources() == [TABLE]


def test_what_was_decided_under_an_earlier_spec_neither_stores_offsets_nor_opens_a_group(world: World) -> None:
    put(world, {"topic": "corrected"})
    with pytest.raises(StoreConflict, match="version 2 of its spec"):
        world.store.open_group(world.generation, SUPERVISOR, TOPIC, [0], following(1))
    with pytest.raises(StoreConflict, match="version 2 of its spec"):
        world.store.init_offsets(world.generation, SUPERVISOR, TABLE, "another", None, at(p0=0), 1)
    assert world.store.offsets(SUPERVISOR, "another") is None and world.store.groups(SUPERVISOR) == []
    assert world.store.init_offsets(world.generation, SUPERVISOR, TABLE, TOPIC, None, at(p0=9), 1).committed == at(
        p0=0, p1=0
    )
    assert world.store.open_group(world.generation, SUPERVISOR, TOPIC, [0], following(2)).spec_version == 2


def test_a_spec_is_not_stored_when_reading_began_while_it_was_judged(world: World) -> None:
    def post(guard: SpecGuard) -> int:
        spec = {"topic": "corrected"}
        return world.store.put_supervisor(
            world.generation, SUPERVISOR, TABLE, spec, DesiredState.RUNNING, NOON_MS, guard
        ).version

    with pytest.raises(StoreConflict, match=f"offsets of topic '{TOPIC}'"):
        post(SpecGuard(unread=TOPIC))
    record = world.open(0)
    with pytest.raises(StoreConflict, match="began to read"):
        post(SpecGuard(idle=True))
    assert world.store.history(SUPERVISOR)[0].version == 1
    world.store.seal(world.generation, record.ref, record.start, None)  # empty: nothing is unpublished
    assert post(SpecGuard(idle=True, unread="another")) == 2


def test_a_wish_is_stored_with_its_spec_or_not_at_all(world: World) -> None:
    wish = ResetWish(0, SUPERVISOR, TOPIC, at(p0=5), None, False, NOON_MS)

    def post(guard: SpecGuard, table: str = TABLE, wish: ResetWish = wish) -> int:
        spec = {"topic": "again"}
        return world.store.put_supervisor(
            world.generation, SUPERVISOR, table, spec, DesiredState.RUNNING, NOON_MS, guard, wish
        ).version

    with pytest.raises(StoreConflict, match="offsets of topic"):
        post(SpecGuard(unread=TOPIC))
    with pytest.raises(StoreConflict, match="another"):
        post(SpecGuard(), "ads")
    with pytest.raises(StoreConflict, match="no offsets of topic 'never'"):
        post(SpecGuard(), wish=replace(wish, topic="never"))
    assert world.store.reset_wishes(SUPERVISOR) == []
    assert world.store.history(SUPERVISOR)[0].version == 1, "and no spec whose wish cannot be"
    assert post(SpecGuard(idle=True)) == post(SpecGuard(idle=True)) == 2
    [stored] = world.store.reset_wishes(SUPERVISOR)
    assert stored == replace(wish, wish_id=stored.wish_id), "once, however often its answer is lost"


def test_an_unknown_supervisor_cannot_be_suspended(world: World) -> None:
    with pytest.raises(StoreConflict, match="'nobody'"):
        world.store.set_desired(world.generation, "nobody", DesiredState.SUSPENDED, NOON_MS)
    assert world.store.supervisor("nobody") is None and world.store.history("nobody") == []


def test_the_trail_is_newest_first_and_may_be_asked_per_supervisor(world: World) -> None:
    rows = [audit("one", 1), AuditRow(2, "other", "two", {"lost": {"0": [3, 9]}}), audit("three", 0, reason="ü")]
    for row in rows:
        world.store.append_audit(world.generation, row)
    assert world.store.audit(None, 10) == rows[::-1]
    assert world.store.audit(SUPERVISOR, 1) == [rows[2]]
    assert world.store.audit("other", 10) == [rows[1]]
    assert [world.store.audit(SUPERVISOR, 1, skip) for skip in range(3)] == [[rows[2]], [rows[0]], []]


def test_a_supervisor_is_unfinished_while_it_has_rows_to_publish_or_a_task_that_lives(world: World) -> None:
    assert world.store.unfinished_supervisors() == []
    record = world.open(0)
    token = world.attempt(record.ref)
    world.start(supervisor="other", table="other")
    world.store.set_desired(world.generation, SUPERVISOR, DesiredState.TERMINATED, NOON_MS)
    assert world.store.unfinished_supervisors() == [SUPERVISOR]
    world.end(token)
    assert world.store.unfinished_supervisors() == [SUPERVISOR], "somebody must publish what was read"
    world.seal(record.ref, OffsetMap({0: 0}), last=True)
    assert world.store.unfinished_supervisors() == []
