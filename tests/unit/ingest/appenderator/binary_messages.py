"""Builds Avro and Protobuf messages and the schemas they are read by."""

from __future__ import annotations

import base64
import struct
from io import BytesIO
from typing import Any

import fastavro
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2, wrappers_pb2

TIME = "2023-11-14T22:13:20Z"
TIME_MS = 1_700_000_000_000


def avro(schema: dict[str, Any], record: dict[str, Any]) -> bytes:
    """One record without its schema."""
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), record)
    return out.getvalue()


def avro_file(schema: dict[str, Any], records: list[dict[str, Any]], codec: str = "null") -> bytes:
    """A container file."""
    out = BytesIO()
    fastavro.writer(out, fastavro.parse_schema(schema), records, codec=codec)
    return out.getvalue()


def framed(schema_id: int, body: bytes, first: int = 0) -> bytes:
    """A message that names its schema by id."""
    return struct.pack(">BI", first, schema_id) + body


def record_schema(*fields: tuple[str, Any], name: str = "Row") -> dict[str, Any]:
    """A record of these fields by name and type."""
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields]}


_FIELD = descriptor_pb2.FieldDescriptorProto


def metrics_file() -> descriptor_pb2.FileDescriptorProto:
    """``metrics.proto``: a message Metrics with one field of every sort, and a message Other after it."""
    file = descriptor_pb2.FileDescriptorProto(name="metrics.proto", package="shop", syntax="proto3")
    file.dependency.extend(["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"])
    kind = file.enum_type.add(name="Level")
    for number, name in enumerate(("LOW", "HIGH")):
        kind.value.add(name=name, number=number)
    metrics = file.message_type.add(name="Metrics")
    optional, repeated = _FIELD.LABEL_OPTIONAL, _FIELD.LABEL_REPEATED
    fields: list[tuple[str, Any, str, Any]] = [
        ("user_name", _FIELD.TYPE_STRING, "", optional),
        ("count", _FIELD.TYPE_INT64, "", optional),
        ("ratio", _FIELD.TYPE_DOUBLE, "", optional),
        ("tags", _FIELD.TYPE_STRING, "", repeated),
        ("level", _FIELD.TYPE_ENUM, ".shop.Level", optional),
        ("raw", _FIELD.TYPE_BYTES, "", optional),
        ("at", _FIELD.TYPE_MESSAGE, ".google.protobuf.Timestamp", optional),
        ("wrapped", _FIELD.TYPE_MESSAGE, ".google.protobuf.Int32Value", optional),
        ("inner", _FIELD.TYPE_MESSAGE, ".shop.Metrics", optional),
        ("labels", _FIELD.TYPE_MESSAGE, ".shop.Metrics.LabelsEntry", repeated),
    ]
    for number, (name, of, type_name, label) in enumerate(fields, 1):
        metrics.field.add(name=name, number=number, type=of, type_name=type_name or None, label=label)
    entry = metrics.nested_type.add(name="LabelsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=_FIELD.TYPE_STRING, label=optional)
    entry.field.add(name="value", number=2, type=_FIELD.TYPE_INT32, label=optional)
    nested = metrics.nested_type.add(name="Nested")
    nested.field.add(name="user_name", number=1, type=_FIELD.TYPE_STRING, label=optional)
    other = file.message_type.add(name="Other")
    other.field.add(name="user_name", number=1, type=_FIELD.TYPE_STRING, label=optional)
    return file


def descriptor_set() -> bytes:
    """What protoc writes for it, without the well-known files it imports."""
    return descriptor_pb2.FileDescriptorSet(file=[metrics_file()]).SerializeToString()


def compiled() -> str:
    """What a registry answers when it is asked for the compiled form."""
    return base64.b64encode(metrics_file().SerializeToString()).decode()


def message_class(name: str = "shop.Metrics") -> Any:
    """A class to build messages with."""
    pool = descriptor_pool.DescriptorPool()
    for module in (timestamp_pb2, wrappers_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    pool.Add(metrics_file())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
