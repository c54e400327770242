"""Rows held by a task: live as they will be published, cut, dropped, spilled, restored and merged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.appenderator import appenderator as appenderator_module
from ingest.appenderator.appenderator import Appenderator
from ingest.appenderator.merging import MergedSequence
from ingest.offsets import OffsetMap
from ingest.protocol import PartitionCounts, PendingSegment
from ingest.spec import SupervisorSpec
from segments.identity import SegmentId, data_source
from segments.interval import Interval
from segments.live import LiveAsk, LiveStatus
from segments.parquet.reader import verify_file
from tests.unit.ingest.appenderator.rows import OPENED_MS, poll_of, record_of, spec_of

HOUR = 3_600_000
BASE = OPENED_MS - OPENED_MS % HOUR
PLAIN = {
    "dimensionsSpec": {
        "dimensions": [
            "s",
            "m",
            {"type": "long", "name": "l"},
            {"type": "double", "name": "d"},
            {"type": "float", "name": "f"},
            {"type": "auto", "name": "a"},
        ]
    },
    "metricsSpec": [{"type": "longSum", "name": "x", "fieldName": "x"}],
    "granularitySpec": {"rollup": False, "segmentGranularity": "hour"},
}
ROLLUP = {
    "dimensionsSpec": {"dimensions": ["s"]},
    "metricsSpec": [
        {"type": "count", "name": "n"},
        {"type": "longSum", "name": "sum", "fieldName": "x"},
        {"type": "doubleSum", "name": "dsum", "fieldName": "x"},
        {"type": "longMin", "name": "min", "fieldName": "x"},
        {"type": "floatMax", "name": "max", "fieldName": "x"},
        {"type": "longFirst", "name": "first", "fieldName": "x"},
        {"type": "longLast", "name": "last", "fieldName": "x"},
    ],
    "granularitySpec": {"rollup": True, "segmentGranularity": "hour", "queryGranularity": "minute"},
}


def held(tmp_path: Path, spec: SupervisorSpec, name: str = "work") -> Appenderator:
    appenderator = Appenderator(tmp_path / name, 7, name)
    appenderator.open_sequence(record_of(), spec)
    return appenderator


def allocate(start_ms: int, end_ms: int) -> PendingSegment:
    version = "2026-01-01T00:00:00.000Z"
    return PendingSegment(str(SegmentId(data_source("table"), Interval(start_ms, end_ms), version)), version, 0)


def merged(appenderator: Appenderator, number: int = 1) -> MergedSequence:
    appenderator.persist()
    end = appenderator.positions(number)
    start = {partition: 0 for partition in end}
    return appenderator.merge(replace(record_of(number, start), end=end), allocate)


def published_rows(result: MergedSequence) -> list[dict[str, Any]]:
    rows = [row for file in result.files for row in pq.read_table(file.path).to_pylist()]
    assert [verify_file(file.path).checksum for file in result.files] == [
        file.segment.checksum for file in result.files
    ]
    return rows


def live_rows(appenderator: Appenderator, start: int = 0) -> list[dict[str, Any]]:
    answer = appenderator.live(LiveAsk(1, 7, dict.fromkeys(appenderator.positions(1), start), {}))
    assert answer.status is LiveStatus.OK
    rows: list[dict[str, Any]] = []
    for chunk in (chunk for sequence in answer.sequences for chunk in sequence.chunks):
        data = appenderator.chunk_bytes(chunk.number)
        assert data is not None
        table = pa.ipc.open_stream(data).read_all()
        assert table.num_rows == chunk.rows
        rows += table.to_pylist()
    return rows


def spelt(rows: list[dict[str, Any]]) -> list[str]:
    """Rows as comparable texts: columns by name, one value and a list of it alike, as a query binds them."""
    plain = [{k: [v] if k == "m" and isinstance(v, str) else v for k, v in row.items()} for row in rows]
    return sorted(json.dumps(row, default=str, sort_keys=True) for row in plain)


ROWS: list[dict[str, Any]] = [
    {"t": BASE + at * 50_000, "s": "abc"[at % 3], "m": ["p", "q"][: at % 3], "l": at, "d": at / 4, "a": at, "x": at}
    for at in range(100)
]
MIXED = [
    *ROWS,
    {"t": BASE, "s": None, "m": ["z", None], "l": -(2**63), "d": -0.0, "f": None, "a": 1.5, "x": None},
    {"t": BASE + 5 * HOUR, "s": "", "m": "single", "l": 2**63 - 1, "d": 1e300, "a": "text", "x": 2**63 - 1},
]


@pytest.mark.parametrize("spills", [0, 1, 3])
def test_live_rows_are_the_rows_that_are_published(tmp_path: Path, spills: int) -> None:
    appenderator = held(tmp_path, spec_of(PLAIN))
    for at in range(0, len(MIXED), 17):
        appenderator.append(1, [poll_of(MIXED[at : at + 17], at)])
        if spills and at // 17 % (6 // spills) == 0:
            appenderator.persist()
    live = live_rows(appenderator)
    result = merged(appenderator)
    published = published_rows(result)
    for row in live:
        # A column that became wider later is bound with its final type.
        row["a"] = None if row["a"] is None else str(row["a"])
    assert spelt(live) == spelt(published)
    assert (result.rows_in, result.rows_stored) == (102, 102)
    assert result.counts == {0: PartitionCounts(good=102)}
    assert result.watermark_ms == OffsetMap({0: BASE + 5 * HOUR})
    assert [file.segment.id.interval.width_ms for file in result.files] == [HOUR] * len(result.files)
    assert result.files[0].segment.schema.multi_value_columns == {"m"}


def test_rolled_up_rows_sum_up_to_what_came_in_and_never_wrap(tmp_path: Path) -> None:
    appenderator = held(tmp_path, spec_of(ROLLUP))
    big = 2**62
    rows: list[dict[str, Any]] = [{"t": BASE + at % 7 * 1_000, "s": "ab"[at % 2], "x": at} for at in range(1_000)]
    rows += [{"t": BASE, "s": "big", "x": big} for _ in range(3)]
    for at in range(0, len(rows), 100):
        appenderator.append(1, [poll_of(rows[at : at + 100], at)])
        if at == 500:
            appenderator.persist()
    result = merged(appenderator)
    published = published_rows(result)
    assert sum(row["n"] for row in published) == len(rows) == result.rows_in
    assert sum(row["sum"] for row in published) == sum(row["x"] for row in rows)
    by_key = {row["s"]: row for row in published if row["s"] != "big"}
    assert len(published) - len(by_key) >= 2, "a sum beyond 64 bits stays in several rows"
    evens = [row for row in rows if row["s"] == "a"]
    assert (by_key["a"]["min"], by_key["a"]["max"], by_key["a"]["dsum"]) == (
        0,
        998.0,
        float(sum(r["x"] for r in evens)),
    )
    assert by_key["a"]["first"] == next(row["x"] for row in evens if row["t"] == BASE)
    assert by_key["a"]["last"] == [row["x"] for row in evens if row["t"] == BASE + 6_000][-1]
    assert by_key["a"]["__time"].timestamp() * 1000 == BASE - BASE % 60_000


def test_many_rows_are_rolled_up_in_memory_without_losing_one(tmp_path: Path) -> None:
    metrics = [{"type": "count", "name": "n"}, {"type": "longSum", "name": "sum", "fieldName": "x"}]
    appenderator = held(tmp_path, spec_of({**ROLLUP, "metricsSpec": metrics}))
    messages = [b'{"t":%d,"s":"%d","x":2}' % (BASE + at, at % 5) for at in range(30_000)]
    for at in range(4):
        appenderator.append(1, [poll_of(messages, at * 30_000)])
    totals = appenderator.totals(1)
    assert totals.rows < 100_000, "grouped once a hundred thousand rows were there"
    live = live_rows(appenderator)
    assert sum(row["n"] for row in live) == 120_000
    result = merged(appenderator)
    assert (result.rows_in, sum(row["sum"] for row in published_rows(result))) == (120_000, 240_000)
    assert result.rows_stored == 5


def test_a_row_limit_ends_an_append_after_the_message_that_reaches_it(tmp_path: Path) -> None:
    spec = spec_of(PLAIN, tuning={"maxRowsPerSegment": 30, "maxTotalRows": 50})
    appenderator = held(tmp_path, spec)
    rows = [{"t": BASE + (at % 2) * HOUR} for at in range(80)]
    first = appenderator.append(1, [poll_of(rows)])
    assert (first.totals.rows, first.rest[0].first_offset, len(first.rest[0])) == (50, 50, 30)
    one_hour = held(tmp_path, spec, "other").append(1, [poll_of([{"t": BASE}] * 40), poll_of([{"t": BASE}], 40)])
    assert (one_hour.totals.segment_rows, [p.first_offset for p in one_hour.rest]) == (30, [30, 40])
    assert one_hour.ranges == ((0, 0, 30),)


def test_an_end_below_the_position_drops_whole_hydrants_and_a_cut_keeps_them_apart(tmp_path: Path) -> None:
    appenderator = held(tmp_path, spec_of(PLAIN))
    appenderator.append(1, [poll_of(ROWS[:10])])
    appenderator.cut(1)
    appenderator.append(1, [poll_of(ROWS[10:25], 10)])
    appenderator.persist()
    appenderator.append(1, [poll_of(ROWS[25:30], 25)])
    end = OffsetMap({0: 10})
    assert appenderator.reread_from(1, end) == end
    assert appenderator.totals(1).rows == 30, "asking drops nothing"
    assert appenderator.drop_past(1, end) == end
    assert sorted(row["l"] for row in live_rows(appenderator)) == list(range(10))
    fresh = Appenderator(tmp_path / "again", 7, "again")
    assert fresh.restore(tmp_path / "work", {1: spec_of(PLAIN)}) == {1: end}
    # Without the cut the hydrant around the end goes as a whole, and reading goes on below the end.
    assert appenderator.drop_past(1, OffsetMap({0: 5})) == OffsetMap({0: 0})


def test_live_answers_follow_the_vector_alone(tmp_path: Path) -> None:
    appenderator = held(tmp_path, spec_of(PLAIN))
    appenderator.append(1, [poll_of(ROWS[:10])])
    appenderator.open_sequence(record_of(1, end={0: 10}), spec_of(PLAIN))
    appenderator.open_sequence(record_of(2, start={0: 10}), spec_of(PLAIN))
    appenderator.append(2, [poll_of(ROWS[10:15], 10)])

    def ask(offset: int, version: int = 1, epoch: int = 0, group: int = 7) -> tuple[LiveStatus, list[int]]:
        answer = appenderator.live(LiveAsk(version, group, {0: offset}, {0: epoch}))
        return answer.status, [sequence.number for sequence in answer.sequences]

    assert ask(0) == (LiveStatus.OK, [1, 2])
    assert ask(10) == (LiveStatus.OK, [2])
    assert ask(5) == (LiveStatus.NOT_THERE, [])
    assert ask(0, epoch=1) == (LiveStatus.EPOCH, [])
    assert ask(0, group=8) == (LiveStatus.NOT_THERE, [])
    assert appenderator.drop(1, version=3) > 0
    assert ask(10, version=2) == (LiveStatus.TOO_OLD, [])
    assert ask(10, version=3) == (LiveStatus.OK, [2])
    assert ask(0, version=3) == (LiveStatus.NOT_THERE, [])


def test_a_sequence_is_not_live_past_its_start_though_the_task_has_not_heard_of_its_end(tmp_path: Path) -> None:
    appenderator = held(tmp_path, spec_of(PLAIN))
    appenderator.append(1, [poll_of(ROWS[:10])])
    appenderator.open_sequence(record_of(2, start={0: 10}), spec_of(PLAIN))
    answer = appenderator.live(LiveAsk(2, 7, {0: 10}, {0: 0}))
    assert (answer.status, [sequence.number for sequence in answer.sequences]) == (LiveStatus.OK, [2])


def test_rejected_records_go_to_one_quarantine_file_over_all_spills(tmp_path: Path) -> None:
    appenderator = held(tmp_path, spec_of(PLAIN))
    appenderator.append(1, [poll_of([b"{broken", {"t": BASE}, None], timestamps_ms=[5, 6, 7])])
    appenderator.persist()
    appenderator.append(1, [poll_of([b"\xff", b"[]"], 3)])
    result = merged(appenderator)
    assert result.quarantine is not None and result.quarantine.rows == 3
    table = pq.read_table(result.quarantine.path).to_pylist()
    assert [(row["topic"], row["partition"], row["offset"], row["value"]) for row in table] == [
        ("topic", 0, 0, b"{broken"),
        ("topic", 0, 3, b"\xff"),
        ("topic", 0, 4, b"[]"),
    ]
    assert table[0]["timestamp"].timestamp() == 0.005 and table[1]["timestamp"] is None
    assert all(row["reason"] for row in table)
    assert result.counts == {0: PartitionCounts(good=1, unparseable=3, tombstones=1)}


def test_a_range_without_a_row_still_counts_and_merges_to_no_file(tmp_path: Path) -> None:
    appenderator = held(tmp_path, spec_of(PLAIN))
    appenderator.append(1, [poll_of([None, None]), replace(poll_of([], 2), end_offset=9)])
    result = merged(appenderator)
    assert (result.files, result.quarantine, result.rows_in) == ((), None, 0)
    assert result.counts == {0: PartitionCounts(tombstones=2, no_record=7)}


def test_many_open_time_chunks_share_a_file_and_are_chunks_of_their_own(tmp_path: Path) -> None:
    spec = spec_of({**PLAIN, "granularitySpec": {"rollup": False, "segmentGranularity": "minute"}})
    appenderator = held(tmp_path, spec)
    for step in range(2):
        rows = [{"t": BASE + at % 40 * 60_000, "l": at, "a": at if step == 0 else "text"} for at in range(1_000)]
        appenderator.append(1, [poll_of(rows, step * 1_000)])
        appenderator.persist()
    assert appenderator.totals(1).segment_rows == 50
    assert len(list((tmp_path / "work").glob("*.arrow"))) == 2
    answer = appenderator.live(LiveAsk(1, 7, {0: 0}, {0: 0}))
    assert [chunk.path for chunk in answer.sequences[0].chunks] == [None] * 80
    assert sorted(row["l"] for row in live_rows(appenderator)) == sorted([*range(1_000)] * 2)
    again = Appenderator(tmp_path / "again", 7, "again")
    again.restore(tmp_path / "work", {1: spec})
    assert abs(again.held()[1] - sum(path.stat().st_size for path in (tmp_path / "again").glob("*.arrow"))) < 80
    result = merged(again)
    assert len(result.files) == 40 and result.rows_stored == 2_000
    assert sorted(row["l"] for row in published_rows(result)) == sorted([*range(1_000)] * 2)


def test_a_column_that_widens_late_keeps_the_values_from_before(tmp_path: Path) -> None:
    schema = {"dimensionsSpec": {"useSchemaDiscovery": True}, "granularitySpec": {"rollup": False}}
    appenderator = held(tmp_path, spec_of(schema))
    appenderator.append(1, [poll_of([{"t": BASE, "v": 1, "w": 2.5}])])
    appenderator.persist()
    appenderator.append(1, [poll_of([{"t": BASE, "v": 1.5, "w": "x", "new": "n"}], 1)])
    rows = published_rows(merged(appenderator))
    assert sorted((row["v"], row["w"], row["new"]) for row in rows if row["new"]) == [(1.5, "x", "n")]
    assert [(row["v"], row["w"]) for row in rows if not row["new"]] == [(1.0, "2.5")]


def test_no_limit_of_bytes_ends_where_arrow_cannot_put_texts_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appenderator_module, "_MEMORY_BYTES_MAX", 400)
    appenderator = held(tmp_path, spec_of(PLAIN, tuning={"maxBytesInMemory": -1}))
    appenderator.append(1, [poll_of(ROWS[:1])])
    assert not appenderator.maintain(0)
    appenderator.append(1, [poll_of(ROWS[1:30], 1)])
    assert appenderator.maintain(0), "by bytes"


def test_what_is_due_is_spilled_by_rows_and_by_time(tmp_path: Path) -> None:
    tuning = {"maxRowsInMemory": 10, "intermediatePersistPeriod": "PT1M"}
    appenderator = held(tmp_path, spec_of(PLAIN, tuning=tuning))
    assert not appenderator.maintain(0)
    appenderator.append(1, [poll_of(ROWS[:5])])
    assert not appenderator.maintain(59_999)
    assert appenderator.maintain(60_000), "by time"
    assert not appenderator.maintain(200_000), "nothing is in memory"
    appenderator.append(1, [poll_of(ROWS[5:15], 5)])
    assert appenderator.maintain(200_001), "by rows"
