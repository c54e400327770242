"""When a task asks for an end, how its pauses end, and what it does with an end it is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ingest.protocol import CheckpointAsk, PauseReport, SequenceState, TaskWelcome
from ingest.task import messages as m
from ingest.task.messages import TaskStatus as S
from tests.unit.protocol.task_builder import (
    Task,
    at,
    opened,
    paused_by_ask,
    paused_by_round,
    published,
    reading,
    ref,
    rewinding,
    sealed,
)


@pytest.mark.parametrize(
    ("totals", "reason"),
    [
        ({"rows": 100, "segment_rows": 100}, "rows"),
        ({"rows": 1_000, "segment_rows": 99}, "total_rows"),
        ({"rows": 1, "sequence_bytes": 1_000_000}, "bytes"),
        ({"rows": 1, "held_bytes": 10_000}, "disk"),
    ],
)
def test_a_limit_cuts_pauses_and_asks_in_this_order(totals: dict[str, int], reason: str) -> None:
    task = Task().start()
    commands = task.read(0, 0, 0, 4, **totals)
    assert commands == [m.Cut(0), m.AskCheckpoint(CheckpointAsk("token", ref(0), at(4, 0), reason))]
    assert task.machine.status() is S.PAUSED


def test_a_sequence_that_fills_the_disk_is_ended() -> None:
    task = Task().start()
    assert any(isinstance(c, m.AskCheckpoint) for c in task.read(0, 0, 0, 4, rows=1, held_bytes=10_000))


def test_the_period_ends_a_sequence_that_was_read_and_never_an_empty_one() -> None:
    task = Task().start()
    assert task.tick(60_000) == []
    task.read(0, 0, 0, 1, rows=1)
    assert isinstance(task.did[-1], m.AskCheckpoint) and task.did[-1].ask.reason == "period"


def test_the_ask_is_repeated_with_growing_distance() -> None:
    task = paused_by_ask()
    task.tick(999)
    assert not any(isinstance(c, m.AskCheckpoint) for c in task.did)
    task.tick(1)
    assert any(isinstance(c, m.AskCheckpoint) for c in task.did)
    task.tick(1_999)
    assert not any(isinstance(c, m.AskCheckpoint) for c in task.did)


def test_reading_does_not_wait_for_an_overlord_that_is_not_there() -> None:
    task = paused_by_ask()
    task.handle(m.CheckpointAnswered(task.now_ms, ref(0), None))
    assert task.did == [m.Cut(0)], "what is read now stays apart from what an end may be saved for"
    assert task.machine.status() is S.READING
    task.tick(999)
    assert task.machine.status() is S.READING
    task.tick(1)
    assert isinstance(task.did[-1], m.AskCheckpoint), "and it asks again"
    task.handle(m.CheckpointAnswered(task.now_ms, ref(0), None))
    task.tick(1_999)
    assert task.machine.status() is S.READING, "with growing distance"
    task.tick(1)
    assert isinstance(task.did[-1], m.AskCheckpoint)


def test_a_question_that_was_not_heard_ends_no_pause_of_a_round() -> None:
    task = paused_by_round()
    task.handle(m.CheckpointAnswered(task.now_ms, ref(0), None))
    assert task.machine.status() is S.PAUSED


def test_the_answer_to_its_ask_ends_the_pause_of_the_round_that_it_began() -> None:
    task = paused_by_ask()
    task.pause()  # another replica's ask began the round
    task.answered(0, sealed(0, at(0, 0), at(100, 0)), opened(1, at(100, 0)))
    assert task.machine.view().status is S.READING
    assert task.pause().refused is not None, "a late copy does not begin it again"


def test_an_answer_without_sequences_leaves_it_paused() -> None:
    task = paused_by_ask()
    task.answered(0)
    assert task.machine.status() is S.PAUSED


def test_an_answer_of_an_older_leader_is_not_taken() -> None:
    task = paused_by_round()
    task.machine.hear(7, 0)
    task.answered(0, sealed(0, at(0, 0), at(5, 0)))
    assert task.machine.sequences[0].is_open


def test_a_lease_that_ends_first_asks_what_was_saved_then_reads_on_apart() -> None:
    task = paused_by_round()
    assert task.tick(5_000) == [m.AskSequences(0)]
    assert task.machine.status() is S.PAUSED
    assert task.told(opened(0, at(0, 0))) == [m.Cut(0)]
    assert task.machine.status() is S.READING


def test_a_lease_that_ends_unanswered_reads_on_apart_all_the_same() -> None:
    task = paused_by_round()
    task.tick(5_000)
    task.handle(m.SequencesAnswered(task.now_ms, None))
    assert task.machine.status() is S.PAUSED
    assert task.tick(1_000) == [m.Cut(0)]
    assert task.machine.status() is S.READING


def test_a_lease_that_ends_after_the_save_learns_the_end() -> None:
    task = paused_by_round()
    task.tick(5_000)
    task.told(sealed(0, at(0, 0), at(5, 0)), opened(1, at(5, 0)))
    assert [window.number for window in task.machine.windows()] == [1]
    assert task.machine.status() is S.READING


def test_after_a_lapsed_ask_it_does_not_ask_again_at_once() -> None:
    task = paused_by_ask()
    task.tick(3_000)
    task.tick(1_000)
    assert task.machine.status() is S.READING
    assert not any(isinstance(c, m.AskCheckpoint) for c in task.tick(100))
    task.tick(4_000)
    assert any(isinstance(c, m.AskCheckpoint) for c in task.did)


def test_a_repeated_pause_gets_the_same_report() -> None:
    task = reading()
    first, second = task.pause(), task.pause()
    assert first.report == second.report == PauseReport(1, 0, at(5, 0))


def test_a_late_copy_of_a_pause_that_is_over_does_not_begin_it_again() -> None:
    task = paused_by_round()
    task.seal(sealed(0, at(0, 0), at(5, 0)), opened(1, at(5, 0)))
    assert task.pause().refused is not None
    assert task.machine.status() is S.READING


def test_a_late_seal_of_an_older_round_does_not_end_a_newer_pause() -> None:
    task = paused_by_round()
    task.seal(sealed(0, at(0, 0), at(5, 0)), opened(1, at(5, 0)))
    task.pause(round_number=2)
    reply = task.seal(sealed(0, at(0, 0), at(5, 0)), opened(1, at(5, 0)), round_number=1)
    assert reply.refused is None
    assert task.machine.status() is S.PAUSED


def test_a_seal_of_a_newer_leader_ends_every_older_pause() -> None:
    task = paused_by_round()
    task.seal(opened(0, at(0, 0)), generation=2, round_number=0)
    assert task.machine.status() is S.READING


def test_told_an_end_ahead_it_reads_on_to_it_before_the_next() -> None:
    task = paused_by_round()
    task.seal(sealed(0, at(0, 0), at(8, 2)), opened(1, at(8, 2)))
    assert task.machine.windows() == (m.ReadWindow(0, at(8, 2)), m.ReadWindow(1, None))
    assert task.machine.positions() == at(5, 0)
    task.read(0, 0, 5, 8)
    task.read(1, 0, 8, 9)  # partition 0 is done with sequence 0, partition 1 is not
    with pytest.raises(AssertionError, match="TK-1"):
        task.read(1, 1, 2, 3)


def test_told_an_end_below_its_position_it_drops_and_seeks_and_does_not_read_meanwhile() -> None:
    task = rewinding()
    assert m.DropPast(0, at(3, 0)) in task.did
    assert not task.machine.is_reading
    assert task.pause(round_number=2).refused is not None
    commands = task.handle(m.Dropped(0, 0, at(2, 0)))
    assert commands == [m.Seek(at(2, 0))]
    assert task.machine.windows()[0] == m.ReadWindow(0, at(3, 0))


def test_a_drop_may_not_end_past_the_end_or_before_the_start() -> None:
    with pytest.raises(AssertionError):
        rewinding().handle(m.Dropped(0, 0, at(4, 0)))


def test_what_cannot_be_read_again_raises_the_end() -> None:
    task = rewinding()
    assert task.handle(m.RereadImpossible(0, 0)) == [m.RaiseEnd(ref(0), at(5, 0))]
    task.handle(m.EndRaised(0, ref(0), sealed(0, at(0, 0), at(5, 0))))
    assert m.Seek(at(5, 0)) in task.did and m.Discard(1) in task.did and m.AskSequences(0) in task.did
    task.told(sealed(0, at(0, 0), at(5, 0)), opened(1, at(5, 0)))
    assert task.machine.status() is S.READING


def test_an_end_that_cannot_be_raised_ends_the_attempt() -> None:
    task = rewinding()
    task.handle(m.RereadImpossible(0, 0))
    task.handle(m.EndRaised(0, ref(0), None))
    assert isinstance(task.did[0], m.Finish) and not task.did[0].succeeded


def test_a_raised_end_extends_a_sequence_whose_successor_is_unread() -> None:
    task = paused_by_round()
    task.seal(sealed(0, at(0, 0), at(5, 0)), opened(1, at(5, 0)))
    task.machine.sequences[0].phase = type(task.machine.sequences[0].phase).COMPLETE
    task.seal(sealed(0, at(0, 0), at(9, 0)), opened(1, at(9, 0)), round_number=2)
    assert m.Discard(1) in task.did
    assert task.machine.windows() == (m.ReadWindow(0, at(9, 0)), m.ReadWindow(1, None))


def test_an_older_copy_of_an_end_never_lowers_it() -> None:
    task = paused_by_round()
    task.seal(sealed(0, at(0, 0), at(9, 0)), opened(1, at(9, 0)))
    task.seal(sealed(0, at(0, 0), at(5, 0)))
    assert task.machine.sequences[0].record.end == at(9, 0)


def test_a_successor_without_its_predecessors_end_is_asked_for_and_not_taken() -> None:
    task = paused_by_round()
    task.seal(opened(1, at(5, 0)))
    assert m.AskSequences(0) in task.did
    assert 1 not in task.machine.sequences
    task.told(sealed(0, at(0, 0), at(5, 0)), sealed(1, at(5, 0), at(5, 0)), opened(2, at(5, 0)))
    assert task.machine.last_number == 2


def test_a_sequence_closed_empty_is_discarded_and_never_published() -> None:
    task = Task().start()
    task.pause()
    task.seal(sealed(0, at(0, 0), at(0, 0)), opened(1, at(0, 0)))
    assert m.Discard(0) in task.did
    assert not any(isinstance(c, m.Publish) for c in task.did)


def test_a_void_sequence_takes_all_later_ones_along_and_ends_the_attempt() -> None:
    task = paused_by_round()
    task.seal(sealed(0, at(0, 0), at(9, 0)), opened(1, at(9, 0)))
    task.told(replace(opened(0, at(0, 0)), state=SequenceState.VOID))
    assert [c for c in task.did if isinstance(c, m.Discard)] == [m.Discard(0), m.Discard(1)]
    assert task.did[-1] == m.Finish(True, None)


def test_below_the_log_start_it_withdraws_and_an_old_notice_is_ignored() -> None:
    task = reading()
    assert task.handle(m.BelowLogStart(0, 0, 3, 4)) == []
    [finish] = task.handle(m.BelowLogStart(0, 0, 5, 7))
    assert isinstance(finish, m.Finish) and "below the log start 7" in str(finish.error)


def test_restored_rows_past_a_saved_end_are_dropped_before_anything_is_read() -> None:
    task = Task().start(sealed(0, at(0, 0), at(3, 0)), opened(1, at(3, 0)), restored={0: at(5, 0)})
    assert task.did[-1] == m.DropPast(0, at(3, 0))
    assert not task.machine.is_reading


def test_restored_rows_of_a_sequence_whose_predecessor_was_not_restored_are_dropped() -> None:
    task = Task().start(sealed(0, at(0, 0), at(3, 0)), opened(1, at(3, 0)), restored={1: at(6, 0)})
    assert m.DropPast(1, at(3, 0)) in task.did


def test_restored_sequences_the_welcome_does_not_name_are_asked_for_first() -> None:
    task = Task().start(opened(1, at(3, 0)), restored={0: at(3, 0), 1: at(4, 0)})
    assert task.did == [m.AskSequences(0)] and task.machine.status() is S.STARTING
    task.tick(1_000)
    assert m.AskSequences(0) in task.did
    task.told(published(0, at(0, 0), at(3, 0), version=8), opened(1, at(3, 0)))
    assert task.machine.positions() == at(4, 0)
    assert task.machine.sequences[0].version == 8
    task.beat(served=8)
    assert m.Drop(0, 8) in task.did


def test_restored_rows_of_an_unknown_sequence_are_discarded() -> None:
    task = Task().start(opened(3, at(3, 0)), restored={5: at(9, 0)})
    assert m.Discard(5) in task.did


def test_a_task_of_a_group_with_nothing_unpublished_ends_at_once() -> None:
    task = Task()
    task.handle(m.Started(0, TaskWelcome(1, (), {}, False), {}))
    assert m.Finish(True, None) in task.did
