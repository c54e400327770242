"""Reads what requests carry: Druid's flags and JSON bodies."""

from __future__ import annotations

import zlib
from typing import Any

import orjson
from anyio import to_thread
from fastapi import Request
from starlette.requests import ClientDisconnect

from server.api.answers import BadRequest
from server.reading import LEVELS_MAX, is_shallow

BODY_BYTES_MAX = 64 * 2**20
_PACKED = ("gzip", "x-gzip", "deflate")


def flag(request: Request, name: str) -> bool:
    """Druid's flags are true when named without a value, too."""
    value = request.query_params.get(name)
    return value is not None and value.lower() not in ("false", "0")


def is_number(text: str) -> bool:
    """Whether it is a whole number of at most 18 ASCII digits."""
    return text.isascii() and text.isdigit() and len(text) <= 18


def number(request: Request, name: str, default: int, most: int, least: int = 1) -> int:
    """A query parameter, or its default; a BadRequest names the range."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if not is_number(text) or not least <= int(text) <= most:
        raise BadRequest(f"{name}: {text!r} is not a whole number from {least} to {most}")
    return int(text)


async def body_of(request: Request) -> bytes:
    """The whole body, unpacked, at most 64 MiB of it; more is refused before it is held.

    Raises:
        BadRequest: it is larger, in an encoding nobody reads, or cut short.
    """
    packed = await _sent(request)
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding in ("identity", ""):
        return packed
    if encoding not in _PACKED:
        raise BadRequest(f"Content-Encoding {encoding!r}: send {', '.join(_PACKED)}, or the body as it is")
    return await to_thread.run_sync(_unpacked, packed, encoding)


def _unpacked(packed: bytes, encoding: str) -> bytes:
    unpacker = zlib.decompressobj(wbits=32 + zlib.MAX_WBITS)
    try:
        body = unpacker.decompress(packed, BODY_BYTES_MAX + 1)
    except zlib.error as error:
        raise BadRequest(f"the body is not what its Content-Encoding {encoding} says: {error}") from error
    if len(body) > BODY_BYTES_MAX:
        raise BadRequest(f"the body is larger than {BODY_BYTES_MAX} bytes when it is unpacked")
    if not unpacker.eof or unpacker.unused_data:
        raise BadRequest(
            f"the body is not what its Content-Encoding {encoding} says: it is cut short, or goes on after its end"
        )
    return body


async def _sent(request: Request) -> bytes:
    parts: list[bytes] = []
    held = 0
    try:
        async for part in request.stream():
            held += len(part)
            if held > BODY_BYTES_MAX:
                raise BadRequest(f"the body is larger than {BODY_BYTES_MAX} bytes")
            parts.append(part)
    except ClientDisconnect as error:
        raise BadRequest("the client went away before its body was whole") from error
    return b"".join(parts)


async def json_of(request: Request) -> Any:
    """The body as JSON values."""
    return json_in(await body_of(request))


def json_in(body: bytes) -> Any:
    """A body's JSON values.

    Raises:
        BadRequest: it is not JSON, or too deep to be read.
    """
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"the body is not JSON: {error}") from error
    if not is_shallow(document):
        raise BadRequest(f"the body is nested too deeply: at most {LEVELS_MAX} levels are read")
    return document
