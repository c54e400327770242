"""Checkpoint rounds of a supervisor: who is paused, what is saved, who is told and when it is given up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ingest.protocol import PauseCommand, ResumeCommand, SealCommand, SequenceRef, SequenceState
from ingest.supervisor import messages as m
from ingest.supervisor.agreement import RoundStep
from tests.unit.protocol.lead import CONFIG, Lead, one_replica, two_replicas
from tests.unit.protocol.task_builder import at

FIRST = SequenceRef("edits", 1, 0)


def round_number(lead: Lead) -> int:
    assert lead.group.round is not None
    return lead.group.round.number


def test_with_one_replica_a_round_costs_one_write_and_no_pause() -> None:
    lead = one_replica()
    lead.ask("t1", FIRST, 5, 3)
    assert lead.sent(PauseCommand) == []
    assert [type(c) for c in lead.did] == [m.SealSequence, m.SendTask]
    seal = lead.seal_sent_to("t1")
    assert [(r.state, r.start, r.end) for r in seal.sequences] == [
        (SequenceState.SEALED, at(0, 0), at(5, 3)),
        (SequenceState.OPEN, at(5, 3), None),
    ]


def test_the_others_are_paused_and_the_furthest_positions_are_saved_before_anybody_is_told() -> None:
    lead = two_replicas()
    lead.ask("t1", FIRST, 5, 3)
    assert lead.sent(PauseCommand) == ["t2"]
    assert not lead.of(m.SealSequence)
    lead.paused("t2", round_number(lead), 0, 4, 9)
    [seal] = lead.of(m.SealSequence)
    assert isinstance(seal, m.SealSequence) and seal.end == at(5, 9)
    assert lead.did.index(seal) == 0 and lead.sent(SealCommand) == ["t1", "t2"]


def test_a_round_ends_when_everybody_has_taken_the_end() -> None:
    lead = two_replicas()
    lead.ask("t1", FIRST, 5, 3)
    lead.paused("t2", round_number(lead), 0, 4, 9)
    seal = lead.seal_sent_to("t1")
    lead.took("t1", seal)
    assert lead.group.round is not None and lead.group.round.step is RoundStep.TELLING
    lead.took("t2", seal)
    assert lead.group.round is None


def test_who_fills_the_next_sequence_before_all_have_taken_the_end_does_not_stand_still_for_them() -> None:
    lead = two_replicas()
    lead.ask("t1", FIRST, 5, 3)
    lead.paused("t2", round_number(lead), 0, 4, 9)
    lead.took("t1", lead.seal_sent_to("t1"))
    lead.ask("t1", replace(FIRST, number=1), 11, 12)  # t2 is slow to take the end
    assert lead.sent(PauseCommand) == ["t2"]
    lead.paused("t2", round_number(lead), 0, 5, 9)
    [seal] = lead.of(m.SealSequence)
    assert isinstance(seal, m.SealSequence) and (seal.ref.number, seal.end) == (1, at(11, 12))
    assert [record.ref.number for record in lead.seal_sent_to("t2").sequences] == [0, 1, 2]


def test_a_replica_that_the_end_did_not_reach_is_told_again_at_the_next_tick() -> None:
    lead = two_replicas()
    lead.ask("t1", FIRST, 5, 3)
    lead.paused("t2", round_number(lead), 0, 4, 9)
    seal = lead.seal_sent_to("t2")
    lead.took("t1", lead.seal_sent_to("t1"))
    lead.post(m.TaskSilent(lead.now_ms, "t2", seal))
    assert lead.sent(SealCommand) == [], "not at once: it would be asked without a breath"
    lead.tick(200)
    assert lead.sent(SealCommand) == ["t2"]


def test_after_the_pausing_deadline_it_goes_on_with_those_that_reported() -> None:
    lead = two_replicas()
    lead.ask("t1", FIRST, 5, 3)
    assert any(isinstance(c, m.SealSequence) and c.end == at(5, 3) for c in lead.ticks(3_000))


def test_nobody_reports_it_is_given_up_and_everybody_resumes() -> None:
    lead = two_replicas()
    lead.post(m.DesiredChanged(lead.now_ms, lead.machine.desired, replace(CONFIG, replicas=2, spec_version=2)))
    assert sorted(lead.sent(PauseCommand)) == ["t1", "t2"]
    done = lead.ticks(3_000)
    resumed = [c.token for c in done if isinstance(c, m.SendTask) and isinstance(c.command, ResumeCommand)]
    assert resumed == ["t1", "t2"]
    assert not any(isinstance(c, m.SealSequence) for c in done)
    assert any(isinstance(c, m.SendTask) and isinstance(c.command, PauseCommand) for c in lead.ticks(2_000))


def test_a_round_in_which_nothing_was_read_is_void() -> None:
    lead = two_replicas()
    lead.ask("t1", FIRST, 0, 0)
    lead.paused("t2", round_number(lead), 0, 0, 0)
    assert lead.sent(ResumeCommand) == ["t1", "t2"]
    assert lead.group.round is None


@pytest.mark.parametrize("number", [1, 99])
def test_a_report_of_another_round_is_not_taken(number: int) -> None:
    lead = two_replicas()
    lead.ask("t1", FIRST, 5, 3)
    assert lead.paused("t2", number, 0, 4, 9) == []
    assert lead.group.round is not None and lead.group.round.awaiting == {"t2"}


def test_a_report_after_the_save_changes_nothing() -> None:
    lead = two_replicas()
    lead.ask("t1", FIRST, 5, 3)
    number = round_number(lead)
    lead.ticks(3_000)
    lead.paused("t2", number, 0, 9, 9)
    assert lead.store.sequences("edits", 1, 0)[0].end == at(5, 3)


def test_a_request_for_a_sequence_already_sealed_is_told_again_without_a_round() -> None:
    lead = one_replica()
    lead.ask("t1", FIRST, 5, 3)
    lead.ticks(5_000)
    lead.ask("t1", FIRST, 6, 3)
    assert lead.sent(SealCommand) == ["t1"] and not lead.of(m.SealSequence)


def test_a_request_of_an_unknown_attempt_is_ignored() -> None:
    assert one_replica().ask("stranger", FIRST, 5, 3) == []


def test_who_was_not_reached_is_told_again_until_it_answers() -> None:
    lead = two_replicas()
    for token in ("t1", "t2"):
        lead.took(token, lead.machine.seal_command(lead.group))
    lead.ask("t1", FIRST, 5, 3)
    lead.paused("t2", round_number(lead), 0, 5, 3)
    seal = lead.seal_sent_to("t1")
    lead.took("t1", seal)
    told = [c.token for c in lead.ticks(3_000) if isinstance(c, m.SendTask) and isinstance(c.command, SealCommand)]
    assert told == ["t2"] * 3
    lead.took("t2", seal)
    assert not any(isinstance(c, m.SendTask) for c in lead.ticks(2_000))


def test_a_retold_end_carries_the_round_that_saved_it_and_ends_no_newer_pause() -> None:
    lead = two_replicas()
    lead.ask("t1", FIRST, 5, 3)
    lead.paused("t2", round_number(lead), 0, 5, 3)
    first = lead.seal_sent_to("t1")
    lead.took("t1", first)
    lead.ticks(6_000)
    lead.ask("t1", SequenceRef("edits", 1, 1), 8, 3)
    assert round_number(lead) > first.round
    lead.tick(1_000)
    assert lead.seal_sent_to("t2").round == first.round


def test_the_end_of_a_paused_attempt_lets_the_round_go_on() -> None:
    lead = two_replicas()
    lead.ask("t1", FIRST, 5, 3)
    lead.ended("t2")
    assert lead.of(m.SealSequence)


def test_an_attempt_that_registers_is_told_everything_saved() -> None:
    lead = two_replicas()
    lead.ask("t1", FIRST, 5, 3)
    lead.paused("t2", round_number(lead), 0, 5, 3)
    lead.ended("t2")
    lead.ticks(1_500)
    lead.run("t3", "w2")
    assert [r.ref.number for r in lead.seal_sent_to("t3").sequences] == [0, 1]


def test_a_new_leader_tells_every_saved_fact_under_its_own_generation() -> None:
    lead = two_replicas()
    lead.ask("t1", FIRST, 5, 3)
    lead.ticks(3_000)
    leader = lead.store.take_leadership("o2", "o2", lead.store.leadership())
    assert leader is not None
    lead.take_over(leader.generation, lead.machine.config)
    assert lead.sent(SealCommand) == ["t1", "t2"]
    seal = lead.seal_sent_to("t2")
    assert seal.generation == 2 and [r.end for r in seal.sequences] == [at(5, 3), None]


def test_a_new_spec_cuts_over_at_a_checkpoint_even_if_nothing_was_read() -> None:
    lead = one_replica()
    lead.post(m.DesiredChanged(lead.now_ms, lead.machine.desired, replace(CONFIG, spec_version=2)))
    lead.paused("t1", round_number(lead), 0, 0, 0)
    records = lead.store.sequences("edits", 1, 0)
    assert [(r.state, r.spec_version) for r in records] == [
        (SequenceState.CLOSED_EMPTY, 1),
        (SequenceState.OPEN, 2),
    ]


def test_an_outdated_view_is_read_again() -> None:
    assert one_replica().post(m.StoreRefused(0, "sealed otherwise"))[0] == m.Reload()


def test_nothing_is_done_before_the_store_was_read() -> None:
    machine = type(one_replica().machine)(CONFIG, 1)
    assert machine.handle(m.Tick(0, 0)) == []
    assert machine.handle(m.StreamSeen(0, "id", at(0))) == []


def test_asked_to_hand_off_groups_end_what_was_read_and_others_are_passed_over() -> None:
    lead = one_replica()
    lead.beat("t1", 0, 5, 3)
    lead.post(m.HandOffAsked(lead.now_ms, frozenset({1, 7})))
    assert lead.sent(PauseCommand) == ["t1"]
    lead.post(m.HandOffAsked(lead.now_ms, frozenset({1})))
    assert not lead.did, "in a round already"
    lead.paused("t1", round_number(lead), 0, 5, 3)
    [seal] = lead.of(m.SealSequence)
    assert isinstance(seal, m.SealSequence) and seal.end == at(5, 3) and seal.following is not None


def test_a_hand_off_of_nothing_read_is_void_and_its_task_reads_on() -> None:
    lead = one_replica()
    lead.post(m.HandOffAsked(lead.now_ms, frozenset({1})))
    lead.paused("t1", round_number(lead), 0, 0, 0)
    assert not lead.of(m.SealSequence) and lead.sent(ResumeCommand) == ["t1"]
