"""The metadata store in memory: deterministic, fast, and able to fail on demand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

from ingest.metadata import rules
from ingest.metadata.memory_leadership import MemoryLeadership, MemorySupervisors
from ingest.metadata.memory_lookups import MemoryLookups
from ingest.metadata.memory_offsets import MemoryAttempts, MemoryOffsets
from ingest.metadata.memory_replays import MemoryReplays
from ingest.metadata.memory_state import MemoryState, SegmentEntry, StoreHooks
from ingest.metadata.records import SegmentRow, TableState
from segments.data_segment import DataSegment

__all__ = ["MemoryMetadataStore", "MemoryState", "StoreHooks"]


class MemoryTables(MemoryOffsets):
    """Tables and segments as queries and operators see them."""

    def datasources(self) -> list[str]:
        with self._lock:
            return sorted(self.state.tables)

    def table_versions(self) -> dict[str, int]:
        with self._lock:
            return dict(sorted(self.state.tables.items()))

    def table(self, datasource: str, since: int | None) -> TableState | None:
        with self._lock:
            state = self.state
            version = state.tables.get(datasource)
            if version is None:
                return None
            added, removed = self._difference(datasource, since)
            supervisors = sorted(r.supervisor for r in state.supervisors.values() if r.datasource == datasource)
            names = {name for (name, _), table in state.stream_tables.items() if table == datasource}
            groups = [group for name in sorted(names | set(supervisors)) for group in self._groups(name)]
            streams = [state.streams[key] for key in sorted(state.streams) if state.stream_tables[key] == datasource]
            specs = {name: self._specs(name) for name in supervisors}
            return TableState(datasource, version, added, removed, tuple(streams), tuple(groups), specs)

    def _specs(self, supervisor: str) -> dict[int, dict[str, Any]]:
        state = self.state
        wanted = {r.spec_version for r in state.unpublished.get(supervisor, ())}
        wanted.add(state.supervisors[supervisor].version)
        history = state.history.get(supervisor, ())
        return {e.version: e.spec for e in reversed(history) if e.version in wanted and e.spec is not None}

    def _difference(self, datasource: str, since: int | None) -> tuple[tuple[SegmentRow, ...], tuple[str, ...]]:
        added, removed = [], []
        entries = self.state.segments.get(datasource, {})
        for name in sorted(entries if since is None else self._changed_after(datasource, since)):
            entry = entries[name]
            last_added, last_removed = entry.visibility[-1]
            if last_removed is None:
                if since is None or last_added > since:
                    added.append(self._row(name, entry))
            elif since is not None and last_removed > since:
                removed.append(name)
        return tuple(added), tuple(removed)

    def _changed_after(self, datasource: str, version: int) -> set[str]:
        recent = reversed(self.state.changes.get(datasource, ()))
        return {name for _, name in takewhile(lambda change: change[0] > version, recent)}

    def _row(self, name: str, entry: SegmentEntry) -> SegmentRow:
        segment = self._parsed.get(name)
        if segment is None:
            segment = self._parsed[name] = DataSegment.from_json(entry.payload)
        return SegmentRow(segment, *entry.visibility[-1], entry.state, entry.published_ms)

    def segments(self, datasource: str, after_id: str | None, limit: int, include_unused: bool) -> list[SegmentRow]:
        with self._lock:
            entries = self.state.segments.get(datasource, {})
            names = sorted(
                name
                for name, entry in entries.items()
                if (after_id is None or name > after_id) and (include_unused or entry.visibility[-1][1] is None)
            )
            return [self._row(name, entries[name]) for name in names[:limit]]

    def mark_segments(
        self, generation: int, datasource: str, segment_ids: Sequence[str], used: bool, now_ms: int
    ) -> int:
        with self._writing("mark_segments", generation) as state:
            entries = state.segments.get(datasource, {})
            expected = "unused" if used else "published"
            changed = [i for i in sorted(set(segment_ids)) if i in entries and entries[i].state == expected]
            if not changed:
                return 0
            self._touch()
            version = self._raise_version(datasource)
            for name in changed:
                entry = entries[name]
                visibility = rules.marked(entry.visibility, used, version)
                entries[name] = replace(entry, state="published" if used else "unused", visibility=visibility)
                state.changes[datasource].append((version, name))
            return len(changed)


class MemoryMetadataStore(
    MemoryReplays, MemoryAttempts, MemoryTables, MemorySupervisors, MemoryLookups, MemoryLeadership
):
    """``ingest.metadata.store.MetadataStore`` in dictionaries; safe from any thread.

    ``hooks`` lets a test lose replies, refuse calls or look after every commit. Segments of a publish
    are taken as they come and read as ``DataSegment`` only when a table or segments are asked for.
    """

    def clone(self, hooks: StoreHooks | None = None) -> MemoryMetadataStore:
        """An independent store with the same rows: what another process would find."""
        with self._lock:
            return MemoryMetadataStore(hooks, self.state.copy())

    def check(self) -> None:
        """Never fails, except as ``hooks.before_commit`` says."""
        if self.hooks.before_commit is not None:
            self.hooks.before_commit("check")

    def close(self) -> None:
        """Keeps everything; a closed memory store can be used again."""
