"""An answer is sent as it is made, compressed if asked for, and its query ends when its client goes away."""

from __future__ import annotations

import asyncio
import gzip
import threading
from collections.abc import Iterator, MutableMapping
from itertools import cycle
from typing import Any

import pytest
from anyio import CapacityLimiter
from starlette.requests import Request

from query.errors import QueryCancelled
from server.api.streaming import Body, one_query

Message = MutableMapping[str, Any]


class Query:
    """A query whose pieces come as ``pieces`` has them; None waits until somebody cancels."""

    def __init__(self, *pieces: bytes | None) -> None:
        self.is_over = False
        self.is_closed = False
        self.cancelled = threading.Event()
        self._pieces = pieces

    def cancel(self) -> None:
        self.cancelled.set()

    def pieces(self) -> Iterator[bytes]:
        try:
            for piece in self._pieces:
                if piece is None:
                    assert self.cancelled.wait(10)
                    raise QueryCancelled("nobody wants it")
                yield piece
        finally:
            self.is_closed = True

    def body(self) -> Body:
        rest = self.pieces()
        return Body(self, next(rest), rest, "text/plain", {"X-Mine": "1"})


class Client:
    """The other end: takes messages, and leaves once it holds ``leaves_after`` of them."""

    def __init__(self, leaves_after: int = 1_000, **headers: str) -> None:
        self.taken: list[Message] = []
        self._leaves_after = leaves_after
        self._headers = headers
        self._changed = asyncio.Event()

    def request(self) -> Request:
        headers = [(name.replace("_", "-").encode(), value.encode()) for name, value in self._headers.items()]
        return Request({"type": "http", "method": "POST", "path": "/", "headers": headers}, self.receive)

    async def receive(self) -> Message:
        while len(self.taken) < self._leaves_after:
            self._changed.clear()
            await self._changed.wait()
        return {"type": "http.disconnect"}

    def leave(self) -> None:
        self._leaves_after = 0
        self._changed.set()

    async def send(self, message: Message) -> None:
        self.taken.append(message)
        self._changed.set()

    @property
    def text(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.taken)


def ask(query: Query, client_of: Any = Client) -> Client:
    async def whole() -> Client:
        client: Client = client_of()
        request = client.request()

        def begin(begun: Any, askers: int) -> Body:
            begun(query.cancel)
            return query.body()

        response = await one_query(request, begin, CapacityLimiter(2))
        await response(request.scope, client.receive, client.send)
        return client

    return asyncio.run(asyncio.wait_for(whole(), 20))


def test_pieces_go_out_one_by_one_and_end_whole() -> None:
    query = Query(b"one", b"two", b"three")
    client = ask(query)
    assert [message.get("body") for message in client.taken[1:]] == [b"one", b"two", b"three", b""]
    assert client.taken[-1]["more_body"] is False and query.is_closed
    assert (b"content-length", b"0") not in client.taken[0]["headers"]


def test_an_answer_that_is_there_as_a_whole_has_a_length() -> None:
    query = Query(b"all of it")
    query.is_over = True
    client = ask(query)
    assert (b"content-length", b"9") in client.taken[0]["headers"] and client.text == b"all of it" and query.is_closed


@pytest.mark.parametrize("is_over", [False, True])
def test_gzip_is_for_who_asks_and_does_not_hold_the_first_rows_back(is_over: bool) -> None:
    query = Query(b"a" * 1000, b"b" * 1000)
    query.is_over = is_over
    client = ask(query, lambda: Client(accept_encoding="br;q=1, gzip"))
    assert (b"content-encoding", b"gzip") in client.taken[0]["headers"]
    assert gzip.decompress(client.text) == b"a" * 1000 + b"b" * 1000
    if not is_over:
        assert len(client.taken[1]["body"]) > 20
    for refused in ("gzip;q=0", "identity", ""):
        assert ask(Query(b"x"), lambda refused=refused: Client(accept_encoding=refused)).text == b"x"


def test_a_client_that_leaves_before_the_first_row_cancels_its_query() -> None:
    query = Query(None)
    with pytest.raises(QueryCancelled):
        ask(query, lambda: Client(leaves_after=0))
    assert query.cancelled.is_set() and query.is_closed


def test_a_client_that_leaves_between_two_pieces_cancels_its_query() -> None:
    query = Query(b"one", None)
    ask(query, lambda: Client(leaves_after=2))
    assert query.cancelled.is_set() and query.is_closed


def test_an_answer_without_end_ends_when_its_client_leaves_though_the_engine_is_done() -> None:
    query = Query(*[b"x" * 2**20] * 6)
    query.is_over = True
    assert len(ask(query).taken) == 4, "what is much goes out in pieces"
    endless = Query()
    endless.is_over = True
    rows = cycle([b"x" * 2**20])

    def pieces() -> Iterator[bytes]:
        try:
            yield from rows
        finally:
            endless.is_closed = True

    endless.pieces = pieces  # type: ignore[method-assign]  # of this one query
    client = ask(endless, lambda: Client(leaves_after=3))
    assert endless.cancelled.is_set() and endless.is_closed and len(client.taken) < 50


def test_a_query_that_can_be_cancelled_only_later_is_cancelled_then() -> None:
    query = Query(None)
    gone = threading.Event()

    async def whole() -> None:
        client = Client(leaves_after=0)
        original = client.receive

        async def receive() -> Message:
            message = await original()
            gone.set()
            return message

        client.receive = receive  # type: ignore[method-assign]

        def begin(begun: Any, askers: int) -> Body:
            assert gone.wait(10)
            begun(query.cancel)
            return query.body()

        await one_query(client.request(), begin, CapacityLimiter(2))

    with pytest.raises(QueryCancelled):
        asyncio.run(asyncio.wait_for(whole(), 20))
    assert query.is_closed
