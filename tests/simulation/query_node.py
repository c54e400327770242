"""One query node: moves from version to version in one step, and counts every row exactly once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ingest.metadata.records import GroupState, StreamOffsets
from ingest.offsets import OffsetMap
from ingest.protocol import SequenceRecord, SequenceState
from query.assembly import Reached, View
from query.session import Seen
from segments.live import LiveAsk, LiveStatus
from tests.simulation.disk import Row
from tests.simulation.task_process import LiveRows, TaskProcess

if TYPE_CHECKING:
    from tests.simulation.world import World

LOOP_MS = 700
TABLE = "edits"
EpochRow = tuple[int, int, int]
"""(partition, reset epoch, offset)."""


@dataclass(frozen=True)
class Snapshot:
    """One database snapshot (PR-2)."""

    version: int
    stream: StreamOffsets
    groups: tuple[GroupState, ...]
    paths: tuple[str, ...]


@dataclass(frozen=True)
class Answered:
    """What the node answers queries with: the mirror. ``positions`` is how far it reaches."""

    version: int
    epochs: OffsetMap
    positions: OffsetMap
    rows: frozenset[EpochRow]

    @property
    def view(self) -> View:
        """As the product compares it with what a session saw."""
        return View(self.version, {}, {(TABLE, p): Reached(self.epochs[p], at) for p, at in self.positions.items()})


class QueryNode:
    """The reader of PR-1, 4, 6 and 7 as a model. Its mirror is its last accepted answer."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.clock = world.clock
        self.name = name
        self.answered: Answered | None = None
        self.down_ms = 0
        self.is_dead = False
        self.refusal = ""
        self.clock.after(self.clock.between(0, LOOP_MS), self.loop)

    def die(self) -> None:
        """For good: its lease ends, and no hand-off waits for it any more."""
        self.clock.note(self.name, "dies")
        self.is_dead = True

    def loop(self) -> None:
        if self.is_dead:
            return
        self.clock.after(LOOP_MS + self.clock.between(-100, 100), self.loop)
        if self.clock.now_ms < self.down_ms:
            return
        if self.clock.chance(self.world.faults.node_restart):
            self.clock.note(self.name, "restarts")
            self.answered = None
            self.down_ms = self.clock.now_ms + self.clock.between(200, 8_000)
            return
        snapshot = self.snapshot()
        if snapshot is not None:
            self.clock.after(self.world.network.delay_ms(), lambda: self.ask(snapshot))
        self.renew()

    def renew(self) -> None:
        """The lowest version it may still have to fetch for: the one it answers at (PR-6)."""
        if self.clock.chance(self.world.faults.ack_lost):
            return
        acknowledged = {} if self.answered is None else {self.world.table: self.acknowledges(self.answered)}
        self.world.store.renew_node(self.name, ["query"], self.name, self.clock.now_ms, acknowledged, {})

    def acknowledges(self, answered: Answered) -> int:
        return answered.version

    # ------------------------------------------------------------ sessions

    def question(self, seen: Seen | None) -> Answered | None:
        """What it shows to who saw that at other nodes: no less, after one look for news where it must. None:
        the question has no answer here and now (PR-7)."""
        if self.is_dead or self.clock.now_ms < self.down_ms:
            return None
        if not self.shows_no_less(seen):
            snapshot = self.snapshot()
            if snapshot is not None:
                self.ask(snapshot, seen)
        return self.answered if self.shows_no_less(seen) else None

    def shows_no_less(self, seen: Seen | None) -> bool:
        return self.answered is not None and (seen is None or seen.is_reached_by(self.answered.view))

    # ------------------------------------------------------------ the step

    def snapshot(self) -> Snapshot | None:
        """Version, segments, offset vector and sequences at one instant."""
        world = self.world
        stream = world.store.offsets(world.supervisor, world.topic_name)
        if stream is None:
            return None
        entries = world.store.state.segments.get(world.table, {})
        paths = tuple(str(entry.payload["loadSpec"]["path"]) for entry in entries.values())
        version = world.store.table_versions()[world.table]
        return Snapshot(version, stream, tuple(world.store.groups(world.supervisor)), paths)

    def ask(self, snapshot: Snapshot, seen: Seen | None = None) -> None:
        """Asks one replica of each group; takes all answers together, or none. ``seen`` helps to choose, where
        there is a choice: whether it was reached is judged afterwards."""
        if self.is_dead or self.clock.now_ms < self.down_ms:
            return
        chosen: list[LiveRows] = []
        for group in snapshot.groups:
            answer = self.best_answer(snapshot, group)
            if answer is None:
                self.refusal = f"group {group.group}: no complete answer"
                return
            chosen.append(answer)
        self.take(snapshot, chosen)

    def best_answer(self, snapshot: Snapshot, group: GroupState) -> LiveRows | None:
        """The furthest complete answer of a replica; nothing is needed of a group that nobody was
        ever told to read (PR-7)."""
        required = self.required(group)
        if not required:
            return []
        stream = snapshot.stream
        vector = {p: stream.committed[p] for p in group.partitions}
        epochs = {p: stream.epochs[p] for p in group.partitions}
        ask = LiveAsk(snapshot.version, group.group, vector, epochs)
        best: LiveRows | None = None
        best_sum = -1
        for attempt in group.attempts:
            task = self.world.tasks.get(attempt.token)
            answer = self.ask_task(task, ask) if task is not None else None
            if answer is None or not self.complete(group, required, answer):
                continue
            reach = sum(sum(position.values()) for _, position, _ in answer)
            if reach > best_sum:
                best, best_sum = answer, reach
        return best

    def ask_task(self, task: TaskProcess, ask: LiveAsk) -> LiveRows | None:
        silent = not task.alive or task.frozen or task.cut_off or not task.registered
        if silent or self.clock.chance(self.world.faults.drop):
            return None
        status, answer = task.live(ask)
        return answer if status is LiveStatus.OK else None

    def required(self, group: GroupState) -> list[SequenceRecord]:
        return [record for record in group.sequences if record.assigned]

    def complete(self, group: GroupState, required: list[SequenceRecord], answer: LiveRows) -> bool:
        """Sealed sequences to their end; the open one as far as any attempt ever reported (PR-7)."""
        reached = {record.ref.number: position for record, position, _ in answer}
        for record in required:
            position = reached.get(record.ref.number)
            if position is None:
                return False
            target = record.end if record.state is SequenceState.SEALED else group.reported
            if target is not None and not position.reached(target):
                return False
        return True

    def joined(self, snapshot: Snapshot, chosen: list[LiveRows]) -> dict[int, int] | None:
        """Per partition the sequences of all groups start at the vector and join without gap or
        overlap (PR-1); how far they reach, or None."""
        ranges: dict[int, list[tuple[int, int]]] = {}
        for answer in chosen:
            for record, position, _ in answer:
                for p, start in record.start.items():
                    if position[p] > start:
                        ranges.setdefault(p, []).append((start, position[p]))
        cursor = dict(snapshot.stream.committed)
        for p, pieces in sorted(ranges.items()):
            for start, reach in sorted(pieces):
                if start != cursor[p]:
                    self.refusal = f"partition {p}: {start} does not join {cursor[p]}"
                    return None
                cursor[p] = reach
        return cursor

    def take(self, snapshot: Snapshot, chosen: list[LiveRows]) -> None:
        cursor = self.joined(snapshot, chosen)
        if cursor is None or not self.may_move(snapshot, cursor):
            return
        rows = [row for path in snapshot.paths for row in self.world.published_rows[path]]
        epochs = snapshot.stream.epochs
        live: list[Row] = [row for answer in chosen for _, _, held in answer for row in held]
        rows += [(p, epochs[p], offset) for p, offset in live]
        answered = Answered(snapshot.version, epochs, OffsetMap(cursor), frozenset(rows))
        self.world.checks.answer(self, snapshot, answered, len(rows))
        self.answered = answered
        self.clock.note(self.name, "answers", len(rows), "rows at version", snapshot.version)

    def may_move(self, snapshot: Snapshot, cursor: dict[int, int]) -> bool:
        """Only forwards, and only when everything answered before is reached again (PR-4)."""
        before = self.answered
        if before is None:
            return True
        if snapshot.version < before.version:
            return False
        for p, position in before.positions.items():
            if snapshot.stream.epochs[p] == before.epochs[p] and cursor[p] < position:
                self.refusal = f"partition {p}: {cursor[p]} has not reached {position}"
                return False
        return True
