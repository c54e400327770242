"""Any bytes, in any format, end in exactly one counter, and the fast way equals the deciding one."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.appenderator.decoding import RowDecoder
from ingest.spec.model import DataSchema
from ingest.stream.schemas import MemorySchemas, WriterSchema
from ingest.stream.supplier import Headers
from tests.unit.ingest.appenderator.binary_messages import (
    avro,
    avro_file,
    compiled,
    descriptor_set,
    framed,
    message_class,
    record_schema,
)
from tests.unit.ingest.appenderator.rows import OPENED_MS, poll_of, spec_of

COLUMNS: dict[str, Any] = {
    "timestampSpec": {"column": "t", "format": "auto", "missingValue": "2000-01-01"},
    "dimensionsSpec": {
        "dimensions": [
            "s",
            {"type": "long", "name": "l"},
            {"type": "double", "name": "d"},
            {"type": "float", "name": "f"},
            {"type": "auto", "name": "a"},
        ]
    },
    "metricsSpec": [{"type": "doubleSum", "name": "sum", "fieldName": "d"}],
    "granularitySpec": {"rollup": False},
}
DISCOVERED = {**COLUMNS, "dimensionsSpec": {"useSchemaDiscovery": True}}
ROW = record_schema(
    ("t", ["null", "long"]),
    ("s", ["null", "string", "bytes"]),
    ("l", "long"),
    ("d", "double"),
    ("f", "float"),
    ("a", ["null", "double", {"type": "array", "items": ["null", "string"]}, {"type": "map", "values": "Row"}]),
)
RECORD = {"t": 1, "s": "x", "l": 5, "d": 1.5, "f": 2.5, "a": ["p", None]}
METRICS = message_class()(user_name="ann", count=5, tags=["a"], labels={"k": 1}).SerializeToString()
COLUMNS_OF_LINES = ["t", "s", "l", "d", "f", "a"]
REGISTRY = {"type": "schema_registry", "url": "http://registry:8081"}
SCHEMAS = MemorySchemas(
    {
        1: WriterSchema("AVRO", (("own", json.dumps(ROW)),)),
        2: WriterSchema("PROTOBUF", (("metrics.proto", compiled()),)),
    }
)
DESCRIPTOR = {"type": "inline", "descriptorString": base64.b64encode(descriptor_set()).decode()}
LENIENT = {"ALLOW_COMMENTS": True, "ALLOW_SINGLE_QUOTES": True, "ALLOW_NON_NUMERIC_NUMBERS": True}

FORMATS: dict[str, tuple[dict[str, Any], bytes]] = {
    "json": ({"type": "json"}, b'{"t":1,"s":"x","l":5,"d":1.5}'),
    "lenient json": ({"type": "json", "featureSpec": LENIENT}, b'{\'t\':1,"d":NaN,"s":Infinity/**/}'),
    "csv": ({"type": "csv", "columns": COLUMNS_OF_LINES, "tryParseNumbers": True}, b'1,"x\x01y",5,1.5,2.5,"q""r"'),
    "csv with header": ({"type": "csv", "findColumnsFromHeader": True}, b"t,s,l\n1,x,5"),
    "tsv": ({"type": "tsv", "columns": COLUMNS_OF_LINES}, b"1\tx\t5\t1.5"),
    "regex": ({"type": "regex", "pattern": "(\\d+) (.*)", "columns": ["t", "s"]}, b"1 x"),
    "lines": ({"type": "lines"}, b"one\ntwo"),
    "avro": ({"type": "avro_stream", "avroBytesDecoder": {"type": "schema_inline", "schema": ROW}}, avro(ROW, RECORD)),
    "avro by id": ({"type": "avro_stream", "avroBytesDecoder": REGISTRY}, framed(1, avro(ROW, RECORD))),
    "avro by type": (
        {
            "type": "avro_stream",
            "avroBytesDecoder": {"type": "schema_inline", "schema": ROW},
            "extractUnionsByType": True,
        },
        avro(ROW, RECORD),
    ),
    "avro file": ({"type": "avro_ocf"}, avro_file(ROW, [RECORD, RECORD], "deflate")),
    "protobuf": ({"type": "protobuf", "protoBytesDecoder": DESCRIPTOR}, METRICS),
    "protobuf by id": ({"type": "protobuf", "protoBytesDecoder": REGISTRY}, framed(2, b"\x00" + METRICS)),
    "kafka": (
        {
            "type": "kafka",
            "valueFormat": {"type": "json"},
            "keyFormat": {"type": "json"},
            "headerFormat": {"type": "string"},
        },
        b'{"t":1,"s":"x"}',
    ),
}


@st.composite
def damaged(draw: st.DrawFn, good: bytes) -> bytes | None:
    """A good message with some bytes changed, cut out or put in; or anything at all."""
    if draw(st.integers(0, 3)) == 0:
        return draw(st.none() | st.binary(max_size=20))
    message = bytearray(good)
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(message)))
        how = draw(st.integers(0, 2))
        if how == 0:
            del message[at : at + draw(st.integers(1, 4))]
        elif how == 1:
            message[at:at] = draw(st.binary(min_size=1, max_size=4))
        elif at < len(message):
            message[at] = draw(st.integers(0, 255))
    return bytes(message)


@cache
def schema_of(name: str, discovered: bool, reject: bool) -> DataSchema:
    columns, tuning = DISCOVERED if discovered else COLUMNS, {"onBadValue": "reject"} if reject else {}
    return spec_of(columns, input_format=FORMATS[name][0], tuning=tuning).data_schema


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=12)
@given(data=st.data())
def test_any_bytes_end_in_exactly_one_counter(name: str, data: st.DataObject) -> None:
    good = FORMATS[name][1]
    # Beside many good ones, for some formats read batches at once.
    messages = [good] * data.draw(st.sampled_from([0, 9])) + data.draw(st.lists(damaged(good), min_size=1, max_size=4))
    keys = data.draw(st.lists(damaged(b'{"k":1}'), min_size=len(messages), max_size=len(messages)))
    discovered, reject = data.draw(st.booleans()), data.draw(st.booleans())
    schema = schema_of(name, discovered, reject)
    headers: list[Headers] = [[("h", key)] for key in keys]
    poll = replace(poll_of(messages, timestamps_ms=[1] * len(messages)), keys=keys, headers=headers)
    fast = RowDecoder(schema, schemas=lambda registry: SCHEMAS).decode([poll], OPENED_MS)
    slow = RowDecoder(schema, schemas=lambda registry: SCHEMAS, only_slow=True).decode([poll], OPENED_MS)
    assert sum(counts.messages for counts in fast.counts().values()) == len(messages)
    assert list(fast.fates) == list(slow.fates)
    # By text, because NaN is not equal to itself.
    assert str(fast.rows.to_pylist()) == str(slow.rows.to_pylist())
    assert (fast.rejected, fast.problems, fast.truncated) == (slow.rejected, slow.problems, slow.truncated)
    assert all(record.value == messages[record.offset] for record in fast.rejected)


NAMES = ['a"b', "a\\b", "a\nb", "a\x7fb", "a'b", "a.b", "{a}", "%s", " ", "\U0001f600", "İ", "S", "s"]


def test_columns_of_any_name_are_read_whichever_way() -> None:
    """A name that JSON spells with an escape once ended the task that should read it."""
    columns = {
        "timestampSpec": {"column": 't"', "format": "millis"},
        "dimensionsSpec": {"dimensions": NAMES},
        "metricsSpec": [{"type": "longSum", "name": "sum", "fieldName": 'n"'}],
        "granularitySpec": {"rollup": False},
    }
    message = {name: f"value of {name}" for name in NAMES} | {'t"': 1, 'n"': 7}
    for schema in (columns, columns | {"dimensionsSpec": {"useSchemaDiscovery": True}}):
        for only_slow in (False, True):
            decoder = RowDecoder(spec_of(schema).data_schema, only_slow=only_slow)
            [row] = decoder.decode([poll_of([message])], OPENED_MS).rows.to_pylist()
            assert {name: row[name] for name in NAMES} == {name: message[name] for name in NAMES} and row["sum"] == 7


HALF = "\\ud800"
HALVES = [
    f'["{HALF}"]',
    f'{{"t": "{HALF}"}}',
    f'{{"t": 1, "l": "{HALF}"}}',
    f'{{"t": 1, "s": ["{HALF}", {{"{HALF}": 1}}]}}',
    f'{{"t": 1, "d": {{"{HALF}": 1}}}}',
    f'"{HALF}"',
]


@pytest.mark.parametrize("columns", [COLUMNS, DISCOVERED], ids=["declared", "discovered"])
@pytest.mark.parametrize("reject", [False, True])
def test_half_of_a_surrogate_pair_never_gets_into_what_is_said_of_a_record(
    columns: dict[str, Any], reject: bool
) -> None:
    """It could not be written to a quarantine file, which ended every task that read it."""
    spec = spec_of(columns, tuning={"onBadValue": "reject"} if reject else {})
    batch = RowDecoder(spec.data_schema).decode([poll_of([half.encode() for half in HALVES])], OPENED_MS)
    assert len(batch.problems) >= 4 and batch.rejected
    for told in [*(record.reason for record in batch.rejected), *(d for p in batch.problems for d in p.details)]:
        assert told.encode()
