"""JSON for the messages of ``ingest.protocol``: one generic codec, driven by the annotations."""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar, cast

import orjson

from ingest.errors import IngestError
from ingest.offsets import OffsetMap

T = TypeVar("T")


class WireError(IngestError):
    """A message from another process does not have the shape its type demands."""


def to_json(value: object) -> Any:
    """Plain JSON values (dict, list, str, int, ...) of a protocol dataclass, depth first."""
    if isinstance(value, OffsetMap):
        return value.to_json()
    if isinstance(value, enum.Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    return value


def dumps(value: object) -> bytes:
    """One JSON document."""
    return orjson.dumps(to_json(value))


def loads(kind: type[T], data: bytes | str) -> T:
    """Reads one document as ``kind``.

    Raises:
        WireError: not JSON, or a field is missing or of another type. Unknown fields are ignored,
            so that a newer process may add some.
    """
    try:
        return from_json(kind, orjson.loads(data))
    except orjson.JSONDecodeError as error:
        raise WireError(f"not a JSON message for {kind.__name__}: {error}") from error


def from_json(kind: type[T], value: Any) -> T:
    """Builds ``kind`` (any annotation used in ``ingest.protocol``) from plain JSON values."""
    try:
        return cast(T, _read(kind, value))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise WireError(f"malformed {getattr(kind, '__name__', kind)}: {error!r}") from error


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _read(kind: Any, value: Any) -> Any:
    origin = typing.get_origin(kind)
    if origin is not None:
        return _read_generic(kind, origin, value)
    if kind is Any:
        return value
    if kind is OffsetMap:
        return OffsetMap.from_json(value)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(value)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        hints = _hints(kind)
        present = {f.name: _read(hints[f.name], value[f.name]) for f in dataclasses.fields(kind) if f.name in value}
        return kind(**present)
    if kind is type(None) and value is None:
        return None
    if kind is float and isinstance(value, int):
        return float(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TypeError(f"expected {kind.__name__}, found {type(value).__name__}")
    return value


def _read_generic(kind: Any, origin: Any, value: Any) -> Any:
    args = typing.get_args(kind)
    if origin is typing.Union or origin is types.UnionType:
        if value is None and type(None) in args:
            return None
        failures: list[Exception] = []
        for arm in args:
            try:
                return _read(arm, value)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                failures.append(error)
        raise TypeError(str(failures[-1]))
    if origin is tuple:
        if args[-1] is Ellipsis:
            return tuple(_read(args[0], item) for item in value)
        return tuple(_read(arm, item) for arm, item in zip(args, value, strict=True))
    if origin is list:
        return [_read(args[0], item) for item in value]
    if origin in (dict, Mapping):
        key = int if args[0] is int else str
        return {key(name): _read(args[1], item) for name, item in value.items()}
    raise TypeError(f"no JSON form for {kind}")
