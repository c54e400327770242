"""A slow reader does not hold a worker: its rows wait in memory and on disk, in order, up to a bound."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from ingest.clock import SystemClock
from query.clock import Clock
from query.engine import Engine, EngineSettings
from query.errors import QueryCancelled, QueryFailed
from query.read_ahead import AheadSettings, ReadAhead, Room
from query.runs import Run, Worker
from query.worker_wire import Job, Kind, send
from tests.unit.query.node_steps import until

COUNT = 400_000
MANY = f"SELECT i FROM range({COUNT}) t(i)"
ENDLESS = "SELECT i FROM range(10000000000) t(i)"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("ahead")
    pool = Engine(EngineSettings(workers=1, threads=1), [folder / "files"], folder / "spill", SystemClock())
    pool.start()
    yield pool
    pool.stop()


def numbers(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [int(value) for batch in batches for value in batch.column(0).to_pylist() if value is not None]


@pytest.mark.parametrize("memory_bytes", [1 << 30, 200_000, 0])
def test_the_worker_is_free_before_the_answer_is_read(engine: Engine, tmp_path: Path, memory_bytes: int) -> None:
    ahead = ReadAhead(engine.run(MANY, []), AheadSettings(tmp_path, memory_bytes))
    batches = ahead.batches()
    first = [next(batches) for _ in range(5)]
    until(lambda: engine.running == 0)
    assert not ahead.is_over
    assert numbers(iter(first)) + numbers(batches) == list(range(COUNT))
    assert ahead.is_over and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("count", "text_bytes"), [(1, 0), (5_000, 0), (8_192, 0), (9_000, 0), (30_000, 0), (6_000, 800), (30, 2_000_000)]
)
def test_an_answer_of_few_batches_holds_no_worker_between_two_of_them(
    engine: Engine, tmp_path: Path, count: int, text_bytes: int
) -> None:
    """As of a JDBC driver that has taken the first frame of a long list of columns, and thinks."""
    text = f", repeat('x', {text_bytes})" if text_bytes else ""
    ahead = ReadAhead(engine.run(f"SELECT i{text} FROM range({count}) t(i)", []), AheadSettings(tmp_path))
    batches = ahead.batches()
    first = next(batches)
    until(lambda: engine.running == 0)
    assert numbers(iter([first])) + numbers(batches) == list(range(count))


def test_beyond_the_bound_the_worker_waits_for_its_reader(engine: Engine, tmp_path: Path) -> None:
    ahead = ReadAhead(engine.run(ENDLESS, []), AheadSettings(tmp_path, 100_000, 500_000))
    batches = ahead.batches()
    seen = numbers(next(batches) for _ in range(400))
    assert seen == list(range(len(seen))) and engine.running == 1
    assert ahead._file_end <= 500_000
    ahead.close()
    assert engine.running == 0


def test_answers_together_keep_no_more_than_their_room(tmp_path: Path) -> None:
    room = Room(100_000, 300_000)
    settings = AheadSettings(tmp_path, room=room)
    pool = Engine(EngineSettings(workers=2, threads=1), [tmp_path / "files"], tmp_path / "spill", SystemClock())
    pool.start()
    both = [ReadAhead(pool.run(ENDLESS, []), settings) for _ in range(2)]
    sources = [one.batches() for one in both]
    for _ in range(20):
        # Neither starves where the other has taken all the room there is.
        for source in sources:
            next(source)
    until(lambda: room.disk_left < 70_000)
    assert room.disk_left >= 0 and sum(one._file_end for one in both) <= 300_000
    for one in both:
        one.close()
    assert (room.memory_left, room.disk_left) == (100_000, 300_000)
    pool.stop()


def test_a_small_answer_needs_no_thread_and_one_that_is_left_ends_its_query(engine: Engine, tmp_path: Path) -> None:
    small = ReadAhead(engine.run("SELECT 7 AS x", []), AheadSettings(tmp_path))
    assert numbers(small.batches()) == [7] and small.is_over and small._thread is None
    for taken in (0, 1, 30):
        left = ReadAhead(engine.run(ENDLESS, []), AheadSettings(tmp_path, 100_000, 200_000))
        batches = left.batches()
        for _ in range(taken):
            next(batches)
        left.close()
        assert engine.running == 0


@pytest.mark.parametrize("at_the_bound", [True, False])
def test_a_cancelled_query_fails_at_once_whatever_waits(engine: Engine, tmp_path: Path, at_the_bound: bool) -> None:
    run = engine.run(ENDLESS, [])
    ahead = ReadAhead(run, AheadSettings(tmp_path, 100_000, 1 << 20))
    batches = ahead.batches()
    for _ in range(6):
        next(batches)
    if at_the_bound:
        until(lambda: ahead._file_end > (1 << 20) - 70_000)
    run.cancel()
    until(lambda: engine.running == 0)
    with pytest.raises(QueryCancelled):
        list(batches)
    ahead.close()


class Taker:
    """A pool that takes a worker back."""

    clock: Clock = SystemClock()

    def give_back(self, run: Run, worker: Worker, reusable: bool) -> None:
        worker.discard()


def test_a_batch_that_cannot_be_read_fails_the_query_and_nobody_waits_for_ever(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    job = Job(1, "SELECT 1", ())
    run = Run(Taker(), Worker(subprocess.Popen(["sleep", "60"]), ours, str(tmp_path / "left")), job, 0)
    batch = pa.record_batch({"i": [1]})
    send(theirs, Kind.SCHEMA, batch.schema.serialize())
    for _ in range(6):
        send(theirs, Kind.BATCH, batch.serialize())
    send(theirs, Kind.BATCH, b"no batch at all")
    run.begin(job)
    ahead = ReadAhead(run, AheadSettings(tmp_path))
    with pytest.raises(QueryFailed, match="ArrowInvalid"):
        list(ahead.batches())
    theirs.close()
    ahead.close()
    assert run.is_over


def test_a_disk_that_takes_nothing_fails_the_query_by_name(engine: Engine, tmp_path: Path) -> None:
    ahead = ReadAhead(engine.run(ENDLESS, []), AheadSettings(tmp_path / "absent", 0))
    with pytest.raises(QueryFailed, match="cannot be kept"):
        list(ahead.batches())
    ahead.close()
    assert engine.running == 0
