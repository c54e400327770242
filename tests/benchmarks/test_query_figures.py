"""Queries over HTTP beside bare DuckDB on the same Parquet files: published only, with 5 % live rows, and planning.

SILTSTONE_BENCH_ROWS (1000000,10000000) are the sizes of a table. The two take turns; a figure is
the best of SILTSTONE_BENCH_ROUNDS (15) turns in milliseconds, since other work on the machine only adds. CPU is that of
the query workers, beside that of this process while DuckDB is asked in it, with as many threads as a worker: on a busy
machine it says more than the clock.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from query.bound import BoundQuery
from query.model import SqlRequest
from query.node import NOTHING
from query.sql.planner import plan
from siltstone import Client
from tests.benchmarks.query_clients import Clients
from tests.benchmarks.query_tables import QUESTIONS, made, many_segments
from tests.clients.world import World

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3_600)]
SIZES = [int(size) for size in os.environ.get("SILTSTONE_BENCH_ROWS", "1000000,10000000").split(",")]
ROWS = SIZES[0]
ROUNDS = int(os.environ.get("SILTSTONE_BENCH_ROUNDS", "15"))
THREADS = int(os.environ.get("SILTSTONE_BENCH_THREADS", "2"))
ANEW = {"useCache": False}


def bare(files: dict[str, list[str]]) -> duckdb.DuckDBPyConnection:
    """DuckDB as somebody would use it on the files."""
    connection = duckdb.connect(config={"threads": THREADS})
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET GLOBAL parquet_metadata_cache = true")
    for name, paths in files.items():
        connection.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet({paths})")
    return connection


def took(work: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    work()
    return (time.perf_counter() - begun) * 1_000


def workers_cpu_ms() -> float:
    """What the query workers, this process's children, have computed so far with all their threads."""
    children = [pid for path in Path("/proc/self/task").glob("*/children") for pid in path.read_text().split()]
    stats = [path for child in children for path in Path(f"/proc/{child}/task").glob("*/schedstat")]
    return sum(int(path.read_text().split()[0]) for path in stats) / 1e6


@pytest.mark.parametrize("live_share", [0.0, 0.05])
@pytest.mark.parametrize("rows", SIZES)
def test_queries_beside_bare_duckdb(tmp_path: Path, rows: int, live_share: float) -> None:
    begun = time.perf_counter()
    tables = made(tmp_path, rows, live_share)
    control = bare(tables.files)
    print(f"\n{rows:,} rows a table, {live_share:.0%} live, {THREADS} threads, load {os.getloadavg()[0]:.1f}")
    print(f"(made in {time.perf_counter() - begun:.0f} s)")
    print(
        "| query | DuckDB ms | Siltstone ms | ratio | beyond ms | of medians | CPU, DuckDB | CPU, worker | first ms |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    with World(tmp_path / "node", tables.catalog, tables.storage, THREADS) as world:
        client = Client(world.url)
        client.sql("SELECT 1")
        for name, (sql, plain) in QUESTIONS.items():
            first = took(lambda sql=sql: client.sql(sql, context=ANEW))  # type: ignore[misc]  # bound now
            own, other, own_cpu, other_cpu = [], [], [], []
            for _ in range(ROUNDS):
                before = time.process_time()
                other.append(took(lambda asked=plain or sql: control.execute(asked).fetchall()))  # type: ignore[misc]  # bound now
                other_cpu.append((time.process_time() - before) * 1_000)
                used = workers_cpu_ms()
                own.append(took(lambda sql=sql: client.sql(sql, context=ANEW)))  # type: ignore[misc]  # bound now
                own_cpu.append(workers_cpu_ms() - used)
            mine, theirs = min(own), min(other)
            medians = statistics.median(own) / statistics.median(other)
            computed = f"{statistics.median(other_cpu):.1f} | {statistics.median(own_cpu):.1f}"
            told = f"{mine / theirs:.2f} | {mine - theirs:+.1f} | {medians:.2f} | {computed} | {first:.0f}"
            print(f"| {name} | {theirs:.1f} | {mine:.1f} | {told} |", flush=True)


def test_planning_over_many_segments(tmp_path: Path) -> None:
    tables = made(tmp_path, 20_000, 0.0)
    many_segments(tables.catalog, "edits", 10_000)
    hour = "__time >= TIMESTAMP '2024-02-01 00:00:00' AND __time < TIMESTAMP '2024-02-01 03:00:00'"
    with World(tmp_path / "node", tables.catalog, tables.storage) as world:
        node = world.node
        Client(world.url).sql("SELECT 1")
        node.refresh()
        asked = SqlRequest(
            f"SELECT channel, SUM(added) AS a FROM edits WHERE {hour} GROUP BY 1 ORDER BY 2 DESC LIMIT 10"
        )

        def planned() -> None:
            query = BoundQuery(node, NOTHING)
            try:
                for use in plan(asked, query, 0).tables:
                    query.relation(use)
            finally:
                query.close()

        planned()
        times, used = [], []
        for _ in range(50):
            before = time.thread_time()
            times.append(took(planned))
            used.append((time.thread_time() - before) * 1_000)
        print(
            f"\nplanning with 10,000 segments, 3 of them read: median {statistics.median(times):.2f} ms, worst "
            f"{max(times):.2f} ms; CPU median {statistics.median(used):.2f} ms, worst {max(used):.2f} ms"
        )


@pytest.mark.parametrize("kind", ["different", "equal", "equal and kept"])
def test_many_queries_at_once(tmp_path: Path, kind: str) -> None:
    """Fifty that all ask something else; the same, without the cache; the same, which may be an answer that is kept."""
    tables = made(tmp_path, ROWS, 0.05)
    with World(tmp_path / "node", tables.catalog, tables.storage, THREADS) as world:
        client = Client(world.url)
        sql = QUESTIONS["top 10 of one"][0]
        client.sql(sql, context=ANEW)
        alone = statistics.median(took(lambda: client.sql(sql, context=ANEW)) for _ in range(ROUNDS))
        # The statements of one round are new to everybody, as after new rows.
        statements = [f"{sql} OFFSET {at}" for at in range(4)]
        if kind == "different":
            statements = [text.replace("GROUP BY", "WHERE deleted > {client} GROUP BY") for text in statements]
        with Clients(world.port, 50, statements, use_cache=kind == "equal and kept", rounds=1) as clients:
            pass
        print(f"\n50 at once, {kind}: {clients.told()}; alone {alone:.0f} ms")
