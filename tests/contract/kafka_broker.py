"""Running brokers under the supplier's contract: the look-alike and Apache Kafka."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence

import pytest
from confluent_kafka import Producer, TopicPartition

from ingest.protocol import Place
from ingest.stream.kafka import KafkaSupplier
from ingest.stream.kafka_topics import KafkaTopicsObserver, KafkaTopicsSupplier
from ingest.stream.properties import translate
from ingest.stream.supplier import RecordSupplier
from ingest.stream.topics import Naming
from tests.contract import producers
from tests.contract.streams import DEADLINE_S, Records, values
from tests.servers import topics
from tests.servers.devbroker import DevBroker
from tests.servers.fixtures import fresh_name
from tests.servers.kafka import KafkaCluster
from tests.servers.kfake import Kfake


class KafkaBroker:
    """`Stream` on a broker that speaks Kafka's protocol."""

    def __init__(self, server: Kfake | KafkaCluster | DevBroker) -> None:
        self._server = server
        self._bootstrap = server.bootstrap

    def topic(self, partitions: int) -> str:
        return topics.create_topic(self._bootstrap, partitions)

    def supplier(
        self, topic: str, *, isolation: str = "read_committed", keys: bool = False, topic_id: str | None = None
    ) -> RecordSupplier:
        asked = translate({"bootstrap.servers": self._bootstrap, "isolation.level": isolation}, {})
        assert not asked.problems
        columns = ("timestamps", "keys") if keys else ("timestamps",)
        return KafkaSupplier(topic, asked.config, topic_id=topic_id, columns=columns)

    def topics_supplier(self, places: Sequence[Place], topic_id: str | None) -> RecordSupplier:
        return KafkaTopicsSupplier(places, topic_id, self._config())

    def topics_observer(self, pattern: str, topics: Callable[[], Collection[str]], naming: Naming) -> RecordSupplier:
        """Other tests' topics are on the broker too: it finds those of ``topics``."""
        found = KafkaTopicsObserver(pattern, naming, self._config())
        found._list = lambda: [name for name in found._list_topics() if name in topics()]
        return found

    def _config(self) -> dict[str, str | int | bool]:
        asked = translate({"bootstrap.servers": self._bootstrap}, {})
        assert not asked.problems
        return asked.config

    def append(
        self,
        topic: str,
        partition: int,
        records: Records,
        *,
        timestamp_ms: int = 1,
        key: bytes | None = None,
    ) -> None:
        keys = None if key is None else [key] * len(records)
        times = [timestamp_ms] * len(records)
        producers.produce(self._bootstrap, topic, records, partition=partition, timestamps_ms=times, keys=keys)

    def open_transaction(self, topic: str, partition: int, records: Records) -> Callable[[bool], None]:
        if isinstance(self._server, DevBroker):
            pytest.skip("the development broker has no transactions")
        producer = Producer(
            {"bootstrap.servers": self._bootstrap, "transactional.id": fresh_name("x"), "linger.ms": 1, **topics.QUIET}
        )
        producer.init_transactions(DEADLINE_S)
        producer.begin_transaction()
        for record in records:
            producer.produce(topic, record, partition=partition)
        assert producer.flush(DEADLINE_S) == 0

        def finish(commit: bool) -> None:
            if commit:
                producer.commit_transaction(DEADLINE_S)
            else:
                producer.abort_transaction(DEADLINE_S)

        return finish

    def transaction(self, topic: str, partition: int, records: Records, *, commit: bool) -> None:
        self.open_transaction(topic, partition, records)(commit)

    def holes(self) -> str:
        if isinstance(self._server, DevBroker):
            pytest.skip("the development broker does not compact")
        topic = topics.create_topic(
            self._bootstrap,
            cleanup_policy="compact",
            segment_ms=100,
            segment_bytes=1048576,
            min_cleanable_dirty_ratio="0.01",
            max_compaction_lag_ms=200,
            min_compaction_lag_ms=0,
        )
        keys = [f"k{i % 5}".encode() for i in range(40)]
        producers.produce(self._bootstrap, topic, values("a", 40), keys=keys)
        time.sleep(0.2)  # the segment must be old enough to be rolled by the next record
        producers.produce(self._bootstrap, topic, [b"end"], keys=[b"end"])
        topics.wait_for(lambda: self._compacted(topic), 60, f"{topic} compacted")
        return topic

    def _compacted(self, topic: str) -> bool:
        if isinstance(self._server, Kfake):
            self._server.control("/compact")
        supplier = self.supplier(topic)
        try:
            supplier.assign({0: 0})
            seen, end = 0, time.monotonic() + DEADLINE_S
            while supplier.positions() != {0: 41}:
                assert time.monotonic() < end, f"{topic} ends at {supplier.positions()}, not at 41"
                seen += sum(len(poll) for poll in supplier.poll(1000, 300))
            return seen < 41
        finally:
            supplier.close()

    def add_partitions(self, topic: str, total: int) -> None:
        topics.add_partitions(self._bootstrap, topic, total)
        producers.forget(self._bootstrap)

    def truncate(self, topic: str, partition: int, before: int) -> None:
        client = topics.admin(self._bootstrap)
        place = TopicPartition(topic, partition, before)
        client.delete_records([place])[place].result(DEADLINE_S)

    def recreate(self, topic: str) -> None:
        topics.delete_topic(self._bootstrap, topic)
        topics.create_topic(self._bootstrap, 1, topic)
        producers.forget(self._bootstrap)
