"""A small world of tasks, publishes and kills, with a row-counting oracle for what a reader answers."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from query.assembly import Answer, AskAlso, KeepHeld, Missing, Newer, View, advance, decide, vector_of
from query.session import Seen, floor_of
from query.source import LiveAttempt, RequiredSequence, TableSnapshot
from segments.live import ChunkInfo, LiveAnswer, LiveAsk, LiveSequence, LiveStatus
from segments.schema import SegmentSchema

SUPERVISOR = "s"
Rows = tuple[int, int, int, int]  # (partition, epoch, first offset, offset after the last)


@dataclass
class Stored:
    """A sequence as the database knows it."""

    group: int
    number: int
    start: dict[int, int]
    epochs: dict[int, int]
    assigned: bool = False
    end: dict[int, int] | None = None
    reported: dict[int, int] = field(default_factory=dict)
    version: int = 0  # of its publish


@dataclass
class Attempt:
    """A task's copy: how far it has read each sequence. ``ends`` are those it was told."""

    token: str
    group: int
    alive: bool = True
    positions: dict[int, dict[int, int]] = field(default_factory=dict)
    ends: dict[int, dict[int, int]] = field(default_factory=dict)
    dropped_through: int = 0


class World:
    """Groups of replica tasks over partitions in which every offset is one row."""

    def __init__(self, rng: random.Random, groups: int, replicas: int) -> None:
        self.rng = rng
        self.version = 1
        self.committed = {p: rng.randrange(5) for p in range(groups * 2)}
        self.begin = dict(self.committed)
        self.epochs = dict.fromkeys(self.committed, 0)
        self.published: dict[int, list[Rows]] = {1: []}
        self.owned = {g: [2 * g, 2 * g + 1] for g in range(groups)}
        self.stored: list[Stored] = []
        self.attempts: list[Attempt] = []
        self.numbers = 0
        self.tokens = 0
        self.acknowledged = 0
        self.readers: dict[int, int] = {}
        for group in range(groups):
            self.open_sequence(group, {p: self.committed[p] for p in self.owned[group]})
            for _ in range(replicas):
                self.start_attempt(group)

    # -- what supervisor and tasks do

    def open_sequence(self, group: int, start: dict[int, int]) -> None:
        self.numbers += 1
        self.stored.append(Stored(group, self.numbers, start, {p: self.epochs[p] for p in start}))

    def unpublished(self, group: int) -> list[Stored]:
        return [s for s in self.stored if s.group == group and not s.version]

    def running(self, group: int) -> list[Attempt]:
        return [a for a in self.attempts if a.group == group and a.alive]

    def start_attempt(self, group: int) -> None:
        self.tokens += 1
        attempt = Attempt(f"t{self.tokens}", group)
        for stored in self.unpublished(group):
            stored.assigned = True
            attempt.positions[stored.number] = dict(stored.start)
            if stored.end is not None:
                attempt.ends[stored.number] = dict(stored.end)
        attempt.dropped_through = self.version
        self.attempts.append(attempt)

    def read(self, group: int) -> None:
        for attempt in self.running(group):
            if self.rng.random() < 0.7:
                self.read_on(attempt, 6)

    def read_on(self, attempt: Attempt, most: int) -> None:
        """Reads in the first sequence that is not at its told end."""
        for stored in self.unpublished(attempt.group):
            positions = attempt.positions.setdefault(stored.number, dict(stored.start))
            stored.assigned = True
            end = attempt.ends.get(stored.number)
            if end is None or any(positions[p] < end[p] for p in end):
                for p in positions:
                    step = self.rng.randrange(most)
                    positions[p] = positions[p] + step if end is None else min(end[p], positions[p] + step)
                return

    def seal(self, group: int) -> None:
        """Saves the furthest positions as the end, and tells some of the replicas."""
        stored = self.unpublished(group)[-1]
        copies = [a.positions[stored.number] for a in self.running(group) if stored.number in a.positions]
        if stored.end is not None or not copies:
            return
        end = {p: max([stored.start[p], *(c[p] for c in copies)]) for p in stored.start}
        if end == stored.start:
            return
        stored.end = end
        stored.reported = dict(end)
        for attempt in self.running(group):
            # Not told: reads past the end meanwhile.
            if self.rng.random() < 0.7:
                attempt.ends[stored.number] = dict(end)
            else:
                for p in attempt.positions.get(stored.number, {}):
                    attempt.positions[stored.number][p] += self.rng.randrange(4)
        self.open_sequence(group, dict(end))

    def tell(self, group: int) -> None:
        """Late ones hear the saved ends, and drop what they read past them."""
        for attempt in self.running(group):
            for stored in self.unpublished(group):
                if stored.end is not None and attempt.ends.get(stored.number) != stored.end:
                    attempt.ends[stored.number] = dict(stored.end)
                    positions = attempt.positions.setdefault(stored.number, dict(stored.start))
                    attempt.positions[stored.number] = {p: min(positions[p], stored.end[p]) for p in positions}

    def heartbeat(self, group: int) -> None:
        for attempt in self.running(group):
            for stored in self.unpublished(group):
                for p, at in attempt.positions.get(stored.number, {}).items():
                    stored.reported[p] = max(stored.reported.get(p, 0), at)

    def publish(self, group: int) -> None:
        stored = self.unpublished(group)[0]
        able = [
            a for a in self.running(group) if a.ends.get(stored.number) and a.positions.get(stored.number) == stored.end
        ]
        if stored.end is None or not able:
            return
        rows = [(p, self.epochs[p], stored.start[p], stored.end[p]) for p in stored.start]
        self.version += 1
        stored.version = self.version
        self.committed |= stored.end
        self.published[self.version] = [*self.published[self.version - 1], *rows]

    def void(self, group: int) -> None:
        """Every unpublished sequence is given up and read again under new numbers."""
        self.stored = [s for s in self.stored if s.group != group or s.version]
        self.version += 1
        self.published[self.version] = self.published[self.version - 1]
        self.open_sequence(group, {p: self.committed[p] for p in self.owned[group]})
        for attempt in self.running(group):
            attempt.alive = False
        self.start_attempt(group)

    def reset(self, group: int) -> None:
        """One partition jumps forward in a new epoch; the others are read again."""
        partition = self.rng.choice(self.owned[group])
        self.epochs[partition] += 1
        self.committed[partition] += 50
        self.void(group)

    def kill(self, group: int) -> None:
        if self.running(group):
            self.rng.choice(self.running(group)).alive = False

    def drop(self, group: int) -> None:
        for attempt in self.running(group):
            for stored in self.stored:
                if stored.number in attempt.positions and 0 < stored.version <= self.acknowledged:
                    del attempt.positions[stored.number]
                    attempt.dropped_through = max(attempt.dropped_through, stored.version)

    def acknowledge(self, reader: Reader) -> None:
        """What every node has: tasks drop up to it."""
        self.readers[id(reader)] = reader.snapshot.version
        self.acknowledged = min(self.readers.values())

    def step(self) -> None:
        group = self.rng.choice(list(self.owned))
        if not self.running(group) and self.rng.random() < 0.4:
            self.start_attempt(group)
        actions = [self.read] * 6 + [self.heartbeat, self.seal, self.seal, self.tell, self.publish, self.publish]
        actions += [self.drop, self.kill] + [self.void, self.reset] * (self.rng.random() < 0.15)
        self.rng.choice(actions)(group)

    def heal(self) -> None:
        """All groups run, are told everything, and read up to what was reported and past it."""
        for group in self.owned:
            if not self.running(group):
                self.start_attempt(group)
            self.tell(group)
            for attempt in self.running(group):
                for _ in range(400):
                    self.read_on(attempt, 6)

    # -- what a node sees

    def snapshot(self) -> TableSnapshot:
        required = [
            RequiredSequence(SUPERVISOR, s.group, s.number, 1, dict(s.start), dict(s.epochs), s.end, dict(s.reported))
            for s in self.stored
            if s.assigned and not s.version
        ]
        attempts = [
            LiveAttempt(SUPERVISOR, a.group, a.token, "127.0.0.1:1", index == 0)
            for index, a in enumerate(self.attempts)
            if a.alive or self.rng.random() < 0.2
        ]
        return TableSnapshot(
            "t", self.version, SegmentSchema.of([]), (), (), (),
            {SUPERVISOR: dict(self.committed)}, {SUPERVISOR: dict(self.epochs)}, tuple(required), tuple(attempts),
        )  # fmt: skip

    def ask(self, token: str, ask: LiveAsk) -> LiveAnswer | None:
        attempt = next(a for a in self.attempts if a.token == token)
        if not attempt.alive or self.rng.random() < 0.05:
            return None
        if ask.version < attempt.dropped_through and ask.version < self.version:
            return LiveAnswer(LiveStatus.TOO_OLD, token, attempt.group)
        sequences = []
        for number, positions in sorted(attempt.positions.items()):
            stored = next((s for s in self.stored if s.number == number), None)
            if stored is None or any(stored.epochs[p] != ask.epochs.get(p) for p in stored.start):
                return LiveAnswer(LiveStatus.EPOCH, token, attempt.group)
            ranges = tuple((p, stored.start[p], at) for p, at in positions.items())
            rows = sum(end - start for _, start, end in ranges)
            chunk = ChunkInfo(number, number, rows, rows, ranges, 0, 0)
            end = attempt.ends.get(number)
            sequences.append(
                LiveSequence(number, 1, dict(stored.start), dict(positions), end, (chunk,) if rows else ())
            )
        return LiveAnswer(LiveStatus.OK, token, attempt.group, tuple(sequences))


class Reader:
    """A query node: loads snapshots when it likes, asks, decides, and answers; the oracle counts its rows."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.snapshot = world.snapshot()
        world.acknowledge(self)
        self.held: View | None = None
        self.counts: dict[tuple[int, int], int] = {}
        self.last_version = 0

    def load(self) -> None:
        self.snapshot = self.world.snapshot()
        self.world.acknowledge(self)
        if self.held is not None:
            self.held = advance(self.snapshot, self.held) or self.held

    def query(self, trust: bool = True) -> View | None:
        """Answers, or None where a real node would wait."""
        answers: dict[str, LiveAnswer | None] = {}
        for _ in range(20):
            verdict = decide(self.snapshot, self.held, answers, trust)
            match verdict:
                case Answer(view):
                    self.held = view
                    self.count(view)
                    return view
                case AskAlso(attempts):
                    vector, epochs = vector_of(self.snapshot, SUPERVISOR)
                    for attempt in attempts:
                        ask = LiveAsk(self.snapshot.version, attempt.group, vector, epochs)
                        answers[attempt.token] = self.world.ask(attempt.token, ask)
                case Newer():
                    self.load()
                    answers = {}
                case KeepHeld():
                    assert self.held is not None
                    self.count(self.held)
                    return self.held
                case Missing():
                    return None
        raise AssertionError("a query does not end")

    def count(self, view: View) -> None:
        """Each row once, and per partition and epoch never fewer than before."""
        rows = list(self.world.published[view.version])
        for copy in view.copies.values():
            for sequence in copy.sequences:
                rows += [(p, copy.epochs[p], start, sequence.position[p]) for p, start in sequence.start.items()]
        assert view.version >= self.last_version, "the version fell"
        self.last_version = view.version
        ends: dict[tuple[int, int], int] = {}
        counts: dict[tuple[int, int], int] = {}
        for p, epoch, start, end in sorted(rows):
            ends.setdefault((p, epoch), start if epoch else self.world.begin[p])
            assert start >= ends[p, epoch], "a row is counted twice"
            assert start <= ends[p, epoch], "a row is missing"
            ends[p, epoch] = end
            counts[p, epoch] = counts.get((p, epoch), 0) + end - start
        for (p, epoch), before in self.counts.items():
            was_reset = (p, epoch + 1) in counts or self.world.epochs[p] > epoch
            assert was_reset or counts.get((p, epoch), 0) >= before, "the count fell"
        self.counts = {key: max(number, self.counts.get(key, 0)) for key, number in counts.items()}


class SessionReader(Reader):
    """A query node asked for a session: it answers no less than what the session saw at other nodes."""

    def query_after(self, seen: Seen | None) -> View | None:
        """As ``query.live`` does: as always, and then, when that is less than was seen, once more above it."""
        view = self.query()
        if view is None or seen is None or seen.is_reached_by(view):
            return view
        held = self.held
        answers: dict[str, LiveAnswer | None] = {}
        for _ in range(20):
            verdict = decide(self.snapshot, floor_of(held, seen), answers)
            match verdict:
                case Answer(view):
                    assert seen.is_reached_by(view), "less than was seen"
                    self.held = view
                    self.count(view)
                    return view
                case AskAlso(attempts):
                    vector, epochs = vector_of(self.snapshot, SUPERVISOR)
                    for attempt in attempts:
                        ask = LiveAsk(self.snapshot.version, attempt.group, vector, epochs)
                        answers[attempt.token] = self.world.ask(attempt.token, ask)
                case Newer():
                    self.load()
                    held, answers = self.held, {}
                case KeepHeld() | Missing():
                    return None
        raise AssertionError("a query does not end")
