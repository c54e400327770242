"""Avro by column answers as the library does, or not at all."""

from __future__ import annotations

import json
import math
import struct
from io import BytesIO
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.appenderator.decoding import RowDecoder
from ingest.appenderator.decoding.formats.avro_columns import AvroColumns, columns_of
from ingest.appenderator.decoding.formats.avro_schema import prepare
from ingest.spec import parse_supervisor_spec
from ingest.stream.supplier import Poll

LOGICAL = {
    "long": ["timestamp-millis", "timestamp-micros", "time-micros", "local-timestamp-millis"],
    "int": ["date", "time-millis"],
    "string": ["uuid"],
}
LONGS = st.integers(-(2**62), 2**62 - 1)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": LONGS | st.integers(-3, 3),
    "float": st.floats(width=32),
    "double": st.floats(),
    "string": st.text(max_size=90),
    "enum": st.sampled_from("abc"),
}


@st.composite
def kinds(draw: st.DrawFn, number: int) -> tuple[str, Any, bool]:
    """A field's plain kind, its type in the schema, and whether it may be null."""
    kind = draw(st.sampled_from(sorted(VALUES)))
    written: Any = kind
    if kind == "enum":
        written = {"type": "enum", "name": f"e{number}", "symbols": list("abc")}
    elif kind in LOGICAL and draw(st.booleans()):
        written = {"type": kind, "logicalType": draw(st.sampled_from(LOGICAL[kind]))}
    nullable = draw(st.booleans())
    if nullable:
        written = ["null", written] if draw(st.booleans()) else [written, "null"]
    return kind, written, nullable


@st.composite
def records(draw: st.DrawFn) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    fields = [draw(kinds(number)) for number in range(draw(st.integers(1, 5)))]
    schema = {"type": "record", "name": "R", "fields": [{"name": f"f{n}", "type": f[1]} for n, f in enumerate(fields)]}
    row = st.fixed_dictionaries(
        {f"f{n}": VALUES[kind] | st.none() if null else VALUES[kind] for n, (kind, _, null) in enumerate(fields)}
    )
    return schema, draw(st.lists(row, min_size=1, max_size=12))


def plain(schema: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = prepare(json.dumps(schema), False, {}).schema
    return found


def written(schema: dict[str, Any], rows: list[dict[str, Any]]) -> list[bytes]:
    parsed, found = fastavro.parse_schema(plain(schema)), []
    for row in rows:
        out = BytesIO()
        fastavro.schemaless_writer(out, parsed, row)
        found.append(out.getvalue())
    return found


def read(schema: dict[str, Any], messages: list[bytes], skip: int = 0) -> list[dict[str, Any]] | None:
    columns = columns_of(plain(schema))
    assert isinstance(columns, AvroColumns)
    rows = columns.read(messages, skip)
    names = [field["name"] for field in schema["fields"]]
    return (
        None
        if rows is None
        else [dict(zip(names, row, strict=True)) for row in zip(*map(rows.values, names), strict=True)]
    )


def bits(value: Any) -> Any:
    return struct.pack("<d", value) if isinstance(value, float) and not math.isnan(value) else repr(value)


@settings(max_examples=20, deadline=None)
@given(made=records(), after=st.binary(max_size=3), skip=st.integers(0, 5))
def test_every_value_is_what_the_library_reads(
    made: tuple[dict[str, Any], list[dict[str, Any]]], after: bytes, skip: int
) -> None:
    schema, rows = made
    messages = written(schema, rows)
    parsed = fastavro.parse_schema(plain(schema))
    expected = [fastavro.schemaless_reader(BytesIO(message), parsed, None) for message in messages]
    found = read(schema, [b"\x80" * skip + message + after for message in messages], skip)
    assert found is not None
    assert [{k: bits(v) for k, v in row.items()} for row in found] == [
        {k: bits(v) for k, v in row.items()}  # type: ignore[union-attr]
        for row in expected
    ]


@settings(max_examples=20, deadline=None)
@given(made=records(), data=st.data())
def test_any_bytes_are_read_as_by_the_library_or_left_to_it(
    made: tuple[dict[str, Any], list[dict[str, Any]]], data: st.DataObject
) -> None:
    schema, rows = made
    messages = [data.draw(st.binary(max_size=12)), *written(schema, rows)]
    cut = data.draw(st.integers(0, len(messages[-1])))
    messages[-1] = messages[-1][:cut]
    found = read(schema, messages)
    if found is None:
        return
    parsed = fastavro.parse_schema(plain(schema))
    for message, row in zip(messages, found, strict=True):
        expected: Any = fastavro.schemaless_reader(BytesIO(message), parsed, None)
        assert {k: bits(v) for k, v in row.items()} == {k: bits(v) for k, v in expected.items()}


@pytest.mark.parametrize(
    "kind",
    ["bytes", {"type": "array", "items": "int"}, {"type": "map", "values": "int"}, ["int", "string"], ["null"]],
    ids=str,
)
def test_what_is_not_plain_is_left_to_the_library(kind: Any) -> None:
    assert columns_of({"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]}) is None


def test_rows_by_column_are_those_that_are_read_one_by_one() -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "t", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "s", "type": ["null", "string"]},
            {"name": "n", "type": ["long", "null"]},
            {"name": "d", "type": "double"},
            {"name": "f", "type": "float"},
            {"name": "as_text", "type": "long"},
        ],
    }
    form = {"type": "avro_stream", "avroBytesDecoder": {"type": "schema_inline", "schema": schema}}
    typed = (("n", "long"), ("d", "double"), ("f", "float"))
    dimensions = ["s", *({"type": kind, "name": name} for name, kind in typed)]
    posted = {
        "type": "kafka",
        "spec": {
            "dataSchema": {
                "dataSource": "t",
                "timestampSpec": {"column": "t", "format": "millis"},
                "dimensionsSpec": {"dimensions": [*dimensions, "as_text", "absent"]},
                "granularitySpec": {"rollup": False},
            },
            "ioConfig": {"topic": "t", "inputFormat": form, "consumerProperties": {"bootstrap.servers": "none:1"}},
        },
    }
    rows = [
        {
            "t": 1_000 + n,
            "s": None if n % 3 else f"é{n}",
            "n": None if n % 4 else -n,
            "d": n / 3,
            "f": 0.5,
            "as_text": n,
        }
        for n in range(40)
    ]
    data_schema = parse_supervisor_spec(posted)[0].data_schema
    whole = written(schema, rows)
    broken = [*whole[:20], whole[20][:3], *whole[21:]]
    for messages in (whole, broken):
        polls = [Poll(0, 0, len(messages), range(len(messages)), list(messages), [0] * len(messages))]
        fast, slow = (RowDecoder(data_schema, only_slow=only).decode(polls, 0) for only in (False, True))
        assert fast.rows.equals(slow.rows) and fast.fates.tolist() == slow.fates.tolist()
        assert fast.rows.num_rows == len(messages) - (messages is broken)
