"""The stream port over several Kafka topics: one consumer and one admin client, however many topics there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from itertools import repeat
from typing import Any, cast

from confluent_kafka import Message

from ingest.clock import Clock, SystemClock
from ingest.errors import StreamError
from ingest.protocol import Place, Source, join_ids, split_ids
from ingest.stream.kafka import KafkaReader
from ingest.stream.kafka_asker import KafkaAsker
from ingest.stream.supplier import Poll, TopicMissing, TopicRecreated
from ingest.stream.topic_watch import TopicWatch
from ingest.stream.topics import Naming, NumberedTopics, Observing

_topic_of = cast("Callable[[Message], str]", Message.topic)
_partition_of = cast("Callable[[Message], int]", Message.partition)
# What an answer to the same question takes, once the first of its topics is there.
_SOON_S = 0.005


class _Pass:
    """The time and the question of one poll: topics that ask in it ask together, as of one moment."""

    def __init__(self, asker: KafkaAsker, clock: Clock) -> None:
        self._asker = asker
        self._clock = clock
        self._ms = 0
        self._answers: dict[str, Future[Any]] = {}

    def begin(self) -> None:
        self._ms, self._answers = self._clock.monotonic_ms(), {}

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def monotonic_ms(self) -> int:
        return self._ms

    def ask(self, topic: str, topics: Iterable[str]) -> Future[Any]:
        if topic not in self._answers:
            self._answers = self._asker.describe(list(topics))
        return self._answers[topic]


class KafkaTopicsSupplier(NumberedTopics, KafkaReader):
    """`RecordSupplier` of known ``places``. For one thread, but `topic_id` may be asked from another one.

    A topic that is gone or was made again is not read on, and the others are; its error is raised where none of them
    has anything.
    """

    def __init__(
        self,
        places: Iterable[Place],
        topic_id: str | None,
        config: Mapping[str, str | int | bool],
        *,
        columns: Iterable[str] = ("timestamps",),
        named: str = "topics",
        request_timeout_ms: int = 10_000,
    ) -> None:
        NumberedTopics.__init__(self, places)
        KafkaReader.__init__(self, config, frozenset(columns), KafkaAsker(config, named, request_timeout_ms))
        self._ids = split_ids(topic_id)
        self._clock = SystemClock()
        self._pass = _Pass(self._asker, self._clock)
        self._watches: dict[str, TopicWatch] = {}
        self._fault: StreamError | None = None  # of this poll: told where nothing else is

    def _source(self, number: int) -> Source:
        place = self._places[number]
        return place.topic, place.partition

    def _numbers_of(self, messages: list[Message]) -> list[int]:
        sources = zip(map(_topic_of, messages), map(_partition_of, messages), strict=True)
        return list(map(self._numbers.get, sources, repeat(-1)))

    def assign(self, positions: Mapping[int, int]) -> None:
        wanted = self._by_topic(positions)
        self._watches = {topic: self._watches.get(topic) or self._watch(topic) for topic in wanted}
        super().assign(positions)

    def _watch(self, topic: str) -> TopicWatch:
        def ask() -> Future[Any]:
            return self._pass.ask(topic, self._watches)

        def answer(found: Future[Any]) -> str | None:
            return self._asker.id_of(found, topic)

        return TopicWatch(topic, self._ids.get(topic), ask, answer, self._pass)

    def poll(self, max_records: int, timeout_ms: int) -> list[Poll]:
        if not self._positions:
            return []
        self._fault = None
        found = super().poll(max_records, timeout_ms)
        if not found and self._fault is not None:
            raise self._fault
        return [replace(poll, source=self._source(poll.partition)) for poll in found]

    def _proves(self, timeout_s: float) -> bool:
        """Of each topic by itself: one without a proof for the moment holds all back, one with a fault only itself."""
        self._pass.begin()
        end_ms = self._clock.monotonic_ms() + timeout_s * 1000
        faults: dict[str, StreamError] = {}
        waiting = False
        for topic, watch in self._watches.items():
            left_s = (end_ms - self._clock.monotonic_ms()) / 1000
            try:
                waiting = not watch.proves(max(left_s, _SOON_S)) or waiting
            except StreamError as error:
                faults[topic] = error
        if waiting:
            return False
        self._block({n for n in self._positions if self._places[n].topic in faults})
        self._fault = next(iter(faults.values()), None)
        return True

    def topic_id(self) -> str | None:
        """The ids of the topics of these places: of those that are read as given, else as found.

        Raises:
            TopicRecreated: one of them is not the incarnation that is read.
        """
        topics = sorted({place.topic for place in self._places.values()})
        found = self._ids_of(topics)
        for topic, id_ in found.items():
            expected = self._ids.get(topic, id_)
            if id_ != expected:
                raise TopicRecreated(topic, expected, id_)
        return join_ids({**self._ids, **found})

    def _ids_of(self, topics: Iterable[str]) -> dict[str, str]:
        """Of those that are there, and have one."""
        wanted = list(topics)
        found: dict[str, str] = {}
        for topic, answer in self._asker.describe(wanted).items() if wanted else ():
            try:
                id_ = self._asker.id_of(answer, topic)
            except TopicMissing:
                continue  # what was read of it is what it was
            found |= {} if id_ is None else {topic: id_}
        return found

    def close(self) -> None:
        for watch in self._watches.values():
            watch.close()
        self._watches = {}
        super().close()


class KafkaTopicsObserver(Observing, KafkaTopicsSupplier):
    """A supervisor's supplier: it also finds the topics that match, and has their partitions numbered."""

    def __init__(
        self,
        pattern: str,
        naming: Naming,
        config: Mapping[str, str | int | bool],
        *,
        columns: Iterable[str] = ("timestamps",),
        request_timeout_ms: int = 10_000,
    ) -> None:
        self._listed: dict[str, list[int]] = {}
        KafkaTopicsSupplier.__init__(
            self, (), None, config, columns=columns, named=pattern, request_timeout_ms=request_timeout_ms
        )
        Observing.__init__(self, pattern, self._list_topics, naming)

    def _list_topics(self) -> list[str]:
        self._listed = self._asker.topics()
        return list(self._listed)

    def _look(self, topics: list[str]) -> tuple[list[Source], dict[str, str]]:
        sources = [(topic, partition) for topic in topics for partition in self._listed[topic]]
        return sources, self._ids_of(topics)
