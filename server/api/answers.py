"""Answers of the API in Druid's forms: one table from exception class to status and JSON body."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from ingest.errors import LeadershipLost, SpecError, StoreUnreachable, StreamError
from ingest.metadata.store import StoreConflict
from ingest.overlord.backfilling import CannotBackfill
from ingest.overlord.changing import WrongState
from ingest.overlord.refusals import NotLeading, UnknownPartition, UnknownSupervisor
from query.errors import QueryError
from query.lookups.spec import InvalidLookup
from segments.errors import InvalidValue, ServiceError

log = structlog.get_logger()

STATUSES: tuple[tuple[type[ServiceError], int], ...] = (
    (SpecError, 400),
    (UnknownSupervisor, 404),
    (UnknownPartition, 400),
    (WrongState, 400),
    (CannotBackfill, 400),
    (NotLeading, 503),
    (LeadershipLost, 503),
    (StoreConflict, 400),
    (StoreUnreachable, 503),
    (StreamError, 503),
    (InvalidValue, 400),
    (InvalidLookup, 400),
)


class JsonResponse(Response):
    """A body encoded by orjson."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return orjson.dumps(content)


class BadRequest(ServiceError):
    """A request whose form is wrong; the message names what and the cure."""


class NotFound(ServiceError):
    """The thing in the path does not exist."""


Endpoint = Callable[[Request], Awaitable[Response]]
"""What answers a request; it may raise."""


def install_error_answers(app: FastAPI) -> None:
    """Registers the handlers; every error body is JSON with an ``error`` text."""

    async def answer(request: Request, error: Exception) -> Response:
        return error_answer(request, error)

    for kind in (ServiceError, HTTPException, RequestValidationError, Exception):
        app.add_exception_handler(kind, answer)


def error_answer(request: Request, error: Exception) -> Response:
    """The answer to a request that raised."""
    match error:
        case QueryError():
            return JsonResponse(error.body(), error.status)
        case ServiceError():
            return JsonResponse(error_body(error), status_of(error))
        case HTTPException():
            return JsonResponse({"error": str(error.detail)}, error.status_code)
        case RequestValidationError():
            faults = [f"{'.'.join(str(part) for part in item['loc'])}: {item['msg']}" for item in error.errors()]
            return JsonResponse({"error": "; ".join(faults)}, 400)
    if isinstance(error.__cause__, ServiceError):
        # An answer that had begun and broke off: its own place has told of it.
        return JsonResponse(error_body(error.__cause__), status_of(error.__cause__))
    log.error("request broke", path=request.url.path, error=repr(error), exc_info=error)
    return JsonResponse({"error": f"internal error: {type(error).__name__}; the log has the details"}, 500)


def status_of(error: ServiceError) -> int:
    """The HTTP status of an operating error."""
    if isinstance(error, BadRequest):
        return 400
    if isinstance(error, NotFound):
        return 404
    return next((status for kind, status in STATUSES if isinstance(error, kind)), 500)


def error_body(error: ServiceError) -> dict[str, Any]:
    """Druid's ``{"error": …}``; a spec's problems are also listed one by one."""
    body: dict[str, Any] = {"error": str(error)}
    if isinstance(error, SpecError):
        body["problems"] = [str(problem) for problem in error.problems]
        if error.warnings:
            body["warnings"] = list(error.warnings)
        body["details"] = [
            {"path": p.path, "value": _shown(p.value), "rule": p.rule, "cure": p.cure} for p in error.problems
        ]
    return body


def _shown(value: object) -> object:
    """A value as JSON, cut where a huge one would drown the message."""
    try:
        encoded = orjson.dumps(value)
    except TypeError:
        return repr(value)[:200]
    return value if len(encoded) <= 500 else encoded[:500].decode(errors="replace") + "…"
