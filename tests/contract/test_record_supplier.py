"""What every `RecordSupplier` promises, on the memory twin and on every broker of the tests."""

from __future__ import annotations

import pytest

from ingest.stream.supplier import OffsetOutOfRange, RecordSupplier, TopicMissing, TopicRecreated
from tests.contract.streams import Gatherer, Stream, values

STREAMS = [
    "memory",
    pytest.param("kfake", marks=pytest.mark.integration),
    pytest.param("kafka", marks=pytest.mark.integration),
    pytest.param("devbroker", marks=pytest.mark.integration),
]


@pytest.fixture(params=STREAMS)
def stream(request: pytest.FixtureRequest) -> Stream:
    if request.param == "memory":
        from tests.contract.streams import MemoryBroker

        return MemoryBroker()
    from tests.contract.kafka_broker import KafkaBroker

    return KafkaBroker(request.getfixturevalue(request.param))


def test_records_come_in_offset_order_grouped_by_partition(stream: Stream) -> None:
    topic = stream.topic(2)
    stream.append(topic, 0, values("a", 700))
    stream.append(topic, 1, values("b", 300))
    with Gatherer(stream.supplier(topic)) as reader:
        reader.assign({0: 0, 1: 0})
        reader.read_to({0: 700, 1: 300})
        assert reader.records[0] == list(enumerate(values("a", 700)))
        assert reader.records[1] == list(enumerate(values("b", 300)))


def test_poll_returns_no_more_than_asked(stream: Stream) -> None:
    topic = stream.topic(1)
    stream.append(topic, 0, values("a", 50))
    with Gatherer(stream.supplier(topic)) as reader:
        reader.assign({0: 0})
        while reader.positions() != {0: 50}:
            assert sum(len(poll) for poll in reader.poll(7)) <= 7
        assert [offset for offset, _ in reader.records[0]] == list(range(50))


def test_reading_starts_at_the_assigned_offset(stream: Stream) -> None:
    topic = stream.topic(1)
    stream.append(topic, 0, values("a", 10))
    with Gatherer(stream.supplier(topic)) as reader:
        reader.assign({0: 6})
        reader.read_to({0: 10})
        assert [offset for offset, _ in reader.records[0]] == [6, 7, 8, 9]


def test_assigning_again_replaces_positions_and_partitions(stream: Stream) -> None:
    topic = stream.topic(2)
    stream.append(topic, 0, values("a", 10))
    stream.append(topic, 1, values("b", 10))
    with Gatherer(stream.supplier(topic)) as reader:
        reader.assign({0: 0})
        reader.read_to({0: 10})
        reader.assign({0: 3, 1: 9})
        reader.read_to({0: 10, 1: 10})
        assert [offset for offset, _ in reader.records[0]] == [3, 4, 5, 6, 7, 8, 9]
        assert reader.records[1] == [(9, b"b9")]


def test_what_was_paused_is_read_again_once_it_is_assigned_anew(stream: Stream) -> None:
    topic = stream.topic(2)
    stream.append(topic, 0, values("a", 10))
    stream.append(topic, 1, values("b", 10))
    with Gatherer(stream.supplier(topic)) as reader:
        reader.assign({0: 0, 1: 0})
        reader.read_to({0: 10, 1: 10})
        reader.supplier.pause([0])
        reader.assign({0: 4})
        reader.read_to({0: 10})
        reader.supplier.pause([0])
        reader.assign({})
        reader.assign({0: 9, 1: 9})
        reader.read_to({0: 10, 1: 10})


def test_tombstones_and_timestamps_arrive(stream: Stream) -> None:
    topic = stream.topic(1)
    stream.append(topic, 0, [b"x", None], timestamp_ms=1_700_000_000_123)
    with Gatherer(stream.supplier(topic)) as reader:
        reader.assign({0: 0})
        reader.read_to({0: 2})
        assert reader.records[0] == [(0, b"x"), (1, None)]
        assert reader.timestamps[0] == [1_700_000_000_123] * 2


def test_keys_arrive_when_asked_for(stream: Stream) -> None:
    topic = stream.topic(1)
    stream.append(topic, 0, [b"x"], key=b"k")
    with Gatherer(stream.supplier(topic, keys=True)) as reader:
        reader.assign({0: 0})
        reader.read_to({0: 1})
        assert reader.polls[0].keys == [b"k"]


def test_committed_and_aborted_transactions_leave_only_what_is_visible(stream: Stream) -> None:
    topic = stream.topic(1)
    for index, commit in enumerate((True, False, True)):
        stream.transaction(topic, 0, values(f"{index}.", 3), commit=commit)
    with Gatherer(stream.supplier(topic)) as reader:
        reader.assign({0: 0})
        reader.read_to({0: 12})
        assert [offset for offset, _ in reader.records[0]] == [0, 1, 2, 8, 9, 10]
        assert reader.supplier.latest([0]) == {0: 12}, "each end of a transaction takes an offset"
        assert reader.positions() == reader.supplier.last_stable([0]), "lag must reach zero behind a marker"
    with Gatherer(stream.supplier(topic, isolation="read_uncommitted")) as reader:
        reader.assign({0: 0})
        reader.read_to({0: 12})
        assert len(reader.records[0]) == 9


def test_an_open_transaction_holds_readers_back(stream: Stream) -> None:
    topic = stream.topic(1)
    stream.append(topic, 0, values("a", 2))
    finish = stream.open_transaction(topic, 0, values("open", 3))
    stream.append(topic, 0, values("b", 1))
    with Gatherer(stream.supplier(topic)) as reader:
        reader.assign({0: 0})
        reader.read_to({0: 2})
        reader.poll(100)
        assert reader.positions() == {0: 2}
        assert reader.supplier.last_stable([0]) == {0: 2}
        assert reader.supplier.latest([0]) == {0: 6}
        finish(False)
        reader.read_to({0: 7})
        assert [value for _, value in reader.records[0]] == [b"a0", b"a1", b"b0"]


def test_a_range_of_aborted_records_moves_the_position_without_records(stream: Stream) -> None:
    topic = stream.topic(1)
    stream.transaction(topic, 0, values("gone", 5), commit=False)
    with Gatherer(stream.supplier(topic)) as reader:
        reader.assign({0: 0})
        reader.read_to({0: 6})
        assert reader.records.get(0, []) == []
        assert [(poll.first_offset, poll.end_offset) for poll in reader.polls] == [(0, 6)]


def test_compaction_holes_are_passed_over(stream: Stream) -> None:
    topic = stream.holes()
    with Gatherer(stream.supplier(topic)) as reader:
        reader.assign({0: 0})
        reader.read_to(reader.supplier.latest([0]))
        offsets = [offset for offset, _ in reader.records[0]]
        assert offsets == sorted(set(offsets))
        assert len(offsets) < reader.positions()[0], "there must be holes"


def test_empty_partitions_stand_at_zero(stream: Stream) -> None:
    topic = stream.topic(3)
    with Gatherer(stream.supplier(topic)) as reader:
        assert reader.supplier.partitions() == [0, 1, 2]
        assert reader.supplier.earliest([0, 1, 2]) == {0: 0, 1: 0, 2: 0}
        assert reader.supplier.latest([0, 1, 2]) == {0: 0, 1: 0, 2: 0}
        reader.assign({0: 0, 1: 0, 2: 0})
        assert reader.poll(10) == []
        assert reader.positions() == {0: 0, 1: 0, 2: 0}


def test_new_partitions_are_seen(stream: Stream) -> None:
    topic = stream.topic(1)
    with Gatherer(stream.supplier(topic)) as reader:
        assert reader.supplier.partitions() == [0]
        stream.add_partitions(topic, 3)
        assert reader.supplier.partitions() == [0, 1, 2]
        stream.append(topic, 2, values("c", 4))
        reader.assign({0: 0, 2: 0})
        reader.read_to({2: 4})
        assert len(reader.records[2]) == 4


def test_an_offset_beyond_the_end_is_named_and_the_others_are_read_on(stream: Stream) -> None:
    topic = stream.topic(2)
    stream.append(topic, 0, values("a", 5))
    stream.append(topic, 1, values("b", 5))
    with Gatherer(stream.supplier(topic)) as reader:
        reader.assign({0: 99, 1: 0})
        error = reader.read_to_error()
        assert isinstance(error, OffsetOutOfRange)
        assert (error.partition, error.asked, error.earliest, error.latest) == (0, 99, 0, 5)
        reader.read_to({1: 5})
        assert reader.positions() == {0: 99, 1: 5}, "a position never moves by policy"
        reader.assign({0: 5, 1: 5})
        stream.append(topic, 0, values("c", 1))
        reader.read_to({0: 6})


def test_an_expired_offset_is_named(stream: Stream) -> None:
    topic = stream.topic(1)
    stream.append(topic, 0, values("a", 10))
    stream.truncate(topic, 0, 4)
    with Gatherer(stream.supplier(topic)) as reader:
        assert reader.supplier.earliest([0]) == {0: 4}
        reader.assign({0: 1})
        error = reader.read_to_error()
        assert isinstance(error, OffsetOutOfRange)
        assert (error.asked, error.earliest, error.latest) == (1, 4, 10)


def test_a_recreated_topic_has_another_id(stream: Stream) -> None:
    topic = stream.topic(1)
    stream.append(topic, 0, values("a", 5))
    with Gatherer(stream.supplier(topic)) as reader:
        before = reader.supplier.topic_id()
        assert before is not None
        assert reader.supplier.topic_id() == before
        stream.recreate(topic)
        after = reader.supplier.topic_id()
        assert after is not None and after != before
        assert reader.supplier.latest([0]) == {0: 0}


def test_a_running_reader_is_told_that_its_topic_was_recreated(stream: Stream) -> None:
    topic = stream.topic(1)
    stream.append(topic, 0, values("old", 5))
    with Gatherer(stream.supplier(topic)) as reader:
        reader.assign({0: 0})
        reader.read_to({0: 5})
        reader.settle()
        stream.recreate(topic)
        while not isinstance(error := reader.read_to_error(), TopicRecreated):
            assert isinstance(error, TopicMissing | OffsetOutOfRange)
        assert topic in str(error)
        assert reader.positions() == {0: 5}
        stream.append(topic, 0, values("new", 3))
        assert isinstance(reader.read_to_error(), TopicRecreated), "it must not be forgotten"
    with Gatherer(stream.supplier(topic)) as fresh:
        fresh.assign({0: 0})
        fresh.read_to({0: 3})


def test_nothing_is_taken_from_a_topic_made_again_that_has_grown_past_the_position(stream: Stream) -> None:
    topic = stream.topic(1)
    stream.append(topic, 0, values("old", 5))
    with Gatherer(stream.supplier(topic)) as reader:
        known = reader.supplier.topic_id()
    stream.recreate(topic)
    stream.append(topic, 0, values("new", 9))
    with Gatherer(stream.supplier(topic, topic_id=known)) as restarted:
        restarted.assign({0: 5})
        assert isinstance(restarted.read_to_error(), TopicRecreated)
        assert restarted.records == {} and restarted.positions() == {0: 5}


def test_a_missing_topic_is_named(stream: Stream) -> None:
    supplier = stream.supplier("no_such_topic")
    with pytest.raises(TopicMissing, match="no_such_topic"):
        supplier.partitions()
    with pytest.raises(TopicMissing, match="no_such_topic"):
        supplier.topic_id()
    with pytest.raises(TopicMissing, match="no_such_topic"):
        supplier.latest([0])
    supplier.close()


def test_paused_partitions_are_not_read_until_resumed(stream: Stream) -> None:
    topic = stream.topic(2)
    stream.append(topic, 0, values("a", 5))
    stream.append(topic, 1, values("b", 5))
    with Gatherer(stream.supplier(topic)) as reader:
        reader.assign({0: 0, 1: 0})
        reader.supplier.pause([0])
        reader.read_to({1: 5})
        reader.poll(100)
        assert reader.positions() == {0: 0, 1: 5}
        reader.supplier.resume([0])
        reader.read_to({0: 5})
        assert [offset for offset, _ in reader.records[0]] == [0, 1, 2, 3, 4]


def test_pausing_in_the_middle_loses_and_repeats_nothing(stream: Stream) -> None:
    topic = stream.topic(2)
    stream.append(topic, 0, values("a", 400))
    stream.append(topic, 1, values("b", 400))
    with Gatherer(stream.supplier(topic)) as reader:
        reader.assign({0: 0, 1: 0})
        while reader.positions() != {0: 400, 1: 400}:
            reader.poll(60)
            reader.supplier.pause([0, 1])
            reader.supplier.resume([1, 0])
        assert reader.records[0] == list(enumerate(values("a", 400)))
        assert reader.records[1] == list(enumerate(values("b", 400)))


def test_records_that_arrive_later_are_read(stream: Stream) -> None:
    topic = stream.topic(1)
    with Gatherer(stream.supplier(topic)) as reader:
        reader.assign({0: 0})
        for count in (1, 2, 3):
            assert reader.poll(10) == []
            stream.append(topic, 0, values("a", 1))
            reader.read_to({0: count})


def test_suppliers_are_ports() -> None:
    from ingest.stream.memory import MemoryStream, MemorySupplier

    port: RecordSupplier = MemorySupplier(MemoryStream(), "t")
    port.close()
