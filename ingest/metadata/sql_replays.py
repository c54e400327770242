"""Replays and expiry of quarantine files, on SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ingest.metadata import replay_rules
from ingest.metadata import tables as t
from ingest.metadata.records import AuditRow, QuarantineRow, QuarantineTotals, ReplayRecord
from ingest.metadata.sql_base import (
    SqlBase,
    append_audit,
    leading_generation,
    next_count,
    raise_version,
)
from ingest.metadata.sql_leadership import load_supervisor
from ingest.metadata.sql_publish import insert_rows, published_version, staged_claims
from ingest.metadata.sql_rows import quarantine_of, replay_of, replay_values
from ingest.metadata.sql_staging import (
    allocated_before,
    lock_table,
    number_segment,
    refuse_taken_paths,
    upsert_staged,
)
from ingest.metadata.sql_streams import end_files, group_row, is_sequence, load_sequence
from ingest.protocol import (
    AllocateRequest,
    PendingSegment,
    PublishOutcome,
    PublishReply,
    PublishRequest,
    StagedFile,
    StageRequest,
)

_BEGUN = sa.text("replays.state = 'begun'")


class SqlReplays(SqlBase):
    """``ReplayStore``. Locks: leadership, the replay's row, the file's row, staged files, the table's version."""

    def begin_replay(self, generation: int, datasource: str, path: str, token: str, now_ms: int) -> ReplayRecord | None:
        def begin(connection: Connection) -> ReplayRecord | None:
            _end(connection, t.replays.c.path == path)
            file = _file(connection, datasource, path)
            supervisor = None if file is None else load_supervisor(connection, file.ref.supervisor, lock=False)
            if not replay_rules.may_begin(file, supervisor):
                return None
            assert file is not None and supervisor is not None
            group = next_count(connection, "group", file.ref.supervisor)
            origin = _origin(connection, file)
            made = replay_rules.begun(file, origin, supervisor, group, generation, (token, now_ms))
            connection.execute(sa.insert(t.replays).values(**replay_values(made)))
            return made

        return self._fenced(generation, begin)

    def allocate_replayed(self, generation: int, token: str, start_ms: int, end_ms: int, now_ms: int) -> PendingSegment:
        def allocate(connection: Connection) -> PendingSegment:
            replay = replay_rules.require_begun(_replay(connection, t.replays.c.token == token), generation)
            request = AllocateRequest(token, replay.ref, start_ms, end_ms)
            lock_table(connection, replay.datasource)
            known = allocated_before(connection, request)
            return known or number_segment(connection, replay.datasource, request, now_ms)

        return self._fenced(generation, allocate)

    def stage_replayed(self, generation: int, token: str, files: Sequence[StagedFile], now_ms: int) -> None:
        def stage(connection: Connection) -> None:
            replay = replay_rules.require_begun(_replay(connection, t.replays.c.token == token), generation)
            request = StageRequest(token, replay.ref, tuple(files))
            paths = [file.path for file in files]
            refuse_taken_paths(connection, request, paths)
            mine = sa.and_(is_sequence(t.staged_files, replay.ref), t.staged_files.c.state == "staged")
            others = sa.update(t.staged_files).where(mine, t.staged_files.c.path.notin_(paths))
            connection.execute(others.values(state="superseded"))
            if paths:
                upsert_staged(connection, request, now_ms)

        self._fenced(generation, stage)

    def publish_replay(self, generation: int, request: PublishRequest, now_ms: int) -> PublishReply:
        def publish(connection: Connection) -> PublishReply:
            leading = leading_generation(connection)
            replay = _replay(connection, is_sequence(t.replays, request.ref))
            version = published_version(connection, request.ref)
            if version is not None:
                return PublishReply(PublishOutcome.ALREADY, version)
            pending = sa.select(t.pending_segments.c.segment_id).where(is_sequence(t.pending_segments, request.ref))
            view = replay_rules.ReplayView(
                generation=leading,
                replay=replay,
                file=None if replay is None else _file(connection, replay.datasource, replay.path),
                staged=staged_claims(connection, request),
                allocated=frozenset(connection.execute(pending).scalars()),
            )
            refusal = replay_rules.judge_replay(generation, request, view)
            if refusal is not None:
                return refusal
            assert replay is not None
            return PublishReply(PublishOutcome.PUBLISHED, _apply(connection, request, replay, view, now_ms))

        return self._write(publish)

    def end_replays(self, generation: int, token: str | None) -> int:
        chosen = t.replays.c.generation != generation if token is None else t.replays.c.token == token
        return self._fenced(generation, lambda connection: _end(connection, chosen))

    def unexpired_quarantine(self, datasource: str, limit: int) -> list[QuarantineRow]:
        columns = t.quarantine_files.c
        mine = sa.and_(columns.datasource == datasource, columns.state != replay_rules.EXPIRED)
        query = sa.select(t.quarantine_files).where(mine).order_by(columns.id).limit(limit)
        return self._read(lambda connection: [quarantine_of(row) for row in connection.execute(query)])

    def database_ms(self) -> int | None:
        def read(connection: Connection) -> int | None:
            if connection.dialect.name != "postgresql":
                return None  # a file of this machine
            seconds = sa.func.extract("epoch", sa.func.clock_timestamp())
            return int(connection.execute(sa.select(sa.cast(seconds * 1_000, sa.BigInteger))).scalar_one())

        return self._read(read)

    def quarantine_totals(self) -> dict[tuple[str, str], QuarantineTotals]:
        columns = t.quarantine_files.c
        sums = (sa.func.count(), sa.func.sum(columns.rows), sa.func.sum(columns.size_bytes))
        query = sa.select(columns.datasource, columns.state, *sums).group_by(columns.datasource, columns.state)
        query = query.order_by(columns.datasource, columns.state)

        def read(connection: Connection) -> dict[tuple[str, str], QuarantineTotals]:
            rows = connection.execute(query)
            return {(name, state): QuarantineTotals(*map(int, told)) for name, state, *told in rows}

        return self._read(read)

    def expire_quarantine(
        self, generation: int, datasource: str, paths: Sequence[str], audit: AuditRow
    ) -> tuple[str, ...]:
        columns = t.quarantine_files.c

        def expire(connection: Connection) -> tuple[str, ...]:
            wanted = sa.and_(columns.path.in_(sorted(set(paths))), columns.datasource == datasource)
            query = sa.select(columns.path).where(wanted, columns.state != replay_rules.EXPIRED).order_by(columns.path)
            found = tuple(connection.execute(query.with_for_update()).scalars())
            if found:
                mine = columns.path.in_(found)
                connection.execute(sa.update(t.quarantine_files).where(mine).values(state=replay_rules.EXPIRED))
                staged = t.staged_files.c.path.in_(found)
                connection.execute(sa.update(t.staged_files).where(staged).values(state="superseded"))
                append_audit(connection, audit)
            return found

        return self._fenced(generation, expire)


def _apply(
    connection: Connection, request: PublishRequest, replay: ReplayRecord, view: replay_rules.ReplayView, now_ms: int
) -> int:
    mine = t.quarantine_files.c.path == replay.path
    taken = sa.update(t.quarantine_files).where(mine, t.quarantine_files.c.state == replay_rules.WAITING)
    taken = taken.values(state=replay_rules.REPLAYED, replayed_by=replay.ref.name)
    assert connection.execute(taken).rowcount == 1, "the file changed under its lock"
    done = sa.update(t.replays).where(is_sequence(t.replays, replay.ref), _BEGUN).values(state="published")
    assert connection.execute(done).rowcount == 1, "the replay changed under its lock"
    claimed = t.staged_files.c.id.in_([claim.row_id for claim in view.staged])
    shown = sa.update(t.staged_files).where(claimed, t.staged_files.c.state == "staged").values(state="published")
    assert connection.execute(shown).rowcount == len(view.staged), "staged rows changed under their lock"
    connection.execute(sa.delete(t.pending_segments).where(is_sequence(t.pending_segments, replay.ref)))
    version = raise_version(connection, replay.datasource)
    insert_rows(connection, request, replay.datasource, replay_rules.replay_ledger(request, replay, version, now_ms))
    return version


def _end(connection: Connection, chosen: sa.ColumnElement[bool]) -> int:
    query = sa.select(t.replays).where(chosen, _BEGUN).order_by(t.replays.c.supervisor, t.replays.c.group_epoch)
    going = [replay_of(row) for row in connection.execute(query.with_for_update())]
    for replay in going:
        mine = is_sequence(t.replays, replay.ref)
        connection.execute(sa.update(t.replays).where(mine).values(state="ended"))
        end_files(connection, replay.ref)
        connection.execute(sa.delete(t.pending_segments).where(is_sequence(t.pending_segments, replay.ref)))
    return len(going)


def _replay(connection: Connection, mine: sa.ColumnElement[bool]) -> ReplayRecord | None:
    """Stays as it is until commit."""
    row = connection.execute(sa.select(t.replays).where(mine).with_for_update()).one_or_none()
    return None if row is None else replay_of(row)


def _file(connection: Connection, datasource: str, path: str) -> QuarantineRow | None:
    """Stays as it is until commit."""
    columns = t.quarantine_files.c
    mine = sa.and_(columns.datasource == datasource, columns.path == path)
    row = connection.execute(sa.select(t.quarantine_files).where(mine).with_for_update()).one_or_none()
    return None if row is None else quarantine_of(row)


def _origin(connection: Connection, file: QuarantineRow) -> replay_rules.Origin:
    earlier: Any = connection.execute(sa.select(t.replays).where(is_sequence(t.replays, file.ref))).one_or_none()
    if earlier is not None:
        return replay_rules.Origin(earlier.topic, earlier.opened_at_ms)
    group, record = group_row(connection, file.ref.supervisor, file.ref.group), load_sequence(connection, file.ref)
    assert group is not None and record is not None, "a published sequence stays stored"
    return replay_rules.Origin(group.topic, record.opened_at_ms)
