"""Keeps the groups that parts of a table gave a statement, so that it reads only rows that came since.

A segment's file and a live chunk never change under their names, so what a statement made of them stands for them for
ever: groups are known by the part of the statement that makes them and by the names of the files they were made of. A
query that is bound to those files and some more reads the others and merges; where one of them is gone (dropped,
compacted, published, reset) the groups of its shelf are made anew. Nothing needs to be told of any of that.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from query.binding import Function, Relation
from query.mirror import MirroredChunk
from query.model import TableUse
from query.splits import GROUPS, PARTS, Split
from query.worker_wire import Job, Step
from segments.data_segment import DataSegment

SHARE = 4
"""The groups of one shelf may take this part of the whole."""
LARGE_ROWS = 100_000
"""Live chunks with as many rows have their own shelf: smaller ones are put together again and again."""
_PLANS = 1_000
_WINDOWS = 4
"""Sets of files of one kind that are kept for one statement: it may be asked of an hour and of a day in turn."""

_NAME_BYTES = 64
"""What a name takes in a set of them: of ten thousand segments more than many a statement's groups."""

Key = tuple[bytes, TableUse, tuple[Function, ...]]
"""A digest of what makes the groups, whose text may be as large as a statement, and what it reads and calls."""
Part = TypeVar("Part", DataSegment, MirroredChunk)
EDGE = "edge"
"""The shelf of what lies across a bound of the statement's times: only some of its rows count, others each time."""


@dataclass(frozen=True, slots=True)
class Shelf:
    """The groups (an Arrow IPC stream) of all parts of these names."""

    names: frozenset[str]
    groups: bytes

    @property
    def size_bytes(self) -> int:
        return len(self.groups) + len(self.names) * _NAME_BYTES


@dataclass(slots=True)
class _Kept:
    """What is kept of one statement. ``asked``: how often its answer had to be made; ``is_large``: its groups are."""

    shelves: dict[str, tuple[Shelf, ...]] = field(default_factory=dict)
    asked: int = 0
    is_large: bool = False

    @property
    def size_bytes(self) -> int:
        return sum(shelf.size_bytes for shelves in self.shelves.values() for shelf in shelves)

    def put(self, delta: Delta, groups: bytes) -> None:
        """Takes in what a delta made, in the place of what it was made from."""
        others = [
            one for one in self.shelves.get(delta.shelf, ()) if one is not delta.base and one.names != delta.names
        ]
        self.shelves[delta.shelf] = (Shelf(delta.names, groups), *others[: _WINDOWS - 1])


@dataclass(frozen=True, slots=True)
class Delta:
    """What is to be read for one shelf: ``segments`` and ``chunks`` that are in no groups, beside those in ``base``."""

    shelf: str
    names: frozenset[str]
    base: Shelf | None
    segments: tuple[DataSegment, ...] = ()
    chunks: tuple[MirroredChunk, ...] = ()

    @property
    def rows(self) -> int:
        """Stored rows that are to be read."""
        return sum(segment.rows for segment in self.segments) + sum(chunk.rows for chunk in self.chunks)


@dataclass(frozen=True, slots=True)
class Plan:
    """How one query is answered of groups: ``steps`` to run before ``sql``, which reads ``relation``."""

    key: Key
    deltas: tuple[Delta, ...]
    steps: tuple[Step, ...]
    sql: str
    relation: Relation

    @property
    def rows(self) -> int:
        """Stored rows that are to be read."""
        return sum(delta.rows for delta in self.deltas)

    def job(self, whole: Job, groups_bytes: int) -> Job:
        """The job in the place of one that reads all rows."""
        relations = (self.relation,)
        return replace(whole, sql=self.sql, relations=relations, steps=self.steps, groups_bytes=groups_bytes)


class Partials:
    """The groups of a node's statements, of ``max_bytes`` in all; the least recently used go first. Safe for many
    threads. Tables of fewer than ``least_rows`` are read as a whole."""

    def __init__(self, max_bytes: int, least_rows: int) -> None:
        self._max_bytes = max_bytes
        self._least_rows = least_rows
        self._lock = threading.Lock()
        self._kept: OrderedDict[Key, _Kept] = OrderedDict()
        self._forgotten = 0
        self.used_bytes = 0
        self.hits = 0

    @property
    def groups_bytes(self) -> int:
        """The largest groups that are kept."""
        return self._max_bytes // SHARE

    def plan(
        self,
        split: Split,
        use: TableUse,
        functions: Sequence[Function],
        parts: tuple[Sequence[DataSegment], Sequence[MirroredChunk]],
        relation_of: Callable[[Delta], Relation],
    ) -> Plan | None:
        """How to answer a statement of these parts by groups; None where all rows are better read.

        That is so the first time, where its groups are many, and where the table is small. ``relation_of`` gives what
        a delta reads.
        """
        rows = sum(segment.rows for segment in parts[0]) + sum(chunk.rows for chunk in parts[1])
        if not self._max_bytes or rows < max(self._least_rows, 1):
            return None
        edge: tuple[Sequence[DataSegment], Sequence[MirroredChunk]] = (), ()
        bounds = use.time_bounds
        if split.is_bounded:
            use = replace(use, time_bounds=(None, None))
            whole = _inside(parts[0], bounds), _inside(parts[1], bounds)
            edge = _without(parts[0], whole[0]), _without(parts[1], whole[1])
            parts = whole
        # Checksums name files, and are there already.
        files = {segment.checksum: segment for segment in parts[0]}
        if not (files or parts[1]) or len(files) < len(parts[0]):
            # Nothing to keep, or two segments of one content, which a set of names would tell as one.
            return None
        known_by = f"{self._forgotten}\0{split.partial_sql}".encode()
        key = (hashlib.sha256(known_by).digest(), use, tuple(functions))
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                kept = self._kept[key] = _Kept()
                while len(self._kept) > _PLANS:
                    self._drop_oldest()
            self._kept.move_to_end(key)
            kept.asked += 1
            if kept.asked < 2 or kept.is_large:
                return None
            shelves = dict(kept.shelves)
            self.hits += bool(shelves)
        deltas = tuple(_deltas(shelves, files, parts[1]))
        if edge[0] or edge[1]:
            deltas += (Delta(EDGE, frozenset(), None, tuple(edge[0]), tuple(edge[1])),)
        steps = tuple(_step(split, delta, relation_of) for delta in deltas)
        united = " UNION ALL ".join(split.of(step.name) for step in steps)
        return Plan(key, deltas, steps, split.final_sql, Relation(GROUPS, united))

    def give_up(self, plan: Plan) -> None:
        """Its groups are too many: the statement reads all rows from now on."""
        with self._lock:
            kept = self._kept.get(plan.key)
            if kept is not None:
                self.used_bytes -= kept.size_bytes
                kept.is_large, kept.shelves = True, {}

    def keep(self, plan: Plan, groups: Mapping[str, bytes]) -> None:
        """Keeps what the steps of a plan made, by their names."""
        steps = zip(plan.deltas, plan.steps, strict=True)
        made = [(one, groups[step.name]) for one, step in steps if step.name in groups]
        with self._lock:
            kept = self._kept.get(plan.key)
            if kept is None or kept.is_large:
                return
            before = kept.size_bytes
            for delta, found in made:
                kept.put(delta, found)
            self.used_bytes += kept.size_bytes - before
            while self.used_bytes > self._max_bytes:
                self._drop_oldest()

    def forget(self) -> None:
        """Keeps nothing of what was made, or begun, so far: a file was not what its name says."""
        with self._lock:
            self._forgotten += 1
            self._kept.clear()
            self.used_bytes = 0

    def _drop_oldest(self) -> None:
        """With the lock held."""
        self.used_bytes -= self._kept.popitem(last=False)[1].size_bytes


def _inside(parts: Sequence[Part], bounds: tuple[int | None, int | None]) -> list[Part]:
    """Those all of whose rows lie in the bounds."""
    start_ms, end_ms = bounds
    return [
        part
        for part in parts
        if (start_ms is None or part.min_time_ms >= start_ms) and (end_ms is None or part.max_time_ms < end_ms)
    ]


def _without(parts: Sequence[Part], others: Sequence[Part]) -> tuple[Part, ...]:
    """The parts that are none of the others, in their order."""
    known = {id(part) for part in others}
    return tuple(part for part in parts if id(part) not in known)


def _deltas(
    shelves: Mapping[str, Sequence[Shelf]], files: Mapping[str, DataSegment], chunks: Sequence[MirroredChunk]
) -> list[Delta]:
    large = {chunk.name: chunk for chunk in chunks if chunk.rows >= LARGE_ROWS}
    small = {chunk.name: chunk for chunk in chunks if chunk.rows < LARGE_ROWS}
    base, unread = _missing(shelves.get("files", ()), files)
    found = [Delta("files", frozenset(files), base, segments=unread)]
    for name, live in (("large", large), ("small", small)):
        base, new = _missing(shelves.get(name, ()), live)
        found.append(Delta(name, frozenset(live), base, chunks=new))
    return [delta for delta in found if delta.names]


def _missing(shelves: Sequence[Shelf], parts: Mapping[str, Part]) -> tuple[Shelf | None, tuple[Part, ...]]:
    """The groups that serve, of as many parts as there are, and the parts that are not in them."""
    # Groups of a part that is no longer there cannot be taken out of the others.
    fitting = [shelf for shelf in shelves if shelf.names <= parts.keys()]
    if not fitting:
        return None, tuple(parts.values())
    best = max(fitting, key=lambda shelf: len(shelf.names))
    return best, tuple(part for name, part in parts.items() if name not in best.names)


def _step(split: Split, delta: Delta, relation_of: Callable[[Delta], Relation]) -> Step:
    name = f"g_{delta.shelf}"
    kept = b"" if delta.base is None else delta.base.groups
    if not delta.segments and not delta.chunks:
        return Step(name, "", (), kept)
    relation = relation_of(delta)
    if not kept:
        return Step(name, split.partial_sql, (relation,), is_told=delta.shelf != EDGE)
    united = Relation(PARTS, f"{split.of(name)} UNION ALL {split.partial_sql}")
    return Step(name, split.merge_sql, (relation, united), kept)
