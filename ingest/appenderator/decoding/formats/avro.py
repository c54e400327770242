"""Reads Avro records by the schema that the spec holds, or that the message names by an id. Home of fastavro."""

from __future__ import annotations

import base64
import json
import secrets
import struct
from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any, Final

import fastavro
from fastavro import _read_py as unhurried

from ingest.appenderator.decoding.formats.avro_columns import AvroColumns, columns_of
from ingest.appenderator.decoding.formats.avro_schema import Prepared, UnusableSchema, prepare
from ingest.appenderator.decoding.formats.reader import ColumnRows, OneByOne
from ingest.appenderator.decoding.unreadable import Unreadable
from ingest.spec.formats import AvroFileFormat, AvroFormat, InlineSchema, InlineSchemas, Registry
from ingest.stream.schemas import SchemaSources, WriterSchemas

FAULTS: Final = (
    ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, RecursionError, StopIteration, TypeError,
    ValueError, struct.error, fastavro.schema.SchemaParseException, fastavro.schema.UnknownType,
)  # fmt: skip
"""What the library raises on bytes that are no record of the schema."""
_FRAME: Final = struct.Struct(">BI")

_MARK: Final = "siltstone_mark"
_MARK_BYTES: Final = 12
# Fewer messages are not worth a list.
_SEVERAL: Final = 8


class AvroDocuments(OneByOne):
    """``avro_stream``. What follows a message's record is not looked at, as in Druid."""

    def __init__(self, form: AvroFormat, sources: SchemaSources | None) -> None:
        self._form = form
        self._readers: dict[int, RecordReader] = {}
        self._registry: WriterSchemas | None = None
        self._first_byte = 0
        self._only: RecordReader | None = None
        match form.decoder:
            case InlineSchema(schema):
                self._only = reader_of([schema], form)
            case InlineSchemas(schemas):
                self._readers = {schema_id: reader_of([text], form) for schema_id, text in schemas}
                self._first_byte = 1
            case Registry():
                assert sources is not None, "a format with a registry is read with a source of schemas"
                self._registry = sources(form.decoder)

    def many(self, messages: Sequence[bytes | None]) -> tuple[list[dict[str, Any]], list[int]]:
        bodies = [message for message in messages if message]
        rows = self._together(bodies) if len(messages) == len(bodies) >= _SEVERAL else None
        return super().many(messages) if rows is None else (rows, [])

    def by_column(self, messages: Sequence[bytes | None]) -> ColumnRows | None:
        bodies = [message for message in messages if message]
        if len(messages) != len(bodies) or len(bodies) < _SEVERAL:
            return None
        if self._only is not None:
            return self._only.columns(bodies, 0)
        if len({message[: _FRAME.size] for message in bodies}) > 1:
            return None
        try:
            return self._reader(bodies[0]).columns(bodies, _FRAME.size)
        except Unreadable:
            return None

    def _together(self, messages: list[bytes]) -> list[dict[str, Any]] | None:
        if self._only is not None:
            return self._only.together(messages)
        if len({message[: _FRAME.size] for message in messages}) > 1:
            return None
        try:
            reader = self._reader(messages[0])
        except Unreadable:
            return None
        return reader.together([message[_FRAME.size :] for message in messages])

    def one(self, message: bytes | None) -> dict[str, Any]:
        if not message:
            raise Unreadable("no bytes")
        try:
            if self._only is not None:
                return self._only.one(BytesIO(message))
            reader = self._reader(message)
            stream = BytesIO(message)
            stream.seek(_FRAME.size)
            return reader.one(stream)
        except Unreadable:
            raise
        except FAULTS as error:
            raise Unreadable(f"not a record of its Avro schema: {type(error).__name__} {error}".rstrip()) from error

    def documents(self, message: bytes | None) -> list[Any] | None:
        return [self.one(message)] if message else None

    def _reader(self, message: bytes) -> RecordReader:
        if len(message) < _FRAME.size:
            raise Unreadable(f"{len(message)} bytes are too few for the id of a schema")
        first, schema_id = _FRAME.unpack_from(message)
        if first != self._first_byte:
            raise Unreadable(f"the first byte is {first}, not {self._first_byte} as before the id of a schema")
        known = self._readers.get(schema_id)
        if known is not None:
            return known
        found = None if self._registry is None else self._registry.find(schema_id)
        if found is None:
            raise Unreadable(f"there is no schema of id {schema_id}")
        if found.kind != "AVRO":
            raise Unreadable(f"schema {schema_id} is of kind {found.kind}, not AVRO")
        reader = self._readers[schema_id] = reader_of([text for _, text in found.texts], self._form)
        return reader


def reader_of(texts: list[str], form: AvroFormat | AvroFileFormat, wanted: str | None = None) -> RecordReader:
    """Reads records of the last schema; those before it are what it refers to. ``wanted``: the reader's schema.

    A schema that cannot be used gives a reader that says so of every message.
    """
    try:
        parsed, prepared = _parsed(texts, form)
        target = None if wanted is None else fastavro.parse_schema(json.loads(wanted))
    except (UnusableSchema, *FAULTS) as error:
        return RecordReader(None, None, None, f"its Avro schema cannot be used: {error}")
    as_text = None
    if prepared.converted:
        as_text = _utf8 if form.binary_as_string else _base64
    # The compiled reader has no bound for nesting: a long chain of records would end the process.
    library: Any = unhurried if prepared.recursive else fastavro

    def read(stream: BytesIO) -> dict[str, Any]:
        record: dict[str, Any] = library.schemaless_reader(stream, parsed, target)
        return record

    alone = prepared.recursive or target is not None or len(texts) > 1
    by_column = None if alone or prepared.converted else columns_of(prepared.schema)
    return RecordReader(read, None if alone else _many_of(prepared.schema), as_text, by_column=by_column)


class RecordReader:
    """Records of one schema, one at a time or many in one call, which costs a third."""

    def __init__(
        self,
        read: Callable[[BytesIO], dict[str, Any]] | None,
        several: Any,
        as_text: Callable[[bytes], str] | None,
        fault: str = "",
        by_column: AvroColumns | None = None,
    ) -> None:
        self._by_column = by_column
        self._read = read
        self._several = several
        self._as_text = as_text
        self._fault = fault

    def one(self, stream: BytesIO) -> dict[str, Any]:
        """The record that begins where the stream stands; raises any of FAULTS, or Unreadable."""
        if self._read is None:
            raise Unreadable(self._fault)
        record = self._read(stream)
        return record if self._as_text is None else _plain(record, self._as_text)

    def columns(self, messages: Sequence[bytes], skip: int) -> ColumnRows | None:
        """The records that begin ``skip`` bytes into the messages, as columns; None where there is no sure way."""
        return None if self._by_column is None else self._by_column.read(messages, skip)

    def together(self, bodies: Sequence[bytes]) -> list[dict[str, Any]] | None:
        """The records of bodies that hold exactly one each; None where that is not sure of all of them.

        They are read as one list of records, each with a mark after it that nobody could foresee. As many
        marks are found as records are read, so that none was read as part of a record, and every record ended
        where its own body does.
        """
        if self._several is None:
            return None
        mark = secrets.token_bytes(_MARK_BYTES)
        try:
            packed = BytesIO(b"".join([_list_head(len(bodies)), mark.join(bodies), mark, b"\x00"]))
            records: Any = fastavro.schemaless_reader(packed, self._several, None)
        except FAULTS:
            return None
        if len(records) != len(bodies) or any(record.pop(_MARK) != mark for record in records):
            return None
        if self._as_text is not None:
            return [_plain(record, self._as_text) for record in records]
        found: list[dict[str, Any]] = records
        return found


def _many_of(schema: dict[str, Any]) -> Any:
    """A list of the records, each followed by a mark."""
    if any(field["name"] == _MARK for field in schema["fields"]):
        return None
    mark = {"name": _MARK, "type": {"type": "fixed", "name": "siltstone_mark_bytes", "size": _MARK_BYTES}}
    return fastavro.parse_schema({"type": "array", "items": {**schema, "fields": [*schema["fields"], mark]}})


def _list_head(count: int) -> bytes:
    """How many items follow, as Avro writes it."""
    number, head = count << 1, bytearray()
    while number >= 0x80:
        head.append(number & 0x7F | 0x80)
        number >>= 7
    head.append(number)
    return bytes(head)


def _parsed(texts: list[str], form: AvroFormat | AvroFileFormat) -> tuple[Any, Prepared]:
    names: dict[str, Any] = {}
    named_schemas: dict[str, Any] = {}
    for text in texts[:-1]:
        fastavro.parse_schema(prepare(text, form.unions_by_type, names).schema, named_schemas)
    prepared = prepare(texts[-1], form.unions_by_type, names)
    return fastavro.parse_schema(prepared.schema, named_schemas), prepared


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _utf8(value: bytes) -> str:
    return value.decode(errors="replace")


def _plain(value: Any, as_text: Callable[[bytes], str]) -> Any:
    """Bytes as text, and lists without their nulls, as Druid hands them on."""
    if isinstance(value, bytes):
        return as_text(value)
    if isinstance(value, dict):
        return {name: _plain(item, as_text) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item, as_text) for item in value if item is not None]
    return value
