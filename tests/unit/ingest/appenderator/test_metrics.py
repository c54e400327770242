"""Aggregators at ingestion: what they make of a row, of equal rows in memory, and of equal rows at the merge."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ingest.appenderator.decoding import Fate, RowDecoder
from ingest.spec.model import SupervisorSpec
from segments.parquet.reader import read_footer
from segments.schema import ColumnType
from segments.sketch import quantiles, tuples
from segments.sketch.answers import estimate
from segments.sketch.build import column_sketch
from segments.sketch.shape import SketchKind, SketchShape
from tests.unit.ingest.appenderator.rows import OPENED_MS, poll_of, spec_of
from tests.unit.ingest.appenderator.test_appenderator import BASE, held, merged, published_rows

SKETCHES: list[dict[str, Any]] = [
    {"type": "HLLSketchBuild", "name": "hll", "fieldName": "u"},
    {"type": "hyperUnique", "name": "hu", "fieldName": "u"},
    {"type": "thetaSketch", "name": "theta", "fieldName": "u"},
    {"type": "quantilesDoublesSketch", "name": "q", "fieldName": "x", "k": 64},
    {"type": "arrayOfDoublesSketch", "name": "aod", "fieldName": "u", "metricColumns": ["x", "y"]},
]
KINDS = {
    "hll": SketchKind.HLL,
    "hu": SketchKind.HLL,
    "theta": SketchKind.THETA,
    "q": SketchKind.QUANTILES,
    "aod": SketchKind.TUPLE,
}


def spec_with(metrics: list[dict[str, Any]], rollup: bool = True, **parts: Any) -> SupervisorSpec:
    granularity = {"rollup": rollup, "segmentGranularity": "hour", "queryGranularity": "minute"}
    schema = {"dimensionsSpec": {"dimensions": ["k"]}, "metricsSpec": metrics, "granularitySpec": granularity}
    return spec_of(schema, **parts)


def published(tmp_path: Path, spec: SupervisorSpec, events: list[Any], spills: int = 3) -> list[dict[str, Any]]:
    """The events through several spills and one merge; each row's key is ``k``."""
    appenderator = held(tmp_path, spec)
    part = -(-len(events) // spills)
    for first in range(0, len(events), part):
        appenderator.append(1, [poll_of(events[first : first + part], first)])
        appenderator.persist()
    return sorted(published_rows(merged(appenderator)), key=lambda row: str(row["k"]))


def events_of(count: int) -> list[dict[str, Any]]:
    return [
        {"t": BASE + at, "k": "ab"[at % 2], "u": f"user{at % 500}" if at % 7 else None, "x": at, "y": 1}
        for at in range(count)
    ]


@pytest.mark.parametrize("count", [12, 4_000])
def test_sketches_of_equal_rows_unite_in_memory_and_at_the_merge(tmp_path: Path, count: int) -> None:
    events = events_of(count)
    rows = published(tmp_path, spec_with(SKETCHES), events)
    assert [row["k"] for row in rows] == ["a", "b"]
    for row in rows:
        mine = [event for event in events if event["k"] == row["k"]]
        users = {event["u"] for event in mine if event["u"] is not None}
        for name in ("hll", "hu", "theta", "aod"):
            assert estimate(KINDS[name], row[name]) == pytest.approx(len(users), rel=0.05), name
        assert quantiles.count(row["q"]) == len(mine)
        assert quantiles.quantiles(row["q"], [0.5])[0] == pytest.approx(count / 2, rel=0.1, abs=2)
        with_user = [event for event in mine if event["u"] is not None]
        assert tuples.sums(row["aod"]) == [sum(e["x"] for e in with_user), len(with_user)]


def test_the_kind_of_a_sketch_stands_in_the_footer_and_its_column_has_no_statistics(tmp_path: Path) -> None:
    appenderator = held(tmp_path, spec_with(SKETCHES, rollup=False))
    appenderator.append(1, [poll_of(events_of(5))])
    file = merged(appenderator).files[0]
    schema = read_footer(file.path).schema
    assert [c.type_signature for c in schema.columns if c.type is ColumnType.COMPLEX] == [
        "COMPLEX<HLLSketch>",
        "COMPLEX<hyperUnique>",
        "COMPLEX<thetaSketch>",
        "COMPLEX<quantilesDoublesSketch>",
        "COMPLEX<arrayOfDoublesSketch>",
    ]
    group = pq.ParquetFile(file.path).metadata.row_group(0)
    columns = {group.column(at).path_in_schema: group.column(at) for at in range(group.num_columns)}
    assert not columns["hll"].is_stats_set and columns["k"].is_stats_set


def test_live_rows_hold_the_same_sketches_as_published_ones(tmp_path: Path) -> None:
    spec, events = spec_with(SKETCHES, rollup=False), events_of(9)
    live = RowDecoder(spec.data_schema).decode([poll_of(events)], OPENED_MS).rows.to_pylist()
    stored = published(tmp_path, spec, events)
    for name in KINDS:
        assert sorted(map(repr, (row[name] for row in live))) == sorted(map(repr, (row[name] for row in stored)))


def test_a_sketch_counts_values_as_what_they_are() -> None:
    spec = spec_with([{"type": "HLLSketchBuild", "name": "h", "fieldName": "u"}], rollup=False)
    values = ["5", 5, 5.0, True, "true", ["5", 6, None], [], "", None, {"a": 1}, 2**70, 1.5]
    batch = RowDecoder(spec.data_schema).decode(
        [poll_of([json.dumps({"t": BASE, "u": v}).encode() for v in values])], OPENED_MS
    )
    assert set(map(Fate, batch.fates)) == {Fate.GOOD}
    sketches = batch.rows.column("h").to_pylist()
    assert sketches[0] != sketches[1] != sketches[2]
    assert sketches[3] == sketches[4]
    assert [round(estimate(SketchKind.HLL, s)) for s in sketches] == [1, 1, 1, 1, 1, 2, 0, 0, 0, 1, 1, 1]


def test_stored_sketches_come_in_base64_and_what_is_none_is_a_bad_value() -> None:
    theta = SketchShape(SketchKind.THETA, 64)
    whole = column_sketch(theta, spec_numbers(10))
    assert whole is not None
    metrics: list[dict[str, Any]] = [
        {"type": "thetaSketch", "name": "t", "fieldName": "v", "isInputThetaSketch": True},
        {"type": "HLLSketchMerge", "name": "h", "fieldName": "w"},
        {"type": "arrayOfDoublesSketch", "name": "a", "fieldName": "w", "numberOfValues": 2},
    ]
    spec = spec_with(metrics, rollup=False)
    good, bad = base64.b64encode(whole).decode(), base64.b64encode(b"nothing").decode()
    events = [{"t": BASE, "v": good}, {"t": BASE, "v": bad}, {"t": BASE, "v": "%"}, {"t": BASE, "w": 5}, {"t": BASE}]
    batch = RowDecoder(spec.data_schema).decode([poll_of(events)], OPENED_MS)
    assert [Fate(fate) for fate in batch.fates] == [Fate.GOOD, Fate.PARTLY, Fate.PARTLY, Fate.PARTLY, Fate.GOOD]
    assert batch.rows.column("t").to_pylist() == [whole, None, None, None, None]


def spec_numbers(count: int) -> Any:
    import pyarrow as pa

    return pa.array(range(count))


def test_a_filtered_aggregator_takes_only_rows_that_pass(tmp_path: Path) -> None:
    def filtered(name: str, aggregator: dict[str, Any], field: str, value: str) -> dict[str, Any]:
        selector = {"type": "selector", "dimension": field, "value": value}
        return {"type": "filtered", "name": name, "filter": selector, "aggregator": aggregator}

    inner = filtered("", {"type": "longSum", "name": "deep", "fieldName": "x"}, "u", "user1")
    metrics: list[dict[str, Any]] = [
        filtered("a", {"type": "count", "name": "n"}, "u", "user1"),
        filtered("", {"type": "longSum", "name": "sum", "fieldName": "x"}, "u", "user2"),
        filtered("", inner, "k", "b"),
        filtered("d", {"type": "HLLSketchBuild", "name": "h", "fieldName": "u"}, "k", "b"),
        filtered("last", {"type": "longLast", "name": "l", "fieldName": "x"}, "u", "user1"),
    ]
    events = [
        {"t": BASE + at, "k": k, "u": u, "x": at}
        for at, (k, u) in enumerate([("a", "user1"), ("a", "user2"), ("a", "user1"), ("b", "user1"), ("b", None)])
    ]
    rows = published(tmp_path, spec_with(metrics), events)
    assert [(row["a"], row["sum"], row["deep"], row["last"]) for row in rows] == [(2, 1, None, 2), (1, None, 3, 3)]
    assert [round(estimate(SketchKind.HLL, row["d"])) for row in rows] == [0, 1]


def test_an_aggregator_takes_an_expression_in_place_of_a_field(tmp_path: Path) -> None:
    metrics: list[dict[str, Any]] = [
        {"type": "longSum", "name": "both", "expression": "x + y"},
        {"type": "doubleMax", "name": "ratio", "expression": "x / 2.0"},
        {"type": "longSum", "name": "bad", "expression": "concat(k, 'x')"},
    ]
    events = [{"t": BASE + at, "k": "ab"[at % 2], "x": at, "y": 10} for at in range(4)]
    rows = published(tmp_path, spec_with(metrics), events)
    assert [(row["both"], row["ratio"], row["bad"]) for row in rows] == [(22, 1.0, None), (24, 1.5, None)]


def test_texts_keep_their_first_last_and_any_value(tmp_path: Path) -> None:
    metrics: list[dict[str, Any]] = [
        {"type": "stringFirst", "name": "first", "fieldName": "u"},
        {"type": "stringLast", "name": "last", "fieldName": "u", "maxStringBytes": 4},
        {"type": "stringLast", "name": "by_v", "fieldName": "u", "timeColumn": "v"},
        {"type": "stringAny", "name": "any", "fieldName": "u"},
        {"type": "longAny", "name": "number", "fieldName": "v"},
        {"type": "doubleFirst", "name": "d", "fieldName": "v", "timeColumn": "v"},
    ]
    events: list[dict[str, Any]] = [
        {"t": BASE + 3, "k": "a", "u": "third", "v": 1},
        {"t": BASE + 1, "k": "a", "u": "first", "v": 5},
        {"t": BASE + 9, "k": "a", "u": "zürich", "v": None},
        {"t": BASE + 99, "k": "a", "u": None, "v": 3},
        {"t": BASE + 2, "k": "b", "u": None, "v": None},
        {"t": BASE + 2, "k": "b", "u": ["x", "y"], "v": 7},
    ]
    rows = published(tmp_path, spec_with(metrics), events)
    names = ("first", "last", "by_v", "any", "number", "d")
    # Four bytes of "zürich" are "zür".
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("first", "zür", "first", "third", 1, 1.0),
        ("x", "x", "x", "x", 7, 7.0),
    ]


@pytest.mark.parametrize(
    ("metric", "where", "says"),
    [
        ({"type": "cardinality", "name": "c", "fields": ["u"]}, "type", "at query time only"),
        ({"type": "doubleMean", "name": "c", "fieldName": "u"}, "type", "at query time only"),
        ({"type": "javascript", "name": "c"}, "type", "not supported"),
        ({"type": "HLLSketchBuild", "name": "c", "fieldName": "u", "lgK": 30}, "lgK", "from 4 to 21"),
        ({"type": "HLLSketchBuild", "name": "c", "fieldName": "u", "tgtHllType": "HLL_5"}, "tgtHllType", "not known"),
        ({"type": "thetaSketch", "name": "c", "fieldName": "u", "size": 1000}, "size", "a power of two"),
        ({"type": "quantilesDoublesSketch", "name": "c", "fieldName": "u", "k": 1}, "k", "a power of two"),
        ({"type": "hyperUnique", "name": "c", "fieldName": "u", "isInputHyperUnique": True}, "isInputHyperUnique", ""),
        (
            {
                "type": "arrayOfDoublesSketch",
                "name": "c",
                "fieldName": "u",
                "metricColumns": ["x"],
                "numberOfValues": 2,
            },
            "numberOfValues",
            "not the number",
        ),
        ({"type": "filtered", "name": "c"}, "aggregator", "required"),
        ({"type": "longSum", "name": "c", "expression": "a +"}, "expression", "too early"),
        ({"type": "longSum", "name": "c", "fieldName": "u", "expression": "a"}, "expression", "beside fieldName"),
        ({"type": "HLLSketchBuild", "name": "c", "expression": "a"}, "expression", "not supported"),
        ({"type": "filtered", "filter": {"type": "true"}, "aggregator": {"type": "count"}}, "aggregator.name", "name"),
        ({"type": "stringFirst", "name": "c", "fieldName": "u", "maxStringBytes": -1}, "maxStringBytes", "negative"),
    ],
)
def test_what_no_aggregator_can_be_is_refused_with_its_place(metric: dict[str, Any], where: str, says: str) -> None:
    from ingest.errors import SpecError

    with pytest.raises(SpecError) as caught:
        spec_with([metric])
    problems = {problem.path: problem.rule for problem in caught.value.problems}
    path = f"$.spec.dataSchema.metricsSpec[0].{where}"
    assert says in problems.get(path, ""), json.dumps(problems)
