"""Queries are answered past the router: the same answers, errors included, and all else goes on to the application."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from query.errors import InvalidQuery
from segments.errors import ServiceError
from server.api.answers import BadRequest
from server.direct import Direct


async def _routed(request: Request) -> Response:
    return PlainTextResponse("routed")


def _client(raised: Exception | None) -> TestClient:
    async def endpoint(request: Request) -> Response:
        if raised is not None:
            raised.__traceback__ = None
            raise raised
        return PlainTextResponse(await request.body())

    app = Starlette(routes=[Route(path, _routed, methods=["GET", "POST"]) for path in ("/sql", "/other")])
    return TestClient(Direct(app, {"/sql": endpoint}), raise_server_exceptions=False)


def test_posts_to_an_endpoint_pass_the_router_by() -> None:
    client = _client(None)
    assert client.post("/sql", content="SELECT 1").text == "SELECT 1"
    assert client.get("/sql").text == client.post("/other").text == "routed"


@pytest.mark.parametrize(
    ("raised", "status", "told"),
    [
        (InvalidQuery("no such column"), 400, "no such column"),
        (BadRequest("not JSON"), 400, "not JSON"),
        (ServiceError("broken"), 500, "broken"),
        (KeyError("x"), 500, "internal error: KeyError; the log has the details"),
    ],
)
def test_errors_are_answered_as_of_any_route(raised: Exception, status: int, told: str) -> None:
    answer = _client(raised).post("/sql")
    assert answer.status_code == status and told in answer.text and answer.headers["content-type"] == "application/json"
