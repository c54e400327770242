"""Equal questions are answered together, each from after it was asked, and none waits for one that does not end."""

from __future__ import annotations

import asyncio
import gzip
import threading
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from anyio import CapacityLimiter

from query.errors import InvalidQuery, QueryCancelled
from server.api.streaming import Body
from server.api.together import Together
from tests.unit.server.test_streaming import Client, Query

ID = "X-Id"


class Service:
    """Begins queries; the n-th answers ``n`` once ``go[n]`` is set, as a whole or (``streams``) as it is made."""

    def __init__(self, streams: bool = False, error: Exception | None = None) -> None:
        self.together = Together(CapacityLimiter(20))
        self.begun: list[Query] = []
        self.askers: list[int] = []
        self.go = [threading.Event() for _ in range(60)]
        self._streams = streams
        self._error = error

    def begin(self, held: Callable[[Callable[[], None]], None], askers: int) -> Body:
        number = len(self.begun)
        self.askers.append(askers)
        query = Query(str(number).encode())
        query.is_over = not self._streams
        self.begun.append(query)

        def cancel() -> None:
            query.cancel()
            self.go[number].set()

        held(cancel)
        assert self.go[number].wait(10)
        if query.cancelled.is_set():
            raise QueryCancelled("nobody wants it")
        if self._error is not None and number:
            raise self._error
        rest = query.pieces()
        return Body(query, next(rest), rest, "text/plain", {ID: f"of {number}"}, ID)

    async def ask(self, question: str | None = "q", client: Client | None = None) -> Client:
        client = client or Client()
        request = client.request()
        response = await self.together.answered(request, question, self.begin)
        await response(request.scope, client.receive, client.send)
        return client

    async def until_begun(self, count: int) -> None:
        while len(self.begun) < count:
            await asyncio.sleep(0.001)

    def asks(self, count: int, question: str | None = "q") -> list[asyncio.Task[Client]]:
        return [asyncio.ensure_future(self.ask(question)) for _ in range(count)]


def run(story: Callable[[Service], Awaitable[None]], service: Service | None = None) -> Service:
    service = service or Service()
    asyncio.run(asyncio.wait_for(story(service), 20))
    assert not service.together._places, "nothing is left of a question that is answered"
    return service


def test_who_comes_while_an_equal_question_is_answered_gets_the_next_answer_with_all_others() -> None:
    async def story(service: Service) -> None:
        [first] = service.asks(1)
        await service.until_begun(1)
        others = service.asks(50)
        await asyncio.sleep(0)
        service.go[0].set()
        await service.until_begun(2)
        late = service.asks(3)
        await asyncio.sleep(0)
        service.go[1].set()
        service.go[2].set()
        texts = [(await each).text for each in (first, *others, *late)]
        assert texts == [b"0"] + [b"1"] * 50 + [b"2"] * 3, "an answer is for those who came before it began"
        ids = {dict(each.result().taken[0]["headers"])[ID.lower().encode()] for each in others}
        assert len(ids) == 50, "each has an id of its own"

    assert run(story).askers == [1, 50, 3]


def test_other_questions_and_those_of_their_own_are_answered_alone() -> None:
    async def story(service: Service) -> None:
        for event in service.go:
            event.set()
        await asyncio.gather(*service.asks(4, None), *service.asks(1, "a"), *service.asks(1, "b"))

    assert len(run(story).begun) == 6


def test_nobody_waits_long_for_a_question_that_is_not_answered() -> None:
    async def story(service: Service) -> None:
        [first] = service.asks(1)
        await service.until_begun(1)
        second = service.asks(2)
        service.go[1].set()
        assert [(await each).text for each in second] == [b"1", b"1"]
        service.go[0].set()
        assert (await first).text == b"0"

    assert len(run(story).begun) == 2


@pytest.mark.parametrize("leaving", [1, 3])
def test_a_query_ends_when_all_who_wait_for_it_have_left(leaving: int) -> None:
    async def story(service: Service) -> None:
        [first] = service.asks(1)
        await service.until_begun(1)
        clients = [Client() for _ in range(3)]
        others = [asyncio.ensure_future(service.ask(client=client)) for client in clients]
        await service.until_begun(2)
        for client in clients[:leaving]:
            client.leave()
        await asyncio.sleep(0.001)
        if leaving < 3:
            service.go[1].set()
        told = await asyncio.gather(*others, return_exceptions=True)
        assert service.begun[1].cancelled.is_set() == (leaving == 3)
        if leaving < 3:
            assert clients[2].text == b"1"
        else:
            assert all(isinstance(each, QueryCancelled) for each in told)
        service.go[0].set()
        await first

    run(story)


def test_an_error_is_everybodys_and_the_next_question_is_asked_anew() -> None:
    async def story(service: Service) -> None:
        for event in service.go:
            event.set()
        told = await asyncio.gather(*service.asks(50), return_exceptions=True)
        assert isinstance(told[0], Client) and all(isinstance(each, InvalidQuery) for each in told[1:])
        error = told[1]
        assert isinstance(error, InvalidQuery) and len(traceback.extract_tb(error.__traceback__)) < 20, "of one asker"
        assert len(service.begun) == 2
        with pytest.raises(InvalidQuery):
            await service.ask()
        assert len(service.begun) == 3

    run(story, Service(error=InvalidQuery("no such column")))


def test_an_answer_that_is_read_as_it_is_made_goes_to_one_and_the_others_make_their_own() -> None:
    async def story(service: Service) -> None:
        for event in service.go:
            event.set()
        told = [await each for each in service.asks(4)]
        assert sorted(each.text for each in told) == [b"0", b"1", b"2", b"3"]
        # Each still runs, and is cancelled by the id that its reader was told.
        assert all(dict(each.taken[0]["headers"])[ID.lower().encode()] == b"of " + each.text for each in told)

    service = run(story, Service(streams=True))
    assert len(service.begun) == 4 and all(query.is_closed for query in service.begun)


def test_who_takes_gzip_gets_it_and_who_does_not_waits_with_them() -> None:
    async def story(service: Service) -> None:
        for event in service.go:
            event.set()
        [first] = service.asks(1)
        packing: Any = [service.ask(client=Client(accept_encoding="gzip")) for _ in range(2)]
        *packed, plain = await asyncio.gather(*packing, *service.asks(1))
        await first
        assert [gzip.decompress(each.text) for each in packed] == [b"1", b"1"] and plain.text == b"1"

    run(story)


def test_who_comes_after_all_others_have_left_is_answered() -> None:
    async def story(service: Service) -> None:
        [first] = service.asks(1)
        await service.until_begun(1)
        gone = [asyncio.ensure_future(service.ask(client=Client(leaves_after=0))) for _ in range(2)]
        for _ in range(5):
            await asyncio.sleep(0)
        stays = service.asks(1)
        service.go[0].set()
        service.go[1].set()
        assert (await stays[0]).text == b"1"
        await asyncio.gather(first, *gone, return_exceptions=True)

    assert run(story).askers == [1, 1]


def test_a_round_that_everybody_has_left_does_not_begin() -> None:
    async def story(service: Service) -> None:
        [first] = service.asks(1)
        await service.until_begun(1)
        told = await asyncio.gather(service.ask(client=Client(leaves_after=0)), return_exceptions=True)
        assert isinstance(told[0], QueryCancelled)
        service.go[0].set()
        await first

    assert run(story).askers == [1]
