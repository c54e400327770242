"""When records may be taken: only beside a fresh proof that the topic is still the same one."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest

from ingest.clock import ManualClock
from ingest.stream.supplier import BrokerUnreachable, TopicRecreated
from ingest.stream.topic_watch import PROOF_MS, WATCH_MS, TopicWatch


class Broker:
    """Answers when it is told to; ``asked`` are the questions on their way."""

    def __init__(self, answers_at_once: bool = True) -> None:
        self.clock = ManualClock()
        self.answers_at_once = answers_at_once
        self.topic_id: str | None = "old"
        self.away = False
        self.asked: list[Future[Any]] = []
        self.watch = TopicWatch("edits", "old", self._ask, self._read, self.clock)

    def _ask(self) -> Future[Any]:
        self.asked.append(Future())
        if self.answers_at_once:
            self.answer()
        return self.asked[-1]

    def answer(self) -> None:
        for future in self.asked:
            if not future.done():
                future.set_result(self.topic_id)

    def _read(self, asked: Future[Any]) -> str | None:
        if self.away:
            raise BrokerUnreachable("b:9092", "no answer")
        found: str | None = asked.result()
        return found

    def proves(self, after_ms: int = 0) -> bool:
        self.clock.advance(after_ms)
        return self.watch.proves(0.0)


def test_before_the_first_record_it_waits_for_the_answer() -> None:
    broker = Broker(answers_at_once=False)
    assert not broker.proves()
    assert not broker.proves(100)
    broker.answer()
    assert broker.proves(100)
    assert len(broker.asked) == 1


def test_caught_up_it_asks_once_a_second_and_does_not_wait() -> None:
    broker = Broker()
    assert broker.proves()
    broker.answers_at_once = False
    assert all(broker.proves(WATCH_MS // 10) for _ in range(15))
    assert len(broker.asked) == 2


def test_an_unanswered_question_stops_the_reading_once_the_last_proof_is_old() -> None:
    broker = Broker()
    assert broker.proves()
    broker.answers_at_once = False
    proved = [broker.proves(500) for _ in range(PROOF_MS // 500)]
    assert proved == [True] * (PROOF_MS // 500 - 1) + [False]


def test_after_a_standstill_an_earlier_answer_proves_nothing() -> None:
    broker = Broker(answers_at_once=False)
    broker.proves()
    broker.answer()
    broker.topic_id = "new"
    assert not broker.proves(PROOF_MS)
    broker.answer()
    with pytest.raises(TopicRecreated):
        broker.proves()


def test_another_id_is_told_for_ever() -> None:
    broker = Broker()
    broker.topic_id = "new"
    for _ in range(2):
        with pytest.raises(TopicRecreated, match="edits"):
            broker.proves(WATCH_MS)
    assert len(broker.asked) == 1


def test_a_broker_that_goes_away_is_told_of_once_the_last_proof_is_old() -> None:
    broker = Broker()
    assert broker.proves()
    broker.away = True
    assert broker.proves(WATCH_MS)
    assert broker.proves(WATCH_MS)
    with pytest.raises(BrokerUnreachable):
        broker.proves(WATCH_MS)


def test_where_no_id_is_known_nothing_is_waited_for() -> None:
    broker = Broker(answers_at_once=False)
    broker.watch = TopicWatch("edits", None, broker._ask, broker._read, broker.clock)
    assert broker.proves()
    broker.answer()
    assert broker.proves(WATCH_MS)
    broker.topic_id = "new"
    assert broker.proves(WATCH_MS)
    broker.answer()
    with pytest.raises(TopicRecreated):
        broker.proves(WATCH_MS)


def test_a_broker_without_ids_proves_as_much_as_it_can() -> None:
    broker = Broker()
    broker.topic_id = None
    broker.watch = TopicWatch("edits", None, broker._ask, broker._read, broker.clock)
    assert broker.proves()


def test_while_nothing_is_answered_the_reason_is_told_at_every_call() -> None:
    broker = Broker()
    broker.away = True
    with pytest.raises(BrokerUnreachable):
        broker.proves()
    broker.answers_at_once = False
    for _ in range(3):
        with pytest.raises(BrokerUnreachable, match="no answer"):
            broker.proves(100)
    broker.away = False
    broker.answer()
    assert broker.proves(100)
