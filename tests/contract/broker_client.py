"""A running broker as the broker contract sees it: a plain client, and what the broker is known to lack."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.contract import producers
from tests.servers import topics
from tests.servers.fixtures import fresh_name

# What a test may need and a broker of ours does not have; such a test is skipped with this reason.
LACKS = {
    "kafka": frozenset[str](),
    "kfake": frozenset({"LogAppendTime", "fencing of a transactional producer"}),
    "devbroker": frozenset(
        {
            "LogAppendTime",
            "fencing of a transactional producer",
            "rebalance of groups",
            "retention by time",
            "settings of topics",
            "transactions",
        }
    ),
}


@dataclass(frozen=True, slots=True)
class Broker:
    """One broker under the contract."""

    name: str
    bootstrap: str
    control: Callable[..., str] | None

    def needs(self, ability: str) -> None:
        """Skips the test where the broker lacks it."""
        assert any(ability in lacks for lacks in LACKS.values()), f"{ability!r} is lacked by nobody"
        if ability in LACKS[self.name]:
            pytest.skip(f"{self.name} lacks {ability}")

    def topic(self, partitions: int = 1, **config: Any) -> str:
        return topics.create_topic(self.bootstrap, partitions, **config)

    def produce(self, topic: str, count: int, *, start: int = 0, partition: int = 0, **extra: Any) -> None:
        """Values v0, v1 ... in order; with settings (``config``) by a producer of its own."""
        made = (f"v{i}".encode() for i in range(start, start + count))
        write = topics.produce if "config" in extra else producers.produce
        write(self.bootstrap, topic, made, partition=partition, **extra)

    def recreate(self, topic: str) -> None:
        """Deletes a topic of one partition and makes one of its name."""
        topics.delete_topic(self.bootstrap, topic)
        topics.create_topic(self.bootstrap, 1, topic)
        producers.forget(self.bootstrap)

    def consumer(self, **config: Any) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": fresh_name("g"),
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 50,
                "fetch.error.backoff.ms": 50,
                **topics.QUIET,
                **config,
            }
        )

    def read(self, topic: str, start: int = OFFSET_BEGINNING, *, isolation: str = "read_committed") -> list[Message]:
        """All messages of partition 0 from an offset to its end."""
        consumer = self.consumer(**{"isolation.level": isolation})
        try:
            consumer.assign([TopicPartition(topic, 0, start)])
            return to_end(consumer)
        finally:
            consumer.close()

    def marks(self, topic: str, partition: int = 0) -> tuple[int, int]:
        """First offset and end of a partition."""
        consumer = self.consumer()
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
            return low, high
        finally:
            consumer.close()

    def transactional(self, name: str) -> Producer:
        """A producer of transactions, ready to begin one."""
        config = {"bootstrap.servers": self.bootstrap, "transactional.id": name, "linger.ms": 1, **topics.QUIET}
        producer = Producer({**config, "transaction.timeout.ms": 30_000})
        producer.init_transactions(60)
        return producer


def to_end(consumer: Consumer, seconds: float = 60.0) -> list[Message]:
    """What an assigned consumer gives until the end of each of its partitions."""
    out: list[Message] = []
    ended, wanted = set(), {(p.topic, p.partition) for p in consumer.assignment()}
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is None:
            continue
        error = message.error()
        if error is None:
            out.append(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            ended.add((message.topic(), message.partition()))
            if ended >= wanted:
                return out
        else:
            raise KafkaException(error)
    raise AssertionError(f"read only {len(out)} in {seconds} s")


def code_of(failure: pytest.ExceptionInfo[KafkaException]) -> int:
    """The client's error code of what was raised."""
    error: KafkaError = failure.value.args[0]
    return int(error.code())
