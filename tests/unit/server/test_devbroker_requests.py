"""The development broker's requests: whatever a client sends, the broker goes on and keeps its logs."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from server.devbroker.server import FRAME_BYTES_MAX, Dispatcher, serve_connection
from server.devbroker.store import FolderInUse, Store
from server.devbroker.topics import Address
from server.devbroker.wire import Malformed, Reader, Writer
from tests.searching import examples
from tests.unit.server.record_batches import batch

PRODUCE, FETCH, LIST, METADATA, API_VERSIONS, CREATE, DELETE = 0, 1, 2, 3, 18, 19, 20


class Broker:
    """A dispatcher on a folder, with a loop to run it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = Store(folder)
        self.store.create("t", 2)
        self.dispatcher = Dispatcher(self.store, Address("127.0.0.1", 9092))
        self.runner = asyncio.Runner()

    def ask(self, frame: bytes) -> bytes | None:
        return self.runner.run(self.dispatcher.answer(frame))

    def close(self) -> None:
        self.runner.close()
        self.store.close()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    made = Broker(tmp_path / "data")
    yield made
    made.close()


def frame(key: int, version: int, body: Writer) -> bytes:
    head = Writer().i16(key).i16(version).i32(7).text("me")
    return head.done() + (b"\0" if body.flexible else b"") + body.done()


def produce(topic: str, partition: int, data: bytes) -> bytes:
    w = Writer().text(None).i16(-1).i32(1000)
    w.array([0], lambda _: w.text(topic).array([0], lambda _: w.i32(partition).blob(data)))
    return frame(PRODUCE, 3, w)


def fetch(partition: int, offset: int, wait_ms: int = 0) -> bytes:
    w = Writer().i32(-1).i32(wait_ms).i32(1).i32(1 << 20).i8(0)
    w.array([0], lambda _: w.text("t").array([0], lambda _: w.i32(partition).i64(offset).i32(1 << 20)))
    return frame(FETCH, 4, w)


def error_of(answer: bytes | None, at: int) -> int:
    assert answer is not None
    return int(struct.unpack_from(">h", answer, at)[0])


def test_a_produced_batch_is_fetched(broker: Broker) -> None:
    assert error_of(broker.ask(produce("t", 1, batch([b"hello"]))), 4 + 4 + 3 + 4 + 4) == 0
    answer = broker.ask(fetch(1, 0))
    assert answer is not None and b"hello" in answer


def test_a_fetch_waits_for_the_next_record(broker: Broker) -> None:
    async def both() -> bytes | None:
        waiting = asyncio.ensure_future(broker.dispatcher.answer(fetch(0, 0, wait_ms=20_000)))
        await asyncio.sleep(0)
        await broker.dispatcher.answer(produce("t", 0, batch([b"woken"])))
        return await asyncio.wait_for(waiting, 10)

    answer = broker.runner.run(both())
    assert answer is not None and b"woken" in answer


def test_asking_for_a_topic_does_not_make_it(broker: Broker) -> None:
    w = Writer()
    w.array(["ghost"], w.text).i8(1)
    assert b"ghost" in (broker.ask(frame(METADATA, 4, w)) or b"")
    assert set(broker.store.topics) == {"t"}


def test_a_version_that_is_too_new_is_answered_in_the_oldest(broker: Broker) -> None:
    answer = broker.ask(frame(API_VERSIONS, 9, Writer()))
    assert error_of(answer, 4) == 35
    with pytest.raises(Malformed, match="not announced"):
        broker.ask(frame(FETCH, 99, Writer()))


def test_a_store_survives_a_restart_with_topic_ids_offsets_and_producer_ids(tmp_path: Path) -> None:
    first = Broker(tmp_path / "data")
    first.ask(produce("t", 0, batch([b"a", b"b"])))
    topic_id, producer = first.store.topics["t"].topic_id, first.store.producer_id()
    first.store.commit("g", "t", 0, 2, "note")
    with pytest.raises(FolderInUse):
        Store(tmp_path / "data")
    first.close()
    again = Store(tmp_path / "data")
    assert again.topics["t"].topic_id == topic_id
    assert again.topics["t"].logs[0].next_offset == 2
    assert again.committed == {("g", "t", 0): (2, "note")}
    assert again.producer_id() > producer
    again.delete(again.topics["t"])
    assert again.create("t", 1).topic_id != topic_id
    again.close()


def test_a_partition_that_outgrows_its_bound_drops_its_oldest_records(tmp_path: Path) -> None:
    store = Store(tmp_path / "data", retention_bytes=100_000)
    topic = store.create("t", 1)
    for _ in range(300):
        topic.logs[0].append(memoryview(batch([b"x" * 1000])), 1 << 20)
        store.retain(topic, 0)
    log = topic.logs[0]
    assert log.next_offset == 300 and log.start_offset > 150
    assert log.size - log.start_position <= 100_000
    store.close()


def known_frames() -> list[bytes]:
    """Requests that are answered, as seeds of what is not."""
    listed = Writer().i32(-1)
    listed.array([0], lambda _: listed.text("t").array([0], lambda _: listed.i32(0).i64(-1)))
    made = Writer()
    made.array([0], lambda _: made.text("u").i32(1).i16(1).array([], made.i32).array([], made.i32)).i32(1000)
    flexible = Writer(True)
    flexible.array([0], lambda _: flexible.raw(bytes(16)).text("t").tags()).i8(0).i8(0).tags()
    gone = Writer()
    gone.array(["u"], gone.text).i32(1000)
    return [
        produce("t", 0, batch([b"a", b"b"], producer=(3, 0, 0))),
        fetch(0, 0),
        frame(LIST, 1, listed),
        frame(METADATA, 12, flexible),
        frame(API_VERSIONS, 3, Writer(True).text("c").text("1").tags()),
        frame(CREATE, 0, made),
        frame(DELETE, 0, gone),
    ]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A known frame with bytes changed, cut out or put in; or any bytes behind a request's header."""
    if draw(st.booleans()):
        key, version = draw(st.integers(-1, 40)), draw(st.integers(-1, 13))
        return struct.pack(">hhih", key, version, 1, -1) + draw(st.binary(max_size=200))
    data = bytearray(draw(st.sampled_from(known_frames())))
    for _ in range(draw(st.integers(0, 6))):
        at = draw(st.integers(0, len(data) - 1))
        kind = draw(st.sampled_from(("set", "cut", "put")))
        if kind == "set":
            data[at] = draw(st.integers(0, 255))
        elif kind == "cut" and len(data) > 20:
            del data[at : at + draw(st.integers(1, 8))]
        else:
            data[at:at] = draw(st.binary(max_size=8))
    return bytes(data)


@settings(max_examples=examples(75), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(frames=st.lists(damaged(), min_size=1, max_size=4))
def test_malformed_frames_are_refused_and_nothing_else_happens(broker: Broker, frames: list[bytes]) -> None:
    for sent in frames:
        try:
            answer = broker.ask(sent)
        except Malformed:
            continue
        assert answer is None or len(answer) >= 4
    for topic in broker.store.topics.values():
        for log in topic.logs:
            assert log.start_offset <= log.next_offset
            if log.next_offset > log.start_offset:
                assert log.read(log.next_offset - 1, 1), "the last record can no longer be found"


@pytest.mark.parametrize("size", [-1, 0, 7, FRAME_BYTES_MAX + 1])
def test_a_connection_ends_at_a_frame_of_impossible_size(broker: Broker, size: int) -> None:
    async def talk() -> bytes:
        served = await asyncio.start_server(lambda r, w: serve_connection(broker.dispatcher, r, w), "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*served.sockets[0].getsockname()[:2])
        writer.write(size.to_bytes(4, "big", signed=True))
        answer = await asyncio.wait_for(reader.read(), 5)
        writer.close()
        served.close()
        return answer

    assert broker.runner.run(talk()) == b""


@given(st.binary(max_size=64), st.booleans())
def test_a_reader_never_reads_past_its_bytes(data: bytes, flexible: bool) -> None:
    for read in ("text_or_none", "blob", "varint", "uuid", "i64", "tags"):
        r = Reader(data)
        r.flexible = flexible
        try:
            getattr(r, read)()
        except Malformed:
            continue
        assert 0 <= r.left <= len(data)
