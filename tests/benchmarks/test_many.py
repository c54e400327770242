"""Many things at once: time chunks in a task, supervisors in an overlord, partitions in a supervisor.

Overlord, tasks and store are joined in one process, except for the largest, which is the pure machine alone.
Run with ``make bench``; figures belong in docs/performance.md.
"""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ingest.offsets import OffsetMap
from ingest.protocol import CheckpointAsk, SequenceRef, TaskHeartbeat
from ingest.supervisor import messages as m
from ingest.supervisor.runner import SupervisorRunner
from tests.in_process import HOUR_MS, NOON_MS, LocalActions, System, ThreadWorker, click, eventually, spec
from tests.unit.protocol.test_supervisor_scale import GROUPS, PARTITIONS, large_machine

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]

CHUNKS = 2_000
ROWS = 200_000
SUPERVISORS = 200
IDLE_S = 30.0
WIDE = 500


@dataclass
class Loops:
    """How long supervisors' loops took, an event each: wall-clock and CPU milliseconds."""

    wall_ms: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        ordered = sorted(self.wall_ms)
        p99 = ordered[len(ordered) * 99 // 100]
        late = sum(1 for each in ordered if each > 100)
        return (
            f"{len(ordered)} events of supervisors' loops: median {statistics.median(ordered):.3f} ms, "
            f"p99 {p99:.2f} ms, longest {ordered[-1]:.1f} ms, {late} over 100 ms; "
            f"CPU {sum(self.cpu_ms):.0f} ms, longest {max(self.cpu_ms):.1f} ms"
        )


@pytest.fixture
def loops(monkeypatch: pytest.MonkeyPatch) -> Loops:
    found = Loops()
    handle = SupervisorRunner._handle

    def timed(runner: SupervisorRunner, event: m.Event) -> None:
        wall, cpu = time.perf_counter(), time.thread_time()
        handle(runner, event)
        found.wall_ms.append((time.perf_counter() - wall) * 1_000)
        found.cpu_ms.append((time.thread_time() - cpu) * 1_000)

    monkeypatch.setattr(SupervisorRunner, "_handle", timed)
    return found


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    found = System(tmp_path)
    yield found
    found.stop()


def of(name: str, **tuning: Any) -> dict[str, Any]:
    posted = spec(name, **tuning)
    posted["spec"]["dataSchema"]["dataSource"] = name
    return posted


def test_two_thousand_open_time_chunks_in_one_task(
    system: System, loops: Loops, monkeypatch: pytest.MonkeyPatch
) -> None:
    allocate, asked = LocalActions.allocate, [0]

    def counted(actions: LocalActions, request: Any) -> Any:
        asked[0] += 1
        return allocate(actions, request)

    monkeypatch.setattr(LocalActions, "allocate", counted)
    system.stream.create_topic("clicks", 1)
    system.start()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rows = [click(n, NOON_MS - (n * 997 % CHUNKS) * HOUR_MS) for n in range(ROWS)]
    system.stream.append("clicks", 0, rows)
    system.overlord.submit(spec(maxRowsPerSegment=5_000_000, maxRowsInMemory=50_000))
    began = time.perf_counter()
    eventually(lambda: system.records_read() == ROWS, 300)
    read_s = time.perf_counter() - began
    system.overlord.suspend("clicks")
    eventually(lambda: system.rows_published() == ROWS, 600)
    published_s = time.perf_counter() - began - read_s
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1_024
    print(
        f"\n{ROWS} rows in {CHUNKS} time chunks: read in {read_s:.1f} s, published in "
        f"{published_s:.1f} s, {asked[0]} allocations, {grown} MB more resident memory\n{loops}"
    )
    assert asked[0] == CHUNKS


def test_two_hundred_idle_supervisors_in_one_overlord(system: System, loops: Loops) -> None:
    system.overlord.start()
    eventually(lambda: system.overlord.is_leading)
    system.workers = [ThreadWorker(system, "w", capacity=SUPERVISORS)]
    began = time.perf_counter()
    for number in range(SUPERVISORS):
        name = f"t{number}"
        system.stream.create_topic(name, 1)
        system.stream.append(name, 0, [click(n) for n in range(10)])
        system.overlord.submit(of(name))
    eventually(lambda: len(system.tasks()) == SUPERVISORS, 300, "every supervisor has its task")
    eventually(lambda: all(sum(t.runner.view.positions.values()) == 10 for t in system.tasks()), 300)
    started_s = time.perf_counter() - began
    loops.wall_ms.clear()
    loops.cpu_ms.clear()
    until = time.monotonic() + IDLE_S
    eventually(lambda: time.monotonic() > until, IDLE_S + 10)
    print(
        f"\n{SUPERVISORS} supervisors and their tasks read after {started_s:.1f} s; "
        f"in {IDLE_S:.0f} idle seconds\n{loops}"
    )


def test_five_hundred_partitions_in_one_supervisor(system: System, loops: Loops) -> None:
    system.stream.create_topic("clicks", WIDE)
    system.start()
    for partition in range(WIDE):
        system.stream.append("clicks", partition, [click(n) for n in range(200)])
    began = time.perf_counter()
    system.overlord.submit(spec(taskCount=4, maxRowsPerSegment=10_000))
    eventually(lambda: sum(sum(t.runner.view.positions.values()) for t in system.tasks()) >= WIDE * 200, 300)
    read_s = time.perf_counter() - began
    system.overlord.suspend("clicks")
    eventually(lambda: system.rows_published() == WIDE * 200, 300)
    print(
        f"\n{WIDE * 200} rows of {WIDE} partitions in 4 groups: read in {read_s:.1f} s, published in "
        f"{time.perf_counter() - began - read_s:.1f} s more, {len(system.ledger())} publishes\n{loops}"
    )


def test_ten_thousand_partitions_and_two_thousand_tasks_in_the_machine(capsys: pytest.CaptureFixture[str]) -> None:
    machine = large_machine()
    ticks, beats, asks = [], [], []
    for second in range(1, 61):
        now_ms = second * 1_000
        for group in range(GROUPS):
            beat = TaskHeartbeat(f"t{group}", 0, OffsetMap(), "reading", None, 0, 0, 0, {})
            beats.append(_ms(lambda beat=beat, now_ms=now_ms: machine.handle(m.TaskBeat(now_ms, beat))))
        ticks.append(_ms(lambda now_ms=now_ms: machine.handle(m.Tick(now_ms, now_ms))))
    for group in range(GROUPS):
        ends = OffsetMap((p, 100) for p in range(group, PARTITIONS, GROUPS))
        ask = m.CheckpointAsked(61_000, CheckpointAsk(f"t{group}", SequenceRef("edits", group, 0), ends, "rows"))
        asks.append(_ms(lambda ask=ask: machine.handle(ask)))
    with capsys.disabled():
        print(f"\n{PARTITIONS} partitions, {GROUPS} tasks: a minute of heartbeats, then a checkpoint of all at once")
        for name, values in (("tick", ticks), ("heartbeat", beats), ("checkpoint asked", asks)):
            ordered = sorted(values)
            p50, p99 = statistics.median(ordered), ordered[len(ordered) * 99 // 100]
            print(f"  {name:17} median {p50:8.4f} ms   p99 {p99:8.3f} ms   longest {ordered[-1]:8.2f} ms")


def _ms(call: Any) -> float:
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1_000
