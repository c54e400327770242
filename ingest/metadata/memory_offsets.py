"""Committed offsets, reset epochs, groups, sequences and attempts, in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ingest.errors import AttemptRefused
from ingest.metadata import attempt_rules, backfill_rules, rules, supervisor_rules
from ingest.metadata.memory_state import Group, GroupKey, MemoryBase
from ingest.metadata.records import (
    AuditRow,
    DesiredState,
    GroupState,
    NextSequence,
    ResetWish,
    SpecVersion,
    StreamOffsets,
    SupervisorRecord,
)
from ingest.metadata.store import StoreConflict
from ingest.offsets import OffsetMap, furthest
from ingest.protocol import AttemptRecord, AttemptState, Place, SequenceRecord, SequenceRef, SequenceState, Source
from ingest.protocol.places import ReadBefore, furthest_read, numbered, read_by, with_moved_ids, with_new_ids

# A reset is repeated at once or never; so far back its own audit row is looked for.
REPEATS_MAX = 100


class MemoryOffsets(MemoryBase):
    """Offsets, groups and sequences."""

    def offsets(self, supervisor: str, topic: str) -> StreamOffsets | None:
        with self._lock:
            return self.state.streams.get((supervisor, topic))

    def init_offsets(  # noqa: PLR0913 - what one transaction stores
        self,
        generation: int,
        supervisor: str,
        datasource: str,
        topic: str,
        topic_id: str | None,
        starts: OffsetMap,
        spec_version: int | None = None,
    ) -> StreamOffsets:
        with self._writing("init_offsets", generation) as state:
            key = (supervisor, topic)
            stored = state.streams.get(key)
            if stored is None:
                if spec_version is not None:
                    self._check_version(supervisor, spec_version)
                self._touch()
                others = [s.epochs.values() for s in state.streams.values() if s.supervisor == supervisor]
                highest = max((epoch for epochs in others for epoch in epochs), default=None)
                epochs = OffsetMap(dict.fromkeys(starts, rules.first_epoch(highest)))
                stored = StreamOffsets(supervisor, topic, topic_id, starts, epochs, starts)
                state.streams[key] = stored
                state.stream_tables[key] = datasource
                self._raise_version(datasource)
            return stored

    def _check_version(self, supervisor: str, version: int) -> None:
        record = self.state.supervisors.get(supervisor)
        supervisor_rules.check_version(supervisor, None if record is None else record.version, version)

    def add_partitions(self, generation: int, supervisor: str, topic: str, starts: OffsetMap) -> StreamOffsets:
        with self._writing("add_partitions", generation) as state:
            stored = self._stream((supervisor, topic))
            fresh = rules.with_partitions(stored, starts, self._other_epochs(stored))
            if fresh != stored:
                self._store_stream(fresh)
                self._raise_version(state.stream_tables[(supervisor, topic)])
            return fresh

    def name_partitions(
        self, generation: int, supervisor: str, stream: str, found: Sequence[Source], ids: Mapping[str, str]
    ) -> tuple[Place, ...]:
        with self._writing("name_partitions", generation) as state:
            key = (supervisor, stream)
            known, stored = state.places.get(key, ()), state.streams.get(key)
            named = numbered(known, found)
            if named != known:
                self._touch()
                state.places[key] = named
            if stored is not None and (topic_id := with_new_ids(stored.topic_id, ids)) != stored.topic_id:
                self._store_stream(replace(stored, topic_id=topic_id))
            return named

    def places(self, supervisor: str, stream: str) -> tuple[Place, ...]:
        with self._lock:
            return self.state.places.get((supervisor, stream), ())

    def read_before(self, supervisor: str, stream: str) -> dict[Source, ReadBefore]:
        with self._lock:
            others = [s for s in self.state.streams.values() if s.supervisor == supervisor and s.topic != stream]
            places = self.state.places
            return furthest_read(
                read
                for s in others
                for read in read_by(s.topic, s.topic_id, s.committed, places.get((supervisor, s.topic), ()))
            )

    def _store_stream(self, stored: StreamOffsets) -> None:
        self._touch()
        self.state.streams[(stored.supervisor, stored.topic)] = stored

    def ask_reset(self, generation: int, wish: ResetWish) -> ResetWish:
        with self._writing("ask_reset", generation):
            return self._store_wish(wish)

    def reset_wishes(self, supervisor: str | None) -> list[ResetWish]:
        with self._lock:
            return [wish for wish in self.state.wishes.values() if supervisor in (None, wish.supervisor)]

    def carry_out_reset(
        self, generation: int, supervisor: str, topic: str, wish_id: int, audit: AuditRow
    ) -> StreamOffsets:
        with self._writing("carry_out_reset", generation) as state:
            stored = self._stream((supervisor, topic))
            wish = state.wishes.pop(wish_id, None)
            if wish is None:
                return stored
            moves = wish.moves
            if wish.backfill is not None:
                found = backfill_rules.skipped(stored, wish, wish.backfill["id"] in state.supervisors)
                audit = backfill_rules.jumped(audit, found, wish)
                if isinstance(found, str):
                    state.audit.append(audit)
                    return stored
                moves = found.moves
                self._leave(found, state.stream_tables[supervisor, topic], audit.at_ms)
            return self._reset(stored, moves, wish.topic_id, audit)

    def _leave(self, found: backfill_rules.Skipped, datasource: str, now_ms: int) -> None:
        """A supervisor that did not exist, for what is skipped."""
        name, state = found.stream.supervisor, self.state
        version = self._count("spec", name)
        state.history[name] = (SpecVersion(version, found.spec, now_ms), *state.history.get(name, ()))
        state.supervisors[name] = SupervisorRecord(name, datasource, version, found.spec, DesiredState.RUNNING, now_ms)
        self._store_stream(found.stream)
        state.stream_tables[name, found.stream.topic] = datasource

    def reset_offsets(
        self,
        generation: int,
        supervisor: str,
        topic: str,
        moves: OffsetMap | None,
        topic_id: str | None,
        audit: AuditRow,
    ) -> StreamOffsets:
        with self._writing("reset_offsets", generation) as state:
            stored = self._stream((supervisor, topic))
            repeated = audit in state.audit[-REPEATS_MAX:]
            return stored if repeated else self._reset(stored, moves, topic_id, audit)

    def _other_epochs(self, stored: StreamOffsets) -> OffsetMap:
        mine = (s for s in self.state.streams.values() if s.supervisor == stored.supervisor and s.topic != stored.topic)
        return furthest(*(stream.epochs for stream in mine))

    def _reset(
        self, stored: StreamOffsets, moves: OffsetMap | None, topic_id: str | None, audit: AuditRow
    ) -> StreamOffsets:
        moves, topic_id = rules.meant(stored, moves, topic_id)
        unpublished = self._unpublished(stored.supervisor, stored.topic)
        holders = [r.ref for r in unpublished if not moves.keys().isdisjoint(r.start)]
        self._void(rules.dependents(holders, unpublished))
        places = self.state.places.get((stored.supervisor, stored.topic), ())
        ids = with_moved_ids(stored.topic_id, topic_id, places, moves)
        moved = rules.reset_stream(stored, moves, ids, self._other_epochs(stored))
        self._store_stream(moved)
        self.state.audit.append(audit)
        self._raise_version(self.state.stream_tables[stored.supervisor, stored.topic])
        return moved

    def _void(self, doomed: Iterable[SequenceRecord]) -> list[SequenceRecord]:
        voided = [replace(record, state=SequenceState.VOID) for record in doomed]
        self._put(*voided)
        self._end_files([record.ref for record in voided])
        return voided

    def groups(self, supervisor: str) -> list[GroupState]:
        with self._lock:
            return self._groups(supervisor)

    def _groups(self, supervisor: str) -> list[GroupState]:
        epochs = {r.ref.group for r in self.state.unpublished.get(supervisor, ())}
        for (name, group), tokens in self.state.group_tokens.items():
            if name == supervisor and any(self.state.attempts[t].state.is_live for t in tokens):
                epochs.add(group)
        return [self._group((supervisor, group)) for group in sorted(epochs)]

    def _group(self, key: GroupKey) -> GroupState:
        supervisor, group = key
        mine = [r for r in self.state.unpublished.get(supervisor, ()) if r.ref.group == group]
        sequences = tuple(sorted(mine, key=lambda r: r.ref.number))
        attempts = self._attempts_of(key)
        opened = next((r for r in sequences if r.state is SequenceState.OPEN), None)
        return GroupState(
            supervisor,
            group,
            self.state.groups[key].partitions,
            sequences,
            tuple(a for a in attempts if a.state.is_live),
            attempt_rules.reported(attempts, opened),
        )

    def open_group(
        self, generation: int, supervisor: str, topic: str, partitions: Sequence[int], following: NextSequence
    ) -> SequenceRecord:
        assert partitions, "a group without partitions"
        with self._writing("open_group", generation) as state:
            self._check_version(supervisor, following.spec_version)
            stored = self._stream((supervisor, topic))
            start = rules.acquired_start(partitions, self._unpublished(supervisor, topic), stored.committed)
            group = self._count("group", supervisor)
            record = SequenceRecord(
                ref=SequenceRef(supervisor, group, 0),
                start=start,
                epochs=stored.epochs.restrict(start),
                spec_version=following.spec_version,
                opened_at_ms=following.opened_at_ms,
            )
            state.groups[(supervisor, group)] = Group(topic, state.stream_tables[(supervisor, topic)], tuple(start))
            self._put(record)
            return record

    def seal(
        self,
        generation: int,
        ref: SequenceRef,
        end: OffsetMap,
        following: NextSequence | None,
        parse_exceptions: int = 0,
    ) -> tuple[SequenceRecord, ...]:
        with self._writing("seal", generation):
            record = self._record(ref)
            stored = rules.stored_seal(record, ref)
            if stored is not None:
                successor = None if stored.released else self._record(replace(ref, number=ref.number + 1))
            else:
                assert record is not None
                placed = any(a.is_placed for a in self._attempts_of((ref.supervisor, ref.group)))
                stored, successor = rules.seal_sequence(record, end, following, placed)
                stored = replace(stored, parse_exceptions=parse_exceptions)
                self._put(stored, *([successor] if successor else []))
            return (stored,) if successor is None else (stored, successor)

    def raise_end(self, generation: int, token: str, ref: SequenceRef, end: OffsetMap) -> SequenceRecord:
        with self._writing("raise_end", generation) as state:
            attempt_rules.require_member(state.attempts.get(token), ref)
            key = (ref.supervisor, ref.group)
            record = self._record(ref)
            later = [] if record is None else self._followers(record)
            raised, successor = rules.raised_end(record, end, later, self._attempts_of(key))
            if raised != record:
                self._put(raised, *([successor] if successor else []))
            return raised

    def _followers(self, record: SequenceRecord) -> list[SequenceRecord]:
        ref = record.ref
        unpublished = self._unpublished(ref.supervisor, self.state.groups[(ref.supervisor, ref.group)].topic)
        return rules.followers(record, unpublished)

    def void(
        self,
        generation: int,
        supervisor: str,
        group: int,
        from_number: int,
        audit: AuditRow,
        raise_epochs: bool = False,
    ) -> list[SequenceRecord]:
        with self._writing("void", generation) as state:
            known = state.groups.get((supervisor, group))
            if known is None:
                raise StoreConflict(f"supervisor {supervisor!r} has no group {group}")
            unpublished = self._unpublished(supervisor, known.topic)
            first = [r.ref for r in unpublished if r.ref.group == group and r.ref.number >= from_number]
            doomed = rules.dependents(first, unpublished)
            if not doomed:
                return []
            stream = self._stream((supervisor, known.topic))
            if raise_epochs:
                stream = rules.raise_epochs(stream, doomed, unpublished)
            voided = self._void(doomed)
            last = self._record(SequenceRef(supervisor, group, from_number - 1))
            if last is not None and last.state is SequenceState.SEALED:
                self._put(replace(last, released=True))
            self._store_stream(stream)
            state.audit.append(audit)
            self._raise_version(known.datasource)
            return voided

    def sequences(self, supervisor: str, group: int, from_number: int) -> tuple[SequenceRecord, ...]:
        with self._lock:
            stored = self.state.sequences.get((supervisor, group), {})
            return tuple(stored[number] for number in sorted(stored) if number >= from_number)


class MemoryAttempts(MemoryBase):
    """Task attempts."""

    def create_attempt(
        self, generation: int, attempt: AttemptRecord
    ) -> tuple[AttemptRecord, tuple[SequenceRecord, ...]]:
        with self._writing("create_attempt", generation) as state:
            key = (attempt.supervisor, attempt.group)
            if key not in state.groups:
                raise StoreConflict(f"supervisor {attempt.supervisor!r} has no group {attempt.group}")
            mine = [r for r in state.unpublished.get(attempt.supervisor, ()) if r.ref.group == attempt.group]
            mine.sort(key=lambda r: r.ref.number)
            stored = state.attempts.get(attempt.token)
            if stored is None:
                self._touch()
                tokens = state.group_tokens.get(key, ())
                same = (a for a in map(state.attempts.__getitem__, tokens) if a.task_id == attempt.task_id)
                stored = attempt_rules.numbered(attempt, max((a.attempt for a in same), default=0))
                state.attempts[attempt.token] = stored
                state.group_tokens[key] = (*tokens, attempt.token)
            return stored, tuple(mine)

    def _change(self, old: AttemptRecord | None, new: AttemptRecord) -> AttemptRecord:
        if new != old:
            self._touch()
            self.state.attempts[new.token] = new
        return new

    def assign_attempt(self, generation: int, token: str, worker: str) -> AttemptRecord:
        with self._writing("assign_attempt", generation) as state:
            old = state.attempts.get(token)
            new = attempt_rules.assigned(old, worker)
            if new != old:
                mine = [r for r in state.unpublished.get(new.supervisor, ()) if r.ref.group == new.group]
                self._put(*(replace(r, assigned=True) for r in mine))
            return self._change(old, new)

    def register_attempt(self, generation: int, token: str, address: str, protocol: int, now_ms: int) -> AttemptRecord:
        with self._writing("register_attempt", generation) as state:
            old = state.attempts.get(token)
            return self._change(old, attempt_rules.registered(old, address, protocol, now_ms))

    def record_positions(
        self, generation: int, token: str, sequence: int, positions: OffsetMap, now_ms: int
    ) -> AttemptRecord:
        with self._writing("record_positions", generation) as state:
            old = state.attempts.get(token)
            return self._change(old, attempt_rules.positioned(old, sequence, positions, now_ms))

    def set_committer(self, generation: int, token: str) -> None:
        with self._writing("set_committer", generation) as state:
            chosen = attempt_rules.require_live(state.attempts.get(token))
            for attempt in self._attempts_of((chosen.supervisor, chosen.group)):
                self._change(attempt, replace(attempt, committer=attempt.token == token))

    def set_attempt_state(
        self, generation: int, token: str, state: AttemptState, error: str | None, now_ms: int
    ) -> AttemptRecord:
        with self._writing("set_attempt_state", generation):
            old = self.state.attempts.get(token)
            if old is None:
                raise AttemptRefused("no attempt has this token; it was never created here")
            return self._change(old, attempt_rules.moved(old, state, error, now_ms))

    def attempt(self, token: str) -> AttemptRecord | None:
        with self._lock:
            return self.state.attempts.get(token)

    def attempts(self, supervisor: str | None, live: bool | None, limit: int) -> list[AttemptRecord]:
        with self._lock:
            found = reversed(self.state.attempts.values())
            mine = (a for a in found if supervisor in (None, a.supervisor) and live in (None, a.state.is_live))
            return [a for a, _ in zip(mine, range(limit), strict=False)]
