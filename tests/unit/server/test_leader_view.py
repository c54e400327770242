"""``sys.supervisors`` where the process does not lead: the leader is asked, and nothing is guessed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
from fastapi import FastAPI

from ingest.clock import SystemClock
from server.api.answers import install_error_answers
from server.api.supervisors import supervisor_router
from server.directory import Directory
from server.http_pool import HttpPool
from server.leader_view import LeaderView
from server.peer_view import PeerView
from server.system_tables import StoreSystemTables
from tests.in_process import System, eventually, spec


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    found = System(tmp_path)
    found.stream.create_topic("clicks", 1)
    found.start()
    yield found
    found.stop()


@pytest.fixture
def leader_url(system: System) -> Iterator[str]:
    app = FastAPI()
    install_error_answers(app)
    app.include_router(supervisor_router(system.overlord, system.store))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.001)
    (listening,) = server.servers
    yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(5)


def states(system: System, *urls: str, leads: bool = False) -> dict[object, tuple[object, object]]:
    """The states that ``sys.supervisors`` shows on a process that knows these overlords."""
    pool = HttpPool()
    # The lease row's address is nobody's here: it is passed over.
    directory = Directory(system.store, SystemClock(), urls)
    overlord = system.overlord if leads else None
    view, peers = LeaderView(directory, pool, "me:1"), PeerView(directory, pool, "me:1", {})
    tables = StoreSystemTables(system.store, overlord, directory, view, peers)
    rows = {row["supervisor_id"]: (row["state"], row["healthy"]) for row in tables.rows("supervisors")}
    pool.close()
    return rows


def test_the_leaders_view_is_shown_wherever_the_question_is_put(system: System, leader_url: str) -> None:
    system.overlord.submit(spec())
    eventually(lambda: states(system, leads=True) == {"clicks": ("RUNNING", True)})
    assert states(system, "http://127.0.0.1:9", leader_url) == {"clicks": ("RUNNING", True)}


def test_without_a_leader_that_answers_the_state_is_null(system: System, leader_url: str) -> None:
    system.overlord.submit(spec())
    assert states(system, "http://127.0.0.1:9") == {"clicks": (None, None)}
    system.overlord.stop()
    assert states(system, leader_url) == {"clicks": (None, None)}, "one that does not lead"
