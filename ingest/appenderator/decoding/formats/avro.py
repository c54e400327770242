"""Reads Avro records by the schema that the spec holds, or that the message names by an id. Home of fastavro."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable
from io import BytesIO
from typing import Any, Final

import fastavro
from fastavro import _read_py as unhurried

from ingest.appenderator.decoding.formats.avro_schema import Prepared, UnusableSchema, prepare
from ingest.appenderator.decoding.formats.reader import OneByOne
from ingest.appenderator.decoding.unreadable import Unreadable
from ingest.spec.formats import AvroFileFormat, AvroFormat, InlineSchema, InlineSchemas, Registry
from ingest.stream.schemas import SchemaSources, WriterSchemas

FAULTS: Final = (
    ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, RecursionError, StopIteration, TypeError,
    ValueError, struct.error, fastavro.schema.SchemaParseException, fastavro.schema.UnknownType,
)  # fmt: skip
"""What the library raises on bytes that are no record of the schema."""
_FRAME: Final = struct.Struct(">BI")

ReadRecord = Callable[[BytesIO], dict[str, Any]]
"""Reads the record that begins where the stream stands; raises any of FAULTS, or Unreadable."""


class AvroDocuments(OneByOne):
    """``avro_stream``. What follows a message's record is not looked at, as in Druid."""

    def __init__(self, form: AvroFormat, sources: SchemaSources | None) -> None:
        self._form = form
        self._readers: dict[int, ReadRecord] = {}
        self._registry: WriterSchemas | None = None
        self._first_byte = 0
        self._only: ReadRecord | None = None
        match form.decoder:
            case InlineSchema(schema):
                self._only = reader_of([schema], form)
            case InlineSchemas(schemas):
                self._readers = {schema_id: reader_of([text], form) for schema_id, text in schemas}
                self._first_byte = 1
            case Registry():
                assert sources is not None, "a format with a registry is read with a source of schemas"
                self._registry = sources(form.decoder)

    def one(self, message: bytes | None) -> dict[str, Any]:
        if not message:
            raise Unreadable("no bytes")
        try:
            if self._only is not None:
                return self._only(BytesIO(message))
            read = self._reader(message)
            stream = BytesIO(message)
            stream.seek(_FRAME.size)
            return read(stream)
        except Unreadable:
            raise
        except FAULTS as error:
            raise Unreadable(f"not a record of its Avro schema: {type(error).__name__} {error}".rstrip()) from error

    def documents(self, message: bytes | None) -> list[Any] | None:
        return [self.one(message)] if message else None

    def _reader(self, message: bytes) -> ReadRecord:
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
        read = self._readers[schema_id] = reader_of([text for _, text in found.texts], self._form)
        return read


def reader_of(texts: list[str], form: AvroFormat | AvroFileFormat, wanted: str | None = None) -> ReadRecord:
    """Reads records of the last schema; those before it are what it refers to. ``wanted``: the reader's schema.

    A schema that cannot be used gives a reader that says so of every message.
    """
    try:
        parsed, prepared = _parsed(texts, form)
        target = None if wanted is None else fastavro.parse_schema(json.loads(wanted))
    except (UnusableSchema, *FAULTS) as error:
        reason = f"its Avro schema cannot be used: {error}"

        def refuse(stream: BytesIO) -> dict[str, Any]:
            raise Unreadable(reason)

        return refuse
    # The compiled reader has no bound for nesting: a long chain of records would end the process.
    library: Any = unhurried if prepared.recursive else fastavro
    decode = library.schemaless_reader
    if not prepared.converted:
        return lambda stream: decode(stream, parsed, target)
    as_text = _utf8 if form.binary_as_string else _base64
    return lambda stream: _plain(decode(stream, parsed, target), as_text)


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
