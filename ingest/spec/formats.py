"""The input formats beside JSON as frozen values: how a message's bytes become documents (pure data).

``flatten`` and ``discover_fields`` mean the same in all of them; see ``ingest.spec.model.InputFormat``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ingest.spec.model import DataSchema, FlattenField, InputFormat

KEYS, HEADERS = "keys", "headers"
"""What a record has beside its value, by the stream's names."""


@dataclass(frozen=True, slots=True)
class DelimitedFormat:
    """``csv`` (``quoted``) and ``tsv``: one row a line. Without ``columns`` each message's own header names them."""

    delimiter: str
    quoted: bool
    columns: tuple[str, ...] = ()
    header: bool = False
    skip_rows: int = 0
    list_delimiter: str = "\x01"
    parse_numbers: bool = False
    flatten: tuple[FlattenField, ...] = ()
    discover_fields: bool = True


@dataclass(frozen=True, slots=True)
class RegexFormat:
    """``regex``: one row a line, whose groups are the columns; a line must match as a whole."""

    pattern: str
    columns: tuple[str, ...]
    list_delimiter: str = "\x01"
    flatten: tuple[FlattenField, ...] = ()
    discover_fields: bool = True


@dataclass(frozen=True, slots=True)
class LinesFormat:
    """``lines``: one row a line, whose text is the column ``line``."""

    flatten: tuple[FlattenField, ...] = ()
    discover_fields: bool = True


@dataclass(frozen=True, slots=True)
class Registry:
    """A schema registry. ``config`` and ``headers`` are as posted, secrets unresolved."""

    urls: tuple[str, ...]
    config: dict[str, Any] = field(hash=False)
    headers: dict[str, Any] = field(hash=False)


@dataclass(frozen=True, slots=True)
class InlineSchema:
    """One Avro schema, as JSON text, for all messages."""

    schema: str


@dataclass(frozen=True, slots=True)
class InlineSchemas:
    """Avro schemas by the id that a message begins with: a byte 1 and four bytes, big end first."""

    schemas: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class AvroFormat:
    """``avro_stream``: one record a message, without its schema."""

    decoder: InlineSchema | InlineSchemas | Registry
    binary_as_string: bool = False
    unions_by_type: bool = False
    flatten: tuple[FlattenField, ...] = ()
    discover_fields: bool = True


@dataclass(frozen=True, slots=True)
class AvroFileFormat:
    """``avro_ocf``: each message is an object container file. ``schema`` is the reader's, as JSON text."""

    schema: str | None = None
    binary_as_string: bool = False
    unions_by_type: bool = False
    flatten: tuple[FlattenField, ...] = ()
    discover_fields: bool = True


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A compiled set of Protobuf files: a path where tasks run, or base64 text. Without ``message`` the first one."""

    path: str | None
    inline: str | None
    message: str | None


@dataclass(frozen=True, slots=True)
class ProtobufFormat:
    """``protobuf``: one message of a described type."""

    decoder: Descriptor | Registry
    flatten: tuple[FlattenField, ...] = ()
    discover_fields: bool = True


@dataclass(frozen=True, slots=True)
class KafkaFormat:
    """``kafka``: another format's documents together with the record's key, headers, time and topic.

    ``header_encoding`` None reads no headers, ``key`` None no key. The value's own fields win.
    """

    value: InputFormat
    key: InputFormat | None = None
    header_encoding: str | None = None
    header_prefix: str = "kafka.header."
    key_column: str = "kafka.key"
    timestamp_column: str = "kafka.timestamp"
    topic_column: str = "kafka.topic"
    topic: str = ""

    @property
    def flatten(self) -> tuple[FlattenField, ...]:
        return self.value.flatten

    @property
    def discover_fields(self) -> bool:
        return self.value.discover_fields


def parts_read(schema: DataSchema) -> frozenset[str]:
    """Which parts of a record are needed beside its value and time."""
    parts = {HEADERS} if schema.header_filter is not None else set()
    if isinstance(schema.input_format, KafkaFormat):
        parts |= {KEYS} if schema.input_format.key is not None else set()
        parts |= {HEADERS} if schema.input_format.header_encoding is not None else set()
    return frozenset(parts)
