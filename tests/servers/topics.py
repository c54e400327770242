"""Topics and records on a running broker, as tests need them, over the Kafka client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.servers.fixtures import fresh_name

QUIET: Mapping[str, Any] = {"enable.metrics.push": False, "log_level": 2}
ONCE: Mapping[str, Any] = {"enable.idempotence": True, "linger.ms": 1, **QUIET}
"""A producer whose records arrive once and in order: what is sent again because a busy broker answered late, or on
another connection, is otherwise written twice, and a test that counts finds positions past its target."""
PATIENCE_S = 30.0
"""For what takes milliseconds on an idle machine; only a failure waits for it."""


def wait_for(condition: Callable[[], object], seconds: float = PATIENCE_S, what: str = "") -> None:
    """Polls until the condition is true; fails by name after the deadline."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s: {what or condition}"
        time.sleep(0.02)


def admin(bootstrap: str) -> AdminClient:
    """An admin client. Keep it in a variable until its futures are done."""
    return AdminClient({"bootstrap.servers": bootstrap, "topic.metadata.refresh.interval.ms": 500, **QUIET})


_UNHEARD = (KafkaError._TIMED_OUT, KafkaError.REQUEST_TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)
"""Nothing was answered: what was asked for may have been done."""


def leaders(client: AdminClient, topic: str) -> int:
    """How many partitions of the topic have a leader; 0 where there is no such topic, -1 where nobody answers."""
    try:
        found = client.list_topics(topic, timeout=PATIENCE_S).topics[topic]
    except KafkaException as e:
        if not e.args[0].retriable() and e.args[0].code() not in _UNHEARD:
            raise
        return -1  # a broker that is not there yet, or too busy: asked again by whoever waits
    if found.error:
        return 0
    return sum(1 for p in found.partitions.values() if p.leader >= 0)


def create_topic(
    bootstrap: str, partitions: int = 1, topic: str | None = None, *, replicas: int = 1, **config: object
) -> str:
    """Creates a topic (``retention_ms=1000`` sets retention.ms) and waits for its leaders."""
    name = topic or fresh_name()
    client = admin(bootstrap)
    settings = {k.replace("_", "."): str(v) for k, v in config.items()}
    unheard = False

    def made() -> bool:
        nonlocal unheard
        new = NewTopic(name, partitions, replicas, config=settings)
        try:
            client.create_topics([new])[name].result(PATIENCE_S)
        except KafkaException as e:
            code = e.args[0].code()
            if code == KafkaError.TOPIC_ALREADY_EXISTS:
                # Made by a request whose answer was lost; or a topic that was just deleted is still going.
                if not unheard and topic is None:
                    raise
                return unheard
            if code == KafkaError.INVALID_REPLICATION_FACTOR and "fenced" in e.args[0].str():
                return False  # a broker that was too slow for its controller: nothing was made, it comes back
            if code not in _UNHEARD:
                raise
            unheard = True
            return False
        return True

    wait_for(made, what=f"topic {name} created")
    wait_for(lambda: leaders(client, name) == partitions, what=f"leaders of {name}")
    return name


def delete_topic(bootstrap: str, topic: str) -> None:
    """Deletes a topic and waits until the broker no longer lists it."""
    client = admin(bootstrap)
    client.delete_topics([topic])[topic].result(PATIENCE_S)
    wait_for(lambda: leaders(client, topic) == 0, what=f"{topic} deleted")


def add_partitions(bootstrap: str, topic: str, total: int) -> None:
    """Grows a topic to ``total`` partitions."""
    client = admin(bootstrap)
    client.create_partitions([NewPartitions(topic, total)])[topic].result(PATIENCE_S)
    wait_for(lambda: leaders(client, topic) == total, what=f"{total} leaders of {topic}")


def producer_for(bootstrap: str, config: Mapping[str, Any] | None = None) -> Producer:
    """A producer whose records arrive once and in order; ``config`` wins over ours."""
    return Producer({"bootstrap.servers": bootstrap, **ONCE, **(config or {})})


def produce(
    bootstrap: str,
    topic: str,
    values: Iterable[bytes | None],
    *,
    partition: int = 0,
    timestamps_ms: Iterable[int] | None = None,
    keys: Iterable[bytes] | None = None,
    config: Mapping[str, Any] | None = None,
    producer: Producer | None = None,
) -> None:
    """Writes the values in order, each once, and returns when the broker has acknowledged all of them.

    Without a ``producer`` it makes one with ``config``, which takes half a second until it may send.
    """
    failed: list[Any] = []

    def delivered(error: Any, message: Any) -> None:
        if error is not None:
            failed.append(error)

    producer = producer or producer_for(bootstrap, config)
    times = iter(timestamps_ms) if timestamps_ms is not None else None
    names = iter(keys) if keys is not None else None
    for value in values:
        extra: dict[str, Any] = {}
        if times is not None:
            extra["timestamp"] = next(times)
        if names is not None:
            extra["key"] = next(names)
        while True:
            try:
                producer.produce(topic, value, partition=partition, on_delivery=delivered, **extra)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(2 * PATIENCE_S) == 0, "not all records were delivered"
    assert not failed, failed[0]


def log_marks(bootstrap: str, topic: str, partition: int = 0) -> tuple[int, int]:
    """The first offset of a partition and the one after its last."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": fresh_name("g"), **QUIET})
    try:
        found: tuple[int, int] = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=PATIENCE_S)
        return found
    finally:
        consumer.close()
