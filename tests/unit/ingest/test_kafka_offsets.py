"""Offsets as brokers tell them, and as they do not while they come and go."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from ingest.clock import ManualClock
from ingest.protocol import Source
from ingest.stream import kafka_asker
from ingest.stream.kafka_asker import EARLIEST, KafkaAsker
from ingest.stream.kafka_cluster import FRESH_MS, ClusterLook
from ingest.stream.supplier import BrokerUnreachable, CallUnanswered


def _cluster(controller: int, *brokers: int, leaders: tuple[int, ...] = ()) -> SimpleNamespace:
    """As the client's ``ClusterMetadata``."""
    partitions = {number: SimpleNamespace(leader=leader) for number, leader in enumerate(leaders)}
    return SimpleNamespace(
        controller_id=controller,
        brokers={number: SimpleNamespace(host="b", port=9092) for number in brokers},
        topics={"edits": SimpleNamespace(partitions=partitions)} if leaders else {},
    )


FENCED, HEADLESS = _cluster(-1), _cluster(-1, 1)
LEADERLESS, WELL = _cluster(1, 1, leaders=(1, -1)), _cluster(1, 1, leaders=(1, 1))


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        (FENCED, ["fenced", "may still arrive", "log"]),
        (HEADLESS, ["1 broker it names", "no controller"]),
        (LEADERLESS, ["1 of the 2 partitions of 'edits' have no leader (1)"]),
        (WELL, ["1 broker with controller 1 at b:9092", "too busy"]),
    ],
)
def test_a_call_without_an_answer_is_told_with_what_the_cluster_says_of_itself(metadata: Any, words: list[str]) -> None:
    asker = KafkaAsker({"bootstrap.servers": "b:9092", "log_level": 0}, "edits")
    asker._look = ClusterLook(lambda timeout_s: metadata, ManualClock(), 5)
    unanswered: Future[Any] = Future()
    unanswered.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT, "Failed while waiting for controller")))
    with pytest.raises(CallUnanswered) as caught:
        asker.id_of(unanswered)
    told = str(caught.value)
    assert "no Kafka broker answers" not in told
    for word in ("Kafka at b:9092 answers, but not", "topic's id", "waiting for controller", "nothing is lost", *words):
        assert word in told


def test_where_nobody_answers_anything_that_is_said_and_an_older_look_proves_nothing() -> None:
    clock = ManualClock()
    answers: list[Any] = [WELL]

    def ask(timeout_s: float) -> Any:
        if not answers:
            raise BrokerUnreachable("b:9092", "nobody")
        return answers.pop()

    look = ClusterLook(ask, clock, 5)
    assert look.told("edits") is not None
    assert look.told("edits") is None

    released = threading.Event()

    def slow(timeout_s: float) -> Any:
        released.wait(5)
        return WELL

    look = ClusterLook(slow, clock, 0)
    assert look.told("edits") == "", "who reads does not wait for it"
    asker = KafkaAsker({"bootstrap.servers": "b:9092", "log_level": 0}, "edits")
    asker._look = look
    told = str(asker.error(KafkaError(KafkaError._TIMED_OUT), call="the question"))
    assert "Kafka at b:9092 has not answered the question (_TIMED_OUT" in told and "is being looked at" in told
    released.set()
    assert look._looking is not None
    look._looking.join(5)
    clock.advance(FRESH_MS + 1)
    released.clear()
    assert look.told("edits") == "", "what was seen before the present trouble is not told"
    released.set()


BOTH = [("edits", 0), ("edits", 1)]


class Asked(KafkaAsker):
    """Its brokers' answers are scripted by partition, the last one stays."""

    def __init__(self, *answers: tuple[int, int]) -> None:
        super().__init__({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}, "edits")
        self.answers = list(answers)

    def _list_offsets(self, wanted: Iterable[Source], spec: Any, isolation: Any) -> dict[Source, int]:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return {source: answer[source[1]] for source in wanted}


def test_an_offset_that_is_none_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_asker, "_LEADER_WAIT_S", 0.0)
    asker = Asked((-1001, 7), (4, -1), (4, 7))
    assert asker.offsets(BOTH, EARLIEST) == dict(zip(BOTH, (4, 7), strict=True))


def test_an_offset_that_stays_unknown_is_no_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_asker, "_LEADER_WAIT_S", 0.0)
    with pytest.raises(BrokerUnreachable, match="no offset is known of partition 1"):
        Asked((4, -1001)).offsets(BOTH, EARLIEST)
