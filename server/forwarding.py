"""Sends a request that another process must answer to it: changes to the leader, queries to a query node.

Pure ASGI, before the application's routes; nothing blocks, so any number of requests may be under way. A
request that was forwarded once is never forwarded again, so two processes that each believe in the other do
not play ball. A query only reads: when a node dies, freezes or refuses it at once, the next one is asked.
A change is never sent twice: whether it was carried out is then unknown, and said so.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import orjson
import structlog
from anyio import CapacityLimiter, to_thread
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from segments.errors import ServiceError
from server.http_pool import DATABASE_HEADER, stranger

if TYPE_CHECKING:
    import httpx2

log = structlog.get_logger()

FORWARDED = b"x-siltstone-forwarded"
HOP_HEADERS = {b"connection", b"host", b"content-length", b"transfer-encoding", b"keep-alive"}
READ_S = 310.0
CONNECT_S = 2.0
LOOK_S = 1.0
"""How often it is looked whether a node that has not answered yet still lives."""
REFUSED_S = 5.0
"""A node that refuses within so long is one of several; who waits longer is told what it says."""
NOBODY_S = 5.0
AGAIN_S = 0.25
"""How long and how often it is looked who could answer a query, while nobody can."""
BODY_BYTES_MAX = 64 << 20
LOOKS_AT_ONCE = 8
AGAIN = (429, 503)
"""Too many queries there, or something is not to be had there."""

Headers = list[tuple[bytes, bytes]]


class BrokenOff(ServiceError):
    """The answering process went away in the middle of its answer; the client's is broken off as well."""


@dataclass(frozen=True, slots=True)
class Target:
    """Who may answer a request, best first (``host:port``).

    ``repeats``: once or twice is the same, so that who does not answer is passed over. ``to_all``: each is told.
    ``headers`` are asked before each try and go along, those in ``drop`` do not. ``begin`` and ``end`` enclose
    each try. ``answered`` is told who answered, with which headers, and returns those to put in their place; an
    empty one only takes away.
    """

    addresses: Sequence[str]
    repeats: bool = False
    to_all: bool = False
    headers: Callable[[], Headers] = list
    drop: frozenset[bytes] = frozenset()
    begin: Callable[[str], None] = lambda _: None
    end: Callable[[str], None] = lambda _: None
    answered: Callable[[str, Headers], Headers] = lambda *_: []


class Refused(ServiceError):
    """The request is at fault, before it is sent to anybody: status 400."""


class Targets:
    """Who else must answer what. The base class answers everything here."""

    def concerns(self, path: str) -> bool:
        """Whether ``find`` needs to be asked; quick, for the event loop."""
        return False

    def find(self, method: str, path: str, headers: Headers, body: bytes) -> Target | None:
        """None when this process answers it. Called in a thread: it may read the database. Raises Refused."""
        return None

    def is_alive(self, address: str) -> bool:
        """Whether a process that has not answered yet may still do so. Called in a thread."""
        return True


class _Unknown(Exception):
    """A change was sent, and no answer came."""


class _ClientGone(Exception):
    """Nobody waits for the answer any more."""


class Forwarding:
    """The middleware."""

    def __init__(self, app: ASGIApp, targets: Targets, read_s: float = READ_S, database: str = "") -> None:
        """``read_s``: how long another process may be silent before its answer or in the middle of it; longer than
        any query may take. ``database``: who answers for another one is not there."""
        self._app = app
        self._database = database
        self._targets = targets
        self.read_s = read_s
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx2.AsyncClient] = WeakKeyDictionary()
        self._looks: WeakKeyDictionary[asyncio.AbstractEventLoop, CapacityLimiter] = WeakKeyDictionary()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_ours = scope["type"] != "http" or any(name == FORWARDED for name, _ in scope["headers"])
        if is_ours or not self._targets.concerns(scope["path"]):
            await self._app(scope, receive, send)
            return
        try:
            body = await _whole_body(receive)
            found = await self._look(self._targets.find, scope["method"], scope["path"], scope["headers"], body)
        except Refused as error:
            await _refuse(send, 400, str(error))
            return
        except _ClientGone:
            return
        if found is None:
            await self._app(scope, _replayed(body, receive), send)
            return
        async with _watched(receive) as gone:
            try:
                await self._until_answered(found, _Call(scope, body, gone), send)
            except _Unknown as error:
                await _refuse(send, 502, str(error))
            except _ClientGone:
                log.debug("client went away", path=scope["path"])

    async def aclose(self) -> None:
        """Closes the running loop's connections, for a front that ends before its process does."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    async def _look(self, function: Callable[..., Any], *arguments: Any) -> Any:
        limiter = self._looks.setdefault(asyncio.get_running_loop(), CapacityLimiter(LOOKS_AT_ONCE))
        return await to_thread.run_sync(function, *arguments, limiter=limiter)

    async def _until_answered(self, target: Target, call: _Call, send: Send) -> None:
        """Looks again who is there while nobody is: one node may have gone before the next one is known."""
        begun = time.monotonic()
        while not await (self._tell_all if target.to_all else self._forward)(target, call, send):
            if not target.repeats or time.monotonic() - begun > NOBODY_S:
                tried = ", ".join(target.addresses) or "none"
                await _refuse(send, 503, f"no process that could answer {call.scope['path']} is up; tried {tried}")
                return
            await call.first_of(asyncio.ensure_future(asyncio.sleep(AGAIN_S)), None)
            scope = call.scope
            again = await self._look(self._targets.find, scope["method"], scope["path"], scope["headers"], call.body)
            target = again or target

    async def _forward(self, target: Target, call: _Call, send: Send) -> bool:
        """Whether somebody answered."""
        refusal: tuple[int, Headers, bytes] | None = None
        begun = time.monotonic()
        for number, address in enumerate(target.addresses):
            target.begin(address)
            try:
                answer = await self._ask(target, call, address)
                if answer is None:
                    continue
                try:
                    is_last = number == len(target.addresses) - 1 or time.monotonic() - begun > REFUSED_S
                    if target.repeats and answer.status_code in AGAIN and not is_last:
                        plain = frozenset({b"content-encoding"})
                        refusal = (answer.status_code, _kept(answer.headers.raw, plain), await answer.aread())
                        log.info("query refused, asked elsewhere", node=address, status=answer.status_code)
                        continue
                    headers = [(name.lower(), value) for name, value in answer.headers.raw]
                    await _relay(answer, target.answered(address, headers), call, send)
                    return True
                finally:
                    await answer.aclose()
            finally:
                target.end(address)
        if refusal is not None:
            await _send_whole(send, *refusal)
        return refusal is not None

    async def _tell_all(self, target: Target, call: _Call, send: Send) -> bool:
        """The best of all answers: one that accepted, else any. Whether there was one."""
        found = await asyncio.gather(*(self._ask(target, call, address) for address in target.addresses))
        answers = sorted((each for each in found if each is not None), key=lambda each: each.status_code)
        try:
            if answers:
                await _relay(answers[0], [], call, send)
            return bool(answers)
        finally:
            for answer in answers:
                await answer.aclose()

    async def _ask(self, target: Target, call: _Call, address: str) -> httpx2.Response | None:
        """The other's answer with its body unread, None when it did not take the request or cannot answer it."""
        import httpx2

        request = self._client().build_request(
            call.scope["method"],
            call.url(address),
            content=call.body or None,
            headers=[*_kept(call.scope["headers"], target.drop), *target.headers(), *self._marks()],
            timeout=httpx2.Timeout(self.read_s, connect=CONNECT_S),
        )
        sent = asyncio.ensure_future(self._client().send(request, stream=True))
        try:
            while not (await call.first_of(sent, LOOK_S)):
                if target.repeats and not await self._look(self._targets.is_alive, address):
                    log.warning("query taken away from a node that is gone", node=address)
                    return None
            return await self._ours(sent.result(), address)
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            return None
        except httpx2.HTTPError as error:
            if target.repeats or call.scope["method"] == "GET":
                log.warning("connection broke, asked elsewhere", node=address, error=repr(error))
                return None
            # It may have been taken: asking somebody else could do it twice.
            raise _Unknown(f"the connection to {address} broke; whether it acted is unknown") from error
        finally:
            sent.cancel()

    def _marks(self) -> Headers:
        named = [(DATABASE_HEADER.encode(), self._database.encode())] if self._database else []
        return [*named, (FORWARDED, b"1")]

    async def _ours(self, answer: httpx2.Response, address: str) -> httpx2.Response | None:
        """The answer, if a process of this installation gave it. Another's has done nothing here."""
        strange = stranger(self._database, answer.status_code, answer.headers.get(DATABASE_HEADER))
        if strange is None:
            return answer
        await answer.aclose()
        log.warning("asked elsewhere", node=address, error=strange)
        return None

    def _client(self) -> httpx2.AsyncClient:
        """One for the running event loop."""
        import httpx2

        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._clients[loop] = httpx2.AsyncClient(
                verify=False,  # no TLS between our processes; a certificate store takes long to read
                trust_env=False,
                timeout=httpx2.Timeout(READ_S, connect=CONNECT_S, pool=READ_S),
                limits=httpx2.Limits(max_connections=None, max_keepalive_connections=64),
            )
        return self._clients[loop]


@dataclass(frozen=True, slots=True)
class _Call:
    """One client's request. ``gone`` ends when the client does."""

    scope: Scope
    body: bytes
    gone: asyncio.Future[None]

    def url(self, address: str) -> str:
        path = self.scope.get("raw_path", self.scope["path"].encode()).decode("latin-1")
        query = self.scope["query_string"].decode("latin-1")
        return f"http://{address}{path}" + (f"?{query}" if query else "")

    async def first_of(self, work: asyncio.Future[Any], timeout_s: float | None) -> bool:
        """Whether the work is done. Raises _ClientGone, if it only reads: a change is seen to its end."""
        waited = {work, self.gone} if self.is_query else {work}
        await asyncio.wait(waited, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if not work.done() and self.is_query and self.gone.done():
            raise _ClientGone
        return work.done()

    @property
    def is_query(self) -> bool:
        return str(self.scope["path"]).startswith("/druid/v2")


@asynccontextmanager
async def _watched(receive: Receive) -> AsyncIterator[asyncio.Future[None]]:
    async def until_gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    gone = asyncio.ensure_future(until_gone())
    try:
        yield gone
    finally:
        gone.cancel()


def _replayed(body: bytes, receive: Receive) -> Receive:
    """A request whose body was read already."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return first.pop() if first else await receive()

    return replay


async def _whole_body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    held = 0
    while True:
        message: Message = await receive()
        if message["type"] == "http.disconnect":
            raise _ClientGone
        parts.append(message.get("body", b""))
        held += len(parts[-1])
        if held > BODY_BYTES_MAX:
            raise Refused(f"the body is larger than {BODY_BYTES_MAX} bytes")
        if not message.get("more_body", False):
            return b"".join(parts)


def _kept(headers: Sequence[tuple[bytes, bytes]], drop: frozenset[bytes] = frozenset()) -> Headers:
    return [(name, value) for name, value in headers if name.lower() not in HOP_HEADERS | drop]


async def _relay(answer: httpx2.Response, more: Headers, call: _Call, send: Send) -> None:
    added = {name.lower() for name, _ in more}
    headers = [(name.lower(), value) for name, value in _kept(answer.headers.raw) if name.lower() not in added]
    headers += [(name, value) for name, value in more if value]
    import httpx2

    async def body() -> None:
        await send({"type": "http.response.start", "status": answer.status_code, "headers": headers})
        async for part in answer.aiter_raw(65_536):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    relayed = asyncio.ensure_future(body())
    try:
        await call.first_of(relayed, None)
        relayed.result()
    except httpx2.HTTPError as error:
        # Rows are out already: a body that breaks off is the only way left to say that it is not whole.
        log.warning("answer broken off", path=call.scope["path"], error=repr(error))
        raise BrokenOff("the process that answered went away in the middle of its answer") from error
    finally:
        relayed.cancel()


async def _refuse(send: Send, status: int, message: str) -> None:
    await _send_whole(send, status, [(b"content-type", b"application/json")], orjson.dumps({"error": message}))


async def _send_whole(send: Callable[[Message], Awaitable[None]], status: int, headers: Headers, body: bytes) -> None:
    length = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *length]})
    await send({"type": "http.response.body", "body": body, "more_body": False})
