"""Which aggregators segmentMetadata tells: of segments that agree, that differ, and that are older than the record."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ingest.spec import parse_supervisor_spec
from query.errors import InvalidQuery
from query.native.aggregators_told import aggregators_of, merged, strategy_of
from query.native.plan import SegmentFact
from query.native.request import Part
from segments.schema import ColumnSpec, ColumnType, SegmentSchema
from tests.unit.ingest.appenderator.rows import spec_of

SUM = {"type": "longSum", "name": "m", "fieldName": "m"}
MOST = {"type": "longMax", "name": "m", "fieldName": "m"}
OTHER = {"type": "doubleSum", "name": "o", "fieldName": "o"}


def fact(day: int, aggregators: Any) -> SegmentFact:
    return SegmentFact(f"s{day}", (day, day + 1), 1, 1, True, "NONE", aggregators)


@pytest.mark.parametrize(
    ("strategy", "told", "answer"),
    [
        ("strict", [{"m": SUM}, {"m": SUM}], {"m": SUM}),
        ("strict", [{"m": SUM}, {"m": MOST}], None),
        ("strict", [{"m": SUM}, None], None),
        ("strict", [{}], {}),
        ("lenient", [{"m": SUM}, None, {"m": MOST, "o": OTHER}, {"m": SUM}], {"m": None, "o": OTHER}),
        ("earliest", [{"m": SUM}, {"m": MOST, "o": OTHER}], {"m": SUM, "o": OTHER}),
        ("latest", [{"m": SUM, "o": OTHER}, {"m": MOST}], {"m": MOST, "o": OTHER}),
        ("lenient", [None], None),
        ("strict", [], None),
    ],
)
def test_aggregators_of_several_segments(strategy: str, told: list[Any], answer: Any) -> None:
    facts = [fact(day, one) for day, one in enumerate(told)]
    assert merged(facts[::-1], strategy) == answer


def test_the_strategy_is_told_once_and_by_a_known_name() -> None:
    assert strategy_of(Part({}, "")) == "strict"
    assert strategy_of(Part({"lenientAggregatorMerge": True}, "")) == "lenient"
    assert strategy_of(Part({"aggregatorMergeStrategy": "LATEST"}, "")) == "latest"
    for query in (
        {"aggregatorMergeStrategy": "best"},
        {"aggregatorMergeStrategy": "strict", "lenientAggregatorMerge": 1},
    ):
        with pytest.raises(InvalidQuery):
            strategy_of(Part(query, ""))


def test_a_segment_tells_how_each_metric_of_its_spec_unites() -> None:
    metrics: list[dict[str, Any]] = [
        {"type": "count", "name": "n"},
        {
            "type": "filtered",
            "filter": {"type": "true"},
            "aggregator": {"type": "doubleMin", "name": "d", "fieldName": "x"},
        },
        {"type": "stringLast", "name": "s", "fieldName": "x", "maxStringBytes": 9},
        {"type": "longFirst", "name": "f", "fieldName": "x", "timeColumn": "u"},
        {"type": "hyperUnique", "name": "h", "fieldName": "x"},
        {"type": "arrayOfDoublesSketch", "name": "t", "fieldName": "x", "metricColumns": ["y"], "numberOfValues": 1},
    ]
    spec = parse_supervisor_spec(json.loads(json.dumps(spec_of({"metricsSpec": metrics}).posted)))[0]
    schema = SegmentSchema.of([metric.column for metric in spec.data_schema.metrics])
    named = {name: {"name": name, "fieldName": name} for name in "ndsfht"}
    assert aggregators_of(schema) == {
        "n": named["n"] | {"type": "longSum"},
        "d": named["d"] | {"type": "doubleMin"},
        "s": named["s"] | {"type": "stringLast", "timeColumn": "__time", "maxStringBytes": 9},
        "f": named["f"] | {"type": "longFirst", "timeColumn": "u"},
        "h": named["h"] | {"type": "hyperUnique", "isInputHyperUnique": False, "round": False},
        "t": named["t"] | {"type": "arrayOfDoublesSketch", "nominalEntries": 16_384, "numberOfValues": 1},
    }
    older = SegmentSchema.of([ColumnSpec("m", ColumnType.LONG, kind="metric")])
    assert aggregators_of(older) is None and aggregators_of(SegmentSchema.of([])) == {}
