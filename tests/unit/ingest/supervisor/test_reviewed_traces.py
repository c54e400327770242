"""Traces on paper, replayed against the supervisor's machine."""

from __future__ import annotations

from dataclasses import replace

from ingest.metadata.records import DesiredState, GroupState, StreamOffsets
from ingest.offsets import OffsetMap
from ingest.protocol import AttemptRecord, AttemptState, SequenceRecord, SequenceRef, SequenceState, TaskHeartbeat
from ingest.supervisor import messages as m
from ingest.supervisor.config import SupervisorConfig, SupervisorState
from ingest.supervisor.machine import SupervisorMachine

CONFIG = SupervisorConfig("wiki", "wiki", "wiki", spec_version=1, replicas=1, silence_ms=1_000, beside_ms=1_000)
OFFSETS = StreamOffsets("wiki", "wiki", "id", OffsetMap({0: 0}), OffsetMap({0: 0}), OffsetMap({0: 0}))


def sequence(number: int, start: int, end: int | None, released: bool = False) -> SequenceRecord:
    state = SequenceState.OPEN if end is None else SequenceState.SEALED
    ends = None if end is None else OffsetMap({0: end})
    ref = SequenceRef("wiki", 1, number)
    return SequenceRecord(ref, OffsetMap({0: start}), OffsetMap({0: 0}), 1, 0, state, ends, True, released)


def attempt(token: str, slot: int, state: AttemptState = AttemptState.RUNNING) -> AttemptRecord:
    return AttemptRecord(f"index_kafka_wiki_1_{slot}", 1, token, "wiki", "wiki", 1, state, slot == 0, 0, "w", "a:1")


def loaded(sequences: tuple[SequenceRecord, ...], *attempts: AttemptRecord, **changes: object) -> m.StateLoaded:
    group = GroupState("wiki", 1, (0,), sequences, attempts, OffsetMap())
    return m.StateLoaded(0, 0, replace(SupervisorState(DesiredState.RUNNING, OFFSETS, (group,)), **changes))  # type: ignore[arg-type]


def beat(token: str, number: int, position: int) -> TaskHeartbeat:
    return TaskHeartbeat(token, number, OffsetMap({0: position}), "reading", None, 0, 0, 0, {})


def test_a_released_group_whose_publish_nobody_heard_of_is_not_restarted_for_ever() -> None:
    machine = SupervisorMachine(CONFIG, 1)
    machine.handle(loaded((sequence(0, 0, 100, released=True),), attempt("a", 0), desired=DesiredState.SUSPENDED))
    # The publish committed, its reply was lost and the task died; the next attempt was told by the
    # store that nothing is left, and ended at once.
    commands = machine.handle(m.TaskEnded(10, "a", True, None))
    moved = replace(attempt("a", 0), state=AttemptState.SUCCEEDED)
    commands += machine.handle(m.AttemptMoved(11, moved))
    assert any(isinstance(c, m.Reload) for c in commands)
    assert not any(isinstance(c, m.CreateAttempt) for c in commands)


def silent_beside_fresh() -> SupervisorMachine:
    """ "a" read [0, 100), was sealed there and fell silent; "b" was started beside it."""
    machine = SupervisorMachine(replace(CONFIG, replicas=2), 1)
    machine.handle(loaded((sequence(0, 0, 100), sequence(1, 100, None)), attempt("a", 0), attempt("b", 1)))
    machine.handle(m.TaskBeat(1, beat("a", 1, 100)))
    return machine


def fenced(commands: list[m.Command]) -> list[str]:
    return [c.token for c in commands if isinstance(c, m.MoveAttempt) and c.state is AttemptState.FENCED]


def test_the_last_holder_of_sealed_rows_is_not_fenced_for_one_that_has_only_heard_of_them() -> None:
    machine = silent_beside_fresh()
    commands: list[m.Command] = []
    for now_ms in range(500, 5_000, 500):
        machine.handle(m.TaskBeat(now_ms, replace(beat("b", 1, 100), behind=True)))
        commands += machine.handle(m.Tick(now_ms, now_ms))
    assert fenced(commands) == []
    machine.handle(m.TaskBeat(5_100, beat("b", 1, 100)))
    assert fenced(machine.handle(m.Tick(5_200, 5_200))) == ["a"]
