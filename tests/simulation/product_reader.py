"""The query node of the simulation with the product's own decisions in place of the model's."""

from __future__ import annotations

from collections.abc import Iterator

from ingest.metadata.records import GroupState
from ingest.offsets import OffsetMap
from ingest.protocol import SequenceState
from query.assembly import Answer, AskAlso, Missing, View, decide, vector_of
from query.session import Seen, floor_of
from query.source import LiveAttempt, RequiredSequence, TableSnapshot
from segments.live import LiveAnswer, LiveAsk, LiveSequence
from segments.schema import SegmentSchema
from tests.simulation.disk import Row
from tests.simulation.query_node import Answered, QueryNode, Snapshot
from tests.simulation.world import Rules, World

SCHEMA = SegmentSchema.of([])


class ProductReader(QueryNode):
    """Asks, decides and keeps what it holds as ``query.live`` does; the checks are the model's."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.held: View | None = None
        # Rows by (token, sequence, how far): what a mirror would hold on disk.
        self.mirrored: dict[tuple[str, int, tuple[tuple[int, int], ...]], list[Row]] = {}

    def ask(self, snapshot: Snapshot, seen: Seen | None = None) -> None:
        if self.is_dead or self.clock.now_ms < self.down_ms:
            return
        if self.answered is None:
            # It was restarted: nothing is held.
            self.held, self.mirrored = None, {}
        table = self.table_snapshot(snapshot)
        answers: dict[str, LiveAnswer | None] = {}
        trust = not self.clock.chance(0.3) and self.held is not None
        floor = floor_of(self.held, seen)
        while True:
            verdict = decide(table, floor, answers, trust_held=trust)
            if not isinstance(verdict, AskAlso):
                break
            answers |= {attempt.token: self.answer_of(table, attempt) for attempt in verdict.attempts}
        if isinstance(verdict, Answer):
            self.adopt(snapshot, verdict.view, complete=self.held is None or not trust)
        else:
            self.refusal = verdict.reason
            if isinstance(verdict, Missing):
                self.clock.note(self.name, "waits:", verdict.reason)

    def answer_of(self, table: TableSnapshot, attempt: LiveAttempt) -> LiveAnswer | None:
        task = self.world.tasks.get(attempt.token)
        if task is None or not task.alive or task.frozen or task.cut_off or not task.registered:
            return None
        if self.clock.chance(self.world.faults.drop):
            return None
        vector, epochs = vector_of(table, attempt.supervisor)
        status, rows = task.live(LiveAsk(table.version, attempt.group, vector, epochs))
        sequences = []
        for record, position, held in rows:
            self.mirrored[attempt.token, record.ref.number, tuple(sorted(position.items()))] = list(held)
            end = None if record.end is None else dict(record.end)
            sequences.append(
                LiveSequence(record.ref.number, record.spec_version, dict(record.start), dict(position), end, ())
            )
        return LiveAnswer(status, attempt.token, attempt.group, tuple(sequences))

    def adopt(self, snapshot: Snapshot, view: View, complete: bool) -> None:
        rows = [row for path in snapshot.paths for row in self.world.published_rows[path]]
        for copy in view.copies.values():
            for sequence in copy.sequences:
                key = (copy.token, sequence.number, tuple(sorted(sequence.position.items())))
                rows += [(p, copy.epochs[p], offset) for p, offset in self.mirrored[key]]
        positions = OffsetMap({p: reached.offset for (_, p), reached in view.reached.items()})
        answered = Answered(view.version, snapshot.stream.epochs, positions, frozenset(rows))
        self.world.checks.answer(self, snapshot, answered, len(rows), complete)
        self.answered, self.held = answered, view

    def table_snapshot(self, snapshot: Snapshot) -> TableSnapshot:
        supervisor = self.world.supervisor
        attempts = [
            LiveAttempt(supervisor, group.group, attempt.token, "", attempt.committer)
            for group in snapshot.groups
            for attempt in group.attempts
        ]
        return TableSnapshot(
            datasource=self.world.table,
            version=snapshot.version,
            schema=SCHEMA,
            segments=(),
            added=(),
            removed=(),
            committed={supervisor: dict(snapshot.stream.committed)},
            epochs={supervisor: dict(snapshot.stream.epochs)},
            required=tuple(required for group in snapshot.groups for required in _required(group)),
            attempts=tuple(attempts),
        )


def _required(group: GroupState) -> Iterator[RequiredSequence]:
    for record in group.sequences:
        if record.assigned and record.state in (SequenceState.OPEN, SequenceState.SEALED):
            reported = record.start
            if record.state is SequenceState.OPEN:
                reported = OffsetMap({p: max(start, group.reported.get(p, start)) for p, start in record.start.items()})
            yield RequiredSequence(
                group.supervisor,
                group.group,
                record.ref.number,
                record.spec_version,
                dict(record.start),
                dict(record.epochs),
                None if record.end is None else dict(record.end),
                dict(reported),
            )


class ProductRules(Rules):
    """The product's reader in every node."""

    def node(self, world: World, name: str) -> QueryNode:
        return ProductReader(world, name)
