"""Placement of attempts on workers, and what each worker is told."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from ingest.clock import ManualClock
from ingest.errors import StoreUnreachable
from ingest.metadata.memory import MemoryMetadataStore
from ingest.metadata.records import AuditRow, DesiredState, NextSequence
from ingest.offsets import OffsetMap
from ingest.overlord.roster import FRESH_MS, WORKER_KEPT_MS, WorkerRoster
from ingest.protocol import (
    AttemptRecord,
    AttemptState,
    EndedTask,
    KeptRows,
    RunningTask,
    SequenceRef,
    TaskSpec,
    WorkerHeartbeat,
    WorkerOrders,
)
from ingest.supervisor.messages import AttemptAssigned, Event, TaskEnded


class BetweenStore(MemoryMetadataStore):
    """``before`` is called while an assignment is on its way into the store; ``loses_answers`` of those after it."""

    def __init__(self) -> None:
        super().__init__()
        self.before: Callable[[], None] = lambda: None
        self.loses_answers = 0

    def assign_attempt(self, generation: int, token: str, worker: str) -> AttemptRecord:
        before, self.before = self.before, lambda: None
        before()
        stored = super().assign_attempt(generation, token, worker)
        if self.loses_answers:
            self.loses_answers -= 1
            raise StoreUnreachable("the connection broke", effect_known_absent=False)
        return stored


class Cluster:
    """A roster over a memory store with one group; ``told`` are the events for supervisors."""

    def __init__(self) -> None:
        self.store, self.clock = BetweenStore(), ManualClock()
        taken = self.store.take_leadership("one", "one:1", None)
        assert taken is not None
        self.generation = taken.generation
        self.told: list[Event] = []
        self.roster = WorkerRoster(self.store, self.generation, self.clock, lambda _, event: self.told.append(event))
        self.store.put_supervisor(self.generation, "clicks", "clicks", {}, DesiredState.RUNNING, 0)
        self.store.init_offsets(self.generation, "clicks", "clicks", "t", None, OffsetMap({0: 0}))
        opened = self.store.open_group(self.generation, "clicks", "t", (0,), NextSequence(1, 0))
        self.group = opened.ref.group
        self._numbers = itertools.count(1)

    def attempt(self, prefer: str | None = None, avoid: tuple[str, ...] = ()) -> str:
        number = next(self._numbers)
        record = AttemptRecord(
            f"task_{number}", 1, f"token-{number}", "clicks", "clicks", self.group, AttemptState.PENDING, False, 0
        )
        self.store.create_attempt(self.generation, record)
        self.roster.enqueue(self.spec(record.token), prefer, avoid)
        return record.token

    def spec(self, token: str) -> TaskSpec:
        name = f"task_{token.split('-')[1]}"
        return TaskSpec(name, 1, token, "clicks", "clicks", self.group, self.generation, "t", None, (), {}, False)

    def beat(
        self,
        worker: str = "w1",
        capacity: int = 2,
        running: tuple[str, ...] = (),
        ended: tuple[str, ...] = (),
        enabled: bool = True,
        kept: tuple[KeptRows, ...] = (),
    ) -> WorkerOrders:
        return self.roster.beat(
            WorkerHeartbeat(
                worker,
                f"{worker}:1",
                capacity,
                enabled,
                tuple(RunningTask("task", 1, token, 1, False) for token in running),
                tuple(EndedTask("task", 1, token, None, "killed") for token in ended),
                kept=kept,
            )
        )


def started(orders: WorkerOrders) -> set[str]:
    return {spec.token for spec in orders.start}


def test_an_attempt_waits_until_a_worker_has_room_and_is_stored_before_it_is_told() -> None:
    cluster = Cluster()
    first, second, third = cluster.attempt(), cluster.attempt(), cluster.attempt()
    assert started(cluster.beat()) == {first, second}
    stored = cluster.store.attempt(first)
    assert stored is not None
    assert (stored.state, stored.worker) == (AttemptState.ASSIGNED, "w1")
    assert [spec.token for spec in cluster.roster.waiting()] == [third]
    assert started(cluster.beat("w2")) == {third}
    assert sum(isinstance(event, AttemptAssigned) for event in cluster.told) == 3


def test_a_start_order_is_repeated_until_the_worker_reports_the_attempt() -> None:
    cluster = Cluster()
    token = cluster.attempt()
    assert started(cluster.beat()) == {token}
    assert started(cluster.beat()) == {token}
    assert started(cluster.beat(running=(token,))) == set()


def test_replicas_go_to_different_workers_while_there_are_some() -> None:
    cluster = Cluster()
    cluster.beat("w1", capacity=5)
    cluster.beat("w2", capacity=1)
    token = cluster.attempt(avoid=("w1",))
    other = cluster.attempt(avoid=("w1",))
    assert started(cluster.beat("w2", capacity=1)) == {token}
    assert started(cluster.beat("w1", capacity=5)) == set(), "it waits for room apart from its sibling"
    assert [spec.token for spec in cluster.roster.waiting()] == [other]


def test_replicas_share_a_worker_that_is_the_only_one() -> None:
    cluster = Cluster()
    cluster.beat("w1", capacity=5)
    token = cluster.attempt(avoid=("w1",))
    assert started(cluster.beat("w1", capacity=5)) == {token}


def test_a_replacement_goes_back_to_the_worker_that_may_hold_its_rows() -> None:
    cluster = Cluster()
    cluster.beat("w1", capacity=1)
    cluster.beat("w2", capacity=9)
    token = cluster.attempt(prefer="w1")
    assert started(cluster.beat("w1", capacity=1)) == {token}


def test_a_claim_is_placed_before_others_and_beyond_capacity_once() -> None:
    cluster = Cluster()
    running = (cluster.attempt(), cluster.attempt())
    cluster.beat()
    earlier, later, last = cluster.attempt(), cluster.attempt(), cluster.attempt()
    cluster.roster.claim(later)
    cluster.roster.claim(later)
    assert started(cluster.beat(running=running)) == {later}
    cluster.roster.claim(last)
    full = (*running, later)
    assert started(cluster.beat(running=full)) == set(), "one slot lies beyond the capacity, not two"
    assert started(cluster.beat(running=full[:2])) == {last}
    assert [spec.token for spec in cluster.roster.waiting()] == [earlier]


def test_a_claim_finds_its_slot_also_where_the_capacity_was_lowered() -> None:
    cluster = Cluster()
    running = (cluster.attempt(), cluster.attempt(), cluster.attempt())
    assert started(cluster.beat(capacity=3)) == set(running)
    token = cluster.attempt()
    assert started(cluster.beat(capacity=1, running=running)) == set()
    cluster.roster.claim(token)
    assert started(cluster.beat(capacity=1, running=running)) == {token}


def test_what_only_waits_for_query_nodes_takes_no_slot() -> None:
    cluster = Cluster()
    running = (cluster.attempt(), cluster.attempt())
    cluster.beat()
    next_one, last = cluster.attempt(), cluster.attempt()
    assert started(cluster.beat(running=running)) == set()
    cluster.roster.free(running[0])
    assert started(cluster.beat(running=running)) == {next_one}
    assert [spec.token for spec in cluster.roster.waiting()] == [last]


def test_a_claim_of_an_attempt_that_does_not_wait_changes_nothing() -> None:
    cluster = Cluster()
    cluster.roster.claim("unknown")
    token = cluster.attempt()
    assert started(cluster.beat()) == {token}
    cluster.roster.claim(token)
    assert started(cluster.beat(running=(token,))) == set()


def test_disabled_and_silent_workers_get_nothing_new() -> None:
    cluster = Cluster()
    cluster.beat("w1", enabled=False)
    cluster.beat("w2")
    cluster.clock.advance(FRESH_MS + 1)
    token = cluster.attempt()
    assert started(cluster.beat("w1", enabled=False)) == set()
    assert [spec.token for spec in cluster.roster.waiting()] == [token]


def test_an_end_is_acknowledged_only_when_the_store_holds_it() -> None:
    cluster = Cluster()
    token = cluster.attempt()
    cluster.beat()
    assert cluster.beat(ended=(token,)).acknowledged == ()
    assert [event.token for event in cluster.told if isinstance(event, TaskEnded)] == [token]
    cluster.store.set_attempt_state(cluster.generation, token, AttemptState.FAILED, "killed", 0)
    assert cluster.beat(ended=(token,)).acknowledged == (token,)


def test_a_process_whose_attempt_ended_in_the_store_is_killed() -> None:
    cluster = Cluster()
    token = cluster.attempt()
    cluster.beat()
    fresh = WorkerRoster(cluster.store, cluster.generation, cluster.clock, lambda *_: None)
    cluster.store.set_attempt_state(cluster.generation, token, AttemptState.FENCED, "silent", 0)
    cluster.roster = fresh
    assert cluster.beat(running=(token,)).kill == (token,)


def test_a_new_leader_repeats_the_start_order_of_an_assigned_attempt() -> None:
    cluster = Cluster()
    token = cluster.attempt()
    cluster.beat()
    cluster.roster = WorkerRoster(cluster.store, cluster.generation, cluster.clock, lambda *_: None)
    cluster.roster.reassign(cluster.spec(token), "w1")
    assert started(cluster.beat()) == {token}


def test_a_killed_attempt_is_neither_started_nor_left_waiting() -> None:
    cluster = Cluster()
    waiting = cluster.attempt()
    cluster.roster.kill(waiting)
    assert started(cluster.beat()) == set()
    running = cluster.attempt()
    cluster.beat()
    cluster.roster.kill(running)
    assert cluster.beat(running=(running,)).kill == (running,)


def test_a_worker_that_beats_while_its_assignment_is_being_stored_is_not_told_yet() -> None:
    cluster = Cluster()
    cluster.beat("w1")
    early: list[WorkerOrders] = []
    cluster.store.before = lambda: early.append(cluster.beat("w1"))
    token = cluster.attempt(prefer="w1")
    assert [started(orders) for orders in early] == [set()], "stored before told (PR-7)"
    assert started(cluster.beat("w1")) == {token}


def test_a_worker_is_never_told_of_an_attempt_that_the_store_gave_to_another_one() -> None:
    cluster = Cluster()
    cluster.beat("w2")
    late: list[WorkerOrders] = []
    cluster.store.before = lambda: late.append(cluster.beat("w1"))
    token = cluster.attempt(prefer="w1")
    assert started(late[0]) | started(cluster.beat("w1")) == set()
    assert started(cluster.beat("w2")) == {token}


def test_an_assignment_whose_answer_was_lost_is_told_to_the_worker_that_has_it() -> None:
    cluster = Cluster()
    cluster.beat("w1", capacity=1)
    cluster.store.loses_answers = 1
    token = cluster.attempt()
    cluster.clock.advance(FRESH_MS + 1)
    assert started(cluster.beat("w2")) == set(), "the store gave it to w1"
    assert started(cluster.beat("w1", capacity=1)) == {token}
    assigned = [event.worker for event in cluster.told if isinstance(event, AttemptAssigned)]
    assert assigned == ["w1"], "else its supervisor would take it to be waiting, for ever"


def test_nothing_is_remembered_of_attempts_that_ended_and_workers_that_are_gone() -> None:
    cluster = Cluster()
    for number in range(50):
        host = f"lost-{number}"
        cluster.clock.advance(FRESH_MS + 1)
        token, claimed = cluster.attempt(), cluster.attempt()
        cluster.roster.claim(claimed)
        assert started(cluster.beat(host)) == {token, claimed}
        cluster.roster.free(token)
        for ended in (token, claimed):  # as a supervisor does with the tasks of a lost host
            cluster.store.set_attempt_state(cluster.generation, ended, AttemptState.FENCED, "silent", 0)
            cluster.roster.kill(ended)
        cluster.roster.free(claimed)  # said before its end, heard after it
    cluster.clock.advance(FRESH_MS + 1)
    living = cluster.attempt()
    cluster.beat("w1")
    cluster.clock.advance(WORKER_KEPT_MS)
    cluster.beat("w1", running=(living,))
    assert len(cluster.roster) == 1 and [beat.worker for beat, _ in cluster.roster.workers()] == ["w1"]
    assert cluster.beat("w1", running=(living, "token-1")).kill == ("token-1",), "one that comes back is still refused"


def test_a_worker_is_told_which_rows_of_ended_attempts_nobody_needs_any_more() -> None:
    cluster = Cluster()
    first = SequenceRef("clicks", cluster.group, 0)
    cluster.store.seal(cluster.generation, first, OffsetMap({0: 5}), NextSequence(1, 0))
    kept = tuple(KeptRows(f"token-{n}", "clicks", cluster.group, n) for n in (-1, 0, 1))
    gone = KeptRows("token-gone", "clicks", cluster.group + 1, 9)
    assert cluster.beat(kept=(*kept, gone)).unneeded == ("token--1", "token-gone")
    cluster.store.void(cluster.generation, "clicks", cluster.group, 0, AuditRow(0, "clicks", "void", {}))
    assert cluster.beat(kept=kept).unneeded == ("token--1", "token-0", "token-1")
    assert cluster.beat().unneeded == ()
