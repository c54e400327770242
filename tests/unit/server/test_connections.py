"""What clients that ask nothing cost: idle connections, heads of requests that never end or never come."""

from __future__ import annotations

import asyncio
import contextlib
import resource
from collections.abc import Awaitable, Callable

import pytest
import uvicorn
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from server.connections import HEAD_BYTES, BoundedProtocol, allow_open_files

ASK = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[], Awaitable[Streams]]


class Hasty(BoundedProtocol):
    most = 2
    head_s = 0.05
    body_s = 0.05


async def _here(scope: Scope, receive: Receive, send: Send) -> None:
    while (await receive()).get("more_body"):
        pass
    await Response("here")(scope, receive, send)


def served(scenario: Callable[[Connect], Awaitable[None]], protocol: type[BoundedProtocol]) -> None:
    async def run() -> None:
        config = uvicorn.Config(_here, port=0, log_level="critical", lifespan="off", http=protocol)
        state, opened = uvicorn.Server(config).server_state, list[asyncio.StreamWriter]()
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: protocol(config, state, {}), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]

        async def connect() -> Streams:
            streams = await asyncio.open_connection("127.0.0.1", port)
            opened.append(streams[1])
            return streams

        try:
            await asyncio.wait_for(scenario(connect), 20)
        finally:
            for writer in opened:
                writer.close()
                with contextlib.suppress(ConnectionError):
                    await writer.wait_closed()
            server.close()
            await server.wait_closed()

    asyncio.run(run())


async def answer(streams: Streams) -> bytes:
    streams[1].write(ASK)
    return await streams[0].readuntil(b"here")


def test_one_connection_too_many_is_told_so_and_the_others_are_served() -> None:
    async def scenario(connect: Connect) -> None:
        first, second = await connect(), await connect()
        assert b"200 OK" in await answer(first) and b"200 OK" in await answer(second)
        third = await connect()
        assert b"503 Service Unavailable" in (told := await third[0].read()) and b"2 connections" in told
        assert b"200 OK" in await answer(first)

    served(scenario, type("Patient", (Hasty,), {"head_s": 60.0}))


@pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\nA: b", ASK + b"GET /"], ids=["nothing", "half", "next"])
def test_a_head_that_does_not_come_closes_its_connection(begun: bytes) -> None:
    async def scenario(connect: Connect) -> None:
        reader, writer = await connect()
        writer.write(begun)
        assert (await reader.read()).count(b"200 OK") == begun.count(ASK)

    served(scenario, Hasty)


def test_a_body_that_does_not_come_closes_its_connection() -> None:
    async def scenario(connect: Connect) -> None:
        reader, writer = await connect()
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf")
        await reader.read()

    served(scenario, Hasty)


def test_a_body_that_comes_slowly_is_read() -> None:
    async def scenario(connect: Connect) -> None:
        streams = await connect()
        streams[1].write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
        for _ in range(9):
            await asyncio.sleep(0.03)
            streams[1].write(b"x")
        await streams[0].readuntil(b"here")

    served(scenario, type("Patient", (Hasty,), {"body_s": 0.2}))


def test_empty_lines_after_an_answer_do_not_hold_a_connection() -> None:
    async def scenario(connect: Connect) -> None:
        reader, writer = await connect()
        await answer((reader, writer))
        writer.write(b"\r\n")
        assert await reader.read() == b""

    served(scenario, Hasty)


def test_a_head_without_end_is_refused_and_a_body_may_be_larger() -> None:
    async def scenario(connect: Connect) -> None:
        reader, writer = await connect()
        writer.write(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (2 * HEAD_BYTES) + b"x" * 2 * HEAD_BYTES)
        assert b"200 OK" in await reader.readuntil(b"here")
        reader, writer = await connect()
        writer.write(b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * (HEAD_BYTES // 4))
        with contextlib.suppress(ConnectionError):
            assert b"431 " in await reader.read()

    served(scenario, BoundedProtocol)


def test_a_process_may_open_as_many_files_as_it_may_allow_itself() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        allowed = allow_open_files()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= allowed >= min(before[0], allowed)
        assert BoundedProtocol.of(200).most == 100 and BoundedProtocol.of(10**9).most == 10_000
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
