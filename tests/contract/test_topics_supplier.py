"""Several topics as one stream of numbered partitions, on the memory twin and on every broker."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

import pytest

from ingest.errors import StreamError
from ingest.protocol import Place, Source, split_ids
from ingest.protocol.places import numbered
from ingest.stream.memory import MemorySupplier
from ingest.stream.supplier import OffsetOutOfRange, RecordSupplier, TopicMissing, TopicRecreated
from ingest.stream.topics import TopicsSupplier, matching
from tests.contract.streams import Gatherer, MemoryBroker, Stream, values
from tests.contract.test_record_supplier import STREAMS


@pytest.fixture(params=STREAMS)
def stream(request: pytest.FixtureRequest) -> Stream:
    if request.param == "memory":
        return MemoryBroker()
    from tests.contract.kafka_broker import KafkaBroker

    return KafkaBroker(request.getfixturevalue(request.param))


def reader(stream: Stream, places: Sequence[Place], topic_id: str | None = None) -> RecordSupplier:
    return stream.topics_supplier(places, topic_id)


class Names:
    """A store's numbering, in memory."""

    def __init__(self) -> None:
        self.places: tuple[Place, ...] = ()
        self.asked: list[list[Source]] = []

    def __call__(self, found: Sequence[Source], ids: Mapping[str, str]) -> Sequence[Place]:
        self.asked.append(sorted(found))
        self.places = numbered(self.places, found)
        return self.places


def observer(
    stream: Stream, topics: Callable[[], Collection[str]], names: Names, pattern: str = ".*"
) -> RecordSupplier:
    return stream.topics_observer(pattern, topics, names)


def test_records_of_all_topics_come_under_their_numbers_and_say_where_from(stream: Stream) -> None:
    first, second = stream.topic(2), stream.topic(1)
    stream.append(first, 0, values("a", 70))
    stream.append(first, 1, values("b", 30))
    stream.append(second, 0, values("c", 50))
    places = [Place(0, first, 0), Place(1, second, 0), Place(2, first, 1)]
    with Gatherer(reader(stream, places)) as gathered:
        gathered.assign({0: 0, 1: 0, 2: 0})
        gathered.read_to({0: 70, 1: 50, 2: 30})
        assert gathered.records[1] == list(enumerate(values("c", 50)))
        assert gathered.records[2] == list(enumerate(values("b", 30)))
        assert {poll.partition: poll.source for poll in gathered.polls} == {
            0: (first, 0),
            1: (second, 0),
            2: (first, 1),
        }


def test_what_is_paused_or_not_assigned_of_a_topic_is_not_read(stream: Stream) -> None:
    first, second = stream.topic(1), stream.topic(1)
    for topic in (first, second):
        stream.append(topic, 0, values("a", 10))
    with Gatherer(reader(stream, [Place(0, first, 0), Place(1, second, 0)])) as gathered:
        gathered.assign({0: 0, 1: 0})
        gathered.supplier.pause([1])
        gathered.read_to({0: 10})
        gathered.poll(100)
        assert 1 not in gathered.records
        gathered.supplier.resume([1])
        gathered.read_to({1: 10})
        gathered.assign({1: 4})
        gathered.read_to({1: 10})
        assert 0 not in gathered.records and len(gathered.records[1]) == 6


def test_offsets_are_told_by_number(stream: Stream) -> None:
    first, second = stream.topic(1), stream.topic(2)
    stream.append(first, 0, values("a", 7))
    stream.append(second, 1, values("b", 9))
    supplier = reader(stream, [Place(0, first, 0), Place(5, second, 1), Place(6, second, 0)])
    assert supplier.earliest([0, 5, 6]) == {0: 0, 5: 0, 6: 0}
    assert supplier.latest([0, 5]) == supplier.last_stable([0, 5]) == {0: 7, 5: 9}
    supplier.close()


def test_a_position_that_does_not_exist_is_named_by_its_number_and_stops_no_other_topic(stream: Stream) -> None:
    first, second = stream.topic(1), stream.topic(1)
    stream.append(first, 0, values("a", 5))
    stream.append(second, 0, values("b", 5))
    with Gatherer(reader(stream, [Place(3, first, 0), Place(8, second, 0)])) as gathered:
        gathered.assign({3: 99, 8: 0})
        error = gathered.read_to_error()
        assert isinstance(error, OffsetOutOfRange) and error.partition == 3 and error.topic == first
        gathered.read_to({8: 5})


def test_new_topics_and_partitions_that_match_join_under_new_numbers(stream: Stream) -> None:
    topics = [stream.topic(2)]
    names = Names()
    watching = observer(stream, lambda: topics, names)
    ids = split_ids(watching.topic_id())
    assert watching.partitions() == [0, 1] and set(ids) in ({topics[0]}, set())
    assert watching.partitions() == [0, 1] and len(names.asked) == 1, "what has a number is not asked for again"
    topics.append(stream.topic(1))
    stream.append(topics[1], 0, values("a", 3))
    stream.add_partitions(topics[0], 3)
    assert watching.partitions() == [0, 1, 2, 3]
    assert {place.name for place in names.places[2:]} == {f"{topics[0]}:2", f"{topics[1]}:0"}
    [joined] = [place.number for place in names.places if place.topic == topics[1]]
    assert watching.latest([joined]) == {joined: 3}
    watching.close()


def test_a_topic_made_again_is_refused_by_whoever_reads_the_old_one(stream: Stream) -> None:
    kept, topic = stream.topic(1), stream.topic(1)
    names = Names()
    watching = observer(stream, lambda: [kept, topic], names)
    before = watching.topic_id()
    if topic not in split_ids(before):
        pytest.skip("this broker has no topic ids")
    stream.recreate(topic)
    supplier = reader(stream, names.places, before)
    with pytest.raises(TopicRecreated, match=topic):
        supplier.topic_id()
    supplier.close()
    assert split_ids(watching.topic_id())[kept] == split_ids(before)[kept]
    assert split_ids(watching.topic_id())[topic] != split_ids(before)[topic]
    watching.close()


def test_a_topic_that_is_gone_proves_nothing_against_the_others() -> None:
    broker = MemoryBroker()
    kept, gone = broker.topic(1), broker.topic(1)
    supplier = reader(broker, [Place(0, kept, 0), Place(1, gone, 0)])
    supplier.assign({0: 0, 1: 0})
    broker._stream.delete_topic(gone)
    broker.append(kept, 0, values("a", 2))
    assert [poll.partition for poll in supplier.poll(10, 0)] == [0]
    assert set(split_ids(supplier.topic_id())) == {kept}
    with pytest.raises(TopicMissing):
        supplier.poll(10, 0)


def test_no_matching_topic_is_a_missing_topic() -> None:
    with pytest.raises(TopicMissing, match="topicPattern"):
        observer(MemoryBroker(), lambda: ["b"], Names(), "a.*").partitions()


def test_whole_names_match_and_kafkas_own_topics_never_do() -> None:
    topics = ["clicks-eu", "clicks-us", "clicks", "my-clicks-eu", "__consumer_offsets"]
    assert matching("clicks-.*", topics) == ["clicks-eu", "clicks-us"]
    assert matching("a|clicks", topics) == ["clicks"]
    assert matching(".*", topics) == sorted(set(topics) - {"__consumer_offsets"})
    assert matching("(c|cl)*icks(-(e|eu)+)+", topics) == ["clicks-eu"]
    with pytest.raises(ValueError, match=r"\("):
        matching("(", topics)


def test_topics_take_turns_so_that_none_starves() -> None:
    broker = MemoryBroker()
    topics = [broker.topic(1) for _ in range(3)]
    for topic in topics:
        broker.append(topic, 0, values("a", 100))
    supplier = reader(broker, [Place(at, topic, 0) for at, topic in enumerate(topics)])
    supplier.assign({0: 0, 1: 0, 2: 0})
    first = [supplier.poll(10, 0)[0].partition for _ in range(3)]
    assert sorted(first) == [0, 1, 2]
    assert isinstance(supplier, TopicsSupplier) and isinstance(supplier._of(topics[0]), MemorySupplier)


def test_a_topic_made_again_is_read_no_further_and_the_others_are(stream: Stream) -> None:
    kept, again = stream.topic(1), stream.topic(1)
    names = Names()
    watching = observer(stream, lambda: [kept, again], names)
    ids = watching.topic_id()
    watching.close()
    if again not in split_ids(ids):
        pytest.skip("this broker has no topic ids")
    numbers = {place.topic: place.number for place in names.places}
    stream.append(kept, 0, values("a", 5))
    stream.append(again, 0, values("b", 5))
    with Gatherer(reader(stream, names.places, ids)) as gathered:
        gathered.assign({numbers[kept]: 0, numbers[again]: 0})
        gathered.read_to({numbers[kept]: 5, numbers[again]: 5})
        stream.recreate(again)
        error = gathered.read_to_error()
        assert isinstance(error, TopicRecreated | TopicMissing | OffsetOutOfRange) and error.topic == again
        stream.append(kept, 0, values("c", 5))
        stream.append(again, 0, values("d", 9))
        while gathered.supplier.positions()[numbers[kept]] < 10:
            with suppress(StreamError):
                gathered.poll(100)
        with pytest.raises(TopicRecreated, match=again):
            for _ in range(1_000):
                with suppress(TopicMissing):
                    gathered.poll(100)
        assert [value for _, value in gathered.records[numbers[again]]] == values("b", 5)
        assert gathered.supplier.positions() == {numbers[kept]: 10, numbers[again]: 5}


def test_threads_do_not_grow_with_the_topics_of_a_reader(stream: Stream) -> None:
    def threads(count: int) -> int:
        places = [Place(at, stream.topic(1), 0) for at in range(count)]
        before = len(os.listdir("/proc/self/task"))
        with Gatherer(reader(stream, places)) as gathered:
            gathered.assign(dict.fromkeys(range(count), 0))
            stream.append(places[-1].topic, 0, values("a", 3))
            gathered.read_to({count - 1: 3})
            return len(os.listdir("/proc/self/task")) - before

    assert threads(12) <= threads(2) + 2
