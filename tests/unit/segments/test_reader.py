"""Reading segment files: pruning by time and column, and files that do not prove what they claim."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from segments.errors import InvalidSchema, SegmentCorrupt, SegmentNotFound
from segments.identity import DataSource, SegmentId
from segments.interval import Interval
from segments.parquet.footer import SegmentFileMeta, SegmentFooter
from segments.parquet.merge import merge_spills
from segments.parquet.reader import read_batches, read_footer, verify_file
from segments.parquet.spill import write_spill
from segments.parquet.writer import ROW_GROUP_ROWS, SegmentFileWriter
from segments.schema import ColumnSpec, ColumnType, SegmentSchema

HOUR = Interval.parse("2026-01-01T00/PT1H")
META = SegmentFileMeta(SegmentId(DataSource("t"), HOUR, "v1"), ((0, 0, 3),), "t_1_0", 1, 3)
SCHEMA = SegmentSchema.of([ColumnSpec("a.b", ColumnType.STRING), ColumnSpec("n", ColumnType.LONG, kind="metric")])


def segment_file(folder: Path, rows: int = 3, step_ms: int = 600_000) -> Path:
    times = pa.array([HOUR.start_ms + number * step_ms for number in range(rows)])
    names = pa.array([f"name {number % 7}" for number in range(rows)])
    write_spill(pa.table({"__time": times, "a.b": names, "n": pa.array(range(rows), pa.int64())}), folder / "spill")
    merge_spills([folder / "spill"], folder / "segment.parquet", SCHEMA, None, META)
    return folder / "segment.parquet"


def rewritten(path: Path, footer: SegmentFooter, table: pa.Table | None = None) -> Path:
    """The same rows under another footer."""
    table = pq.read_table(path) if table is None else table
    pq.write_table(table.replace_schema_metadata(footer.to_metadata()), path)
    return path


def test_the_footer_says_what_the_file_is(tmp_path: Path) -> None:
    footer = read_footer(segment_file(tmp_path))
    assert (footer.meta, footer.schema, footer.rows) == (META, SCHEMA, 3)
    assert (footer.min_time_ms, footer.max_time_ms) == (HOUR.start_ms, HOUR.start_ms + 1_200_000)
    pairs = pq.read_metadata(tmp_path / "segment.parquet").metadata
    assert pairs is not None
    assert pairs[b"siltstone.segment_id"].decode() == str(META.id)
    assert pairs[b"siltstone.offsets"] == b"[[0, 0, 3]]"


def test_a_written_file_gives_its_published_record(tmp_path: Path) -> None:
    write_spill(pa.table({"__time": pa.array([HOUR.start_ms]), "n": pa.array([1])}), tmp_path / "spill")
    result = merge_spills([tmp_path / "spill"], tmp_path / "out", SCHEMA, None, META)
    segment = result.to_segment(META, {"type": "local", "key": "k"})
    assert (segment.id, segment.rows, segment.checksum) == (META.id, 1, verify_file(tmp_path / "out").checksum)
    assert segment.size_bytes == (tmp_path / "out").stat().st_size and segment.offsets == META.offsets


def test_rows_outside_of_an_interval_are_not_given(tmp_path: Path) -> None:
    path = segment_file(tmp_path)
    asked = Interval(HOUR.start_ms + 600_000, HOUR.start_ms + 1_200_000)
    assert [batch.to_pydict() for batch in read_batches(path, ["n", "a.b"], asked)] == [{"n": [1], "a.b": ["name 1"]}]
    assert list(read_batches(path, ["n"], Interval(0, 5))) == []
    with pytest.raises(InvalidSchema, match="no column 'm'"):
        list(read_batches(path, ["m"]))


def test_row_groups_are_of_one_size_and_pruned_by_time(tmp_path: Path) -> None:
    path = segment_file(tmp_path, rows=2 * ROW_GROUP_ROWS + 5, step_ms=10)
    metadata = pq.read_metadata(path)
    assert [metadata.row_group(group).num_rows for group in range(3)] == [ROW_GROUP_ROWS, ROW_GROUP_ROWS, 5]
    found = list(read_batches(path, ["n"], Interval(HOUR.end_ms - 60_000, HOUR.end_ms)))
    assert found == []
    assert sum(batch.num_rows for batch in read_batches(path, [])) == 2 * ROW_GROUP_ROWS + 5
    assert verify_file(path).footer.rows == 2 * ROW_GROUP_ROWS + 5


def test_a_whole_file_verifies_and_each_false_claim_is_found(tmp_path: Path) -> None:
    path = segment_file(tmp_path)
    footer = verify_file(path).footer
    table = pq.read_table(path)
    other = SegmentId(DataSource("t"), Interval(0, 1), "v1")
    cases = [
        (replace(footer, rows=4), table, "footer says"),
        (replace(footer, min_time_ms=0), table, "footer says"),
        (replace(footer, schema=SegmentSchema.of([])), table, "other columns"),
        (replace(footer, meta=replace(META, id=other)), table, "outside of its segment's interval"),
        (footer, table.take([2, 0, 1]), "not sorted"),
        (replace(footer, format_version=2), table, "newer than 1"),
    ]
    for claim, rows, reason in cases:
        with pytest.raises(SegmentCorrupt, match=reason):
            verify_file(rewritten(path, claim, rows))
    assert verify_file(rewritten(path, footer, table)).footer == footer


def test_damaged_files_are_named(tmp_path: Path) -> None:
    path = segment_file(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[:-10])
    with pytest.raises(SegmentCorrupt, match="not a whole Parquet file"):
        verify_file(path)
    path.write_bytes(content[:8] + bytes(60) + content[68:])
    with pytest.raises(SegmentCorrupt, match="row group 0"):
        verify_file(path)
    pq.write_table(pa.table({"x": [1]}), path)
    with pytest.raises(SegmentCorrupt, match="no readable segment footer"):
        read_footer(path)
    with pytest.raises(SegmentNotFound, match="gone"):
        read_footer(tmp_path / "gone")


def test_a_failed_writer_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), SegmentFileWriter(tmp_path / "out", SCHEMA, META):
        raise RuntimeError("disk gone")
    assert list(tmp_path.iterdir()) == []
