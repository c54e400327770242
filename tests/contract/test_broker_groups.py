"""What the tests need of a broker's groups and transactions."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition

from tests.contract.broker_client import Broker, code_of
from tests.servers import topics
from tests.servers.fixtures import fresh_name

pytestmark = pytest.mark.integration


def join(broker: Broker, topic: str, group: str, count: int = 1) -> list[Consumer]:
    members = [broker.consumer(**{"group.id": group, "auto.offset.reset": "earliest"}) for _ in range(count)]
    for member in members:
        member.subscribe([topic])
    return members


def test_offsets_are_committed_with_their_metadata(broker: Broker) -> None:
    topic, group = broker.topic(), fresh_name("g")
    first = broker.consumer(**{"group.id": group})
    first.assign([TopicPartition(topic, 0, 0)])
    first.commit(offsets=[TopicPartition(topic, 0, 3, metadata="seq=7")], asynchronous=False)
    first.close()
    second = broker.consumer(**{"group.id": group})
    found = second.committed([TopicPartition(topic, 0)], timeout=30)[0]
    second.close()
    assert (found.offset, found.metadata) == (3, "seq=7")


def test_a_groups_offsets_can_be_read_and_set_from_outside(broker: Broker) -> None:
    topic, group, admin = broker.topic(), fresh_name("g"), topics.admin(broker.bootstrap)
    broker.produce(topic, 10)
    wanted = [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 8)])]
    admin.alter_consumer_group_offsets(wanted)[group].result(10)
    asked = [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])]
    found = admin.list_consumer_group_offsets(asked)[group].result(10)
    assert found.topic_partitions[0].offset == 8


def test_two_members_share_the_partitions(broker: Broker) -> None:
    broker.needs("rebalance of groups")
    members = join(broker, broker.topic(4), fresh_name("g"), 2)

    def shared() -> bool:
        for member in members:
            member.poll(0.1)
        return sorted(len(member.assignment()) for member in members) == [2, 2]

    topics.wait_for(shared, 90, "two partitions each")
    for member in members:
        member.close()


def test_committed_transactions_are_seen_and_aborted_ones_are_not(broker: Broker) -> None:
    broker.needs("transactions")
    topic, producer = broker.topic(), broker.transactional(fresh_name("x"))
    for index, end in enumerate((producer.commit_transaction, producer.abort_transaction, producer.commit_transaction)):
        producer.begin_transaction()
        for k in range(3):
            producer.produce(topic, f"{index}.{k}", partition=0)
        producer.flush(10)
        end(10)
    seen = broker.read(topic, isolation="read_committed")
    assert [m.value() for m in seen] == [b"0.0", b"0.1", b"0.2", b"2.0", b"2.1", b"2.2"]
    assert [m.offset() for m in seen] == [0, 1, 2, 8, 9, 10], "each end of a transaction takes one offset"
    assert len(broker.read(topic, isolation="read_uncommitted")) == 9
    assert broker.marks(topic) == (0, 12)


def test_offsets_are_committed_inside_a_transaction(broker: Broker) -> None:
    broker.needs("transactions")
    topic, group = broker.topic(), fresh_name("g")
    broker.produce(topic, 5)
    [member] = join(broker, topic, group)
    topics.wait_for(lambda: member.poll(0.2), 60, "a record")
    producer = broker.transactional(fresh_name("x"))
    producer.begin_transaction()
    place = TopicPartition(topic, 0, 5)
    producer.send_offsets_to_transaction([place], member.consumer_group_metadata(), 10)
    producer.commit_transaction(10)
    assert member.committed([TopicPartition(topic, 0)], timeout=30)[0].offset == 5
    member.close()


def test_a_transactional_producer_fences_its_predecessor(broker: Broker) -> None:
    broker.needs("fencing of a transactional producer")
    topic, name = broker.topic(), fresh_name("x")
    old = broker.transactional(name)
    old.begin_transaction()
    old.produce(topic, "a", partition=0)
    old.flush(10)
    new = broker.transactional(name)
    with pytest.raises(KafkaException) as caught:
        old.produce(topic, "b", partition=0)
        old.commit_transaction(10)
    assert code_of(caught) in (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)
    new.begin_transaction()
    new.produce(topic, "c", partition=0)
    new.commit_transaction(10)
    assert [m.value() for m in broker.read(topic, isolation="read_committed")] == [b"c"]
