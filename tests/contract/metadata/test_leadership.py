"""Leadership by generation, and the leases of servers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ingest.errors import LeadershipLost
from ingest.metadata.attempt_rules import IDLE_NOTED_MS
from ingest.metadata.records import AuditRow, DesiredState, ResetWish
from ingest.metadata.store import MetadataStore
from ingest.offsets import OffsetMap
from ingest.protocol import AllocateRequest, AttemptState, StageRequest
from tests.contract.metadata.world import HOUR_MS, NOON_MS, SPEC, SUPERVISOR, TABLE, TOPIC, World, at, audit, following


def test_nobody_leads_an_empty_database(store: MetadataStore) -> None:
    assert store.leadership() is None


def test_generations_grow_with_every_leader_and_past_a_resignation(store: MetadataStore) -> None:
    first = store.take_leadership("a", "a:1", None)
    assert first is not None and first.generation == 1
    second = store.take_leadership("b", "b:1", first)
    assert second is not None and (second.generation, second.node, second.address) == (2, "b", "b:1")
    store.resign(2)
    assert store.leadership() is None
    third = store.take_leadership("a", "a:1", None)
    assert third is not None and third.generation == 3


def test_a_takeover_fails_when_the_leader_has_beaten_since(store: MetadataStore) -> None:
    seen = store.take_leadership("a", "a:1", None)
    assert seen is not None
    store.beat(seen.generation)
    assert store.take_leadership("b", "b:1", seen) is None
    still = store.leadership()
    assert still is not None and (still.node, still.beats) == ("a", seen.beats + 1)
    assert store.take_leadership("b", "b:1", still) is not None


def test_of_two_standbys_that_saw_the_same_row_one_takes_over(store: MetadataStore) -> None:
    assert store.take_leadership("a", "a:1", None) is not None
    assert store.take_leadership("b", "b:1", None) is None


def test_an_old_leader_neither_beats_nor_resigns(store: MetadataStore) -> None:
    first = store.take_leadership("a", "a:1", None)
    assert first is not None
    store.take_leadership("b", "b:1", first)
    for method in (store.beat, store.resign):
        with pytest.raises(LeadershipLost):
            method(first.generation)
    leader = store.leadership()
    assert leader is not None and leader.node == "b"


def test_a_resigned_leader_writes_nothing_more(world: World) -> None:
    world.store.resign(world.generation)
    with pytest.raises(LeadershipLost):
        world.store.append_audit(world.generation, audit())
    with pytest.raises(LeadershipLost):
        world.store.beat(world.generation)


WRITES: dict[str, Callable[[MetadataStore, int, World], object]] = {
    "put_supervisor": lambda s, g, w: s.put_supervisor(g, "other", "t", SPEC, DesiredState.RUNNING, NOON_MS),
    "start_again": lambda s, g, w: s.start_again(g, SUPERVISOR, 1, NOON_MS),
    "set_desired": lambda s, g, w: s.set_desired(g, SUPERVISOR, DesiredState.SUSPENDED, NOON_MS),
    "append_audit": lambda s, g, w: s.append_audit(g, audit()),
    "init_offsets": lambda s, g, w: s.init_offsets(g, SUPERVISOR, TABLE, "new", None, at(p0=0)),
    "add_partitions": lambda s, g, w: s.add_partitions(g, SUPERVISOR, TOPIC, at(p7=0)),
    "reset_offsets": lambda s, g, w: s.reset_offsets(g, SUPERVISOR, TOPIC, at(p0=9), None, audit()),
    "ask_reset": lambda s, g, w: s.ask_reset(g, ResetWish(0, SUPERVISOR, TOPIC, at(p0=9), None, False, NOON_MS)),
    "carry_out_reset": lambda s, g, w: s.carry_out_reset(g, SUPERVISOR, TOPIC, 1, audit()),
    "open_group": lambda s, g, w: s.open_group(g, SUPERVISOR, TOPIC, [1], following()),
    "seal": lambda s, g, w: s.seal(g, w.open_ref, at(p0=5), None),
    "void": lambda s, g, w: s.void(g, SUPERVISOR, w.open_ref.group, 0, audit()),
    "raise_end": lambda s, g, w: s.raise_end(g, w.token, w.open_ref, at(p0=5)),
    "assign_attempt": lambda s, g, w: s.assign_attempt(g, w.token, "worker-1"),
    "register_attempt": lambda s, g, w: s.register_attempt(g, w.token, "new:1", 1, NOON_MS),
    "record_positions": lambda s, g, w: s.record_positions(g, w.token, 0, at(p0=3), NOON_MS),
    "set_committer": lambda s, g, w: s.set_committer(g, w.token),
    "set_attempt_state": lambda s, g, w: s.set_attempt_state(g, w.token, AttemptState.FAILED, "x", NOON_MS),
    "allocate": lambda s, g, w: s.allocate(g, AllocateRequest(w.token, w.open_ref, 0, HOUR_MS), NOON_MS),
    "stage": lambda s, g, w: s.stage(g, StageRequest(w.token, w.open_ref, ()), NOON_MS),
    "begin_delete": lambda s, g, w: s.begin_delete(g, []),
    "finish_delete": lambda s, g, w: s.finish_delete(g, [], NOON_MS),
    "mark_segments": lambda s, g, w: s.mark_segments(g, TABLE, [], False, NOON_MS),
}


def test_the_newest_audit_row_of_an_action_is_found(world: World) -> None:
    rows = [AuditRow(NOON_MS + i, name, action, {"i": i}) for i, (name, action) in enumerate(ACTIONS)]
    for row in rows:
        world.store.append_audit(world.generation, row)
    assert world.store.last_audit(SUPERVISOR, "scale") == rows[2]
    assert world.store.last_audit("other", "scale") == rows[3]
    assert world.store.last_audit(SUPERVISOR, "lost") is None


ACTIONS = ((SUPERVISOR, "scale"), (SUPERVISOR, "void"), (SUPERVISOR, "scale"), ("other", "scale"), (SUPERVISOR, "void"))


@pytest.mark.parametrize("method", sorted(WRITES))
def test_an_old_leader_cannot_write_anything(world: World, method: str) -> None:
    record = world.open(0)
    world.open_ref, world.token = record.ref, world.attempt(record.ref)
    old = world.generation
    world.lead("overlord-2")
    before = everything(world.store)
    with pytest.raises(LeadershipLost):
        WRITES[method](world.store, old, world)
    assert everything(world.store) == before


def everything(store: MetadataStore) -> list[object]:
    return [
        store.table(TABLE, None),
        store.offsets(SUPERVISOR, TOPIC),
        store.groups(SUPERVISOR),
        store.attempts(None, None, 100),
        store.supervisors(),
        store.audit(None, 100),
        store.reset_wishes(None),
        store.staged_of_ended(100),
        store.table_versions(),
    ]


def test_a_server_is_known_until_it_is_forgotten(store: MetadataStore) -> None:
    store.renew_node("q1", ["query", "api"], "q1:80", 1_000, {"wiki": 4}, {"version": "0.1"})
    store.renew_node("o1", ["overlord"], "o1:80", 1_000, {}, {})
    assert [(n.node, n.roles) for n in store.nodes()] == [("o1", ("overlord",)), ("q1", ("query", "api"))]
    store.forget_node("o1")
    store.forget_node("o1")
    [left] = store.nodes()
    assert (left.node, left.address, left.renewed_ms, left.detail) == ("q1", "q1:80", 1_000, {"version": "0.1"})


def test_an_acknowledged_version_never_goes_back(store: MetadataStore) -> None:
    store.renew_node("q1", ["query"], "q1:80", 1_000, {"wiki": 4}, {})
    store.renew_node("q1", ["query"], "q1:81", 2_000, {"wiki": 3, "ads": 1}, {})
    [node] = store.nodes()
    assert (node.acknowledged, node.renewed_ms, node.address) == ({"wiki": 4, "ads": 1}, 2_000, "q1:81")


def test_the_served_version_is_the_lowest_of_live_query_nodes(world: World) -> None:
    world.publish(world.ready(at(p0=5)))
    world.publish(world.ready(at(p1=5)))
    store, current = world.store, world.store.table_versions()[TABLE]
    assert store.served_version(TABLE, {}) == current, "no live query node: complete at once"
    store.renew_node("q1", ["query"], "q1:80", 5_000, {TABLE: current - 1}, {})
    store.renew_node("q2", ["query"], "q2:80", 5_000, {TABLE: current}, {})
    store.renew_node("new", ["query"], "q3:80", 5_000, {}, {})
    store.renew_node("o1", ["overlord"], "o1:80", 5_000, {TABLE: 1}, {})
    assert store.served_version(TABLE, {}) == current - 1
    assert store.served_version(TABLE, {"q1": 4_999}) == current - 1, "it was renewed after that"
    assert store.served_version(TABLE, {"q1": 5_000}) == current, "q1 has stood still since"
    assert store.served_version("unknown", {"q1": 5_000}) == 0


def test_positions_of_an_empty_map_are_kept(world: World) -> None:
    record = world.open(0)
    token = world.attempt(record.ref)
    beats = (5, IDLE_NOTED_MS, IDLE_NOTED_MS + 5)
    stored = [world.store.record_positions(world.generation, token, 0, OffsetMap(), NOON_MS + ms) for ms in beats]
    assert [record.positions for record in stored] == [OffsetMap()] * 3
    noted_ms = [record.heartbeat_ms - NOON_MS for record in stored]
    assert noted_ms == [0, IDLE_NOTED_MS, IDLE_NOTED_MS], "a task that reads nothing writes now and then only"
