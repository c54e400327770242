"""Suspended in the moment in which a task dies: what it had read and answered stays in the answers."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from ingest.clock import ManualClock
from ingest.metadata.records import DesiredState
from ingest.protocol import AttemptState, PauseCommand, SequenceState, StopCommand
from ingest.supervisor import messages as m
from ingest.supervisor.ports import TaskQueue
from ingest.supervisor.store_commands import StoreCommands
from tests.unit.protocol.lead import CONFIG, Lead, one_replica
from tests.unit.protocol.task_builder import at


def look(lead: Lead, *ends: int) -> None:
    lead.post(m.StreamSeen(lead.now_ms, "id", at(0, 0), at(0, 0), at(*ends)))


def ends(lead: Lead) -> list[object]:
    return [record.end for record in lead.store.sequences("edits", 1, 0) if record.state is not SequenceState.OPEN]


def round_number(lead: Lead) -> int:
    assert lead.group.round is not None
    return lead.group.round.number


def test_what_a_dead_task_may_have_read_since_it_reported_is_read_again_before_a_suspension_ends() -> None:
    lead = one_replica()
    lead.beat("t1", 0, 5, 3)
    lead.ended("t1")
    lead.desire(DesiredState.SUSPENDED)
    lead.ticks(2_000)
    lead.run("t2")
    lead.beat("t2", 0, 5, 3)
    assert not lead.sent(PauseCommand), "as far as was reported is not enough"
    look(lead, 8, 3)
    lead.beat("t2", 0, 7, 3)
    assert not lead.sent(PauseCommand)
    assert "reads again" in lead.machine.waiting_for()[0] and "8" in lead.machine.waiting_for()[0]
    lead.beat("t2", 0, 8, 3)
    assert lead.sent(PauseCommand) == ["t2"]
    lead.paused("t2", round_number(lead), 0, 8, 3)
    assert ends(lead) == [at(8, 3)]


def test_so_it_is_when_it_died_before_its_first_report() -> None:
    lead = one_replica()
    lead.ended("t1")
    lead.desire(DesiredState.SUSPENDED)
    assert ends(lead) == [], "not closed empty"
    lead.ticks(1_000)
    lead.run("t2")
    look(lead, 2, 1)
    lead.beat("t2", 0, 2, 1)
    lead.paused("t2", round_number(lead), 0, 2, 1)
    assert ends(lead) == [at(2, 1)]


def test_a_long_way_to_the_end_of_the_log_is_not_waited_for() -> None:
    lead = one_replica()
    lead.beat("t1", 0, 5, 3)
    lead.ended("t1")
    lead.desire(DesiredState.SUSPENDED)
    lead.ticks(2_000)
    lead.run("t2")
    look(lead, 9_000_000, 9_000_000)
    lead.beat("t2", 0, 500, 300)
    lead.ticks(4_000)
    assert lead.group.round is None
    lead.ticks(1_500)
    lead.paused("t2", round_number(lead), 0, 900, 800)
    assert ends(lead) == [at(900, 800)]


def test_nobody_who_could_read_it_ends_the_wait_in_time() -> None:
    lead = one_replica()
    lead.ended("t1")
    lead.desire(DesiredState.SUSPENDED)
    lead.ticks(CONFIG.reread_ms - 1_000)
    assert ends(lead) == []
    lead.ticks(2_000)
    assert [record.state for record in lead.store.sequences("edits", 1, 0)] == [SequenceState.CLOSED_EMPTY]


def two_replicas() -> Lead:
    lead = Lead(replace(CONFIG, replicas=2))
    for token in ("t1", "t2"):
        lead.run(token)
        lead.beat(token, 0, 5, 3)
    return lead


def test_a_replica_that_dies_within_the_round_of_a_suspension_may_have_read_more_than_the_other() -> None:
    lead = two_replicas()
    lead.desire(DesiredState.SUSPENDED)
    lead.paused("t2", round_number(lead), 0, 5, 3)
    lead.ended("t1")
    assert ends(lead) == [] and lead.group.round is None
    look(lead, 8, 3)
    lead.ticks(1_500)
    lead.beat("t2", 0, 8, 3)
    lead.paused("t2", round_number(lead), 0, 8, 3)
    assert ends(lead) == [at(8, 3)]


def test_a_silent_replica_is_waited_for_once() -> None:
    lead = two_replicas()
    lead.desire(DesiredState.SUSPENDED)
    pause = PauseCommand(lead.generation, round_number(lead), CONFIG.lease_ms)
    lead.paused("t2", round_number(lead), 0, 5, 3)
    lead.post(m.TaskSilent(lead.now_ms, "t1", pause))
    assert ends(lead) == [] and lead.group.round is None
    look(lead, 6, 3)
    lead.ticks(1_500)
    lead.beat("t2", 0, 6, 3)
    lead.paused("t2", round_number(lead), 0, 6, 3)
    lead.post(m.TaskSilent(lead.now_ms, "t1", replace(pause, round=round_number(lead))))
    assert ends(lead) == [at(6, 3)]


def test_a_task_that_ended_well_has_said_all_it_read() -> None:
    lead = two_replicas()
    lead.post(m.ReplicaLeaving(lead.now_ms, "t1", "drained"))
    stop = StopCommand(lead.generation, True, "leaving")
    lead.took("t1", stop)
    lead.ended("t1", succeeded=True)
    lead.desire(DesiredState.SUSPENDED)
    assert lead.sent(PauseCommand) == ["t2"]


def test_a_new_leader_finds_that_a_reader_was_lost() -> None:
    lead = one_replica()
    lead.store.set_attempt_state(lead.generation, "t1", AttemptState.FAILED, "killed", 0)
    second = lead.store.take_leadership("o2", "o2", lead.store.leadership())
    assert second is not None
    lead.take_over(second.generation)
    lead.desire(DesiredState.SUSPENDED)
    assert ends(lead) == []


def test_while_it_runs_a_round_waits_for_nobody_who_is_lost() -> None:
    lead = two_replicas()
    lead.ask("t2", lead.group.in_order()[0].ref, 6, 3)
    lead.ended("t1")
    assert ends(lead) == [at(6, 3)]


def test_a_resumption_is_no_cure_so_nothing_is_given_up_for_it() -> None:
    lead = one_replica()
    lead.beat("t1", 0, 5, 3)
    lead.machine.handle(
        m.DesiredChanged(lead.now_ms, DesiredState.RUNNING, replace(CONFIG, spec_version=2), other=False)
    )
    for token in ("t1", "t2", "t3", "t4"):
        lead.ended(token)
        lead.ticks(10_000)
        lead.run(f"t{int(token[1]) + 1}")
    lead.ended("t5")
    lead.desire(DesiredState.SUSPENDED)
    assert lead.group.failures >= CONFIG.failed_restarts
    assert not lead.of(m.VoidSequences)


def test_replicas_that_die_together_are_one_failure() -> None:
    lead = two_replicas()
    lead.ended("t1")
    lead.ended("t2")
    assert lead.group.failures == 1
    lead.ticks(2_000)
    lead.run("t3")
    lead.ended("t3")
    assert lead.group.failures == 2


def test_what_a_leader_finds_of_a_spec_that_was_posted_again_unchanged() -> None:
    lead = Lead()
    store, generation = lead.store, lead.generation
    store.put_supervisor(generation, "edits", "edits", {"a": 1}, DesiredState.RUNNING, 0)
    store.set_desired(generation, "edits", DesiredState.SUSPENDED, 0)
    version = store.set_desired(generation, "edits", DesiredState.RUNNING, 0).version
    commands = StoreCommands(store, cast("TaskQueue", None), generation, ManualClock())
    found = commands.state(replace(CONFIG, spec_version=version)).state
    assert (version, found.alike_since) == (3, 2)
