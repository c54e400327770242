"""Leadership, node leases, supervisors and the audit trail, in memory."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from ingest.errors import StoreWentBack
from ingest.metadata import rules, supervisor_rules
from ingest.metadata.marks import Seen
from ingest.metadata.memory_state import MemoryBase
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
from ingest.metadata.store import StoreConflict


class MemoryLeadership(MemoryBase):
    """Who leads and which servers live."""

    def database_id(self) -> str:
        return self.state.database

    def leadership(self) -> Leadership | None:
        with self._lock:
            return self._leadership()

    def _leadership(self) -> Leadership | None:
        state = self.state
        return None if state.leader is None else Leadership(state.generation, *state.leader, state.beats)

    def take_leadership(self, node: str, address: str, expected: Leadership | None) -> Leadership | None:
        with self._writing("take_leadership", None) as state:
            if self._leadership() != expected:
                return None
            self._touch()
            state.generation += 1
            state.leader = (node, address)
            state.beats += 1
            return self._leadership()

    def beat(self, generation: int) -> None:
        with self._writing("beat", generation) as state:
            self._touch()
            state.beats += 1

    def testify(self, generation: int, versions: Mapping[str, int]) -> None:
        with self._lock:
            missing = Seen(generation, 0, versions).missing_in(Seen(self.state.generation, 0, self.state.tables))
        if missing is not None:
            raise StoreWentBack("in memory", missing)

    def resign(self, generation: int) -> None:
        with self._writing("resign", generation) as state:
            self._touch()
            state.leader = None

    def renew_node(
        self,
        node: str,
        roles: Sequence[str],
        address: str,
        now_ms: int,
        acknowledged: dict[str, int],
        detail: dict[str, Any],
    ) -> None:
        with self._writing("renew_node", None) as state:
            old = state.nodes.get(node)
            merged = rules.furthest_acknowledged(old.acknowledged if old else {}, acknowledged)
            self._touch()
            state.nodes[node] = NodeRecord(node, tuple(roles), address, now_ms, merged, copy.deepcopy(detail))

    def forget_node(self, node: str) -> None:
        with self._writing("forget_node", None) as state:
            if state.nodes.pop(node, None) is not None:
                self._touch()

    def nodes(self) -> list[NodeRecord]:
        with self._lock:
            return [self.state.nodes[name] for name in sorted(self.state.nodes)]

    def served_version(self, datasource: str, gone: Mapping[str, int]) -> int:
        with self._lock:
            current = self.state.tables.get(datasource, 0)
            return rules.served_version(current, self.state.nodes.values(), datasource, gone)


class MemorySupervisors(MemoryBase):
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
        with self._writing("put_supervisor", generation) as state:
            old = state.supervisors.get(supervisor)
            supervisor_rules.check_same_table(old, datasource)
            begun = bool(state.unpublished.get(supervisor))
            supervisor_rules.check_guard(supervisor, guard, begun, (supervisor, guard.unread) in state.streams)
            if wish is not None:
                self._store_wish(wish)
            self._touch()
            state.tables.setdefault(datasource, 0)
            if old is not None and supervisor_rules.goes_on(old, spec, desired):
                record = replace(old, desired=desired, updated_ms=now_ms)
            else:
                stored = copy.deepcopy(spec)
                version = self._count("spec", supervisor)
                self._append_history(supervisor, SpecVersion(version, stored, now_ms))
                record = SupervisorRecord(supervisor, datasource, version, stored, desired, now_ms)
            state.supervisors[supervisor] = record
            return record

    def _append_history(self, supervisor: str, entry: SpecVersion) -> None:
        self.state.history[supervisor] = (entry, *self.state.history.get(supervisor, ()))

    def set_desired(self, generation: int, supervisor: str, desired: DesiredState, now_ms: int) -> SupervisorRecord:
        with self._writing("set_desired", generation) as state:
            old = state.supervisors.get(supervisor)
            if old is None or (old.desired is DesiredState.TERMINATED and desired is not DesiredState.TERMINATED):
                raise StoreConflict(f"there is no supervisor {supervisor!r}; post its spec")
            if old.desired is desired:
                return old
            self._touch()
            if desired is DesiredState.TERMINATED:
                self._append_history(supervisor, SpecVersion(self._count("spec", supervisor), None, now_ms))
            elif desired is DesiredState.RUNNING:
                old = self._next_version(old, now_ms)
            record = replace(old, desired=desired, updated_ms=now_ms)
            state.supervisors[supervisor] = record
            return record

    def _next_version(self, old: SupervisorRecord, now_ms: int) -> SupervisorRecord:
        """The same spec as the next version."""
        version = self._count("spec", old.supervisor)
        self._append_history(old.supervisor, SpecVersion(version, old.spec, now_ms))
        return replace(old, version=version, updated_ms=now_ms)

    def start_again(self, generation: int, supervisor: str, version: int, now_ms: int) -> SupervisorRecord:
        with self._writing("start_again", generation) as state:
            old = state.supervisors.get(supervisor)
            if old is None or old.desired is not DesiredState.RUNNING:
                raise StoreConflict(f"supervisor {supervisor!r} is not running")
            if old.version != version:
                return old
            self._touch()
            record = self._next_version(old, now_ms)
            state.supervisors[supervisor] = record
            return record

    def parse_exceptions(self, supervisor: str, version: int) -> int:
        with self._lock:
            return self.state.counters.get(supervisor_rules.exceptions_counter(supervisor, version), 0)

    def supervisors(self) -> list[SupervisorRecord]:
        with self._lock:
            found = self.state.supervisors
            return [found[name] for name in sorted(found) if found[name].desired is not DesiredState.TERMINATED]

    def unfinished_supervisors(self) -> list[str]:
        with self._lock:
            live = {attempt.supervisor for attempt in self.state.attempts.values() if attempt.state.is_live}
            return sorted(live | {name for name, records in self.state.unpublished.items() if records})

    def supervisor(self, supervisor: str) -> SupervisorRecord | None:
        with self._lock:
            return self.state.supervisors.get(supervisor)

    def history(self, supervisor: str) -> list[SpecVersion]:
        with self._lock:
            return list(self.state.history.get(supervisor, ()))

    def spec(self, supervisor: str, version: int) -> dict[str, Any]:
        with self._lock:
            return self._spec(supervisor, version)

    def _spec(self, supervisor: str, version: int) -> dict[str, Any]:
        for entry in self.state.history.get(supervisor, ()):
            if entry.version == version and entry.spec is not None:
                return entry.spec
        raise StoreConflict(f"supervisor {supervisor!r} has no spec of version {version}")

    def append_audit(self, generation: int, row: AuditRow) -> None:
        with self._writing("append_audit", generation):
            self._touch()
            self.state.audit.append(row)

    def last_audit(self, supervisor: str, action: str) -> AuditRow | None:
        with self._lock:
            rows = reversed(self.state.audit)
            return next((row for row in rows if (row.supervisor, row.action) == (supervisor, action)), None)

    def audit(self, supervisor: str | None, limit: int, skip: int = 0) -> list[AuditRow]:
        with self._lock:
            rows = (row for row in reversed(self.state.audit) if supervisor in (None, row.supervisor))
            return list(islice(rows, skip, skip + limit))
