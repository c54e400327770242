"""Leadership, node leases, supervisors and the audit trail, on SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ingest.metadata import rules, supervisor_rules
from ingest.metadata import tables as t
from ingest.metadata.engine import TAKEOVER_MS
from ingest.metadata.marks import Seen
from ingest.metadata.records import (
    UNGUARDED,
    AuditRow,
    DesiredState,
    Leadership,
    NodeRecord,
    ResetWish,
    SpecGuard,
    SpecVersion,
    SupervisorRecord,
)
from ingest.metadata.sql_base import SqlBase, append_audit, close_gate, ensure_table, next_count
from ingest.metadata.sql_guards import check_guard
from ingest.metadata.sql_marks import found_in
from ingest.metadata.sql_rows import audit_of, node_of
from ingest.metadata.sql_wishes import store_wish
from ingest.metadata.store import StoreConflict


class SqlLeadership(SqlBase):
    """Who leads and which servers live."""

    def database_id(self) -> str:
        return self.session.marks.database

    def leadership(self) -> Leadership | None:
        row = self._read(lambda connection: _leadership(connection, lock=False))
        if row is not None:
            self.session.marks.note_leader(row.generation, row.beats)
        return row

    def take_leadership(self, node: str, address: str, expected: Leadership | None) -> Leadership | None:
        def take(connection: Connection) -> Leadership | None:
            if connection.dialect.name == "postgresql":
                # Long enough for the sessions of a frozen leader to be ended by their own time-outs.
                wait_ms = connection.get_execution_options()[TAKEOVER_MS]
                connection.exec_driver_sql(f"SET LOCAL lock_timeout = {wait_ms}")
            if _leadership(connection, lock=True) != expected:
                return None
            raised = sa.update(t.leadership).values(
                generation=t.leadership.c.generation + 1, node=node, address=address
            )
            generation = connection.execute(raised.returning(t.leadership.c.generation)).scalar_one()
            connection.execute(sa.update(t.leader_heartbeat).values(generation=generation, **_one_more_beat()))
            return _leadership(connection, lock=False)

        taken = self._write(take)
        if taken is not None:
            self.session.marks.note_leader(taken.generation, taken.beats)
        return taken

    def beat(self, generation: int) -> None:
        def beat(connection: Connection) -> int:
            mine = sa.update(t.leader_heartbeat).where(t.leader_heartbeat.c.generation == generation)
            raised = mine.values(**_one_more_beat()).returning(t.leader_heartbeat.c.beats)
            beats = connection.execute(raised).scalar_one_or_none()
            if beats is None:
                leading = connection.execute(sa.select(t.leader_heartbeat.c.generation)).scalar_one()
                rules.check_generation(leading or None, generation)
            return int(beats or 0)

        self.session.marks.note_leader(generation, self._write(beat))

    def testify(self, generation: int, versions: Mapping[str, int]) -> None:
        seen = self.session.marks.seen()
        if generation <= seen.generation and all(seen.versions.get(name, 0) >= v for name, v in versions.items()):
            return
        expected = Seen(generation, 0, dict(versions))

        def judge(connection: Connection) -> str | None:
            return expected.missing_in(found_in(connection, expected))

        missing = self._read(judge)
        # True or not of the present database: it was true of the one that counts.
        self.session.marks.note_leader(generation)
        self.session.marks.note_versions(versions)
        if missing is not None:
            self.session.refuse(missing)

    def resign(self, generation: int) -> None:
        def resign(connection: Connection) -> None:
            row = _leadership(connection, lock=True)
            rules.check_generation(row.generation if row else None, generation)
            connection.execute(sa.update(t.leadership).values(node=None, address=None))
            connection.execute(sa.update(t.leader_heartbeat).values(generation=0))

        self._write(resign)

    def renew_node(
        self,
        node: str,
        roles: Sequence[str],
        address: str,
        now_ms: int,
        acknowledged: dict[str, int],
        detail: dict[str, Any],
    ) -> None:
        def renew(connection: Connection) -> None:
            mine = t.nodes.c.node == node
            old = connection.execute(sa.select(t.nodes.c.acknowledged).where(mine).with_for_update()).scalar()
            values = {
                "roles": list(roles),
                "address": address,
                "renewed_ms": now_ms,
                "acknowledged": rules.furthest_acknowledged(old or {}, acknowledged),
                "detail": detail,
            }
            if old is None:
                connection.execute(sa.insert(t.nodes).values(node=node, **values))
            else:
                connection.execute(sa.update(t.nodes).where(mine).values(**values))

        self._write(renew)

    def forget_node(self, node: str) -> None:
        self._write(lambda connection: connection.execute(sa.delete(t.nodes).where(t.nodes.c.node == node)))

    def nodes(self) -> list[NodeRecord]:
        return self._read(_nodes)

    def served_version(self, datasource: str, gone: Mapping[str, int]) -> int:
        def served(connection: Connection) -> int:
            query = sa.select(t.datasources.c.version).where(t.datasources.c.datasource == datasource)
            current = connection.execute(query).scalar() or 0
            return rules.served_version(current, _nodes(connection), datasource, gone)

        return self._read(served)


def _one_more_beat() -> dict[str, Any]:
    return {"beats": t.leader_heartbeat.c.beats + 1}


def _leadership(connection: Connection, *, lock: bool) -> Leadership | None:
    """The row with its heartbeat; ``lock`` takes both rows for a change of leader."""
    leader = sa.select(t.leadership.c.generation, t.leadership.c.node, t.leadership.c.address)
    beats = sa.select(t.leader_heartbeat.c.beats)
    if lock:
        close_gate(connection)
        leader, beats = leader.with_for_update(), beats.with_for_update()
    row = connection.execute(leader).one()
    count = connection.execute(beats).scalar_one()
    return None if row.node is None else Leadership(row.generation, row.node, row.address, count)


def _nodes(connection: Connection) -> list[NodeRecord]:
    return [node_of(row) for row in connection.execute(sa.select(t.nodes).order_by(t.nodes.c.node))]


class SqlSupervisors(SqlBase):
    """Supervisors, their history and the audit trail."""

    def put_supervisor(  # noqa: PLR0913 - what one transaction stores
        self,
        generation: int,
        supervisor: str,
        datasource: str,
        spec: dict[str, Any],
        desired: DesiredState,
        now_ms: int,
        guard: SpecGuard = UNGUARDED,
        wish: ResetWish | None = None,
    ) -> SupervisorRecord:
        assert desired is not DesiredState.TERMINATED, "a supervisor is terminated by set_desired"

        def put(connection: Connection) -> SupervisorRecord:
            old = load_supervisor(connection, supervisor, lock=True)
            supervisor_rules.check_same_table(old, datasource)
            check_guard(connection, supervisor, guard)
            if wish is not None:
                store_wish(connection, wish)
            ensure_table(connection, datasource)
            if old is not None and supervisor_rules.goes_on(old, spec, desired):
                record = replace(old, desired=desired, updated_ms=now_ms)
            else:
                version = _append_history(connection, supervisor, spec, now_ms)
                record = SupervisorRecord(supervisor, datasource, version, spec, desired, now_ms)
            _store(connection, record, new=old is None)
            return record

        return self._fenced(generation, put)

    def set_desired(self, generation: int, supervisor: str, desired: DesiredState, now_ms: int) -> SupervisorRecord:
        def change(connection: Connection) -> SupervisorRecord:
            old = load_supervisor(connection, supervisor, lock=True)
            if old is None or (old.desired is DesiredState.TERMINATED and desired is not DesiredState.TERMINATED):
                raise StoreConflict(f"there is no supervisor {supervisor!r}; post its spec")
            if old.desired is desired:
                return old
            version = old.version
            if desired is DesiredState.TERMINATED:
                _append_history(connection, supervisor, None, now_ms)
            elif desired is DesiredState.RUNNING:
                version = _append_history(connection, supervisor, old.spec, now_ms)
            record = replace(old, desired=desired, version=version, updated_ms=now_ms)
            _store(connection, record, new=False)
            return record

        return self._fenced(generation, change)

    def start_again(self, generation: int, supervisor: str, version: int, now_ms: int) -> SupervisorRecord:
        def start(connection: Connection) -> SupervisorRecord:
            old = load_supervisor(connection, supervisor, lock=True)
            if old is None or old.desired is not DesiredState.RUNNING:
                raise StoreConflict(f"supervisor {supervisor!r} is not running")
            if old.version != version:
                return old
            fresh = _append_history(connection, supervisor, old.spec, now_ms)
            record = replace(old, version=fresh, updated_ms=now_ms)
            _store(connection, record, new=False)
            return record

        return self._fenced(generation, start)

    def parse_exceptions(self, supervisor: str, version: int) -> int:
        kind, name = supervisor_rules.exceptions_counter(supervisor, version)
        query = sa.select(t.counters.c.value).where(t.counters.c.kind == kind, t.counters.c.name == name)
        return self._read(lambda connection: int(connection.execute(query).scalar() or 0))

    def supervisors(self) -> list[SupervisorRecord]:
        def alive(connection: Connection) -> list[SupervisorRecord]:
            wanted = t.supervisors.c.desired != DesiredState.TERMINATED.value
            rows = connection.execute(_with_spec().where(wanted).order_by(t.supervisors.c.supervisor))
            return [_record(row) for row in rows]

        return self._read(alive)

    def unfinished_supervisors(self) -> list[str]:
        # Spelt out, not bound, so that the partial indexes serve them.
        unpublished = sa.select(t.sequences.c.supervisor).where(sa.text("sequences.state IN ('open', 'sealed')"))
        live = sa.select(t.attempts.c.supervisor).where(sa.text("attempts.ended_ms IS NULL"))
        both = sa.union(unpublished, live)
        return self._read(lambda connection: sorted(connection.execute(both).scalars()))

    def supervisor(self, supervisor: str) -> SupervisorRecord | None:
        return self._read(lambda connection: load_supervisor(connection, supervisor, lock=False))

    def history(self, supervisor: str) -> list[SpecVersion]:
        specs = t.supervisor_specs.c
        query = sa.select(t.supervisor_specs).where(specs.supervisor == supervisor).order_by(specs.version.desc())

        def read(connection: Connection) -> list[SpecVersion]:
            return [SpecVersion(row.version, row.spec, row.created_ms) for row in connection.execute(query)]

        return self._read(read)

    def spec(self, supervisor: str, version: int) -> dict[str, Any]:
        specs = t.supervisor_specs.c
        query = sa.select(specs.spec).where(specs.supervisor == supervisor, specs.version == version)
        found = self._read(lambda connection: connection.execute(query).scalar())
        if found is None:
            raise StoreConflict(f"supervisor {supervisor!r} has no spec of version {version}")
        return dict(found)

    def append_audit(self, generation: int, row: AuditRow) -> None:
        self._fenced(generation, lambda connection: append_audit(connection, row))

    def last_audit(self, supervisor: str, action: str) -> AuditRow | None:
        mine = sa.and_(t.audit.c.supervisor == supervisor, t.audit.c.action == action)
        query = sa.select(t.audit).where(mine).order_by(t.audit.c.id.desc()).limit(1)

        def read(connection: Connection) -> AuditRow | None:
            row = connection.execute(query).one_or_none()
            return None if row is None else audit_of(row)

        return self._read(read)

    def audit(self, supervisor: str | None, limit: int, skip: int = 0) -> list[AuditRow]:
        query = sa.select(t.audit).order_by(t.audit.c.id.desc()).limit(limit).offset(skip)
        if supervisor is not None:
            query = query.where(t.audit.c.supervisor == supervisor)
        return self._read(lambda connection: [audit_of(row) for row in connection.execute(query)])


def _with_spec() -> Any:
    specs = t.supervisor_specs
    on = sa.and_(specs.c.supervisor == t.supervisors.c.supervisor, specs.c.version == t.supervisors.c.version)
    return sa.select(t.supervisors, specs.c.spec).join(specs, on)


def _record(row: Any) -> SupervisorRecord:
    desired = DesiredState(row.desired)
    return SupervisorRecord(row.supervisor, row.datasource, row.version, row.spec, desired, row.updated_ms)


def load_supervisor(connection: Connection, supervisor: str, *, lock: bool) -> SupervisorRecord | None:
    mine = t.supervisors.c.supervisor == supervisor
    if lock:
        # In a statement of its own: one that waits for the lock inside a join finds the row's newest
        # version but the spec of its old one, and so no row at all.
        connection.execute(sa.select(t.supervisors.c.supervisor).where(mine).with_for_update())
    query = _with_spec().where(mine)
    row = connection.execute(query).one_or_none()
    return None if row is None else _record(row)


def insert_supervisor(
    connection: Connection, supervisor: str, datasource: str, spec: dict[str, Any], now_ms: int
) -> None:
    """A supervisor that did not exist, to be running; in a transaction of the caller's."""
    version = _append_history(connection, supervisor, spec, now_ms)
    _store(connection, SupervisorRecord(supervisor, datasource, version, spec, DesiredState.RUNNING, now_ms), new=True)


def _append_history(connection: Connection, supervisor: str, spec: dict[str, Any] | None, now_ms: int) -> int:
    version = next_count(connection, "spec", supervisor)
    values = {"supervisor": supervisor, "version": version, "spec": spec, "created_ms": now_ms}
    connection.execute(sa.insert(t.supervisor_specs).values(**values))
    return version


def _store(connection: Connection, record: SupervisorRecord, *, new: bool) -> None:
    values = {"version": record.version, "desired": record.desired.value, "updated_ms": record.updated_ms}
    if new:
        key = {"supervisor": record.supervisor, "datasource": record.datasource}
        connection.execute(sa.insert(t.supervisors).values(**key, **values))
    else:
        mine = t.supervisors.c.supervisor == record.supervisor
        connection.execute(sa.update(t.supervisors).where(mine).values(**values))
