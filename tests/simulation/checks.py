"""What must hold after every change of the store, at every answer to a query, and after healing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingest.metadata.records import AuditRow, DesiredState, LedgerRow, NextSequence, StreamOffsets
from ingest.metadata.supervisor_rules import exceptions_counter
from ingest.offsets import OffsetMap
from ingest.protocol import SequenceRef, SequenceState
from ingest.supervisor.messages import SealSequence

if TYPE_CHECKING:
    from tests.simulation.query_node import Answered, QueryNode, Snapshot
    from tests.simulation.reader_session import ReaderSession
    from tests.simulation.world import World


SLOTS_MAX = 16
"""Of a group at a time: three replicas, those that take their places, and silent ones beside which others start."""
LEARN_MS = 5_000
"""How long a leader may take to hear of a publish whose reply was lost."""


class Violation(AssertionError):
    """An invariant of docs/protocol.md does not hold; the first word names it."""


class Checks:
    """Incremental: each ledger row, sequence and answer is looked at once."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.ledger_seen = 0
        self.chain: dict[int, int] = {}
        self.epochs: dict[int, int] = {}
        self.ends: dict[SequenceRef, OffsetMap] = {}
        self.bad: dict[int, int] = {}
        self.crossed: dict[int, int] = {}
        self.version = 0
        self.at_version: tuple[object, ...] = ()

    # ------------------------------------------------------------ the store

    def after_commit(self) -> None:
        """Called by the store in every transaction that changed something."""
        self.offsets_chain()
        self.sequences()
        self.files()

    def offsets_chain(self) -> None:
        """PB-1, PB-2, PB-4: ledger rows follow each other without gap or overlap per partition and epoch,
        each holds exactly its range's records, and the committed offsets stand at their end."""
        world = self.world
        stream = world.store.state.streams.get((world.supervisor, world.topic_name))
        if stream is None:
            return
        rows = world.store.state.published.get(world.supervisor, [])
        for row in rows[self.ledger_seen :]:
            for p, start in row.start.items():
                if row.epochs[p] != self.epochs.get(p, 0):
                    raise Violation(f"PB-5 {row.ref.name} was published under epoch {row.epochs[p]} of partition {p}")
                expected = self.chain.get(p, stream.starts[p])
                if start != expected:
                    raise Violation(f"PB-1 {row.ref.name} starts at {start} of partition {p}, not at {expected}")
                self.chain[p] = row.end[p]
            self.published(row.segment_ids, row.start, row.end, row.epochs)
            self.bad_records(row)
            self.bounded(row)
        self.ledger_seen = len(rows)
        for p, epoch in stream.epochs.items():
            if epoch != self.epochs.get(p, 0):
                self.epochs[p] = epoch
                self.chain[p] = stream.committed[p]
            if stream.committed[p] != self.chain.get(p, stream.starts[p]):
                raise Violation(f"PB-4 partition {p} is committed at {stream.committed[p]}, the ledger ends elsewhere")
        self.versions(stream)

    def bounded(self, row: LedgerRow) -> None:
        """BD-1: nothing at or past the end of a bounded range is published."""
        bounds = self.world.bounds
        past = [p for p, end in row.end.items() if bounds is not None and end > max(bounds[p], row.start[p])]
        if past:
            raise Violation(f"BD-1 {row.ref.name} ends at {row.end} in partitions {past}, past {bounds}")

    def versions(self, stream: StreamOffsets) -> None:
        """PB-6: the version only grows, and one version is one picture (PR-2)."""
        world = self.world
        version = world.store.state.tables.get(world.table, 0)
        if version < self.version:
            raise Violation(f"PB-6 the table went from version {self.version} to {version}")
        held = (stream.committed, stream.epochs, len(world.store.state.segments.get(world.table, {})))
        if version == self.version and self.at_version and held != self.at_version:
            raise Violation(f"PB-6 version {version} was {self.at_version}, is now {held}")
        self.version, self.at_version = version, held

    def published(self, segment_ids: tuple[str, ...], start: OffsetMap, end: OffsetMap, epochs: OffsetMap) -> None:
        """The files of a publish hold the records of its range, each once."""
        world = self.world
        entries = world.store.state.segments.get(world.table, {})
        paths = [str(entries[name].payload["loadSpec"]["path"]) for name in segment_ids]
        found = sorted(row for path in paths for row in world.deep_storage.get(path, []))
        expected = sorted(row for p in start for row in world.topic.between(p, start[p], end[p]))
        if found != expected:
            missing, more = set(expected) - set(found), set(found) - set(expected)
            raise Violation(
                f"PB-2 {start} to {end}: missing {sorted(missing)[:5]}, too many {sorted(more)[:5]}"
                f", {len(found)} rows for {len(expected)} records"
            )
        for path in paths:
            world.published_rows[path] = [(p, epochs[p], offset) for p, offset in world.deep_storage[path]]

    def sequences(self) -> None:
        """CK-2, CK-3: an end is only ever raised, one open sequence owns a partition."""
        owners: dict[int, SequenceRef] = {}
        for record in self.world.store.state.unpublished.get(self.world.supervisor, ()):
            if record.state is SequenceState.OPEN:
                for p in record.start:
                    if p in owners:
                        raise Violation(f"CK-3 {owners[p].name} and {record.ref.name} both own partition {p}")
                    owners[p] = record.ref
            elif record.end is not None:
                if not record.end.reached(self.ends.get(record.ref, record.end)):
                    raise Violation(f"CK-2 {record.ref.name} ended at {self.ends[record.ref]}, now at {record.end}")
                self.ends[record.ref] = record.end

    def sealing(self, seal: SealSequence) -> None:
        """CK-8: no end is agreed below what was reported of the sequence: it was answered, and whoever
        still wants it reads it again (PR-10)."""
        ref, end = seal.ref, seal.end
        if seal.following is not None:
            self.reading_on(seal.following)
        for attempt in self.world.store.attempts(ref.supervisor, None, 1_000):
            mine = attempt.group == ref.group and attempt.positions_sequence == ref.number
            if mine and not end.reached(attempt.positions):
                raise Violation(f"CK-8 {ref.name} ends at {end}, {attempt.token} had reached {attempt.positions}")

    def reading_on(self, following: NextSequence) -> None:
        """PX-1: past the limit of bad messages nothing is opened under that version of the spec (PR-16)."""
        crossed_ms = self.crossed.get(following.spec_version)
        if crossed_ms is not None and self.world.clock.now_ms - crossed_ms > LEARN_MS:
            raise Violation(f"PX-1 a sequence is opened under version {following.spec_version}, whose limit is crossed")

    def bad_records(self, row: LedgerRow) -> None:
        """The ledger's own count of bad messages per version, against the store's."""
        world, version = self.world, row.spec_version
        self.bad[version] = self.bad.get(version, 0) + sum(c.parse_exceptions for c in row.counts.values())
        counted = world.store.state.counters.get(exceptions_counter(world.supervisor, version), 0)
        if counted != self.bad[version]:
            raise Violation(f"PX-2 the ledger has {self.bad[version]} bad messages of version {version}, not {counted}")
        if self.is_crossed(version):
            self.crossed.setdefault(version, world.clock.now_ms)

    def is_crossed(self, version: int) -> bool:
        """Whether more bad messages were published under this version than it allows."""
        most = self.world.store.spec(self.world.supervisor, version)["most"]
        return most is not None and self.bad.get(version, 0) > most

    def resetting(self, moves: OffsetMap, audit: AuditRow) -> None:
        """RS-1: what nobody asked for moves forwards only, over what has expired, and is recorded (PR-24)."""
        stream = self.world.store.state.streams[self.world.supervisor, self.world.topic_name]
        asked = audit.detail["reason"] == "reset" or audit in self.world.store.state.audit
        back = [p for p, offset in moves.items() if offset <= stream.committed.get(p, -1)]
        if back and not asked:
            raise Violation(f"RS-1 {moves} moves partitions {back} back from {stream.committed}")

    def files(self) -> None:
        """DS-1: a published file exists."""
        for path in self.world.published_rows:
            if path not in self.world.deep_storage:
                raise Violation(f"DS-1 the file {path} of a published segment is gone")

    def killed(self, token: str, before: dict[int, int], after: dict[int, int]) -> None:
        """LV-5: a task that was ended from outside is started again soon, whatever went before."""
        latest = self.world.clock.now_ms + self.world.timing.restart_killed_max_ms
        for group, not_before_ms in after.items():
            if not_before_ms > max(latest, before.get(group, 0)):
                raise Violation(f"LV-5 {token} was killed, its group {group} waits until {not_before_ms}")

    # ------------------------------------------------------------ queries

    def answer(self, node: QueryNode, snapshot: Snapshot, answered: Answered, rows: int, complete: bool = True) -> None:
        """HO-1..HO-4: every record up to the positions exactly once, and nothing answered before is missing.

        ``complete`` is False for a node that answered with what it holds of a dead task, as it may for a
        moment to readers who saw just that (design 6): it then owes no more than it answered before.
        """
        if rows != len(answered.rows):
            raise Violation(f"HO-2 {node.name} counts {rows} rows, {len(answered.rows)} are different")
        topic, committed = self.world.topic, snapshot.stream.committed
        if complete:
            self._nothing_known_is_absent(node, snapshot, answered)
        expected = {row for path in snapshot.paths for row in self.world.published_rows[path]}
        for p, position in answered.positions.items():
            epoch = answered.epochs[p]
            expected |= {(p, epoch, o) for _, o in topic.between(p, committed[p], position)}
        if expected != answered.rows:
            missing, more = sorted(expected - answered.rows), sorted(answered.rows - expected)
            raise Violation(f"HO-1 {node.name} at version {answered.version}: missing {missing[:5]}, has {more[:5]}")
        before = node.answered
        if before is None:
            return
        gone = {row for row in before.rows - answered.rows if answered.epochs[row[0]] == before.epochs[row[0]]}
        if gone:
            raise Violation(f"HO-3 {node.name} lost {sorted(gone)[:5]} between {before.version} and {answered.version}")

    def shown(self, reader: ReaderSession, node: QueryNode, answered: Answered) -> None:
        """SE-1: whichever node answers, a session is shown every row that it was shown before, unless the reset
        epoch was raised since."""
        before = reader.shown
        if before is None:
            return
        gone = {row for row in before.rows - answered.rows if answered.epochs[row[0]] <= before.epochs[row[0]]}
        if gone:
            at, now_at = before.version, answered.version
            raise Violation(f"SE-1 {reader.name} saw {sorted(gone)[:5]} at {at}, {node.name} shows less at {now_at}")

    @staticmethod
    def _nothing_known_is_absent(node: QueryNode, snapshot: Snapshot, answered: Answered) -> None:
        for group in snapshot.groups:
            for record in group.sequences:
                target = record.end if record.state is SequenceState.SEALED else group.reported
                if record.assigned and target is not None and not answered.positions.reached(target):
                    raise Violation(f"HO-4 {node.name} leaves out what is known of {record.ref.name} up to {target}")

    # ------------------------------------------------------------ the end

    def _remembers(self) -> str | None:
        """RM-1: in the end a supervisor knows attempts and groups that there are, and nothing of others."""
        for overlord in self.world.overlords:
            machine = overlord.machine
            if machine is None:
                continue
            tokens = {token for group in machine.groups.values() for token in group.replicas}
            gone = sorted(machine.group_of.keys() - tokens)
            slots = {task for group in machine.groups.values() for task in group.attempt_numbers}
            if gone or machine.opening or len(slots) > SLOTS_MAX * len(machine.groups):
                return f"RM-1 {overlord.name} remembers {gone}, {machine.opening}, {sorted(slots)}"
        return None

    def unfinished(self) -> str | None:
        """LV-1: everything is published and answered; what is not, in words."""
        world = self.world
        if world.store.state.supervisors[world.supervisor].desired is DesiredState.TERMINATED:
            return self._not_ended()
        stream = world.store.state.streams.get((world.supervisor, world.topic_name))
        if stream is None:
            return "LV-1 no offsets were ever stored"
        if self.is_crossed(world.store.state.supervisors[world.supervisor].version):
            return self._not_ended() or world.cure()
        for p in sorted(world.topic.ends):
            end, committed = world.end_of(p), stream.committed.get(p, -1)
            moved_on = world.bounds is not None and committed > end  # by a reset
            if committed != end and not moved_on:
                return f"LV-1 partition {p} is committed at {stream.committed.get(p)}, the stream ends at {end}"
        return self._not_answered() or self._not_asleep() or self._remembers()

    def _not_answered(self) -> str | None:
        world = self.world
        if (world.supervisor, world.topic_name) not in world.store.state.streams:
            return None  # ended before its first offsets were stored: there is no table
        version = world.store.table_versions()[world.table]
        for node in world.nodes:
            if node.is_dead:
                continue
            if node.answered is None or node.answered.version != version:
                at = node.answered.version if node.answered else "no version"
                return f"LV-2 {node.name} answers at {at}, the table is at {version}: {node.refusal}"
            for reader in world.readers:
                if not node.shows_no_less(reader.seen()):
                    return f"SE-2 {node.name} at the newest version has not reached what {reader.name} saw"
        return None

    def _not_asleep(self) -> str | None:
        """LV-4: where a quiet stream makes its supervisor idle, or a range was read, no task is left once all is
        published."""
        alive = sorted(token for token, task in self.world.tasks.items() if task.alive)
        if (self.world.quiet.idle_after_ms is None and self.world.bounds is None) or not alive:
            return None
        return f"LV-4 nothing comes any more, but {alive} run"

    def _not_ended(self) -> str | None:
        """LV-3: a terminated or stopped supervisor publishes what was read and leaves no task behind."""
        world = self.world
        left = world.store.state.unpublished.get(world.supervisor, ())
        if left:
            return f"LV-3 at its end, but {left[0].ref.name} is {left[0].state.value}"
        alive = sorted(token for token, task in world.tasks.items() if task.alive)
        if alive:
            return f"LV-3 at its end, but {alive} run"
        return self._not_answered()
