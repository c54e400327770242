"""Druid's native API: one JSON query in, its JSON answer out, cancelled by its id."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from anyio import CapacityLimiter
from fastapi import APIRouter, Request
from starlette.responses import Response

from query.errors import InvalidQuery
from query.session import Seen
from server.api import openapi
from server.api.answers import BadRequest, Endpoint
from server.api.requests import body_of, flag, json_in
from server.api.seen import add_seen, seen_of
from server.api.sql import QUERIES_AT_ONCE, QUERY_ID, Asking, QueryService, question_of
from server.api.streaming import Body, Cancel
from server.api.together import Together

NATIVE_ID_HEADER = "X-Druid-Query-Id"
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

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come from the engine."""
        ...

    def cancel(self) -> None:
        """Ends it; who reads its pieces gets an error. From any thread."""
        ...

    def close(self) -> None:
        """Ends it wherever it stands; may be called twice."""
        ...


class NativeService(Protocol):
    """A query node as the native API sees it; safe from any thread."""

    def execute_native(
        self,
        query_id: str,
        body: object,
        seen: Mapping[str, Seen] = ...,
        begun: Callable[[Cancel], None] = ...,
        askers: int = ...,
    ) -> NativeAnswer:
        """Plans and starts a query, whose answer shows no less of tables than was ``seen`` of them elsewhere and goes
        to so many ``askers``; first tells ``begun`` what cancels it. Raises QueryError."""
        ...

    def cancel(self, query_id: str) -> bool:
        """Stops every query of that id; False when none runs."""
        ...


class QueryServices(QueryService, NativeService, Protocol):
    """A query node that answers SQL and native queries."""


def native_endpoint(queries: NativeService) -> Endpoint:
    """What answers native queries."""
    together = Together(CapacityLimiter(QUERIES_AT_ONCE))

    async def run(request: Request) -> Response:
        """Answers one native query; with ``?pretty`` the answer is indented."""
        try:
            body = await body_of(request)
        except BadRequest as error:
            raise InvalidQuery(str(error)) from error
        pretty, seen = flag(request, "pretty"), seen_of(request)

        def begin(begun: Callable[[Cancel], None], askers: int) -> Body:
            try:
                query = json_in(body)
            except BadRequest as error:
                # A client reads Druid's whole error object.
                raise InvalidQuery(str(error)) from error
            return _begin(queries, query, pretty, Asking(seen, begun, askers))

        return await together.answered(request, question_of(request, body, pretty), begin)

    return run


def native_router(queries: NativeService, run: Endpoint) -> APIRouter:
    """``POST`` (which ``run`` answers) and ``DELETE`` under ``/druid/v2``."""
    router = APIRouter(prefix="/druid/v2", tags=["queries"])
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


def _begin(queries: NativeService, query: Any, pretty: bool, asking: Asking) -> Body:
    query_id = query_id_of(query)
    answer = queries.execute_native(query_id, query, asking.seen or {}, asking.begun, asking.askers)
    pieces = _pieces(answer)
    if pretty:
        pieces = _indented(pieces)
    # The first piece comes with the first rows, so that an error until then still has an error's status.
    first = next(pieces)
    headers = {NATIVE_ID_HEADER: query_id, "X-Druid-Response-Context": "{}"}
    add_seen(headers, asking.seen, answer.seen)
    return Body(answer, first, pieces, "application/json", headers, NATIVE_ID_HEADER)


def _indented(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Only people ask for this: the whole answer is held to be indented."""
    yield json.dumps(json.loads(b"".join(pieces)), indent=2, ensure_ascii=False).encode()


def _pieces(answer: NativeAnswer) -> Iterator[bytes]:
    try:
        yield from answer.pieces()
    finally:
        answer.close()
