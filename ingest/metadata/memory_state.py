"""What the memory store holds: dictionaries of immutable records, and its one transaction."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ingest.metadata import rules
from ingest.metadata.records import (
    AuditRow,
    LedgerRow,
    NodeRecord,
    QuarantineRow,
    ReplayRecord,
    ResetWish,
    SpecVersion,
    StreamOffsets,
)
from ingest.metadata.records import SupervisorRecord as Supervisor
from ingest.metadata.store import StoreConflict
from ingest.offsets import OffsetMap
from ingest.protocol import AttemptRecord, PendingSegment, Place, SequenceRecord, SequenceRef
from segments.data_segment import DataSegment

GroupKey = tuple[str, int]
"""(supervisor, group epoch)."""
StreamKey = tuple[str, str]
"""(supervisor, topic)."""
Chunk = tuple[str, int, int]
"""(data source, start_ms, end_ms)."""


@dataclass(frozen=True, slots=True)
class Group:
    """A group epoch: fixed when it is opened, kept for ever."""

    topic: str
    datasource: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StagedFileRow:
    """One staged file with its life: staged, superseded, published, deleting, deleted."""

    row_id: int
    path: str
    token: str
    ref: SequenceRef
    segment_id: str | None
    size_bytes: int
    state: str
    staged_ms: int
    removed_ms: int | None = None


@dataclass(frozen=True, slots=True)
class SegmentEntry:
    """A published segment and its visibility, (added, removed) pairs, the latest last."""

    datasource: str
    payload: dict[str, Any]
    state: str
    published_ms: int
    visibility: tuple[tuple[int, int | None], ...]


@dataclass(slots=True)
class MemoryState:
    """Every table of the store. Values are immutable (or replaced whole), so a copy is shallow."""

    generation: int = 0
    leader: tuple[str, str] | None = None  # (node, address); None when resigned
    beats: int = 0
    nodes: dict[str, NodeRecord] = field(default_factory=dict)
    supervisors: dict[str, Supervisor] = field(default_factory=dict)
    history: dict[str, tuple[SpecVersion, ...]] = field(default_factory=dict)
    counters: dict[tuple[str, str], int] = field(default_factory=dict)
    audit: list[AuditRow] = field(default_factory=list)
    lookups: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)  # by (tier, name)
    wishes: dict[int, ResetWish] = field(default_factory=dict)
    streams: dict[StreamKey, StreamOffsets] = field(default_factory=dict)
    stream_tables: dict[StreamKey, str] = field(default_factory=dict)
    places: dict[StreamKey, tuple[Place, ...]] = field(default_factory=dict)
    watermarks: dict[StreamKey, OffsetMap] = field(default_factory=dict)
    groups: dict[GroupKey, Group] = field(default_factory=dict)
    sequences: dict[GroupKey, dict[int, SequenceRecord]] = field(default_factory=dict)
    unpublished: dict[str, tuple[SequenceRecord, ...]] = field(default_factory=dict)
    attempts: dict[str, AttemptRecord] = field(default_factory=dict)
    group_tokens: dict[GroupKey, tuple[str, ...]] = field(default_factory=dict)
    ledger: dict[SequenceRef, LedgerRow] = field(default_factory=dict)
    published: dict[str, list[LedgerRow]] = field(default_factory=dict)
    quarantine: dict[str, list[QuarantineRow]] = field(default_factory=dict)
    replays: dict[SequenceRef, ReplayRecord] = field(default_factory=dict)
    allocated: dict[SequenceRef, dict[tuple[int, int], PendingSegment]] = field(default_factory=dict)
    numbers: dict[Chunk, dict[str, int]] = field(default_factory=dict)
    staged: dict[int, StagedFileRow] = field(default_factory=dict)
    staged_paths: dict[str, int] = field(default_factory=dict)
    staged_of: dict[SequenceRef, tuple[int, ...]] = field(default_factory=dict)
    segments: dict[str, dict[str, SegmentEntry]] = field(default_factory=dict)
    changes: dict[str, list[tuple[int, str]]] = field(default_factory=dict)  # (version, segment id), growing
    tables: dict[str, int] = field(default_factory=dict)
    database: str = "in-memory"

    def copy(self) -> MemoryState:
        """An independent state; costs one shallow copy per dictionary."""
        return MemoryState(**{f.name: _copied(getattr(self, f.name)) for f in fields(self)})


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: v.copy() if isinstance(v, dict | list) else v for k, v in value.items()}
    return value.copy() if isinstance(value, list) else value


Hook = Callable[[str], None]


@dataclass(slots=True)
class StoreHooks:
    """Where a test takes hold; each gets the method's name.

    ``before_commit`` may raise ``StoreUnreachable(effect_known_absent=True)``: nothing is written.
    ``after_commit`` may raise ``StoreUnreachable(effect_known_absent=False)``: written, reply lost.
    ``committed`` is called under the lock whenever a call has changed something, before the reply.
    """

    before_commit: Hook | None = None
    committed: Hook | None = None
    after_commit: Hook | None = None


class MemoryBase:
    """One lock, one state. Every public method is one transaction.

    A method checks everything before it writes anything, so a raised error leaves no trace.
    ``commits`` counts the calls that changed something: a cheap way to see whether to look again.
    """

    def __init__(self, hooks: StoreHooks | None = None, state: MemoryState | None = None) -> None:
        self.hooks = hooks or StoreHooks()
        self.state = state or MemoryState()
        self.commits = 0
        self._changed = False
        self._lock = threading.RLock()
        self._parsed: dict[str, DataSegment] = {}

    @contextmanager
    def _writing(self, method: str, generation: int | None) -> Iterator[MemoryState]:
        """One write transaction; ``generation`` None: the method is not fenced by leadership."""
        hooks = self.hooks
        with self._lock:
            if hooks.before_commit is not None:
                hooks.before_commit(method)
            if generation is not None:
                rules.check_generation(self.state.generation if self.state.leader else None, generation)
            self._changed = False
            yield self.state
            if self._changed:
                self.commits += 1
                if hooks.committed is not None:
                    hooks.committed(method)
        if hooks.after_commit is not None:
            hooks.after_commit(method)

    def _touch(self) -> None:
        """Notes that the running transaction writes."""
        self._changed = True

    def _stream(self, key: StreamKey) -> StreamOffsets:
        stored = self.state.streams.get(key)
        if stored is None:
            raise StoreConflict(f"supervisor {key[0]!r} has no offsets of topic {key[1]!r} yet")
        return stored

    def _store_wish(self, wish: ResetWish) -> ResetWish:
        state = self.state
        self._stream((wish.supervisor, wish.topic))
        for known in state.wishes.values():
            if known == replace(wish, wish_id=known.wish_id, asked_ms=known.asked_ms):
                return known
        self._touch()
        wish = replace(wish, wish_id=self._count("wish", ""))
        state.wishes[wish.wish_id] = wish
        return wish

    def _count(self, kind: str, name: str) -> int:
        """The next number of a counter that nothing ever lowers, from 1 (PR-19)."""
        return self._add_count(kind, name, 1)

    def _add_count(self, kind: str, name: str, by: int) -> int:
        value = self.state.counters.get((kind, name), 0) + by
        self.state.counters[kind, name] = value
        return value

    def _raise_version(self, datasource: str) -> int:
        version = self.state.tables.get(datasource, 0) + 1
        self.state.tables[datasource] = version
        return version

    # ---- sequences, used by several sub-ports

    def _record(self, ref: SequenceRef) -> SequenceRecord | None:
        return self.state.sequences.get((ref.supervisor, ref.group), {}).get(ref.number)

    def _put(self, *records: SequenceRecord) -> None:
        """Stores sequences and keeps the index of unpublished ones."""
        self._touch()
        for record in records:
            ref = record.ref
            self.state.sequences.setdefault((ref.supervisor, ref.group), {})[ref.number] = record
            others = tuple(r for r in self.state.unpublished.get(ref.supervisor, ()) if r.ref != ref)
            self.state.unpublished[ref.supervisor] = (*others, record) if record.state in rules.UNPUBLISHED else others

    def _unpublished(self, supervisor: str, topic: str) -> list[SequenceRecord]:
        """Of one stream, in (group, number) order."""
        found = self.state.unpublished.get(supervisor, ())
        groups = self.state.groups
        mine = (r for r in found if groups[(supervisor, r.ref.group)].topic == topic)
        return sorted(mine, key=lambda r: (r.ref.group, r.ref.number))

    def _attempts_of(self, key: GroupKey) -> list[AttemptRecord]:
        return [self.state.attempts[token] for token in self.state.group_tokens.get(key, ())]

    def _end_files(self, refs: list[SequenceRef]) -> None:
        """Hands staged files that can never be published any more to the sweeper."""
        for ref in refs:
            for row_id in self.state.staged_of.get(ref, ()):
                row = self.state.staged[row_id]
                if row.state == "staged":
                    self.state.staged[row_id] = replace(row, state="superseded")
