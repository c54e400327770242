"""Tables for the query figures: edits and ad events in Parquet segments, and a task that serves live rows of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from query.source import LiveAttempt, RequiredSequence, TableSnapshot
from segments.live import ChunkInfo, LiveAnswer, LiveAsk, LiveSequence, LiveStatus
from segments.schema import ColumnSpec, ColumnType, SegmentSchema
from segments.storage.base import DeepStorage
from segments.storage.local import LocalDeepStorage
from tests.clients.world import START_MS, Published, segment_of

SEGMENTS = 8
CHUNK_ROWS = 20_000
EDITS = SegmentSchema.of(
    [ColumnSpec(name, ColumnType.STRING) for name in ("channel", "page", "user", "isRobot")]
    + [ColumnSpec(name, ColumnType.LONG) for name in ("added", "deleted")]
)
ADS = SegmentSchema.of(
    [ColumnSpec(name, ColumnType.STRING) for name in ("user_id", "ad_id", "ad_type", "event_type")]
    + [ColumnSpec("price", ColumnType.DOUBLE)]
)

QUESTIONS: dict[str, tuple[str, str | None]] = {
    "count": ("SELECT COUNT(*) FROM edits", None),
    "filtered count": ("SELECT COUNT(*) FROM edits WHERE channel = '#7.wikipedia' AND added > 100", None),
    "top 10 of one": ("SELECT channel, COUNT(*) AS n FROM edits GROUP BY channel ORDER BY n DESC LIMIT 10", None),
    "two with sums": (
        'SELECT channel, "isRobot", SUM(added) AS a, SUM(deleted) AS d FROM edits GROUP BY 1, 2 ORDER BY 1, 2',
        None,
    ),
    "minute series": (
        "SELECT TIME_FLOOR(__time, 'PT1M') AS t, COUNT(*) AS n, SUM(added) AS a FROM edits GROUP BY 1 ORDER BY 1",
        "SELECT time_bucket(INTERVAL '1 minute', __time) AS t, COUNT(*) AS n, SUM(added) AS a FROM edits "
        "GROUP BY 1 ORDER BY 1",
    ),
    "distinct users": ("SELECT COUNT(DISTINCT user_id) FROM ads", None),
    "newest 1,000": ("SELECT __time, page, added FROM edits ORDER BY __time DESC LIMIT 1000", None),
    "ads by type": (
        "SELECT ad_type, event_type, COUNT(*) AS n, SUM(price) AS p FROM ads GROUP BY 1, 2 ORDER BY 1, 2",
        None,
    ),
}
"""By name: Druid's SQL, and DuckDB's where that is another."""


def edits(count: int, first: int, whole: int) -> pa.Table:
    """50 channels, 50,000 pages, 20,000 users; rows ``first`` and on, in the order of time."""
    random = np.random.default_rng(first + 1)
    return pa.table(
        {
            "__time": _times(count, first),
            "channel": _named([f"#{n}.wikipedia" for n in range(50)], random.zipf(1.5, count) % 50),
            "page": _named(_PAGES, random.integers(0, len(_PAGES), count)),
            "user": _named(_USERS, random.integers(0, len(_USERS), count)),
            "isRobot": _named(["true", "false"], random.integers(0, 2, count)),
            "added": pa.array(random.integers(0, 3_000, count)),
            "deleted": pa.array(random.integers(0, 300, count)),
        }
    )


def ads(count: int, first: int, whole: int) -> pa.Table:
    """As many users as a tenth of the ``whole``, 1,000 ads; rows ``first`` and on."""
    random = np.random.default_rng(first + 2)
    kinds, events = ["banner", "modal", "sponsored-search", "mail", "mobile"], ["view", "click", "purchase"]
    users = _user_ids(max(whole // 10, 1))
    return pa.table(
        {
            "__time": _times(count, first),
            "user_id": _named(users, random.integers(0, len(users), count)),
            "ad_id": _named([f"ad{n}" for n in range(1_000)], random.integers(0, 1_000, count)),
            "ad_type": _named(kinds, random.integers(0, 5, count)),
            "event_type": _named(events, random.integers(0, 3, count)),
            "price": pa.array(random.random(count)),
        }
    )


_PAGES = [f"Page «{n}» of the encyclopédie" for n in range(50_000)]
_USERS = [f"user{n}" for n in range(20_000)]


@cache
def _user_ids(count: int) -> pa.Array[Any]:
    return pa.array([f"{n:08x}-0000-4000-8000-{n:012x}" for n in range(count)])


def _named(names: list[str] | pa.Array[Any], chosen: Any) -> pa.Array[Any]:
    return (names if isinstance(names, pa.Array) else pa.array(names)).take(pa.array(chosen))


def _times(count: int, first: int) -> pa.Array[Any]:
    return pa.array(START_MS + (np.arange(count) + first) * 8, pa.timestamp("ms", "UTC"))


@dataclass
class Serving(Published):
    """Tables of which a task may hold live rows."""

    live: dict[str, list[pa.Table]] = field(default_factory=dict)
    asked: int = 0
    _answers: dict[tuple[str, int], LiveAnswer] = field(default_factory=dict)

    def ask(self, attempt: LiveAttempt, ask: LiveAsk, timeout_ms: int) -> LiveAnswer:
        self.asked += 1
        begin = ask.vector[0]
        known = self._answers.get((attempt.token, begin))
        if known is None:
            # Made once: a task keeps such a list, and this process's time is measured.
            known = self._answers[attempt.token, begin] = self._answer(attempt, begin)
        return known

    def _answer(self, attempt: LiveAttempt, begin: int) -> LiveAnswer:
        chunks, at = [], begin
        for number, table in enumerate(self.live[attempt.supervisor], 1):
            times = table["__time"].cast(pa.int64())
            span = (times[0].as_py(), times[-1].as_py())
            chunks.append(ChunkInfo(number, 1, len(table), table.nbytes, ((0, at, at + len(table)),), *span))
            at += len(table)
        sequence = LiveSequence(1, 1, {0: begin}, {0: at}, None, tuple(chunks))
        return LiveAnswer(LiveStatus.OK, attempt.token, 1, (sequence,))

    def fetch(self, attempt: LiveAttempt, chunk: ChunkInfo, timeout_ms: int) -> bytes:
        table = self.live[attempt.supervisor][chunk.number - 1]
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return sink.getvalue().to_pybytes()


@dataclass(frozen=True)
class Made:
    """The catalogue, its storage, and per table the Parquet files that bare DuckDB reads: one for live rows, too."""

    catalog: Serving
    storage: DeepStorage
    files: dict[str, list[str]]


def made(root: Path, rows: int, live_share: float) -> Made:
    """``edits`` and ``ads`` with so many rows each, the last share of them live; made a segment at a time."""
    storage, files = LocalDeepStorage(root / "deep"), {}
    catalog = Serving({})
    for name, schema, make in (("edits", EDITS, edits), ("ads", ADS, ads)):
        published = rows - int(rows * live_share)
        step = -(-published // SEGMENTS)
        parts = [(at, min(step, published - at)) for at in range(0, published, step)]
        segments = tuple(
            segment_of(name, number, make(count, at, rows), schema, storage, root)
            for number, (at, count) in enumerate(parts)
        )
        files[name] = [str(root / f"{name}-{at}.parquet") for at in range(len(parts))]
        required: tuple[RequiredSequence, ...] = ()
        attempts: tuple[LiveAttempt, ...] = ()
        if published < rows:
            rest = make(rows - published, published, rows)
            catalog.live[name] = [rest.slice(at, CHUNK_ROWS) for at in range(0, len(rest), CHUNK_ROWS)]
            path = root / f"{name}-live.parquet"
            pq.write_table(rest, path)
            files[name].append(str(path))
            start = {0: published}
            required = (RequiredSequence(name, 1, 1, 1, start, {0: 0}, None, {0: rows}),)
            attempts = (LiveAttempt(name, 1, f"token-{name}", "127.0.0.1:1", True),)
        snapshot = TableSnapshot(
            name, 1, schema, segments, (), (), {name: {0: published}}, {name: {0: 0}}, required, attempts
        )
        catalog.tables[name] = snapshot
    return Made(catalog, storage, files)


def many_segments(catalog: Serving, name: str, count: int) -> None:
    """Repeats a table's segments in the timeline, an hour each, until there are so many (their files are shared)."""
    snapshot = catalog.tables[name]
    hour = 3_600_000
    segments = [
        replace(
            snapshot.segments[at % len(snapshot.segments)],
            id=replace(snapshot.segments[0].id, partition_num=at),
            min_time_ms=START_MS + at * hour,
            max_time_ms=START_MS + (at + 1) * hour - 1,
        )
        for at in range(count)
    ]
    catalog.tables[name] = replace(snapshot, segments=tuple(segments), version=snapshot.version + 1)
