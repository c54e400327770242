"""Who publishes what and when, what every outcome leads to, and when rows are dropped."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ingest.protocol import CommitterCommand, PublishOutcome, PublishReply, SequenceState, StopCommand
from ingest.task import messages as m
from ingest.task.messages import TaskStatus as S
from ingest.task.sequence import SequencePhase
from tests.unit.protocol.task_builder import LIMITS, Task, at, opened, published, reading, sealed, stopping

FIRST = sealed(0, at(0, 0), at(5, 0))
SECOND = sealed(1, at(5, 0), at(8, 0))
OPEN = opened(1, at(5, 0))


def complete(committer: bool = True) -> Task:
    """Sequence 0 is read to its told end."""
    task = Task(committer).start()
    task.read(0, 0, 0, 5, rows=5, sequence_bytes=50, held_bytes=50)
    task.pause()
    task.seal(FIRST, OPEN)
    return task


def ended(task: Task, outcome: PublishOutcome, number: int = 0, version: int = 0) -> list[m.Command]:
    return task.handle(m.PublishEnded(task.now_ms, number, PublishReply(outcome, version)))


def test_a_complete_sequence_is_published_once_by_the_committer() -> None:
    task = complete()
    assert m.Publish(FIRST, again=False) in task.did
    assert not any(isinstance(c, m.Publish) for c in task.tick(10_000))


def test_another_replica_keeps_its_rows_and_asks_what_became_of_them() -> None:
    task = complete(committer=False)
    assert not any(isinstance(c, m.Publish) for c in task.did)
    assert m.AskSequences(0) in task.did
    task.told(published(0, at(0, 0), at(5, 0), 7), OPEN)
    assert task.machine.sequences[0].phase is SequencePhase.PUBLISHED
    assert task.beat(served=6) == []
    assert m.Drop(0, 7) in task.beat(served=7)


@pytest.mark.parametrize("by_command", [True, False])
def test_made_committer_it_takes_over_what_is_complete(by_command: bool) -> None:
    task = complete(committer=False)
    if by_command:
        task.command(CommitterCommand(1, True))
    else:
        task.beat(committer=True)
    assert m.Publish(FIRST, again=False) in task.did


def test_the_second_is_published_only_after_the_first() -> None:
    task = complete()
    task.pause(round_number=2)
    task.seal(SECOND, opened(2, at(8, 0)), round_number=2)
    task.read(1, 0, 5, 8)
    assert not any(isinstance(c, m.Publish) for c in task.did)
    ended(task, PublishOutcome.PUBLISHED, version=3)
    assert m.Publish(SECOND, again=False) in task.did


@pytest.mark.parametrize(
    ("outcome", "again"),
    [
        (PublishOutcome.TOO_EARLY, True),
        (PublishOutcome.UNKNOWN, True),
        (PublishOutcome.RESTAGE, False),
        (PublishOutcome.CONFLICT, True),
    ],
)
def test_an_outcome_that_is_no_end_is_tried_again_but_not_at_once(outcome: PublishOutcome, again: bool) -> None:
    task = complete()
    assert not any(isinstance(c, m.Publish) for c in ended(task, outcome))
    assert not any(isinstance(c, m.Publish) for c in task.tick(99))
    assert m.Publish(FIRST, again=again) in task.tick(1)
    ended(task, outcome)
    assert not any(isinstance(c, m.Publish) for c in task.tick(199))
    assert m.Publish(FIRST, again=again) in task.tick(1)


def test_a_failed_upload_starts_on_new_paths_and_asks_whether_another_was_faster() -> None:
    task = complete()
    commands = task.handle(m.PublishFailed(0, 0, "disk"))
    assert m.AskSequences(0) in commands
    assert m.Publish(FIRST, again=False) in task.tick(100)


@pytest.mark.parametrize("outcome", [PublishOutcome.PUBLISHED, PublishOutcome.ALREADY])
def test_success_holds_the_rows_until_every_query_node_has_the_version(outcome: PublishOutcome) -> None:
    task = complete()
    ended(task, outcome, version=9)
    assert not any(isinstance(c, m.Drop) for c in task.beat(served=8))
    assert task.beat(served=9) == [m.Drop(0, 9)]
    assert task.machine.dropped_through == 9


def test_acknowledged_versions_never_go_back() -> None:
    task = complete()
    task.beat(served=9)
    task.beat(served=2)
    ended(task, PublishOutcome.PUBLISHED, version=5)
    assert m.Drop(0, 5) in task.did


def test_a_conflict_asks_and_waits_for_the_voiding() -> None:
    task = complete()
    assert m.AskSequences(0) in ended(task, PublishOutcome.CONFLICT)
    assert not task.machine.finished


def test_fenced_ends_the_attempt() -> None:
    assert isinstance(ended(complete(), PublishOutcome.FENCED)[0], m.Finish)


def test_an_outcome_of_a_sequence_that_is_not_being_published_changes_nothing() -> None:
    task = complete(committer=False)
    assert ended(task, PublishOutcome.PUBLISHED, version=3) == []
    assert ended(task, PublishOutcome.PUBLISHED, number=7, version=3) == []
    assert task.machine.sequences[0].phase is SequencePhase.COMPLETE


def test_unacknowledged_sequences_beyond_their_share_are_dropped_oldest_first() -> None:
    task = Task(limits=replace(LIMITS, held_bytes_max=100)).start()
    task.read(0, 0, 0, 5, rows=5, sequence_bytes=60, held_bytes=60)
    task.pause()
    task.seal(FIRST, OPEN)
    ended(task, PublishOutcome.PUBLISHED, version=4)
    assert m.Drop(0, 4) in task.did
    assert task.machine.dropped_through == 4


def test_a_lagging_replica_skips_the_rest_of_what_another_published() -> None:
    task = reading()
    task.told(published(0, at(0, 0), at(9, 4), 3), opened(1, at(9, 4)))
    assert m.Discard(0) in task.did and task.did[-1] == m.Seek(at(9, 4))
    assert task.machine.dropped_through == 3


def test_what_comes_before_a_published_sequence_counts_as_published() -> None:
    task = reading()
    task.told(sealed(0, at(0, 0), at(7, 0)), published(1, at(7, 0), at(9, 4), 3), opened(2, at(9, 4)))
    assert task.machine.positions() == at(9, 4)
    assert 0 not in task.machine.sequences


def test_under_pressure_a_told_end_is_read_up_to_and_the_open_sequence_waits() -> None:
    task = reading()
    task.read(0, 0, 5, 6, rows=6, held_bytes=10_000)
    task.answered(0, sealed(0, at(0, 0), at(8, 0)), opened(1, at(8, 0)))
    assert task.machine.windows() == (m.ReadWindow(0, at(8, 0)),)
    task.read(0, 0, 6, 8, held_bytes=10_000)
    assert task.machine.status() is S.BACK_PRESSURE
    task.handle(m.SpaceFreed(0, 500))
    assert task.machine.status() is S.READING


def test_at_the_disks_reserve_a_told_end_is_read_up_to_and_the_open_sequence_waits() -> None:
    task = reading()
    task.read(0, 0, 5, 6, rows=6, held_bytes=60)
    task.answered(0, sealed(0, at(0, 0), at(8, 0)), opened(1, at(8, 0)))
    task.handle(m.DiskScarce(0, True))
    assert task.machine.windows() == (m.ReadWindow(0, at(8, 0)),)
    task.read(0, 0, 6, 8, held_bytes=80)
    assert task.machine.status() is S.BACK_PRESSURE
    task.handle(m.DiskScarce(0, False))
    assert task.machine.status() is S.READING


def test_a_graceful_stop_seals_publishes_hands_off_and_ends_well() -> None:
    task = stopping()
    assert [window.number for window in task.machine.windows()] == [0]
    task.read(0, 0, 5, 7)
    ended(task, PublishOutcome.PUBLISHED, version=3)
    assert not task.machine.finished
    assert task.beat(served=3) == [m.Drop(0, 3), m.Finish(True, None)]


def test_a_graceful_stop_with_nothing_read_ends_at_once() -> None:
    task = Task().start()
    task.command(StopCommand(1, True, "drain"))
    assert task.did[-1] == m.Finish(True, None)


def test_told_to_stop_short_of_a_saved_end_it_asks_what_became_of_it_and_ends_when_that_is_void() -> None:
    task = reading()  # up to 5; the rest of the topic is gone for ever
    task.pause()
    task.seal(sealed(0, at(0, 0), at(9, 0), released=True))
    assert m.AskSequences(0) not in task.did, "its supervisor tells it, as long as it has one"
    task.command(StopCommand(1, True, "nothing left to read"))
    assert m.AskSequences(0) in [*task.did, *task.tick(1_000)]
    assert m.AskSequences(0) in task.tick(1_000), "again and again"
    task.told(sealed(0, at(0, 0), at(9, 0), released=True, state=SequenceState.VOID))
    assert task.did[-1] == m.Finish(True, None)


def test_released_and_handed_off_it_ends_well() -> None:
    task = reading()
    task.seal(sealed(0, at(0, 0), at(5, 0), released=True))
    ended(task, PublishOutcome.PUBLISHED, version=3)
    assert task.beat(served=3) == [m.Drop(0, 3), m.Finish(True, None)]
