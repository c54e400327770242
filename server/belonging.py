"""Whose service this is: requests between processes name the metadata database they are meant for.

An address says little. Another service may listen there today, with the same secret and the same routes, and what it
does not know it refuses in good faith: a task would end, a changed spec would be stored elsewhere. So who asks names
its database, who is of another one does nothing, and an answer counts only if it names the same.
"""

from __future__ import annotations

from typing import Final

import orjson
import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.http_pool import DATABASE_HEADER

log = structlog.get_logger()

MISDIRECTED: Final = 421
TOLD_MAX: Final = 16
_HEADER: Final = DATABASE_HEADER.lower().encode()


class Belonging:
    """The middleware: refuses with 421, before anything else looks at it, what is meant for another database, and
    names this one in the answer to who named one. ``database`` is empty where the process knows none."""

    def __init__(self, app: ASGIApp, database: str) -> None:
        self._app = app
        self._own = database.encode()
        self._told: set[str] = set()

    def _tell(self, named: str, scope: Scope) -> None:
        """Once for each other database: whoever started this service may not know that the port was another's."""
        if named not in self._told and len(self._told) < TOLD_MAX:
            self._told.add(named)
            caller, *_ = scope.get("client") or ("unknown",)
            log.warning(
                "called by a process of another service; its tasks wait until theirs answers here",
                caller=caller,
                path=scope["path"],
                database=named[:100],
                own=self._own.decode(),
            )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        named = self._own and scope["type"] == "http" and dict(scope["headers"]).get(_HEADER)
        if not named:
            await self._app(scope, receive, send)
            return

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (_HEADER, self._own)]
            await send(message)

        if named == self._own:
            await self._app(scope, receive, marked)
            return
        self._tell(named.decode("latin-1"), scope)
        error = f"this service works on metadata database {self._own.decode()}, the request is for another one"
        body = orjson.dumps({"error": error})
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await marked({"type": "http.response.start", "status": MISDIRECTED, "headers": headers})
        await send({"type": "http.response.body", "body": body})
