"""Groups of a supervisor: opened, released, acquired, voided, reset, at rest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ingest.metadata.records import DesiredState
from ingest.protocol import (
    AttemptState,
    PublishOutcome,
    SequenceRef,
    SequenceState,
    StopCommand,
    TaskHeartbeat,
)
from ingest.supervisor import messages as m
from ingest.supervisor.invariants import check_groups, check_sequences
from tests.unit.protocol.lead import CONFIG, WALL_MS, Lead, one_replica
from tests.unit.protocol.task_builder import at, opened, sealed

FIRST = SequenceRef("edits", 1, 0)


def released(lead: Lead, *offsets: int) -> list[m.Command]:
    """Answers the pause of the newest group's round."""
    assert lead.group.round is not None
    return lead.paused("t1", lead.group.round.number, 0, *offsets)


def test_the_first_look_stores_all_offsets_at_once_and_opens_every_group() -> None:
    lead = Lead(replace(CONFIG, task_count=2), partitions=4)
    assert [type(c) for c in lead.did][:3] == [m.InitOffsets, m.OpenGroup, m.OpenGroup]
    assert [g.partitions for g in lead.machine.groups.values()] == [(0, 2), (1, 3)]
    assert lead.see(4) == []


def test_suspended_it_releases_publishes_raises_the_epochs_and_rests() -> None:
    lead = one_replica()
    lead.desire(DesiredState.SUSPENDED)
    released(lead, 5, 3)
    [record] = lead.store.sequences("edits", 1, 0)
    assert (record.state, record.released, record.end) == (SequenceState.SEALED, True, at(5, 3))
    assert not lead.of(m.Rested)
    lead.published(FIRST)
    assert lead.of(m.Rested) == [m.Rested(DesiredState.SUSPENDED)]
    offsets = lead.store.offsets("edits", "edits")
    assert offsets is not None and (offsets.committed, offsets.epochs) == (at(5, 3), at(1, 1))
    assert lead.sent(StopCommand) == ["t1"]
    assert not [c for c in lead.ticks(5_000) if isinstance(c, m.RaiseEpochs | m.Rested)]


def test_resumed_it_acquires_at_the_saved_end_before_that_is_published() -> None:
    lead = one_replica()
    lead.desire(DesiredState.SUSPENDED)
    released(lead, 5, 3)
    lead.desire(DesiredState.RUNNING)
    assert [type(c) for c in lead.did][:2] == [m.OpenGroup, m.CreateAttempt]
    assert lead.store.sequences("edits", 2, 0)[0].start == at(5, 3)


def test_suspended_with_nothing_running_it_closes_the_sequence_empty() -> None:
    lead = Lead()
    lead.desire(DesiredState.SUSPENDED)
    [record] = lead.store.sequences("edits", 1, 0)
    assert (record.state, record.released) == (SequenceState.CLOSED_EMPTY, True)
    [move] = lead.of(m.MoveAttempt)
    assert isinstance(move, m.MoveAttempt) and move.state is AttemptState.FENCED


ROUND_REASONS = ("suspended", "terminated", "reset", "new spec")


def wish(lead: Lead, reason: str) -> list[m.Command]:
    if reason == "reset":
        return lead.post(m.ResetAsked(lead.now_ms, at(40), discard=False))
    if reason == "new spec":
        return lead.desire(DesiredState.RUNNING, replace(lead.machine.config, spec_version=2))
    return lead.desire(DesiredState(reason))


@pytest.mark.parametrize("reason", ROUND_REASONS)
def test_what_only_a_dead_task_had_read_is_read_again_before_its_sequence_ends(reason: str) -> None:
    lead = one_replica()
    lead.beat("t1", 0, 5, 3)
    lead.ended("t1")
    wish(lead, reason)
    assert not [c for c in lead.ticks(2_000) if isinstance(c, m.SealSequence)]
    lead.run("t2")
    lead.beat("t2", 0, 4, 3)
    assert lead.group.round is None and lead.machine.waiting_for()
    lead.post(m.StreamSeen(lead.now_ms, "id", at(0, 0), at(0, 0), at(6, 3)))
    lead.beat("t2", 0, 6, 3)
    number = lead.machine.round_number
    assert [c.end for c in lead.paused("t2", number, 0, 7, 3) if isinstance(c, m.SealSequence)] == [at(7, 3)]


@pytest.mark.parametrize("reason", ["suspended", "terminated", "new spec"])
def test_nobody_reads_it_again_in_time_its_end_is_saved_where_it_was_reported(reason: str) -> None:
    lead = one_replica()
    lead.beat("t1", 0, 5, 3)
    lead.ended("t1")
    wish(lead, reason)
    ends = [c.end for c in lead.ticks(62_000) if isinstance(c, m.SealSequence)]
    assert ends == [at(5, 3)]


def test_a_reset_gives_up_at_its_deadline_what_nobody_reads_again_and_records_it() -> None:
    lead = one_replica()
    lead.beat("t1", 0, 5, 3)
    lead.ended("t1")
    wish(lead, "reset")
    lead.ticks(62_000)
    [audit] = lead.store.audit("edits", 1)
    range_ = {"start": {"0": 0, "1": 0}, "end": {"0": 5, "1": 3}, "offsets": 8}
    assert (audit.action, audit.detail["voided"]) == ("reset", {"edits_1_0": range_})


def test_a_new_leader_knows_what_the_dead_had_reported() -> None:
    lead = one_replica()
    lead.beat("t1", 0, 5, 3)
    lead.store.set_attempt_state(lead.generation, "t1", AttemptState.FAILED, "killed", 0)
    second = lead.store.take_leadership("o2", "o2", lead.store.leadership())
    assert second is not None
    lead.take_over(second.generation)
    lead.desire(DesiredState.SUSPENDED)
    assert not [c for c in lead.ticks(2_000) if isinstance(c, m.SealSequence)]


def test_a_refused_reset_is_tried_again() -> None:
    lead = one_replica()
    asked = lead.machine.handle(m.ResetAsked(lead.now_ms, at(40), discard=True))
    assert [type(c) for c in asked] == [m.ResetOffsets]
    refused = lead.machine.handle(m.StoreRefused(lead.now_ms, "not now"))
    assert refused == [m.Reload()]
    assert any(isinstance(c, m.ResetOffsets) for c in lead.post(lead.loaded()))
    assert lead.machine.resets == []


def looked(lead: Lead, *log_starts: int) -> list[m.Command]:
    return lead.post(m.StreamSeen(lead.now_ms, "id", at(0, 0), at(*log_starts), at(90, 90)))


def test_what_no_attempt_can_finish_is_read_again_under_a_posted_spec() -> None:
    lead = one_replica()
    lead.ask("t1", FIRST, 5, 3)
    for token in ("t1", "t2", "t3"):
        assert not lead.of(m.VoidSequences)
        lead.ended(token)
        lead.ticks(10_000)
        lead.run(f"t{int(token[1]) + 1}")
    lead.ended("t4")
    wish(lead, "new spec")
    assert lead.of(m.VoidSequences)
    assert {r.state for r in lead.store.sequences("edits", 1, 0)} == {SequenceState.VOID}
    [again] = lead.store.sequences("edits", 2, 0)
    assert (again.start, again.spec_version) == (at(0, 0), 2)


def test_what_was_published_unheard_is_not_given_up_again_and_again() -> None:
    lead = one_replica()
    lead.desire(DesiredState.SUSPENDED)
    released(lead, 5, 3)
    lead.publish_unheard(FIRST)
    for token in ("t1", "t2", "t3"):
        lead.ended(token)
        lead.ticks(10_000)
        lead.run(f"t{int(token[1]) + 1}")
    lead.ended("t4")
    wish(lead, "new spec")
    done = [*lead.did, *lead.ticks(5_000)]
    assert len([c for c in done if isinstance(c, m.VoidSequences)]) == 1, "the store is read instead"
    assert lead.store.sequences("edits", 2, 0)[0].start == at(5, 3)


def test_a_moments_absence_gives_nothing_up_for_a_new_spec() -> None:
    lead = one_replica()
    lead.ask("t1", FIRST, 5, 3)
    lead.ended("t1")
    wish(lead, "new spec")
    assert not [c for c in lead.ticks(5_000) if isinstance(c, m.VoidSequences)]


def test_expired_offsets_are_moved_when_the_spec_says_so_and_recorded_and_no_others() -> None:
    lead = one_replica(reset_automatically=True)
    looked(lead, 40, 0)
    released(lead, 0, 3)
    lead.published(FIRST)
    offsets = lead.store.offsets("edits", "edits")
    assert offsets is not None and (offsets.committed, offsets.epochs) == (at(40, 3), at(1, 0))
    [audit] = [row for row in lead.store.audit("edits", 5) if row.action == "reset"]
    assert (audit.detail["from"], audit.detail["moves"]) == ({"0": 0}, {"0": 40})


def test_without_that_setting_expired_offsets_are_named_and_stay() -> None:
    lead = one_replica()
    looked(lead, 40, 0)
    assert lead.machine.health.named is not None and not lead.machine.resets


def test_what_somebody_has_read_has_not_expired() -> None:
    lead = one_replica(reset_automatically=True)
    lead.beat("t1", 0, 50, 3)
    looked(lead, 40, 0)
    assert lead.machine.health.named is None and not lead.machine.resets


def test_who_reads_on_behind_a_lost_range_holds_nothing_of_it() -> None:
    lead = one_replica(reset_automatically=True)
    lead.see(3)
    released(lead, 17, 3)
    lead.ended("t1")
    lead.run("t2")
    lead.beat("t2", 0, 30, 5, 0)
    looked(lead, 24, 0, 0)
    [reset] = lead.machine.resets
    assert reset.moves == at(24) and "offsets 0 to 24" in reset.reason


def test_a_task_that_comes_back_with_its_rows_ends_the_automatic_reset() -> None:
    lead = one_replica(reset_automatically=True)
    lead.ask("t1", FIRST, 17, 3)
    lead.paused("t1", lead.machine.round_number, 0, 17, 3)
    looked(lead, 17, 0)
    assert [reset.moves for reset in lead.machine.resets] == [at(17)]
    beat = TaskHeartbeat("t1", 1, at(17, 3), "reading", None, 0, 0, 0, {}, behind=True, read=at(16, 3))
    lead.post(m.TaskBeat(lead.now_ms, beat))
    lead.tick()
    assert lead.machine.resets, "one record is missing"
    lead.post(m.TaskBeat(lead.now_ms, replace(beat, read=at(17, 3))))
    lead.tick()
    assert not lead.machine.resets


def test_what_was_read_before_an_automatic_reset_is_not_read_again() -> None:
    lead = one_replica(reset_automatically=True)
    looked(lead, 40, 0)
    released(lead, 45, 3)
    lead.published(FIRST)
    offsets = lead.store.offsets("edits", "edits")
    assert offsets is not None and (offsets.committed, offsets.epochs) == (at(45, 3), at(0, 0))
    assert not lead.machine.resets


def test_a_released_group_keeps_somebody_who_can_publish() -> None:
    lead = one_replica()
    lead.desire(DesiredState.SUSPENDED)
    released(lead, 5, 3)
    lead.ended("t1")
    assert any(isinstance(c, m.CreateAttempt) for c in lead.ticks(2_000))


def test_a_new_partition_moves_by_release_and_acquire() -> None:
    lead = one_replica()
    lead.see(3)
    assert [type(c) for c in lead.did][:1] == [m.AddPartitions]
    released(lead, 5, 3)
    kinds = [type(c) for c in lead.did]
    assert kinds.index(m.SealSequence) < kinds.index(m.OpenGroup)
    assert lead.store.sequences("edits", 2, 0)[0].start == at(5, 3, 0)


def test_more_tasks_move_as_few_partitions_as_they_must() -> None:
    lead = Lead(replace(CONFIG, task_count=2), partitions=4)
    lead.run("t1", "w1")
    lead.run("t2", "w2")
    lead.post(m.DesiredChanged(lead.now_ms, lead.machine.desired, replace(CONFIG, task_count=3)))
    for group in list(lead.machine.groups.values()):
        for token in list(group.replicas):
            if group.round is not None:
                lead.paused(token, group.round.number, 0, *(7 for _ in range(4)))
    reads = sorted(g.partitions for g in lead.machine.groups.values() if g.open is not None)
    assert sorted(p for ps in reads for p in ps) == [0, 1, 2, 3]
    assert len(reads) == 3 and any(ps in ((0, 2), (1, 3)) for ps in reads)


def test_a_conflict_voids_fences_and_reads_again_with_the_inherited_time() -> None:
    lead = one_replica()
    opened_at = lead.store.sequences("edits", 1, 0)[0].opened_at_ms
    lead.ask("t1", FIRST, 5, 3)
    lead.ticks(5_000)
    lead.post(m.PublishSeen(lead.now_ms, "t1", FIRST, PublishOutcome.CONFLICT))
    kinds = [type(c) for c in lead.did]
    assert kinds[0] is m.VoidSequences and m.KillAttempt("t1") in lead.did and m.OpenGroup in kinds
    assert {r.state for r in lead.store.sequences("edits", 1, 0)} == {SequenceState.VOID}
    [again] = lead.store.sequences("edits", 2, 0)
    assert (again.start, again.opened_at_ms) == (at(0, 0), opened_at)
    assert lead.store.audit("edits", 5)[0].action == "void"


def test_a_conflict_of_a_sequence_no_longer_unpublished_is_ignored() -> None:
    lead = one_replica()
    assert not [
        c
        for c in lead.post(m.PublishSeen(0, "t1", SequenceRef("edits", 1, 7), PublishOutcome.CONFLICT))
        if isinstance(c, m.VoidSequences)
    ]


def test_a_reset_first_publishes_what_was_read_and_leaves_other_partitions_alone() -> None:
    lead = one_replica()
    lead.post(m.ResetAsked(lead.now_ms, at(40), discard=False))
    assert not lead.of(m.ResetOffsets)
    released(lead, 5, 3)
    assert not [c for c in lead.ticks(2_000) if isinstance(c, m.ResetOffsets)]
    lead.published(FIRST)
    assert lead.of(m.ResetOffsets)
    offsets = lead.store.offsets("edits", "edits")
    assert offsets is not None and (offsets.committed, offsets.epochs) == (at(40, 3), at(1, 0))
    assert lead.store.sequences("edits", 2, 0)[0].start == at(40, 3)


@pytest.mark.parametrize("discard", [True, False])
def test_a_reset_that_cannot_wait_voids_and_records_it(discard: bool) -> None:
    lead = one_replica()
    lead.ask("t1", FIRST, 5, 3)
    lead.post(m.ResetAsked(lead.now_ms, at(40), discard))
    done = [*lead.did, *lead.ticks(0 if discard else 62_000)]
    assert any(isinstance(c, m.ResetOffsets) for c in done)
    assert any(isinstance(c, m.MoveAttempt) and c.state is AttemptState.FENCED for c in done)
    audit = lead.store.audit("edits", 1)[0]
    assert audit.action == "reset" and "edits_1_0" in audit.detail["voided"]


def test_terminated_it_publishes_what_was_read_and_opens_nothing() -> None:
    lead = one_replica()
    lead.desire(DesiredState.TERMINATED)
    released(lead, 5, 3)
    lead.published(FIRST)
    assert lead.of(m.Rested) == [m.Rested(DesiredState.TERMINATED)]
    lead.ended("t1", succeeded=True)
    assert lead.machine.groups == {}
    assert lead.see(5) == []


def test_an_end_saved_for_a_sequence_proves_the_publishes_before_it() -> None:
    lead = one_replica()
    lead.ask("t1", FIRST, 5, 3)
    lead.ticks(6_000)
    lead.ask("t1", SequenceRef("edits", 1, 1), 8, 3)
    lead.post(m.PublishSeen(lead.now_ms, "t1", SequenceRef("edits", 1, 1), PublishOutcome.ALREADY))
    assert sorted(lead.group.sequences) == [2]


def test_sequences_are_stamped_with_the_wall_clock_not_with_deadlines() -> None:
    lead = one_replica()
    lead.tick(500)
    lead.ask("t1", FIRST, 5, 3)
    assert lead.store.sequences("edits", 1, 1)[0].opened_at_ms == WALL_MS + lead.now_ms


def test_two_groups_that_read_one_partition_are_a_fault_of_the_program() -> None:
    lead = one_replica()
    with pytest.raises(AssertionError, match="CK-3"):
        check_groups({1: lead.group, 2: replace(lead.group, epoch=2)})


def test_sequences_join_and_ends_lie_above_starts() -> None:
    check_sequences((sealed(0, at(0), at(4)), opened(2, at(4))))
    for wrong in [
        (sealed(0, at(0), at(4)), opened(1, at(5))),
        (opened(0, at(0)), opened(1, at(0))),
        (replace(sealed(0, at(3), at(4)), end=at(2)),),
    ]:
        with pytest.raises(AssertionError):
            check_sequences(wrong)
