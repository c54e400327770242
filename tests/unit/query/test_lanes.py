"""Who gets the next worker: by priority and order, and never all workers for long queries."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import query.engine
from ingest.clock import SystemClock
from query.engine import Engine, EngineSettings
from query.errors import InvalidQuery, QueryTimeout, QueryUnavailable
from query.lanes import Claim, Lanes, Ticket
from query.runs import Run, Worker
from query.worker_start import WorkerStarter
from tests.unit.query.node_steps import until
from tests.unit.query.rows import planned


def order(lanes: Lanes, tickets: dict[str, Ticket]) -> list[str]:
    """Gives workers that are never given back, until nobody may have one."""
    got = []
    while name := next((name for name, ticket in tickets.items() if lanes.next() == ticket), None):
        ticket = tickets.pop(name)
        lanes.leave(ticket)
        lanes.begin(ticket.is_long)
        got.append(name)
    return got


def test_queries_go_by_priority_then_by_their_coming() -> None:
    lanes = Lanes(9)
    claims = {"a": Claim(), "b": Claim(5), "c": Claim(), "d": Claim(5), "e": Claim(-1)}
    assert order(lanes, {name: lanes.join(claim, 7) for name, claim in claims.items()}) == ["b", "d", "a", "c", "e"]


def test_a_short_query_overtakes_longer_ones_but_not_for_ever() -> None:
    lanes = Lanes(9)
    reading = {"long": (0, 2_000_000), "middle": (10, 1_000_000), "short": (100, 1_000), "late": (501, 0)}
    tickets = {name: lanes.join(Claim(rows=rows), at_ms) for name, (at_ms, rows) in reading.items()}
    assert order(lanes, tickets) == ["short", "middle", "long", "late"]


@pytest.mark.parametrize(("workers", "long_at_once"), [(1, 1), (2, 1), (4, 3)])
def test_long_queries_leave_a_worker_to_the_short(workers: int, long_at_once: int) -> None:
    lanes = Lanes(workers)
    names = [f"long{n}" for n in range(6)]
    tickets = {name: lanes.join(Claim(9, is_long=True), 0) for name in names}
    tickets["short"] = lanes.join(Claim(), 0)
    assert order(lanes, dict(tickets)) == [*names[:long_at_once], "short"]
    lanes.end(is_long=True)
    assert lanes.next() == tickets[names[long_at_once]]


def test_a_query_that_turns_out_long_counts_as_such_from_then_on() -> None:
    lanes = Lanes(3)
    lanes.begin(is_long=False)
    lanes.begin(is_long=True)
    waits = lanes.join(Claim(is_long=True), 0)
    assert lanes.next() == waits
    lanes.lengthen()
    assert lanes.next() is None and lanes.join(Claim(), 1) == lanes.next()
    lanes.end(is_long=True)
    assert lanes.next() == waits


def test_a_query_says_of_itself_how_urgent_it_is() -> None:
    assert [(one.priority, one.is_low) for one in (planned("SELECT 1", priority=p) for p in (3, "-2", None))] == [
        (3, False),
        (-2, True),
        (0, False),
    ]
    assert planned("SELECT 1", lane="low").is_low and not planned("SELECT 1", lane="interactive").is_low
    with pytest.raises(InvalidQuery, match="context priority"):
        planned("SELECT 1", priority="high")


@pytest.mark.parametrize(
    ("statement", "is_small"),
    [
        ("SELECT COUNT(*) FROM t", True),
        ("SELECT 1 + SUM(n), MAX(s) AS m FROM t", True),
        ("SELECT COUNT(*) FILTER (WHERE n > 1) AS x FROM t", True),
        ("SELECT s, COUNT(*) FROM t GROUP BY 1", False),
        ("SELECT s, COUNT(*) FROM t GROUP BY 1 ORDER BY 2 DESC LIMIT 10", True),
        ("SELECT s FROM t LIMIT 1000000", False),
        ("SELECT SUM(n) OVER (ORDER BY s) FROM t", False),
        ("SELECT s FROM t WHERE n = (SELECT MAX(n) FROM t)", False),
        ("SELECT COUNT(*) FROM t UNION ALL SELECT n FROM t", False),
    ],
)
def test_a_statement_says_of_itself_that_its_answer_is_small(statement: str, is_small: bool) -> None:
    assert planned(statement).is_small is is_small


class Long:
    """The owner of a long statement; ``waits`` is set once it waits for a worker."""

    claim = Claim(is_long=True)

    def __init__(self) -> None:
        self.waits = threading.Event()

    def started(self, run: Run) -> None:
        """Nothing."""

    def check(self) -> None:
        self.waits.set()


class Late:
    """The owner of a statement that does not count as long by its time: its begin lies ahead."""

    claim = Claim()

    def started(self, run: Run) -> None:
        run.begun_ms += 1_000_000

    def check(self) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("lanes")
    settings = EngineSettings(workers=2, threads=1, nice=3, long_ms=100, long_bytes=1 << 20)
    pool = Engine(settings, [folder / "files"], folder / "spill", SystemClock())
    pool.start()
    yield pool
    pool.stop()


def test_all_workers_are_warm_soon_after_the_start_and_after_one_was_killed_with_a_query_or_without(
    engine: Engine,
) -> None:
    until(lambda: len(engine._idle) == 2)
    run = engine.run(ENDLESS, [])
    os.kill(run.pid, signal.SIGKILL)
    with pytest.raises(QueryUnavailable):
        list(run.batches())
    until(lambda: len(engine._idle) >= 2 and run.pid not in idle_pids(engine))
    idle = idle_pids(engine)[0]
    os.kill(idle, signal.SIGKILL)
    until(lambda: len(engine._idle) >= 2 and idle not in idle_pids(engine))


def idle_pids(engine: Engine) -> list[int]:
    return [worker.process.pid for worker in engine._idle]


def test_a_short_query_gets_a_worker_while_long_ones_wait_for_it(engine: Engine) -> None:
    held = engine.run("SELECT i FROM range(100000000) t(i)", [], owner=Long())
    # Workers stand back behind tasks.
    assert os.getpriority(os.PRIO_PROCESS, held.pid) == min(3 + os.nice(0), 19) and os.getsid(held.pid) == held.pid
    second, answers = Long(), list[object]()
    waiting = threading.Thread(target=lambda: answers.append(list(engine.run("SELECT 2", [], owner=second).batches())))
    waiting.start()
    assert second.waits.wait(10)
    assert [batch.to_pylist() for batch in engine.run("SELECT 1 AS x", []).batches()] == [[{"x": 1}]] and not answers
    held.close()
    waiting.join(10)
    assert len(answers) == 1


ENDLESS = "SELECT i FROM range(100000000000) t(i)"


def test_a_short_query_finds_a_worker_while_others_that_seemed_short_tell_without_an_end(engine: Engine) -> None:
    told = [engine.run(ENDLESS, []) for _ in range(2)]
    held = {run.pid for run in told}
    short = engine.run("SELECT 1 AS x", [], 20_000)
    assert short.pid not in held and [batch.num_rows for batch in short.batches()] == [1]
    # Long ones do not get the place that is kept for short ones.
    with pytest.raises(QueryTimeout):
        engine.run("SELECT 2", [], 200, owner=Long())
    assert all(run.is_long for run in told)
    for run in told:
        run.close()


def test_a_query_that_has_told_much_is_long_whatever_its_time(engine: Engine) -> None:
    run = engine.run(ENDLESS, [], owner=Late())
    assert not run.is_long
    batches = run.batches()
    while not run.is_long:
        next(batches)
    assert run.told_bytes >= 1 << 20
    run.close()


def test_the_spare_worker_stays_for_as_long_as_long_queries_hold_all_others(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("query.engine._SPARE_RESTS_MS", 50)
    until(lambda: engine._count == 2 and len(engine._idle) == 2)
    told = [engine.run(ENDLESS, []) for _ in range(2)]
    until(lambda: len(engine._idle) == 1)
    [spare] = idle_pids(engine)
    until(lambda: engine.clock.monotonic_ms() - engine._idle[0].idle_since_ms > 500 if engine._idle else True)
    assert idle_pids(engine) == [spare]
    for run in told:
        run.close()
    until(lambda: engine._count == 2 and len(engine._idle) == 2)


class NoThread(threading.Thread):
    """What a machine gives that has no more threads."""

    fails = True

    def start(self) -> None:
        """As the real one, the second time."""
        if self.name == "query-worker-start" and NoThread.fails:
            NoThread.fails = False
            raise RuntimeError("can't start new thread")
        super().start()


def test_the_owner_of_the_workers_survives_that_there_is_no_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("query.engine._START_AGAIN_MS", 10)
    monkeypatch.setattr("query.engine.threading.Thread", NoThread)
    pool = Engine(EngineSettings(workers=1, threads=1), [tmp_path / "files"], tmp_path / "spill", SystemClock())
    pool.start()
    try:
        assert [batch.num_rows for batch in pool.run("SELECT 1", [], 5_000).batches()] == [1]
        assert len(list((tmp_path / "spill").iterdir())) == 1
    finally:
        pool.stop()


class OneComes(WorkerStarter):
    """Its first worker comes at once, the others never: they are processes that say nothing."""

    def start(self) -> Worker:
        """As the real one, once."""
        if not any(self.temp_dir.iterdir()):
            return super().start()
        ours, theirs = socket.socketpair()
        with theirs:
            return Worker(subprocess.Popen(["sleep", "60"], stdin=theirs.fileno()), ours, str(self.temp_dir / "never"))


def test_no_query_waits_for_a_worker_that_is_starting_while_a_warm_one_comes_free(tmp_path: Path) -> None:
    pool = Engine(EngineSettings(workers=2, threads=1), [tmp_path / "files"], tmp_path / "spill", SystemClock())
    real = pool._starter
    pool._starter = OneComes(real.roots, real.temp_dir, real.memory_bytes, real.temp_bytes, real.threads, real.nice)
    pool.start()
    try:
        for _ in range(2):
            held = pool.run(ENDLESS, [], 20_000)
            waiting = threading.Thread(target=lambda: list(pool.run("SELECT 2", [], 20_000).batches()))
            waiting.start()
            until(lambda: pool.waiting == 1)
            held.close()
            waiting.join(20)
            assert not waiting.is_alive()
    finally:
        pool.stop()


class OneSaysNothing(OneComes):
    """Its first process says nothing, the others come, however long they take."""

    def start(self) -> Worker:
        """As the real one, but for the first."""
        asked = self.temp_dir / "asked"
        if asked.exists():
            query.engine._STARTS_MS = 60_000
            return WorkerStarter.start(self)
        asked.mkdir()
        return super().start()


def test_a_worker_that_does_not_come_up_does_not_hold_up_others_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query.engine, "_STARTS_MS", 50)
    monkeypatch.setattr(query.engine, "_START_AGAIN_MS", 10)
    monkeypatch.setattr(query.engine, "_REST_LOOK_S", 0.02)
    pool = Engine(EngineSettings(workers=1, threads=1), [tmp_path / "files"], tmp_path / "spill", SystemClock())
    real = pool._starter
    pool._starter = OneSaysNothing(
        real.roots, real.temp_dir, real.memory_bytes, real.temp_bytes, real.threads, real.nice
    )
    pool.start()
    try:
        assert [batch.num_rows for batch in pool.run("SELECT 1", [], 20_000).batches()] == [1]
    finally:
        pool.stop()
