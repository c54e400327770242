"""Which sequences of a task are live at a version."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ingest.protocol import PublishOutcome, PublishReply
from ingest.task import messages as m
from ingest.task.answering import live_sequences
from segments.live import LiveAsk, LiveStatus
from tests.unit.protocol.task_builder import Task, at, opened, sealed, starting


def asked(version: int, p0: int, p1: int = 0, epoch: int = 0) -> LiveAsk:
    return LiveAsk(version, 1, {0: p0, 1: p1}, {0: epoch, 1: epoch})


@pytest.fixture
def holding() -> Task:
    return hold_published()


def hold_published() -> Task:
    """Sequence 0 published at version 4 and held, sequence 1 open."""
    task = Task().start()
    task.read(0, 0, 0, 5, rows=5)
    task.pause()
    task.seal(sealed(0, at(0, 0), at(5, 0)), opened(1, at(5, 0)))
    task.handle(m.PublishEnded(0, 0, PublishReply(PublishOutcome.PUBLISHED, 4)))
    return task


@pytest.mark.parametrize(("version", "vector", "numbers"), [(3, 0, (0, 1)), (4, 5, (1,))])
def test_the_vector_alone_decides_what_is_live(
    holding: Task, version: int, vector: int, numbers: tuple[int, ...]
) -> None:
    assert live_sequences(holding.machine.view(), asked(version, vector)) == (LiveStatus.OK, numbers)


def test_below_what_was_dropped_it_is_too_old_never_less_rows(holding: Task) -> None:
    holding.beat(served=4)
    assert live_sequences(holding.machine.view(), asked(3, 0)) == (LiveStatus.TOO_OLD, ())
    assert live_sequences(holding.machine.view(), asked(4, 5)) == (LiveStatus.OK, (1,))


def test_another_epoch_of_live_rows_is_said_and_one_of_published_rows_is_not(holding: Task) -> None:
    assert live_sequences(holding.machine.view(), asked(4, 5, epoch=1)) == (LiveStatus.EPOCH, ())
    view = replace(holding.machine.view(), sequences=holding.machine.view().sequences[:1])
    assert live_sequences(view, asked(5, 5, epoch=1)) == (LiveStatus.OK, ())


def test_before_its_start_it_is_not_there() -> None:
    assert live_sequences(starting().machine.view(), asked(1, 0)) == (LiveStatus.NOT_THERE, ())
