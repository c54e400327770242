"""Answers queries before any route is looked for: what a router does around them costs more than a small answer."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from server.api.answers import Endpoint, error_answer


class Direct:
    """The middleware: posts to the paths of ``endpoints`` go to these, all else to the application, which has the same
    routes for its documents. Errors are answered as there."""

    def __init__(self, app: ASGIApp, endpoints: Mapping[str, Endpoint]) -> None:
        self._app = app
        self._endpoints = endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_post = scope["type"] == "http" and scope["method"] == "POST"
        endpoint = self._endpoints.get(scope["path"]) if is_post else None
        if endpoint is None:
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            response = await endpoint(request)
        except Exception as error:
            response = error_answer(request, error)
        await response(scope, receive, send)
