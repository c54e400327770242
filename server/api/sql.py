"""Druid's SQL API: one statement in, rows in one of six formats out, cancelled by its id."""

from __future__ import annotations

import re
import urllib.parse
import uuid
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
from anyio import CapacityLimiter
from fastapi import APIRouter, Request
from starlette.responses import Response

from query.errors import InvalidQuery
from query.model import PlannedQuery, ResultFormat, SqlParameter, SqlRequest
from query.results import CONTENT_TYPES, render
from query.session import Seen
from server.api import openapi
from server.api.answers import BadRequest, Endpoint, JsonResponse
from server.api.requests import body_of, json_in
from server.api.seen import SEEN_HEADER, add_seen, seen_of
from server.api.streaming import Body, Cancel
from server.api.together import Together
from server.config_secrets import masked

QUERY_ID = re.compile(r"[!-~](?:[ -~]{0,248}[!-~])?")
"""What goes back as a header: visible ASCII, spaces inside."""
STATEMENTS = {"text/plain": "the statement", "application/x-www-form-urlencoded": "the statement, URL-encoded, no name"}
SQL_ID_HEADER = "X-Druid-SQL-Query-Id"
QUESTION_BYTES_MAX = 65_536
"""Longer statements are written by programs, each its own; comparing them would only cost."""
_OWN = re.compile(rb"[qQ]ueryId")
"""Context keys with which a query has its own run, wherever they stand in the body. ``useCache`` is none: no round has
an answer from before."""
QUERIES_AT_ONCE = 200
"""Threads that wait for an answer; how many run at once the engine decides."""


class QueryAnswer(Protocol):
    """A statement under way, bound to one version of each table."""

    @property
    def planned(self) -> PlannedQuery: ...

    @property
    def seen(self) -> Mapping[str, Seen]:
        """What its reader has seen of tables."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come from the engine."""
        ...

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Once, for one thread."""
        ...

    def cancel(self) -> None:
        """Ends it; who reads its batches gets an error. From any thread."""
        ...

    def close(self) -> None:
        """Ends it wherever it stands; may be called twice."""
        ...


class QueryService(Protocol):
    """A query node as the API sees it; safe from any thread."""

    def execute(
        self,
        request: SqlRequest,
        seen: Mapping[str, Seen] = ...,
        begun: Callable[[Cancel], None] = ...,
        askers: int = ...,
    ) -> QueryAnswer:
        """Plans and starts a statement, whose answer shows no less of tables than was ``seen`` of them elsewhere and
        goes to so many ``askers``; first tells ``begun`` what cancels it. Raises QueryError."""
        ...

    def prepare(self, request: SqlRequest) -> PlannedQuery:
        """Plans a statement and runs nothing. Raises QueryError."""
        ...

    def queries(self) -> list[dict[str, object]]:
        """What runs or waits here now."""
        ...

    def cancel(self, query_id: str) -> bool:
        """Stops every statement of that id; False when none runs."""
        ...


@dataclass(frozen=True, slots=True)
class Asking:
    """Who asks: what their session saw, what is told how the query is cancelled, and how many they are."""

    seen: Mapping[str, Seen] | None
    begun: Callable[[Cancel], None]
    askers: int


def sql_endpoint(queries: QueryService) -> Endpoint:
    """What answers statements."""
    together = Together(CapacityLimiter(QUERIES_AT_ONCE))

    async def run(request: Request) -> Response:
        """Answers one SELECT. The body is Druid's JSON object, or the statement itself as text or as a form."""
        try:
            body = await body_of(request)
        except BadRequest as error:
            # A SQL client reads Druid's whole error object, also for what is no request at all.
            raise InvalidQuery(str(error)) from error
        kind, seen = _media_type(request), seen_of(request)

        def begin(begun: Callable[[Cancel], None], askers: int) -> Body:
            return _begin(queries, _request_in(body, kind), Asking(seen, begun, askers))

        return await together.answered(request, question_of(request, body, kind), begin)

    return run


def sql_router(queries: QueryService, run: Endpoint) -> APIRouter:
    """``POST`` (which ``run`` answers) and ``DELETE`` under ``/druid/v2/sql``."""
    router = APIRouter(prefix="/druid/v2/sql", tags=["queries"])
    router.post("", openapi_extra=openapi.body(openapi.SQL, STATEMENTS))(run)
    router.post("/", include_in_schema=False)(run)

    @router.get("/queries")
    def running() -> Response:
        """What runs or waits on this query node now, oldest first, secrets masked."""
        return JsonResponse({"queries": masked(queries.queries())})

    @router.delete("/{query_id}")
    def cancel(query_id: str) -> Response:
        """Stops the statements of one id: 202, or 404 when none runs."""
        return Response(status_code=202 if queries.cancel(query_id) else 404, media_type="application/json")

    return router


def question_of(request: Request, body: bytes, *form: Hashable) -> Hashable | None:
    """What a request has in common with all that get the very same answer; None when it must have its own: it has an
    id to be cancelled by."""
    if len(body) > QUESTION_BYTES_MAX or _OWN.search(body) is not None:
        return None
    return (body, request.headers.get(SEEN_HEADER), *form)


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()


def _request_in(body: bytes, kind: str) -> SqlRequest:
    """Raises InvalidQuery also for what is no request at all: a SQL client reads Druid's whole error object."""
    try:
        return _with_id(_posted(body, kind))
    except BadRequest as error:
        raise InvalidQuery(str(error)) from error


def _posted(body: bytes, kind: str) -> Any:
    if kind == "application/json":
        return json_in(body)
    text = body.decode("utf-8", errors="replace")
    if kind == "text/plain":
        return {"query": text}
    if kind == "application/x-www-form-urlencoded":
        return {"query": urllib.parse.unquote_plus(text)}
    raise BadRequest(f"Content-Type {kind!r}: send application/json, text/plain or application/x-www-form-urlencoded")


def _with_id(posted: Any) -> SqlRequest:
    request = parse_sql_request(posted)
    named = request.context.get("sqlQueryId")
    if not isinstance(named, str) or not named:
        request.context["sqlQueryId"] = str(uuid.uuid4())
    elif not QUERY_ID.fullmatch(named):
        # It goes back as a header, which carries nothing else.
        raise InvalidQuery("context sqlQueryId: must be text of up to 250 visible ASCII characters and blanks")
    return request


def parse_sql_request(posted: Any) -> SqlRequest:
    """Druid's body of a SQL query; keys nobody knows are ignored, as in Druid.

    Raises:
        InvalidQuery: a known key holds what it cannot.
    """
    if not isinstance(posted, dict):
        raise InvalidQuery("the body must be a JSON object with a query")
    query, context = posted.get("query"), posted.get("context") or {}
    if not isinstance(query, str) or not query.strip():
        raise InvalidQuery("query: a statement as text is needed")
    if not isinstance(context, dict):
        raise InvalidQuery("context: must be an object")
    spelled = posted.get("resultFormat") or ResultFormat.OBJECT.value
    found = [item for item in ResultFormat if isinstance(spelled, str) and item.value.lower() == spelled.lower()]
    if not found:
        known = ", ".join(item.value for item in ResultFormat)
        raise InvalidQuery(f"resultFormat: {spelled!r} is none of {known}")
    return SqlRequest(
        query=query,
        context=dict(context),
        parameters=tuple(_parameters(posted.get("parameters") or [])),
        result_format=found[0],
        header=_flag(posted, "header"),
        types_header=_flag(posted, "typesHeader"),
        sql_types_header=_flag(posted, "sqlTypesHeader"),
    )


def _parameters(posted: Any) -> Iterator[SqlParameter]:
    if not isinstance(posted, list):
        raise InvalidQuery("parameters: must be a list")
    for at, item in enumerate(posted):
        if not isinstance(item, dict) or not isinstance(item.get("type"), str) or "value" not in item:
            raise InvalidQuery(f"parameters[{at}]: an object with type and value is needed")
        yield SqlParameter(item["type"], item["value"])


def _flag(posted: dict[str, Any], name: str) -> bool:
    value = posted.get(name)
    if value is None or isinstance(value, bool):
        return bool(value)
    raise InvalidQuery(f"{name}: must be true or false (found {value!r})")


def _begin(queries: QueryService, request: SqlRequest, asking: Asking) -> Body:
    answer = queries.execute(request, asking.seen or {}, asking.begun, asking.askers)
    pieces = _pieces(answer, request)
    # The first piece comes with the first rows, so that an error until then still has an error's status.
    first = next(pieces)
    headers = {SQL_ID_HEADER: str(request.context["sqlQueryId"])}
    add_seen(headers, asking.seen, answer.seen)
    if request.header:
        headers["X-Druid-SQL-Header-Included"] = "yes"
    return Body(answer, first, pieces, CONTENT_TYPES[request.result_format], headers, SQL_ID_HEADER)


def _pieces(answer: QueryAnswer, request: SqlRequest) -> Iterator[bytes]:
    try:
        yield from render(answer.batches(), answer.planned, request)
    finally:
        answer.close()
