"""Protobuf messages become rows by compiled descriptors, as Druid makes objects of them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from ingest.appenderator.decoding import DecodedBatch, Fate, RowDecoder
from ingest.appenderator.decoding.formats.protobuf import DescriptorUnusable
from ingest.errors import SpecError
from ingest.stream.schemas import MemorySchemas, WriterSchema
from tests.unit.ingest.appenderator.binary_messages import TIME, compiled, descriptor_set, framed, message_class
from tests.unit.ingest.appenderator.rows import OPENED_MS, poll_of, spec_of

SCHEMA: dict[str, Any] = {
    "timestampSpec": {"column": "at", "format": "iso"},
    "dimensionsSpec": {
        "dimensions": ["userName", {"type": "long", "name": "count"}, "tags", "level", "raw", "wrapped", "deep", "k"]
    },
    "granularitySpec": {"rollup": False},
}
FLATTEN = {
    "fields": [
        {"type": "path", "name": "deep", "expr": "$.inner.inner.userName"},
        {"type": "path", "name": "k", "expr": "$.labels.k"},
    ]
}
REGISTRY = {"type": "schema_registry", "url": "http://registry:8081"}


def form_of(protobuf_decoder: dict[str, Any]) -> dict[str, Any]:
    return {"type": "protobuf", "protoBytesDecoder": protobuf_decoder, "flattenSpec": FLATTEN}


def inline(message: str | None = "Metrics") -> dict[str, Any]:
    text = base64.b64encode(descriptor_set()).decode()
    return form_of({"type": "inline", "descriptorString": text, "protoMessageType": message})


def decode(messages: list[Any], form: dict[str, Any], schemas: MemorySchemas | None = None) -> DecodedBatch:
    """Decoded fast, after the slow way was held equal."""
    schema = spec_of(SCHEMA, input_format=form).data_schema
    source = None if schemas is None else lambda registry: schemas
    fast = RowDecoder(schema, schemas=source).decode([poll_of(messages)], OPENED_MS)
    slow = RowDecoder(schema, schemas=source, only_slow=True).decode([poll_of(messages)], OPENED_MS)
    assert str(fast.rows.to_pylist()) == str(slow.rows.to_pylist())
    assert (list(fast.fates), fast.rejected) == (list(slow.fates), slow.rejected)
    return fast


def full() -> Any:
    message = message_class()(user_name="ann", count=5, ratio=1.5, tags=["y", "x"], level=1, raw=b"\x00\xff")
    message.at.FromJsonString(TIME)
    message.wrapped.value = 0
    message.inner.inner.user_name = "deep"
    message.labels["k"] = 7
    return message


def test_each_sort_of_field_is_read_as_druid_hands_it_on() -> None:
    bare = message_class()()
    bare.at.FromJsonString("2024-02-29T00:00:00.001Z")
    batch = decode([full().SerializeToString(), bare.SerializeToString()], inline())
    first, second = batch.rows.to_pylist()
    assert first == {
        "__time": 1_700_000_000_000,
        **{"userName": "ann", "count": 5, "tags": ["x", "y"], "level": "HIGH", "raw": "AP8=", "wrapped": "0"},
        **{"deep": "deep", "k": "7"},
    }
    assert second["__time"] == 1_709_164_800_001
    assert {second[name] for name in ("userName", "count", "level", "wrapped", "deep")} == {None}


@pytest.mark.parametrize("name", ["shop.Metrics", None, "Other", "Nested"])
def test_the_message_is_found_by_either_name_or_is_the_first(name: str | None) -> None:
    schema = {**SCHEMA, "timestampSpec": {"column": "none", "missingValue": TIME}}
    spec = spec_of(schema, input_format=inline(name))
    batch = RowDecoder(spec.data_schema).decode([poll_of([full().SerializeToString()])], OPENED_MS)
    assert batch.rows.column("userName").to_pylist() == ["ann"]


def test_a_broken_message_is_rejected_alone() -> None:
    whole = full().SerializeToString()
    late = message_class()()
    late.at.seconds = 10**12
    batch = decode([whole[:-2], b"\xff\xff", late.SerializeToString(), whole, b"", None], inline())
    expected = [*[Fate.UNPARSEABLE] * 3, Fate.GOOD, Fate.TOMBSTONE, Fate.TOMBSTONE]
    assert [Fate(fate) for fate in batch.fates] == expected


def test_a_chain_as_long_as_its_message_does_not_end_the_process() -> None:
    chain = b""
    for _ in range(2_000):
        size, prefix = len(chain), b""
        while size >= 0x80:
            prefix, size = prefix + bytes([size & 0x7F | 0x80]), size >> 7
        chain = b"\x4a" + prefix + bytes([size]) + chain
    batch = decode([chain], inline())
    assert list(batch.fates) == [Fate.UNPARSEABLE]


def test_a_descriptor_file_is_read_where_the_task_runs_and_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "metrics.desc"
    form = form_of({"type": "file", "descriptor": f"file://{path}", "protoMessageType": "Metrics"})
    decoder = RowDecoder(spec_of(SCHEMA, input_format=form).data_schema)
    polls = [poll_of([full().SerializeToString()])]
    for content in (None, b"no descriptor", b""):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(DescriptorUnusable, match="reading waits"):
            decoder.decode(polls, OPENED_MS)
    path.write_bytes(descriptor_set())
    assert decoder.decode(polls, OPENED_MS).rows.column("userName").to_pylist() == ["ann"]


def test_a_name_that_the_descriptor_has_not_is_told(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="has no message 'Absent'"):
        spec_of(SCHEMA, input_format=inline("Absent"))
    path = tmp_path / "metrics.desc"
    path.write_bytes(descriptor_set())
    form = form_of({"type": "file", "descriptor": str(path), "protoMessageType": "Absent"})
    decoder = RowDecoder(spec_of(SCHEMA, input_format=form).data_schema)
    with pytest.raises(DescriptorUnusable, match="'Absent'"):
        decoder.decode([poll_of([full().SerializeToString()])], OPENED_MS)


def test_a_registrys_messages_name_schema_and_type() -> None:
    schemas = MemorySchemas(
        {
            7: WriterSchema("PROTOBUF", (("metrics.proto", compiled()),)),
            8: WriterSchema("AVRO", (("own", "{}"),)),
            9: WriterSchema("PROTOBUF", (("x.proto", 'syntax = "proto3";'),)),
        }
    )
    body = full().SerializeToString()
    nested = message_class("shop.Metrics.Nested")(user_name="nested").SerializeToString()
    messages = [
        framed(7, b"\x00" + body),
        framed(7, b"\x02\x00" + body),
        framed(7, b"\x04\x00\x02" + nested),
        framed(7, b"\x02\x20" + body),
        framed(6, b"\x00" + body),
        framed(8, b"\x00" + body),
        framed(9, b"\x00" + body),
        framed(7, b"\x00" + body, first=1),
        b"\x00\x00\x00\x00\x07",
        framed(7, b"\xff" * 12),
    ]
    schema = {**SCHEMA, "timestampSpec": {"column": "at", "format": "iso", "missingValue": TIME}}
    spec = spec_of(schema, input_format=form_of(REGISTRY))
    batch = RowDecoder(spec.data_schema, schemas=lambda registry: schemas).decode([poll_of(messages)], OPENED_MS)
    assert batch.rows.column("userName").to_pylist() == ["ann", "ann", "nested"]
    reasons = " ".join(record.reason for record in batch.rejected)
    for part in ("no message type at [16]", "no schema of id 6", "kind AVRO", "schema 9 cannot be used", "byte is 1"):
        assert part in reasons
    assert len(batch.rejected) == 7
