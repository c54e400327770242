"""Transforms at ingestion: what they read, what they hide, who sees them, and how a row without a value ends."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.appenderator.decoding import DecodedBatch, Fate, RowDecoder
from ingest.errors import SpecError
from segments.schema import ColumnType
from tests.searching import examples
from tests.unit.ingest.appenderator.rows import OPENED_MS, poll_of, spec_of

TIME = "2024-02-29T12:00:00Z"
NOON = 1_709_208_000_000


def schema_of(transforms: dict[str, str], dimensions: list[Any], **more: Any) -> dict[str, Any]:
    items = [{"type": "expression", "name": name, "expression": text} for name, text in transforms.items()]
    transform_spec = {"transforms": items, **({"filter": more.pop("filter")} if "filter" in more else {})}
    base = {"dimensionsSpec": {"dimensions": dimensions}, "granularitySpec": {"rollup": False}}
    return {**base, "transformSpec": transform_spec, **more}


def decode(events: list[Any], schema: dict[str, Any], *, only_slow: bool = False, **parts: Any) -> DecodedBatch:
    spec = spec_of(schema, **parts)
    decoder = RowDecoder(spec.data_schema, spec.io.rejection, only_slow=only_slow)
    messages = [event if isinstance(event, bytes) else json.dumps({"t": TIME, **event}).encode() for event in events]
    return decoder.decode([poll_of(messages)], OPENED_MS)


def column(batch: DecodedBatch, name: str) -> list[Any]:
    values: list[Any] = batch.rows.column(name).to_pylist()
    return values


def test_a_transform_hides_its_field_and_reads_what_it_hides() -> None:
    schema = schema_of({"s": "upper(s)", "again": "s"}, ["s", "again"])
    batch = decode([{"s": "a"}, {"s": None}, {}], schema)
    assert column(batch, "s") == ["A", None, None]
    assert column(batch, "again") == ["a", None, None]


def test_values_become_what_their_dimension_is() -> None:
    transforms = {"l": "n * 2", "d": "n / 4.0", "s": "n > 3", "f": "n", "list": "array(n, 'b', 'a')", "a": "n + 0.5"}
    dimensions = [{"type": kind, "name": name} for name, kind in zip("ldf", ("long", "double", "float"), strict=True)]
    batch = decode(
        [{"n": 3}, {"n": 7}], schema_of(transforms, [*dimensions, "s", "list", {"type": "auto", "name": "a"}])
    )
    assert [column(batch, name) for name in "ldfsa"] == [[6, 14], [0.75, 1.75], [3.0, 7.0], ["0", "1"], [3.5, 7.5]]
    assert column(batch, "list") == [["3", "a", "b"], ["7", "a", "b"]]


def test_what_a_dimension_cannot_hold_is_a_bad_value_as_of_any_field() -> None:
    schema = schema_of({"l": "concat(s, 'x')", "m": "n * n"}, [{"type": "long", "name": name} for name in "lm"])
    batch = decode([{"s": "1", "n": 2}, {"s": None, "n": 2**40}], schema)
    assert [Fate(fate) for fate in batch.fates] == [Fate.PARTLY, Fate.PARTLY]
    assert column(batch, "l") == [None, None] and column(batch, "m") == [4, None]


def test_a_row_without_a_value_goes_to_the_quarantine_with_the_reason() -> None:
    schema = schema_of({"q": "100 / n", "unused": "1 / 0"}, [{"type": "long", "name": "q"}])
    batch = decode([{"n": 4}, {"n": 0}, {"n": 5}], schema)
    assert [Fate(fate) for fate in batch.fates] == [Fate.GOOD, Fate.UNPARSEABLE, Fate.GOOD]
    assert column(batch, "q") == [25, 20]
    assert [(r.offset, r.reason) for r in batch.rejected] == [(1, "transform 'q': division by zero")]


def test_the_time_may_be_replaced_but_a_bad_one_stays_bad() -> None:
    schema = schema_of(
        {"__time": "timestamp_shift(__time, 'P1D', n)", "was": "__time"}, [{"type": "long", "name": "was"}]
    )
    batch = decode([{"n": 1}, {"n": None}, b'{"t": "bad", "n": 1}', {"n": 10**9}], schema)
    fates = [Fate.GOOD, Fate.UNPARSEABLE, Fate.UNPARSEABLE, Fate.UNPARSEABLE]
    assert [Fate(fate) for fate in batch.fates] == fates
    assert batch.event_times_ms.tolist() == [NOON + 86_400_000]
    assert column(batch, "was") == [NOON]


def test_filters_and_aggregators_see_transforms_and_each_transform_only_the_input() -> None:
    metrics = [
        {"type": "longSum", "name": "sum", "fieldName": "twice"},
        {
            "type": "filtered",
            "name": "big",
            "filter": {"type": "expression", "expression": "twice > 5"},
            "aggregator": {"type": "count", "name": "big"},
        },
        {"type": "HLLSketchBuild", "name": "h", "fieldName": "twice"},
    ]
    row_filter = {"type": "not", "field": {"type": "selector", "dimension": "key", "value": "drop!"}}
    transforms = {"twice": "n * 2", "key": "concat(s, '!')", "chained": "nvl(key, 'absent')"}
    batch = decode(
        [{"n": 1, "s": "a"}, {"n": 2, "s": "drop"}, {"n": 3, "s": "c"}],
        schema_of(transforms, ["key", "chained"], metricsSpec=metrics, filter=row_filter),
    )
    assert [Fate(fate) for fate in batch.fates] == [Fate.GOOD, Fate.FILTERED, Fate.GOOD]
    assert column(batch, "key") == ["a!", "c!"] and column(batch, "chained") == ["absent", "absent"]
    assert column(batch, "sum") == [2, 6] and column(batch, "big") == [0, 1]


def test_a_transform_hides_a_discovered_field_and_makes_none() -> None:
    schema = schema_of({"s": "lower(s)", "new": "s"}, [])
    batch = decode([{"s": "A", "n": 1}], schema)
    assert column(batch, "s") == ["a"] and column(batch, "n") == ["1"]
    assert "new" not in batch.rows.schema.names
    typed = decode(
        [{"s": "A", "n": 1}], {**schema_of({"n": "n + 0.5"}, []), "dimensionsSpec": {"useSchemaDiscovery": True}}
    )
    assert column(typed, "n") == [1.5]
    assert [c.type for c in typed.schema.columns if c.name == "n"] == [ColumnType.DOUBLE]


def test_transforms_read_flattened_fields() -> None:
    flatten = {"fields": [{"type": "path", "name": "deep", "expr": "$.a.b"}]}
    schema = schema_of({"x": "upper(deep)", "j": "json_value(a, '$.b')"}, ["x", "j"])
    batch = decode([{"a": {"b": "v"}}, {"a": 5}], schema, input_format={"flattenSpec": flatten})
    assert column(batch, "x") == ["V", None] and column(batch, "j") == ["v", None]


def test_infinities_of_expressions_are_stored_exactly() -> None:
    schema = schema_of({"d": "n / 0.0", "s": "n / 0.0"}, [{"type": "double", "name": "d"}, "s"])
    for only_slow in (False, True):
        batch = decode([{"n": 1}, {"n": -1.5}], schema, only_slow=only_slow)
        assert column(batch, "d") == [float("inf"), float("-inf")]
        assert column(batch, "s") == ["Infinity", "-Infinity"]


FILTERS: list[tuple[dict[str, Any], list[int]]] = [
    ({"type": "expression", "expression": "n > 1 && s == 'b'"}, [1]),
    ({"type": "not", "field": {"type": "expression", "expression": "n > 1"}}, [0]),
    ({"type": "expression", "expression": "nvl(n, 9) == 9"}, [3]),
    ({"type": "arrayContainsElement", "column": "tags", "elementMatchValue": "x"}, [0, 2]),
    ({"type": "search", "dimension": "s", "query": {"type": "insensitive_contains", "value": "B"}}, [1]),
    ({"type": "search", "dimension": "s", "query": {"type": "contains", "value": "B", "caseSensitive": True}}, []),
    ({"type": "search", "dimension": "s", "query": {"type": "fragment", "values": ["C", "d"]}}, [2]),
    ({"type": "search", "dimension": "s", "query": {"type": "regex", "pattern": "^[ab]$"}}, [0, 1]),
    ({"type": "istrue", "field": {"type": "range", "column": "n", "matchValueType": "LONG", "lower": 2}}, [1, 2]),
    ({"type": "isfalse", "field": {"type": "range", "column": "n", "matchValueType": "LONG", "lower": 2}}, [0]),
    ({"type": "not", "field": {"type": "istrue", "field": {"type": "null", "column": "s"}}}, [0, 1, 2]),
]  # fmt: skip


@pytest.mark.parametrize(("row_filter", "passing"), FILTERS, ids=[json.dumps(item)[:70] for item, _ in FILTERS])
def test_filters_keep_the_rows_for_which_they_are_true(row_filter: dict[str, Any], passing: list[int]) -> None:
    events = [
        {"n": 1, "s": "a", "tags": ["x", "y"]},
        {"n": 2, "s": "b", "tags": []},
        {"n": 3, "s": "cd", "tags": "x"},
        {},
    ]
    batch = decode(events, schema_of({}, ["s"], filter=row_filter))
    assert [at for at, fate in enumerate(batch.fates) if fate == Fate.GOOD] == passing
    assert set(batch.fates) <= {Fate.GOOD, Fate.FILTERED}


@pytest.mark.parametrize(
    ("transform", "where", "says"),
    [
        ({"type": "expression", "name": "a", "expression": "upper("}, "expression", "too early"),
        ({"type": "expression", "name": "a", "expression": "lookup(a, 'b')"}, "expression", "at ingestion"),
        ({"type": "expression", "name": "a"}, "expression", "must be an expression"),
        ({"type": "expression", "name": "", "expression": "1"}, "name", "must be the name"),
        ({"type": "javascript", "name": "a", "expression": "1"}, "type", "not supported"),
    ],
)
def test_a_transform_that_means_nothing_is_refused(transform: dict[str, Any], where: str, says: str) -> None:
    with pytest.raises(SpecError) as caught:
        spec_of({"dimensionsSpec": {}, "transformSpec": {"transforms": [transform]}})
    found = {problem.path: problem.rule for problem in caught.value.problems}
    assert says in found[f"$.spec.dataSchema.transformSpec.transforms[0].{where}"]


@pytest.mark.parametrize("kind", ["javascript", "spatial", "extraction"])
def test_filters_that_are_not_built_are_refused_by_name_with_a_cure(kind: str) -> None:
    with pytest.raises(SpecError) as caught:
        spec_of({"dimensionsSpec": {}, "transformSpec": {"filter": {"type": kind, "dimension": "a"}}})
    assert [problem.value for problem in caught.value.problems] == [kind]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**65), 2**65) | st.text(max_size=5)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip
EVERYTHING = schema_of(
    {
        "s": "concat(x, '-', y)",
        "l": "x * 2",
        "d": "y / x",
        "a": "if(x > y, x, y)",
        "j": "to_json_string(x)",
        "u": "upper(nvl(x, y))",
        "len": "array_length(x)",
    },
    [
        *("s", "j", "u", "x"),
        *({"type": "long", "name": name} for name in ("l", "len", "y")),
        {"type": "double", "name": "d"},
        {"type": "auto", "name": "a"},
    ],
    metricsSpec=[
        {"type": "HLLSketchBuild", "name": "h", "fieldName": "x"},
        {"type": "quantilesDoublesSketch", "name": "q", "fieldName": "l"},
        {"type": "stringLast", "name": "last", "fieldName": "s"},
    ],
    filter={"type": "not", "field": {"type": "expression", "expression": "x == 'gone'"}},
)


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.tuples(JSON, JSON), min_size=1, max_size=5))
def test_any_json_in_any_field_ends_in_one_counter_and_fast_and_slow_agree(pairs: list[tuple[Any, Any]]) -> None:
    events = [{"x": x, "y": y} for x, y in pairs]
    fast, slow = decode(events, EVERYTHING), decode(events, EVERYTHING, only_slow=True)
    assert fast.fates.tolist() == slow.fates.tolist()
    assert sum(counts.offsets for counts in fast.counts().values()) == len(events)
    assert repr(fast.rows.to_pylist()) == repr(slow.rows.to_pylist())
