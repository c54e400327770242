"""How far behind in time tasks are, measured through the stream port, on the memory twin and on every broker."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

import pytest

from ingest.clock import ManualClock, SystemClock
from ingest.offsets import OffsetMap
from ingest.stream.memory import MemoryStream, MemorySupplier
from ingest.stream.supplier import RecordSupplier
from ingest.supervisor.time_lags import TimeLags
from tests.contract.streams import DEADLINE_S, Stream, values
from tests.contract.test_record_supplier import STREAMS

NOON_MS = 1_700_000_000_000


@pytest.fixture(params=STREAMS)
def stream(request: pytest.FixtureRequest) -> Stream:
    if request.param == "memory":
        from tests.contract.streams import MemoryBroker

        return MemoryBroker()
    from tests.contract.kafka_broker import KafkaBroker

    return KafkaBroker(request.getfixturevalue(request.param))


def measured(lags: TimeLags, read: Mapping[int, int], ends: OffsetMap) -> OffsetMap:
    """What is measured once every partition's time could be learnt, which a busy broker may answer late."""
    end = time.monotonic() + DEADLINE_S
    while (told := lags.measure(read, ends)).keys() != ends.keys():
        assert time.monotonic() < end, f"only {told} of {ends}"
    return told


def test_it_is_the_newest_records_time_less_that_of_the_first_unread_one(stream: Stream) -> None:
    topic = stream.topic(3)
    for at in range(40):
        stream.append(topic, 0, [b"a"], timestamp_ms=NOON_MS + at * 1_000)
    stream.append(topic, 1, values("b", 5), timestamp_ms=NOON_MS)
    lags = TimeLags(lambda: stream.supplier(topic), 0, SystemClock())
    ends = OffsetMap({0: 40, 1: 5, 2: 0})
    assert measured(lags, {0: 10, 1: 5, 2: 0}, ends) == OffsetMap({0: 29_000, 1: 0, 2: 0})
    assert measured(lags, {0: 39, 1: 0, 2: 0}, ends) == OffsetMap({0: 0, 1: 0, 2: 0})
    lags.close()


def test_markers_at_the_end_hide_no_newest_record(stream: Stream) -> None:
    topic = stream.topic(1)
    stream.append(topic, 0, [b"a"], timestamp_ms=NOON_MS)
    stream.append(topic, 0, [b"b"], timestamp_ms=NOON_MS + 5_000)
    stream.transaction(topic, 0, values("c", 3), commit=False)
    lags = TimeLags(lambda: stream.supplier(topic), 0, SystemClock())
    ends = OffsetMap(stream.supplier(topic).latest([0]))
    assert measured(lags, {0: 0}, ends) == OffsetMap({0: 0}), (
        "16 before the end is the first record again: a lower bound"
    )
    for _ in range(20):
        stream.append(topic, 0, [b"d"], timestamp_ms=NOON_MS + 9_000)
    stream.transaction(topic, 0, values("e", 3), commit=False)
    ends = OffsetMap(stream.supplier(topic).latest([0]))
    assert measured(lags, {0: 0}, ends) == OffsetMap({0: 9_000})
    lags.close()


def test_it_is_measured_anew_only_when_it_is_due_and_not_while_the_broker_is_away() -> None:
    stream, clock = MemoryStream(), ManualClock()
    stream.create_topic("t", 1)
    stream.append("t", 0, [b"a"], timestamp_ms=NOON_MS)
    stream.append("t", 0, [b"b"], timestamp_ms=NOON_MS + 7_000)
    built: list[RecordSupplier] = []

    def supplier() -> RecordSupplier:
        built.append(MemorySupplier(stream, "t"))
        return built[-1]

    lags, ends = TimeLags(supplier, 30_000, clock), OffsetMap({0: 2})
    assert lags.measure({0: 0}, ends) == OffsetMap({0: 7_000})
    assert lags.measure({0: 2}, ends) == OffsetMap({0: 7_000}), "not due yet"
    stream.unreachable()
    clock.advance(30_000)
    assert lags.measure({0: 0}, ends) == OffsetMap(), "not known, which is told as nothing"
    stream.unreachable(False)
    clock.advance(30_000)
    assert lags.measure({0: 0}, ends) == OffsetMap({0: 7_000})
    assert len(built) == 2, "after trouble with a supplier of its own"


class Slow(MemorySupplier):
    """Each question of the ends takes ``takes_ms`` of the clock."""

    takes_ms = 0

    def __init__(self, stream: MemoryStream, clock: ManualClock) -> None:
        super().__init__(stream, "t")
        self._clock = clock

    def last_stable(self, partitions: Collection[int]) -> dict[int, int]:
        self._clock.advance(self.takes_ms)
        return super().last_stable(partitions)


def test_who_could_not_be_asked_to_the_end_is_not_told_as_without_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, clock = MemoryStream(), ManualClock()
    stream.create_topic("t", 1)
    stream.append("t", 0, [b"a"], timestamp_ms=NOON_MS)
    stream.append("t", 0, [b"b"], timestamp_ms=NOON_MS + 7_000)
    lags = TimeLags(lambda: Slow(stream, clock), 0, clock)
    assert lags.measure({0: 0}, OffsetMap({0: 2})) == OffsetMap({0: 7_000})
    monkeypatch.setattr(Slow, "takes_ms", 1_100)
    assert lags.measure({0: 0}, OffsetMap({0: 2})) == OffsetMap()
