"""Segment ids and staged files before and beside a publish, on SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ingest.metadata import attempt_rules, rules
from ingest.metadata import tables as t
from ingest.metadata.records import StagedRow
from ingest.metadata.sql_base import SqlBase, insert
from ingest.metadata.sql_rows import key_of, ref_of, staged_of
from ingest.metadata.sql_streams import group_row, is_sequence, load_attempt, load_sequence, lock_stream
from ingest.metadata.store import StoreConflict
from ingest.protocol import AllocateRequest, PendingSegment, SequenceRef, StagedFile, StageRequest

# What the sweeper owns: files that no publish can ever claim (PR-20).
_SWEPT = sa.or_(
    t.staged_files.c.state.in_(("superseded", "deleting")),
    sa.and_(t.staged_files.c.state == "staged", t.attempts.c.ended_ms.is_not(None)),
)
_UNFINISHED = sa.text("staged_files.state IN ('staged', 'superseded', 'deleting')")


class SqlStaging(SqlBase):
    """Allocation, staging and sweeping."""

    def allocate(self, generation: int, request: AllocateRequest, now_ms: int) -> PendingSegment:
        def allocate(connection: Connection) -> PendingSegment:
            ref = request.ref
            attempt_rules.require_member(load_attempt(connection, request.token, "share"), ref)
            known = allocated_before(connection, request)
            if known is not None:
                return known
            group = group_row(connection, ref.supervisor, ref.group)
            assert group is not None, "a live attempt has a group"
            lock_table(connection, group.datasource)
            # Another replica may have asked for the same id while this one waited.
            known = allocated_before(connection, request)
            if known is not None:
                return known
            attempt_rules.check_new_file(load_sequence(connection, ref), ref)
            return number_segment(connection, group.datasource, request, now_ms)

        return self._fenced(generation, allocate)

    def stage(self, generation: int, request: StageRequest, now_ms: int) -> None:
        def stage(connection: Connection) -> None:
            ref = request.ref
            group = group_row(connection, ref.supervisor, ref.group)
            if group is not None:
                # A publish of another replica under way would leave the new rows staged for nothing.
                lock_stream(connection, ref.supervisor, group.topic, share=True)
            attempt_rules.require_member(load_attempt(connection, request.token, "share"), ref)
            attempt_rules.check_new_file(load_sequence(connection, ref), ref)
            paths = [file.path for file in request.files]
            refuse_taken_paths(connection, request, paths)
            mine = sa.and_(
                is_sequence(t.staged_files, ref),
                t.staged_files.c.token == request.token,
                t.staged_files.c.state == "staged",
            )
            others = sa.update(t.staged_files).where(mine, t.staged_files.c.path.notin_(paths))
            connection.execute(others.values(state="superseded"))
            if paths:
                upsert_staged(connection, request, now_ms)

        self._fenced(generation, stage)

    def staged_of_ended(self, limit: int) -> list[StagedRow]:
        columns = t.staged_files.c
        query = _staged_with_attempts().where(_UNFINISHED, _SWEPT)
        query = query.order_by(sa.case((columns.removed_ms.is_(None), 0), else_=1), columns.id).limit(limit)
        return self._read(lambda connection: [staged_of(row) for row in connection.execute(query)])

    def tracked_paths(self, datasource: str) -> set[str]:
        path = t.staged_files.c.path
        query = sa.select(path).where(_UNFINISHED, path.startswith(f"{datasource}/", autoescape=True))
        return self._read(lambda connection: set(connection.execute(query).scalars()))

    def begin_delete(self, generation: int, row_ids: Sequence[int]) -> tuple[int, ...]:
        def begin(connection: Connection) -> tuple[int, ...]:
            wanted = t.staged_files.c.id.in_(sorted(set(row_ids)))
            query = _staged_with_attempts().where(wanted, _SWEPT).order_by(t.staged_files.c.id)
            found = [row.id for row in connection.execute(query.with_for_update(of=t.staged_files))]
            if found:
                mine = t.staged_files.c.id.in_(found)
                connection.execute(sa.update(t.staged_files).where(mine).values(state="deleting"))
            return tuple(found)

        return self._fenced(generation, begin)

    def finish_delete(self, generation: int, row_ids: Sequence[int], now_ms: int) -> None:
        def finish(connection: Connection) -> None:
            columns = t.staged_files.c
            mine = sa.and_(columns.id.in_(sorted(set(row_ids))), columns.state == "deleting")
            second = sa.update(t.staged_files).where(mine, columns.removed_ms.is_not(None))
            connection.execute(second.values(state="deleted"))
            first = sa.update(t.staged_files).where(mine, columns.removed_ms.is_(None))
            connection.execute(first.values(removed_ms=now_ms))

        self._fenced(generation, finish)


def _staged_with_attempts() -> Any:
    # Files of replays are of no attempt.
    return sa.select(t.staged_files).outerjoin(t.attempts, t.attempts.c.token == t.staged_files.c.token)


def allocated_before(connection: Connection, request: AllocateRequest) -> PendingSegment | None:
    """What this (sequence, time chunk) was given before, also when it is published by now."""
    for table in (t.pending_segments, t.segments):
        columns = table.c
        same = sa.and_(
            is_sequence(table, request.ref),
            columns.start_ms == request.interval_start_ms,
            columns.end_ms == request.interval_end_ms,
        )
        query = sa.select(columns.segment_id, columns.version, columns.partition_num).where(same)
        row = connection.execute(query).one_or_none()
        if row is not None:
            return PendingSegment(row.segment_id, row.version, row.partition_num)
    return None


def lock_table(connection: Connection, datasource: str) -> None:
    """The table's version row is also the lock under which ids are numbered."""
    mine = t.datasources.c.datasource == datasource
    connection.execute(sa.select(t.datasources.c.version).where(mine).with_for_update(key_share=True))


def number_segment(connection: Connection, datasource: str, request: AllocateRequest, now_ms: int) -> PendingSegment:
    """A new id: under the highest version over its time chunk, with the next number there."""
    columns = t.partition_numbers.c
    start_ms, end_ms = request.interval_start_ms, request.interval_end_ms
    over = sa.and_(columns.datasource == datasource, columns.end_ms > start_ms, columns.start_ms < end_ms)
    highest = connection.execute(sa.select(sa.func.max(columns.version)).where(over)).scalar()
    version = rules.allocated_version([] if highest is None else [highest], now_ms)
    key = {"datasource": datasource, "start_ms": start_ms, "end_ms": end_ms, "version": version}
    statement = insert(connection, t.partition_numbers).values(**key, next_number=1)
    statement = statement.on_conflict_do_update(index_elements=list(key), set_={"next_number": columns.next_number + 1})
    number = connection.execute(statement.returning(columns.next_number)).scalar_one() - 1
    pending = rules.pending_segment(datasource, start_ms, end_ms, version, number)
    values = {"start_ms": start_ms, "end_ms": end_ms, "version": version, "partition_num": number}
    connection.execute(
        sa.insert(t.pending_segments).values(
            **key_of(request.ref), **values, segment_id=pending.segment_id, created_ms=now_ms
        )
    )
    return pending


def refuse_taken_paths(connection: Connection, request: StageRequest, paths: list[str]) -> None:
    query = sa.select(t.staged_files).where(t.staged_files.c.path.in_(paths)).with_for_update()
    for row in connection.execute(query):
        if (row.token, ref_of(row), row.state) != (request.token, request.ref, "staged"):
            raise StoreConflict(f"path {row.path} is not new; upload to another")


def upsert_staged(connection: Connection, request: StageRequest, now_ms: int) -> None:
    rows = [_staged_values(request.ref, request.token, file, now_ms) for file in request.files]
    statement = insert(connection, t.staged_files)
    renewed = {name: statement.excluded[name] for name in ("segment_id", "size_bytes", "staged_ms")}
    connection.execute(statement.on_conflict_do_update(index_elements=["path"], set_=renewed), rows)


def _staged_values(ref: SequenceRef, token: str, file: StagedFile, now_ms: int) -> dict[str, Any]:
    return key_of(ref) | {
        "path": file.path,
        "token": token,
        "segment_id": file.segment_id,
        "size_bytes": file.size_bytes,
        "state": "staged",
        "staged_ms": now_ms,
    }
