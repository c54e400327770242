"""The publish transaction on SQL: segments, offsets, ledger and version, all or nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from ingest.metadata import rules, supervisor_rules
from ingest.metadata import tables as t
from ingest.metadata.file_rules import StagedClaim
from ingest.metadata.records import LedgerRow, QuarantineRow
from ingest.metadata.sql_base import SqlBase, add_count, leading_generation, raise_version
from ingest.metadata.sql_rows import key_of, ledger_of, ledger_values, quarantine_of, segment_values
from ingest.metadata.sql_streams import (
    end_files,
    group_row,
    in_group,
    is_sequence,
    load_attempt,
    load_offsets,
    load_sequence,
    load_unpublished,
    lock_stream,
    update_sequence,
)
from ingest.offsets import OffsetMap, furthest
from ingest.protocol import PublishOutcome, PublishReply, PublishRequest, SequenceRef, SequenceState


class SqlPublishing(SqlBase):
    """The heart, and what it leaves behind: ledger and quarantine rows."""

    def publish(self, generation: int, request: PublishRequest, now_ms: int) -> PublishReply:
        def publish(connection: Connection) -> PublishReply:
            leading = leading_generation(connection)
            ref = request.ref
            group = group_row(connection, ref.supervisor, ref.group)
            if group is not None:
                lock_stream(connection, ref.supervisor, group.topic)
            version = published_version(connection, ref)
            if version is not None:
                return PublishReply(PublishOutcome.ALREADY, version)
            view = _view(connection, request, leading, group)
            refusal = rules.judge_publish(generation, request, view)
            if refusal is not None:
                return refusal
            assert group is not None and view.record is not None
            version = _apply(connection, request, view, group, now_ms)
            return PublishReply(PublishOutcome.PUBLISHED, version)

        return self._write(publish)

    def ledger(self, supervisor: str, after_version: int, limit: int) -> list[LedgerRow]:
        columns = t.ledger.c
        mine = sa.and_(columns.supervisor == supervisor, columns.version > after_version)
        query = sa.select(t.ledger).where(mine).order_by(columns.version).limit(limit)
        return self._read(lambda connection: [ledger_of(row) for row in connection.execute(query)])

    def quarantine_files(self, datasource: str, limit: int, before: str | None = None) -> list[QuarantineRow]:
        columns = t.quarantine_files.c
        mine = columns.datasource == datasource
        query = sa.select(t.quarantine_files).where(mine).order_by(columns.id.desc()).limit(limit)
        if before is not None:
            query = query.where(
                columns.id < sa.select(columns.id).where(mine, columns.path == before).scalar_subquery()
            )
        return self._read(lambda connection: [quarantine_of(row) for row in connection.execute(query)])

    def quarantine_file(self, datasource: str, path: str) -> QuarantineRow | None:
        columns = t.quarantine_files.c
        query = sa.select(t.quarantine_files).where(columns.datasource == datasource, columns.path == path)

        def read(connection: Connection) -> QuarantineRow | None:
            row = connection.execute(query).one_or_none()
            return None if row is None else quarantine_of(row)

        return self._read(read)


def published_version(connection: Connection, ref: SequenceRef) -> int | None:
    """The version of the sequence's ledger row, or of the folded row that stands for it (PR-18)."""
    columns = t.ledger.c
    mine = sa.and_(in_group(t.ledger, ref.supervisor, ref.group), columns.number >= ref.number)
    query = sa.select(columns.first_number, columns.version).where(mine).order_by(columns.number).limit(1)
    row = connection.execute(query).one_or_none()
    return int(row.version) if row is not None and row.first_number <= ref.number else None


def _view(
    connection: Connection, request: PublishRequest, leading: int | None, group: Row[Any] | None
) -> rules.PublishView:
    """What the judgement looks at; attempt and staged files stay locked until commit."""
    ref = request.ref
    stream = None if group is None else load_offsets(connection, ref.supervisor, group.topic, request.start)
    pending = sa.select(t.pending_segments.c.segment_id).where(is_sequence(t.pending_segments, ref))
    return rules.PublishView(
        generation=leading,
        attempt=load_attempt(connection, request.token, "share"),
        record=load_sequence(connection, ref),
        committed=stream.committed if stream else OffsetMap(),
        epochs=stream.epochs if stream else OffsetMap(),
        staged=staged_claims(connection, request),
        allocated=frozenset(connection.execute(pending).scalars()),
        behind=None if group is None else _predecessor(connection, ref, group.topic),
    )


def _predecessor(connection: Connection, ref: SequenceRef, topic: str) -> str | None:
    """``rules.predecessor``; a group that has published anything has none any more."""
    published = sa.select(t.ledger.c.number).where(in_group(t.ledger, ref.supervisor, ref.group)).limit(1)
    if connection.execute(published).one_or_none() is not None:
        return None
    return rules.predecessor(load_sequence(connection, ref), load_unpublished(connection, ref.supervisor, topic))


def staged_claims(connection: Connection, request: PublishRequest) -> tuple[StagedClaim, ...]:
    columns = t.staged_files.c
    mine = sa.and_(is_sequence(t.staged_files, request.ref), columns.token == request.token)
    query = sa.select(columns.id, columns.path, columns.segment_id).where(mine, columns.state == "staged")
    rows = connection.execute(query.order_by(columns.id).with_for_update())
    return tuple(StagedClaim(row.id, row.path, row.segment_id) for row in rows)


def _apply(
    connection: Connection, request: PublishRequest, view: rules.PublishView, group: Row[Any], now_ms: int
) -> int:
    """Everything a publish writes; the table's version is the last row it locks (PR-2)."""
    record, ref = view.record, request.ref
    assert record is not None
    claimed = t.staged_files.c.id.in_([claim.row_id for claim in view.staged])
    changed = connection.execute(
        sa.update(t.staged_files).where(claimed, t.staged_files.c.state == "staged").values(state="published")
    ).rowcount
    assert changed == len(view.staged), "staged rows changed under their lock"
    end_files(connection, ref)  # of other attempts: never to be published now
    _move_offsets(connection, request, group.topic)
    connection.execute(sa.delete(t.pending_segments).where(is_sequence(t.pending_segments, ref)))
    bad = request.parse_exceptions
    if bad:
        add_count(connection, *supervisor_rules.exceptions_counter(ref.supervisor, record.spec_version), bad)
    version = raise_version(connection, group.datasource)
    # Its row is already ours by the stream's lock: no lock is taken after the version's.
    published = replace(record, state=SequenceState.PUBLISHED, version=version, parse_exceptions=bad)
    update_sequence(connection, record, published)
    insert_rows(connection, request, group.datasource, rules.ledger_row(request, record, group.topic, version, now_ms))
    return version


def insert_rows(connection: Connection, request: PublishRequest, datasource: str, row: LedgerRow) -> None:
    """Segments with their visibility, the ledger row and the quarantine file's row."""
    version, now_ms = row.version, row.published_ms
    if request.segments:
        segments = [segment_values(payload, request.ref, version, now_ms) for payload in request.segments]
        connection.execute(sa.insert(t.segments), segments)
        visible = {"datasource": datasource, "added": version, "removed": None}
        rows = [visible | {"segment_id": segment["segment_id"]} for segment in segments]
        connection.execute(sa.insert(t.segment_visibility), rows)
    connection.execute(sa.insert(t.ledger).values(**ledger_values(row, datasource)))
    if request.quarantine is not None:
        file = rules.quarantine_row(request.quarantine, datasource, request.ref, now_ms)
        values = {"path": file.path, "datasource": file.datasource, "rows": file.rows, "size_bytes": file.size_bytes}
        values |= {"load_spec": file.load_spec, "published_ms": now_ms, "published_version": version}
        connection.execute(sa.insert(t.quarantine_files).values(**key_of(file.ref), **values, state="published"))


def _move_offsets(connection: Connection, request: PublishRequest, topic: str) -> None:
    """Offsets to the range's end and watermarks forward, under the stream's lock."""
    columns = t.stream_offsets.c
    mine = sa.and_(columns.supervisor == request.ref.supervisor, columns.topic == topic)
    query = sa.select(columns.partition, columns.watermark_ms).where(mine, columns.partition.in_(list(request.end)))
    known = {row.partition: row.watermark_ms for row in connection.execute(query) if row.watermark_ms is not None}
    watermarks = furthest(known, request.watermark_ms)
    statement = (
        sa.update(t.stream_offsets)
        .where(mine, columns.partition == sa.bindparam("p"))
        .values(committed=sa.bindparam("new_committed"), watermark_ms=sa.bindparam("new_watermark"))
    )
    rows = [{"p": p, "new_committed": end, "new_watermark": watermarks.get(p)} for p, end in request.end.items()]
    connection.execute(statement, rows)
