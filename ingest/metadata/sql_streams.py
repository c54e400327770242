"""Statements on offsets, sequences and attempts that several parts of the SQL store share."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from ingest.metadata import rules
from ingest.metadata import tables as t
from ingest.metadata.records import StreamOffsets
from ingest.metadata.sql_rows import attempt_of, key_of, sequence_of, sequence_values
from ingest.metadata.store import StoreConflict
from ingest.offsets import OffsetMap
from ingest.protocol import AttemptRecord, SequenceRecord, SequenceRef, SequenceState

UNPUBLISHED = tuple(state.value for state in rules.UNPUBLISHED)


def in_group(table: sa.Table, supervisor: str, group: int) -> sa.ColumnElement[bool]:
    return sa.and_(table.c.supervisor == supervisor, table.c.group_epoch == group)


def is_sequence(table: sa.Table, ref: SequenceRef) -> sa.ColumnElement[bool]:
    return sa.and_(in_group(table, ref.supervisor, ref.group), table.c.number == ref.number)


# ---------------------------------------------------------------- streams


def group_row(connection: Connection, supervisor: str, group: int) -> Row[Any] | None:
    """The group's fixed facts: topic, datasource, partitions. Needs no lock: they never change."""
    query = sa.select(t.task_groups).where(in_group(t.task_groups, supervisor, group))
    return connection.execute(query).one_or_none()


def lock_stream(connection: Connection, supervisor: str, topic: str, *, share: bool = False) -> Row[Any] | None:
    """Takes the lock under which offsets, epochs and sequences of one stream change; ``share`` only keeps
    them from changing."""
    mine = sa.and_(t.streams.c.supervisor == supervisor, t.streams.c.topic == topic)
    locked = sa.select(t.streams).where(mine).with_for_update(read=share, key_share=not share)
    return connection.execute(locked).one_or_none()


def require_stream(connection: Connection, supervisor: str, topic: str) -> Row[Any]:
    """``lock_stream`` of a stream that exists.

    Raises:
        StoreConflict: its first offsets were never stored.
    """
    row = lock_stream(connection, supervisor, topic)
    if row is None:
        raise StoreConflict(f"supervisor {supervisor!r} has no offsets of topic {topic!r} yet")
    return row


def load_offsets(
    connection: Connection, supervisor: str, topic: str, partitions: Collection[int] | None = None
) -> StreamOffsets | None:
    """The stream's offsets, all or those of ``partitions`` that exist; None for an unknown stream."""
    columns = t.stream_offsets.c
    stream = sa.and_(t.streams.c.supervisor == supervisor, t.streams.c.topic == topic)
    found = connection.execute(sa.select(t.streams.c.topic_id).where(stream)).one_or_none()
    if found is None:
        return None
    query = sa.select(columns.partition, columns.committed, columns.epoch, columns.start)
    query = query.where(columns.supervisor == supervisor, columns.topic == topic)
    if partitions is not None:
        query = query.where(columns.partition.in_(sorted(partitions)))
    rows = connection.execute(query).all()
    return StreamOffsets(
        supervisor=supervisor,
        topic=topic,
        topic_id=found.topic_id,
        committed=OffsetMap((row.partition, row.committed) for row in rows),
        epochs=OffsetMap((row.partition, row.epoch) for row in rows),
        starts=OffsetMap((row.partition, row.start) for row in rows),
    )


def insert_stream(connection: Connection, stored: StreamOffsets, datasource: str) -> None:
    """A stream that did not exist, with all its offset rows (PR-2)."""
    key = {"supervisor": stored.supervisor, "topic": stored.topic, "datasource": datasource}
    connection.execute(sa.insert(t.streams).values(**key, topic_id=stored.topic_id))
    insert_partitions(connection, stored, stored.committed)


def insert_partitions(connection: Connection, stored: StreamOffsets, partitions: Iterable[int]) -> None:
    """New offset rows as ``stored`` has them."""
    rows = [
        {
            "supervisor": stored.supervisor,
            "topic": stored.topic,
            "partition": p,
            "committed": stored.committed[p],
            "epoch": stored.epochs[p],
            "start": stored.starts[p],
        }
        for p in partitions
    ]
    if rows:
        connection.execute(sa.insert(t.stream_offsets), rows)


def update_partitions(connection: Connection, old: StreamOffsets, new: StreamOffsets) -> None:
    """Writes what differs; partitions that ``old`` lacks are inserted. Under the stream's lock."""
    insert_partitions(connection, new, [p for p in new.committed if p not in old.committed])
    columns = t.stream_offsets.c
    mine = sa.and_(columns.supervisor == new.supervisor, columns.topic == new.topic)
    for p in new.committed:
        fresh = (new.committed[p], new.epochs[p], new.starts[p])
        if p in old.committed and fresh != (old.committed[p], old.epochs[p], old.starts[p]):
            values = {"committed": fresh[0], "epoch": fresh[1], "start": fresh[2]}
            connection.execute(sa.update(t.stream_offsets).where(mine, columns.partition == p).values(**values))
    if new.topic_id != old.topic_id:
        stream = sa.and_(t.streams.c.supervisor == new.supervisor, t.streams.c.topic == new.topic)
        connection.execute(sa.update(t.streams).where(stream).values(topic_id=new.topic_id))


# ---------------------------------------------------------------- sequences


def load_sequence(connection: Connection, ref: SequenceRef) -> SequenceRecord | None:
    row = connection.execute(sa.select(t.sequences).where(is_sequence(t.sequences, ref))).one_or_none()
    return None if row is None else sequence_of(row)


def load_unpublished(connection: Connection, supervisor: str, topic: str) -> list[SequenceRecord]:
    """Open and sealed sequences of one stream, in (group, number) order."""
    s, g = t.sequences, t.task_groups
    on = sa.and_(g.c.supervisor == s.c.supervisor, g.c.group_epoch == s.c.group_epoch)
    query = sa.select(s).join(g, on).where(s.c.supervisor == supervisor, g.c.topic == topic)
    # Spelt out, not bound, so that the partial index serves it.
    query = query.where(sa.text("sequences.state IN ('open', 'sealed')"))
    return [sequence_of(row) for row in connection.execute(query.order_by(s.c.group_epoch, s.c.number))]


def insert_sequence(connection: Connection, record: SequenceRecord) -> None:
    connection.execute(sa.insert(t.sequences).values(**sequence_values(record)))


def update_sequence(connection: Connection, old: SequenceRecord, new: SequenceRecord) -> None:
    """Replaces ``old``, which was read under the stream's lock."""
    assert old.ref == new.ref
    values = {name: value for name, value in sequence_values(new).items() if name not in key_of(new.ref)}
    expected = sa.and_(is_sequence(t.sequences, old.ref), t.sequences.c.state == old.state.value)
    changed = connection.execute(sa.update(t.sequences).where(expected).values(**values)).rowcount
    assert changed == 1, f"sequence {old.ref.name} changed outside of its stream's lock"


def void_sequences(connection: Connection, doomed: Iterable[SequenceRecord]) -> list[SequenceRecord]:
    """Voids them and hands their staged files to the sweeper."""
    voided = []
    for record in doomed:
        void = replace(record, state=SequenceState.VOID)
        update_sequence(connection, record, void)
        end_files(connection, record.ref)
        voided.append(void)
    return voided


def end_files(connection: Connection, ref: SequenceRef) -> None:
    """Hands staged files that can never be published any more to the sweeper (PR-20)."""
    mine = sa.and_(is_sequence(t.staged_files, ref), t.staged_files.c.state == "staged")
    connection.execute(sa.update(t.staged_files).where(mine).values(state="superseded"))


# ---------------------------------------------------------------- attempts


def load_attempt(connection: Connection, token: str, lock: str = "") -> AttemptRecord | None:
    """One attempt; ``lock`` is "share" (it must stay live until commit) or "update"."""
    query = sa.select(t.attempts).where(t.attempts.c.token == token)
    if lock:
        query = query.with_for_update(read=lock == "share", key_share=lock == "update")
    row = connection.execute(query).one_or_none()
    return None if row is None else attempt_of(row)


def load_attempts(connection: Connection, supervisor: str, group: int) -> list[AttemptRecord]:
    """Of one group, ended ones included, oldest first."""
    query = sa.select(t.attempts).where(in_group(t.attempts, supervisor, group)).order_by(t.attempts.c.id)
    return [attempt_of(row) for row in connection.execute(query)]
