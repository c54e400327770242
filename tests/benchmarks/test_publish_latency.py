"""How long a publish transaction and an incremental read take on a table that already holds many segments.

``SILTSTONE_BENCH_SEGMENTS`` sets how many (100,000 unless told). Every publish brings four segments
of sixteen partitions. Run with ``make bench``; figures belong in docs/performance.md.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
import sqlalchemy as sa

from ingest.metadata import tables as t
from ingest.metadata.schema import migrate
from ingest.metadata.sql import SqlMetadataStore, open_store
from ingest.metadata.sql_rows import segment_values
from ingest.metadata.sql_session import SqlSession
from ingest.offsets import OffsetMap
from ingest.protocol import PublishOutcome, SequenceRecord, SequenceRef
from segments.civil import format_iso_ms
from tests.contract.metadata.world import HOUR_MS, NOON_MS, TABLE, World, segment_json

pytestmark = pytest.mark.benchmark

SEGMENTS = int(os.environ.get("SILTSTONE_BENCH_SEGMENTS", "100000"))
PARTITIONS = 16
PUBLISHES = 300
PER_CHUNK = 100
WHOLE_MAX = 200_000
"""Up to so many segments the whole table is read as well."""


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty, migrated database."""
    made = f"sqlite:///{tmp_path}/metadata.db"
    if request.param == "postgres":
        made = request.getfixturevalue("postgres_url")
    migrate(made)
    yield made


def fill(session: SqlSession, count: int) -> None:
    """Visible segments as earlier publishes would have left them, a hundred to the hour."""
    ends = OffsetMap((p, 10) for p in range(PARTITIONS))
    starts = OffsetMap((p, 0) for p in range(PARTITIONS))
    record = SequenceRecord(SequenceRef("earlier", 1, 0), starts, starts, 1, NOON_MS, end=ends)
    version = format_iso_ms(NOON_MS)
    first_name = f"{TABLE}_{format_iso_ms(NOON_MS - HOUR_MS)}_{format_iso_ms(NOON_MS)}_{version}"
    payload = segment_json(first_name, record, "0.parquet")
    values = segment_values(payload, record.ref, 1, NOON_MS)
    for first in range(0, count, 5_000):
        rows = []
        for n in range(first, min(count, first + 5_000)):
            start_ms = NOON_MS - HOUR_MS * (1 + n // PER_CHUNK)
            suffix = f"_{n % PER_CHUNK}" if n % PER_CHUNK else ""
            name = f"{TABLE}_{format_iso_ms(start_ms)}_{format_iso_ms(start_ms + HOUR_MS)}_{version}{suffix}"
            own = {"id": name, "loadSpec": {"type": "local", "path": f"/deep/{n}.parquet"}}
            places = {"start_ms": start_ms, "end_ms": start_ms + HOUR_MS, "partition_num": n % PER_CHUNK}
            rows.append({**values, **places, "segment_id": name, "payload": {**payload, **own}})
        visible = [{"segment_id": r["segment_id"], "added": 1, "removed": None, "datasource": TABLE} for r in rows]

        def insert(connection: sa.Connection, rows: list[object] = rows, visible: list[object] = visible) -> None:  # type: ignore[assignment]
            connection.execute(sa.insert(t.segments), rows)  # type: ignore[arg-type]
            connection.execute(sa.insert(t.segment_visibility), visible)  # type: ignore[arg-type]

        session.write(insert)


def fill_quickly(url: str, count: int) -> None:
    """The same on PostgreSQL, made there from the one segment that is there: a million take seconds."""
    iso = "to_char(to_timestamp(({}) / 1000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')"
    start = f"(base.start_ms - {HOUR_MS} * (n.n / {PER_CHUNK}))"
    suffix = f"CASE WHEN n.n % {PER_CHUNK} = 0 THEN '' ELSE '_' || (n.n % {PER_CHUNK}) END"
    interval = f"{iso.format(start)} || '_' || {iso.format(f'{start} + {HOUR_MS}')}"
    name = f"'{TABLE}_' || {interval} || '_' || version || {suffix}"
    made = {
        "segment_id": name,
        "start_ms": start,
        "end_ms": f"{start} + {HOUR_MS}",
        "partition_num": f"(n.n % {PER_CHUNK})::integer",
        "payload": f"replace(base.payload::text, base.segment_id, {name})::json",
    }
    columns = [column.name for column in t.segments.columns]
    chosen = ", ".join(made.get(column, f"base.{column}") for column in columns)
    with closing(psycopg2.connect(url.replace("+psycopg2", ""))) as connection, connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO segments ({', '.join(columns)}) SELECT {chosen} FROM segments AS base, "
            f"generate_series(1::bigint, {count - 1}) AS n(n)"
        )
        cursor.execute(
            "INSERT INTO segment_visibility (segment_id, added, removed, datasource) "
            "SELECT segment_id, 1, NULL, datasource FROM segments ON CONFLICT DO NOTHING"
        )
        connection.commit()
        connection.autocommit = True
        cursor.execute("VACUUM ANALYZE")


def timed(call: Callable[[], object]) -> float:
    """Milliseconds of one call."""
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1_000


def quantiles(times_ms: list[float]) -> str:
    ordered = sorted(times_ms)
    p50, p99 = ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
    return f"p50 {p50:7.2f} ms   p99 {p99:7.2f} ms   max {ordered[-1]:7.2f} ms"


def test_publish_latency(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with closing(open_store(url)) as store:
        assert isinstance(store, SqlMetadataStore)
        if url.startswith("postgres"):
            fill(store.session, 1)
            fill_quickly(url, SEGMENTS)
        else:
            fill(store.session, SEGMENTS)
        with capsys.disabled():
            print(f"\n{SEGMENTS} segments are there", flush=True)
        world = World(store)
        world.start(partitions=PARTITIONS)
        record = world.open(*range(PARTITIONS))
        token = world.attempt(record.ref)
        times: dict[str, list[float]] = {name: [] for name in ("seal", "allocate+stage", "publish", "table(since)")}
        for n in range(PUBLISHES):
            version = store.table_versions()[TABLE]
            end = OffsetMap((p, 1_000 * (n + 1)) for p in range(PARTITIONS))
            began = time.perf_counter()
            sealed, following = world.seal(record.ref, end)
            times["seal"].append((time.perf_counter() - began) * 1_000)
            began = time.perf_counter()
            request = world.prepare(token, sealed, hours=4)
            times["allocate+stage"].append((time.perf_counter() - began) * 1_000)
            began = time.perf_counter()
            assert world.publish(request).outcome is PublishOutcome.PUBLISHED
            times["publish"].append((time.perf_counter() - began) * 1_000)
            times["table(since)"].append(timed(lambda: store.table(TABLE, version)))  # noqa: B023
            record = following
        full = timed(lambda: store.table(TABLE, None)) if SEGMENTS <= WHOLE_MAX else 0.0
    with capsys.disabled():
        print(f"\n{url.partition(':')[0]}, {SEGMENTS} segments, {PARTITIONS} partitions, {PUBLISHES} publishes")
        for name, values in times.items():
            print(f"  {name:16} {quantiles(values)}")
        if full:
            print(f"  {'table(None)':16} {full / 1_000:.1f} s")
