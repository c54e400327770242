"""Flattened fields: nested ones by structs inside structs, whole objects where a path needs them; both ways agree."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.appenderator.decoding import DecodedBatch, Fate, RowDecoder
from ingest.appenderator.decoding.fast import FastReader
from ingest.appenderator.decoding.plan import compile_plan
from ingest.errors import SpecError
from tests.searching import examples
from tests.unit.ingest.appenderator.rows import OPENED_MS, poll_of, spec_of

TIME = "2024-02-29T12:00:00Z"
FIELDS: list[dict[str, Any]] = [
    {"type": "path", "name": "abc", "expr": "$.a.b.c"},
    {"type": "path", "name": "abd", "expr": "$.a.b.d"},
    {"type": "path", "name": "first", "expr": "$.a.list[0].x"},
    {"type": "tree", "name": "deep", "nodes": ["a", "b", "c", "e"]},
    {"type": "path", "name": "time", "expr": "$.meta.t"},
]
NAMES = ("abc", "abd", "first", "deep")


def decoder_of(fields: list[dict[str, Any]], names: tuple[str, ...], *, only_slow: bool = False) -> RowDecoder:
    schema = {
        "timestampSpec": {"column": "time"},
        "dimensionsSpec": {"dimensions": list(names)},
        "granularitySpec": {"rollup": False},
    }
    spec = spec_of(schema, input_format={"flattenSpec": {"fields": fields}})
    return RowDecoder(spec.data_schema, only_slow=only_slow)


def decode(decoder: RowDecoder, events: list[Any], first: int = 0) -> DecodedBatch:
    return decoder.decode([poll_of([json.dumps(event).encode() for event in events], first)], OPENED_MS)


def test_nested_fields_are_found_and_missing_ones_are_null() -> None:
    events = [
        {"meta": {"t": TIME}, "a": {"b": {"c": "x", "d": 5}, "list": [{"x": 1}]}},
        {"meta": {"t": TIME}, "a": {"b": None, "list": None}},
        {"meta": {"t": TIME}, "a": None},
        {"meta": {"t": TIME}},
        {"meta": {"t": TIME}, "a": {"b": {"c": {"e": "deep"}}}},
        {"meta": {"t": TIME}, "a": "text"},
        {"meta": None},
        {"meta": 5},
    ]
    batch = decode(decoder_of(FIELDS, NAMES), events)
    assert [Fate(fate) for fate in batch.fates] == [Fate.GOOD] * 6 + [Fate.UNPARSEABLE] * 2
    rows = batch.rows.select(list(NAMES)).to_pylist()
    assert rows[0] == {"abc": "x", "abd": "5", "first": "1", "deep": None}
    assert rows[1:4] == [dict.fromkeys(NAMES)] * 3
    assert rows[4] == {"abc": '{"e":"deep"}', "abd": None, "first": None, "deep": "deep"}
    assert rows[5] == dict.fromkeys(NAMES)


def test_a_field_that_keeps_coming_as_no_object_is_read_all_the_same() -> None:
    decoder = decoder_of(FIELDS, NAMES)
    for round_ in range(3):
        events = [{"meta": {"t": TIME}, "a": at if at % 2 else {"b": {"c": str(at)}}} for at in range(60)]
        batch = decode(decoder, events, 60 * round_)
        found = [value for value in batch.rows.column("abc").to_pylist() if value is not None]
        assert found == [str(at) for at in range(0, 60, 2)]


def test_paths_that_need_the_whole_object_find_in_it() -> None:
    fields = [
        {"type": "path", "name": "all", "expr": "$..c"},
        {"type": "path", "name": "under", "expr": "$.items[?(@.n < $.limit)].name"},
        {"type": "jq", "name": "sum", "expr": "[.items[].n] | add"},
        {"type": "jq", "name": "failing", "expr": ".items | error"},
        {"type": "root", "name": "time", "expr": "t"},
    ]
    event = {"t": TIME, "limit": 2, "items": [{"n": 1, "name": "a"}, {"n": 3, "name": "b"}], "x": {"c": [{"c": 1}]}}
    for only_slow in (False, True):
        decoder = decoder_of(fields, ("all", "under", "sum", "failing"), only_slow=only_slow)
        row = decode(decoder, [event]).rows.to_pylist()[0]
        assert (row["all"], row["under"], row["sum"], row["failing"]) == (["1", '[{"c":1}]'], "a", "4", None)


VALUE = st.none() | st.integers(-9, 9) | st.text("xy", max_size=2) | st.lists(st.integers(0, 3), max_size=2)
INNER = st.dictionaries(st.sampled_from(["c", "d", "e"]), VALUE | st.dictionaries(st.just("e"), VALUE), max_size=2)
OUTER = st.dictionaries(st.sampled_from(["b", "list"]), VALUE | INNER | st.lists(INNER, max_size=1), max_size=2)
EVENT = st.fixed_dictionaries({"meta": st.just({"t": TIME})}, optional={"a": VALUE | OUTER})


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(EVENT, min_size=1, max_size=30))
def test_structs_find_what_following_the_path_finds(events: list[Any]) -> None:
    fast, slow = (decode(decoder_of(FIELDS, NAMES, only_slow=only_slow), events) for only_slow in (False, True))
    assert fast.rows.to_pylist() == slow.rows.to_pylist()
    assert fast.fates.tolist() == slow.fates.tolist()


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_name_that_is_also_read_as_a_whole_is_read_as_it_is(name: str) -> None:
    fields: list[Any] = [
        {"type": "path", "name": "c", "expr": "$.a.b.c"},
        {"type": "root", "name": "time", "expr": "t"},
    ]
    fields.append({"type": "path", "name": "whole", "expr": "$.a" if name == "a" else "$.a.b"})
    for ordered in (fields, fields[::-1]):
        row = decode(decoder_of(ordered, ("c", "whole")), [{"t": TIME, "a": {"b": {"c": 1}}}]).rows.to_pylist()[0]
        assert (row["c"], json.loads(row["whole"])) == ("1", {"b": {"c": 1}} if name == "a" else {"c": 1})


@pytest.mark.parametrize("value", [["x", "y"], 5, {"b": 1}])
def test_a_field_that_keeps_coming_with_another_type_is_soon_read_fast(value: Any) -> None:
    schema = {"dimensionsSpec": {"dimensions": ["s"]}, "granularitySpec": {"rollup": False}}
    reader = FastReader(compile_plan(spec_of(schema).data_schema))
    message = json.dumps({"t": TIME, "s": value}).encode()
    assert reader.read([message] * 40)[1] == list(range(16))
    rows, rejected = reader.read([message] * 40)
    assert (len(rows), rejected) == (40, [])


def test_a_path_that_needs_whole_objects_discovers_nothing() -> None:
    events = [{"time": TIME, "top": "x", "a": {"c": 5}}]
    schema = {"timestampSpec": {"column": "time"}, "dimensionsSpec": {"dimensions": ["deep"]}}
    spec = spec_of(schema, input_format={"flattenSpec": {"fields": [{"type": "path", "name": "deep", "expr": "$..c"}]}})
    batch = decode(RowDecoder(spec.data_schema), events)
    assert "top" not in batch.rows.schema.names


PROGRAMS = [
    {"type": "jq", "name": "sum", "expr": "[.items[].n] | add"},
    {"type": "jq", "name": "ratio", "expr": ".a / .b"},
    {"type": "root", "name": "time", "expr": "t"},
]


@pytest.mark.parametrize("only_slow", [False, True])
@pytest.mark.parametrize("discovers", [False, True])
def test_a_program_that_fails_for_a_record_is_a_bad_value_and_counted(only_slow: bool, discovers: bool) -> None:
    decoder = decoder_of(PROGRAMS, () if discovers else ("sum", "ratio"), only_slow=only_slow)
    events = [
        {"t": TIME, "a": 6, "b": 3, "items": []},
        {"t": TIME, "a": 1, "b": 0, "items": [{"n": 2}]},
        {"t": TIME, "a": "x", "b": 1, "items": 5},
    ]
    batch = decode(decoder, events)
    assert batch.fates.tolist() == [Fate.GOOD, Fate.PARTLY, Fate.PARTLY]
    assert [(row["ratio"], row.get("sum")) for row in batch.rows.to_pylist()] == [
        ("2", None),
        (None, "2"),
        (None, None),
    ]
    one, both = batch.problems
    assert one.details[0].startswith("field 'ratio': jq: ") and "zero" in one.details[0]
    assert len(both.details) == 2 and not both.unparseable


@pytest.mark.parametrize("only_slow", [False, True])
def test_a_time_or_a_transform_of_a_failing_program_makes_the_record_unparseable(only_slow: bool) -> None:
    fields = [
        {"type": "jq", "name": "time", "expr": ".t / .unit"},
        {"type": "jq", "name": "n", "expr": ".n | tonumber"},
    ]
    schema = {
        "timestampSpec": {"column": "time", "format": "millis"},
        "dimensionsSpec": {"dimensions": ["twice"]},
        "transformSpec": {"transforms": [{"type": "expression", "name": "twice", "expression": "n * 2"}]},
    }
    spec = spec_of(schema, input_format={"flattenSpec": {"useFieldDiscovery": False, "fields": fields}})
    events = [{"t": 8, "unit": 2, "n": "4"}, {"t": 8, "unit": 0, "n": "4"}, {"t": 8, "unit": 2, "n": "four"}]
    batch = RowDecoder(spec.data_schema, only_slow=only_slow).decode([poll_of(events)], OPENED_MS)
    assert batch.fates.tolist() == [Fate.GOOD, Fate.UNPARSEABLE, Fate.UNPARSEABLE]
    assert batch.rows.to_pylist() == [{"__time": 4, "twice": "8"}]
    assert all("jq: " in record.reason for record in batch.rejected)


def test_objects_too_large_for_a_program_are_bad_values_whoever_reads_them() -> None:
    """The bound follows from the program alone, so that every replica gets the same."""
    pairs = [
        {"type": "jq", "name": "p", "expr": "[.a[] + .a[]] | length"},
        {"type": "root", "name": "time", "expr": "t"},
    ]
    small, large = {"t": TIME, "a": [1] * 20}, {"t": TIME, "a": [1] * 20_000}
    for only_slow in (False, True):
        batch = decode(decoder_of(pairs, ("p",), only_slow=only_slow), [small, large])
        assert [row["p"] for row in batch.rows.to_pylist()] == ["400", None]
        assert "is run over 32768 at most" in batch.problems[0].details[0]


@pytest.mark.parametrize(
    ("program", "rule"),
    [
        ("def f: f; f", "def"),
        ("repeat(.)", "repeat"),
        ("[range(.n)]", "range"),
        ("until(false; .)", "until"),
        ("[limit(9; recurse(.))]", "limit"),
        (".[.n] = 1", "="),
        (".a |= .b", "|="),
        (".text * .n", "[*]"),
        ("[.a[] + .b[] + .c[]]", "3 of"),
        (". as $x | $x", "as"),
        ("reduce .[] as $x (0; . + $x)", "reduce"),
        ('.a | test("(x+x+)+y")', "test"),
        ("env.PATH", "env"),
        ("$ENV.PATH", "ENV"),
        ("now", "now"),
        ("input", "input"),
        ("halt", "halt"),
        ('"\\(.a)"', "add texts"),
        (". " * 1_001, "characters"),
    ],
)
def test_a_program_that_some_record_could_keep_running_is_refused_with_a_cure(program: str, rule: str) -> None:
    with pytest.raises(SpecError, match=rule) as refused:
        decoder_of([{"type": "jq", "name": "x", "expr": program}], ("x",))
    [problem] = refused.value.problems
    assert problem.path.endswith("fields[0].expr") and problem.cure


@pytest.mark.parametrize(
    "program",
    [
        ".a.b", ".a[0]", '.["a b"]', ".items | map(.p) | add", ".a // 0", 'if .a > 2 then "big" else "small" end',
        "{as: .a, b: .b} | tojson", ".. | numbers", 'to_entries | map(.key) | join(",")', ".a * 2 - 1", ".a.as",
        "[.a[] | select(.b)] | length", "@base64 # a comment that says repeat",
    ],
)  # fmt: skip
def test_ordinary_programs_are_taken(program: str) -> None:
    decoder_of([{"type": "jq", "name": "x", "expr": program}], ("x",))
