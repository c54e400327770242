"""One task process: the production machine in a shell of modelled reading, publishing and crashing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ingest.errors import AttemptRefused
from ingest.offsets import OffsetMap
from ingest.protocol import (
    PartitionCounts,
    PublishOutcome,
    PublishReply,
    PublishRequest,
    SequenceRecord,
    SequenceRef,
    TaskCommand,
    TaskHeartbeat,
)
from ingest.task import messages as m
from ingest.task.answering import live_sequences
from segments.live import LiveAsk, LiveStatus
from tests.simulation.disk import Hydrant, Row, Store

if TYPE_CHECKING:
    from tests.simulation.world import World

LOOP_MS = 400
LiveRows = list[tuple[SequenceRecord, OffsetMap, list[Row]]]


class TaskProcess:
    """Alive until it crashes, is killed or finishes; ``frozen_ms`` and ``cut_off_ms`` are faults."""

    def __init__(self, world: World, token: str, task_id: str, worker: str, restored: list[Hydrant]) -> None:
        self.world = world
        self.clock = world.clock
        self.token, self.task_id, self.worker = token, task_id, worker
        self.alive = True
        self.frozen_ms = self.cut_off_ms = 0
        self.result: tuple[bool | None, str | None] | None = None
        self.store = Store([hydrant.copy() for hydrant in restored], bad=world.topic.bad)
        self.restored = self.store.positions()
        self.machine = world.rules.task(token, world.limits)
        self.registered = False
        self.loops = 0
        self.sought = False
        self.replies: list[m.Reply] = []
        self.clock.after(self.clock.between(50, 900), self.loop)

    # ------------------------------------------------------------ life

    @property
    def frozen(self) -> bool:
        return self.clock.now_ms < self.frozen_ms

    @property
    def cut_off(self) -> bool:
        return self.clock.now_ms < self.cut_off_ms

    def loop(self) -> None:
        """One turn of the ingest thread: fault, register, tick, poll, beat."""
        if not self.alive:
            return
        faults = self.world.faults
        if self.clock.chance(faults.task_crash):
            self.crash()
            return
        if self.clock.chance(faults.task_freeze):
            self.frozen_ms = self.clock.now_ms + self.clock.between(1_000, 12_000)
            self.clock.note(self.token, "freezes until", self.frozen_ms)
        if self.clock.chance(faults.task_cut_off):
            self.cut_off_ms = self.clock.now_ms + self.clock.between(1_000, 12_000)
            self.clock.note(self.token, "is cut off until", self.cut_off_ms)
        if self.frozen:
            self.clock.after(self.frozen_ms - self.clock.now_ms, self.loop)
            return
        self.loops += 1
        if not self.registered:
            self.register()
        else:
            self.handle(m.Tick(self.clock.now_ms))
            self.poll()
            if self.loops % 2 and self.alive:
                self.beat()
        self.clock.after(LOOP_MS + self.clock.between(-40, 40), self.loop)

    def crash(self) -> None:
        self.clock.note(self.token, "crashes")
        self.end(None, "killed")

    def end(self, succeeded: bool | None, error: str | None) -> None:
        self.alive = False
        self.result = (succeeded, error)

    def spill(self) -> None:
        self.world.manifests[self.worker, self.task_id] = (self.token, self.store.spill())

    # ------------------------------------------------------------ overlord

    def call(self, ask: Any, done: Any) -> None:
        """A request to whoever leads; ``done`` gets the answer, or None when it was lost."""
        self.world.network.ask_overlord(self, ask, done)

    def register(self) -> None:
        def done(answer: Any) -> None:
            if answer is None or self.registered:
                return
            self.registered = True
            totals = {number: self.store.totals(number) for number in self.restored}
            self.handle(m.Started(self.clock.now_ms, answer, self.restored, totals))

        self.call(lambda leader: leader.register(self.token), done)

    def beat(self) -> None:
        view = self.machine.view()
        beat = TaskHeartbeat(
            self.token,
            view.sequence,
            view.positions,
            view.status.value,
            view.paused_since_ms,
            unpublished_rows=0,
            unpublished_bytes=0,
            pending_publishes=view.pending_publishes,
            counters={},
            behind=view.behind,
            parse_exceptions=view.parse_exceptions,
        )
        if self.clock.chance(self.world.faults.beat_lost):
            return

        def done(reply: Any) -> None:
            if reply is not None:
                self.handle(m.Beaten(self.clock.now_ms, reply))

        self.call(lambda leader: leader.heartbeat(beat), done)

    def receive(self, command: TaskCommand) -> m.Reply:
        """A command of an overlord; the machine replies within its turn."""
        self.replies.clear()
        self.handle(m.CommandReceived(self.clock.now_ms, command))
        assert len(self.replies) == 1, f"{len(self.replies)} replies to {command}"
        return self.replies[0]

    # ------------------------------------------------------------ reading

    def poll(self) -> None:
        """Reads up to a few records of every partition, interleaved as they come."""
        if not self.alive or not self.machine.is_reading:
            return
        self.sought = False
        at = dict(self.machine.positions())
        left = {p: self.clock.between(0, 6) for p in at}
        while any(left.values()) and not self.sought and self.machine.is_reading:
            partition = self.clock.random.choice([p for p, n in left.items() if n > 0])
            first = at[partition]
            log_start = self.world.topic.log_starts[partition]
            if self.world.bounds is not None and first >= self.world.bounds[partition]:
                left[partition] = 0  # nothing of it is asked for any more, whatever has expired
                continue
            if first < log_start:
                self.handle(m.BelowLogStart(self.clock.now_ms, partition, first, log_start))
                return
            end = min(first + self.clock.between(1, left[partition]), self.world.end_of(partition))
            left[partition] = left[partition] - (end - first) if end > first else 0
            if end > first:
                at[partition] = self.append(partition, first, end)
        if self.alive and self.clock.chance(20):
            self.spill()

    def append(self, partition: int, first: int, end: int) -> int:
        """Splits a run along the windows; what nobody wants is thrown away. Returns where it got to."""
        while first < end and not self.sought and self.machine.is_reading:
            windows = [w for w in self.machine.windows() if w.end is None or w.end[partition] > first]
            if not windows:
                return end
            window = windows[0]
            stop = end if window.end is None else min(end, window.end[partition])
            if self.is_poisoned(window.number, partition, first, stop):
                self.crash()
                self.sought = True
                return end
            run = m.Run(partition, first, stop)
            self.store.append(window.number, run, self.world.topic.between(partition, first, stop))
            self.handle(m.Read(self.clock.now_ms, window.number, (run,), self.store.totals(window.number)))
            first = stop
        return first

    def is_poisoned(self, number: int, partition: int, first: int, stop: int) -> bool:
        if self.world.poison is None:
            return False
        version, poisoned, offset = self.world.poison
        mine = self.machine.sequences[number].record.spec_version == version
        return mine and partition == poisoned and first <= offset < stop

    # ------------------------------------------------------------ commands

    def handle(self, event: m.Event) -> None:
        if not self.alive:
            return
        for command in self.machine.handle(event):
            self.clock.note(self.token, command)
            self.execute(command)

    def execute(self, command: m.Command) -> None:
        now_ms = self.clock.now_ms
        match command:
            case m.AskCheckpoint() | m.AskSequences():
                self.ask(command)
            case m.Cut(sequence):
                self.store.cut(sequence)
            case m.DropPast(sequence, end):
                self.drop_past(sequence, end)
            case m.Seek():
                self.sought = True
            case m.Publish(record, again):
                self.clock.after(self.clock.between(50, 600), lambda: self.publish(record, again))
            case m.Drop(number) | m.Discard(number):
                self.store.drop(number)
                self.spill()
                self.handle(m.SpaceFreed(now_ms, self.store.held_bytes()))
            case m.Reply():
                self.replies.append(command)
            case m.Finish(succeeded, error):
                self.end(succeeded, error)
            case m.RaiseEnd():
                self.raise_end(command.ref, command.end)
            case _:
                pass  # OpenSequence needs nothing here

    def drop_past(self, sequence: int, end: OffsetMap) -> None:
        """Drops only what can be read again (PR-9)."""
        position = self.machine.sequences[sequence].position
        if not self.can_read_again(sequence, end, position):
            self.handle(m.RereadImpossible(self.clock.now_ms, sequence))
            return
        back = self.store.drop_past(sequence, end, position)
        self.spill()
        self.handle(m.Dropped(self.clock.now_ms, sequence, back, self.store.totals(sequence)))

    def can_read_again(self, sequence: int, end: OffsetMap, position: OffsetMap) -> bool:
        """Whether the log still holds what dropping would give up."""
        trial = Store(self.store.spilled())
        back = trial.drop_past(sequence, end, position)
        return all(o >= self.world.topic.log_starts[p] for p, o in back.items() if o < position[p])

    def raise_end(self, ref: SequenceRef, end: OffsetMap) -> None:
        """Asked until it is answered: a silence taken for a no would give up rows that nobody else has."""

        def done(answer: tuple[SequenceRecord | None] | None) -> None:
            if answer is None:
                self.clock.after(LOOP_MS, lambda: self.raise_end(ref, end))
            else:
                self.handle(m.EndRaised(self.clock.now_ms, ref, answer[0]))

        if self.alive:
            self.call(lambda leader: leader.raise_end(self.token, ref, end), done)

    def ask(self, command: m.AskCheckpoint | m.AskSequences) -> None:
        if isinstance(command, m.AskCheckpoint):
            ask = command.ask
            self.call(
                lambda leader: leader.ask_checkpoint(ask),
                lambda answer: self.handle(m.CheckpointAnswered(self.clock.now_ms, ask.ref, answer)),
            )
        else:
            number = command.from_number
            self.call(
                lambda leader: leader.sequences(self.token, number),
                lambda answer: self.handle(m.SequencesAnswered(self.clock.now_ms, answer)),
            )

    # ------------------------------------------------------------ publish executor

    def publish(self, record: SequenceRecord, again: bool) -> None:
        """Stage, push, then the transaction; each step on its own, with its own faults."""
        if not self.alive:
            return
        if self.frozen:
            self.clock.after(self.frozen_ms - self.clock.now_ms, lambda: self.publish(record, again))
            return
        number = record.ref.number
        if again and number in self.world.pushed.get(self.token, {}):
            self.commit(record)
            return
        rows = sorted(self.store.rows(number))
        path = f"{record.ref.name}/{self.token}/{self.world.count('path')}"

        def staged(segment_id: Any) -> None:
            if segment_id is None:
                self.handle(m.PublishFailed(self.clock.now_ms, number, "staging failed"))
                return
            self.clock.after(self.clock.between(50, 900), lambda: self.push(record, path, rows, segment_id))

        self.call(lambda leader: leader.stage(self.token, record, path, bool(rows)), staged)

    def push(self, record: SequenceRecord, path: str, rows: list[Row], segment_id: str) -> None:
        if not self.alive:
            return
        if rows:
            self.world.deep_storage[path] = rows
        if self.clock.chance(self.world.faults.upload_fails):
            self.handle(m.PublishFailed(self.clock.now_ms, record.ref.number, "upload failed"))
            return
        payload = self.world.segment_payload(segment_id, path, rows) if rows else None
        self.world.pushed.setdefault(self.token, {})[record.ref.number] = payload
        self.commit(record)

    def commit(self, record: SequenceRecord) -> None:
        """The transaction, with exactly what was pushed."""
        payload = self.world.pushed[self.token][record.ref.number]
        assert record.end is not None
        topic = self.world.topic
        counts = {}
        for p, start in record.start.items():
            rows = topic.between(p, start, record.end[p])
            bad = sum(row in topic.bad for row in rows)
            holes = record.end[p] - start - len(rows)
            counts[p] = PartitionCounts(good=len(rows) - bad, partly_good=bad, no_record=holes)
        request = PublishRequest(
            self.token,
            record.ref,
            record.start,
            record.end,
            record.epochs,
            (payload,) if payload else (),
            None,
            counts,
            rows_in=payload["rows"] if payload else 0,
            rows_stored=payload["rows"] if payload else 0,
        )

        def done(reply: Any) -> None:
            reply = reply or PublishReply(PublishOutcome.UNKNOWN)
            self.handle(m.PublishEnded(self.clock.now_ms, record.ref.number, reply))

        self.call(lambda leader: leader.publish(request), done)

    def refused(self, error: AttemptRefused) -> None:
        self.handle(m.Refused(self.clock.now_ms, str(error)))

    # ------------------------------------------------------------ live rows

    def live(self, ask: LiveAsk) -> tuple[LiveStatus, LiveRows]:
        status, numbers = live_sequences(self.machine.view(), ask)
        held = self.machine.sequences
        return status, [(held[n].record, held[n].position, self.store.rows(n)) for n in numbers]
