"""A row's values are the same while it is live and once it is published, whatever JSON came into whatever column."""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ingest.overlord.sampler import sample
from ingest.spec import SupervisorSpec
from query.binding import ChunkGroup, FileGroup, bind_table, quote
from query.columns import table_def
from query.model import ColumnUse, TableUse
from segments.arrow_schema import column_of_field
from segments.live import LiveAsk
from segments.parquet.reader import read_footer
from segments.schema import ColumnSpec, ColumnType, SegmentSchema
from segments.sketch.answers import estimate
from segments.sketch.merge import merge_values
from segments.sketch.shape import SketchKind, SketchShape
from server.catalog import declared_schema
from tests.unit.ingest.appenderator.rows import poll_of, spec_of
from tests.unit.ingest.appenderator.test_appenderator import BASE, held, merged

DIMENSIONS: list[Any] = [
    {"type": "long", "name": "id"},
    "s",
    {"type": "json", "name": "j"},
    {"type": "auto", "name": "a"},
    {"type": "auto", "name": "longs", "castToType": "ARRAY<LONG>"},
    {"type": "auto", "name": "texts", "castToType": "ARRAY<STRING>"},
    {"type": "auto", "name": "doubles", "castToType": "ARRAY<DOUBLE>"},
    {"type": "long", "name": "l"},
    {"type": "double", "name": "d"},
    {"type": "float", "name": "f"},
    {"type": "auto", "name": "text", "castToType": "STRING"},
]
FIELDS = ("s", "j", "a", "longs", "texts", "doubles", "l", "d", "f", "text")


def schema_with(**dimensions_spec: Any) -> dict[str, Any]:
    granularity = {"rollup": False, "segmentGranularity": "hour"}
    return {"dimensionsSpec": dimensions_spec, "granularitySpec": granularity}


@cache
def connected() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def selected(use: TableUse, files: list[FileGroup], chunks: list[ChunkGroup]) -> list[dict[str, Any]]:
    """The relation's rows in order of id, nested values read."""
    relation = bind_table(use, files, chunks)
    connection = connected()
    for source in relation.arrow:
        tables = [pa.ipc.open_stream(Path(path).read_bytes()).read_all() for path in source.paths]
        taken = pa.concat_tables([table.select(list(source.columns)) for table in tables])
        connection.register(source.name, taken.rename_columns([f"k{at}" for at in range(len(source.columns))]))
    names = ", ".join(f"{quote(column.internal)} AS {quote(column.name)}" for column in use.columns)
    rows = connection.sql(f"SELECT {names} FROM ({relation.sql})").to_arrow_table().to_pylist()
    nested = [column.name for column in use.columns if column.type.element == "json"]
    for row in rows:
        row.update({name: json.loads(row[name]) for name in nested if row[name] is not None})
    return sorted(rows, key=lambda row: int(row["id"]))


def use_of(spec: SupervisorSpec, stored: list[SegmentSchema], live: list[Any]) -> TableUse:
    table = table_def("table", declared_schema(json.dumps(spec.posted).encode()), stored, live)
    kinds = {column.name: "TIMESTAMP WITH TIME ZONE" for column in table.columns if column.name == "__time"}
    columns = [
        ColumnUse(c.name, f"c{at}", c.type, kinds.get(c.name, c.type.duckdb)) for at, c in enumerate(table.columns)
    ]
    return TableUse("druid", "table", "r", tuple(columns))


def both(spec: SupervisorSpec, batches: list[list[dict[str, Any]]]) -> tuple[list[Any], list[Any], list[Any]]:
    """The rows from chunks in memory, from spills, and from segments."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        rows, first = held(root, spec), 0
        for events in batches:
            rows.append(1, [poll_of([json.dumps(event).encode() for event in events], first)])
            first += len(events)
        in_memory = live_rows(spec, rows, root)
        rows.persist()
        spilled = live_rows(spec, rows, root)
        files = [file.path for file in merged(rows).files]
        groups = [FileGroup(read_footer(path).schema, (str(path),)) for path in files]
        counters = rows.counters()
        fates = ("good", "partly_good", "unparseable", "filtered", "tombstones", "early", "late")
        assert sum(counters.get(fate, 0) for fate in fates) == first, "each message ends in one counter"
        return in_memory, spilled, selected(use_of(spec, [group.schema for group in groups], []), groups, [])


def live_rows(spec: SupervisorSpec, rows: Any, root: Path) -> list[dict[str, Any]]:
    answer = rows.live(LiveAsk(1, 7, {0: 0}, {}))
    groups: list[ChunkGroup] = []
    for chunk in answer.sequences[0].chunks:
        path = root / f"chunk-{chunk.number}"
        path.write_bytes(rows.chunk_bytes(chunk.number))
        fields = pa.ipc.open_stream(path.read_bytes()).schema
        groups.append(ChunkGroup(tuple(column_of_field(field) for field in fields), (str(path),)))
    return selected(use_of(spec, [], [group.columns for group in groups]), [], groups)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=4)
    | st.sampled_from(["12", "1.5", "true", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
    max_leaves=5,
)  # fmt: skip
EVENT = st.fixed_dictionaries({}, optional={name: JSON for name in FIELDS})


def numbered(batches: list[list[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
    at = iter(range(1_000))
    return [[{"t": BASE + 1, "id": next(at), **event} for event in events] for events in batches]


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, int | float):
        return one == other
    return repr(one) == repr(other) or one == other


@settings(max_examples=12, deadline=None)
@given(st.lists(st.lists(EVENT, min_size=1, max_size=3), min_size=1, max_size=3))
def test_declared_columns_hold_the_same_live_and_published(batches: list[list[dict[str, Any]]]) -> None:
    in_memory, spilled, published = both(spec_of(schema_with(dimensions=DIMENSIONS)), numbered(batches))
    assert len(published) == sum(map(len, batches))
    assert same(in_memory, published) and same(spilled, published)


@settings(max_examples=12, deadline=None)
@given(st.lists(st.lists(EVENT, min_size=1, max_size=3), min_size=1, max_size=3))
def test_discovered_columns_hold_the_same_live_and_published(batches: list[list[dict[str, Any]]]) -> None:
    declared = [{"type": "long", "name": "id"}]
    spec = spec_of(schema_with(dimensions=declared, useSchemaDiscovery=True, includeAllDimensions=True))
    in_memory, spilled, published = both(spec, numbered(batches))
    for row in published:
        # A column that is null in all rows of one is absent there.
        for rows in (in_memory, spilled):
            live = next(found for found in rows if found["id"] == row["id"])
            assert all(same(live.get(name), row.get(name)) for name in row.keys() | live.keys() if name != "t")


def test_a_column_widens_from_batch_to_batch() -> None:
    values = [1, 2.5, "x", [1, None], {"a": 1}, None, []]
    batches = numbered([[{"a": value}] for value in values])
    spec = spec_of(schema_with(dimensions=[{"type": "long", "name": "id"}, {"type": "auto", "name": "a"}]))
    for upto, wanted in ((1, [1]), (2, [1, 2.5]), (3, ["1", "2.5", "x"]), (4, [["1"], ["2.5"], ["x"], ["1", None]])):
        for rows in both(spec, batches[:upto]):
            assert [row["a"] for row in rows] == wanted
    for rows in both(spec, batches):
        # What came while the column held texts has become one.
        assert [row["a"] for row in rows] == [1, 2.5, "x", ["1", None], {"a": 1}, None, []]


def test_a_discovered_field_that_was_only_null_is_a_text_until_a_value_tells_its_type() -> None:
    declared = [{"type": "long", "name": "id"}]
    spec = spec_of(schema_with(dimensions=declared, useSchemaDiscovery=True, includeAllDimensions=True))
    batches = numbered([[{"a": None}], [{"a": None}], [{"a": 7}], [{"a": [1.5]}]])
    for upto, type_, values in (
        (2, "STRING", [None, None]),
        (3, "LONG", [None, None, 7]),
        (4, "ARRAY<DOUBLE>", [None, None, [7], [1.5]]),
    ):
        for rows in both(spec, batches[:upto]):
            assert [row["a"] for row in rows] == values
        with tempfile.TemporaryDirectory() as folder:
            held_rows = held(Path(folder), spec)
            for first, events in enumerate(batches[:upto]):
                held_rows.append(1, [poll_of([json.dumps(event).encode() for event in events], first)])
            stored = [read_footer(file.path).schema for file in merged(held_rows).files]
        [told] = [column for column in use_of(spec, stored, []).columns if column.name == "a"]
        assert told.type.druid == type_
        # In another segment it may still be null: the one that knows tells the type.
        untyped = SegmentSchema.of([ColumnSpec("a", ColumnType.LONG, untyped=True)])
        [told] = [column for column in use_of(spec, [untyped, *stored], []).columns if column.name == "a"]
        assert told.type.druid == type_


ROLLED_UP: dict[str, Any] = {
    "dimensionsSpec": {
        "dimensions": [
            "s",
            {"type": "double", "name": "d"},
            {"type": "auto", "name": "a"},
            {"type": "json", "name": "j"},
        ]
    },
    "metricsSpec": [
        {"type": "count", "name": "id"},
        {"type": "HLLSketchBuild", "name": "hll", "fieldName": "u"},
        {"type": "thetaSketch", "name": "theta", "fieldName": "u"},
        {"type": "quantilesDoublesSketch", "name": "quantiles", "fieldName": "n"},
        {"type": "longSum", "name": "sum", "fieldName": "n"},
        {"type": "stringLast", "name": "last", "fieldName": "u"},
    ],
    "granularitySpec": {"rollup": True, "segmentGranularity": "hour", "queryGranularity": "minute"},
}
NOTHING = {"s": "x", "d": None, "u": None, "n": 0, "j": {"k": 1}}
TEXTS = [None, [], [None], "", [""], "x", ["x"], "y", ["x", "y"], ["y", "x"], [None, "x"], [None, None], ["x", "x"]]
KINDS = {"hll": SketchKind.HLL, "theta": SketchKind.THETA, "quantiles": SketchKind.QUANTILES}
ROLLED_EVENT = st.fixed_dictionaries(
    {"s": st.sampled_from(TEXTS), "u": st.sampled_from([None, "a", "b", "c", 5]), "n": st.integers(0, 9)},
    optional={
        "a": st.sampled_from([1, [1, 2], [], None]),
        "j": st.sampled_from([{"k": 1}, None, "t"]),
        "d": st.sampled_from([0.0, -0.0]),
    },
)


def answers(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What a query may ask of a rolled-up table, by all its dimensions; how rows are rolled up does not show."""
    found: dict[str, Any] = {}
    keys = [repr([row[name] for name in ("s", "d", "a", "j")]) for row in rows]
    for key in keys:
        members = [row for row, its in zip(rows, keys, strict=True) if its == key]
        asked: dict[str, Any] = {name: sum(row[name] for row in members) for name in ("id", "sum")}
        for name, kind in KINDS.items():
            merged_one = merge_values(SketchShape.default(kind), [row[name] for row in members])
            asked[name] = estimate(kind, merged_one)
        found[key] = asked
    return found


def sampled_rows(events: list[dict[str, Any]]) -> list[str]:
    """What the sampler shows of the rows, but for columns that it shows as they came, and what is stored of each."""
    io = {
        "inputFormat": {"type": "json"},
        "inputSource": {"type": "inline", "data": "\n".join(map(json.dumps, events))},
    }
    posted = spec_of(ROLLED_UP).posted["spec"]["dataSchema"]
    found = sample({"type": "kafka", "spec": {"dataSchema": posted, "ioConfig": io}}, lambda *_: [], BASE)
    return stored_rows([entry["parsed"] for entry in found["data"]])


def stored_rows(rows: list[dict[str, Any]]) -> list[str]:
    texts = [row["s"][0] if isinstance(row["s"], list) and len(row["s"]) == 1 else row["s"] for row in rows]
    return sorted(repr([s, *(row[n] for n in ("d", "j", "id", "sum"))]) for s, row in zip(texts, rows, strict=True))


def assert_same_rolled_up(batches: list[list[dict[str, Any]]]) -> None:
    events = [[{"t": BASE + at, "j": None, "a": None, "d": None, **e} for at, e in enumerate(one)] for one in batches]
    spec = spec_of(ROLLED_UP)
    in_memory, spilled, published = both(spec, events)
    assert sum(row["id"] for row in published) == sum(map(len, batches))
    # A column that has become wider in a later batch is told as it is by then.
    assert answers(in_memory) == answers(spilled) == answers(published)
    # An empty list of texts is null and zero has no sign from the first row on, so that no question tells rows apart.
    assert not any(row["s"] == [] or repr(row["d"]) == "-0.0" for row in [*in_memory, *spilled, *published])
    if len(events) == 1:
        assert stored_rows(in_memory) == stored_rows(spilled) == stored_rows(published) == sampled_rows(events[0])


ROLLED_BATCHES = st.lists(st.lists(ROLLED_EVENT, min_size=1, max_size=12), min_size=1, max_size=3)


@settings(max_examples=5, deadline=None)
@example([[{**NOTHING, "a": []}], [{**NOTHING, "a": None}]])
@example([[{**NOTHING, "a": []}, {**NOTHING, "a": [1, 2]}], [{**NOTHING, "a": None}]])
@example([[{**NOTHING, "s": text, "d": zero} for text in TEXTS for zero in (0.0, -0.0)]])
@given(ROLLED_BATCHES)
def test_rolled_up_rows_answer_the_same_live_and_published(batches: list[list[dict[str, Any]]]) -> None:
    assert_same_rolled_up(batches)


@pytest.mark.slow
@pytest.mark.timeout(900)
@settings(max_examples=100, deadline=None)
@given(ROLLED_BATCHES)
def test_rolled_up_rows_of_many_tables_answer_the_same_live_and_published(batches: list[list[dict[str, Any]]]) -> None:
    assert_same_rolled_up(batches)
