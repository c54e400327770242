"""Messages a CPU second through the supplier, beside a bare consume loop on the same topic in the same run."""

from __future__ import annotations

import time
from statistics import median

import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from ingest.stream.kafka import KafkaSupplier
from ingest.stream.properties import translate
from tests.servers.fixtures import fresh_name
from tests.servers.kafka import KafkaCluster
from tests.servers.topics import create_topic, produce

pytestmark = pytest.mark.benchmark
RECORDS = 600_000
PARTITIONS = 4
ROUNDS = 3


def bare(config: dict[str, str | int | bool], topic: str) -> float:
    """The control: consume(500) and value(), nothing else."""
    consumer = Consumer({**config, "group.id": fresh_name("g")})
    consumer.assign([TopicPartition(topic, p, 0) for p in range(PARTITIONS)])
    began, got, kept = time.process_time(), 0, list[bytes | None]()
    while got < RECORDS:
        messages = [m for m in consumer.consume(500, 1.0) if m.error() is None]
        kept.extend(map(Message.value, messages))
        got += len(messages)
        if len(kept) >= 20_000:
            kept = []
    taken = time.process_time() - began
    consumer.close()
    return got / taken


def supplied(config: dict[str, str | int | bool], topic: str, columns: tuple[str, ...]) -> tuple[float, float]:
    """Through the port; also the mean size of a poll."""
    supplier = KafkaSupplier(topic, config, columns=columns)
    supplier.assign(dict.fromkeys(range(PARTITIONS), 0))
    began, got, polls = time.process_time(), 0, 0
    while got < RECORDS:
        batch = supplier.poll(20_000, 1000)
        got += sum(len(poll) for poll in batch)
        polls += 1
    taken = time.process_time() - began
    supplier.close()
    return got / taken, got / polls


def test_messages_a_cpu_second(kafka: KafkaCluster) -> None:
    topic = create_topic(kafka.bootstrap, PARTITIONS)
    for partition in range(PARTITIONS):
        body = (b"%09d" % n + b"x" * 241 for n in range(RECORDS // PARTITIONS))
        produce(
            kafka.bootstrap,
            topic,
            body,
            partition=partition,
            config={"compression.type": "lz4", "linger.ms": 50, "batch.num.messages": 10_000},
        )
    config = translate({"bootstrap.servers": kafka.bootstrap}).config
    control, plain, stamped, sizes = [], [], [], []
    for _ in range(ROUNDS):
        control.append(bare(config, topic))
        rate, size = supplied(config, topic, ())
        plain.append(rate)
        sizes.append(size)
        stamped.append(supplied(config, topic, ("timestamps",))[0])
    base, rate, with_times = median(control), median(plain), median(stamped)
    print(f"\nbare consume(500)        {base:10,.0f} messages a CPU second")
    print(f"supplier                 {rate:10,.0f}  {rate / base:.2f} of it, {median(sizes):,.0f} a poll")
    print(f"supplier with timestamps {with_times:10,.0f}  {with_times / base:.2f} of it")
    assert rate > 0.6 * base, "the supplier itself must cost little beside the client"
