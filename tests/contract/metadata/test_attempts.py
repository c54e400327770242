"""Attempts: tokens, states that only go forwards, durable positions, one committer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ingest.errors import AttemptRefused
from ingest.metadata.store import StoreConflict
from ingest.protocol import AttemptRecord, AttemptState
from tests.contract.metadata.world import NOON_MS, SUPERVISOR, TABLE, World, at


def pending(token: str, group: int) -> AttemptRecord:
    return AttemptRecord(
        task_id="task-1",
        attempt=1,
        token=token,
        supervisor=SUPERVISOR,
        datasource=TABLE,
        group=group,
        state=AttemptState.PENDING,
        committer=True,
        created_ms=NOON_MS,
    )


def test_an_attempt_with_a_worker_marks_its_groups_unpublished_sequences_assigned(world: World) -> None:
    record = world.open(0)
    world.seal(record.ref, at(p0=5))
    stored, sequences = world.store.create_attempt(world.generation, pending("t", record.ref.group))
    assert stored == pending("t", record.ref.group)
    assert world.store.attempt("t") == stored and world.store.attempt("unknown") is None
    assert world.store.sequences(SUPERVISOR, record.ref.group, 0) == sequences
    assert [(r.ref.number, r.assigned) for r in sequences] == [(0, False), (1, False)]
    world.seal(sequences[-1].ref, at(p0=9))
    assert not world.store.sequences(SUPERVISOR, record.ref.group, 2)[0].assigned, "waiting for a slot is not reading"
    world.store.assign_attempt(world.generation, "t", "w1")
    assert [r.assigned for r in world.store.sequences(SUPERVISOR, record.ref.group, 0)] == [True, True, True]


def test_creating_an_attempt_again_returns_it_as_it_is_now(world: World) -> None:
    record = world.open(0)
    world.store.create_attempt(world.generation, pending("t", record.ref.group))
    world.store.assign_attempt(world.generation, "t", "w1")
    stored, sequences = world.store.create_attempt(world.generation, pending("t", record.ref.group))
    assert stored.state is AttemptState.ASSIGNED and len(sequences) == 1
    with pytest.raises(StoreConflict, match="no group 9"):
        world.store.create_attempt(world.generation, pending("u", 9))


def test_no_two_attempts_of_a_task_have_one_number_whatever_a_leader_knows_of_them(world: World) -> None:
    group = world.open(0).ref.group
    numbers = []
    for token, number in (("t", 1), ("u", 1), ("v", 7), ("w", 2)):
        stored, _ = world.store.create_attempt(world.generation, replace(pending(token, group), attempt=number))
        again, _ = world.store.create_attempt(world.generation, replace(pending(token, group), attempt=number))
        assert stored == again == world.store.attempt(token)
        numbers.append(stored.attempt)
    assert numbers == [1, 2, 7, 8]
    other, _ = world.store.create_attempt(world.generation, replace(pending("x", group), task_id="task-2"))
    assert other.attempt == 1


def test_an_attempt_goes_from_pending_to_running(world: World) -> None:
    record = world.open(0)
    world.store.create_attempt(world.generation, pending("t", record.ref.group))
    assigned = world.store.assign_attempt(world.generation, "t", "w1")
    assert (assigned.state, assigned.worker) == (AttemptState.ASSIGNED, "w1")
    assert world.store.assign_attempt(world.generation, "t", "w1") == assigned
    with pytest.raises(StoreConflict, match="given to worker w1"):
        world.store.assign_attempt(world.generation, "t", "w2")
    running = world.store.register_attempt(world.generation, "t", "h:1", 2, NOON_MS + 7)
    assert (running.state, running.address, running.protocol) == (AttemptState.RUNNING, "h:1", 2)
    assert running.heartbeat_ms == NOON_MS + 7
    assert world.store.attempt("t") == running


def test_an_ended_attempt_stays_ended_whatever_comes(world: World) -> None:
    record = world.open(0)
    token = world.attempt(record.ref)
    ended = world.store.set_attempt_state(world.generation, token, AttemptState.FAILED, "disk full", NOON_MS + 9)
    assert (ended.state, ended.error, ended.ended_ms) == (AttemptState.FAILED, "disk full", NOON_MS + 9)
    for state in (AttemptState.RUNNING, AttemptState.SUCCEEDED, AttemptState.FENCED):
        assert world.store.set_attempt_state(world.generation, token, state, None, NOON_MS + 99) == ended
    for call in (
        lambda: world.store.register_attempt(world.generation, token, "h:1", 1, NOON_MS),
        lambda: world.store.record_positions(world.generation, token, 0, at(p0=1), NOON_MS),
        lambda: world.store.set_committer(world.generation, token),
        lambda: world.store.assign_attempt(world.generation, token, "worker-1"),
        lambda: world.allocate(token, record.ref),
        lambda: world.store.raise_end(world.generation, token, record.ref, at(p0=1)),
    ):
        with pytest.raises(AttemptRefused, match="failed"):
            call()
    assert world.store.attempt(token) == ended


def test_a_token_that_was_never_created_is_refused(world: World) -> None:
    with pytest.raises(AttemptRefused, match="never created"):
        world.store.record_positions(world.generation, "guess", 0, at(p0=1), NOON_MS)
    with pytest.raises(AttemptRefused, match="never created"):
        world.store.set_attempt_state(world.generation, "guess", AttemptState.FENCED, None, NOON_MS)


def test_a_live_attempt_never_goes_back(world: World) -> None:
    token = world.attempt(world.open(0).ref)
    stopping = world.store.set_attempt_state(world.generation, token, AttemptState.STOPPING, None, NOON_MS)
    assert world.store.set_attempt_state(world.generation, token, AttemptState.RUNNING, None, NOON_MS) == stopping
    moved = world.store.register_attempt(world.generation, token, "h:2", 1, NOON_MS)
    assert (moved.state, moved.address) == (AttemptState.STOPPING, "h:2")


def test_positions_never_go_back_within_a_sequence(world: World) -> None:
    token = world.attempt(world.open(0, 1).ref)
    record = world.store.record_positions
    record(world.generation, token, 0, at(p0=5, p1=1), NOON_MS + 1)
    furthest = record(world.generation, token, 0, at(p0=4, p1=3), NOON_MS + 2)
    assert (furthest.positions, furthest.heartbeat_ms) == (at(p0=5, p1=3), NOON_MS + 2)
    later = record(world.generation, token, 2, at(p0=2), NOON_MS + 3)
    assert (later.positions, later.positions_sequence) == (at(p0=2), 2)
    late = record(world.generation, token, 0, at(p0=99), NOON_MS + 1)
    assert late == later, "a late beat of an earlier sequence changes nothing"


def test_one_live_attempt_of_a_group_is_the_committer(world: World) -> None:
    ref = world.open(0).ref
    one, two = world.attempt(ref), world.attempt(ref)
    other = world.attempt(world.open(1).ref)
    for chosen in (one, two, two):
        world.store.set_committer(world.generation, chosen)
        committers = [a.token for a in world.store.attempts(None, None, 9) if a.committer]
        assert committers == [chosen]
    world.store.set_committer(world.generation, other)
    world.end(two)
    assert [a.token for a in world.store.attempts(None, None, 9) if a.committer] == [other]


def test_attempts_are_listed_newest_first_and_filtered(world: World) -> None:
    ref = world.open(0).ref
    one, two, three = (world.attempt(ref) for _ in range(3))
    world.end(two)
    listed = world.store.attempts
    assert [a.token for a in listed(None, None, 9)] == [three, two, one]
    assert [a.token for a in listed(SUPERVISOR, True, 9)] == [three, one]
    assert [a.token for a in listed(SUPERVISOR, False, 9)] == [two]
    assert [a.token for a in listed(SUPERVISOR, None, 1)] == [three]
    assert listed("nobody", None, 9) == []


def test_every_field_of_an_attempt_is_stored(world: World) -> None:
    ref = world.open(0).ref
    full = replace(
        pending("t", ref.group),
        attempt=3,
        worker="w",
        address="h:1",
        protocol=7,
        positions=at(p0=3),
        positions_sequence=4,
        heartbeat_ms=5,
        error="e",
    )
    world.store.create_attempt(world.generation, full)
    assert world.store.attempt("t") == full
