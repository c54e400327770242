"""A table with its tasks in memory: the catalogue and live-source ports' twins, driven by a test step by step."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from query.source import LiveAttempt, RequiredSequence, TableSnapshot
from segments.data_segment import DataSegment
from segments.errors import ServiceError
from segments.identity import SegmentId, data_source
from segments.interval import Interval
from segments.live import ChunkInfo, LiveAnswer, LiveAsk, LiveSequence, LiveStatus
from segments.schema import ColumnSpec, ColumnType, SegmentSchema
from segments.storage.memory import MemoryDeepStorage

DAY_MS = 86_400_000
START_MS = 1_700_006_400_000
SCHEMA = SegmentSchema.of([ColumnSpec("page", ColumnType.STRING), ColumnSpec("added", ColumnType.LONG, kind="metric")])


def rows(first: int, count: int, **columns: Any) -> pa.Table:
    """``count`` rows whose ``added`` are their offsets from ``first`` on, a second apart."""
    offsets = range(first, first + count)
    times = pa.array([START_MS + offset * 1000 for offset in offsets], pa.timestamp("ms", "UTC"))
    plain = {"page": [f"p{offset % 3}" for offset in offsets], "added": list(offsets)}
    return pa.table({"__time": times} | plain | columns)


@dataclass
class Task:
    """One attempt: its sequences, whose rows are one chunk per append."""

    attempt: LiveAttempt
    sequences: dict[int, LiveSequence] = field(default_factory=dict)
    chunks: dict[int, pa.Table] = field(default_factory=dict)
    alive: bool = True
    refuses_fetches: int = 0
    asked: int = 0
    fetched: int = 0
    dropped_through: int = 0
    next_chunk: int = 1


class MemoryTable:
    """One supervisor ``s`` with one group 1 over one partition 0, whose offsets are rows of ``rows``."""

    def __init__(self, folder: Path, name: str = "wiki") -> None:
        self.name = name
        self.storage = MemoryDeepStorage()
        self.version = 1
        self.schema = SCHEMA
        self.committed = 0
        self.acknowledged: dict[str, int] = {}
        self.tasks: list[Task] = []
        self.calls = 0
        self.is_down = False
        self.reads = 0
        self._folder = folder
        self._segments: list[tuple[DataSegment, int]] = []
        self._removed: list[tuple[DataSegment, int]] = []
        self._required: dict[int, RequiredSequence] = {1: RequiredSequence("s", 1, 1, 1, {0: 0}, {0: 0}, None, {})}
        self._lock = threading.RLock()
        self.start_task()

    # -- what the test does

    def start_task(self) -> Task:
        """A new attempt at the unpublished sequences, without rows yet."""
        with self._lock:
            token = f"token{len(self.tasks)}"
            task = Task(LiveAttempt("s", 1, token, "127.0.0.1:1", not self.tasks))
            for needed in self._required.values():
                task.sequences[needed.number] = LiveSequence(
                    needed.number, 1, dict(needed.start), dict(needed.start), needed.end, ()
                )
            self.tasks.append(task)
            return task

    def append(self, task: Task, table: pa.Table, spill: Path | None = None) -> None:
        """One more chunk in the task's last sequence; as a spill when a path is given."""
        with self._lock:
            number = max(task.sequences)
            sequence = task.sequences[number]
            at = sequence.position[0]
            times = _times_ms(table)
            chunk = ChunkInfo(
                task.next_chunk, number, len(table), table.nbytes, ((0, at, at + len(table)),), min(times), max(times)
            )
            if spill is not None:
                with pa.OSFile(str(spill), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
                    writer.write_table(table)
                chunk = replace(chunk, path=str(spill))
            task.chunks[task.next_chunk] = table
            task.next_chunk += 1
            task.sequences[number] = replace(sequence, position={0: at + len(table)}, chunks=(*sequence.chunks, chunk))

    def join_chunks(self, task: Task) -> None:
        """The task puts the chunks of its last sequence together to one."""
        with self._lock:
            number, sequence = max(task.sequences.items())
            table = pa.concat_tables([task.chunks.pop(chunk.number) for chunk in sequence.chunks])
            joined = replace(
                sequence.chunks[0],
                number=task.next_chunk,
                rows=len(table),
                max_time_ms=max(chunk.max_time_ms for chunk in sequence.chunks),
                replaces=tuple(chunk.number for chunk in sequence.chunks),
            )
            task.chunks[task.next_chunk] = table
            task.next_chunk += 1
            task.sequences[number] = replace(sequence, chunks=(joined,))

    def read(self, task: Task, count: int) -> None:
        """The task reads that many more offsets."""
        self.append(task, rows(max(task.sequences.items())[1].position[0], count))

    def heartbeat(self, task: Task) -> None:
        """The task's positions become durable."""
        with self._lock:
            for number, sequence in task.sequences.items():
                if number in self._required:
                    self._required[number] = replace(self._required[number], reported=dict(sequence.position))

    def seal_and_publish(self, task: Task) -> DataSegment:
        """The last sequence ends here, becomes a segment, and the table's version grows."""
        with self._lock:
            number = max(task.sequences)
            sequence = task.sequences[number]
            end = sequence.position[0]
            task.sequences[number] = replace(sequence, end={0: end})
            task.sequences[number + 1] = LiveSequence(number + 1, 1, {0: end}, {0: end}, None, ())
            table = pa.concat_tables([task.chunks[chunk.number] for chunk in sequence.chunks])
            return self.publish(number, end, table)

    def publish(self, number: int, end: int, table: pa.Table, schema: SegmentSchema | None = None) -> DataSegment:
        """Commits a sequence with these rows."""
        with self._lock:
            segment = self._segment(number, self.committed, end, table, schema or self.schema)
            self.version += 1
            self.committed = end
            self._segments.append((segment, self.version))
            del self._required[number]
            self._required[number + 1] = RequiredSequence("s", 1, number + 1, 1, {0: end}, {0: 0}, None, {})
            return segment

    def drop_oldest(self) -> int:
        """Its first segment is marked unused; how many rows that takes away."""
        with self._lock:
            if not self._segments:
                return 0
            self.version += 1
            segment = self._segments.pop(0)[0]
            self._removed.append((segment, self.version))
            return segment.rows

    def _segment(self, number: int, start: int, end: int, table: pa.Table, schema: SegmentSchema) -> DataSegment:
        path = self._folder / f"{self.name}-{number}.parquet"
        pq.write_table(table, path)
        content = path.read_bytes()
        load_spec = self.storage.push(path, f"{self.name}/{number}.parquet")
        day = Interval(START_MS - START_MS % DAY_MS, START_MS - START_MS % DAY_MS + DAY_MS)
        times = _times_ms(table)
        return DataSegment(
            id=SegmentId(data_source(self.name), day, "v1", number),
            rows=len(table),
            size_bytes=len(content),
            schema=schema,
            load_spec=load_spec,
            min_time_ms=min(times),
            max_time_ms=max(times),
            offsets=((0, start, end),),
            checksum=hashlib.sha256(content).hexdigest(),
            spec_version=1,
            sequence=f"s_1_{number}",
            input_rows=len(table),
        )

    # -- SegmentCatalog

    def versions(self) -> dict[str, int]:
        return {self.name: self.version}

    def snapshot(self, datasource: str, since: int | None) -> TableSnapshot | None:
        if self.is_down:
            raise ServiceUnreachable("the database does not answer")
        self.reads += 1
        if datasource != self.name:
            return None
        with self._lock:
            segments = tuple(segment for segment, added in self._segments if since is None or added > since)
            return TableSnapshot(
                self.name,
                self.version,
                self.schema,
                segments if since is None else (),
                () if since is None else segments,
                () if since is None else tuple(str(one.id) for one, gone in self._removed if gone > since),
                {"s": {0: self.committed}},
                {"s": {0: 0}},
                tuple(self._required.values()),
                tuple(task.attempt for task in self.tasks),
            )

    def acknowledge(self, node: str, address: str, versions: dict[str, int]) -> None:
        with self._lock:
            self.acknowledged = dict(versions)

    # -- LiveSource

    def ask(self, attempt: LiveAttempt, ask: LiveAsk, timeout_ms: int) -> LiveAnswer:
        with self._lock:
            self.calls += 1
            task = self._task(attempt)
            task.asked += 1
            if ask.version < task.dropped_through:
                return LiveAnswer(LiveStatus.TOO_OLD, attempt.token, 1)
            return LiveAnswer(LiveStatus.OK, attempt.token, 1, tuple(task.sequences.values()))

    def fetch(self, attempt: LiveAttempt, chunk: ChunkInfo, timeout_ms: int) -> bytes:
        with self._lock:
            task = self._task(attempt)
            if task.refuses_fetches:
                task.refuses_fetches -= 1
                raise ServiceUnreachable("the chunk is gone")
            task.fetched += 1
            table = task.chunks[chunk.number]
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return sink.getvalue().to_pybytes()

    def _task(self, attempt: LiveAttempt) -> Task:
        task = next(task for task in self.tasks if task.attempt.token == attempt.token)
        if not task.alive:
            raise ServiceUnreachable(f"task {attempt.token} is out of reach")
        return task


def _times_ms(table: pa.Table) -> list[int]:
    return [value for value in table["__time"].cast(pa.int64()).to_pylist() if value is not None]


class ServiceUnreachable(ServiceError):
    """A task that does not answer."""

    retryable = True
