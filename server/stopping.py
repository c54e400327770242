"""How a process stops answering: what comes is refused by name, what is under way finishes within a bound or is ended.

For the event loop's thread. Nothing here ends by a bare 500: a client that is told why can ask elsewhere or again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import orjson
import structlog
from anyio import to_thread
from starlette.types import Message, Receive, Scope, Send

from query.errors import QueryError, QueryUnavailable
from segments.errors import ServiceError
from server.health import Health

log = structlog.get_logger()

REFUSAL = (
    "this server is stopping and takes no new requests; nothing was done. "
    "Ask another server, or this one again once it is back"
)
LOOK_S = 0.05
ENDED_S = 2.0
"""What is ended by name has so long to tell its client; the rest is cut off."""
QUERIES = "/druid/v2"
JDBC = "/druid/v2/sql/avatica"
HELD_OPEN = "/internal/"
"""Calls between processes: they go on to the last, and some are held open until there is news."""


class Stopping:
    """What is under way in this process, and whether more is taken. ``bound_s``: what it has left once it stops."""

    def __init__(self, bound_s: float, health: Health) -> None:
        self.bound_s = bound_s
        self.begun = False
        self._health = health
        self._under_way: dict[int, str] = {}
        self._count = 0

    def takes(self, scope: Scope) -> bool:
        """Whether a request may still be answered. Status, metrics, cancelling, calls of our own processes and JDBC
        (which refuses by itself, so that results that are half read can be read out) always are."""
        path: str = scope["path"]
        if not self.begun or path.startswith((HELD_OPEN, "/status", "/metrics", JDBC)):
            return True
        return path.startswith(QUERIES) and scope["method"] == "DELETE"

    @contextmanager
    def counted(self, scope: Scope) -> Iterator[None]:
        """Encloses the answer to a request."""
        if scope["path"].startswith(HELD_OPEN):
            yield
            return
        self._count += 1
        number = self._count
        self._under_way[number] = f"{scope['method']} {scope['path']}"
        try:
            yield
        finally:
            del self._under_way[number]

    async def finish(
        self, open_results: Callable[[], int], end: Callable[[QueryError], list[str]], is_forced: Callable[[], bool]
    ) -> None:
        """Returns when nothing is under way any more: by itself within the bound, else ended by name.

        ``open_results`` tells how many results are half read between two requests; ``end`` ends every query, whose
        reader is told the reason, and returns their ids (called in a thread); ``is_forced`` ends the waiting.
        """
        self.begun = True
        self._health.report("stop", REFUSAL)
        if await self._is_over(self.bound_s, lambda: is_forced() or not (self._under_way or open_results())):
            return
        reason = QueryUnavailable(
            f"the server is stopping, and the query did not end in the {self.bound_s:g} s that were left to it "
            "(http.stop_s); ask another server, or this one again once it is back"
        )
        # Before they are ended: then they are gone.
        requests = sorted(self._under_way.values())
        ended = await to_thread.run_sync(end, reason)
        log.warning("ended by the stop", queries=ended, requests=requests, after_s=self.bound_s, setting="http.stop_s")
        await self._is_over(ENDED_S, lambda: is_forced() or not self._under_way)

    async def _is_over(self, seconds: float, done: Callable[[], bool]) -> bool:
        deadline = time.monotonic() + seconds
        while not done():
            if time.monotonic() >= deadline:
                return False
            await asyncio.sleep(LOOK_S)
        return True


class Answer:
    """One answer on its way through ``send``: whether it has begun, and how it ends where the application cannot."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self.has_begun = False
        self._scope = scope
        self._send = send

    async def send(self, message: Message) -> None:
        """As the server's own."""
        self.has_begun = self.has_begun or message["type"] == "http.response.start"
        await self._send(message)

    async def refuse(self, message: str = REFUSAL) -> None:
        """Answers 503 in the form that this path's clients read, and that the connection ends."""
        await refuse(self._send, self._scope["path"], message)


async def refuse(send: Send, path: str, message: str) -> None:
    """503: Druid's whole error object to who queries, its short one to others."""
    body: dict[str, Any] = QueryUnavailable(message).body() if path.startswith(QUERIES) else {"error": message}
    content = orjson.dumps(body)
    headers = [(b"content-type", b"application/json"), (b"retry-after", b"1"), (b"connection", b"close")]
    headers.append((b"content-length", str(len(content)).encode()))
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": content})


async def answered(app: Any, scope: Scope, receive: Receive, send: Send, stopping: Stopping) -> None:
    """Lets the application answer. Where it is cut off before it began, the client is told so; after that a body that
    breaks off is the only way left, and one line says which."""
    answer = Answer(scope, send)
    try:
        await app(scope, receive, answer.send)
    except asyncio.CancelledError:
        if not stopping.begun:
            raise
        log.warning("request cut off by the stop", path=scope["path"], answer_had_begun=answer.has_begun)
        if not answer.has_begun:
            await answer.refuse("the server stopped before it could answer; whether a change was made is unknown")
    except Exception as error:
        if not (answer.has_begun and is_told(error)):
            raise


def is_told(error: Exception) -> bool:
    """Whether it is an operating error, of which its own place has told: no fault of the program's."""
    return isinstance(error, ServiceError) or isinstance(error.__cause__, ServiceError)
