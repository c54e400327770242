"""The rules of the binary input formats, avro_stream, avro_ocf and protobuf, and of the schema registries they name."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any, Final

from ingest.spec.edge_formats import (
    AvroEdge,
    AvroFileEdge,
    DescriptorFileEdge,
    DescriptorInlineEdge,
    FormatEdge,
    InlineSchemaEdge,
    InlineSchemasEdge,
    ProtobufEdge,
    RegistryEdge,
)
from ingest.spec.formats import (
    AvroFileFormat,
    AvroFormat,
    Descriptor,
    InlineSchema,
    InlineSchemas,
    ProtobufFormat,
    Registry,
)
from ingest.spec.model import InputFormat
from ingest.spec.notes import Notes, read_block
from ingest.spec.rules_format import needs, read_flatten

AVRO_EXTRA, PROTOBUF_EXTRA, REGISTRY_EXTRA = "avro", "protobuf", "registry"
_ID_MAX: Final = 2**32 - 1
_PATH_ONLY: Final = "flattening of Avro by {} is not supported, as in Druid"


def _avro(posted: dict[str, Any], path: str, notes: Notes) -> InputFormat | None:
    block = read_block(AvroEdge, posted, path, notes)
    needs("fastavro", AVRO_EXTRA, f"{path}.type", block.type, notes)
    where = f"{path}.avroBytesDecoder"
    # As in Druid a decoder without a type is a schema repository.
    kind = "schema_repo" if block.avro_bytes_decoder is None else block.avro_bytes_decoder.get("type", "schema_repo")
    decoder: InlineSchema | InlineSchemas | Registry | None = None
    if block.avro_bytes_decoder is None:
        cure = 'use {"type": "schema_registry", "url": "http://host:8081"} or {"type": "schema_inline", "schema": {}}'
        notes.problem(where, None, "is required", cure)
    elif kind == "schema_inline":
        inline = read_block(InlineSchemaEdge, block.avro_bytes_decoder, where, notes)
        text = _schema_text(inline.schema_, f"{where}.schema", notes)
        decoder = InlineSchema(text) if text is not None else None
    elif kind == "multiple_schemas_inline":
        decoder = _schemas(read_block(InlineSchemasEdge, block.avro_bytes_decoder, where, notes), where, notes)
    elif kind == "schema_registry":
        decoder = _registry(block.avro_bytes_decoder, where, notes)
    else:
        why = "this way to find schemas" if kind != "schema_repo" else "the AVRO-1124 schema repository"
        cure = "use schema_registry, schema_inline or multiple_schemas_inline"
        notes.refused(f"{where}.type", kind, why, cure)
    fields, discover = _flatten_of(block, path, notes)
    if decoder is None:
        return None
    return AvroFormat(decoder, block.binary_as_string, block.extract_unions_by_type, fields, discover)


def _avro_file(posted: dict[str, Any], path: str, notes: Notes) -> InputFormat | None:
    block = read_block(AvroFileEdge, posted, path, notes)
    needs("fastavro", AVRO_EXTRA, f"{path}.type", block.type, notes)
    text = None
    if block.schema_ is not None:
        text = _schema_text(block.schema_, f"{path}.schema", notes)
    fields, discover = _flatten_of(block, path, notes)
    return AvroFileFormat(text, block.binary_as_string, block.extract_unions_by_type, fields, discover)


def _flatten_of(block: AvroEdge | AvroFileEdge, path: str, notes: Notes) -> Any:
    where = f"{path}.flattenSpec"
    for at, field in enumerate(block.flatten_spec.fields if block.flatten_spec else ()):
        if field.type == "jq" or (field.type == "tree" and len(field.nodes or ()) > 1):
            notes.problem(f"{where}.fields[{at}].type", field.type, _PATH_ONLY.format(field.type), "use path")
    return read_flatten(block.flatten_spec, where, notes)


def _schema_text(schema: Any, path: str, notes: Notes) -> str | None:
    """The schema as JSON text, judged by the library where it is installed."""
    if not isinstance(schema, dict):
        notes.problem(path, schema, "is required", "give the Avro schema as a JSON object")
        return None
    if schema.get("type") != "record":
        notes.problem(f"{path}.type", schema.get("type"), "is no record", "a row is read from a record's fields")
        return None
    try:
        from fastavro import parse_schema

        parse_schema(json.loads(json.dumps(schema)))
    except ImportError:
        pass  # noted by `needs`
    except Exception as error:  # the library raises whatever its walk meets
        notes.problem(path, schema, f"is no Avro schema: {type(error).__name__} {error}", "correct the schema")
        return None
    return json.dumps(schema)


def _schemas(block: InlineSchemasEdge, path: str, notes: Notes) -> InlineSchemas | None:
    if not block.schemas:
        cure = 'list them by id, as {"1": {"type": "record", ...}}'
        notes.problem(f"{path}.schemas", block.schemas, "is required", cure)
        return None
    found: list[tuple[int, str]] = []
    for name, schema in block.schemas.items():
        where = f"{path}.schemas.{name}"
        if not name.isdecimal() or int(name) > _ID_MAX:
            notes.problem(where, name, "is no number of four bytes", "name each schema by its id")
            continue
        text = _schema_text(schema, where, notes)
        if text is not None:
            found.append((int(name), text))
    return InlineSchemas(tuple(found))


def _registry(posted: dict[str, Any], path: str, notes: Notes) -> Registry | None:
    block = read_block(RegistryEdge, posted, path, notes)
    needs("confluent_kafka.schema_registry", REGISTRY_EXTRA, f"{path}.type", block.type, notes)
    needs("authlib", REGISTRY_EXTRA, f"{path}.type", block.type, notes)
    urls = [block.url] if block.url else list(block.urls or [])
    if not urls:
        notes.problem(f"{path}.url", block.url, "is required", 'give "http://host:8081", or a list in urls')
    for at, url in enumerate(urls):
        if not url.startswith(("http://", "https://")):
            where = f"{path}.url" if block.url else f"{path}.urls[{at}]"
            notes.problem(where, url, "is no address of a registry", "write http://host:port or https://host:port")
    if block.capacity is not None and block.capacity < 1:
        notes.problem(f"{path}.capacity", block.capacity, "must be 1 or more", "correct the number")
    return Registry(tuple(urls), dict(block.config), dict(block.headers))


def _protobuf(posted: dict[str, Any], path: str, notes: Notes) -> InputFormat | None:
    block = read_block(ProtobufEdge, posted, path, notes)
    needs("google.protobuf", PROTOBUF_EXTRA, f"{path}.type", block.type, notes)
    where = f"{path}.protoBytesDecoder"
    fields, discover = read_flatten(block.flatten_spec, f"{path}.flattenSpec", notes)
    decoder: Descriptor | Registry | None = None
    kind = (block.proto_bytes_decoder or {}).get("type")
    if block.proto_bytes_decoder is None:
        cure = 'use {"type": "file", "descriptor": "/path/to/file.desc", "protoMessageType": "Name"}'
        notes.problem(where, None, "is required", cure)
    elif kind == "file":
        decoder = _descriptor_file(block.proto_bytes_decoder, where, notes)
    elif kind == "inline":
        decoder = _descriptor_inline(block.proto_bytes_decoder, where, notes)
    elif kind == "schema_registry":
        decoder = _registry(block.proto_bytes_decoder, where, notes)
    else:
        read_block(FormatEdge, {"type": kind}, where, notes)
        notes.refused(f"{where}.type", kind, "this way to find descriptors", "use file, inline or schema_registry")
    return None if decoder is None else ProtobufFormat(decoder, fields, discover)


def _descriptor_file(posted: dict[str, Any], path: str, notes: Notes) -> Descriptor | None:
    block = read_block(DescriptorFileEdge, posted, path, notes)
    where = (block.descriptor or "").removeprefix("file://")
    if "://" in where:
        cure = "put the file where the tasks run, or its base64 text into a decoder of type inline"
        notes.problem(f"{path}.descriptor", block.descriptor, "cannot be fetched over the network", cure)
        return None
    if not where:
        notes.problem(f"{path}.descriptor", block.descriptor, "is required", "name the file that protoc has written")
        return None
    return Descriptor(where, None, block.proto_message_type)


def _descriptor_inline(posted: dict[str, Any], path: str, notes: Notes) -> Descriptor | None:
    block = read_block(DescriptorInlineEdge, posted, path, notes)
    where = f"{path}.descriptorString"
    if not block.descriptor_string:
        notes.problem(where, block.descriptor_string, "is required", "give the descriptor file in base64")
        return None
    fault = _descriptor_fault(block.descriptor_string, block.proto_message_type)
    if fault is not None:
        cure = "give what protoc --include_imports --descriptor_set_out has written, in base64"
        notes.problem(where, block.descriptor_string, fault, cure)
        return None
    return Descriptor(None, block.descriptor_string, block.proto_message_type)


def _descriptor_fault(text: str, message: str | None) -> str | None:
    """Why no message can be read by it; not judged where the library is not installed, which is noted."""
    try:
        packed = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        return f"is not base64: {error}"
    try:
        from google.protobuf.descriptor_pb2 import FileDescriptorSet
        from google.protobuf.message import DecodeError
    except ImportError:
        return None
    try:
        files = FileDescriptorSet.FromString(packed).file
    except DecodeError as error:
        return f"is no set of descriptors: {error}"
    waiting = [(file.package, kind) for file in files for kind in file.message_type]
    names: set[str] = set()
    while waiting:
        space, kind = waiting.pop()
        full = f"{space}.{kind.name}" if space else kind.name
        names |= {kind.name, full}
        waiting += [(full, nested) for nested in kind.nested_type]
    if not names or (message is not None and message not in names):
        return f"has no message {message!r}" if names else "describes no message"
    return None


FORMATS: Final = {"avro_stream": _avro, "avro_ocf": _avro_file, "protobuf": _protobuf}
"""The rule of each format by its type."""
