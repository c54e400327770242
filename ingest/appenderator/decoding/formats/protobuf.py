"""Reads Protobuf messages by compiled descriptors, into objects as Druid makes them. Home of the Protobuf library."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor as MessageType
from google.protobuf.message import DecodeError, Message

from ingest.appenderator.decoding.formats.protobuf_values import UnreadableValue, object_of
from ingest.appenderator.decoding.formats.reader import OneByOne
from ingest.appenderator.decoding.unreadable import Unreadable
from ingest.errors import StreamError
from ingest.spec.formats import Descriptor, ProtobufFormat, Registry
from ingest.stream.schemas import SchemaSources, WriterSchema, WriterSchemas

_ID_END: Final = 5
_INDEXES_MAX: Final = 32
# What protoc leaves out of a descriptor file that was made without --include_imports.
_WELL_KNOWN: Final = ("any", "duration", "empty", "field_mask", "struct", "timestamp", "wrappers")

ReadMessage = Callable[[bytes], dict[str, Any]]


class DescriptorUnusable(StreamError):
    """The descriptor that the spec names cannot be read here, or does not describe the message."""

    retryable = True

    def __init__(self, where: str, detail: str) -> None:
        super().__init__(
            f"the Protobuf descriptor {where} cannot be used ({detail}); reading waits. Put the file that protoc "
            "--include_imports --descriptor_set_out has written where the tasks run, or post a spec with another one"
        )


class ProtobufDocuments(OneByOne):
    """``protobuf``. A registry's messages name the schema's id and the type inside it, as Confluent frames them."""

    def __init__(self, form: ProtobufFormat, sources: SchemaSources | None) -> None:
        self._form = form
        self._only: ReadMessage | None = None
        self._pools: dict[int, _Described] = {}
        self._registry: WriterSchemas | None = None
        if isinstance(form.decoder, Registry):
            assert sources is not None, "a format with a registry is read with a source of schemas"
            self._registry = sources(form.decoder)

    def one(self, message: bytes | None) -> dict[str, Any]:
        if not message:
            raise Unreadable("no bytes")
        try:
            if isinstance(self._form.decoder, Descriptor):
                if self._only is None:
                    self._only = _described(self._form.decoder)
                return self._only(message)
            return self._framed(message)
        except (DecodeError, UnreadableValue, RecursionError) as error:
            raise Unreadable(f"not a message of its Protobuf type: {error}") from error

    def documents(self, message: bytes | None) -> list[Any] | None:
        return [self.one(message)] if message else None

    def _framed(self, message: bytes) -> dict[str, Any]:
        if len(message) <= _ID_END:
            raise Unreadable(f"{len(message)} bytes are too few for the id of a schema")
        if message[0]:
            raise Unreadable(f"the first byte is {message[0]}, not 0 as before the id of a schema")
        schema_id = int.from_bytes(message[1:_ID_END], "big")
        path, start = _indexes(message)
        return self._pool(schema_id).reader(path)(message[start:])

    def _pool(self, schema_id: int) -> _Described:
        known = self._pools.get(schema_id)
        if known is not None:
            return known
        assert self._registry is not None
        found = self._registry.find(schema_id)
        if found is None:
            raise Unreadable(f"there is no schema of id {schema_id}")
        if found.kind != "PROTOBUF":
            raise Unreadable(f"schema {schema_id} is of kind {found.kind}, not PROTOBUF")
        pool = self._pools[schema_id] = _registered(schema_id, found)
        return pool


class _Described:
    """The message types of one file and the readers made of them. ``fault`` says why there are none."""

    def __init__(self, types: list[MessageType], fault: str | None = None) -> None:
        self._types = types
        self._fault = fault
        self._readers: dict[tuple[int, ...], ReadMessage] = {}

    def reader(self, path: tuple[int, ...]) -> ReadMessage:
        """The reader of the type at this path of positions."""
        if self._fault is not None:
            raise Unreadable(self._fault)
        read = self._readers.get(path)
        if read is None:
            types, found = self._types, None
            for at in path:
                if not 0 <= at < len(types):
                    raise Unreadable(f"its schema has no message type at {list(path)}")
                found = types[at]
                types = list(found.nested_types)
            assert found is not None
            read = self._readers[path] = _reader(found)
        return read


def _indexes(message: bytes) -> tuple[tuple[int, ...], int]:
    """The path to the message's type, and where the message itself begins."""
    count, at = _varint(message, _ID_END)
    if count == 0:
        return (0,), at
    if not 0 < count <= _INDEXES_MAX:
        raise Unreadable(f"{count} positions of nested types are no message's")
    path: list[int] = []
    for _ in range(count):
        index, at = _varint(message, at)
        path.append(index)
    return tuple(path), at


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message) and shift < 64:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
    raise Unreadable("the positions of its type are cut off")


# ---------------------------------------------------------------- descriptors


def _described(decoder: Descriptor) -> ReadMessage:
    """The reader of the type that the spec names.

    Raises:
        DescriptorUnusable.
    """
    where = "in spec.ioConfig.inputFormat" if decoder.path is None else repr(decoder.path)
    try:
        packed = base64.b64decode(decoder.inline or "") if decoder.path is None else Path(decoder.path).read_bytes()
        files = descriptor_pb2.FileDescriptorSet.FromString(packed).file
        pool = _pool_of(files)
    except (OSError, DecodeError, TypeError, KeyError, ValueError) as error:
        raise DescriptorUnusable(where, str(error)) from error
    if not files:
        raise DescriptorUnusable(where, "it holds no file")
    types = [kind for file in files for kind in _types_of(pool, file)]
    if decoder.message is None:
        types = _types_of(pool, files[-1])[:1]
    else:
        exact = [kind for kind in types if kind.full_name == decoder.message]
        types = exact or [kind for kind in types if kind.name == decoder.message]
    if len(types) != 1:
        found = "no message" if not types else f"{len(types)} messages"
        raise DescriptorUnusable(where, f"{found} of the name {decoder.message!r} in it")
    return _reader(types[0])


def _registered(schema_id: int, schema: WriterSchema) -> _Described:
    files: list[descriptor_pb2.FileDescriptorProto] = []
    try:
        for name, text in schema.texts:
            file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
            file.name = name
            files.append(file)
        pool = _pool_of(files)
        return _Described(list(pool.FindFileByName(files[-1].name).message_types_by_name.values()))
    except (binascii.Error, DecodeError, TypeError, KeyError, ValueError) as error:
        return _Described([], f"the registry's compiled descriptor of schema {schema_id} cannot be used: {error}")


def _pool_of(files: Iterable[descriptor_pb2.FileDescriptorProto]) -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    listed = {file.name for file in files}
    for name in _WELL_KNOWN:
        if f"google/protobuf/{name}.proto" not in listed:
            module = __import__(f"google.protobuf.{name}_pb2", fromlist=["DESCRIPTOR"])
            pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    for file in files:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


def _types_of(pool: descriptor_pool.DescriptorPool, file: descriptor_pb2.FileDescriptorProto) -> list[MessageType]:
    """In the order of the file, nested types after the one that holds them."""
    found: list[MessageType] = []
    waiting = [pool.FindFileByName(file.name).message_types_by_name[kind.name] for kind in file.message_type]
    while waiting:
        kind = waiting.pop(0)
        found.append(kind)
        waiting = [*kind.nested_types, *waiting]
    return found


def _reader(kind: MessageType) -> ReadMessage:
    parse: Callable[[bytes], Message] = message_factory.GetMessageClass(kind).FromString
    convert = object_of(kind)
    return lambda packed: convert(parse(packed))
