"""Every message ends in exactly one fate, whatever it holds, and fast and slow reading agree."""

from __future__ import annotations

import json
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.appenderator.decoding import DecodedBatch, Fate, RowDecoder
from ingest.protocol import PartitionCounts
from ingest.spec.model import DataSchema
from ingest.stream.supplier import Poll
from segments.arrow_schema import column_of_field
from segments.schema import ColumnSpec, ColumnType
from tests.searching import examples
from tests.unit.ingest.appenderator.rows import OPENED_MS, poll_of, spec_of

TIME = "2023-11-14T22:13:20Z"
TYPED = {
    "dimensionsSpec": {
        "dimensions": [
            "s",
            {"type": "long", "name": "l"},
            {"type": "double", "name": "d"},
            {"type": "float", "name": "f"},
            {"type": "auto", "name": "a"},
        ]
    },
    "metricsSpec": [
        {"type": "count", "name": "n"},
        {"type": "longSum", "name": "ls", "fieldName": "x"},
        {"type": "doubleMax", "name": "dm", "fieldName": "x"},
        {"type": "floatLast", "name": "fl", "fieldName": "y"},
    ],
    "granularitySpec": {"rollup": False},
}


def decode(messages: list[Any], data_schema: dict[str, Any] | None = None, **parts: Any) -> DecodedBatch:
    spec = spec_of({"granularitySpec": {"rollup": False}, **(TYPED if data_schema is None else data_schema)}, **parts)
    return RowDecoder(spec.data_schema, spec.io.rejection).decode([poll_of(messages)], OPENED_MS)


def rows_of(batch: DecodedBatch, *names: str) -> list[Any]:
    table = batch.rows.select(list(names)).to_pylist()
    return [row[names[0]] for row in table] if len(names) == 1 else [tuple(row.values()) for row in table]


def fates(batch: DecodedBatch) -> list[Fate]:
    return [Fate(fate) for fate in batch.fates]


def test_each_type_takes_its_values_and_nulls_what_it_cannot_hold() -> None:
    batch = decode(
        [
            {"t": TIME, "s": "a", "l": 1, "d": 1.5, "f": 0.5, "x": 3},
            {"t": TIME, "s": 12.0, "l": "12.9", "d": True, "f": 1e300, "x": "1,234"},
            {"t": TIME, "s": True, "l": 12.9, "d": "NaN", "f": "2", "x": 2.5},
            {"t": TIME, "s": {"k": [1]}, "l": 2**63, "d": 2, "f": None},
        ]
    )
    assert fates(batch) == [Fate.GOOD, Fate.PARTLY, Fate.GOOD, Fate.PARTLY]
    assert rows_of(batch, "s") == ["a", "12.0", "true", '{"k":[1]}']
    assert rows_of(batch, "l") == [1, None, 12, None]
    doubles = rows_of(batch, "d")
    assert doubles[:2] == [1.5, None] and math.isnan(doubles[2]) and doubles[3] == 2.0
    assert rows_of(batch, "f") == [0.5, None, 2.0, None]
    assert rows_of(batch, "ls", "dm") == [(3, 3.0), (1234, 1234.0), (2, 2.5), (None, None)]
    assert batch.truncated == {"l": 1, "x": 1}
    first = batch.problems[0]
    assert (first.partition, first.offset, first.unparseable) == (0, 1, False)
    assert [detail.split(":")[0] for detail in first.details] == ["field 'l'", "field 'd'", "field 'f'"]
    assert batch.rejected == ()


def test_under_reject_a_bad_value_sends_the_record_to_the_quarantine() -> None:
    batch = decode([{"t": TIME, "l": "x"}, {"t": TIME, "l": 1.5}, {"t": TIME, "l": 1}], tuning={"onBadValue": "reject"})
    assert fates(batch) == [Fate.UNPARSEABLE, Fate.UNPARSEABLE, Fate.GOOD]
    assert [(r.offset, r.value) for r in batch.rejected] == [
        (0, b'{"t":"2023-11-14T22:13:20Z","l":"x"}'),
        (1, b'{"t":"2023-11-14T22:13:20Z","l":1.5}'),
    ]
    assert "'l'" in batch.rejected[0].reason


def test_messages_that_are_no_objects_are_told_apart() -> None:
    good = json.dumps({"t": TIME, "s": "x"}).encode()
    messages: list[bytes | None] = [
        None, b"", b" \n", b"null", b"5", b"[1,2]", b"[]", b"{}", b"{broken", b"\xff\xfe", good + b"," , good,
        b'{"t":"' + TIME.encode() + b'","d":NaN}', b'{"t":"bad"}', b'{"t":1e999}', b'{"t":"\\ud800"}',
        b'{"t":"' + TIME.encode() + b'","s":"\\ud800"}', b"[" * 100_000, b'{"t":%s}' % (b"9" * 5_000),
        b"\xef\xbb\xbf" + good,
    ]  # fmt: skip
    batch = decode(list(messages))
    assert fates(batch) == [Fate.TOMBSTONE] * 3 + [Fate.UNPARSEABLE] * 8 + [Fate.GOOD] + [Fate.UNPARSEABLE] * 7 + [
        Fate.GOOD
    ]
    assert batch.rows.num_rows == 2
    assert len(batch.rejected) == 15
    assert all(record.reason for record in batch.rejected)
    assert sum(counts.offsets for counts in batch.counts().values()) == len(messages)


def test_several_documents_in_one_message_are_several_rows() -> None:
    one, two = (json.dumps({"t": TIME, "s": s}) for s in "ab")
    broken = f"{one}\n{two}\n{{broken".encode()
    assert rows_of(decode([f"{one} {two}".encode()]), "s") == ["a", "b"]
    whole = decode([broken])
    assert (whole.rows.num_rows, fates(whole)) == (0, [Fate.UNPARSEABLE])
    lines = decode([broken], input_format={"assumeNewlineDelimited": True})
    assert (rows_of(lines, "s"), fates(lines), len(lines.rejected)) == (["a", "b"], [Fate.PARTLY], 1)
    prefix = decode([broken], input_format={"useJsonNodeReader": True})
    assert (rows_of(prefix, "s"), fates(prefix)) == (["a", "b"], [Fate.PARTLY])
    mixed = decode([f'{one} {{"t":"bad"}}'.encode(), {"t": TIME, "s": "c"}])
    assert (rows_of(mixed, "s"), fates(mixed)) == (["a", "c"], [Fate.PARTLY, Fate.GOOD])


def test_a_missing_time_may_have_a_stand_in_but_a_bad_one_may_not() -> None:
    schema = {**TYPED, "timestampSpec": {"column": "t", "missingValue": "2000-01-01"}}
    batch = decode([{}, {"t": None}, {"t": "bad"}, {"t": TIME}], schema)
    assert fates(batch) == [Fate.GOOD, Fate.GOOD, Fate.UNPARSEABLE, Fate.GOOD]
    assert rows_of(batch, "__time") == [946684800000, 946684800000, OPENED_MS]


def test_a_string_column_is_a_list_only_where_a_row_has_several_values() -> None:
    single = decode([{"t": TIME, "s": ["x"]}, {"t": TIME, "s": [None]}])
    assert single.rows.schema.field("s").type == pa.string() and rows_of(single, "s") == ["x", None]
    several = decode([{"t": TIME, "s": "y"}, {"t": TIME, "s": ["b", None, "a"]}, {"t": TIME}])
    assert rows_of(several, "s") == [["y"], [None, "a", "b"], None]
    assert several.schema.multi_value_columns == {"s"}
    empty = decode([{"t": TIME, "s": ["x"]}, {"t": TIME, "s": []}, {"t": TIME}])
    assert rows_of(empty, "s") == [["x"], [], None] and empty.schema.multi_value_columns == frozenset()
    assert column_of_field(empty.rows.schema.field("s")) == ColumnSpec("s", ColumnType.STRING, empty_lists=True)


def test_undeclared_simple_fields_are_discovered_as_strings() -> None:
    messages = [
        {"t": TIME, "s": "a", "n": 1, "b": True, "l": ["x", "y"], "o": {"k": 1}, "z": None},
        {"t": TIME, "n": "2", "late": 7, "l": "x", "skip": 1},
    ]
    batch = decode(messages, {"dimensionsSpec": {"dimensionExclusions": ["skip"]}})
    assert batch.rows.schema.names == ["__time", "s", "n", "b", "l", "late"]
    assert rows_of(batch, "n", "b", "late") == [("1", "true", None), ("2", None, "7")]
    assert rows_of(batch, "l") == [["x", "y"], ["x"]]


def test_typed_discovery_gives_the_least_restrictive_type_and_looks_at_every_object() -> None:
    messages = [{"t": TIME, "n": 1, "f": 1, "b": True, "o": {"k": 1}, "m": 1} for _ in range(100)]
    messages += [{"t": TIME, "n": 2, "f": 2.5, "m": "x", "rare": "only here"}]
    batch = decode(messages, {"dimensionsSpec": {"useSchemaDiscovery": True}})
    types = {column.name: column.type for column in batch.schema.columns}
    assert types == {
        "__time": ColumnType.LONG,
        "n": ColumnType.LONG,
        "f": ColumnType.DOUBLE,
        "b": ColumnType.LONG,
        "o": ColumnType.COMPLEX,
        "m": ColumnType.STRING,
        "rare": ColumnType.STRING,
    }
    assert rows_of(batch, "rare")[-1] == "only here"
    assert rows_of(batch, "o")[0] == '{"k":1}'


def test_fields_are_flattened_by_path() -> None:
    fields = [
        {"type": "path", "name": "c", "expr": "$.a.b.c"},
        {"type": "path", "name": "first", "expr": "$.a.list[0]"},
        {"type": "path", "name": "ks", "expr": "$.objs[*].k"},
        {"type": "tree", "name": "deep", "nodes": ["a", "b"]},
        "top",
    ]
    document = {"t": TIME, "a": {"b": {"c": 5}, "list": [1, 2]}, "objs": [{"k": 1}, {"k": 2}], "top": "x"}
    schema = {"dimensionsSpec": {"dimensions": ["c", "first", "ks", "deep", "top"]}}
    batch = decode([document, {"t": TIME}], schema, input_format={"flattenSpec": {"fields": fields}})
    assert rows_of(batch, "c", "first", "deep", "top") == [("5", "1", '{"c":5}', "x"), (None, None, None, None)]
    assert rows_of(batch, "ks") == [["1", "2"], None]


def test_without_field_discovery_only_flattened_fields_become_columns() -> None:
    flatten = {"useFieldDiscovery": False, "fields": ["top", {"type": "path", "name": "c", "expr": "$.a.c"}]}
    message = {"t": TIME, "top": "x", "a": {"c": 1}, "other": 2}
    batch = decode([message], {"dimensionsSpec": {}}, input_format={"flattenSpec": flatten})
    assert batch.rows.schema.names == ["__time", "top", "c"]


def test_filters_see_fields_that_are_no_columns() -> None:
    schema = {**TYPED, "transformSpec": {"filter": {"type": "selector", "dimension": "kind", "value": "1"}}}
    batch = decode([{"t": TIME, "kind": 1, "s": "in"}, {"t": TIME, "kind": "2", "s": "out"}, {"t": TIME}], schema)
    assert rows_of(batch, "s") == ["in"]
    assert fates(batch) == [Fate.GOOD, Fate.FILTERED, Fate.FILTERED]
    assert "kind" not in batch.rows.schema.names


def test_windows_follow_from_the_stored_time_and_the_records_time_alone() -> None:
    spec = spec_of(TYPED, io={"lateMessageRejectionPeriod": "PT1H", "earlyMessageRejectionPeriod": "PT1M"})
    decoder = RowDecoder(spec.data_schema, spec.io.rejection)
    hour, minute = 3_600_000, 60_000
    times = [OPENED_MS - hour - 1, OPENED_MS - hour, OPENED_MS + minute, OPENED_MS + minute + 1, OPENED_MS + hour]
    late_record = [0, 0, 0, 0, OPENED_MS + hour]
    batch = decoder.decode([poll_of([{"t": at} for at in times], timestamps_ms=late_record)], OPENED_MS)
    assert fates(batch) == [Fate.LATE, Fate.GOOD, Fate.GOOD, Fate.EARLY, Fate.GOOD]
    assert batch.watermarks() == {0: OPENED_MS + hour}


def test_times_are_truncated_but_first_and_last_remember_the_event_time() -> None:
    schema = {**TYPED, "granularitySpec": {"rollup": True, "queryGranularity": "hour"}}
    batch = decode([{"t": TIME, "y": 1.5}, {"t": TIME}], schema)
    assert rows_of(batch, "__time") == [OPENED_MS - OPENED_MS % 3_600_000] * 2
    assert rows_of(batch, "fl", "__time_of:fl") == [(1.5, OPENED_MS), (None, None)]
    assert rows_of(batch, "n") == [1, 1]


def test_holes_are_counted_and_split_with_the_message_before_them() -> None:
    values: list[bytes | None] = [json.dumps({"t": TIME, "s": s}).encode() for s in "abc"]
    polls = [
        Poll(0, 10, 20, [12, 15, 16], values, []),
        Poll(1, 0, 4, [], [], []),
        Poll(0, 20, 21, [20], values[:1], []),
    ]
    batch = RowDecoder(spec_of(TYPED).data_schema).decode(polls, OPENED_MS)
    assert batch.counts() == {0: PartitionCounts(good=4, no_record=7), 1: PartitionCounts(no_record=4)}
    before, after = batch.split_at_message(2)
    assert before.ranges() == {0: (10, 16)} and after.ranges() == {0: (16, 21), 1: (0, 4)}
    assert rows_of(before, "s") == ["a", "b"] and rows_of(after, "s") == ["c", "a"]
    inside, past = batch.split_at_ends({0: 15, 1: 2})
    assert inside.ranges() == {0: (10, 15), 1: (0, 2)} and past.ranges() == {0: (15, 21), 1: (2, 4)}
    assert rows_of(inside, "s") == ["a"] and rows_of(past, "s") == ["b", "c", "a"]
    for one, other in ((before, after), (inside, past)):
        parts = [counts for part in (one, other) for counts in part.counts().values()]
        assert sum(counts.offsets for counts in parts) == 15


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | st.sampled_from(
    ["12", "12.9", "1,234", " 7 ", "NaN", "1e3", TIME, 2**63, -(2**63), 1e300, -0.0, "\ud800"]
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)
FIELDS = st.sampled_from(["t", "s", "l", "d", "f", "a", "x", "y", "other"])
OBJECTS = st.dictionaries(FIELDS, VALUES, max_size=6).map(lambda found: {"t": TIME, **found})
MESSAGES = st.one_of(
    st.none(),
    OBJECTS.map(lambda value: json.dumps(value).encode()),
    st.lists(OBJECTS, max_size=2).map(lambda values: "\n".join(map(json.dumps, values)).encode()),
    VALUES.map(lambda value: json.dumps(value).encode()),
    st.binary(max_size=12),
)
SCHEMAS: list[DataSchema] = [
    spec_of(schema, **parts).data_schema
    for schema, parts in (
        (TYPED, {}),
        (TYPED, {"tuning": {"onBadValue": "reject"}}),
        ({"dimensionsSpec": {"useSchemaDiscovery": True}}, {}),
        ({"dimensionsSpec": {"dimensions": [{"type": "long", "name": "l"}], "includeAllDimensions": True}}, {}),
        ({**TYPED, "timestampSpec": {"column": "t", "format": "auto", "missingValue": "2000-01-01"}}, {}),
        ({**TYPED, "transformSpec": {"filter": {"type": "bound", "dimension": "s", "lower": "a"}}}, {}),
    )
]


@settings(max_examples=examples(40))
@given(st.integers(0, len(SCHEMAS) - 1), st.lists(MESSAGES, max_size=6))
def test_any_message_ends_in_exactly_one_counter_and_fast_reading_equals_slow(
    which: int, messages: list[bytes | None]
) -> None:
    schema = SCHEMAS[which]
    polls = [poll_of(messages)]
    fast = RowDecoder(schema).decode(polls, OPENED_MS)
    slow = RowDecoder(schema, only_slow=True).decode(polls, OPENED_MS)
    assert sum(counts.messages for counts in fast.counts().values()) == len(messages)
    assert list(fast.fates) == list(slow.fates)
    assert fast.schema == slow.schema
    # By text, because NaN is not equal to itself.
    assert str(fast.rows.to_pylist()) == str(slow.rows.to_pylist())
    assert fast.rows.schema == slow.rows.schema
    assert (fast.rejected, fast.problems, fast.truncated) == (slow.rejected, slow.problems, slow.truncated)


@pytest.mark.parametrize("odd", [True, 5, 1.5, ["a", "b"], {"k": 1}, "12"])
def test_a_field_that_always_comes_with_another_type_is_read_alike_after_the_reader_has_learnt(odd: Any) -> None:
    messages = [{"t": TIME, "s": odd, "l": odd, "d": odd, "x": odd, "other": at} for at in range(100)]
    batch = decode(messages)
    slow = RowDecoder(spec_of(TYPED).data_schema, only_slow=True).decode([poll_of(messages)], OPENED_MS)
    assert batch.rows.equals(slow.rows)
    assert list(batch.fates) == list(slow.fates)
    assert batch.rows.num_rows == 100


@pytest.mark.parametrize("digits", [19, 20, 400, 4_300, 4_301, 20_000])
def test_integers_of_any_length_are_read_alike_and_never_become_another_value(digits: int) -> None:
    schema = {"dimensionsSpec": {"dimensions": ["s", {"type": "auto", "name": "a"}, {"type": "double", "name": "d"}]}}
    number = b"9" * digits
    messages: list[Any] = [b'{"t":0,"s":%s}' % number] * 40
    messages += [b'{"t":0,"%s":%s}' % (name, number) for name in (b"a", b"d", b"other")] + [b'{"t":%s}' % number]
    batch = decode(messages, schema)
    slow_spec = spec_of({"granularitySpec": {"rollup": False}, **schema}).data_schema
    slow = RowDecoder(slow_spec, only_slow=True).decode([poll_of(messages)], OPENED_MS)
    assert batch.rows.equals(slow.rows) and list(batch.fates) == list(slow.fates)
    texts = set(rows_of(batch, "s")[:40])
    assert texts == ({"9" * digits} if digits <= 4_300 else {None})
    assert fates(batch)[-1] is Fate.UNPARSEABLE


@pytest.mark.parametrize("name", ["l\0", "\0", "", "__time_of:fl"])
def test_a_field_whose_name_no_column_can_have_is_left_out_and_its_row_kept(name: str) -> None:
    declared = {"dimensionsSpec": {**TYPED["dimensionsSpec"], "includeAllDimensions": True}}  # type: ignore[dict-item]
    batch = decode([{"t": TIME, "l": 1, name: "q"}, {"t": TIME, "l": 2}], TYPED | declared)
    assert fates(batch) == [Fate.GOOD, Fate.GOOD]
    assert rows_of(batch, "l") == [1, 2] and "q" not in str(batch.rows.to_pylist())
    assert len(pa.table(batch.rows).schema.names) == len(set(pa.table(batch.rows).schema.names))


@pytest.mark.parametrize("broken", [b"\x80", b"\xed\xa0\x80", b"\xff"])
def test_a_name_that_is_not_utf_8_rejects_its_message_also_where_no_column_reads_it(broken: bytes) -> None:
    time = TIME.encode()
    messages = [
        b'{"t":"%s","unread%s":1}' % (time, broken),
        b'{"t":"%s","s":"\xc3\xa4"}' % time,
        b"{",
        b'{"t":"%s"}' % time,
    ]
    batch = decode(list(messages))
    assert fates(batch) == [Fate.UNPARSEABLE, Fate.GOOD, Fate.UNPARSEABLE, Fate.GOOD]
    assert rows_of(batch, "s") == ["ä", None]


def test_lists_keep_numbers_that_json_has_not_where_the_format_has_them() -> None:
    dimensions = [{"type": "auto", "name": "a"}, {"type": "auto", "name": "c", "castToType": "ARRAY<DOUBLE>"}]
    messages = [b'{"t": "%s", "a": [NaN, 1.5, -Infinity], "c": [Infinity, "2"]}' % TIME.encode()]
    messages += [b'{"t": "%s", "a": [1, null], "c": NaN}' % TIME.encode()]
    features = {"featureSpec": {"ALLOW_NON_NUMERIC_NUMBERS": True}}
    batch = decode(messages, {"dimensionsSpec": {"dimensions": dimensions}}, input_format=features)
    assert fates(batch) == [Fate.GOOD, Fate.GOOD]
    assert repr(rows_of(batch, "a")) == "[[nan, 1.5, -inf], [1.0, None]]"
    assert repr(rows_of(batch, "c")) == "[[inf, 2.0], [nan]]"
