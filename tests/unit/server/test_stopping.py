"""A process that is told to stop refuses what comes by name and ends what runs within its bound, not by a bare 500."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

import orjson
import pytest
from anyio import to_thread
from starlette.types import Receive, Scope, Send
from structlog.testing import capture_logs

from query.errors import QueryError
from segments.errors import ServiceError
from server.health import Health
from server.process import Front, watch_the_stop
from server.stopping import Stopping

SQL = "/druid/v2/sql"


class Work:
    """An application whose answers wait, in a thread as queries do, until the query is ended or the work is done."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.reason: QueryError | None = None
        self.begins_first = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.begins_first:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        if scope["path"].startswith("/never"):
            await asyncio.Event().wait()
        await to_thread.run_sync(self.done.wait)
        if self.reason is not None and self.begins_first:
            raise RuntimeError("the response has begun") from self.reason
        body = b"rows" if self.reason is None else orjson.dumps(self.reason.body())
        if not self.begins_first:
            await send({"type": "http.response.start", "status": 200 if self.reason is None else 503, "headers": []})
        await send({"type": "http.response.body", "body": body})

    def end(self, reason: QueryError) -> list[str]:
        self.reason = reason
        self.done.set()
        return ["q1"]


class Asked:
    """One request to a front; ``taken`` is what was sent to its client."""

    def __init__(self, front: Front, path: str, method: str = "POST") -> None:
        self.taken: list[MutableMapping[str, Any]] = []
        scope = {"type": "http", "method": method, "path": path, "headers": []}
        self.task = asyncio.ensure_future(front(scope, self._receive, self._send))

    async def _receive(self) -> MutableMapping[str, Any]:
        return await asyncio.Future()

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        self.taken.append(message)

    @property
    def status(self) -> int:
        return int(self.taken[0]["status"])

    @property
    def body(self) -> Any:
        return orjson.loads(self.taken[-1]["body"])


class Server:
    def __init__(self, bound_s: float = 30) -> None:
        self.health = Health()
        self.stopping = Stopping(bound_s, self.health)
        self.front = Front(self.health, self.stopping)
        self.work = Work()
        self.front.app = self.work
        self.open_results = 0
        self.forced = False

    def stop(self) -> asyncio.Future[None]:
        return asyncio.ensure_future(
            self.stopping.finish(lambda: self.open_results, self.work.end, lambda: self.forced)
        )


async def _turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_new_requests_are_refused_in_their_clients_form_while_one_under_way_is_let_finish() -> None:
    async def scenario() -> None:
        server = Server()
        running = Asked(server.front, SQL)
        await _turns()
        over = server.stop()
        await _turns()
        query, change = Asked(server.front, SQL), Asked(server.front, "/druid/indexer/v1/supervisor")
        await asyncio.gather(query.task, change.task)
        assert query.status == change.status == 503
        assert query.body["errorCode"] == "serviceUnavailable" and query.body["category"] == "SERVICE_UNAVAILABLE"
        assert "is stopping" in query.body["errorMessage"] and "another server" in query.body["errorMessage"]
        assert "nothing was done" in change.body["error"]
        assert (b"retry-after", b"1") in query.taken[0]["headers"], "a load balancer reads it"
        assert "stop" in server.health.faults()
        assert not over.done()
        server.work.done.set()
        await asyncio.gather(running.task, over)
        assert running.status == 200 and running.taken[-1]["body"] == b"rows"

    asyncio.run(scenario())


def test_what_outlasts_the_bound_is_ended_by_name() -> None:
    async def scenario() -> None:
        server = Server(bound_s=0)
        running = Asked(server.front, SQL)
        await _turns()
        await asyncio.gather(server.stop(), running.task)
        assert running.status == 503
        assert "stopping" in running.body["errorMessage"] and "http.stop_s" in running.body["errorMessage"]

    asyncio.run(scenario())


def test_status_cancelling_jdbc_and_our_own_processes_are_answered_to_the_last() -> None:
    async def scenario() -> None:
        server = Server()
        server.work.done.set()
        server.open_results = 1
        over = server.stop()
        await _turns()
        kept = [("/status/health", "GET"), ("/metrics", "GET"), (f"{SQL}/q1", "DELETE"), ("/druid/v2/q1", "DELETE")]
        kept += [(f"{SQL}/avatica/", "POST"), ("/internal/v1/beat", "POST")]
        asked = [Asked(server.front, path, method) for path, method in kept]
        await asyncio.gather(*(each.task for each in asked))
        assert [each.status for each in asked] == [200] * len(asked)
        assert not over.done(), "results that are half read are let be read out"
        server.open_results = 0
        await over

    asyncio.run(scenario())


def test_a_request_that_is_cut_off_is_told_and_one_whose_answer_has_begun_breaks_off() -> None:
    async def scenario() -> None:
        server = Server(bound_s=0)
        silent = Asked(server.front, "/never")
        await _turns()
        server.forced = True
        await server.stop()
        silent.task.cancel()
        await silent.task
        assert silent.status == 503 and "whether a change was made is unknown" in silent.body["error"]
        server = Server(bound_s=0)
        server.work.begins_first = True
        begun = Asked(server.front, SQL)
        await _turns()
        await asyncio.gather(server.stop(), begun.task)
        assert begun.status == 200 and begun.taken[-1]["type"] == "http.response.start", "it has no end"

    asyncio.run(scenario())


def test_what_is_no_operating_error_is_still_a_fault() -> None:
    async def scenario() -> None:
        server = Server()

        async def broken(scope: Scope, receive: Receive, send: Send) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            raise KeyError("ours")

        server.front.app = broken
        with pytest.raises(KeyError):
            await Asked(server.front, "/status").task

        async def told(scope: Scope, receive: Receive, send: Send) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            raise ServiceError("a segment cannot be read")

        server.front.app = told
        await Asked(server.front, "/status").task

    asyncio.run(scenario())


@dataclass
class Parts:
    is_stopped: bool
    stopping_now: str = "query node"


@pytest.mark.parametrize(
    ("is_stopped", "code", "told"), [(False, 1, "stop took too long"), (True, 0, "threads outlived")]
)
def test_a_stop_that_hangs_ends_in_its_bound_and_names_what_hung(
    is_stopped: bool, code: int, told: str, capfd: pytest.CaptureFixture[str]
) -> None:
    left: list[int] = []
    over = threading.Event()

    def leave(with_code: int) -> None:
        left.append(with_code)
        over.set()

    with capture_logs() as lines:
        watch_the_stop(Parts(is_stopped), 0.01, leave)
        assert over.wait(10)
    assert left == [code]
    assert told in lines[0]["event"] and (is_stopped or lines[0]["stopping"] == "query node")
    assert is_stopped or "most recent call first" in capfd.readouterr().err
