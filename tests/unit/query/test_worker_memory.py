"""A worker's whole memory stays below its limit, whatever a statement makes; what needs more fails by name, alone."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.clock import SystemClock
from query import worker_memory
from query.binding import Function, Relation
from query.engine import EngineSettings
from query.errors import QueryUnavailable, ResourceLimitExceeded
from query.runs import Worker
from query.worker_memory import Memory
from query.worker_wire import STARVED_CODE, root_path
from tests.unit.query.memory_attacks import LARGE, QUICK, WatchedEngine
from tests.unit.query.rows import planned

LIMIT = 192 << 20
ROOMY = "SELECT sum(length(t)) FROM (SELECT DISTINCT i::VARCHAR || repeat('x', 90) AS t FROM range(300000) x(i))"
"""A statement that needs half of the memory of a worker of 256 MiB."""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedEngine]:
    with _engine(tmp_path_factory.mktemp("memory"), LIMIT) as pool:
        yield pool


@contextlib.contextmanager
def _engine(folder: Path, limit: int) -> Iterator[WatchedEngine]:
    settings = EngineSettings(workers=1, threads=2, memory_bytes=limit, temp_bytes=1 << 30)
    pool = WatchedEngine(settings, [folder / "files"], folder / "spill", SystemClock())
    pool.start()
    yield pool
    pool.stop()


@pytest.mark.parametrize("attack", QUICK)
def test_a_statement_that_needs_more_memory_than_its_worker_may_have_fails_alone(
    engine: WatchedEngine, attack: str
) -> None:
    with pytest.raises(ResourceLimitExceeded, match=r"201326592 bytes .* \(query.memory_limit_bytes\)"):
        engine.rows_of(QUICK[attack], LIMIT)
    assert engine.rows_of("SELECT 1", LIMIT) == 1


@pytest.mark.parametrize(
    "statement",
    [
        # Texts of 1 MB: eight thousand of them, as a batch of numbers has, would be more than the worker has.
        "SELECT repeat('a', 1000000 + i) AS t FROM (VALUES (1), (2), (3)) AS v(i), (VALUES (1), (2), (3), (4)) AS w(j)",
        "SELECT i::VARCHAR AS t, [i] AS l FROM range(30000) t(i)",
        "SELECT i, NULL AS n, i::VARCHAR AS t FROM range(1) t(i) WHERE i > 3",
    ],
)
def test_texts_come_in_batches_that_are_bounded_by_their_bytes(engine: WatchedEngine, statement: str) -> None:
    run = engine.run(statement, [])
    batches = list(run.batches())
    rows = [batch.num_rows for batch in batches]
    assert sum(rows) in (0, 12, 30_000) and all(batch.nbytes < 5 << 20 for batch in batches)
    # Small ones are as large as those of numbers.
    assert sum(rows) != 30_000 or rows == [8192, 8192, 8192, 5424]
    run.close()


@pytest.mark.parametrize(("code", "is_memory"), [(STARVED_CODE, True), (-signal.SIGABRT, True), (1, False)])
def test_a_worker_that_ended_for_want_of_memory_is_told_by_name(tmp_path: Path, code: int, is_memory: bool) -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    ends = f"import os, signal; os.kill(os.getpid(), signal.SIGABRT) if {code} < 0 else os._exit({code})"
    worker = Worker(subprocess.Popen([sys.executable, "-S", "-c", ends]), ours, str(tmp_path / "left"), LIMIT)
    told = worker.death()
    assert isinstance(told, ResourceLimitExceeded if is_memory else QueryUnavailable)
    assert ("query.memory_limit_bytes" in told.message) is is_memory
    worker.discard()


def test_a_job_is_ended_when_the_process_nears_its_limit() -> None:
    ended, came = list[int](), threading.Event()

    def end(number: int) -> None:
        ended.append(number)
        came.set()

    memory = Memory(1 << 20, end)  # much less than this process has
    memory.watch()
    memory.begin(7)
    assert came.wait(20) and set(ended) == {7} and memory.is_starved(7) and not memory.is_starved(8)
    assert memory.finish(), "what stays would leave no room for another"
    assert not Memory(1 << 40, end).finish()


class BetweenRests(threading.Event):
    """A job comes when the watcher has found none for long, just before it rests."""

    def __init__(self, begin: Callable[[], None]) -> None:
        super().__init__()
        self.begin = begin

    def clear(self) -> None:
        """As the real one."""
        self.begin()
        super().clear()


def test_a_job_that_comes_as_the_watcher_goes_to_rest_is_watched_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_memory, "_REST_LOOKS", 0)
    came = threading.Event()
    memory = Memory(1 << 20, lambda number: came.set())
    memory._busy = BetweenRests(lambda: memory.begin(8))
    memory._busy.set()
    memory.watch()
    assert came.wait(20) and memory.is_starved(8)
    memory.finish()


@pytest.mark.slow
@pytest.mark.parametrize("limit", [256 << 20, 1 << 30])
def test_no_large_statement_takes_more_memory_than_its_worker_may_have(tmp_path: Path, limit: int) -> None:
    outcomes = dict[str, str]()
    with _engine(tmp_path, limit) as pool:
        for name, statement in (QUICK | LARGE).items():
            try:
                outcomes[name] = f"{pool.rows_of(statement, limit)} rows"
            except ResourceLimitExceeded as refused:
                outcomes[name] = refused.message
            # Whatever it met, the next one finds as much memory as it would have found before.
            assert pool.rows_of(ROOMY, limit) == 1, name
    assert all("rows" in told or "query.memory_limit_bytes" in told for told in outcomes.values())


DRUID = (
    "SELECT APPROX_COUNT_DISTINCT_DS_HLL(s) FROM t",
    "SELECT n, DS_THETA(s, 65536) FROM t GROUP BY n",
    "SELECT DS_QUANTILES_SKETCH(d, 32768) FROM t",
    "SELECT n, DS_QUANTILES_SKETCH(d) FROM t GROUP BY n",
    "SELECT LISTAGG(s, ',', 100000000) FROM t",
    "SELECT ARRAY_AGG(s, 1000000000) FROM t",
    "SELECT ARRAY_AGG(DISTINCT s, 1000000000) FROM t",
    "SELECT MAX(CHAR_LENGTH(REPEAT(s, 100000))) FROM t",
)
CELLS = {"__time": "epoch_ms(i)", "s": "'value number ' || i", "n": "i % 500000", "d": "i * 0.5"}


@pytest.mark.slow
def test_no_aggregate_or_sketch_of_many_values_takes_more_memory_than_its_worker_may_have(tmp_path: Path) -> None:
    limit = 256 << 20
    with _engine(tmp_path, limit) as pool:
        for asked in DRUID:
            plan = planned(asked)
            [use] = plan.tables
            cells = ", ".join(f'{CELLS.get(column.name, "NULL")} AS "{column.internal}"' for column in use.columns)
            rows = Relation(use.relation, f"SELECT {cells} FROM range(4000000) t(i)")
            with contextlib.suppress(ResourceLimitExceeded):
                pool.rows_of(plan.duckdb_sql, limit, [rows], [Function(one.name) for one in plan.functions])
            assert pool.rows_of("SELECT 1", limit) == 1, asked


@pytest.mark.slow
def test_long_texts_in_files_take_no_more_memory_than_a_worker_may_have(tmp_path: Path) -> None:
    limit = 256 << 20
    with _engine(tmp_path, limit) as pool:
        texts = pa.array([f"{n} " * 100_000 for n in range(300)])
        # In small row groups and in one, which the engine reads as a whole.
        for group_rows in (20, 300):
            name = f"{group_rows}.parquet"
            pq.write_table(pa.table({"t": texts}), tmp_path / "files" / name, row_group_size=group_rows)
            rows = Relation("r", f"SELECT * FROM read_parquet('{root_path(0)}/{name}')")
            for asked in ("SELECT max(length(t)) FROM r", "SELECT t FROM r", "SELECT t FROM r ORDER BY t DESC LIMIT 9"):
                with contextlib.suppress(ResourceLimitExceeded):
                    pool.rows_of(asked, limit, [rows])
                assert pool.rows_of("SELECT 1", limit) == 1, asked
