"""Reads and writes protocol buffers by tables of fields: messages are dictionaries, absent fields are not in them.

A table maps a field's number to its name and kind; a kind in a list is repeated. Only what Avatica uses is
here: no groups, no packed floats, no extensions. Unknown fields are skipped, as the format wants.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from segments.errors import ServiceError

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MASK = (1 << 64) - 1
_DOUBLE = struct.Struct("<d")


class Malformed(ServiceError):
    """The bytes are no message of the expected kind."""


class Scalar(Enum):
    """What one field holds. ``INT`` is two's complement (int32, int64), ``UINT`` also enums, ``SINT`` zigzag."""

    UINT = auto()
    INT = auto()
    SINT = auto()
    BOOL = auto()
    DOUBLE = auto()
    TEXT = auto()
    BYTES = auto()


@dataclass(frozen=True, slots=True)
class Repeated:
    """A field that may occur several times, each time with one ``kind``."""

    kind: Scalar | Table


@dataclass(frozen=True, slots=True)
class Table:
    """A kind of message. ``fields`` may be filled later, for messages that hold each other."""

    name: str
    fields: dict[int, tuple[str, Scalar | Table | Repeated]] = field(default_factory=dict)


def decode(table: Table, content: bytes) -> dict[str, Any]:
    """A message's fields by name; a repeated one is a list, of a single one the last occurrence counts.

    Raises:
        Malformed: the bytes are cut off or hold another kind of field.
    """
    found: dict[str, Any] = {}
    try:
        for number, wire, value in _fields(content):
            known = table.fields.get(number)
            if known is None:
                continue
            name, kind = known
            if not isinstance(kind, Repeated):
                found[name] = _decoded(kind, wire, value)
            elif wire == _BYTES and kind.kind in (Scalar.UINT, Scalar.INT, Scalar.SINT, Scalar.BOOL):
                at = 0
                while at < len(value):
                    one, at = _varint(value, at)
                    found.setdefault(name, []).append(_number(kind.kind, one))
            else:
                found.setdefault(name, []).append(_decoded(kind.kind, wire, value))
    except (IndexError, struct.error, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"{table.name}: the bytes are no protocol buffer of this kind ({error})") from error
    return found


def encode(table: Table, message: Mapping[str, Any]) -> bytes:
    """The bytes of a message; fields that are None or a default are left out, messages never."""
    parts: list[bytes] = []
    for number, (name, kind) in table.fields.items():
        value = message.get(name)
        if value is None:
            continue
        if isinstance(kind, Repeated):
            for one in value:
                parts += _encoded(number, kind.kind, one)
        elif (
            isinstance(kind, Table) or value not in (0, "", b"") or (isinstance(value, float) and str(value) == "-0.0")
        ):
            parts += _encoded(number, kind, value)
    return b"".join(parts)


def _fields(content: bytes) -> Iterator[tuple[int, int, Any]]:
    at = 0
    while at < len(content):
        tag, at = _varint(content, at)
        number, wire = tag >> 3, tag & 7
        value: Any
        if wire == _VARINT:
            value, at = _varint(content, at)
        elif wire == _BYTES:
            length, at = _varint(content, at)
            value, at = content[at : at + length], at + length
            if at > len(content):
                raise IndexError("cut off")
        elif wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
            value, at = content[at : at + size], at + size
            if at > len(content):
                raise IndexError("cut off")
        else:
            raise IndexError(f"wire type {wire}")
        yield number, wire, value


def _varint(content: bytes, at: int) -> tuple[int, int]:
    shift = value = 0
    while True:
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _MASK, at
        shift += 7
        if shift > 63:
            raise IndexError("a number is too long")


def _decoded(kind: Scalar | Table, wire: int, value: Any) -> Any:
    wanted = _VARINT if kind in (Scalar.UINT, Scalar.INT, Scalar.SINT, Scalar.BOOL) else _BYTES
    if wire != (_FIXED64 if kind is Scalar.DOUBLE else wanted):
        raise IndexError(f"a field has wire type {wire}")
    if isinstance(kind, Table):
        return decode(kind, value)
    if kind is Scalar.TEXT:
        return value.decode()
    if kind is Scalar.BYTES:
        return value
    return _DOUBLE.unpack(value)[0] if kind is Scalar.DOUBLE else _number(kind, value)


def _number(kind: Scalar | Table, value: int) -> int | bool:
    if kind is Scalar.BOOL:
        return bool(value)
    if kind is Scalar.SINT:
        return (value >> 1) ^ -(value & 1)
    return value - (1 << 64) if kind is Scalar.INT and value >> 63 else value


def _encoded(number: int, kind: Scalar | Table, value: Any) -> list[bytes]:
    if kind is Scalar.DOUBLE:
        return [_spelled(number << 3 | _FIXED64), _DOUBLE.pack(value)]
    if kind in (Scalar.UINT, Scalar.INT, Scalar.BOOL):
        return [_spelled(number << 3), _spelled(int(value) & _MASK)]
    if kind is Scalar.SINT:
        return [_spelled(number << 3), _spelled((value << 1 ^ value >> 63) & _MASK)]
    content = encode(kind, value) if isinstance(kind, Table) else value.encode() if kind is Scalar.TEXT else value
    return [_spelled(number << 3 | _BYTES), _spelled(len(content)), content]


def _spelled(value: int) -> bytes:
    if value < 0x80:
        return value.to_bytes(1, "little")
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)
