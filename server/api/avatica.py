"""The routes of Avatica's protocol, by which JDBC drivers ask: one with JSON, one with protocol buffers."""

from __future__ import annotations

import json

import orjson
from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Request
from starlette.responses import Response

from query.errors import InvalidQuery
from server.api.requests import body_of
from server.avatica.protobuf import Malformed
from server.avatica.service import AvaticaService
from server.avatica.translation import bytes_of, request_of

CALLS_AT_ONCE = 200
PROTOBUF = "application/x-google-protobuf"


def avatica_router(service: AvaticaService) -> APIRouter:
    """``POST /druid/v2/sql/avatica`` and ``/druid/v2/sql/avatica-protobuf``, with and without a slash at the end."""
    router = APIRouter(prefix="/druid/v2/sql", tags=["JDBC"])
    limiter = CapacityLimiter(CALLS_AT_ONCE)

    async def by_json(request: Request) -> Response:
        """Answers one request of a JDBC driver in Avatica's JSON."""
        body = await body_of(request)
        return await to_thread.run_sync(_json, service, body, limiter=limiter)

    async def by_protobuf(request: Request) -> Response:
        """Answers one request of a JDBC driver in Avatica's protocol buffers."""
        body = await body_of(request)
        return await to_thread.run_sync(_protobuf, service, body, limiter=limiter)

    router.post("/avatica")(by_json)
    router.post("/avatica/", include_in_schema=False)(by_json)
    router.post("/avatica-protobuf")(by_protobuf)
    router.post("/avatica-protobuf/", include_in_schema=False)(by_protobuf)
    return router


def _json(service: AvaticaService, body: bytes) -> Response:
    try:
        status, answer = service.answer(orjson.loads(body))
    except orjson.JSONDecodeError as error:
        status, answer = 500, service.failure(InvalidQuery(f"the body is not JSON: {error}"))
    return Response(_encoded(answer), status, media_type="application/json")


def _encoded(answer: object) -> bytes:
    try:
        return orjson.dumps(answer)
    except TypeError:
        # Sums beyond 64 bits, which the quick encoder refuses.
        return json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode()


def _protobuf(service: AvaticaService, body: bytes) -> Response:
    try:
        status, answer = service.answer(request_of(body), is_json=False)
    except Malformed as error:
        status, answer = 500, service.failure(error)
    return Response(bytes_of(answer), status, media_type=PROTOBUF)
