"""Forwarded requests over loopback: to the next node when one is gone, never twice when they change something."""

from __future__ import annotations

import asyncio
import socketserver
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import urllib3
import uvicorn
from starlette.types import Receive, Scope, Send

from server import forwarding
from server.forwarding import Forwarding, Headers, Target, Targets

SQL = "/druid/v2/sql"
NAMED = "/druid/named"


class Listening:
    """An ASGI application behind a port of its own."""

    def __init__(self, app: object) -> None:
        config = uvicorn.Config(app, port=0, log_level="critical", lifespan="off", interface="asgi3")  # type: ignore[arg-type]
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        while not self._server.started:
            time.sleep(0.001)
        (server,) = self._server.servers
        self.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"

    def stop(self) -> None:
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(5)


class Node:
    """Another process. ``does``: answers, a status with which it refuses, freezes, or dies in the middle."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.does: str | int = "answers"
        self.database: bytes | None = None
        self.asked: list[tuple[str, str, bytes, dict[bytes, bytes]]] = []
        self.left = threading.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = (await receive()).get("body", b"")
        self.asked.append((scope["method"], scope["path"], body, dict(scope["headers"])))
        if self.does == "freezes":
            try:
                while (await receive())["type"] != "http.disconnect":
                    pass
            finally:
                self.left.set()
            return
        status = self.does if isinstance(self.does, int) else 200
        headers = [(b"x-node", self.name.encode()), (b"x-shown", self.name.encode())]
        headers += [] if self.database is None else [(b"x-siltstone-database", self.database)]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"rows of ", "more_body": True})
        if self.does == "dies":
            await asyncio.sleep(0.05)
            raise RuntimeError("the connection ends")
        await send({"type": "http.response.body", "body": self.name.encode()})


class Breaking(socketserver.ThreadingTCPServer):
    """A process that takes a request and ends the connection without an answer."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), socketserver.BaseRequestHandler)
        self.taken = 0
        self.address = f"127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def finish_request(self, request: Any, client_address: Any) -> None:
        request.recv(65_536)
        self.taken += 1

    def stop(self) -> None:
        self.shutdown()
        self.server_close()


class Two(Targets):
    """Everything below ``/druid`` is for two nodes."""

    def __init__(self) -> None:
        self.target = Target([])
        self.alive: set[str] = set()

    def concerns(self, path: str) -> bool:
        return path.startswith("/druid")

    def find(self, method: str, path: str, headers: Headers, body: bytes) -> Target | None:
        return None if path == "/druid/here" else self.target

    def is_alive(self, address: str) -> bool:
        return address in self.alive


async def here(scope: Scope, receive: Receive, send: Send) -> None:
    message = await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"here: " + message.get("body", b"")})


class World:
    def __init__(self) -> None:
        self.one, self.two = Node("one"), Node("two")
        self.breaking = Breaking()
        self._servers = [Listening(self.one), Listening(self.two)]
        self.addresses = [server.address for server in self._servers]
        self.targets = Two()
        self.forwarding = Forwarding(here, self.targets)
        self.named = Forwarding(here, self.targets, database="ours")
        self.front = Listening(self._front)
        self.http = urllib3.PoolManager(retries=False, timeout=20)
        self.reset()

    def reset(self) -> None:
        for node in (self.one, self.two):
            node.does, node.asked, node.database = "answers", [], None
            node.left.clear()
        self.targets.target = Target(self.addresses, repeats=True)
        self.targets.alive = {*self.addresses, self.breaking.address}
        self.breaking.taken = 0

    def ask(self, method: str = "POST", path: str = SQL, body: bytes = b"q") -> urllib3.BaseHTTPResponse:
        headers = {"X-Mine": "1", "X-Dropped": "1", "Connection": "keep-alive"}
        return self.http.request(method, f"http://{self.front.address}{path}", body=body, headers=headers)

    async def _front(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] != "/close":
            await (self.named if scope["path"] == NAMED else self.forwarding)(scope, receive, send)
            return
        await self.named.aclose()
        await self.forwarding.aclose()
        await here(scope, receive, send)

    def stop(self) -> None:
        self.ask(path="/close")
        self.http.clear()
        self.breaking.stop()
        for server in (self.front, *self._servers):
            server.stop()


@pytest.fixture(scope="module")
def one_world() -> Iterator[World]:
    found = World()
    yield found
    found.stop()


@pytest.fixture
def world(one_world: World) -> World:
    one_world.reset()
    return one_world


@pytest.mark.parametrize("repeats", [True, False])
@pytest.mark.parametrize(("database", "status"), [(b"theirs", 421), (b"theirs", 200), (None, 404), (None, 200)])
def test_who_answers_for_another_database_is_not_the_one_that_was_meant(
    world: World, repeats: bool, database: bytes | None, status: int
) -> None:
    world.one.database, world.one.does = database, status
    world.two.database = b"ours"
    world.targets.target = Target(world.addresses, repeats=repeats)
    answer = world.ask(path=NAMED)
    assert (answer.status, answer.headers["x-node"]) == (200, "two")
    [(*_, headers)] = world.one.asked
    assert headers[b"x-siltstone-database"] == b"ours", "so that who is of another does nothing"
    world.targets.target = Target(world.addresses[:1], repeats=False)
    assert world.ask(path=NAMED).status == 503


def test_a_request_and_its_answer_pass_through_whole(world: World) -> None:
    answer = world.ask(path=SQL + "/x%20y?a=b%2Fc", body=b"question")
    assert (answer.status, answer.data, answer.headers["x-node"]) == (200, b"rows of one", "one")
    [(method, path, body, headers)] = world.one.asked
    assert (method, path, body) == ("POST", SQL + "/x y", b"question")
    assert headers[b"x-mine"] == b"1" and headers[b"x-siltstone-forwarded"] == b"1"
    assert not world.two.asked


def test_what_is_answered_here_has_its_body(world: World) -> None:
    assert world.ask(path="/druid/here", body=b"q").data == b"here: q"
    assert world.ask(path="/status", body=b"q").data == b"here: q"


def test_a_request_that_was_forwarded_once_is_answered_here(world: World) -> None:
    url = f"http://{world.front.address}{SQL}"
    answer = world.http.request("POST", url, body=b"q", headers={"X-Siltstone-Forwarded": "1"})
    assert answer.data == b"here: q"


@pytest.mark.parametrize("status", [503, 429])
def test_a_query_that_is_refused_is_asked_elsewhere(world: World, status: int) -> None:
    world.one.does = status
    assert world.ask().data == b"rows of two"


def test_a_query_whose_node_dies_is_asked_elsewhere(world: World) -> None:
    world.targets.target = Target([world.breaking.address, world.addresses[1]], repeats=True)
    assert world.ask().data == b"rows of two" and world.breaking.taken


def test_a_node_that_listens_no_more_is_passed_over(world: World) -> None:
    gone = "127.0.0.1:9"
    world.targets.target = Target([gone, world.addresses[1]], repeats=True)
    assert world.ask().data == b"rows of two"


def test_a_query_waits_a_moment_for_somebody_to_be_there(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "AGAIN_S", 0.02)
    monkeypatch.setattr(forwarding, "NOBODY_S", 0.2)
    gone = "127.0.0.1:9"
    world.targets.target = Target([gone], repeats=True)
    answer = world.ask()
    assert answer.status == 503 and gone in answer.json()["error"]
    tried: list[str] = []

    def joins(address: str) -> None:
        tried.append(address)
        if len(tried) == 3:
            world.targets.target = Target(world.addresses, repeats=True)

    world.targets.target = Target([gone], repeats=True, begin=joins)
    assert world.ask().data == b"rows of one" and tried == [gone] * 3
    world.targets.target = Target([gone])
    assert world.ask(path="/druid/indexer/v1/supervisor").status == 503, "a change is refused at once"


def test_a_query_is_taken_away_from_a_node_that_is_frozen(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "LOOK_S", 0.02)
    world.one.does = "freezes"
    world.targets.alive.remove(world.addresses[0])
    assert world.ask().data == b"rows of two"
    assert world.one.left.wait(5), "the frozen node's connection stayed open"


def test_when_all_refuse_the_last_one_is_told(world: World) -> None:
    world.one.does, world.two.does = 503, 429
    answer = world.ask()
    assert (answer.status, answer.data) == (429, b"rows of two")
    world.targets.target = Target([world.addresses[0], world.breaking.address], repeats=True)
    answer = world.ask()
    assert (answer.status, answer.data, answer.headers["content-length"]) == (503, b"rows of one", "11")


def test_other_errors_are_the_querys_own(world: World) -> None:
    world.one.does = 400
    assert world.ask().status == 400 and not world.two.asked


def test_a_change_is_never_sent_twice(world: World) -> None:
    world.targets.target = Target([world.breaking.address, world.addresses[1]])
    answer = world.ask(path="/druid/indexer/v1/supervisor")
    assert answer.status == 502 and "whether it acted is unknown" in answer.json()["error"]
    assert world.breaking.taken == 1 and not world.two.asked
    assert world.ask(method="GET", path="/druid/indexer/v1/supervisor", body=b"").data == b"rows of two"


def test_an_answer_that_breaks_off_breaks_the_clients_off(world: World) -> None:
    world.one.does = "dies"
    with pytest.raises(urllib3.exceptions.HTTPError):
        world.ask()
    assert not world.two.asked, "rows were out already"


def test_a_living_node_is_waited_for_as_long_as_a_query_may_take_and_no_longer(world: World) -> None:
    world.one.does = "freezes"
    world.forwarding.read_s = 0.2
    try:
        assert world.ask().data == b"rows of two"
    finally:
        world.forwarding.read_s = forwarding.READ_S


def test_a_client_that_leaves_ends_the_query_at_the_node(world: World) -> None:
    world.one.does = "freezes"
    with pytest.raises(urllib3.exceptions.ReadTimeoutError):
        world.http.request("POST", f"http://{world.front.address}{SQL}", body=b"q", timeout=0.2)
    assert world.one.left.wait(5) and not world.two.asked


def test_a_cancellation_is_told_to_all_and_one_that_knew_the_query_speaks(world: World) -> None:
    world.targets.target = Target(["127.0.0.1:9", *world.addresses], to_all=True)
    world.one.does, world.two.does = 404, 202
    assert world.ask(method="DELETE", path=SQL + "/x", body=b"").status == 202
    assert world.one.asked and world.two.asked
    world.two.does = 404
    assert world.ask(method="DELETE", path=SQL + "/x", body=b"").status == 404


def test_a_cancellation_is_told_by_others_than_one_that_breaks_off_or_stands_still(world: World) -> None:
    world.one.does, world.two.does = "freezes", 202
    world.targets.alive = {world.addresses[1]}
    world.targets.target = Target([world.breaking.address, *world.addresses], repeats=True, to_all=True)
    assert world.ask(method="DELETE", path=SQL + "/x", body=b"").status == 202
    assert world.breaking.taken and world.one.asked


def test_targets_send_and_take_headers_and_know_what_runs_where(world: World) -> None:
    running: list[str] = []

    def answered(address: str, headers: Headers) -> Headers:
        running.append(f"answered {address} {dict(headers)[b'x-shown'].decode()}")
        return [(b"x-shown", b""), (b"x-added", b"yes")]

    world.one.does = 503
    world.targets.target = replace(
        world.targets.target,
        headers=lambda: [(b"x-sent", b"yes")],
        drop=frozenset({b"x-dropped"}),
        begin=lambda address: running.append(f"begin {address}"),
        end=lambda address: running.append(f"end {address}"),
        answered=answered,
    )
    answer = world.ask()
    assert answer.headers["x-added"] == "yes" and "x-shown" not in answer.headers
    headers = world.two.asked[0][3]
    assert headers[b"x-sent"] == b"yes" and b"x-dropped" not in headers
    one, two = world.addresses
    deadline = time.monotonic() + 10
    while running[-1] != f"end {two}" and time.monotonic() < deadline:
        time.sleep(0.001)  # it is told after the answer has gone out
    assert running == [f"begin {one}", f"end {one}", f"begin {two}", f"answered {two} two", f"end {two}"]


def test_fifty_queries_wait_side_by_side(world: World) -> None:
    started = threading.Barrier(51, timeout=20)
    release = threading.Event()
    seen: list[bytes] = []

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        while not release.is_set():
            await asyncio.sleep(0.005)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})

    node = Listening(slow)
    world.targets.target = Target([node.address], repeats=True)
    world.targets.alive = {node.address}

    def ask() -> None:
        started.wait()
        seen.append(world.ask().data)

    threads = [threading.Thread(target=ask) for _ in range(50)]
    for thread in threads:
        thread.start()
    started.wait()
    answer = world.ask(path="/status")
    assert answer.data == b"here: q", "nothing else is held up"
    release.set()
    for thread in threads:
        thread.join(20)
    node.stop()
    assert seen == [b"done"] * 50
