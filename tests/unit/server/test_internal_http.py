"""The overlord's internal routes and the clients that follow its leadership, over loopback."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send
from structlog.testing import capture_logs

from ingest.errors import AttemptRefused, OtherDatabase, OverlordUnreachable
from ingest.offsets import OffsetMap
from ingest.protocol import PublishOutcome, PublishRequest, SequenceRef, TaskHeartbeat, WorkerHeartbeat
from ingest.wire import dumps
from server.api.internal import internal_routes
from server.belonging import Belonging
from server.clients import BEAT_PATH, HttpOverlordActions, HttpWorkers
from server.http_pool import HttpPool
from tests.in_process import System, eventually
from tests.unit.server.test_forwarding import Listening

SECRET = "the-clusters"
PUBLISH = PublishRequest("t", SequenceRef("s", 1, 0), OffsetMap(), OffsetMap(), OffsetMap(), (), None, {}, 0, 0)


class Front:
    """One overlord behind HTTP."""

    def __init__(self, system: System, node: str) -> None:
        self.overlord = system.new_overlord(node)
        app = Belonging(Starlette(routes=internal_routes(self.overlord, SECRET)), system.store.database_id())
        self._server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off"))
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        while not self._server.started:
            time.sleep(0.001)
        (server,) = self._server.servers
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    def stop(self) -> None:
        self.overlord.stop()
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(5)


@contextmanager
def two_fronts(root: Path) -> Iterator[tuple[Front, Front]]:
    """One that leads and a standby."""
    system = System(root)
    one, two = Front(system, "one"), Front(system, "two")
    one.overlord.start()
    eventually(lambda: one.overlord.is_leading)
    two.overlord.start()
    yield one, two
    two.stop()
    one.stop()


@pytest.fixture(scope="module")
def fronts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Front, Front]]:
    """For tests that leave the leader where it is."""
    with two_fronts(tmp_path_factory.mktemp("fronts")) as found:
        yield found


@pytest.fixture
def pool() -> Iterator[HttpPool]:
    found = HttpPool()
    yield found
    found.close()


def beat(token: str = "nobody") -> TaskHeartbeat:
    return TaskHeartbeat(token, 0, OffsetMap(), "reading", None, 0, 0, 0, {})


def test_a_client_finds_the_leader_among_all(fronts: tuple[Front, Front], pool: HttpPool) -> None:
    leader, standby = fronts
    workers = HttpWorkers([standby.url, leader.url], pool, SECRET)
    assert workers.beat(WorkerHeartbeat("w", "w:1", 1, True, (), ())).generation == 1


def test_a_client_follows_to_the_next_leader(tmp_path: Path, pool: HttpPool) -> None:
    with two_fronts(tmp_path) as (leader, standby):
        workers = HttpWorkers([leader.url, standby.url], pool, SECRET)
        workers.beat(WorkerHeartbeat("w", "w:1", 1, True, (), ()))
        leader.stop()
        eventually(lambda: standby.overlord.is_leading)
        assert workers.beat(WorkerHeartbeat("w", "w:1", 1, True, (), ())).generation == 2


def test_an_unknown_token_is_refused(fronts: tuple[Front, Front], pool: HttpPool) -> None:
    with pytest.raises(AttemptRefused):
        HttpOverlordActions([fronts[0].url], pool, "nobody").heartbeat(beat())


def test_a_token_that_is_not_the_messages_is_refused(fronts: tuple[Front, Front], pool: HttpPool) -> None:
    with pytest.raises(AttemptRefused, match="header"):
        HttpOverlordActions([fronts[0].url], pool, "another").heartbeat(beat())


OURS = "in-memory"  # the database of the fronts


def test_a_task_is_not_ended_by_a_service_that_works_on_another_database(
    fronts: tuple[Front, Front], pool: HttpPool
) -> None:
    actions = HttpOverlordActions([fronts[0].url, fronts[1].url], pool, "t", database="another")
    why = r"no overlord leads at http.*another metadata database \(in-memory\)"
    with capture_logs() as told:
        with pytest.raises(OtherDatabase, match=why):
            actions.heartbeat(beat("t"))
        with pytest.raises(OtherDatabase) as caught:
            actions.publish(PUBLISH)
    assert caught.value.effect_known_absent, "it has refused before it looked"
    calls = [line for line in told if line["event"].startswith("called by a process of another service")]
    assert [(line["caller"], line["database"], line["own"]) for line in calls] == [("127.0.0.1", "another", OURS)] * 2
    with pytest.raises(AttemptRefused):
        HttpOverlordActions([fronts[0].url], pool, "t", OURS).heartbeat(beat("t"))


def test_a_task_believes_no_answer_that_does_not_say_whose_it_is(pool: HttpPool) -> None:
    status = 503

    async def other(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse('{"error": "no attempt has this token"}', status)(scope, receive, send)

    listening = Listening(other)
    actions = HttpOverlordActions([f"http://{listening.address}"], pool, "t", OURS)
    with pytest.raises(OverlordUnreachable) as caught:
        actions.publish(PUBLISH)
    assert type(caught.value) is OverlordUnreachable and caught.value.effect_known_absent, "ours may be starting"
    for status in (200, 403, 404, 409, 500):
        with pytest.raises(OtherDatabase, match=f"another service listens there .status {status}"):
            actions.heartbeat(beat("t"))
        assert actions.publish(PUBLISH).outcome is PublishOutcome.UNKNOWN, "it may stand before ours"
    listening.stop()


def test_a_worker_gets_no_orders_from_an_overlord_of_another_database(
    fronts: tuple[Front, Front], pool: HttpPool
) -> None:
    workers = HttpWorkers([fronts[0].url], pool, SECRET)
    theirs = WorkerHeartbeat("theirs", "w:1", 1, True, (), (), database="another")
    with pytest.raises(OtherDatabase):
        workers.beat(theirs)
    with pytest.raises(OtherDatabase, match="belong to database another, not to in-memory"):
        fronts[0].overlord.beat(theirs)
    assert "theirs" not in {beat.worker for beat, _ in fronts[0].overlord.workers()}
    for mine in ("", OURS):
        assert workers.beat(WorkerHeartbeat("w", "w:1", 1, True, (), (), database=mine)).database == OURS


def test_a_wrong_secret_gets_no_orders(fronts: tuple[Front, Front], pool: HttpPool) -> None:
    body = dumps(WorkerHeartbeat("w", "w:1", 1, True, (), ()))
    status, _ = pool.request("POST", fronts[0].url + BEAT_PATH, body=body, read_s=5)
    assert status == 403


def test_nobody_there_is_unreachable_and_a_publish_surely_not_applied(pool: HttpPool) -> None:
    actions = HttpOverlordActions(["http://127.0.0.1:9"], pool, "t")
    with pytest.raises(OverlordUnreachable) as caught:
        actions.heartbeat(beat("t"))
    assert caught.value.effect_known_absent
    with pytest.raises(OverlordUnreachable):
        actions.publish(PUBLISH)


def test_a_publish_whose_answer_is_lost_is_unknown(pool: HttpPool) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def hang_up() -> None:
            for _ in range(2):
                connection, _ = listener.accept()
                connection.recv(1 << 16)
                connection.close()

        threading.Thread(target=hang_up, daemon=True).start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        reply = HttpOverlordActions([url], pool, "t").publish(PUBLISH)
    assert reply.outcome is PublishOutcome.UNKNOWN
