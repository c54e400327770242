"""What the tests need of a broker's topics and records, so that passing on a light one means something on Kafka."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_END,
    TIMESTAMP_CREATE_TIME,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka import admin as kafka_admin
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.contract import producers
from tests.contract.broker_client import Broker, code_of, to_end
from tests.servers import topics
from tests.servers.fixtures import fresh_name

pytestmark = pytest.mark.integration
ADMIN: Any = kafka_admin  # the client leaves some of its names without a type


def test_metadata_names_the_cluster_and_refuses_unknown_topics(broker: Broker) -> None:
    admin, topic = topics.admin(broker.bootstrap), broker.topic(3)
    everything = admin.list_topics(timeout=30)
    assert everything.brokers and everything.cluster_id and topic in everything.topics
    unknown = admin.list_topics(fresh_name("none"), timeout=30)
    assert [t.error.code() for t in unknown.topics.values()] == [KafkaError.UNKNOWN_TOPIC_OR_PART]


def test_creating_twice_is_refused(broker: Broker) -> None:
    admin, topic = topics.admin(broker.bootstrap), broker.topic()
    with pytest.raises(KafkaException) as caught:
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    assert code_of(caught) == KafkaError.TOPIC_ALREADY_EXISTS


def test_partitions_can_be_added_and_not_taken_away(broker: Broker) -> None:
    topic = broker.topic(3)
    topics.add_partitions(broker.bootstrap, topic, 5)
    broker.produce(topic, 5, partition=4)
    assert broker.marks(topic, 4) == (0, 5)
    admin = topics.admin(broker.bootstrap)
    with pytest.raises(KafkaException) as caught:
        admin.create_partitions([NewPartitions(topic, 2)])[topic].result(30)
    assert code_of(caught) == KafkaError.INVALID_PARTITIONS


def test_a_topics_settings_are_kept_and_changed(broker: Broker) -> None:
    broker.needs("settings of topics")
    admin, topic = topics.admin(broker.bootstrap), broker.topic(1, retention_ms=60_000)
    place = ADMIN.ConfigResource(ADMIN.ResourceType.TOPIC, topic)
    assert admin.describe_configs([place])[place].result(30)["retention.ms"].value == "60000"
    entry = ADMIN.ConfigEntry("retention.ms", "70000", incremental_operation=ADMIN.AlterConfigOpType.SET)
    change = ADMIN.ConfigResource(ADMIN.ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([change])[change].result(30)
    topics.wait_for(lambda: admin.describe_configs([place])[place].result(30)["retention.ms"].value == "70000")


def test_a_recreated_topic_starts_at_zero_with_a_new_id(broker: Broker) -> None:
    admin, topic = topics.admin(broker.bootstrap), broker.topic()
    broker.produce(topic, 20)
    before = admin.describe_topics(TopicCollection([topic]))[topic].result(30).topic_id
    broker.recreate(topic)
    after = admin.describe_topics(TopicCollection([topic]))[topic].result(30).topic_id
    assert str(before) != str(after)
    broker.produce(topic, 3)
    assert broker.marks(topic) == (0, 3)


def test_times_headers_and_keys_come_back(broker: Broker) -> None:
    topic = broker.topic()
    times = [1_700_000_000_000 + i for i in range(10)]
    keys = [f"k{i}".encode() for i in range(10)]
    broker.produce(topic, 10, timestamps_ms=times, keys=keys, config={"compression.type": "lz4"})
    message = broker.read(topic)[7]
    assert message.timestamp() == (TIMESTAMP_CREATE_TIME, 1_700_000_000_007)
    assert message.key() == b"k7" and message.value() == b"v7"


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_comes_back_in_order(broker: Broker, codec: str) -> None:
    topic = broker.topic()
    broker.produce(topic, 200, config={"compression.type": codec, "enable.idempotence": True})
    assert [m.value() for m in broker.read(topic)] == [f"v{i}".encode() for i in range(200)]


def test_a_record_without_value_comes_back(broker: Broker) -> None:
    topic = broker.topic()
    producers.produce(broker.bootstrap, topic, [None], keys=[b"k"])
    assert broker.read(topic)[0].value() is None


def test_what_is_too_large_is_refused(broker: Broker) -> None:
    broker.needs("settings of topics")
    topic = broker.topic(1, max_message_bytes=10_000)
    with pytest.raises(AssertionError, match="MSG_SIZE_TOO_LARGE"):
        topics.produce(broker.bootstrap, topic, [b"x" * 20_000])


def test_ends_are_right_after_batches_of_every_size(broker: Broker) -> None:
    topic, total = broker.topic(), 0
    for count in (1, 10, 1, 5, 100):
        broker.produce(topic, count, start=total)
        total += count
        assert broker.marks(topic) == (0, total)


def test_log_append_time_is_the_brokers(broker: Broker) -> None:
    broker.needs("LogAppendTime")
    topic = broker.topic(1, message_timestamp_type="LogAppendTime")
    before_ms = int(time.time() * 1000)
    broker.produce(topic, 3, timestamps_ms=[1000] * 3)
    kind, found_ms = broker.read(topic)[0].timestamp()
    assert kind != TIMESTAMP_CREATE_TIME and found_ms >= before_ms - 1000


def test_seeking_back_reads_again(broker: Broker) -> None:
    topic, consumer = broker.topic(), broker.consumer()
    broker.produce(topic, 50)
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert len(to_end(consumer)) == 50
    consumer.seek(TopicPartition(topic, 0, 10))
    assert to_end(consumer)[0].offset() == 10
    consumer.close()


def test_a_time_gives_the_first_record_at_or_after_it(broker: Broker) -> None:
    topic, consumer = broker.topic(), broker.consumer()
    broker.produce(topic, 100, timestamps_ms=[1_700_000_000_000 + i * 1000 for i in range(100)])
    inside, beyond = TopicPartition(topic, 0, 1_700_000_041_500), TopicPartition(topic, 0, 1_800_000_000_000)
    assert consumer.offsets_for_times([inside], timeout=30)[0].offset == 42
    assert consumer.offsets_for_times([beyond], timeout=30)[0].offset == OFFSET_END
    consumer.close()


def test_the_largest_time_is_found(broker: Broker) -> None:
    topic, admin = broker.topic(), topics.admin(broker.bootstrap)
    broker.produce(topic, 10, timestamps_ms=[1_700_000_000_000 + (50 if i == 4 else i) for i in range(10)])
    place = TopicPartition(topic, 0)
    found = admin.list_offsets({place: ADMIN.OffsetSpec.max_timestamp()})[place].result(30)
    assert (found.offset, found.timestamp) == (4, 1_700_000_000_050)


@pytest.mark.parametrize("start", [99, 10**12])
def test_an_offset_beyond_the_end_is_an_error(broker: Broker, start: int) -> None:
    topic = broker.topic()
    broker.produce(topic, 5)
    with pytest.raises(KafkaException) as caught:
        broker.read(topic, start)
    assert code_of(caught) in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)


def test_deleting_records_moves_the_start(broker: Broker) -> None:
    topic, admin = broker.topic(), topics.admin(broker.bootstrap)
    broker.produce(topic, 100)
    place = TopicPartition(topic, 0, 40)
    assert admin.delete_records([place])[place].result(30).low_watermark == 40
    assert broker.marks(topic) == (40, 100)
    assert broker.read(topic)[0].offset() == 40
    with pytest.raises(KafkaException) as caught:
        broker.read(topic, 10)
    assert code_of(caught) == KafkaError._AUTO_OFFSET_RESET


def test_retention_moves_the_start(broker: Broker) -> None:
    broker.needs("retention by time")
    short = {"retention_ms": 1000, "segment_ms": 500, "segment_bytes": 1_048_576, "file_delete_delay_ms": 100}
    topic = broker.topic(1, **short)
    broker.produce(topic, 50, timestamps_ms=[int(time.time() * 1000) - 3_600_000] * 50)
    time.sleep(0.7)  # the broker's own clock must pass segment.ms before the next record rolls the segment
    broker.produce(topic, 5)

    def moved() -> bool:
        if broker.control is not None:
            broker.control("/retention")
        return broker.marks(topic)[0] >= 50

    topics.wait_for(moved, 90, "the start at 50")
