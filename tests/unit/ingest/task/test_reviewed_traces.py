"""PR-9's last sentence: an end raised to what was read, as task machine and publish executor live through it."""

from __future__ import annotations

import queue
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from ingest.clock import SystemClock
from ingest.offsets import OffsetMap
from ingest.protocol import (
    AllocateRequest,
    PendingSegment,
    PublishOutcome,
    PublishReply,
    PublishRequest,
    SealCommand,
    SequenceRecord,
    SequenceRef,
    SequenceState,
    StageRequest,
    TaskWelcome,
)
from ingest.stream.supplier import TopicRecreated
from ingest.task import messages as m
from ingest.task.machine import IndexTaskMachine
from ingest.task.ports import OverlordActions
from ingest.task.publishing import PublishExecutor, PublishPorts
from ingest.task.rows import Allocate, Merged, TaskRows
from segments.storage.base import DeepStorage


def sequence(number: int, start: int, end: int | None) -> SequenceRecord:
    state = SequenceState.OPEN if end is None else SequenceState.SEALED
    ends = None if end is None else OffsetMap({0: end})
    return SequenceRecord(SequenceRef("wiki", 1, number), OffsetMap({0: start}), OffsetMap({0: 0}), 1, 0, state, ends)


def started(*records: SequenceRecord) -> IndexTaskMachine:
    machine = IndexTaskMachine("token", m.TaskLimits())
    machine.handle(m.Started(0, TaskWelcome(1, records, {}, True), {}, {}))
    return machine


def test_after_its_end_was_raised_no_record_is_read_into_two_sequences() -> None:
    machine = started(sequence(0, 0, None))
    machine.handle(m.Read(1, 0, (m.Run(0, 0, 150),), m.Totals(rows=150)))
    told = machine.handle(m.CommandReceived(2, SealCommand(1, 1, (sequence(0, 0, 100), sequence(1, 100, None)))))
    assert any(isinstance(c, m.DropPast) for c in told)
    assert any(isinstance(c, m.RaiseEnd) for c in machine.handle(m.RereadImpossible(3, 0)))
    raised = machine.handle(m.EndRaised(4, SequenceRef("wiki", 1, 0), sequence(0, 0, 150)))
    assert m.AskSequences(0) in raised
    # What an overlord that has not heard of it tells again must not bring the old start back.
    machine.handle(m.CommandReceived(5, SealCommand(1, 2, (sequence(0, 0, 100), sequence(1, 100, None)))))
    machine.handle(m.SequencesAnswered(6, (sequence(0, 0, 150), sequence(1, 150, None))))
    assert not machine.finished
    assert machine.positions() == OffsetMap({0: 150})
    assert machine.open_sequence is not None and machine.open_sequence.record.start == OffsetMap({0: 150})


def test_a_task_says_that_it_is_behind_until_sealed_sequences_are_read() -> None:
    machine = started(sequence(0, 0, 100), sequence(1, 100, None))
    assert machine.view().behind
    machine.handle(m.Read(1, 0, (m.Run(0, 0, 100),), m.Totals(rows=100)))
    assert not machine.view().behind


class OneColumnRows:
    """Merges nothing; notes up to where."""

    def __init__(self) -> None:
        self.merged_to: list[OffsetMap | None] = []

    def merge(self, record: SequenceRecord, _allocate: Allocate) -> Merged:
        self.merged_to.append(record.end)
        if len(self.merged_to) > 2:
            raise RuntimeError("the disk spoke in tongues")
        return Merged((), 0, {}, 0, 0, OffsetMap())


class Answers:
    """Says TOO_EARLY first, as to a sequence whose end was raised meanwhile."""

    def __init__(self) -> None:
        self.requests: list[PublishRequest] = []

    def allocate(self, request: AllocateRequest) -> PendingSegment:
        raise AssertionError(request)

    def stage(self, request: StageRequest) -> None:
        raise AssertionError(request)

    def publish(self, request: PublishRequest) -> PublishReply:
        self.requests.append(request)
        return PublishReply(PublishOutcome.TOO_EARLY)


def running(
    prove_topic: Callable[[], None] = lambda: None,
) -> tuple[PublishExecutor, OneColumnRows, Answers, Callable[[], m.Event]]:
    rows, answers = OneColumnRows(), Answers()
    events: queue.SimpleQueue[Any] = queue.SimpleQueue()
    ports = PublishPorts(
        "token",
        cast(TaskRows, rows),
        cast(OverlordActions, answers),
        cast(DeepStorage, Path()),
        SystemClock(),
        events.put,
        prove_topic,
    )
    executor = PublishExecutor(ports)
    executor.start()
    return executor, rows, answers, lambda: events.get(timeout=10)


def test_files_of_the_shorter_range_are_not_published_for_the_raised_one() -> None:
    executor, rows, answers, event = running()
    for end in (100, 150):
        executor.submit(m.Publish(sequence(0, 0, end), again=end > 100))
        event()
    executor.stop(5)
    assert rows.merged_to == [OffsetMap({0: 100}), OffsetMap({0: 150})]
    assert [request.end for request in answers.requests] == [OffsetMap({0: 100}), OffsetMap({0: 150})]


def test_a_publish_that_breaks_is_answered_and_the_next_one_still_runs() -> None:
    executor, rows, _, event = running()
    rows.merged_to = [None, None]
    executor.submit(m.Publish(sequence(0, 0, 100), again=False))
    failed = event()
    assert isinstance(failed, m.PublishFailed) and "tongues" in failed.error
    executor.submit(m.Publish(sequence(1, 100, 200), again=False))
    assert replace(cast(m.PublishFailed, event()), now_ms=0).number == 1
    executor.stop(5)


def test_nothing_is_published_once_the_topic_was_made_again() -> None:
    def recreated() -> None:
        raise TopicRecreated("wiki", "old", "new")

    executor, _, answers, event = running(recreated)
    executor.submit(m.Publish(sequence(0, 0, 100), again=False))
    failed = event()
    executor.stop(5)
    assert isinstance(failed, m.PublishFailed) and "created again" in failed.error
    assert answers.requests == []
