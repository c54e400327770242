"""Two published tables behind the whole HTTP front of a query node, with real engine workers and a real port."""

from __future__ import annotations

import hashlib
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq
import uvicorn

from ingest.clock import SystemClock
from query.engine import EngineSettings
from query.node import NodeSettings, QueryNode
from query.source import LiveAttempt, TableSnapshot
from segments.cache import SegmentCache
from segments.data_segment import DataSegment
from segments.identity import SegmentId, data_source
from segments.interval import Interval
from segments.live import ChunkInfo, LiveAnswer, LiveAsk
from segments.schema import ColumnSpec, ColumnType, SegmentSchema
from segments.storage.base import DeepStorage
from segments.storage.memory import MemoryDeepStorage
from server.app import build_app
from server.avatica.connections import AvaticaLimits, Connections
from server.config import Settings
from server.health import Health
from server.metrics import Metrics
from server.parts import Parts
from tests.servers.process import free_ports

DAY_MS = 86_400_000
START_MS = 1_704_067_200_000
CLICKS = 200
NUMBERS = 120_000
JDBC = AvaticaLimits(connections=6, statements=8, frame_rows=1_000)


def clicks() -> pa.Table:
    """200 rows, ten minutes apart from 2024 on: text with nulls and quotes, several values, numbers."""
    at = range(CLICKS)
    return pa.table(
        {
            "__time": pa.array([START_MS + 600_000 * n for n in at], pa.timestamp("ms", "UTC")),
            "page": pa.array([None if n % 20 == 19 else f'pägé "{n % 7}"' for n in at]),
            "tags": pa.array([[f"t{k}" for k in range(n % 3)] for n in at], pa.list_(pa.string())),
            "added": pa.array(list(at), pa.int64()),
            "price": pa.array([None if n % 10 == 9 else n / 4 for n in at], pa.float64()),
            "weight": pa.array([n / 8 for n in at], pa.float32()),
        }
    )


def numbers() -> pa.Table:
    """Many rows, a second apart."""
    at = range(NUMBERS)
    times = pa.array([START_MS + 1_000 * n for n in at], pa.timestamp("ms", "UTC"))
    return pa.table(
        {"__time": times, "n": pa.array(list(at), pa.int64()), "word": pa.array([f"w{n % 97}" for n in at])}
    )


CLICK_COLUMNS = SegmentSchema.of(
    [
        ColumnSpec("page", ColumnType.STRING),
        ColumnSpec("tags", ColumnType.STRING, multi_value=True),
        ColumnSpec("added", ColumnType.LONG),
        ColumnSpec("price", ColumnType.DOUBLE),
        ColumnSpec("weight", ColumnType.FLOAT),
    ]
)
NUMBER_COLUMNS = SegmentSchema.of([ColumnSpec("n", ColumnType.LONG), ColumnSpec("word", ColumnType.STRING)])


@dataclass
class Published:
    """The catalogue and the live source of tables without live rows, each in one segment."""

    tables: dict[str, TableSnapshot]

    def datasources(self) -> list[str]:
        return sorted(self.tables)

    def versions(self) -> dict[str, int]:
        return {name: table.version for name, table in self.tables.items()}

    def snapshot(self, datasource: str, since: int | None) -> TableSnapshot | None:
        return self.tables.get(datasource)

    def acknowledge(self, node: str, address: str, versions: dict[str, int]) -> None:
        """Nobody waits for it."""

    def ask(self, attempt: LiveAttempt, ask: LiveAsk, timeout_ms: int) -> LiveAnswer:
        raise AssertionError("there are no tasks")

    def fetch(self, attempt: LiveAttempt, chunk: ChunkInfo, timeout_ms: int) -> bytes:
        raise AssertionError("there are no tasks")


def segment_of(
    name: str, number: int, table: pa.Table, schema: SegmentSchema, storage: DeepStorage, root: Path
) -> DataSegment:
    """The table as a published segment in the storage; its rows are sorted by time."""
    path = root / f"{name}-{number}.parquet"
    pq.write_table(table, path, compression="zstd", row_group_size=131_072)
    content = path.read_bytes()
    times = table["__time"].cast(pa.int64())
    return DataSegment(
        id=SegmentId(data_source(name), Interval(START_MS, START_MS + DAY_MS), "v1", number),
        rows=len(table),
        size_bytes=len(content),
        schema=schema,
        load_spec=storage.push(path, f"{name}/{number}.parquet"),
        min_time_ms=times[0].as_py(),
        max_time_ms=times[-1].as_py(),
        offsets=((0, 0, len(table)),),
        checksum=hashlib.sha256(content).hexdigest(),
        spec_version=1,
        sequence=f"{name}_1_{number}",
        input_rows=len(table),
    )


def _published(name: str, table: pa.Table, schema: SegmentSchema, storage: DeepStorage, root: Path) -> TableSnapshot:
    segment = segment_of(name, 0, table, schema, storage, root)
    return TableSnapshot(name, 1, schema, (segment,), (), (), {name: {0: len(table)}}, {name: {0: 0}}, (), ())


class World:
    """The server; a context. Everything it starts ends with it."""

    def __init__(
        self, root: Path, catalog: Published | None = None, storage: DeepStorage | None = None, threads: int = 1
    ) -> None:
        [self.port] = free_ports(1)
        self.url = f"http://127.0.0.1:{self.port}"
        self.clock = SystemClock()
        storage = storage or MemoryDeepStorage()
        self.catalog = catalog or Published(
            {
                "clicks": _published("clicks", clicks(), CLICK_COLUMNS, storage, root),
                "numbers": _published("numbers", numbers(), NUMBER_COLUMNS, storage, root),
            }
        )
        engine = EngineSettings(workers=2, threads=threads, memory_bytes=1 << 30 if catalog else 256 << 20)
        settings = NodeSettings(engine=engine)
        cache = SegmentCache(root / "cache", storage, 8 << 30)
        self.node = QueryNode("n", self.catalog, self.catalog, cache, root / "mirror", settings, self.clock)
        self.jdbc = Connections(JDBC, self.clock)
        parts = Parts(
            settings=Settings(data_dir=root),
            node="n",
            address=f"127.0.0.1:{self.port}",
            clock=self.clock,
            secret="s",
            health=Health(),
            metrics=Metrics(),
            storage=storage,
            scratch=root,
            catalog=self.catalog,
            queries=self.node,
            jdbc=self.jdbc,
        )
        config = uvicorn.Config(build_app(parts), port=self.port, log_level="warning", lifespan="off")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)

    def __enter__(self) -> Self:
        self.node.start()
        self._thread.start()
        until(lambda: self._server.started, "the server listens")
        return self

    def __exit__(self, *ended_by: object) -> None:
        self._server.should_exit = True
        self._thread.join(10)
        self.jdbc.stop()
        self.node.stop()

    @property
    def queries_running(self) -> int:
        """Queries that hold a worker."""
        running = self.node.status()["queriesRunning"]
        assert isinstance(running, int)
        return running


def until(condition: object, what: str, seconds: float = 20.0) -> None:
    """Waits for a condition, bounded."""
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not in time: {what}"
        time.sleep(0.01)
