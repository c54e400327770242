"""The merge of spills equals a plain grouping and sorting of rows, whatever the slices."""

import math
import multiprocessing
import os
import resource
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from segments.errors import SpillUnreadable, StorageFull
from segments.identity import DataSource, SegmentId
from segments.interval import Granularity, Interval
from segments.parquet.footer import SegmentFileMeta
from segments.parquet.merge import merge_spills
from segments.parquet.reader import read_batches, verify_file
from segments.parquet.spill import write_spill
from segments.rollup import MergeFunction, RollupAggregation
from segments.schema import ColumnSpec, ColumnType, SegmentSchema
from tests.searching import examples

Row = dict[str, Any]
META = SegmentFileMeta(
    id=SegmentId(DataSource("t"), Interval.parse("1970-01-01/P1D"), "v1", 3),
    offsets=((0, 5, 17), (2, 0, 3)),
    sequence="t_1_0",
    spec_version=2,
    input_rows=99,
)
COLUMNS = [
    ColumnSpec("page", ColumnType.STRING),
    ColumnSpec("tags", ColumnType.STRING, multi_value=True),
    ColumnSpec("level", ColumnType.LONG),
    ColumnSpec("ratio", ColumnType.DOUBLE),
    ColumnSpec("count", ColumnType.LONG, kind="metric"),
    ColumnSpec("least", ColumnType.LONG, kind="metric"),
    ColumnSpec("most", ColumnType.DOUBLE, kind="metric"),
    ColumnSpec("weight", ColumnType.FLOAT, kind="metric"),
    ColumnSpec("opened", ColumnType.STRING, kind="metric"),
    ColumnSpec("closed", ColumnType.LONG, kind="metric"),
]
AGGREGATIONS = [
    RollupAggregation("count", MergeFunction.SUM),
    RollupAggregation("least", MergeFunction.MIN),
    RollupAggregation("most", MergeFunction.MAX),
    RollupAggregation("weight", MergeFunction.SUM),
    RollupAggregation("opened", MergeFunction.FIRST),
    RollupAggregation("closed", MergeFunction.LAST),
]
SPILL_TYPES = {
    "page": pa.string(),
    "tags": pa.list_(pa.string()),
    "level": pa.int64(),
    "ratio": pa.float64(),
    "count": pa.int64(),
    "least": pa.int64(),
    "most": pa.float64(),
    "weight": pa.float32(),
    "opened": pa.string(),
    "closed": pa.int64(),
    "__time_of:opened": pa.int64(),
    "__time_of:closed": pa.int64(),
}
MINUTE_MS = 60_000


def null_or(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), strategy)


row_strategy = st.fixed_dictionaries(
    {
        "__time": st.integers(0, 4).map(lambda minute: minute * MINUTE_MS),
        "page": null_or(st.sampled_from(["", "a", "b", "ä", "𝄞"])),
        "tags": null_or(st.lists(null_or(st.sampled_from(["x", "y", "xy"])), min_size=1, max_size=3)),
        "level": null_or(st.sampled_from([-(2**63), -1, 0, 2**63 - 1])),
        "ratio": null_or(st.sampled_from([-1.5, 0.0, math.inf, math.nan])),
        "count": null_or(st.sampled_from([1, 2, 2**62, 2**63 - 1, -(2**63)])),
        "least": null_or(st.integers(-5, 5)),
        "most": null_or(st.sampled_from([-math.inf, -1.0, 2.5])),
        "weight": null_or(st.sampled_from([0.5, 1.25, -3.0])),
        "opened": null_or(st.sampled_from(["o", "p"])),
        "closed": null_or(st.integers(0, 9)),
        "__time_of:opened": null_or(st.integers(0, 3)),
        "__time_of:closed": null_or(st.integers(0, 3)),
    }
)


def spills_of(parts: Sequence[Sequence[Row]], folder: Path) -> list[Path]:
    paths = []
    for number, rows in enumerate(parts):
        names = {name: kind for name, kind in SPILL_TYPES.items() if any(row.get(name) is not None for row in rows)}
        data = {name: pa.array([row.get(name) for row in rows], kind) for name, kind in names.items()}
        times = pa.array([row["__time"] for row in rows], pa.timestamp("ms", "UTC"))
        paths.append(folder / f"{number}.spill")
        write_spill(pa.table({"__time": times, **data}), paths[-1])
    return paths


def stored(rows: Sequence[Row], schema: SegmentSchema) -> list[Row]:
    """The segment's columns of rows, with NaN made comparable."""
    names = [column.name for column in schema.columns]
    return [{name: "NaN" if is_nan(row.get(name)) else row.get(name) for name in names} for row in rows]


def is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def with_plain_tags(rows: Sequence[Row]) -> list[Row]:
    """No value or a single missing one is null; without any row of several values all are plain."""
    several = any(len(row["tags"] or []) > 1 for row in rows)
    out = []
    for row in rows:
        tags = None if row["tags"] in (None, [], [None]) else row["tags"]
        out.append({**row, "tags": tags if several or tags is None else tags[0]})
    return out


def ordering(value: Any) -> Any:
    """Nulls first, NaN last; texts by their bytes."""
    if value is None:
        return (0,)
    if isinstance(value, list):
        return (1, [ordering(item) for item in value])
    if isinstance(value, float) and math.isnan(value):
        return (2,)
    return (1, value.encode() if isinstance(value, str) else value)


def sort_key(schema: SegmentSchema) -> Callable[[Row], Any]:
    granularity = schema.sort_granularity
    return lambda row: (
        granularity.truncate(row["__time"]),
        [ordering(row[name]) for name in schema.sort_order],
        row["__time"],
    )


def combined(rows: list[Row]) -> list[Row]:
    """Rows of one key as one row by the functions' definitions, or as they are if the long sum overflows."""
    total = sum(row["count"] or 0 for row in rows)
    if not -(2**63) <= total < 2**63:
        return rows
    one = dict(rows[0])
    fold: dict[str, Callable[[list[Any]], Any]] = {"count": sum, "least": min, "most": max, "weight": sum}
    for name, function in fold.items():
        values = [row[name] for row in rows if row[name] is not None]
        one[name] = function(values) if values else None
    for name, last in (("opened", False), ("closed", True)):
        timed = [(row["__time_of:" + name], place) for place, row in enumerate(rows)]
        timed = [pair for pair in timed if pair[0] is not None]
        chosen = (max(timed) if last else min(timed))[1] if timed else 0
        one[name] = rows[chosen][name]
    return [one]


def contents(path: Path) -> list[Row]:
    rows = [row for batch in read_batches(path) for row in batch.to_pylist()]
    for row in rows:
        row["__time"] = int(row["__time"].timestamp() * 1000)
        row.update({name: "NaN" for name, value in row.items() if isinstance(value, float) and math.isnan(value)})
    return rows


@settings(deadline=None, max_examples=examples(15), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    parts=st.lists(st.lists(row_strategy, min_size=1, max_size=12), min_size=1, max_size=4),
    rollup=st.booleans(),
    granularity=st.sampled_from(["NONE", "MINUTE", "DAY"]),
    slice_rows=st.sampled_from([1, 3, 1000]),
)
def test_a_merge_equals_plain_grouping_and_sorting(
    parts: list[list[Row]], rollup: bool, granularity: str, slice_rows: int, tmp_path: Path
) -> None:
    schema = SegmentSchema.of(COLUMNS, Granularity.of(granularity), rollup)
    for row in (row for part in parts for row in part):
        row["__time"] = Granularity.of(granularity).truncate(row["__time"])
    # A spill keeps rows of equal time in their order.
    arrived = [row for part in parts for row in sorted(part, key=lambda row: row["__time"])]
    key = sort_key(schema)
    expected = sorted(with_plain_tags(arrived), key=key)
    if rollup:
        expected = [row for _, group in groupby(expected, key=key) for row in combined(list(group))]
    out = tmp_path / "segment.parquet"
    result = merge_spills(spills_of(parts, tmp_path), out, schema, AGGREGATIONS if rollup else None, META, slice_rows)
    assert contents(out) == stored(expected, schema)
    proof = verify_file(out)
    assert (proof.checksum, proof.size_bytes, proof.footer.rows) == (result.checksum, result.size_bytes, result.rows)
    assert proof.footer.meta == META
    assert result.rows == len(expected)
    assert (result.min_time_ms, result.max_time_ms) == (
        min(r["__time"] for r in arrived),
        max(r["__time"] for r in arrived),
    )
    assert [path.name for path in tmp_path.iterdir() if path.suffix not in (".spill", ".parquet")] == []


def merged(rows: Sequence[Row], tmp_path: Path, rollup: bool = False) -> tuple[Path, SegmentSchema]:
    schema = SegmentSchema.of(COLUMNS, Granularity.MINUTE, rollup)
    full = [{"tags": None, "count": 1, "__time": 0, **row} for row in rows]
    out = tmp_path / "segment.parquet"
    result = merge_spills(spills_of([full], tmp_path), out, schema, AGGREGATIONS if rollup else None, META)
    return out, result.schema


def test_a_string_column_is_a_list_exactly_when_a_row_has_several_values(tmp_path: Path) -> None:
    single, schema = merged([{"tags": ["x"]}, {"tags": None}, {"tags": [None]}], tmp_path)
    assert schema.multi_value_columns == frozenset()
    assert sorted(str(row["tags"]) for row in contents(single)) == ["None", "None", "x"]
    several, schema = merged([{"tags": ["x"]}, {"tags": None}, {"tags": ["b", "a"]}, {"tags": []}], tmp_path)
    assert schema.multi_value_columns == {"tags"}
    assert [row["tags"] for row in contents(several)] == [None, [], ["b", "a"], ["x"]]
    assert pq.read_schema(several).field("tags").type == pa.list_(pa.string())


def test_a_list_without_members_is_not_null(tmp_path: Path) -> None:
    rows: list[Row] = [{"tags": ["x"]}, {"tags": None}, {"tags": []}]
    out, schema = merged(rows, tmp_path)
    column = schema.column("tags")
    assert column is not None and column.empty_lists and schema.multi_value_columns == frozenset()
    # Readers of before 'emptyLists' see a multi-value column, which the file's type is that of.
    assert ColumnSpec.from_json(column.to_json()) == column and column.to_json()["multiValue"] is True
    assert [row["tags"] for row in contents(out)] == [None, [], ["x"]]
    out, _ = merged([*rows, *rows, {"tags": [None]}], tmp_path, rollup=True)
    assert [row["tags"] for row in contents(out)] == [None, [], ["x"]]


def test_stored_columns_are_plain_and_encoded_as_documented(tmp_path: Path) -> None:
    out, _ = merged([{"page": "a", "ratio": 1.0}, {"page": "b", "ratio": 2.0}], tmp_path)
    assert pq.read_schema(out).field("page").type == pa.string()
    group = pq.ParquetFile(out).metadata.row_group(0)
    by_name = {group.column(index).path_in_schema: group.column(index) for index in range(group.num_columns)}
    assert "DELTA_BINARY_PACKED" in by_name["__time"].encodings and by_name["__time"].compression == "ZSTD"
    assert "RLE_DICTIONARY" in by_name["page"].encodings
    assert "RLE_DICTIONARY" not in by_name["count"].encodings
    assert by_name["ratio"].is_stats_set


@pytest.mark.parametrize("values", [[1.0, math.nan, None], [math.nan], [math.nan, 5.0]])
def test_a_float_column_with_nan_has_no_statistics(values: list[float | None], tmp_path: Path) -> None:
    out, _ = merged([{"ratio": value, "most": 1.0} for value in values], tmp_path)
    group = pq.ParquetFile(out).metadata.row_group(0)
    stats = {group.column(i).path_in_schema: group.column(i).is_stats_set for i in range(group.num_columns)}
    assert not stats["ratio"] and stats["most"] and stats["level"]


def test_duckdb_finds_nan_rows_as_the_live_rows_do(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    out, _ = merged([{"ratio": 1.0}, {"ratio": math.nan}, {"ratio": None}], tmp_path)
    live = pq.read_table(out)
    for where in ("ratio <> 1", "ratio > 5", "NOT (ratio < 2)", "ratio = 'nan'", "ratio <= 1", "ratio BETWEEN 0 AND 2"):
        with duckdb.connect() as connection:
            connection.register("live", live)
            counts = [
                connection.sql(f"SELECT count(*) FROM {table} WHERE {where}").fetchall()
                for table in (f"'{out}'", "live")
            ]
        assert counts[0] == counts[1], where


def test_a_sum_that_could_become_nan_has_no_statistics(tmp_path: Path) -> None:
    rows = [{"weight": math.inf}, {"weight": -math.inf}]
    out, _ = merged(rows, tmp_path, rollup=True)
    assert [row["weight"] for row in contents(out)] == ["NaN"]
    assert not pq.ParquetFile(out).metadata.row_group(0).column(8).is_stats_set


def test_spills_without_a_column_give_nulls(tmp_path: Path) -> None:
    schema = SegmentSchema.of(COLUMNS)
    paths = spills_of([[{"__time": 0, "page": "a"}], [{"__time": 0, "level": 3}]], tmp_path)
    merge_spills(paths, tmp_path / "out.parquet", schema, None, META)
    assert [(row["page"], row["level"]) for row in contents(tmp_path / "out.parquet")] == [(None, 3), ("a", None)]


def test_an_unreadable_spill_is_named(tmp_path: Path) -> None:
    schema = SegmentSchema.of(COLUMNS)
    [good] = spills_of([[{"__time": 0, "page": "a"}]], tmp_path)
    cut = tmp_path / "cut.spill"
    cut.write_bytes(good.read_bytes()[:-20])
    unsorted = tmp_path / "unsorted.spill"
    with pa.ipc.new_file(str(unsorted), pa.schema([("__time", pa.int64())])) as writer:
        writer.write_table(pa.table({"__time": [5, 3]}))
    wrong = tmp_path / "wrong.spill"
    write_spill(pa.table({"__time": pa.array([0]), "level": ["many"]}), wrong)
    for path, reason in ((cut, "cut"), (unsorted, "sorted"), (tmp_path / "gone", "gone"), (wrong, "level")):
        with pytest.raises(SpillUnreadable, match=reason):
            merge_spills([good, path], tmp_path / "out.parquet", schema, None, META)
    assert not (tmp_path / "out.parquet").exists()


def merge_with_little_space(folder: str) -> None:
    """Ends with 0 if the merge failed as on a full disk and left nothing."""
    path = Path(folder)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    try:
        merge_spills([path / "0.spill"], path / "out.parquet", SegmentSchema.of(COLUMNS), None, META)
    except StorageFull:
        os._exit(0 if [found.name for found in path.iterdir()] == ["0.spill"] else 2)
    os._exit(1)


def test_a_merge_on_a_full_disk_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    noise = np.random.default_rng(1).integers(0, 1 << 60, 60_000)
    write_spill(pa.table({"__time": np.zeros(60_000, np.int64), "level": noise}), tmp_path / "0.spill")
    process = multiprocessing.get_context("fork").Process(target=merge_with_little_space, args=(str(tmp_path),))
    process.start()
    process.join()
    assert process.exitcode == 0


def test_spills_may_have_several_batches_and_other_types_that_fit(tmp_path: Path) -> None:
    texts = pa.DictionaryArray.from_arrays(pa.array([1, 0, None], pa.int8()), pa.array(["x", "y"]))
    rows = pa.table({"__time": pa.array([1, 2, 3]), "page": texts, "ratio": pa.array([2**60 + 1, 1, 0])})
    with pa.ipc.new_file(str(tmp_path / "spill"), rows.schema) as writer:
        writer.write_table(rows, max_chunksize=2)
    merge_spills([tmp_path / "spill"], tmp_path / "out.parquet", SegmentSchema.of(COLUMNS), None, META)
    found = [(row["__time"], row["page"], row["ratio"]) for row in contents(tmp_path / "out.parquet")]
    assert found == [(3, None, 0.0), (2, "x", 1.0), (1, "y", float(2**60))]


def test_a_mass_of_equal_rows_is_cut_into_slices(tmp_path: Path) -> None:
    schema = SegmentSchema.of([ColumnSpec("page", ColumnType.STRING)])
    rows: list[Row] = [{"__time": number // 50, "page": "same"} for number in range(500)]
    merge_spills(spills_of([rows, rows], tmp_path), tmp_path / "out.parquet", schema, None, META, slice_rows=7)
    assert [row["__time"] for row in contents(tmp_path / "out.parquet")] == sorted(row["__time"] for row in rows * 2)
