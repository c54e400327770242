"""A stream up to given offsets, on the memory twin and on every broker."""

from __future__ import annotations

import pytest

from ingest.stream.bounded import BoundedSupplier, within
from tests.contract.streams import Gatherer, MemoryBroker, Stream, values
from tests.contract.test_record_supplier import STREAMS


@pytest.fixture(params=STREAMS)
def stream(request: pytest.FixtureRequest) -> Stream:
    if request.param == "memory":
        return MemoryBroker()
    from tests.contract.kafka_broker import KafkaBroker

    return KafkaBroker(request.getfixturevalue(request.param))


def test_nothing_at_or_past_an_end_is_read_or_told(stream: Stream) -> None:
    topic = stream.topic(3)
    for partition in range(3):
        stream.append(topic, partition, values("a", 100))
    supplier = BoundedSupplier(stream.supplier(topic), {0: 40, 1: 7})
    assert supplier.partitions() == [0, 1]
    assert supplier.latest([0, 1]) == supplier.last_stable([0, 1]) == {0: 40, 1: 7}
    with Gatherer(supplier) as reader:
        reader.assign({0: 30, 1: 7})
        reader.read_to({0: 40})
        assert [offset for offset, _ in reader.records[0]] == list(range(30, 40))
        assert reader.poll(100) == [] and reader.positions() == {0: 40, 1: 7}
        reader.supplier.pause([0, 1])
        reader.supplier.resume([0, 1])
        assert reader.poll(100) == []
        reader.assign({0: 39, 1: 5})
        reader.read_to({0: 40, 1: 7})


def test_an_end_in_the_middle_of_what_is_invisible_is_reached(stream: Stream) -> None:
    topic = stream.topic(1)
    stream.append(topic, 0, values("a", 5))
    stream.transaction(topic, 0, values("b", 10), commit=False)
    stream.append(topic, 0, values("c", 5))
    with Gatherer(within(stream.supplier(topic), {0: 9})) as reader:
        reader.assign({0: 0})
        reader.read_to({0: 9})
        assert [value for _, value in reader.records[0]] == values("a", 5)


def test_without_ends_the_supplier_is_as_it_is() -> None:
    broker = MemoryBroker()
    supplier = broker.supplier(broker.topic(1))
    assert within(supplier, None) is supplier
