"""The Kafka supplier under faults: named errors, and not a record lost or read twice."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException

from ingest.errors import StreamError
from ingest.stream.kafka import KafkaSupplier
from ingest.stream.properties import translate
from ingest.stream.supplier import AuthenticationRefused, BrokerUnreachable, CallUnanswered
from server.quickstart.producer import log_start
from tests.contract.streams import Gatherer, values
from tests.servers.kafka import KafkaCluster
from tests.servers.kfake import Kfake
from tests.servers.mock_cluster import MockCluster
from tests.servers.process import free_ports
from tests.servers.proxy import Proxy
from tests.servers.topics import admin, create_topic, produce, wait_for

pytestmark = pytest.mark.integration
FETCH, LIST_OFFSETS, METADATA = 1, 2, 3
NOT_LEADER = 6


def supplier(bootstrap: str, topic: str, request_timeout_ms: int = 10_000) -> KafkaSupplier:
    asked = translate({"bootstrap.servers": bootstrap, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100})
    return KafkaSupplier(topic, asked.config, request_timeout_ms=request_timeout_ms)


@pytest.fixture
def mock() -> Iterator[MockCluster]:
    cluster = MockCluster()
    yield cluster
    cluster.close()


def read_through(reader: Gatherer, target: dict[int, int], seconds: float = 30) -> list[StreamError]:
    """Polls on over operating errors until the target is reached; returns the errors."""
    errors: list[StreamError] = []
    end = time.monotonic() + seconds
    while reader.positions() != target:
        assert time.monotonic() < end, f"stands at {reader.positions()}, wanted {target}; saw {errors}"
        try:
            reader.poll(100)
        except StreamError as e:
            errors.append(e)
    return errors


def test_a_broker_that_is_not_there_is_named() -> None:
    [port] = free_ports(1)
    reader = supplier(f"127.0.0.1:{port}", "t", request_timeout_ms=500)
    with pytest.raises(BrokerUnreachable, match=str(port)) as caught:
        reader.partitions()
    assert caught.value.retryable
    with pytest.raises(BrokerUnreachable):
        reader.topic_id()
    reader.assign({0: 0})
    with pytest.raises(BrokerUnreachable):
        end = time.monotonic() + 10
        while time.monotonic() < end:
            assert reader.poll(10, 200) == []
    reader.close()


def test_the_demonstration_waits_for_the_leaders_of_a_topic_just_made(mock: MockCluster) -> None:
    mock.topic("edits")
    consumer = Consumer({"bootstrap.servers": mock.bootstrap, "group.id": "g", "retries": 0})
    try:
        mock.fail(LIST_OFFSETS, *[NOT_LEADER] * 12)
        assert log_start(consumer, "edits", 0) == 0
        mock.fail(LIST_OFFSETS, *[NOT_LEADER] * 12)
        with pytest.raises(KafkaException, match="Not leader"):
            log_start(consumer, "edits", 0, wait_s=0.05)
    finally:
        consumer.close()


def test_a_refused_topic_is_named(mock: MockCluster) -> None:
    mock.topic("secret")
    mock.fail(FETCH, 29, 29, 29)
    with Gatherer(supplier(mock.bootstrap, "secret")) as reader:
        reader.assign({0: 0})
        error = reader.read_to_error()
        assert isinstance(error, AuthenticationRefused)
        assert "secret" in str(error) and "TOPIC_AUTHORIZATION_FAILED" in str(error)


def test_reading_goes_on_after_the_broker_was_killed_and_started(tmp_path: Path) -> None:
    with Kfake(tmp_path / "kfake") as broker:
        topic = create_topic(broker.bootstrap)
        produce(broker.bootstrap, topic, values("a", 50))
        with Gatherer(supplier(broker.bootstrap, topic)) as reader:
            reader.assign({0: 0})
            reader.read_to({0: 50})
            broker.kill()
            error = reader.read_to_error()
            assert isinstance(error, BrokerUnreachable)
            broker.start()
            produce(broker.bootstrap, topic, values("b", 50))
            read_through(reader, {0: 100})
            assert reader.records[0] == list(enumerate(values("a", 50) + values("b", 50)))


def test_reading_goes_on_after_a_partition_of_the_network(tmp_path: Path) -> None:
    [announced] = free_ports(1)
    with Kfake(tmp_path / "kfake", advertise=[announced]) as broker:
        proxy = Proxy(broker.ports[0], announced)
        topic = create_topic(broker.bootstrap)
        produce(broker.bootstrap, topic, values("a", 50))
        with Gatherer(supplier(broker.bootstrap, topic)) as reader:
            reader.assign({0: 0})
            reader.read_to({0: 20 + 30})
            proxy.hang()
            assert reader.poll(100) == []
            proxy.heal()
            produce(broker.bootstrap, topic, values("b", 50))
            read_through(reader, {0: 100})
            proxy.cut()
            proxy.open()
            produce(broker.bootstrap, topic, values("c", 50))
            read_through(reader, {0: 150})
            assert [offset for offset, _ in reader.records[0]] == list(range(150))
        proxy.close()


def test_a_poll_of_large_records_is_bounded_by_bytes(kafka: KafkaCluster) -> None:
    topic = create_topic(kafka.bootstrap)
    produce(kafka.bootstrap, topic, [b"x" * 900_000] * 150, config={"queue.buffering.max.kbytes": 400_000})
    with Gatherer(supplier(kafka.bootstrap, topic)) as reader:
        reader.assign({0: 0})
        largest = 0
        while reader.positions() != {0: 150}:
            polls = reader.poll(20_000)
            largest = max(largest, sum(len(value or b"") for poll in polls for value in poll.values))
        assert 0 < largest < 100 << 20


@pytest.mark.slow
def test_a_frozen_leader_is_left_in_a_dozen_seconds(tmp_path: Path) -> None:
    with KafkaCluster(tmp_path, 3) as cluster:
        topic = create_topic(cluster.bootstrap, replicas=3)
        produce(cluster.bootstrap, topic, values("a", 100), config={"acks": "all"})
        with Gatherer(supplier(cluster.bootstrap, topic)) as reader:
            reader.assign({0: 0})
            reader.read_to({0: 100})
            found = admin(cluster.bootstrap).list_topics(topic, timeout=10).topics[topic]
            leader = cluster.nodes[found.partitions[0].leader]
            leader.freeze()
            began = time.monotonic()
            quick = {"acks": "all", "socket.timeout.ms": 3000, "topic.metadata.refresh.interval.ms": 1000}
            produce(cluster.bootstrap, topic, values("b", 100), config=quick)
            read_through(reader, {0: 200}, 40)
            taken = time.monotonic() - began
            leader.thaw()
            print(f"read on after {taken:.1f} s")
            assert taken < 25
            assert [offset for offset, _ in reader.records[0]] == list(range(200))


@pytest.mark.slow
def test_a_broker_that_its_controller_has_fenced_is_told_as_one(tmp_path: Path) -> None:
    # Let in for six seconds after each heartbeat, then fenced for nineteen.
    seldom = {"broker.session.timeout.ms": 6_000, "broker.heartbeat.interval.ms": 25_000}
    with KafkaCluster(tmp_path, extra=seldom) as cluster:
        topic = create_topic(cluster.bootstrap)
        node = admin(cluster.bootstrap)
        wait_for(lambda: not node.list_topics(topic, timeout=10).brokers, what="it is fenced")
        reader = supplier(cluster.bootstrap, topic, request_timeout_ms=2_000)
        for ask in (reader.topic_id, lambda: reader.latest([0])):
            # A busy machine may take its time to look what else is answered.
            for _ in range(3):
                with pytest.raises(CallUnanswered, match="nothing is lost") as caught:
                    ask()
                if "answers, but not" in str(caught.value):
                    break
            assert "has fenced it" in str(caught.value)
        reader.close()
