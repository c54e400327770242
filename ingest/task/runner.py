"""The task's shell: the ingest thread that polls, appends and does what the machine says.

The mailbox is drained between batches, so a command waits for one batch at most and, caught up, for
one short poll. Questions to the overlord, merges, uploads and hand-off run in other threads and come
back as events.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import structlog

from ingest.clock import Clock
from ingest.errors import AttemptRefused, IngestError, OverlordUnreachable, StreamError
from ingest.protocol import (
    CheckpointAnswer,
    PauseReport,
    SealCommand,
    SequenceRecord,
    TaskCommand,
    TaskHeartbeat,
    TaskHello,
    TaskSpec,
    TaskWelcome,
)
from ingest.spec import parse_supervisor_spec
from ingest.stream.supplier import OffsetOutOfRange
from ingest.task.asking import Asking, Questions
from ingest.task.disk import TaskDisk
from ingest.task.heartbeat import Heartbeat
from ingest.task.machine import IndexTaskMachine
from ingest.task.machine_state import TaskView
from ingest.task.mailbox import TaskMailbox
from ingest.task.messages import (
    AskCheckpoint,
    AskSequences,
    BelowLogStart,
    CheckpointAnswered,
    Command,
    CommandReceived,
    Cut,
    Discard,
    DiskScarce,
    Drop,
    DropPast,
    Dropped,
    Event,
    Finish,
    OpenSequence,
    Publish,
    PublishEnded,
    PublishFailed,
    RaiseEnd,
    Read,
    Refused,
    Reply,
    RereadImpossible,
    Seek,
    SequencesAnswered,
    SpaceFreed,
    Started,
    TaskLimits,
    Tick,
)
from ingest.task.ports import OverlordActions
from ingest.task.publishing import HandoffExecutor, PublishExecutor, PublishPorts
from ingest.task.reading import StreamReader, Suppliers
from ingest.task.rows import TaskRows
from ingest.task.settings import limits_of
from ingest.task.status import Pauses, compose_heartbeat
from ingest.task.uploads import AT_ONCE
from segments.storage.base import DeepStorage

log = structlog.get_logger()

TICK_MS = 50
COMMAND_MS = 4_000
SCARCE = (
    "the disk has only its reserve left: nothing is read but what was promised to others; make room on the disk of "
    "data_dir/tasks"
)


@dataclass(frozen=True, slots=True)
class TaskPorts:
    """What a task is built on; the process's entry point fills it."""

    actions: OverlordActions
    rows: TaskRows
    suppliers: Suppliers
    storage: DeepStorage
    clock: Clock
    is_scarce: Callable[[], bool] = lambda: False
    uploads_max: int = AT_ONCE


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the task ended. ``succeeded`` is None for a stop that leaves it restorable."""

    succeeded: bool | None
    error: str | None


class TaskRunner:
    """One attempt. ``run`` is called once, by the thread that becomes the ingest thread."""

    def __init__(self, spec: TaskSpec, ports: TaskPorts, hello: TaskHello, held_bytes_max: int) -> None:
        self._held_bytes_max = held_bytes_max
        self._spec = spec
        self._ports = ports
        self._hello = hello
        self._specs = dict(spec.specs)
        newest = max(self._specs)
        self._machine = IndexTaskMachine(spec.token, self._limits(self._specs[newest]))
        self._mailbox = TaskMailbox(ports.clock)
        post = self._mailbox.post
        self._heartbeat = Heartbeat(ports.actions, self._compose, post, ports.clock)
        self._publishing = PublishExecutor(
            PublishPorts(
                spec.token,
                ports.rows,
                ports.actions,
                ports.storage,
                ports.clock,
                post,
                lambda: self._reader.prove_topic(spec),
                ports.uploads_max,
            )
        )
        self._handoff = HandoffExecutor(self._heartbeat.beat)
        self._asking = Asking(
            spec.token, ports.actions, ports.clock, lambda: self._stop_requested or self._outcome is not None
        )
        self._questions = Questions()
        self._asker = threading.Thread(target=self._ask_forever, name="questions", daemon=True)
        self._view: TaskView = self._machine.view()
        self._reader = StreamReader(ports.suppliers, self._specs[newest], ports.rows, ports.clock, self._specs.values())
        self._disk = TaskDisk(ports.rows, ports.clock, ports.is_scarce)
        self._next_tick_ms = 0
        # Reading a spec again at every checkpoint would be a part of its pause.
        self._version_followed = newest
        self._outcome: Outcome | None = None
        self._stop_requested = False
        self._sleep = threading.Event()
        self._started = False
        self._pauses = Pauses()

    # ---------------------------------------------------------------- from other threads

    @property
    def token(self) -> str:
        return self._spec.token

    def command(self, command: TaskCommand) -> PauseReport | None:
        """Hands a command of the overlord to the machine and waits for its answer; raises CommandRefused."""
        return self._mailbox.ask(command, COMMAND_MS)

    def stop_restorable(self) -> None:
        """The process is asked to end: rows are persisted, nothing is sealed. Safe in a signal handler."""
        # A plain flag: a handler may interrupt the ingest thread while it holds the lock of anything else.
        self._stop_requested = True

    @property
    def view(self) -> TaskView:
        """The last picture; immutable."""
        return self._view

    @property
    def handoffs_pending(self) -> int:
        return self._handoff.pending

    @property
    def stream_error(self) -> str | None:
        """Why nothing can be read at present, for people: the stream's fault or the disk's."""
        return self._disk.error or self._reader.error or (SCARCE if self._disk.scarce else None)

    @property
    def pauses(self) -> dict[str, int]:
        """How often and how long (ms) reading stood still for checkpoints."""
        return self._pauses.counters()

    def _compose(self) -> TaskHeartbeat:
        spec = self._spec
        beat = compose_heartbeat(spec.token, spec.datasource, self._view, self._ports.rows, self.stream_error)
        return replace(beat, counters=beat.counters | self._pauses.counters())

    # ---------------------------------------------------------------- the ingest thread

    def run(self) -> Outcome:
        """Registers, reads until the machine or the process's end says stop, and persists."""
        self._start()
        while self._outcome is None and not self._stop_requested:
            self._turn()
        if self._outcome is None:
            self._disk.persist()
            self._outcome = Outcome(None, "stopped with its process; restorable")
        elif self._started and not self._outcome.succeeded:
            # The next attempt on this host need not read again, or cannot: the stream may have dropped it.
            self._disk.persist()
        self._mailbox.close()
        self._stop_threads()
        self._reader.close()
        return self._outcome

    def _start(self) -> None:
        restored, totals = self._ports.rows.restored()
        self._asker.start()
        welcome = self._register()
        if welcome is None:
            return
        self._specs.update(welcome.specs)
        self._publishing.start()
        self._handoff.start()
        self._heartbeat.start()
        self._started = True
        self._handle(Started(self._now(), welcome, restored, totals))

    def _register(self) -> TaskWelcome | None:
        """Until an overlord answers; None when the attempt is refused or the process is to end."""
        wait_s = 0.05
        while not self._stop_requested:
            try:
                return self._ports.actions.register(self._hello)
            except AttemptRefused as error:
                self._outcome = Outcome(False, str(error))
                return None
            except OverlordUnreachable as error:
                log.warning("overlord unreachable", error=str(error))
                self._sleep.wait(wait_s)
                wait_s = min(2 * wait_s, 2.0)
        return None

    def _stop_threads(self) -> None:
        self._questions.close()
        if self._started:
            self._heartbeat.stop(1.0)
            self._handoff.stop(1.0)
            self._publishing.stop(1.0)

    def _turn(self) -> None:
        """Everything that has arrived, the clock, then one batch or a short wait."""
        event = self._mailbox.take(0 if self._may_read else max(1, self._next_tick_ms - self._now()))
        while event is not None and self._outcome is None:
            self._handle(event)
            event = self._mailbox.take(0)
        now_ms = self._now()
        if now_ms >= self._next_tick_ms:
            self._next_tick_ms = now_ms + TICK_MS
            self._handle(Tick(now_ms))
        # After every batch: a fast stream must not bring more rows into memory than may be there.
        postponed = self._disk.maintain(now_ms)
        if self._disk.scarce != self._machine.disk_scarce:
            self._handle(DiskScarce(now_ms, self._disk.scarce))
        for command in postponed:
            done = self._execute(command)
            if done is not None:
                self._handle(done)
        if self._outcome is None and self._may_read:
            self._read()

    @property
    def _may_read(self) -> bool:
        return self._machine.is_reading and self._disk.error is None and self._reader.may_read()

    def _handle(self, event: Event) -> None:
        events = [event]
        while events and self._outcome is None:
            event = events.pop(0)
            self._note(event)
            for command in self._machine.handle(event):
                done = self._execute(command)
                if done is not None:
                    events.append(done)
        self._view = self._machine.view()
        self._pauses.see(self._view.paused_since_ms, self._now())

    def _note(self, event: Event) -> None:
        """Keeps what the shell itself needs of an event before the machine decides on it."""
        match event:
            case (
                CommandReceived(command=SealCommand(specs=specs))
                | CheckpointAnswered(answer=CheckpointAnswer(specs=specs))
                | SequencesAnswered(specs=specs)
            ):
                self._specs.update(specs)
            case PublishEnded(number=number, reply=reply) if reply.version > 0 and number in self._machine.sequences:
                self._handoff.wait_for(number, reply.version)
            case PublishFailed(number=number):
                # It may have been published or voided meanwhile, and is refused for that.
                self._questions.put(AskSequences(number))
            case _:
                pass

    # ---------------------------------------------------------------- reading

    def _read(self) -> None:
        """Appends what is pending, else polls; leaves the rest of a batch pending when something intervenes."""
        machine = self._machine
        try:
            self._reader.fill(machine.windows(), machine.positions())
        except OffsetOutOfRange as error:
            self._handle(BelowLogStart(self._now(), error.partition, error.asked, error.earliest))
            return
        except StreamError:
            return
        while self._reader.has_pending and self._mailbox.is_empty and machine.is_reading:
            try:
                done = self._reader.append_some(machine.windows())
            except StreamError:
                return
            if done is None:
                return
            number, appended = done
            self._handle(Read(self._now(), number, appended.runs, appended.totals))

    # ---------------------------------------------------------------- commands

    def _execute(self, command: Command) -> Event | None:
        rows = self._ports.rows
        match command:
            case OpenSequence(record):
                self._open(record)
            case Cut(number):
                rows.cut(number)
            case Seek(positions):
                self._reader.seek(positions)
            case DropPast():
                return self._drop_past(command)
            case Publish():
                self._publishing.submit(command)
            case Drop() | Discard():
                return self._forget(command)
            case Reply():
                self._mailbox.answer(command)
            case Finish(succeeded, error):
                self._outcome = Outcome(succeeded, error)
            case AskCheckpoint() | AskSequences() | RaiseEnd():
                self._questions.put(command)
        return None

    def _open(self, record: SequenceRecord) -> None:
        posted = self._specs.get(record.spec_version)
        if posted is None:
            self._outcome = self._outcome or Outcome(False, f"spec version {record.spec_version} is not to be had")
            return
        if record.spec_version == max(self._specs) != self._version_followed:
            self._machine.limits = self._limits(posted)
            try:
                self._reader.connect(posted)
            except IngestError as error:
                self._outcome = self._outcome or Outcome(False, str(error))
                return
            self._version_followed = record.spec_version
        self._ports.rows.open(record, posted)

    def _limits(self, posted: dict[str, Any]) -> TaskLimits:
        return limits_of(parse_supervisor_spec(posted)[0], self._held_bytes_max)

    def _forget(self, command: Drop | Discard) -> Event:
        number, dropped_through = command.number, command.version if isinstance(command, Drop) else 0
        self._publishing.forget(number)
        self._handoff.forget(number)
        return SpaceFreed(self._now(), self._ports.rows.forget(number, dropped_through))

    def _drop_past(self, command: DropPast) -> Event | None:
        """Drops only what can be read again (PR-9)."""
        again = self._ports.rows.reread_from(command.sequence, command.end)
        # What cannot be learnt is not impossible: what is gone shows when it is read (PR-17).
        log_starts = self._reader.log_starts(list(again))
        if any(offset < log_starts.get(partition, 0) for partition, offset in again.items()):
            return RereadImpossible(self._now(), command.sequence)
        dropped = self._disk.attempt(lambda: self._ports.rows.drop_past(command.sequence, command.end))
        if dropped is None:
            self._disk.postpone(command)
            return None
        [(positions, totals)] = dropped
        return Dropped(self._now(), command.sequence, positions, totals)

    # ---------------------------------------------------------------- questions to the overlord

    def _ask_forever(self) -> None:
        while (question := self._questions.take()) is not None:
            try:
                event = self._asking.ask(question)
            except AttemptRefused as error:
                event = Refused(self._now(), str(error))
            self._mailbox.post(event)

    def _now(self) -> int:
        return self._ports.clock.monotonic_ms()
