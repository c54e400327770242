"""Task attempts, on SQL."""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ingest.metadata import attempt_rules
from ingest.metadata import tables as t
from ingest.metadata.sql_base import SqlBase
from ingest.metadata.sql_rows import attempt_of, attempt_values
from ingest.metadata.sql_streams import (
    UNPUBLISHED,
    group_row,
    in_group,
    load_attempt,
    load_unpublished,
    lock_stream,
)
from ingest.metadata.store import StoreConflict
from ingest.offsets import OffsetMap
from ingest.protocol import AttemptRecord, AttemptState, SequenceRecord

Change = Callable[[AttemptRecord | None], AttemptRecord]


class SqlAttempts(SqlBase):
    """Attempts change only forwards, each under its own row's lock."""

    def create_attempt(
        self, generation: int, attempt: AttemptRecord
    ) -> tuple[AttemptRecord, tuple[SequenceRecord, ...]]:
        def create(connection: Connection) -> tuple[AttemptRecord, tuple[SequenceRecord, ...]]:
            group = group_row(connection, attempt.supervisor, attempt.group)
            if group is None:
                raise StoreConflict(f"supervisor {attempt.supervisor!r} has no group {attempt.group}")
            lock_stream(connection, attempt.supervisor, group.topic)
            unpublished = load_unpublished(connection, attempt.supervisor, group.topic)
            mine = [r for r in unpublished if r.ref.group == attempt.group]
            stored = load_attempt(connection, attempt.token)
            if stored is not None:
                return stored, tuple(mine)
            same = sa.and_(
                in_group(t.attempts, attempt.supervisor, attempt.group), t.attempts.c.task_id == attempt.task_id
            )
            taken = connection.execute(sa.select(sa.func.max(t.attempts.c.attempt)).where(same)).scalar()
            fresh = attempt_rules.numbered(attempt, taken or 0)
            connection.execute(sa.insert(t.attempts).values(**attempt_values(fresh)))
            return fresh, tuple(mine)

        return self._fenced(generation, create)

    def _change(self, generation: int, token: str, change: Change) -> AttemptRecord:
        """One attempt as ``change`` makes it of the stored one."""

        def work(connection: Connection) -> AttemptRecord:
            old = load_attempt(connection, token, "update")
            new = change(old)
            if new != old:
                values = attempt_values(new)
                connection.execute(sa.update(t.attempts).where(t.attempts.c.token == token).values(**values))
            return new

        return self._fenced(generation, work)

    def assign_attempt(self, generation: int, token: str, worker: str) -> AttemptRecord:
        def assign(connection: Connection) -> AttemptRecord:
            known = attempt_rules.require_live(load_attempt(connection, token))
            group = group_row(connection, known.supervisor, known.group)
            assert group is not None, "an attempt's group is never deleted"
            lock_stream(connection, known.supervisor, group.topic)
            old = load_attempt(connection, token, "update")
            new = attempt_rules.assigned(old, worker)
            if new != old:
                values = attempt_values(new)
                connection.execute(sa.update(t.attempts).where(t.attempts.c.token == token).values(**values))
                waiting = sa.and_(
                    in_group(t.sequences, new.supervisor, new.group), t.sequences.c.state.in_(UNPUBLISHED)
                )
                connection.execute(sa.update(t.sequences).where(waiting).values(assigned=True))
            return new

        return self._fenced(generation, assign)

    def register_attempt(self, generation: int, token: str, address: str, protocol: int, now_ms: int) -> AttemptRecord:
        return self._change(generation, token, lambda old: attempt_rules.registered(old, address, protocol, now_ms))

    def record_positions(
        self, generation: int, token: str, sequence: int, positions: OffsetMap, now_ms: int
    ) -> AttemptRecord:
        return self._change(generation, token, lambda old: attempt_rules.positioned(old, sequence, positions, now_ms))

    def set_attempt_state(
        self, generation: int, token: str, state: AttemptState, error: str | None, now_ms: int
    ) -> AttemptRecord:
        return self._change(generation, token, lambda old: attempt_rules.moved(old, state, error, now_ms))

    def set_committer(self, generation: int, token: str) -> None:
        def choose(connection: Connection) -> None:
            chosen = attempt_rules.require_live(load_attempt(connection, token))
            mine = in_group(t.attempts, chosen.supervisor, chosen.group)
            # All of the group in one order, so that two choices at once cannot wait for each other.
            rows = sa.select(t.attempts).where(mine).order_by(t.attempts.c.id).with_for_update(key_share=True)
            group = {row.token: attempt_of(row) for row in connection.execute(rows)}
            attempt_rules.require_live(group.get(token))
            for attempt in group.values():
                if attempt.committer != (attempt.token == token):
                    this = t.attempts.c.token == attempt.token
                    connection.execute(sa.update(t.attempts).where(this).values(committer=not attempt.committer))

        self._fenced(generation, choose)

    def attempt(self, token: str) -> AttemptRecord | None:
        return self._read(lambda connection: load_attempt(connection, token))

    def attempts(self, supervisor: str | None, live: bool | None, limit: int) -> list[AttemptRecord]:
        query = sa.select(t.attempts).order_by(t.attempts.c.id.desc()).limit(limit)
        if supervisor is not None:
            query = query.where(t.attempts.c.supervisor == supervisor)
        if live is not None:
            query = query.where(sa.text("attempts.ended_ms IS NULL" if live else "attempts.ended_ms IS NOT NULL"))
        return self._read(lambda connection: [attempt_of(row) for row in connection.execute(query)])
