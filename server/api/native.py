"""Druid's native API: one JSON query in, its JSON answer out, cancelled by its id."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import structlog
from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

from query.errors import InvalidQuery
from query.session import Seen
from segments.errors import ServiceError
from server.api import openapi
from server.api.answers import BadRequest
from server.api.requests import flag, json_of
from server.api.seen import add_seen, seen_of
from server.api.sql import QUERIES_AT_ONCE, QUERY_ID, QueryService

log = structlog.get_logger()

PRETTY = ("pretty", openapi.FLAG, "indents the answer; also true without a value")


class NativeAnswer(Protocol):
    """A native query under way."""

    @property
    def seen(self) -> Mapping[str, Seen]:
        """What its reader has seen of tables."""
        ...

    def pieces(self) -> Iterator[bytes]:
        """The body, once, for one thread."""
        ...

    def close(self) -> None:
        """Ends it wherever it stands; may be called twice."""
        ...


class NativeService(Protocol):
    """A query node as the native API sees it; safe from any thread."""

    def execute_native(self, query_id: str, body: object, seen: Mapping[str, Seen] = ...) -> NativeAnswer:
        """Plans and starts a query, whose answer shows no less of tables than was ``seen`` of them elsewhere.
        Raises QueryError."""
        ...

    def cancel(self, query_id: str) -> bool:
        """Stops every query of that id; False when none runs."""
        ...


class QueryServices(QueryService, NativeService, Protocol):
    """A query node that answers SQL and native queries."""


def native_router(queries: NativeService) -> APIRouter:
    """``POST`` and ``DELETE`` under ``/druid/v2``."""
    router = APIRouter(prefix="/druid/v2", tags=["queries"])
    limiter = CapacityLimiter(QUERIES_AT_ONCE)

    async def run(request: Request) -> Response:
        """Answers one native query; with ``?pretty`` the answer is indented."""
        try:
            body = await json_of(request)
        except BadRequest as error:
            # A client reads Druid's whole error object.
            raise InvalidQuery(str(error)) from error
        pretty, seen = flag(request, "pretty"), seen_of(request)
        return await to_thread.run_sync(_answer, queries, body, pretty, seen, limiter=limiter)

    router.post("", openapi_extra=openapi.body(openapi.NATIVE) | openapi.parameters(PRETTY))(run)
    router.post("/", include_in_schema=False)(run)

    @router.delete("/{query_id}")
    def cancel(query_id: str) -> Response:
        """Stops the queries of one id: 202, also when none runs, as in Druid."""
        queries.cancel(query_id)
        return Response(status_code=202, media_type="application/json")

    return router


def query_id_of(body: Any) -> str:
    """The id in a query's context, else a new one.

    Raises:
        InvalidQuery: the body is no query.
    """
    context = body.get("context") if isinstance(body, dict) else None
    if not isinstance(body, dict) or not isinstance(context or {}, dict):
        raise InvalidQuery("the body must be a JSON object with a queryType, and a context that is an object")
    given = (context or {}).get("queryId")
    if given in (None, ""):
        return str(uuid.uuid4())
    if not QUERY_ID.fullmatch(str(given)):
        raise InvalidQuery("context queryId: up to 250 characters of visible ASCII are allowed, spaces inside")
    return str(given)


def _answer(queries: NativeService, body: Any, pretty: bool, seen: Mapping[str, Seen] | None) -> Response:
    query_id = query_id_of(body)
    answer = queries.execute_native(query_id, body, seen or {})
    pieces = _pieces(answer)
    # The first piece comes with the first rows, so that an error until then still has an error's status.
    first = next(pieces)
    headers = {"X-Druid-Query-Id": query_id, "X-Druid-Response-Context": "{}"}
    add_seen(headers, seen, answer.seen)
    if pretty:
        # Only people ask for this: the whole answer is held to be indented.
        whole = json.loads(first + b"".join(pieces))
        text = json.dumps(whole, indent=2, ensure_ascii=False)
        return Response(text, media_type="application/json", headers=headers)
    return StreamingResponse(_chained(first, pieces), media_type="application/json", headers=headers)


def _pieces(answer: NativeAnswer) -> Iterator[bytes]:
    try:
        yield from answer.pieces()
    finally:
        answer.close()


def _chained(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    try:
        yield from rest
    except ServiceError as error:
        # Rows are out already: a body that breaks off is the only way left to say that it is not whole.
        log.warning("answer broken off", error=str(error))
        raise
