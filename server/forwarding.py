"""Sends a request that another process must answer to it: changes to the leader, queries to a query node.

Pure ASGI, before the application's routes. A request that was forwarded once is never forwarded
again, so two processes that each believe in the other do not play ball.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import orjson
import urllib3
from starlette.types import ASGIApp, Message, Receive, Scope, Send

FORWARDED = b"x-siltstone-forwarded"
HOP_HEADERS = {b"connection", b"host", b"content-length", b"transfer-encoding", b"keep-alive"}
READ_S = 310.0
Targets = Callable[[str], list[str] | None]
"""Addresses (``host:port``) that may answer a path, best first; None when this process answers it."""


class Forwarding:
    """The middleware; ``targets`` is asked in a thread, it may read the database."""

    def __init__(self, app: ASGIApp, targets: Targets) -> None:
        self._app = app
        self._targets = targets
        self._pool = urllib3.PoolManager(
            timeout=urllib3.Timeout(connect=2.0, read=READ_S), retries=False, maxsize=32, block=False
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or any(name == FORWARDED for name, _ in scope["headers"]):
            await self._app(scope, receive, send)
            return
        addresses = await asyncio.to_thread(self._targets, scope["path"])
        if addresses is None:
            await self._app(scope, receive, send)
            return
        body = await _whole_body(receive)
        for address in addresses:
            answer = await asyncio.to_thread(self._ask, address, scope, body)
            if answer is not None:
                await _relay(answer, send)
                return
        missing = f"no process that could answer {scope['path']} is up; tried {', '.join(addresses) or 'none'}"
        await _refuse(missing, send)

    def _ask(self, address: str, scope: Scope, body: bytes) -> urllib3.BaseHTTPResponse | None:
        """The other's answer with its body unread, None when it did not take the request."""
        query = scope["query_string"].decode("latin-1")
        path = scope.get("raw_path", scope["path"].encode()).decode("latin-1")
        headers = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in scope["headers"]
            if name.lower() not in HOP_HEADERS
        }
        try:
            return self._pool.request(
                scope["method"],
                f"http://{address}{path}" + (f"?{query}" if query else ""),
                body=body or None,
                headers={**headers, FORWARDED.decode(): "1"},
                preload_content=False,
                decode_content=False,
                redirect=False,
            )
        except (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError):
            return None
        except urllib3.exceptions.HTTPError:
            # The request may have been taken: asking somebody else could do it twice.
            return None if scope["method"] == "GET" else _broken(address)


def _broken(address: str) -> urllib3.BaseHTTPResponse:
    message = orjson.dumps({"error": f"the connection to {address} broke; whether it acted is unknown"})
    return urllib3.HTTPResponse(message, {"content-type": "application/json"}, 502, preload_content=False)


async def _whole_body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    while True:
        message: Message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


async def _relay(answer: urllib3.BaseHTTPResponse, send: Send) -> None:
    headers = [
        (name.encode("latin-1").lower(), value.encode("latin-1"))
        for name, value in answer.headers.items()
        if name.encode("latin-1").lower() not in HOP_HEADERS
    ]
    try:
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        while part := await asyncio.to_thread(answer.read, 65_536):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    finally:
        answer.release_conn()


async def _refuse(message: str, send: Send) -> None:
    body = orjson.dumps({"error": message})
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
