"""Segment schemas and records: JSON both ways, Arrow types, refusals."""

import json
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from segments.data_segment import DataSegment
from segments.errors import InvalidSchema, InvalidValue
from segments.identity import DataSource, SegmentId
from segments.interval import Granularity, Interval
from segments.schema import ColumnSpec, ColumnType, SegmentSchema, wider

CHANNEL = ColumnSpec("channel", ColumnType.STRING)
TAGS = ColumnSpec("tags", ColumnType.STRING, multi_value=True)
ADDED = ColumnSpec("added", ColumnType.LONG, kind="metric")
SCHEMA = SegmentSchema.of([CHANNEL, TAGS, ADDED], Granularity.MINUTE, rollup=True)
SEGMENT = DataSegment(
    id=SegmentId(DataSource("wiki"), Interval.parse("2026-01-01/P1D"), "2026-01-02T00:00:00.000Z", 2),
    rows=10,
    size_bytes=1234,
    schema=SCHEMA,
    load_spec={"type": "local", "key": "wiki/x.parquet"},
    min_time_ms=5,
    max_time_ms=6,
    offsets=((0, 0, 7), (3, 10, 10)),
    checksum="ab" * 32,
    spec_version=4,
    sequence="wiki_1_2",
    input_rows=17,
)


def test_a_schema_reads_back_from_json() -> None:
    assert SegmentSchema.from_json(json.loads(json.dumps(SCHEMA.to_json()))) == SCHEMA
    day = {"type": "period", "period": "P1D", "timeZone": "Europe/Berlin"}
    zoned = replace(SCHEMA, query_granularity=Granularity.of(day))
    assert SegmentSchema.from_json(json.loads(json.dumps(zoned.to_json()))) == zoned


def test_a_schema_has_plain_arrow_types() -> None:
    time = pa.field("__time", pa.timestamp("ms", "UTC"), nullable=False)
    rest = [
        pa.field("channel", pa.string()),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("added", pa.int64()),
    ]
    assert SCHEMA.to_arrow().equals(pa.schema([time, *rest]))
    back = SegmentSchema.from_arrow(SCHEMA.to_arrow(), ["added"], Granularity.MINUTE)
    assert back == replace(SCHEMA, rollup=False)


def test_dictionary_and_null_types_count_as_strings() -> None:
    fields = pa.schema([pa.field("d", pa.dictionary(pa.int32(), pa.string())), pa.field("n", pa.null())])
    assert [column.type for column in SegmentSchema.from_arrow(fields).columns[1:]] == ["STRING", "STRING"]
    with pytest.raises(InvalidSchema, match="decimal"):
        SegmentSchema.from_arrow(pa.schema([pa.field("x", pa.decimal128(5, 2))]))


def test_names_differ_by_case_and_never_occur_twice() -> None:
    SegmentSchema.of([ColumnSpec("userId", ColumnType.LONG), ColumnSpec("userid", ColumnType.LONG)])
    with pytest.raises(InvalidSchema, match="userId"):
        SegmentSchema.of([ColumnSpec("userId", ColumnType.LONG), ColumnSpec("userId", ColumnType.LONG)])


@pytest.mark.parametrize(
    "build",
    [
        lambda: ColumnSpec("", ColumnType.STRING),
        lambda: ColumnSpec("x", ColumnType.LONG, multi_value=True),
        lambda: ColumnSpec("__time", ColumnType.LONG),
        lambda: ColumnSpec("x", ColumnType.LONG, kind="time"),
        lambda: ColumnSpec("x", ColumnType.COMPLEX),
        lambda: SegmentSchema((CHANNEL,), ()),
        lambda: replace(SCHEMA, sort_order=("missing",)),
        lambda: ColumnSpec.from_json({"name": "x", "type": "TEXT", "kind": "dimension"}),
        lambda: SegmentSchema.from_json({}),
    ],
)
def test_impossible_columns_are_refused(build: Callable[[], object]) -> None:
    with pytest.raises(InvalidSchema):
        build()


def test_multi_value_is_set_per_segment() -> None:
    single = SCHEMA.with_multi_value([])
    assert single.multi_value_columns == frozenset()
    assert single.with_multi_value(["tags"]) == SCHEMA


def test_rows_are_sorted_by_a_minute_or_the_query_granularity() -> None:
    assert SegmentSchema.of([CHANNEL]).sort_granularity == Granularity.MINUTE
    assert SegmentSchema.of([CHANNEL], Granularity.HOUR).sort_granularity == Granularity.HOUR


def test_a_segment_reads_back_from_json() -> None:
    assert DataSegment.from_json(json.loads(json.dumps(SEGMENT.to_json()))) == SEGMENT
    assert hash(SEGMENT) == hash(DataSegment.from_json(SEGMENT.to_json()))


def test_a_segment_record_with_a_hole_is_refused() -> None:
    for name in SEGMENT.to_json():
        broken = {key: value for key, value in SEGMENT.to_json().items() if key != name}
        with pytest.raises(InvalidValue):
            DataSegment.from_json(broken)
    with pytest.raises(InvalidSchema, match="before it starts"):
        DataSegment.from_json(SEGMENT.to_json() | {"offsets": [[0, 7, 3]]})


def test_a_segment_shows_druids_payload() -> None:
    assert SEGMENT.to_druid_json() == {
        "dataSource": "wiki",
        "interval": "2026-01-01T00:00:00.000Z/2026-01-02T00:00:00.000Z",
        "version": "2026-01-02T00:00:00.000Z",
        "loadSpec": {"type": "local", "key": "wiki/x.parquet"},
        "dimensions": "channel,tags",
        "metrics": "added",
        "shardSpec": {"type": "numbered", "partitionNum": 2, "partitions": 0},
        "binaryVersion": 1,
        "size": 1234,
        "identifier": str(SEGMENT.id),
    }


def test_a_column_without_values_gives_way_to_any_type() -> None:
    nothing = ColumnSpec("a", ColumnType.LONG, untyped=True)
    for kind in (ColumnType.STRING, ColumnType.LONG, ColumnType.DOUBLE, ColumnType.LONG_ARRAY):
        known = ColumnSpec("a", kind)
        assert wider(nothing, known) == wider(known, nothing) == known
    assert wider(nothing, nothing) == nothing and nothing.told_type == "STRING"
    assert ColumnSpec.from_json(nothing.to_json()) == nothing


def test_a_metric_column_keeps_the_aggregator_that_unites_it() -> None:
    metric = ColumnSpec("m", ColumnType.LONG, kind="metric", aggregator='{"type":"longSum"}')
    assert ColumnSpec.from_json(json.loads(json.dumps(metric.to_json()))) == metric
