"""What a query costs beyond DuckDB, in CPU milliseconds by process: ``python -m tests.benchmarks.query_cost``.

The service runs in a process of its own (the whole HTTP front over tables of tests.benchmarks.query_tables); this
one asks over one connection that stays open, and reads from /proc what the service's and its query workers' threads
computed meanwhile. On a machine that does other work as well this can be trusted, where the clock cannot.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks.query_tables import QUESTIONS, made
from tests.clients.world import World


def cpu_ms(pid: int) -> float:
    """What a process has computed so far with all its threads that live."""
    return sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e6


def children(pid: int) -> list[int]:
    return [int(one) for path in Path(f"/proc/{pid}/task").glob("*/children") for one in path.read_text().split()]


def serve(root: Path, rows: int, live_share: float, threads: int) -> None:
    """Until standard input ends."""
    tables = made(root, rows, live_share)
    with World(root / "node", tables.catalog, tables.storage, threads) as world:
        print(world.port, flush=True)
        sys.stdin.read()


class Service:
    """A service in a process of its own, and one connection to it."""

    def __init__(self, root: Path, rows: int, live_share: float, threads: int) -> None:
        command = [sys.executable, "-m", "tests.benchmarks.query_cost", "--serve", str(root)]
        command += ["--rows", str(rows), "--live", str(live_share), "--threads", str(threads)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port)

    def ask(self, sql: str, context: dict[str, object]) -> bytes:
        body = json.dumps({"query": sql, "context": context})
        self.connection.request("POST", "/druid/v2/sql", body, {"Content-Type": "application/json"})
        response = self.connection.getresponse()
        content = response.read()
        assert response.status == 200, content
        return content

    def cpu_ms(self) -> tuple[float, float]:
        """Of the service's process, and of its workers."""
        return cpu_ms(self.process.pid), sum(cpu_ms(child) for child in children(self.process.pid))

    def stop(self) -> None:
        self.connection.close()
        self.process.communicate()


def measure(rows: int, live_share: float, threads: int, rounds: int) -> None:
    print(f"\n{rows:,} rows, {live_share:.0%} live; CPU ms a query: service, workers; wall best and median")
    with tempfile.TemporaryDirectory() as folder:
        service = Service(Path(folder), rows, live_share, threads)
        try:
            for name, (sql, _) in QUESTIONS.items():
                for cached in (False, True):
                    told = [_one(service, sql, {"useCache": cached}, rounds)]
                    print(f"| {name}{', same again' if cached else ''} | {' | '.join(told)} |", flush=True)
        finally:
            service.stop()


def _one(service: Service, sql: str, context: dict[str, object], rounds: int) -> str:
    for _ in range(4):
        service.ask(sql, context)
    own, workers, walls = [], [], []
    for _ in range(5):
        before = service.cpu_ms()
        for _ in range(rounds):
            begun = time.perf_counter()
            service.ask(sql, context)
            walls.append((time.perf_counter() - begun) * 1_000)
        after = service.cpu_ms()
        own.append((after[0] - before[0]) / rounds)
        workers.append((after[1] - before[1]) / rounds)
    figures = [min(own), min(workers), min(walls), statistics.median(walls)]
    return " | ".join(f"{figure:.2f}" for figure in figures)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--live", type=float)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=10)
    given = parser.parse_args()
    if given.serve is not None:
        serve(given.serve, given.rows, given.live or 0.0, given.threads)
        return
    for live_share in (0.0, 0.05) if given.live is None else (given.live,):
        measure(given.rows, live_share, given.threads, given.rounds)


if __name__ == "__main__":
    main()
