"""Builds task machines in every status, by nothing but events."""

from __future__ import annotations

from dataclasses import replace

from ingest.offsets import OffsetMap
from ingest.protocol import (
    CheckpointAnswer,
    HeartbeatReply,
    PauseCommand,
    SealCommand,
    SequenceRecord,
    SequenceRef,
    SequenceState,
    StopCommand,
    TaskCommand,
    TaskWelcome,
)
from ingest.task import messages as m
from ingest.task.machine import IndexTaskMachine

LIMITS = m.TaskLimits(
    segment_rows_max=100,
    sequence_rows_max=1_000,
    sequence_bytes_max=1_000_000,
    period_ms=60_000,
    held_bytes_max=10_000,
    pause_lease_ms=3_000,
    ask_again_ms=1_000,
    ask_again_max_ms=4_000,
    learn_ms=1_000,
    retry_ms=100,
    retry_max_ms=1_000,
)


def at(*offsets: int) -> OffsetMap:
    """Offsets of partitions 0, 1, ..."""
    return OffsetMap(enumerate(offsets))


def ref(number: int) -> SequenceRef:
    return SequenceRef("edits", 1, number)


def opened(number: int, start: OffsetMap) -> SequenceRecord:
    return SequenceRecord(ref(number), start, OffsetMap((p, 0) for p in start), 1, 0, assigned=True)


def sealed(number: int, start: OffsetMap, end: OffsetMap, **changes: object) -> SequenceRecord:
    state = SequenceState.CLOSED_EMPTY if start == end else SequenceState.SEALED
    return replace(opened(number, start), **{"state": state, "end": end, **changes})  # type: ignore[arg-type]


def published(number: int, start: OffsetMap, end: OffsetMap, version: int) -> SequenceRecord:
    return sealed(number, start, end, state=SequenceState.PUBLISHED, version=version)


class Task:
    """A machine with its clock; ``did`` are the commands of the last event."""

    def __init__(self, committer: bool = True, limits: m.TaskLimits = LIMITS) -> None:
        self.machine = IndexTaskMachine("token", limits)
        self.committer = committer
        self.now_ms = 0
        self.did: list[m.Command] = []

    def handle(self, event: m.Event) -> list[m.Command]:
        self.did = self.machine.handle(event)
        return self.did

    def start(self, *records: SequenceRecord, restored: dict[int, OffsetMap] | None = None) -> Task:
        welcome = TaskWelcome(1, records or (opened(0, at(0, 0)),), {}, self.committer)
        self.handle(m.Started(self.now_ms, welcome, restored or {}))
        return self

    def read(self, sequence: int, partition: int, first: int, end: int, **totals: int) -> list[m.Command]:
        return self.handle(m.Read(self.now_ms, sequence, (m.Run(partition, first, end),), m.Totals(**totals)))

    def command(self, command: TaskCommand) -> m.Reply:
        """Hands a command over; returns the one reply."""
        self.handle(m.CommandReceived(self.now_ms, command))
        [reply] = [done for done in self.did if isinstance(done, m.Reply)]
        return reply

    def pause(self, generation: int = 1, round_number: int = 1, lease_ms: int = 5_000) -> m.Reply:
        return self.command(PauseCommand(generation, round_number, lease_ms))

    def seal(self, *records: SequenceRecord, generation: int = 1, round_number: int = 1) -> m.Reply:
        return self.command(SealCommand(generation, round_number, records))

    def tick(self, after_ms: int) -> list[m.Command]:
        self.now_ms += after_ms
        return self.handle(m.Tick(self.now_ms))

    def beat(self, served: int = 0, committer: bool | None = None) -> list[m.Command]:
        role = self.committer if committer is None else committer
        return self.handle(m.Beaten(self.now_ms, HeartbeatReply(1, served, role)))

    def told(self, *records: SequenceRecord) -> list[m.Command]:
        return self.handle(m.SequencesAnswered(self.now_ms, records))

    def answered(self, number: int, *records: SequenceRecord) -> list[m.Command]:
        return self.handle(m.CheckpointAnswered(self.now_ms, ref(number), CheckpointAnswer(1, records)))


def starting() -> Task:
    return Task()


def reading() -> Task:
    task = Task().start()
    task.read(0, 0, 0, 5, rows=5, segment_rows=5, sequence_bytes=50, held_bytes=50)
    return task


def paused_by_round() -> Task:
    task = reading()
    task.pause()
    return task


def paused_by_ask() -> Task:
    task = reading()
    task.read(0, 0, 5, 100, rows=100, segment_rows=100, sequence_bytes=1_000, held_bytes=1_000)
    return task


def rewinding() -> Task:
    task = paused_by_round()
    task.seal(sealed(0, at(0, 0), at(3, 0)), opened(1, at(3, 0)))
    return task


def back_pressure() -> Task:
    task = reading()
    task.read(0, 0, 5, 6, rows=6, segment_rows=6, sequence_bytes=10_000, held_bytes=10_000)
    task.answered(0, sealed(0, at(0, 0), at(6, 0)), opened(1, at(6, 0)))
    return task


def stopping() -> Task:
    task = Task().start()
    task.read(0, 0, 0, 5, rows=5, segment_rows=5, sequence_bytes=50, held_bytes=50)
    task.command(StopCommand(1, True, "drain"))
    task.answered(0, sealed(0, at(0, 0), at(7, 0)), opened(1, at(7, 0)))
    return task


def publishing() -> Task:
    task = reading()
    task.seal(sealed(0, at(0, 0), at(5, 0), released=True))
    return task


def finished() -> Task:
    task = reading()
    task.handle(m.Refused(0, "fenced"))
    return task
