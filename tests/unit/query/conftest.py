"""A query node over a memory table and one real worker, which all tests of a module share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ingest.clock import SystemClock
from query.engine import Engine, EngineSettings
from query.node import NodeSettings, QueryNode
from query.task_calls import LiveSettings
from segments.cache import SegmentCache
from tests.unit.query.memory_table import MemoryTable
from tests.unit.query.node_steps import Start


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("node")


@pytest.fixture(scope="module")
def engine(base: Path) -> Iterator[Engine]:
    settings = EngineSettings(workers=1, threads=1, memory_bytes=256 << 20, temp_bytes=1 << 20)
    pool = Engine(settings, [base / "cache", base / "chunks"], base / "spill", SystemClock())
    pool.start()
    yield pool
    pool.stop()


@pytest.fixture
def table(tmp_path: Path) -> MemoryTable:
    return MemoryTable(tmp_path)


@pytest.fixture
def start(table: MemoryTable, base: Path, engine: Engine) -> Iterator[Start]:
    nodes = []

    def begin(
        mirror_bytes: int = 1 << 30, groups_from_rows: int = 20_000, results_bytes: int = 64 << 20, **live: int
    ) -> QueryNode:
        settings = NodeSettings(
            sync_ms=20, mirror_bytes=mirror_bytes, groups_from_rows=groups_from_rows, results_bytes=results_bytes,
            live=LiveSettings(**({"wait_ms": 300, "suspect_ms": 0, "poll_ms": 5} | live)),
        )  # fmt: skip
        cache = SegmentCache(base / "cache", table.storage, 1 << 30)
        node = QueryNode("n", table, table, cache, base, settings, SystemClock(), engine=engine)
        nodes.append(node)
        node.start()
        return node

    yield begin
    for node in nodes:
        node.stop()
    for cached in (base / "cache").iterdir():
        cached.unlink()
