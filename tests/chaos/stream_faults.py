"""Faults of brokers and of the topic itself: leaders that move, records that expire, a topic made again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka import admin as kafka_admin

from ingest.errors import StoreUnreachable
from tests.chaos.breaking import Broken, Hand, nothing
from tests.servers.kafka import KafkaNode
from tests.servers.topics import add_partitions, admin, create_topic, delete_topic

PARTITIONS_MAX = 8
NEVER_A_ROW = 1_000_000_000
"""A number that no row has."""
_EVERYTHING = 1 << 62


class StreamFaults(Hand):
    """Of the brokers one is broken at a time, so that a majority stays. What is destroyed is told to the content."""

    # -- brokers

    def kill_broker(self, busy: frozenset[str]) -> Broken | None:
        return self._broker(busy, KafkaNode.kill, "is killed")

    def restart_broker(self, busy: frozenset[str]) -> Broken | None:
        """A polite stop: leaders move before it, not because of it."""
        return self._broker(busy, lambda node: node.stop(patience_s=10), "is stopped")

    def freeze_broker(self, busy: frozenset[str]) -> Broken | None:
        if "kafka" in busy:
            return None
        node = self._some_broker()
        node.freeze()
        return Broken(f"broker {node.node} is frozen", frozenset({"kafka"}), node.thaw)

    def _broker(self, busy: frozenset[str], how: Callable[[KafkaNode], None], word: str) -> Broken | None:
        if "kafka" in busy:
            return None
        node = self._some_broker()
        how(node)
        return Broken(
            f"broker {node.node} of {len(self._cluster.kafka.nodes)} {word}", frozenset({"kafka"}), node.spawn
        )

    def _some_broker(self) -> KafkaNode:
        return self._dice.choice(list(self._cluster.kafka.nodes.values()))

    # -- the topic

    def add_partition(self, busy: frozenset[str]) -> Broken | None:
        content = self._flow.content
        wanted = len(content.sent) + 1
        if "kafka" in busy or wanted > PARTITIONS_MAX:
            return None
        try:
            add_partitions(self._cluster.kafka.bootstrap, self._topic, wanted)
        except (KafkaException, AssertionError):
            return None
        content.grow(wanted)
        return Broken(f"partition {wanted - 1} is added", frozenset(), nothing)

    def expire_records(self, busy: frozenset[str]) -> Broken | None:
        """Everything in one partition expires, read or not."""
        if {"kafka", "postgres"} & busy or not self._flow.hold():
            return None
        try:
            partition = self._dice.randrange(len(self._flow.content.sent))
            committed = self._committed().get(partition, 0)
            client = admin(self._cluster.kafka.bootstrap)
            place = TopicPartition(self._topic, partition)
            end = _ends(self._cluster.kafka.bootstrap, self._topic, partition)
            if end <= committed:
                return None
            self._flow.content.lose(partition, committed, end)
            place.offset = end
            client.delete_records([place])[place].result(10)
        except StoreUnreachable:
            return None
        except KafkaException as error:
            # Whether the broker has done it is not known; to the content it is lost.
            return Broken(f"records expire, perhaps: {error}", frozenset(), nothing)
        finally:
            self._flow.go()
        return Broken(f"partition {partition} expires up to {end}, committed {committed}", frozenset(), nothing)

    def make_topic_again(self, busy: frozenset[str]) -> Broken | None:
        """Deleted and created: what was not published by then is gone, offsets begin at 0 again."""
        if any(part in busy for part in ("kafka", "postgres", "connections to kafka")) or not self._flow.hold():
            return None
        content, bootstrap = self._flow.content, self._cluster.kafka.bootstrap
        try:
            committed = self._committed()
        except (StoreUnreachable, KafkaException):
            self._flow.go()
            return None
        for partition in range(len(content.sent)):
            content.lose(partition, committed.get(partition, 0), _EVERYTHING)
        copies = len(self._cluster.kafka.nodes)
        try:
            delete_topic(bootstrap, self._topic)
            create_topic(bootstrap, len(content.sent), self._topic, replicas=copies, **self._cluster.topic_settings)
        finally:
            self._flow.go(another_topic=True)
        return Broken(f"the topic is made again, committed {dict(committed)}", frozenset(), nothing)

    def leave_transaction_open(self, busy: frozenset[str]) -> Broken | None:
        """Somebody writes what will never be committed, and holds up all who read only what is committed."""
        if "kafka" in busy:
            return None
        partition = self._dice.randrange(len(self._flow.content.sent))
        name = f"never {self._dice.randrange(NEVER_A_ROW)}"
        settings = {"transactional.id": name, "transaction.timeout.ms": 30_000, "log_level": 0}
        producer = Producer({"bootstrap.servers": self._cluster.kafka.bootstrap, **settings})
        value = b'{"time": 1780000000000, "p": %d, "seq": %d}' % (partition, NEVER_A_ROW)
        try:
            producer.init_transactions(5.0)
            producer.begin_transaction()
            for _ in range(self._dice.randint(1, 50)):
                producer.produce(self._topic, value, b"never", partition=partition)
            producer.flush(5.0)
        except KafkaException:
            return None

        def abort() -> None:
            try:
                producer.abort_transaction(3.0)
            except KafkaException:
                return  # the broker ends it after its time-out

        return Broken(f"a transaction stays open in partition {partition}", frozenset(), abort)

    def _committed(self) -> dict[int, int]:
        """Offsets of the topic as it is now; none where what is committed belongs to an earlier one."""
        stored = self._cluster.offsets(self._topic)
        if stored is None or stored.topic_id != _topic_id(self._cluster.kafka.bootstrap, self._topic):
            return {}
        return dict(stored.committed)


def _topic_id(bootstrap: str, topic: str) -> str:
    client = admin(bootstrap)
    return str(client.describe_topics(TopicCollection([topic]))[topic].result(10).topic_id)


def _ends(bootstrap: str, topic: str, partition: int) -> int:
    client = admin(bootstrap)
    place = TopicPartition(topic, partition)
    specs: Any = kafka_admin  # without types
    return int(client.list_offsets({place: specs.OffsetSpec.latest()})[place].result(10).offset)
