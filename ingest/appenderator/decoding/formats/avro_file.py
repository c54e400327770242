"""Reads messages that are Avro object container files, block by block, with a bound on what they unpack to."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from io import BytesIO
from typing import Any, Final

import fastavro

from ingest.appenderator.decoding.formats.avro import FAULTS, RecordReader, reader_of
from ingest.appenderator.decoding.formats.reader import OneByOne
from ingest.appenderator.decoding.unreadable import Unreadable
from ingest.spec.formats import AvroFileFormat

UNPACKED_MAX: Final = 128 << 20
"""Bytes that one message may unpack to: a thousandfold of Kafka's usual message is a bomb."""
RECORDS_MAX: Final = 1_000_000
_MAGIC: Final = b"Obj\x01"
_SYNC_BYTES: Final = 16
_METADATA: Final = fastavro.parse_schema({"type": "map", "values": "bytes"})
_LONG: Final = fastavro.parse_schema({"type": "long"})
_SCHEMAS_KEPT: Final = 64


class AvroFileDocuments(OneByOne):
    """``avro_ocf``. A fault anywhere makes the whole message unreadable."""

    def __init__(self, form: AvroFileFormat) -> None:
        self._form = form
        self._readers: dict[str, RecordReader] = {}

    def one(self, message: bytes | None) -> dict[str, Any]:
        found = self.documents(message)
        if found is None or len(found) != 1:
            raise Unreadable("not one record")
        record: dict[str, Any] = found[0]
        return record

    def documents(self, message: bytes | None) -> list[Any] | None:
        if not message:
            return None
        if not message.startswith(_MAGIC):
            raise Unreadable("not an Avro container file: it does not begin with Obj and 1")
        try:
            return self._records(BytesIO(message))
        except Unreadable:
            raise
        except (*FAULTS, OSError, zlib.error, lzma.LZMAError) as error:
            raise Unreadable(f"a broken Avro container file: {type(error).__name__} {error}".rstrip()) from error

    def _records(self, stream: BytesIO) -> list[Any]:
        stream.seek(len(_MAGIC))
        metadata: Any = fastavro.schemaless_reader(stream, _METADATA, None)
        unpack = _UNPACK.get(metadata.get("avro.codec", b"null").decode())
        if unpack is None:
            raise Unreadable(f"its codec is {metadata['avro.codec'].decode()!r}; null, deflate, bzip2 and xz are read")
        read = self._reader(metadata["avro.schema"].decode())
        sync = stream.read(_SYNC_BYTES)
        records: list[Any] = []
        left = UNPACKED_MAX
        while stream.tell() < len(stream.getbuffer()):
            count, size = _long(stream), _long(stream)
            if not 0 <= count <= RECORDS_MAX - len(records):
                raise Unreadable(f"more than {RECORDS_MAX} records in one message")
            packed = stream.read(size) if size >= 0 else b""
            if len(packed) != size or stream.read(_SYNC_BYTES) != sync:
                raise Unreadable("a block is cut off, or its mark is not the file's")
            block = unpack(packed, left)
            left -= len(block)
            inner = BytesIO(block)
            records.extend(read.one(inner) for _ in range(count))
        return records

    def _reader(self, text: str) -> RecordReader:
        read = self._readers.get(text)
        if read is None:
            if len(self._readers) >= _SCHEMAS_KEPT:
                self._readers.clear()
            read = self._readers[text] = reader_of([text], self._form, self._form.schema)
        return read


def _long(stream: BytesIO) -> int:
    found: Any = fastavro.schemaless_reader(stream, _LONG, None)
    return int(found)


def _bounded(found: bytes, done: bool) -> bytes:
    if not done:
        raise Unreadable(f"it unpacks to more than {UNPACKED_MAX >> 20} MiB, or is cut off")
    return found


def _plain(packed: bytes, most: int) -> bytes:
    return packed


def _deflate(packed: bytes, most: int) -> bytes:
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
    return _bounded(unpacker.decompress(packed, most + 1), unpacker.eof)


def _bzip2(packed: bytes, most: int) -> bytes:
    unpacker = bz2.BZ2Decompressor()
    return _bounded(unpacker.decompress(packed, most + 1), unpacker.eof)


def _xz(packed: bytes, most: int) -> bytes:
    unpacker = lzma.LZMADecompressor()
    return _bounded(unpacker.decompress(packed, most + 1), unpacker.eof)


_UNPACK: Final[dict[str, Callable[[bytes, int], bytes]]] = {
    "null": _plain,
    "deflate": _deflate,
    "bzip2": _bzip2,
    "xz": _xz,
}
