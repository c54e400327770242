"""Two query nodes behind one front, over loopback: what a session saw goes from one to the other (PR-7)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import urllib3
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from ingest.clock import ManualClock, SystemClock
from ingest.metadata.memory import MemoryMetadataStore
from query.engine import EngineSettings
from query.node import NodeSettings, QueryNode
from query.source import LiveAttempt
from query.task_calls import LiveSettings
from segments.cache import SegmentCache
from segments.live import ChunkInfo, LiveAnswer, LiveAsk
from segments.storage.memory import MemoryDeepStorage
from server.api.answers import install_error_answers
from server.api.sql import sql_endpoint, sql_router
from server.config import Settings
from server.directory import LOOK_MS, Directory
from server.forwarding import Forwarding
from server.health import Health
from server.metrics import Metrics
from server.parts import Parts
from server.targets import ProcessTargets
from tests.unit.query.memory_table import MemoryTable, ServiceUnreachable
from tests.unit.server.test_forwarding import Listening

WAIT_MS = 200
SESSION = {"X-Siltstone-Session": "me"}


class CutOff:
    """The tasks as one node sees them: those named are out of its reach."""

    def __init__(self, table: MemoryTable, unreachable: set[str]) -> None:
        self._table = table
        self.unreachable = unreachable

    def ask(self, attempt: LiveAttempt, ask: LiveAsk, timeout_ms: int) -> LiveAnswer:
        if attempt.token in self.unreachable:
            raise ServiceUnreachable("cut off")
        return self._table.ask(attempt, ask, timeout_ms)

    def fetch(self, attempt: LiveAttempt, chunk: ChunkInfo, timeout_ms: int) -> bytes:
        return self._table.fetch(attempt, chunk, timeout_ms)


class Node:
    """A query node behind HTTP."""

    def __init__(self, home: Path, name: str, table: MemoryTable, unreachable: set[str]) -> None:
        engine = EngineSettings(workers=1, threads=1, memory_bytes=256 << 20, temp_bytes=1 << 20)
        live = LiveSettings(wait_ms=WAIT_MS, suspect_ms=0, poll_ms=5)
        settings = NodeSettings(sync_ms=20, engine=engine, live=live)
        cache = SegmentCache(home / name / "cache", table.storage, 1 << 30)
        self.name = name
        self.live = CutOff(table, unreachable)
        self.node = QueryNode(name, table, self.live, cache, home / name, settings, SystemClock())
        self.node.start()
        app = FastAPI()
        install_error_answers(app)
        app.include_router(sql_router(self.node, sql_endpoint(self.node)))
        self.http = Listening(app)

    def stop(self) -> None:
        self.http.stop()
        self.node.stop()


class World:
    """A table with two replicas, of which the second node reaches only the later one; a front that knows the nodes
    by their lease rows."""

    def __init__(self, home: Path) -> None:
        self.table = MemoryTable(home)
        self.ahead, self.behind = self.table.tasks[0], self.table.start_task()
        self.one = Node(home, "one", self.table, set())
        self.two = Node(home, "two", self.table, {self.ahead.attempt.token})
        self.store = MemoryMetadataStore()
        self.clock = ManualClock()
        parts = Parts(
            settings=Settings(data_dir=home),
            node="front",
            address="front:1",
            clock=self.clock,
            secret="s",
            health=Health(),
            metrics=Metrics(),
            storage=MemoryDeepStorage(),
            scratch=home,
            directory=Directory(self.store, self.clock),
            store=self.store,
        )
        self._forwarding = Forwarding(self._nowhere, ProcessTargets(parts))
        self.front = Listening(self._front)
        self._http = urllib3.PoolManager(retries=False, timeout=20)

    async def _nowhere(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def _front(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/close":
            await self._forwarding.aclose()
        await self._forwarding(scope, receive, send)

    def serve_by(self, *nodes: Node) -> None:
        """From now on these are the nodes, the last one with the most segments; the front has seen it."""
        for each in (self.one, self.two):
            if each in nodes:
                held = {"cached": {"wiki": 10 ** nodes.index(each)}}
                self.store.renew_node(each.name, ["query"], each.http.address, self.clock.now_ms(), {"wiki": 1}, held)
            else:
                self.store.forget_node(each.name)
        self.clock.advance(LOOK_MS)

    def count(self, headers: dict[str, str]) -> int | str:
        """The count that the front answers, or why it does not."""
        asked = {"query": "SELECT COUNT(*) AS n FROM wiki"}
        answer = self._http.request("POST", f"http://{self.front.address}/druid/v2/sql", json=asked, headers=headers)
        document = answer.json()
        assert "x-siltstone-seen" not in answer.headers, "what a session saw is for the front alone"
        return int(document[0]["n"]) if answer.status == 200 else str(document["errorMessage"])

    def stop(self) -> None:
        self._http.request("GET", f"http://{self.front.address}/close")
        self._http.clear()
        for each in (self.front, self.one, self.two):
            each.stop()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    yield found
    found.stop()


def test_a_session_sees_no_less_at_the_next_node_and_a_stranger_does(world: World) -> None:
    world.table.read(world.ahead, 10)
    world.table.read(world.behind, 4)
    world.serve_by(world.one)
    assert world.count(SESSION) == 10
    world.serve_by(world.two)
    assert world.count({}) == 4, "without a session each node keeps its own promise"
    told = world.count(SESSION)
    assert isinstance(told, str) and "session saw of table wiki" in told and "offset 4" in told
    world.table.read(world.behind, 6)
    assert world.count(SESSION) == 10
    assert world.count({"Cookie": "siltstone-session=me"}) == 10


def test_a_node_that_cannot_show_what_was_seen_leaves_the_answer_to_another(world: World) -> None:
    world.table.read(world.ahead, 10)
    world.table.read(world.behind, 4)
    world.serve_by(world.one)
    assert world.count(SESSION) == 10
    world.serve_by(world.one, world.two)
    assert world.count({}) == 4, "the second node is asked first"
    assert [world.count(SESSION) for _ in range(3)] == [10, 10, 10]


def test_a_node_that_goes_in_mid_service_is_replaced_by_the_other(world: World) -> None:
    world.two.live.unreachable.clear()
    world.table.read(world.ahead, 10)
    world.serve_by(world.two, world.one)
    assert world.count(SESSION) == 10
    world.one.http.stop()
    world.table.read(world.ahead, 2)
    assert [world.count(SESSION) for _ in range(3)] == [12, 12, 12]
