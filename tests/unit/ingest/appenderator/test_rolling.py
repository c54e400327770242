"""Rows rolled up in memory equal a plain grouping, and live queries see every batch so."""

from __future__ import annotations

import math
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.appenderator.appenderator import Appenderator
from ingest.appenderator.rolling import rolled_up
from segments.live import LiveAsk
from segments.rollup import MergeFunction, RollupAggregation
from segments.schema import ColumnSpec, ColumnType, SegmentSchema
from tests.searching import examples
from tests.unit.ingest.appenderator.rows import OPENED_MS, poll_of, record_of, spec_of
from tests.unit.ingest.appenderator.test_appenderator import ROLLUP, merged, published_rows

SCHEMA = SegmentSchema.of(
    [
        ColumnSpec("page", ColumnType.STRING),
        ColumnSpec("tags", ColumnType.STRING, multi_value=True),
        ColumnSpec("level", ColumnType.LONG),
        ColumnSpec("ratio", ColumnType.DOUBLE),
        ColumnSpec("count", ColumnType.LONG, kind="metric"),
        ColumnSpec("least", ColumnType.DOUBLE, kind="metric"),
        ColumnSpec("opened", ColumnType.STRING, kind="metric"),
        ColumnSpec("closed", ColumnType.LONG, kind="metric"),
    ]
)
AGGREGATIONS = (
    RollupAggregation("count", MergeFunction.SUM),
    RollupAggregation("least", MergeFunction.MIN),
    RollupAggregation("opened", MergeFunction.FIRST),
    RollupAggregation("closed", MergeFunction.LAST),
)
TYPES = {
    "__time": pa.timestamp("ms", "UTC"),
    "page": pa.string(),
    "tags": pa.list_(pa.string()),
    "level": pa.int64(),
    "ratio": pa.float64(),
    "count": pa.int64(),
    "least": pa.float64(),
    "opened": pa.string(),
    "__time_of:opened": pa.int64(),
    "closed": pa.int64(),
    "__time_of:closed": pa.int64(),
}
KEYS = ("__time", "page", "tags", "level", "ratio")

some = st.fixed_dictionaries(
    {
        "__time": st.sampled_from([0, 60_000]),
        "page": st.sampled_from([None, "a", "ä"]),
        "tags": st.sampled_from([None, [], ["x"], ["x", "y"], ["y", "x"], [None, "x"]]),
        "level": st.sampled_from([None, 0, 2**62, -(2**63)]),
        "ratio": st.sampled_from([None, 0.0, math.nan]),
        "count": st.sampled_from([None, 1, 3, 2**63 - 1]),
        "least": st.sampled_from([None, -2.5, 4.0]),
        "opened": st.sampled_from([None, "o", "p"]),
        "closed": st.sampled_from([None, 1, 2]),
        "at": st.integers(0, 3),
    }
)


def comparable(row: dict[str, Any], names: tuple[str, ...]) -> str:
    return repr([row[name] for name in names])


def plain_grouping(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By the definitions of the functions; groups whose long sum would overflow stay as they are."""
    made: list[dict[str, Any]] = []
    ordered = sorted(rows, key=lambda row: comparable(row, KEYS))
    for _, members in groupby(ordered, key=lambda row: comparable(row, KEYS)):
        group = list(members)
        counts = [row["count"] for row in group if row["count"] is not None]
        if sum(counts) >= 2**63:
            made += group
            continue
        least = [row["least"] for row in group if row["least"] is not None]
        one = {**group[0], "count": sum(counts) if counts else None, "least": min(least, default=None)}
        for name, last in (("opened", False), ("closed", True)):
            timed = [(row["__time_of:" + name], place) for place, row in enumerate(group) if row[name] is not None]
            place = (max(timed) if last else min(timed))[1] if timed else 0
            one |= {key: group[place][key] for key in (name, "__time_of:" + name)}
        made.append(one)
    return made


@settings(deadline=None, max_examples=examples(40))
@given(rows=st.lists(some, max_size=30), pieces=st.integers(1, 3))
def test_rolling_up_in_memory_equals_a_plain_grouping(rows: list[dict[str, Any]], pieces: int) -> None:
    for row in rows:
        at = row.pop("at")
        for name in ("opened", "closed"):
            row["__time_of:" + name] = None if row[name] is None else at
    table = pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in TYPES.items()})
    parts = [table.slice(at, -(-len(rows) // pieces)) for at in range(0, len(rows), max(1, -(-len(rows) // pieces)))]
    # What was rolled up before, with dictionaries of its own, is rolled up again.
    once = [rolled_up(part, SCHEMA, AGGREGATIONS) for part in parts] or [table]
    joined = pa.concat_tables(once if len({part.schema for part in once}) == 1 else parts)
    found = rolled_up(joined, SCHEMA, AGGREGATIONS)
    shown = [{**row, "__time": int(row["__time"].timestamp() * 1000)} for row in found.to_pylist()]
    overflows = any(row["count"] == 2**63 - 1 for row in rows)
    names = tuple(TYPES) if not overflows else KEYS
    expected = {comparable(row, names) for row in plain_grouping(rows)}
    assert {comparable(row, names) for row in shown} == expected
    if not overflows:
        assert len(shown) == len(expected)
    assert sum(row["count"] or 0 for row in shown) == sum(row["count"] or 0 for row in rows)


def chunks_of(appenderator: Appenderator) -> list[pa.Table]:
    answer = appenderator.live(LiveAsk(1, 7, {0: 0}, {0: 0}))
    tables = []
    for chunk in answer.sequences[0].chunks:
        data = appenderator.chunk_bytes(chunk.number)
        assert data is not None
        tables.append(pa.ipc.open_stream(data).read_all())
        assert tables[-1].num_rows == chunk.rows
    return tables


def test_a_live_batch_of_a_rollup_table_is_grouped_and_has_the_segments_columns(tmp_path: Path) -> None:
    appenderator = Appenderator(tmp_path / "work", 7, "work")
    appenderator.open_sequence(record_of(), spec_of(ROLLUP))
    minute = OPENED_MS - OPENED_MS % 60_000
    rows = [{"t": minute + at, "s": "ab"[at % 2], "x": at} for at in range(20)]
    appenderator.append(1, [poll_of(rows[:10])])
    appenderator.append(1, [poll_of(rows[10:], 10)])
    found = chunks_of(appenderator)
    assert [table.num_rows for table in found] == [2, 2]
    assert appenderator.totals(1).rows == appenderator.totals(1).segment_rows == 4
    names = ["__time", "s", "n", "sum", "dsum", "min", "max", "first", "last"]
    assert [table.schema.names for table in found] == [names, names]
    first = sorted(found[0].to_pylist(), key=lambda row: str(row["s"]))[0]
    assert [first[name] for name in names[1:]] == ["a", 5, 20, 20.0, 0, 8.0, 0, 8]
    result = merged(appenderator)
    assert (result.rows_in, result.rows_stored) == (20, 2)
    stored = sorted(published_rows(result), key=lambda row: str(row["s"]))
    assert [[row[name] for name in names[1:]] for row in stored] == [
        ["a", 10, 90, 90.0, 0, 18.0, 0, 18],
        ["b", 10, 100, 100.0, 1, 19.0, 1, 19],
    ]


@pytest.mark.parametrize("rollup", [True, False])
def test_records_that_trickle_in_are_few_chunks(rollup: bool, tmp_path: Path) -> None:
    schema = {**ROLLUP, "granularitySpec": {**ROLLUP["granularitySpec"], "rollup": rollup}}  # type: ignore[dict-item]
    appenderator = Appenderator(tmp_path / "work", 7, "work")
    appenderator.open_sequence(record_of(), spec_of(schema))
    for at in range(200):
        appenderator.append(1, [poll_of([{"t": OPENED_MS, "s": "a", "x": at}], at)])
    tables = chunks_of(appenderator)
    assert len(tables) < 40
    counted = [row["n"] for table in tables for row in table.to_pylist()]
    assert sum(counted) == 200
    assert (len(counted) < 40) is rollup
    assert appenderator.totals(1).rows == len(counted)


def test_a_column_that_widens_late_is_rolled_up_with_the_rows_from_before(tmp_path: Path) -> None:
    schema = {
        "dimensionsSpec": {"dimensions": ["s", {"type": "auto", "name": "v"}]},
        "metricsSpec": [{"type": "count", "name": "n"}],
        "granularitySpec": {"rollup": True, "queryGranularity": "hour"},
    }
    appenderator = Appenderator(tmp_path / "work", 7, "work")
    appenderator.open_sequence(record_of(), spec_of(schema))
    appenderator.append(1, [poll_of([{"t": OPENED_MS, "s": "a", "v": 1}] * 3)])
    appenderator.append(1, [poll_of([{"t": OPENED_MS, "s": "a", "v": "1"}, {"t": OPENED_MS, "s": "b", "v": "x"}], 3)])
    result = merged(appenderator)
    assert [(row["s"], row["v"], row["n"]) for row in published_rows(result)] == [("a", "1", 4), ("b", "x", 1)]
