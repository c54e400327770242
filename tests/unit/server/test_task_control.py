"""A task's control server and its clients, over loopback."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from ingest.errors import AttemptRefused, CommandRefused, TaskUnreachable
from ingest.offsets import OffsetMap
from ingest.protocol import PauseCommand, PauseReport, ResumeCommand, StopCommand, TaskCommand
from query.source import LiveAttempt
from segments.live import ChunkInfo, LiveAnswer, LiveAsk, LiveSequence, LiveStatus
from server.clients import HttpLiveSource, HttpTaskChallenge, HttpTaskClient
from server.http_pool import HttpPool
from server.task_control import TaskControlServer

TOKEN = "token-of-the-attempt"
CHUNK = ChunkInfo(7, 3, 100, 2_000, ((0, 5, 10),), 1, 2, None, (5, 6))


class ScriptedTask:
    """Answers what a test needs and remembers the commands."""

    token = TOKEN

    def __init__(self) -> None:
        self.commands: list[TaskCommand] = []

    def command(self, command: TaskCommand) -> PauseReport | None:
        self.commands.append(command)
        if isinstance(command, StopCommand):
            raise CommandRefused("generation 9 was heard")
        return PauseReport(command.round, 3, OffsetMap({0: 10})) if isinstance(command, PauseCommand) else None

    def live(self, ask: LiveAsk) -> LiveAnswer:
        sequence = LiveSequence(3, 1, {0: 5}, dict(ask.vector), None, (CHUNK,))
        return LiveAnswer(LiveStatus.OK, TOKEN, ask.group, (sequence,))

    def chunk_bytes(self, number: int) -> bytes | None:
        if number == 9:
            raise FileNotFoundError("a spill that was dropped meanwhile")
        return b"arrow" if number == 7 else None

    def status(self) -> dict[str, Any]:
        return {"status": "reading"}

    def row_stats(self) -> dict[str, Any]:
        return {"totals": {}}

    def parse_errors(self) -> list[dict[str, Any]]:
        return []


@pytest.fixture
def task() -> ScriptedTask:
    return ScriptedTask()


@pytest.fixture
def address(task: ScriptedTask) -> Iterator[str]:
    server = TaskControlServer("127.0.0.1")
    server.start(task)
    yield f"127.0.0.1:{server.port}"
    server.stop()


@pytest.fixture
def pool() -> Iterator[HttpPool]:
    found = HttpPool()
    yield found
    found.close()


def attempt(address: str, token: str = TOKEN) -> LiveAttempt:
    return LiveAttempt("clicks", 1, token, address, True)


def test_commands_reach_the_task_and_a_pause_brings_its_report(
    address: str, pool: HttpPool, task: ScriptedTask
) -> None:
    client = HttpTaskClient(pool)
    pause = PauseCommand(2, 1, 500)
    assert client.send(address, TOKEN, pause) == PauseReport(1, 3, OffsetMap({0: 10}))
    assert client.send(address, TOKEN, ResumeCommand(2, 1)) is None
    assert task.commands == [pause, ResumeCommand(2, 1)]


def test_a_command_that_is_not_obeyed_says_why(address: str, pool: HttpPool) -> None:
    with pytest.raises(CommandRefused, match="generation 9 was heard"):
        HttpTaskClient(pool).send(address, TOKEN, StopCommand(1, True, "late"))


def test_another_attempts_token_is_refused_everywhere(address: str, pool: HttpPool, task: ScriptedTask) -> None:
    with pytest.raises(AttemptRefused):
        HttpTaskClient(pool).send(address, "another", PauseCommand(2, 1, 500))
    with pytest.raises(AttemptRefused):
        HttpLiveSource(pool).fetch(attempt(address, "another"), CHUNK, 1_000)
    assert task.commands == []


def test_live_answers_and_chunks_arrive_whole(address: str, pool: HttpPool) -> None:
    source = HttpLiveSource(pool)
    ask = LiveAsk(12, 1, {0: 5}, {0: 0})
    answer = source.ask(attempt(address), ask, 1_000)
    assert answer == LiveAnswer(LiveStatus.OK, TOKEN, 1, (LiveSequence(3, 1, {0: 5}, {0: 5}, None, (CHUNK,)),))
    assert source.fetch(attempt(address), CHUNK, 1_000) == b"arrow"


def test_a_chunk_that_is_gone_is_no_empty_chunk(address: str, pool: HttpPool) -> None:
    gone = ChunkInfo(8, 3, 1, 1, (), 1, 2)
    with pytest.raises(CommandRefused, match="gone"):
        HttpLiveSource(pool).fetch(attempt(address), gone, 1_000)


def test_what_breaks_in_a_request_is_answered_and_the_connection_goes_on(address: str, pool: HttpPool) -> None:
    with pytest.raises(TaskUnreachable, match="answered 500.*a spill that was dropped meanwhile"):
        HttpLiveSource(pool).fetch(attempt(address), ChunkInfo(9, 3, 1, 1, (), 1, 2), 10_000)
    status, body = pool.request("POST", f"http://{address}/v1/live", headers={"Content-Length": "many"}, read_s=2)
    assert status == 400 and b"a body of many bytes" in body
    assert HttpLiveSource(pool).fetch(attempt(address), CHUNK, 10_000) == b"arrow"


def test_the_challenge_proves_who_holds_the_token_without_saying_it(address: str, pool: HttpPool) -> None:
    challenge = HttpTaskChallenge(pool)
    assert challenge.proves(address, TOKEN, os.getpid())
    assert not challenge.proves(address, "another", os.getpid())
    assert not challenge.proves(address, TOKEN, os.getpid() + 1)


def test_nobody_at_the_address_is_unreachable_and_proves_nothing(pool: HttpPool) -> None:
    server = TaskControlServer("127.0.0.1")
    server.start(ScriptedTask())
    port = server.port
    server.stop()
    with pytest.raises(TaskUnreachable):
        HttpTaskClient(pool).send(f"127.0.0.1:{port}", TOKEN, ResumeCommand(1, 1))
    with pytest.raises(TaskUnreachable):
        HttpTaskChallenge(pool).proves(f"127.0.0.1:{port}", TOKEN, 1)


def test_documents_are_served(address: str, pool: HttpPool) -> None:
    assert HttpTaskClient(pool).get(address, TOKEN, "status") == {"status": "reading"}
    assert HttpTaskClient(pool).get(address, TOKEN, "parseErrors") == []
