"""The port of a format's reader, and which reader a format has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from ingest.appenderator.decoding.documents import read_documents
from ingest.appenderator.decoding.unreadable import Unreadable
from ingest.spec.formats import (
    AvroFileFormat,
    AvroFormat,
    DelimitedFormat,
    KafkaFormat,
    LinesFormat,
    ProtobufFormat,
    RegexFormat,
)
from ingest.spec.model import InputFormat, JsonFormat
from ingest.stream.schemas import SchemaSources
from segments.arrow_arrays import ArrowArray


class DocumentReader(Protocol):
    """Reads messages of one format. For one thread.

    A message is what its format needs: the value's bytes, or a ``KafkaRecord``. Both methods may raise
    ``SchemaRegistryUnreachable``: then nothing was decided, and the same messages are to be read again.
    """

    def many(self, messages: Sequence[Any]) -> tuple[list[dict[str, Any]], list[int]]:
        """The fast way: the rows of messages that hold exactly one, in order, and the positions of all others."""
        ...

    def by_column(self, messages: Sequence[Any]) -> ColumnRows | None:
        """The fastest way, of formats that have one: messages that hold exactly one row each; None where that is not
        sure of all of them."""
        ...

    def documents(self, message: Any) -> list[Any] | None:
        """The deciding way: all documents of one message, each a value or an ``Unreadable``; None for a blank one.

        Raises:
            Unreadable: the whole message is unreadable.
        """
        ...


class ColumnRows(Protocol):
    """Rows by column, where no object was made of any."""

    def __len__(self) -> int: ...

    def arrow(self, name: str) -> ArrowArray | None:
        """The field's column; None for one that no record has."""

    def values(self, name: str) -> list[Any]:
        """The field's value in every row, None where it has none."""
        ...


class ByRow:
    """Of formats without a way by columns."""

    def by_column(self, messages: Sequence[Any]) -> ColumnRows | None:
        return None


class OneByOne(ByRow):
    """The fast way as a loop over ``one``, for formats that read a message at a time."""

    def one(self, message: Any) -> dict[str, Any]:
        """The only document of a message.

        Raises:
            Unreadable: it holds none, several, or something else.
        """
        raise NotImplementedError

    def many(self, messages: Sequence[Any]) -> tuple[list[dict[str, Any]], list[int]]:
        rows: list[dict[str, Any]] = []
        rejected: list[int] = []
        remaining = iter(messages)
        while True:
            try:
                rows.extend(map(self.one, remaining))
                return rows, rejected
            except Unreadable:
                rejected.append(len(rows) + len(rejected))


class JsonDocuments(OneByOne):
    """JSON read into objects; without another format around it the typed reader is faster and used instead."""

    def __init__(self, form: JsonFormat) -> None:
        self._form = form
        self._decode = msgspec.json.Decoder(dict[str, Any]).decode

    def one(self, message: bytes | None) -> dict[str, Any]:
        try:
            return self._decode(message or b"")
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise Unreadable("not one object") from error

    def documents(self, message: bytes | None) -> list[Any] | None:
        if message is None:
            return None
        return read_documents(message, self._form.documents, self._form.features)


def document_reader(form: InputFormat, schemas: SchemaSources | None = None) -> DocumentReader:
    """The reader of a format; ``schemas`` opens the registries that it names."""
    match form:
        case JsonFormat():
            return JsonDocuments(form)
        case DelimitedFormat() | LinesFormat():
            from ingest.appenderator.decoding.formats.lines import DelimitedLines, PlainLines

            return PlainLines() if isinstance(form, LinesFormat) else DelimitedLines(form)
        case RegexFormat():
            from ingest.appenderator.decoding.formats.pattern import PatternLines

            return PatternLines(form)
        case KafkaFormat():
            from ingest.appenderator.decoding.formats.record import KafkaDocuments

            key = None if form.key is None else document_reader(form.key, schemas)
            return KafkaDocuments(form, document_reader(form.value, schemas), key)
        case AvroFormat():
            from ingest.appenderator.decoding.formats.avro import AvroDocuments

            return AvroDocuments(form, schemas)
        case AvroFileFormat():
            from ingest.appenderator.decoding.formats.avro_file import AvroFileDocuments

            return AvroFileDocuments(form)
        case ProtobufFormat():
            from ingest.appenderator.decoding.formats.protobuf import ProtobufDocuments

            return ProtobufDocuments(form, schemas)
    raise AssertionError(f"no reader for {form}")
