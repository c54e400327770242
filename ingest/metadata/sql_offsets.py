"""Committed offsets, reset epochs, groups and sequences, on SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from ingest.metadata import attempt_rules, backfill_rules, rules
from ingest.metadata import tables as t
from ingest.metadata.records import AuditRow, GroupState, NextSequence, ResetWish, StreamOffsets
from ingest.metadata.sql_base import SqlBase, append_audit, ensure_table, next_count, raise_version
from ingest.metadata.sql_groups import load_groups
from ingest.metadata.sql_guards import check_version
from ingest.metadata.sql_leadership import insert_supervisor, load_supervisor
from ingest.metadata.sql_places import load_places
from ingest.metadata.sql_rows import sequence_of, wish_of
from ingest.metadata.sql_streams import (
    group_row,
    in_group,
    insert_sequence,
    insert_stream,
    load_attempt,
    load_attempts,
    load_offsets,
    load_sequence,
    load_unpublished,
    lock_stream,
    require_stream,
    update_partitions,
    update_sequence,
    void_sequences,
)
from ingest.metadata.sql_wishes import load_wishes, store_wish
from ingest.metadata.store import StoreConflict
from ingest.offsets import OffsetMap
from ingest.protocol import SequenceRecord, SequenceRef, SequenceState
from ingest.protocol.places import with_moved_ids


class SqlOffsets(SqlBase):
    """Offsets, groups and sequences; every change holds the stream's lock."""

    def offsets(self, supervisor: str, topic: str) -> StreamOffsets | None:
        return self._read(lambda connection: load_offsets(connection, supervisor, topic))

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
        def init(connection: Connection) -> StreamOffsets:
            stored = load_offsets(connection, supervisor, topic)
            if stored is not None:
                return stored
            if spec_version is not None:
                check_version(connection, supervisor, spec_version)
            columns = t.stream_offsets.c
            highest = connection.execute(
                sa.select(sa.func.max(columns.epoch)).where(columns.supervisor == supervisor)
            ).scalar()
            epochs = OffsetMap(dict.fromkeys(starts, rules.first_epoch(highest)))
            stored = StreamOffsets(supervisor, topic, topic_id, starts, epochs, starts)
            insert_stream(connection, stored, datasource)
            ensure_table(connection, datasource)
            raise_version(connection, datasource)
            return stored

        return self._fenced(generation, init)

    def add_partitions(self, generation: int, supervisor: str, topic: str, starts: OffsetMap) -> StreamOffsets:
        def add(connection: Connection) -> StreamOffsets:
            stream = require_stream(connection, supervisor, topic)
            old = load_offsets(connection, supervisor, topic)
            assert old is not None
            fresh = rules.with_partitions(old, starts, _other_epochs(connection, stream))
            if fresh != old:
                update_partitions(connection, old, fresh)
                raise_version(connection, stream.datasource)
            return fresh

        return self._fenced(generation, add)

    def ask_reset(self, generation: int, wish: ResetWish) -> ResetWish:
        return self._fenced(generation, lambda connection: store_wish(connection, wish))

    def reset_wishes(self, supervisor: str | None) -> list[ResetWish]:
        return self._read(lambda connection: load_wishes(connection, supervisor))

    def carry_out_reset(
        self, generation: int, supervisor: str, topic: str, wish_id: int, audit: AuditRow
    ) -> StreamOffsets:
        def carry_out(connection: Connection) -> StreamOffsets:
            stream = require_stream(connection, supervisor, topic)
            mine = t.reset_wishes.c.id == wish_id
            wish = connection.execute(sa.select(t.reset_wishes).where(mine)).one_or_none()
            if wish is None:
                old = load_offsets(connection, supervisor, topic)
                assert old is not None
                return old
            connection.execute(sa.delete(t.reset_wishes).where(mine))
            if wish.backfill is not None:
                return _jump(connection, stream, wish_of(wish), audit)
            return _reset(connection, stream, wish.moves, wish.topic_id, audit)

        return self._fenced(generation, carry_out)

    def reset_offsets(
        self,
        generation: int,
        supervisor: str,
        topic: str,
        moves: OffsetMap | None,
        topic_id: str | None,
        audit: AuditRow,
    ) -> StreamOffsets:
        def reset(connection: Connection) -> StreamOffsets:
            stream = require_stream(connection, supervisor, topic)
            if _is_recorded(connection, audit):
                old = load_offsets(connection, supervisor, topic)
                assert old is not None
                return old
            return _reset(connection, stream, moves, topic_id, audit)

        return self._fenced(generation, reset)

    def groups(self, supervisor: str) -> list[GroupState]:
        return self._read(lambda connection: load_groups(connection, [supervisor]))

    def open_group(
        self, generation: int, supervisor: str, topic: str, partitions: Sequence[int], following: NextSequence
    ) -> SequenceRecord:
        assert partitions, "a group without partitions"

        def opened(connection: Connection) -> SequenceRecord:
            check_version(connection, supervisor, following.spec_version)
            stream = require_stream(connection, supervisor, topic)
            stored = load_offsets(connection, supervisor, topic, partitions)
            assert stored is not None
            unpublished = load_unpublished(connection, supervisor, topic)
            start = rules.acquired_start(partitions, unpublished, stored.committed)
            group = next_count(connection, "group", supervisor)
            record = SequenceRecord(
                ref=SequenceRef(supervisor, group, 0),
                start=start,
                epochs=stored.epochs.restrict(start),
                spec_version=following.spec_version,
                opened_at_ms=following.opened_at_ms,
            )
            key = {"supervisor": supervisor, "group_epoch": group, "topic": topic, "datasource": stream.datasource}
            connection.execute(sa.insert(t.task_groups).values(**key, partitions=list(start)))
            insert_sequence(connection, record)
            return record

        return self._fenced(generation, opened)

    def seal(
        self,
        generation: int,
        ref: SequenceRef,
        end: OffsetMap,
        following: NextSequence | None,
        parse_exceptions: int = 0,
    ) -> tuple[SequenceRecord, ...]:
        def seal(connection: Connection) -> tuple[SequenceRecord, ...]:
            _lock_group(connection, ref)
            record = load_sequence(connection, ref)
            stored = rules.stored_seal(record, ref)
            if stored is not None:
                number = replace(ref, number=ref.number + 1)
                successor = None if stored.released else load_sequence(connection, number)
            else:
                assert record is not None
                placed = any(a.is_placed for a in load_attempts(connection, ref.supervisor, ref.group))
                stored, successor = rules.seal_sequence(record, end, following, placed)
                stored = replace(stored, parse_exceptions=parse_exceptions)
                update_sequence(connection, record, stored)
                if successor is not None:
                    insert_sequence(connection, successor)
            return (stored,) if successor is None else (stored, successor)

        saved = self._fenced(generation, seal)
        self.session.marks.note_sealed(ref)
        return saved

    def raise_end(self, generation: int, token: str, ref: SequenceRef, end: OffsetMap) -> SequenceRecord:
        def raise_end(connection: Connection) -> SequenceRecord:
            topic = _lock_group(connection, ref)
            attempt_rules.require_member(load_attempt(connection, token, "share"), ref)
            record = load_sequence(connection, ref)
            unpublished = load_unpublished(connection, ref.supervisor, topic)
            later = [] if record is None else rules.followers(record, unpublished)
            attempts = load_attempts(connection, ref.supervisor, ref.group)
            raised, successor = rules.raised_end(record, end, later, attempts)
            if record is not None and raised != record:
                update_sequence(connection, record, raised)
                if successor is not None:
                    update_sequence(connection, later[0], successor)
            return raised

        return self._fenced(generation, raise_end)

    def void(
        self,
        generation: int,
        supervisor: str,
        group: int,
        from_number: int,
        audit: AuditRow,
        raise_epochs: bool = False,
    ) -> list[SequenceRecord]:
        def void(connection: Connection) -> list[SequenceRecord]:
            known = group_row(connection, supervisor, group)
            if known is None:
                raise StoreConflict(f"supervisor {supervisor!r} has no group {group}")
            require_stream(connection, supervisor, known.topic)
            unpublished = load_unpublished(connection, supervisor, known.topic)
            first = [r.ref for r in unpublished if r.ref.group == group and r.ref.number >= from_number]
            doomed = rules.dependents(first, unpublished)
            if not doomed:
                return []
            if raise_epochs:
                old = load_offsets(connection, supervisor, known.topic)
                assert old is not None
                update_partitions(connection, old, rules.raise_epochs(old, doomed, unpublished))
            voided = void_sequences(connection, doomed)
            last = load_sequence(connection, SequenceRef(supervisor, group, from_number - 1))
            if last is not None and last.state is SequenceState.SEALED:
                update_sequence(connection, last, replace(last, released=True))
            append_audit(connection, audit)
            raise_version(connection, known.datasource)
            return voided

        return self._fenced(generation, void)

    def sequences(self, supervisor: str, group: int, from_number: int) -> tuple[SequenceRecord, ...]:
        mine = sa.and_(in_group(t.sequences, supervisor, group), t.sequences.c.number >= from_number)
        query = sa.select(t.sequences).where(mine).order_by(t.sequences.c.number)
        return self._read(lambda connection: tuple(sequence_of(row) for row in connection.execute(query)))


def _lock_group(connection: Connection, ref: SequenceRef) -> str:
    """Locks the stream of the sequence's group; returns its topic."""
    known = group_row(connection, ref.supervisor, ref.group)
    if known is None:
        raise StoreConflict(f"sequence {ref.name} does not exist")
    lock_stream(connection, ref.supervisor, known.topic)
    return str(known.topic)


def _reset(
    connection: Connection, stream: Row[Any], moves: OffsetMap | None, topic_id: str | None, audit: AuditRow
) -> StreamOffsets:
    """Under the stream's lock: voids, moves, records, and raises the table's version last."""
    old = load_offsets(connection, stream.supervisor, stream.topic)
    assert old is not None
    moves, topic_id = rules.meant(old, moves, topic_id)
    unpublished = load_unpublished(connection, stream.supervisor, stream.topic)
    holders = [r.ref for r in unpublished if not moves.keys().isdisjoint(r.start)]
    void_sequences(connection, rules.dependents(holders, unpublished))
    places = load_places(connection, stream.supervisor, stream.topic)
    ids = with_moved_ids(old.topic_id, topic_id, places, moves)
    fresh = rules.reset_stream(old, moves, ids, _other_epochs(connection, stream))
    update_partitions(connection, old, fresh)
    append_audit(connection, audit)
    raise_version(connection, stream.datasource)
    return fresh


def _other_epochs(connection: Connection, stream: Row[Any]) -> dict[int, int]:
    """The highest epoch of each number of a partition in the supervisor's other streams."""
    columns = t.stream_offsets.c
    others = sa.select(columns.partition, sa.func.max(columns.epoch)).group_by(columns.partition)
    others = others.where(columns.supervisor == stream.supervisor, columns.topic != stream.topic)
    return {partition: epoch for partition, epoch in connection.execute(others)}


def _jump(connection: Connection, stream: Row[Any], wish: ResetWish, audit: AuditRow) -> StreamOffsets:
    """``_reset`` that leaves what it skips to a new supervisor."""
    assert wish.backfill is not None
    old = load_offsets(connection, stream.supervisor, stream.topic)
    assert old is not None
    taken = load_supervisor(connection, wish.backfill["id"], lock=True) is not None
    found = backfill_rules.skipped(old, wish, taken)
    audit = backfill_rules.jumped(audit, found, wish)
    if isinstance(found, str):
        append_audit(connection, audit)
        return old
    insert_supervisor(connection, found.stream.supervisor, stream.datasource, found.spec, audit.at_ms)
    insert_stream(connection, found.stream, stream.datasource)
    return _reset(connection, stream, found.moves, wish.topic_id, audit)


def _is_recorded(connection: Connection, audit: AuditRow) -> bool:
    """Whether this very row is in the trail: the call is a repetition."""
    columns = t.audit.c
    same = sa.and_(columns.supervisor == audit.supervisor, columns.at_ms == audit.at_ms, columns.action == audit.action)
    details = connection.execute(sa.select(columns.detail).where(same)).scalars()
    return any(detail == audit.detail for detail in details)
