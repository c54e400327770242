"""What fifty clients that ask all the time cost ingestion, and what ingestion costs them: with and without, in one run.

A task reads a full topic as fast as it can: by itself, while one client asks for the rows it is reading five times in
SILTSTONE_BENCH_REFRESH_S (1), while SILTSTONE_BENCH_CLIENTS (50) do so all at once every time it is over, and while
they ask without a pause. Per reading: events a second by the clock from the first position to the last, events a CPU
second of the task. Then the clients ask the last table, which is still, and one of them alone.
SILTSTONE_BENCH_EVENTS (2000000) are the events of the topic.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ingest.task.directory import ProcessIdentity
from tests.acceptance.service import Service
from tests.benchmarks.events import ad_events, data_schema
from tests.benchmarks.query_clients import Clients
from tests.benchmarks.query_cost import cpu_ms
from tests.benchmarks.reading import status_of
from tests.servers.kfake import Kfake
from tests.servers.topics import create_topic, produce, wait_for

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1_800)]
EVENTS = int(os.environ.get("SILTSTONE_BENCH_EVENTS", "2000000"))
CLIENTS = int(os.environ.get("SILTSTONE_BENCH_CLIENTS", "50"))
REFRESH_S = float(os.environ.get("SILTSTONE_BENCH_REFRESH_S", "1"))
PARTITIONS = 2
DIFFERENT = 50_000
WARM = EVENTS // 20
TURNS = (
    ("warm", 0, 0),
    ("alone", 0, 0),
    ("one", 1, REFRESH_S / 5),
    ("refreshed", CLIENTS, REFRESH_S),
    ("beside", CLIENTS, 0),
)


def spec(bootstrap: str, topic: str, table: str) -> dict[str, Any]:
    schema = {**data_schema("ad", rollup=False), "dataSource": table}
    source = {
        "topic": topic,
        "consumerProperties": {"bootstrap.servers": bootstrap},
        "inputFormat": {"type": "json"},
        "useEarliestOffset": True,
    }
    return {"type": "kafka", "spec": {"dataSchema": schema, "ioConfig": source, "tuningConfig": {"type": "kafka"}}}


def statements(table: str) -> list[str]:
    """What a dashboard asks."""
    return [
        f"SELECT COUNT(*) AS n FROM {table}",
        f"SELECT ad_type, event_type, COUNT(*) AS n FROM {table} GROUP BY 1, 2 ORDER BY 1, 2",
        f"SELECT ad_id, COUNT(*) AS n FROM {table} WHERE event_type = 'click' GROUP BY 1 ORDER BY n DESC LIMIT 10",
    ]


def read_by(task: ProcessIdentity) -> int:
    """Events a task has read."""
    while True:
        # A machine that does other work as well may keep it from answering in time.
        with suppress(OSError, ValueError):
            return sum(map(int, status_of(task)["positions"].values()))


def read_rate(service: Service, during: Callable[[], None]) -> tuple[float, float]:
    """Events a second and a CPU second of the newest task, once it is under way, until the topic is read."""
    wait_for(service.task_processes, what="a task", seconds=60)
    task = service.task_processes()[0]
    while read_by(task) < WARM:
        time.sleep(0.01)
    during()
    at = begun_at = read_by(task)
    begun, used = time.perf_counter(), cpu_ms(task.pid)
    while at < EVENTS:
        time.sleep(0.02)
        at = read_by(task)
    taken, computed = time.perf_counter() - begun, (cpu_ms(task.pid) - used) / 1_000
    return (at - begun_at) / taken, (at - begun_at) / max(computed, 1e-9)


def test_ingestion_beside_queries(kfake: Kfake, tmp_path: Path) -> None:
    topic = create_topic(kfake.bootstrap, PARTITIONS)
    some = ad_events(DIFFERENT)
    for partition in range(PARTITIONS):
        values = (some[n % DIFFERENT] for n in range(EVENTS // PARTITIONS))
        produce(kfake.bootstrap, topic, values, partition=partition, config={"linger.ms": 50})
    with Service(tmp_path) as service:
        service.start()
        print(f"\n{EVENTS:,} ad events, no rollup, load {os.getloadavg()[0]:.1f}")
        rates: dict[str, tuple[float, float]] = {}
        for table, count, every_s in TURNS:
            service.client.submit(spec(kfake.bootstrap, topic, table))
            clients = Clients(service.port, count, statements(table), use_cache=True, every_s=every_s)
            with ExitStack() as asking:
                rates[table] = read_rate(service, partial(_begin, asking, clients, count))
            wait_for(partial(_has_all, service, table), what=f"all rows of {table}", seconds=120)
            if table != "beside":
                service.client.supervisor_action(table, "terminate")
                wait_for(lambda: not service.task_processes(), what="the task's end", seconds=240)
            clock, cpu = rates[table]
            share = f", {clock / rates['alone'][0]:.2f} of alone (mark 0.90); {clients.told()}" if count else ""
            print(f"{table}, {count} clients: {clock:,.0f} events/s, {cpu:,.0f} a CPU second{share}")
        clients_alone(service.port)


def _begin(asking: ExitStack, clients: Clients, count: int) -> None:
    if count:
        asking.enter_context(clients)


def _has_all(service: Service, table: str) -> bool:
    return service.client.sql(f"SELECT COUNT(*) AS n FROM {table}") == [{"n": EVENTS}]


def clients_alone(port: int) -> None:
    """The same clients when nothing is read any more."""
    for use_cache in (False, True):
        with Clients(port, 1, statements("beside"), use_cache, rounds=15) as one:
            pass
        with Clients(port, CLIENTS, statements("beside"), use_cache, rounds=3) as many:
            pass
        name = "equal and kept" if use_cache else "equal"
        print(f"{CLIENTS} at once, {name}: {many.told()}; alone p50 {statistics.median(one.times):.0f} ms")
