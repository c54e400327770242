"""What one query is bound to: its tables, each at one version, and the files that it reads."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from query.asked import NOT_ASKED, Asked
from query.binding import (
    NONE_COUNTED,
    ChunkGroup,
    Counted,
    FileGroup,
    Function,
    Relation,
    bind_lookup,
    bind_table,
    quote,
)
from query.columns import table_def
from query.errors import InvalidQuery, QueryCancelled, QueryError, QueryUnavailable, ResourceLimitExceeded
from query.lanes import Claim
from query.live import BoundTable
from query.lookups.cache import LookupFile
from query.mirror import MirroredChunk
from query.model import FunctionUse, PlannedQuery, TableUse
from query.native.aggregators_told import aggregators_of
from query.native.plan import SegmentFact
from query.partials import EDGE, Delta, Partials, Plan
from query.relations import Assembled
from query.runs import Run
from query.session import Seen
from query.sql.catalogue import TableDef
from query.sql.term import zoned_sql
from query.worker_wire import root_path
from segments.cache import file_name
from segments.data_segment import DataSegment
from segments.schema import TIME_COLUMN, SegmentSchema

if TYPE_CHECKING:
    from query.node import QueryNode

_LACKED = re.compile(r'Referenced column "([^"]+)" not found')
CACHE_ROOT, MIRROR_ROOT = 0, 1
"""Which of a worker's folders holds segments, and which live chunks."""


class BoundQuery:
    """What one statement is bound to: its tables, each at one version, and the files it reads.

    It is the planner's catalogue: a table is bound when the planner first looks at it, so what the plan
    says of columns holds for the rows that are read.
    """

    def __init__(self, node: QueryNode, seen: Mapping[str, Seen], asked: Asked = NOT_ASKED) -> None:
        """``seen``: what the reader saw of tables at other nodes."""
        self.asked = asked
        self._node = node
        self._seen = seen
        self._bound: dict[str, BoundTable | None] = {}
        self._defs: dict[str, TableDef] = {}
        self._read: list[DataSegment] = []
        self._counted: list[DataSegment] = []
        self._pinned: list[DataSegment] = []
        self._lookups: dict[str, LookupFile] = {}
        self._lock = threading.Lock()
        self._run: Run | None = None
        self._reason: QueryError | None = None
        self._is_closed = False
        self._rows_read = 0
        self.claim = Claim()

    @property
    def versions(self) -> dict[str, int]:
        """The tables it reads and their versions."""
        return {name: bound.at.version for name, bound in self._bound.items() if bound is not None}

    @property
    def seen(self) -> dict[str, Seen]:
        """What a reader of the answer has seen of its tables."""
        return {name: bound.seen for name, bound in self._bound.items() if bound is not None}

    def table_names(self) -> Sequence[str]:
        """Names of all tables."""
        return self._node.table_names()

    def table(self, name: str) -> TableDef | None:
        """A table by its exact name, bound from now on."""
        if name not in self._bound:
            bound = self._bound[name] = self._node.bind(name, self._seen.get(name), self.asked.askers)
            if bound is not None:
                live = {chunk.layout: chunk.columns for chunk in bound.chunks}
                self._defs[name] = table_def(name, bound.at.snapshot.schema, bound.at.schemas, live.values())
        return self._defs.get(name)

    def lookup_names(self) -> Sequence[str]:
        """Names of all lookups."""
        return self._node.lookup_names()

    def has_lookup(self, name: str) -> bool:
        """Whether there is a lookup of that exact name; if so, it is bound from now on.

        Raises:
            QueryUnavailable: it could not be read yet.
        """
        if name not in self._lookups:
            found = self._node.lookups.pin(name)
            if found is None:
                return False
            self._lookups[name] = found
        return True

    def function(self, use: FunctionUse) -> Function:
        """What the engine calls by a name of the statement's."""
        return Function(use.name, self._lookup_path(use.lookup) if use.lookup else "")

    def _lookup_path(self, name: str) -> str:
        return f"{root_path(MIRROR_ROOT)}/{self._lookups[name].name}"

    def time_range(self, name: str) -> tuple[int, int] | None:
        """The times of a table's first and last row as this query sees it."""
        self.table(name)
        bound = self._bound[name]
        if bound is None:
            return None
        parts: list[DataSegment | MirroredChunk] = [*bound.at.snapshot.segments, *bound.chunks]
        if not parts:
            return None
        return min(part.min_time_ms for part in parts), max(part.max_time_ms for part in parts)

    def segments(self, name: str) -> Sequence[SegmentFact]:
        """A table's published segments as this query sees them."""
        self.table(name)
        bound = self._bound[name]
        return [] if bound is None else [_fact(segment) for segment in bound.at.snapshot.segments]

    def relation(self, use: TableUse) -> Relation:
        """What the engine reads where the statement names the table; files outside its time bounds are left out.
        They are there once the query holds them."""
        if use.is_lookup:
            return bind_lookup(use, self._lookup_path(use.datasource))
        if not use.is_stored:
            return self._node.rows_at_hand(use)
        bound = self._bound[use.datasource]
        assert bound is not None, "a planned table was bound"
        segments, relations = bound.at.snapshot.segments, self._node.relations
        kept = relations.get(use, segments, bound.chunks)
        if kept is None:
            kept = _assembled(use, segments, bound.chunks)
            relations.put(use, segments, bound.chunks, kept)
        self._read.extend(kept.needed)
        if use.counts_only or use.within_bounds:
            self._counted.extend(self._node.unreadable(_needed(segments, use)))
        self._rows_read += kept.rows
        return kept.relation

    def hold(self, plan: Plan | None = None) -> None:
        """Brings the files that it reads and keeps them until it is closed: those of its relations, or of a plan of
        groups, which needs no others. So a table whose groups are kept may be larger than the cache.

        Raises:
            QueryUnavailable: a segment cannot be read.
        """
        self.check()
        read = self._read if plan is None else [segment for delta in plan.deltas for segment in delta.segments]
        # What is only counted is asked for where it could not be had before: it is not counted either, then.
        self._node.pin([*read, *self._counted], self._pinned, self.check)

    def plan_of_groups(self, planned: PlannedQuery, functions: Sequence[Function], partials: Partials) -> Plan | None:
        """How to answer of groups that are kept; None: as every statement is. Once its relations are bound."""
        if planned.split is None or not planned.use_cache:
            return None
        [use] = planned.tables
        bound = self._bound[use.datasource]
        assert bound is not None, "a planned table was bound"
        parts = _needed(bound.at.snapshot.segments, use), _needed(bound.chunks, use)
        return partials.plan(planned.split, use, functions, parts, lambda one: _part(use, one))

    def claims(self, planned: PlannedQuery, long_rows: int, rows: int | None = None) -> None:
        """Says how urgent and how long it is, once its relations are bound; ``rows``: it reads no more than these."""
        read = self._rows_read if rows is None else rows
        self.claim = Claim(planned.priority, planned.is_low or read >= long_rows, read)

    def started(self, run: Run) -> None:
        """The statement has a worker."""
        with self._lock:
            self._run = run
            reason = self._reason
        if reason is not None:
            run.cancel(reason)

    def shown(self) -> dict[str, object]:
        """The query and its state, in Druid's words."""
        state = "CANCELED" if self._reason is not None else "ACCEPTED" if self._run is None else "RUNNING"
        return self.asked.told(state)

    def cancel(self, reason: QueryError | None = None) -> None:
        """Ends it wherever it stands; who waits for it gets the first ``reason``, QueryCancelled without one."""
        with self._lock:
            self._reason = reason = self._reason or reason or QueryCancelled("the query was cancelled")
            run = self._run
        if run is not None:
            run.cancel(reason)

    def check(self) -> None:
        """Raises the reason when somebody cancelled it."""
        if self._reason is not None:
            raise self._reason

    def close(self) -> None:
        """Lets go of its files."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        self._node.unpin(self._pinned)
        for file in self._lookups.values():
            self._node.lookups.unpin(file)
        for bound in self._bound.values():
            if bound is not None:
                bound.close()

    def told(self, error: QueryError) -> QueryError:
        """What to say of the engine's error, once the query is closed: whose fault it is, by the files it read."""
        if "engineError" not in error.context or isinstance(error, ResourceLimitExceeded):
            return error
        for segment, damage in self._node.damaged(self._pinned).items():
            return QueryUnavailable(
                f"segment {segment.id}: its file in this node's cache {damage}. It comes anew from deep storage: "
                "repeat the query. If it happens again, check the disk of the data directory",
                error.context | {"segment": str(segment.id)},
            )
        if error.context["engineError"] == "BinderException":
            return self._lacking(error)
        named = next((segment for segment in self._pinned if segment.checksum in error.message), None)
        if named is None or isinstance(error, InvalidQuery):
            return error
        return QueryUnavailable(f"segment {named.id}: {error.message}", error.context)

    def _lacking(self, error: QueryError) -> QueryError:
        """Of an error about the statement's names: a column that a file should have is the fault of that file, also if
        it is whole again by now, since another query found it."""
        lacked = _LACKED.search(error.message)
        known = [one for one in self._pinned if lacked and one.schema.column(lacked[1])]
        if lacked is None or not known:
            return error
        self._node.distrust()
        named = f"segment {known[0].id}" + (f" or another of {len(known)}" if len(known) > 1 else "")
        return QueryUnavailable(
            f"{named}: its file in this node's cache lacked the column {lacked[1]!r} when it was read. "
            "It comes anew from deep storage: repeat the query. If it happens again, check the disk of the data "
            "directory",
            error.context | {"segment": str(known[0].id)},
        )


def _assembled(use: TableUse, segments: Sequence[DataSegment], chunks: Sequence[MirroredChunk]) -> Assembled:
    read, counted_segments = _counted(_needed(segments, use), use)
    live, counted_chunks = _counted(_needed(chunks, use), use)
    needed = tuple(read)
    rows = sum(segment.rows for segment in needed)
    # By identity first: segments of one table share few schemas, which are large to hash.
    files: dict[int, tuple[SegmentSchema, list[str]]] = {}
    for segment in needed:
        schema = segment.schema
        files.setdefault(id(schema), (schema, []))[1].append(f"{root_path(CACHE_ROOT)}/{file_name(segment)}")
    layouts: dict[str, list[MirroredChunk]] = {}
    for chunk in live:
        rows += chunk.rows
        layouts.setdefault(chunk.layout, []).append(chunk)
    chunk_groups = [
        ChunkGroup(
            alike[0].columns,
            tuple(f"{root_path(MIRROR_ROOT)}/{chunk.name}" for chunk in alike),
        )
        for alike in layouts.values()
    ]
    groups: dict[SegmentSchema, list[str]] = {}
    for schema, paths in files.values():
        groups.setdefault(schema, []).extend(paths)
    file_groups = [FileGroup(schema, tuple(paths)) for schema, paths in groups.items()]
    known: list[DataSegment | MirroredChunk] = [*counted_segments, *counted_chunks]
    counted = Counted(sum(part.rows for part in known), known[0].min_time_ms) if known else NONE_COUNTED
    relation = bind_table(use, file_groups, chunk_groups, counted)
    return Assembled(relation, needed, rows)


def _part(use: TableUse, delta: Delta) -> Relation:
    """What is read for one shelf; of files across a bound of the times only the rows within."""
    relation = _assembled(use, delta.segments, delta.chunks).relation
    if delta.shelf != EDGE:
        return relation
    [moment] = [quote(column.internal) for column in use.columns if column.name == TIME_COLUMN]
    sides = [
        f"{moment} {symbol} {zoned_sql(value)}"
        for symbol, value in zip((">=", "<"), use.time_bounds, strict=True)
        if value is not None
    ]
    return replace(relation, sql=f"SELECT * FROM ({relation.sql}) WHERE {' AND '.join(sides)}")


Part = TypeVar("Part", DataSegment, MirroredChunk)


def _needed(parts: Sequence[Part], use: TableUse) -> Sequence[Part]:
    """Those that hold times which can matter, in the order in which they are best read."""
    start_ms, end_ms = use.time_bounds
    if start_ms is not None or end_ms is not None:
        parts = [
            part
            for part in parts
            if (end_ms is None or part.min_time_ms < end_ms) and (start_ms is None or part.max_time_ms >= start_ms)
        ]
    return sorted(parts, key=lambda part: part.max_time_ms, reverse=True) if use.newest_first else parts


def _counted(parts: Sequence[Part], use: TableUse) -> tuple[Sequence[Part], Sequence[Part]]:
    """Those that must be read, and those whose rows need only be counted: how many they are is known of each."""
    if use.counts_only:
        return [], parts
    if not use.within_bounds:
        return parts, []
    start_ms, end_ms = use.time_bounds
    inside = [
        (start_ms is None or part.min_time_ms >= start_ms) and (end_ms is None or part.max_time_ms < end_ms)
        for part in parts
    ]
    read = [part for part, is_inside in zip(parts, inside, strict=True) if not is_inside]
    return read, [part for part, is_inside in zip(parts, inside, strict=True) if is_inside]


def _fact(segment: DataSegment) -> SegmentFact:
    interval = (segment.id.interval.start_ms, segment.id.interval.end_ms)
    schema = segment.schema
    grain = schema.query_granularity.name
    united = aggregators_of(schema)
    return SegmentFact(str(segment.id), interval, segment.rows, segment.size_bytes, schema.rollup, grain, united)
