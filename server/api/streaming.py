"""Sends an answer as its query makes it, ends the query when the client goes away, and compresses on request.

A query that nobody waits for holds a worker that another could use: from the request's last byte on, a
connection that closes cancels its query, before the first row as well as between two pieces.
"""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Protocol

import anyio
import structlog
from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from segments.errors import ServiceError

log = structlog.get_logger()
Cancel = Callable[[], None]
GZIP_LEVEL = 4
"""Texts of rows shrink to a tenth; higher levels cost twice the time for a few hundredths."""


_WHOLE_BYTES = 4 << 20


class Cancellable(Protocol):
    """A query that is under way."""

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come from the engine."""
        ...

    def cancel(self) -> None:
        """Ends it; from any thread."""
        ...


@dataclass(frozen=True, slots=True)
class Body:
    """An answer that has begun: its query, its first piece, and the rest. Closing ``rest`` ends the query.
    ``id_header`` is the name of the header that holds the query's id."""

    query: Cancellable
    first: bytes
    rest: Iterator[bytes]
    media_type: str
    headers: Mapping[str, str]
    id_header: str = ""


@dataclass(slots=True)
class Answer:
    """A body, and all of it if the engine has said all and it is not much: an answer with a length costs no further
    hop. It may be much all the same, as buckets without rows are."""

    body: Body
    whole: bytes | None = None
    packed: bytes | None = None

    def gzipped(self, whole: bytes) -> bytes:
        """All of it for who takes gzip, made once."""
        if self.packed is None:
            self.packed = b"".join(_gzipped(iter([whole])))
        return self.packed


Begin = Callable[[Callable[[Cancel], None], int], Body]
"""Starts a query; it is given a function to call with what cancels the query, as soon as there is one, and how many
wait for its answer."""


async def one_query(request: Request, begin: Begin, at_once: CapacityLimiter) -> Response:
    """Runs ``begin`` in a thread and answers with its body; when the client goes away meanwhile the query is
    cancelled and ends by its own error."""
    ticket = Ticket()
    # A plain task: a group of two would cost a sixth of a small answer, and wrap the work's errors.
    watching = asyncio.get_running_loop().create_task(watch(request.receive, ticket.cancel))
    try:
        answer = await begun_in_thread(begin, ticket, 1, at_once)
    finally:
        watching.cancel()
    return response_to(request, answer)


async def begun_in_thread(begin: Begin, ticket: Ticket, askers: int, at_once: CapacityLimiter) -> Answer:
    """The begun answer of a query that ``ticket`` cancels, for so many ``askers``."""
    return await to_thread.run_sync(lambda: _begun(begin, ticket, askers), limiter=at_once)


def response_to(request: Request, answer: Answer, query_id: str = "") -> Response:
    """What sends an answer; one that is whole may be sent to many, to each under a ``query_id`` of its own."""
    body, whole = answer.body, answer.whole
    headers = dict(body.headers)
    if query_id:
        headers[body.id_header] = query_id
    is_gzip = _takes_gzip(request.headers.get("accept-encoding", ""))
    if whole is None:
        return _Stream(body, headers, is_gzip)
    if not is_gzip:
        return Response(whole, media_type=body.media_type, headers=headers)
    headers |= {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
    return Response(answer.gzipped(whole), media_type=body.media_type, headers=headers)


def _begun(begin: Begin, ticket: Ticket, askers: int) -> Answer:
    body = begin(ticket.hold, askers)
    if not body.query.is_over:
        return Answer(body)
    pieces, size = [body.first], len(body.first)
    for piece in body.rest:
        pieces.append(piece)
        size += len(piece)
        if size > _WHOLE_BYTES:
            return Answer(replace(body, first=b"".join(pieces)))
    return Answer(body, b"".join(pieces))


class Ticket:
    """Remembers what cancels a query, and that somebody wanted it before it could be."""

    def __init__(self) -> None:
        self._cancel: Cancel | None = None
        self._is_wanted = False

    def hold(self, cancel: Cancel) -> None:
        """There is a query now, which this ends."""
        self._cancel = cancel
        if self._is_wanted:
            cancel()

    def cancel(self) -> None:
        """Ends the query, at once or as soon as there is one."""
        self._is_wanted = True
        if self._cancel is not None:
            self._cancel()


async def watch(receive: Receive, gone: Callable[[], None]) -> None:
    """Calls ``gone`` when the client has gone away."""
    while True:
        message: Message = await receive()
        if message["type"] == "http.disconnect":
            gone()
            return


class _Stream(Response):
    """Sends pieces as they are made; one thread hop a piece, and no further than the client reads."""

    def __init__(self, body: Body, headers: Mapping[str, str], is_gzip: bool) -> None:
        super().__init__(media_type=body.media_type, headers=headers)
        del self.headers["content-length"]
        self._query = body.query
        self._is_gone = False
        self._rest = body.rest
        self._pieces: Iterator[bytes] = chain((body.first,), body.rest)
        if is_gzip:
            self.headers["Content-Encoding"] = "gzip"
            self.headers["Vary"] = "Accept-Encoding"
            self._pieces = _gzipped(self._pieces)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        broken: ServiceError | None = None
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._watch, receive, group.cancel_scope)
                try:
                    await self._send_all(send)
                except ServiceError as error:
                    broken = error
                group.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(self._close)
        if broken is not None and not self._is_gone:
            # Rows are out already: a body that breaks off is the only way left to say that it is not whole.
            log.warning("answer broken off", error=str(broken))
            raise broken

    async def _watch(self, receive: Receive, sending: anyio.CancelScope) -> None:
        """When the client goes away its query ends, and so does the sending: what the engine has said may make rows
        for hours."""
        await watch(receive, self._query.cancel)
        self._is_gone = True
        sending.cancel()

    async def _send_all(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        while (piece := await to_thread.run_sync(next, self._pieces, None)) is not None:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _close(self) -> None:
        with contextlib.suppress(ServiceError):
            closable = getattr(self._rest, "close", None)
            if closable is not None:
                closable()


def _gzipped(pieces: Iterator[bytes]) -> Iterator[bytes]:
    packer = zlib.compressobj(GZIP_LEVEL, wbits=31)
    is_first = True
    for piece in pieces:
        packed = packer.compress(piece)
        if is_first:
            # The first rows are not held back for the sake of a better ratio.
            packed += packer.flush(zlib.Z_SYNC_FLUSH)
            is_first = False
        if packed:
            yield packed
    yield packer.flush()


def _takes_gzip(accepted: str) -> bool:
    """Whether an Accept-Encoding names gzip without forbidding it."""
    for part in accepted.lower().split(","):
        name, _, rest = part.strip().partition(";")
        if name.strip() in ("gzip", "x-gzip"):
            return rest.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
