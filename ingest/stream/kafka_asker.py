"""Questions to a Kafka cluster: offsets, partitions and ids of topics, by one admin client."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka import admin as kafka_admin
from confluent_kafka.admin import AdminClient

from ingest.clock import SystemClock
from ingest.errors import StreamError
from ingest.protocol import Source
from ingest.stream.kafka_cluster import ClusterLook
from ingest.stream.properties import asking
from ingest.stream.refusals import AWAY, LEADERLESS, REFUSED, meaning
from ingest.stream.supplier import AuthenticationRefused, BrokerUnreachable, CallUnanswered, TopicMissing

OFFSETS = "the question where partitions begin and end (ListOffsets)"
TOPIC_IDS = "the question for the topic's id (DescribeTopics), without which no record is taken"
_LEADER_ROUNDS = 40
_LEADER_WAIT_S = 0.1

T = TypeVar("T")

client_log = logging.getLogger("ingest.stream.kafka")  # what librdkafka itself has to say

# The client leaves these without types.
_SPECS: Any = kafka_admin
EARLIEST: Any = _SPECS.OffsetSpec.earliest()
LATEST: Any = _SPECS.OffsetSpec.latest()


class KafkaAsker:
    """See the module. Connects on first use; its questions may be asked from any thread.

    ``named`` is what errors call the topic where they are about the cluster. ``troubles`` are errors that came
    beside an answer; whoever reads takes them out.
    """

    def __init__(self, config: Mapping[str, str | int | bool], named: str, request_timeout_ms: int = 10_000) -> None:
        self._config = dict(config)
        self._named_topic = named
        self.bootstrap = str(config.get("bootstrap.servers", ""))
        self._request_s = request_timeout_ms / 1000
        self._lock = threading.Lock()
        self._admin: AdminClient | None = None
        self.troubles: list[StreamError] = []
        self._look = ClusterLook(self._metadata, SystemClock())

    def offsets(
        self, wanted: Collection[Source], spec: Any, isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    ) -> dict[Source, int]:
        """In one request to each broker; waits for leaders that are being elected."""
        if not wanted:
            return {}
        for _ in range(_LEADER_ROUNDS):
            try:
                found = self._list_offsets(wanted, spec, isolation)
            except KafkaException as e:
                error = e.args[0]
                if error.name() not in LEADERLESS:
                    raise self.error(error, call=OFFSETS) from e
                self._check_presence(wanted)
                missing = error.str()
            else:
                # The client passes on "no offset" (-1001, -1) while brokers of the partition come and go.
                unknown = [partition for (_, partition), offset in found.items() if offset < 0]
                if not unknown:
                    return found
                missing = f"no offset is known of partition {min(unknown)}"
            self._client().poll(_LEADER_WAIT_S)
        told = self._look.told(next(iter(wanted))[0])
        if told is None:
            raise BrokerUnreachable(self.bootstrap, f"a partition has no leader: {missing}")
        raise CallUnanswered(self.bootstrap, OFFSETS, f"a partition has no leader: {missing}", told)

    def _check_presence(self, wanted: Collection[Source]) -> None:
        there = {topic: self.partitions(topic) for topic in {topic for topic, _ in wanted}}
        for topic, partition in sorted(wanted):
            if partition not in there[topic]:
                raise TopicMissing(topic, f"it has no partition {partition}")

    def _list_offsets(self, wanted: Iterable[Source], spec: Any, isolation: IsolationLevel) -> dict[Source, int]:
        asked: dict[TopicPartition, Any] = {TopicPartition(topic, p): spec for topic, p in wanted}
        futures = self._client().list_offsets(asked, isolation_level=isolation, request_timeout=self._request_s)
        return {(place.topic, place.partition): int(f.result().offset) for place, f in futures.items()}

    def partitions(self, topic: str) -> list[int]:
        admin = self._client()
        found = self.guard(lambda: admin.list_topics(topic, timeout=self._request_s)).topics[topic]
        if found.error is not None:
            raise self.error(found.error, topic)
        return sorted(found.partitions)

    def _metadata(self, timeout_s: float) -> Any:
        """For a look beside who asks: it takes no trouble out that is for others."""
        try:
            return self._client().list_topics(timeout=timeout_s)
        except KafkaException as e:
            raise BrokerUnreachable(self.bootstrap, e.args[0].str()) from e

    def topics(self) -> dict[str, list[int]]:
        """All topics of the cluster with their partitions, in one request."""
        admin = self._client()
        found = self.guard(lambda: admin.list_topics(timeout=self._request_s)).topics
        return {name: sorted(topic.partitions) for name, topic in found.items() if topic.error is None}

    def describe(self, topics: Collection[str]) -> dict[str, Future[Any]]:
        """One question for all of them; `id_of` reads the answers."""
        asked: dict[str, Future[Any]] = self._client().describe_topics(
            TopicCollection(list(topics)), request_timeout=self._request_s
        )
        return asked

    def id_of(self, answer: Future[Any], topic: str | None = None) -> str | None:
        """A topic's id; None from a broker without ids."""
        try:
            found = str(answer.result().topic_id)
        except KafkaException as e:
            if e.args[0].code() == KafkaError._UNSUPPORTED_FEATURE:
                return None
            raise self.error(e.args[0], topic, TOPIC_IDS) from e
        return found if found.strip("A=") else None  # the id of zeroes means: none

    def close(self) -> None:
        with self._lock:
            self._admin = None

    def _client(self) -> AdminClient:
        with self._lock:
            if self._admin is None:
                settings: dict[str, Any] = {**asking(self._config), "error_cb": self.on_error}
                self._admin = self.guard(lambda: AdminClient(settings, logger=client_log))
            return self._admin

    # ------------------------------------------------------------ errors

    def on_error(self, error: KafkaError) -> None:
        """Client-wide errors, called inside a poll; one broker's lost connection is not one of them."""
        if error.name() in REFUSED or error.code() == KafkaError._ALL_BROKERS_DOWN:
            # not `error`: it polls, and a poll inside a callback of a poll aborts the process
            self.troubles.append(self._meaning(error, None))
            del self.troubles[:-8]

    def guard(self, call: Callable[[], T]) -> T:
        """Runs one call of a client and turns its exception into ours."""
        try:
            return call()
        except KafkaException as e:
            raise self.error(e.args[0]) from e

    def error(self, error: KafkaError, topic: str | None = None, call: str = "") -> StreamError:
        """Ours for one of the client's. ``call``: what was asked, where brokers may answer other questions: then it is
        looked whether they do, a moment."""
        admin = self._admin
        if error.name() in AWAY and admin is not None:
            admin.poll(0)  # a refused login shows as a time-out; its reason waits in the callbacks
            for trouble in self.troubles:
                if isinstance(trouble, AuthenticationRefused):
                    self.troubles.remove(trouble)
                    return trouble
        if error.name() in AWAY and call:
            return self._meaning(error, topic, call, self._look.told(topic or self._named_topic))
        return self._meaning(error, topic)

    def _meaning(self, error: KafkaError, topic: str | None, call: str = "", cluster: str | None = None) -> StreamError:
        return meaning(error.name(), error.str(), topic or self._named_topic, self.bootstrap, call, cluster)
