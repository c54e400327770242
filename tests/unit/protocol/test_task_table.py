"""Every command in every status of a task: what it answers and what status follows."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ingest.protocol import (
    CommitterCommand,
    PauseCommand,
    ResumeCommand,
    SealCommand,
    StopCommand,
    TaskCommand,
)
from ingest.task import messages as m
from ingest.task.messages import TaskStatus as S
from tests.unit.protocol.task_builder import (
    Task,
    at,
    back_pressure,
    finished,
    opened,
    paused_by_ask,
    paused_by_round,
    publishing,
    reading,
    rewinding,
    sealed,
    starting,
    stopping,
)

STATES: dict[str, tuple[Callable[[], Task], S]] = {
    "starting": (starting, S.STARTING),
    "reading": (reading, S.READING),
    "paused by a round": (paused_by_round, S.PAUSED),
    "paused by its own ask": (paused_by_ask, S.PAUSED),
    "rewinding": (rewinding, S.PAUSED),
    "back pressure": (back_pressure, S.BACK_PRESSURE),
    "stopping": (stopping, S.STOPPING),
    "publishing": (publishing, S.PUBLISHING),
    "finished": (finished, S.FINISHED),
}
NEW_PAUSE = PauseCommand(1, 9, 5_000)
OLD_PAUSE = PauseCommand(0, 99, 5_000)
NEW_RESUME = ResumeCommand(1, 9)
OLD_RESUME = ResumeCommand(0, 99)
OLD_SEAL = SealCommand(0, 99, (sealed(0, at(0, 0), at(1, 0)),))
COMMIT = CommitterCommand(1, False)
OLD_COMMIT = CommitterCommand(0, True)
KILL = StopCommand(1, False, "terminate")
OLD_KILL = StopCommand(0, False, "terminate")

# command -> status -> (taken?, status afterwards)
TABLE: list[tuple[TaskCommand, dict[str, tuple[bool, S]]]] = [
    (
        NEW_PAUSE,
        {
            "starting": (False, S.STARTING),
            "reading": (True, S.PAUSED),
            "paused by a round": (True, S.PAUSED),
            "paused by its own ask": (True, S.PAUSED),
            "rewinding": (False, S.PAUSED),
            "back pressure": (True, S.PAUSED),
            "stopping": (True, S.PAUSED),
            "publishing": (True, S.PAUSED),
            "finished": (False, S.FINISHED),
        },
    ),
    (
        NEW_RESUME,
        {
            "starting": (True, S.STARTING),
            "reading": (True, S.READING),
            "paused by a round": (True, S.READING),
            "paused by its own ask": (True, S.PAUSED),  # only an end or its lease ends that
            "rewinding": (True, S.PAUSED),
            "back pressure": (True, S.BACK_PRESSURE),
            "stopping": (True, S.STOPPING),
            "publishing": (True, S.PUBLISHING),
            "finished": (False, S.FINISHED),
        },
    ),
    (COMMIT, {name: (name != "finished", status) for name, (_, status) in STATES.items()}),
    (KILL, {name: (name != "finished", S.FINISHED) for name in STATES}),
    *(
        (command, {name: (name == "starting", status) for name, (_, status) in STATES.items()})
        for command in (OLD_RESUME, OLD_COMMIT)
    ),
]
CELLS = [
    pytest.param(name, command, *expected, id=f"{type(command).__name__} of {command.generation} while {name}")
    for command, row in TABLE
    for name, expected in row.items()
]


@pytest.mark.parametrize(("name", "build"), [(name, build) for name, (build, _) in STATES.items()])
def test_the_builder_reaches_the_status(name: str, build: Callable[[], Task]) -> None:
    assert build().machine.status() is STATES[name][1]


@pytest.mark.parametrize(("name", "command", "taken", "after"), CELLS)
def test_a_command_is_taken_or_refused_and_leads_on(name: str, command: TaskCommand, taken: bool, after: S) -> None:
    task = STATES[name][0]()
    reply = task.command(command)
    assert (reply.refused is None) == taken, reply
    assert task.machine.status() is after


@pytest.mark.parametrize("command", [OLD_PAUSE, OLD_SEAL, OLD_KILL, OLD_RESUME, OLD_COMMIT], ids=repr)
@pytest.mark.parametrize("name", [name for name in STATES if name not in ("starting", "finished")])
def test_a_command_of_an_older_generation_changes_nothing(name: str, command: TaskCommand) -> None:
    task = STATES[name][0]()
    before = task.machine.view()
    assert task.command(command).refused is not None
    assert task.machine.view() == before


@pytest.mark.parametrize("name", [name for name in STATES if name not in ("reading", "stopping")])
def test_reading_where_it_must_not_is_a_fault_of_the_program(name: str) -> None:
    task = STATES[name][0]()
    assert not task.machine.is_reading
    if name == "finished":
        assert task.read(0, 0, 5, 6) == []
        return
    with pytest.raises((AssertionError, KeyError)):
        task.read(0, 0, 5, 6)


@pytest.mark.parametrize("name", STATES)
def test_a_tick_alone_never_finishes_a_task(name: str) -> None:
    task = STATES[name][0]()
    status = task.machine.status()
    task.tick(1)
    assert task.machine.status() is status
    assert not any(isinstance(command, m.Finish) for command in task.did)


@pytest.mark.parametrize("name", [name for name in STATES if name != "finished"])
def test_a_refused_token_finishes_it_in_every_status(name: str) -> None:
    task = STATES[name][0]()
    assert task.handle(m.Refused(0, "fenced")) == [m.Finish(False, "fenced")]
    assert task.handle(m.Refused(0, "fenced")) == []


def test_a_successor_follows_a_seal() -> None:
    task = reading()
    task.seal(sealed(0, at(0, 0), at(5, 0)), opened(1, at(5, 0)))
    assert m.OpenSequence(opened(1, at(5, 0))) in task.did
    assert [window.number for window in task.machine.windows()] == [1]
