"""Reads what requests carry: Druid's flags and JSON bodies."""

from __future__ import annotations

from typing import Any

import orjson
from fastapi import Request

from server.api.answers import BadRequest

BODY_BYTES_MAX = 64 * 2**20


def flag(request: Request, name: str) -> bool:
    """Druid's flags are true when named without a value, too."""
    value = request.query_params.get(name)
    return value is not None and value.lower() not in ("false", "0")


async def body_of(request: Request) -> bytes:
    """The whole body, at most 64 MiB of it; more is refused before it is held."""
    parts: list[bytes] = []
    held = 0
    async for part in request.stream():
        held += len(part)
        if held > BODY_BYTES_MAX:
            raise BadRequest(f"the body is larger than {BODY_BYTES_MAX} bytes")
        parts.append(part)
    return b"".join(parts)


async def json_of(request: Request) -> Any:
    """The body as JSON values."""
    try:
        return orjson.loads(await body_of(request))
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"the body is not JSON: {error}") from error
