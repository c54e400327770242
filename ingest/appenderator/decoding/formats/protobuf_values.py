"""Turns parsed Protobuf messages into objects as Druid does: JSON names, enums by name, well-known types unwrapped."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor as MessageType
from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.message import DecodeError

Convert = Callable[[Any], Any]
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_WRAPPERS: Final = tuple(
    f"google.protobuf.{kind}Value"
    for kind in ("Bool", "Int32", "UInt32", "Int64", "UInt64", "String", "Bytes", "Float", "Double")
)


class UnreadableValue(ValueError):
    """A message was parsed and holds a value without meaning, such as a time beyond the year 9999."""


def object_of(kind: MessageType) -> Callable[[Any], dict[str, Any]]:
    """Converts messages of this type; fields that are not set are left out."""
    return _Converters().message(kind)


class _Converters:
    """The converters of one tree of types; a type that holds itself finds its own."""

    def __init__(self) -> None:
        self._messages: dict[str, Callable[[Any], dict[str, Any]]] = {}

    def message(self, kind: MessageType) -> Callable[[Any], dict[str, Any]]:
        known = self._messages.get(kind.full_name)
        if known is not None:
            return known
        fields: dict[int, tuple[str, Convert | None]] = {}

        def convert(message: Any) -> dict[str, Any]:
            found: dict[str, Any] = {}
            for field, value in message.ListFields():
                name, inner = fields[field.number]
                found[name] = value if inner is None else inner(value)
            return found

        self._messages[kind.full_name] = convert
        for field in kind.fields:
            fields[field.number] = (field.json_name, self._field(field))
        return convert

    def _field(self, field: FieldDescriptor) -> Convert | None:
        inner = field.message_type
        if inner is not None and inner.GetOptions().map_entry:
            of_value = self._single(inner.fields_by_name["value"])
            key = self._key
            if of_value is None:
                return lambda value: {key(name): item for name, item in value.items()}
            return lambda value: {key(name): of_value(item) for name, item in value.items()}
        single = self._single(field)
        if field.is_repeated:
            return list if single is None else lambda value: [single(item) for item in value]
        return single

    @staticmethod
    def _key(name: Any) -> str:
        return ("true" if name else "false") if isinstance(name, bool) else str(name)

    def _single(self, field: FieldDescriptor) -> Convert | None:
        """None where the library's own value is Druid's too."""
        if field.message_type is not None:
            special = self._special(field.message_type)
            return special or self.message(field.message_type)
        if field.enum_type is not None:
            return _enum(field.enum_type)
        return _base64 if field.type == FieldDescriptor.TYPE_BYTES else None

    def _special(self, kind: MessageType) -> Convert | None:
        name = kind.full_name
        if name in _WRAPPERS:
            inner = self._single(kind.fields_by_name["value"])
            return (lambda m: m.value) if inner is None else lambda m: inner(m.value)
        return _SPECIAL.get(name)


def _enum(kind: EnumDescriptor) -> Convert:
    if kind.full_name == "google.protobuf.NullValue":
        return lambda number: None
    names = {value.number: value.name for value in kind.values}
    return lambda number: names.get(number, number)


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _fraction(nanos: int) -> str:
    if not nanos:
        return ""
    digits = f"{nanos:09d}"
    return "." + (digits[:3] if digits.endswith("000000") else digits[:6] if digits.endswith("000") else digits)


def _timestamp(message: Any) -> str:
    if not 0 <= message.nanos < 1_000_000_000:
        raise UnreadableValue(f"a Timestamp of {message.nanos} nanoseconds")
    try:
        whole = (_EPOCH + timedelta(seconds=message.seconds)).replace(tzinfo=None).isoformat()
    except OverflowError as error:
        raise UnreadableValue(f"a Timestamp of {message.seconds} seconds is outside of the years 1 to 9999") from error
    return f"{whole}{_fraction(message.nanos)}Z"


def _duration(message: Any) -> str:
    negative = message.seconds < 0 or message.nanos < 0
    if abs(message.nanos) >= 1_000_000_000 or message.seconds * message.nanos < 0:
        raise UnreadableValue(f"a Duration of {message.seconds} seconds and {message.nanos} nanoseconds")
    return f"{'-' if negative else ''}{abs(message.seconds)}{_fraction(abs(message.nanos))}s"


def _value(message: Any) -> Any:
    which = message.WhichOneof("kind")
    if which is None or which == "null_value":
        return None
    found = getattr(message, which)
    return _struct(found) if which == "struct_value" else _list(found) if which == "list_value" else found


def _struct(message: Any) -> dict[str, Any]:
    return {name: _value(item) for name, item in message.fields.items()}


def _list(message: Any) -> list[Any]:
    return [_value(item) for item in message.values]


def _any(message: Any) -> str:
    try:
        return json_format.MessageToJson(message)
    except (TypeError, ValueError, KeyError, DecodeError) as error:
        raise UnreadableValue(f"an Any of a type that is not described: {error}") from error


def _mask(message: Any) -> str:
    return ",".join(message.paths)


_SPECIAL: Final[dict[str, Convert]] = {
    "google.protobuf.Any": _any,
    "google.protobuf.Duration": _duration,
    "google.protobuf.FieldMask": _mask,
    "google.protobuf.ListValue": _list,
    "google.protobuf.Struct": _struct,
    "google.protobuf.Timestamp": _timestamp,
    "google.protobuf.Value": _value,
}
