"""What a task has to ask of its overlord waits once, however long nobody answers."""

from __future__ import annotations

import threading

from ingest.offsets import OffsetMap
from ingest.protocol import CheckpointAsk, SequenceRef
from ingest.task.asking import Questions
from ingest.task.messages import AskCheckpoint, AskSequences, RaiseEnd

REF = SequenceRef("s", 1, 3)


def ask(offset: int, number: int = 3) -> AskCheckpoint:
    return AskCheckpoint(CheckpointAsk("token", SequenceRef("s", 1, number), OffsetMap({0: offset}), "rows"))


def test_an_hour_of_the_same_questions_is_asked_once_in_the_order_of_their_first_time() -> None:
    questions = Questions()
    for second in range(3_600):
        questions.put(AskSequences(3))
        questions.put(ask(second))
        questions.put(RaiseEnd(REF, OffsetMap({0: 9})))
        questions.put(AskSequences(4))
    expected = [AskSequences(3), ask(3_599), RaiseEnd(REF, OffsetMap({0: 9})), AskSequences(4)]
    assert [questions.take() for _ in expected] == expected
    questions.put(AskSequences(3))
    assert questions.take() == AskSequences(3), "what was asked before may be asked again"


def test_checkpoints_of_two_sequences_are_two_questions() -> None:
    questions = Questions()
    questions.put(ask(5))
    questions.put(ask(9, number=4))
    assert [questions.take(), questions.take()] == [ask(5), ask(9, number=4)]


def test_nothing_is_asked_once_nobody_needs_answers() -> None:
    questions, taken = Questions(), []
    waiting = threading.Thread(target=lambda: taken.append(questions.take()))
    waiting.start()
    questions.close()
    waiting.join(10)
    questions.put(AskSequences(1))
    assert taken == [None] and questions.take() is None
