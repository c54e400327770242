"""Lookups in memory."""

from __future__ import annotations

import copy

from ingest.metadata import lookup_rules
from ingest.metadata.memory_state import MemoryBase
from ingest.metadata.records import LookupChange, LookupTiers


class MemoryLookups(MemoryBase):
    """``ingest.metadata.lookup_store.LookupStore`` in a dict."""

    def lookups(self, since: int | None) -> LookupTiers | None:
        with self._lock:
            change = self.state.counters.get(lookup_rules.COUNTER)
            if change is None or change == since:
                return None
            tiers: dict[str, dict[str, dict[str, object]]] = {}
            for (tier, name), container in sorted(self.state.lookups.items()):
                tiers.setdefault(tier, {})[name] = container
            return LookupTiers(change, copy.deepcopy(tiers))

    def change_lookups(self, change: LookupChange, now_ms: int) -> int:
        with self._writing("change_lookups", None) as state:
            after = {key: value for key, value in state.lookups.items() if key not in change.removed}
            for tier, lookups in change.put.items():
                for name, container in lookups.items():
                    lookup_rules.check_replaces(tier, name, after.get((tier, name)), container)
                    after[(tier, name)] = copy.deepcopy(container)
            self._touch()
            state.lookups = after
            state.audit.append(lookup_rules.audit_of_change(change, now_ms))
            return self._count(*lookup_rules.COUNTER)
