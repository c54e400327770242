"""Avro records become rows by the schema that the spec, the message's id or the file itself gives."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import pytest

from ingest.appenderator.decoding import DecodedBatch, Fate, RowDecoder
from ingest.appenderator.decoding.formats import avro_file as container
from ingest.spec.formats import Registry
from ingest.stream.schemas import MemorySchemas, SchemaRegistryUnreachable, WriterSchema, WriterSchemas
from segments.schema import ColumnType
from tests.unit.ingest.appenderator.binary_messages import TIME_MS, avro, avro_file, framed, record_schema
from tests.unit.ingest.appenderator.rows import OPENED_MS, poll_of, spec_of

EVENT = record_schema(
    ("t", {"type": "long", "logicalType": "timestamp-millis"}),
    ("s", ["null", "string"]),
    ("l", ["null", "long"]),
    ("d", "double"),
    ("f", "float"),
    ("tags", {"type": "array", "items": ["null", "string"]}),
    ("raw", "bytes"),
    ("inner", ["null", record_schema(("city", "string"), name="Inner")]),
    ("kind", {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}),
    ("some", ["null", "int", "string", record_schema(("x", "int"), name="Sub")]),
)
FULL: dict[str, Any] = {
    "t": TIME_MS,
    "s": "a",
    "l": 5,
    "d": 1.5,
    "f": 0.5,
    "tags": ["y", None, "x"],
    "raw": b"\x00\xff",
    "inner": {"city": "Köln"},
    "kind": "B",
    "some": "text",
}
COLUMNS: dict[str, Any] = {
    "dimensionsSpec": {
        "dimensions": [
            "s",
            {"type": "long", "name": "l"},
            {"type": "double", "name": "d"},
            {"type": "float", "name": "f"},
            *("tags", "raw", "kind", "city", "some"),
        ]
    },
    "granularitySpec": {"rollup": False},
}
INLINE: dict[str, Any] = {
    "type": "avro_stream",
    "avroBytesDecoder": {"type": "schema_inline", "schema": EVENT},
    "flattenSpec": {"fields": [{"type": "path", "name": "city", "expr": "$.inner.city"}]},
}
REGISTRY = {**INLINE, "avroBytesDecoder": {"type": "schema_registry", "url": "http://registry:8081"}}


def decoder(form: dict[str, Any], schemas: WriterSchemas | None = None, *, only_slow: bool = False) -> RowDecoder:
    def source(registry: Registry) -> WriterSchemas:
        assert schemas is not None and registry.urls == ("http://registry:8081",)
        return schemas

    return RowDecoder(spec_of(COLUMNS, input_format=form).data_schema, only_slow=only_slow, schemas=source)


def decode(messages: list[Any], form: dict[str, Any], schemas: WriterSchemas | None = None) -> DecodedBatch:
    """Decoded fast, after the slow way was held equal."""
    fast = decoder(form, schemas).decode([poll_of(messages)], OPENED_MS)
    slow = decoder(form, schemas, only_slow=True).decode([poll_of(messages)], OPENED_MS)
    assert str(fast.rows.to_pylist()) == str(slow.rows.to_pylist())
    assert (list(fast.fates), fast.rejected) == (list(slow.fates), slow.rejected)
    return fast


def fates(batch: DecodedBatch) -> list[Fate]:
    return [Fate(fate) for fate in batch.fates]


def registered(schemas: Mapping[int, dict[str, Any]]) -> MemorySchemas:
    return MemorySchemas({at: WriterSchema("AVRO", (("own", json.dumps(s)),)) for at, s in schemas.items()})


def test_each_type_is_read_as_druid_hands_it_on() -> None:
    batch = decode([avro(EVENT, FULL), avro(EVENT, {**FULL, "s": None, "l": None, "inner": None, "some": 7})], INLINE)
    assert fates(batch) == [Fate.GOOD] * 2
    first, second = batch.rows.to_pylist()
    assert first == {
        "__time": TIME_MS,
        **{"s": "a", "l": 5, "d": 1.5, "f": 0.5, "tags": ["x", "y"], "raw": "AP8=", "kind": "B"},
        **{"city": "Köln", "some": "text"},
    }
    assert (second["s"], second["l"], second["city"], second["some"]) == (None, None, None, "7")
    assert decode([avro(EVENT, FULL)], {**INLINE, "binaryAsString": True}).rows.column("raw").to_pylist() == ["\x00�"]


def test_numbers_that_are_no_finite_ones_are_stored_exactly() -> None:
    odd = [math.nan, math.inf, -math.inf, 1.0]
    messages = [avro(EVENT, {**FULL, "d": value, "f": value}) for value in odd]
    batch = decode(messages, INLINE)
    assert fates(batch) == [Fate.GOOD] * 4
    for name in ("d", "f"):
        found: list[Any] = batch.rows.column(name).to_pylist()
        assert math.isnan(found[0]) and found[1:] == [math.inf, -math.inf, 1.0]
    texts = {"dimensionsSpec": {"dimensions": ["d"]}, "granularitySpec": {"rollup": False}}
    as_text = RowDecoder(spec_of(texts, input_format=INLINE).data_schema).decode([poll_of(messages)], OPENED_MS)
    assert as_text.rows.column("d").to_pylist() == ["NaN", "Infinity", "-Infinity", "1.0"]


def test_unions_may_be_expanded_by_their_types() -> None:
    paths = [("int", "$.some.int"), ("string", "$.some.string"), ("sub", "$.some.Sub.x")]
    flatten = {"fields": [{"type": "path", "name": name, "expr": expr} for name, expr in paths]}
    schema = {"dimensionsSpec": {"dimensions": ["int", "string", "sub", "s"]}, "granularitySpec": {"rollup": False}}
    form = {**INLINE, "extractUnionsByType": True, "flattenSpec": flatten}
    messages = [avro(EVENT, {**FULL, "some": some}) for some in (7, "t", {"x": 9}, None)]
    batch = RowDecoder(spec_of(schema, input_format=form).data_schema).decode([poll_of(messages)], OPENED_MS)
    found = [tuple(row.values())[1:] for row in batch.rows.to_pylist()]
    assert found == [("7", None, None, "a"), (None, "t", None, "a"), (None, None, "9", "a"), (None, None, None, "a")]


def test_undeclared_fields_are_discovered_with_their_types() -> None:
    schema = {"dimensionsSpec": {"useSchemaDiscovery": True}, "granularitySpec": {"rollup": False}}
    spec = spec_of(schema, input_format={"type": "avro_stream", "avroBytesDecoder": INLINE["avroBytesDecoder"]})
    batch = RowDecoder(spec.data_schema).decode([poll_of([avro(EVENT, FULL)])], OPENED_MS)
    types = {column.name: column.type for column in batch.schema.columns}
    assert types["l"] is ColumnType.LONG and types["d"] is ColumnType.DOUBLE and types["raw"] is ColumnType.STRING


@pytest.mark.parametrize(
    "message", [avro(EVENT, FULL)[:-3], b"\x00", b"\xff" * 40, b"\x01" * 9, avro(EVENT, FULL)[:9] + b"\xff" * 12]
)
def test_a_broken_record_is_rejected_alone(message: bytes) -> None:
    batch = decode([message, avro(EVENT, FULL), b"", None], INLINE)
    assert fates(batch) == [Fate.UNPARSEABLE, Fate.GOOD, Fate.TOMBSTONE, Fate.TOMBSTONE]
    assert batch.rejected[0].value == message and "not a record of its Avro schema" in batch.rejected[0].reason


def test_records_read_together_end_where_their_own_bytes_do() -> None:
    schema = record_schema(("t", "long"), ("s", "string"))
    form = {"type": "avro_stream", "avroBytesDecoder": {"type": "schema_inline", "schema": schema}}
    good = avro(schema, {"t": TIME_MS, "s": "good"})
    swallowing = avro(schema, {"t": TIME_MS, "s": ""})[:-1] + bytes([len(good) << 1])
    for odd in ([good + b"more"], [good[:-1], good + b"x"], [swallowing, good], [good + good], [good[:-1]]):
        messages = [good] * 9 + odd + [good]
        batch = decode(messages, form)
        assert batch.messages == len(messages)
        assert batch.rows.column("s").to_pylist()[:9] == ["good"] * 9


def test_a_chain_of_records_as_long_as_its_message_does_not_end_the_process() -> None:
    schema = record_schema(("t", "long"), ("next", ["null", "Row"]))
    form = {"type": "avro_stream", "avroBytesDecoder": {"type": "schema_inline", "schema": schema}}
    deep = (b"\x00\x02" * 500_000) + b"\x00\x00"
    batch = decode([deep, avro(schema, {"t": TIME_MS, "next": {"t": 1, "next": None}})], form)
    assert fates(batch) == [Fate.UNPARSEABLE, Fate.GOOD]


def test_lists_of_nothing_cannot_fill_the_memory() -> None:
    schema = record_schema(("t", "long"), ("void", {"type": "array", "items": "null"}))
    form = {"type": "avro_stream", "avroBytesDecoder": {"type": "schema_inline", "schema": schema}}
    bomb = avro(schema, {"t": 0, "void": []})[:-1] + b"\xff\xff\xff\xff\xff\x7f\x00"
    batch = decode([bomb], form)
    assert fates(batch) == [Fate.UNPARSEABLE] and "could fill the memory" in batch.rejected[0].reason


# ---------------------------------------------------------------- schemas by id


def test_each_message_is_read_by_the_schema_it_names_and_evolution_goes_on_mid_stream() -> None:
    later = record_schema(("s", "string"), ("t", "long"), ("kind", "string"), ("l", "int"))
    schemas = registered({1: EVENT, 70_000: later})
    new = {"s": "new", "t": TIME_MS, "kind": "C", "l": 9}
    batch = decode([framed(1, avro(EVENT, FULL)), framed(70_000, avro(later, new))], REGISTRY, schemas)
    assert batch.rows.column("s").to_pylist() == ["a", "new"]
    assert batch.rows.column("l").to_pylist() == [5, 9]
    assert batch.rows.column("d").to_pylist() == [1.5, None]


def test_what_names_no_schema_is_rejected_by_name() -> None:
    schemas = MemorySchemas({2: WriterSchema("JSON", (("own", "{}"),)), 3: WriterSchema("AVRO", (("own", '"int"'),))})
    schemas.schemas[1] = WriterSchema("AVRO", (("own", json.dumps(EVENT)),))
    messages = [framed(9, b""), framed(1, avro(EVENT, FULL), first=7), b"\x00\x00", framed(2, b""), framed(3, b"\x02")]
    batch = decode([*messages, framed(1, avro(EVENT, FULL))], REGISTRY, schemas)
    assert fates(batch) == [Fate.UNPARSEABLE] * 5 + [Fate.GOOD]
    reasons = [record.reason for record in batch.rejected]
    for reason, part in zip(
        reasons, ["no schema of id 9", "byte is 7", "too few", "kind JSON", "no record"], strict=True
    ):
        assert part in reason


def test_schemas_that_others_refer_to_are_read_first() -> None:
    inner, outer = record_schema(("city", "string"), name="Inner"), record_schema(("t", "long"), ("inner", "Inner"))
    texts = (("inner", json.dumps(inner)), ("own", json.dumps(outer)))
    body = avro(record_schema(("t", "long"), ("inner", inner)), {"t": TIME_MS, "inner": {"city": "Rome"}})
    batch = decode([framed(1, body)], REGISTRY, MemorySchemas({1: WriterSchema("AVRO", texts)}))
    assert batch.rows.column("city").to_pylist() == ["Rome"]


def test_while_the_registry_is_away_nothing_is_decided() -> None:
    schemas = registered({1: EVENT})
    schemas.trouble = SchemaRegistryUnreachable(("http://registry:8081",), "refused")
    reader = decoder(REGISTRY, schemas)
    polls = [poll_of([framed(1, avro(EVENT, FULL)), b"\x07broken"])]
    with pytest.raises(SchemaRegistryUnreachable, match="reading waits"):
        reader.decode(polls, OPENED_MS)
    schemas.trouble = None
    assert fates(reader.decode(polls, OPENED_MS)) == [Fate.GOOD, Fate.UNPARSEABLE]
    schemas.trouble = SchemaRegistryUnreachable(("http://registry:8081",), "refused")
    assert fates(reader.decode(polls, OPENED_MS)) == [Fate.GOOD, Fate.UNPARSEABLE], "known schemas need no registry"


def test_several_schemas_may_stand_in_the_spec() -> None:
    schemas = {"5": EVENT, "6": record_schema(("t", "long"), ("s", "string"))}
    form = {**INLINE, "avroBytesDecoder": {"type": "multiple_schemas_inline", "schemas": schemas}}
    small = avro(schemas["6"], {"t": TIME_MS, "s": "b"})
    batch = decode([framed(5, avro(EVENT, FULL), 1), framed(6, small, 1), framed(7, small, 1), framed(6, small)], form)
    assert fates(batch) == [Fate.GOOD, Fate.GOOD, Fate.UNPARSEABLE, Fate.UNPARSEABLE]
    assert batch.rows.column("s").to_pylist() == ["a", "b"]


# ---------------------------------------------------------------- container files

FILES = {"type": "avro_ocf", "flattenSpec": INLINE["flattenSpec"]}


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_a_container_file_is_as_many_rows_as_it_holds(codec: str) -> None:
    records = [{**FULL, "l": at} for at in range(3)]
    batch = decode([avro_file(EVENT, records, codec), avro_file(EVENT, records[:1], codec)], FILES)
    assert batch.rows.column("l").to_pylist() == [0, 1, 2, 0]
    assert list(batch.row_message) == [0, 0, 0, 1]


def test_a_container_file_that_is_none_is_rejected_whole() -> None:
    good = avro_file(EVENT, [FULL], "deflate")
    messages = [b"Obj", good[:-20], good[:-1] + b"\x00", good[:40], b"Obj\x01" + b"\xff" * 30, avro(EVENT, FULL)]
    assert fates(decode([*messages, good], FILES)) == [Fate.UNPARSEABLE] * 6 + [Fate.GOOD]


def test_a_container_file_that_would_unpack_to_a_flood_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "UNPACKED_MAX", 10_000)
    bomb = avro_file(EVENT, [{**FULL, "s": "x" * 1_000_000}], "deflate")
    assert len(bomb) < 10_000
    batch = decode([bomb, avro_file(EVENT, [FULL], "deflate")], FILES)
    assert fates(batch) == [Fate.UNPARSEABLE, Fate.GOOD] and "unpacks to more" in batch.rejected[0].reason


def test_the_readers_schema_renames_nothing_and_fills_in_defaults() -> None:
    wanted = record_schema(("t", "long"), ("s", "string"))
    wanted["fields"].append({"name": "l", "type": "long", "default": 42})
    written = record_schema(("s", "string"), ("t", "int"))
    batch = decode([avro_file(written, [{"s": "a", "t": 5}])], {**FILES, "schema": wanted})
    assert batch.rows.column("l").to_pylist() == [42]
