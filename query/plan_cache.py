"""Remembers how queries were planned: a dashboard asks the same all day, and planning costs more than the rest.

A plan follows from the query, from what its request sets, and from what the planner asked its catalogue. So the
questions are kept with the answers, and a plan serves again when a query that is bound anew gets the same answers:
the same columns of the same types, the same lookups, the same times of the first and last row where buckets are
filled. A plan that says what time it is serves once, for the time decides which segments are read; of its statement
the parsed text is kept, which is half the work.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from query.model import PlannedQuery, SqlRequest
from query.native.plan import NativeCatalogue, NativePlan, SegmentFact
from query.sql.catalogue import Catalogue, TableDef
from query.sql.dialect import Statement, parse_statement

LONGEST_CHARS = 20_000
"""A longer query is a list of literals more than a question: it is planned anew each time."""
PARSED_CHARS = 4_000
PARSED_MOST = 200
"""A parsed text takes some fifty times its length."""
READ = (
    "sqlTimeZone",
    "sqlCurrentTimestamp",
    "sqlOuterLimit",
    "timeout",
    "sqlStringifyArrays",
    "priority",
    "lane",
    "useCache",
    "populateCache",
)
"""What the planner reads of an SQL request's context, besides the query's id."""
Question = tuple[str, tuple[str, ...], object]
"""A method of the catalogue, the names it was given, and what it said."""
_Plan = TypeVar("_Plan")


class SqlPlanner(Protocol):
    """``query.sql.planner.plan``."""

    def __call__(
        self, request: SqlRequest, catalogue: Catalogue, now_ms: int, parsed: Statement | None = None, /
    ) -> PlannedQuery:
        """The plan of a request; ``parsed`` is its statement, which is changed."""
        ...


class NativePlanner(Protocol):
    """``query.native.planner.plan``."""

    def __call__(self, body: Any, catalogue: NativeCatalogue, now_ms: int, /) -> NativePlan:
        """The plan of a query object."""
        ...


@dataclass(frozen=True, slots=True)
class _Kept(Generic[_Plan]):
    planned: _Plan
    questions: tuple[Question, ...]


class _Plans(Generic[_Plan]):
    """At most ``most`` plans by their keys, the least recently used of them going first. Safe for many threads."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, _Kept[_Plan]] = OrderedDict()
        self.hits = 0

    def get(self, key: str, catalogue: Catalogue) -> _Plan | None:
        """The plan, if the catalogue still answers as it did."""
        with self._lock:
            kept = self._kept.get(key)
        if kept is None or not all(_answer(catalogue, *asked[:2]) == asked[2] for asked in kept.questions):
            return None
        with self._lock:
            self.hits += 1
            if key in self._kept:
                self._kept.move_to_end(key)
        return kept.planned

    def put(self, key: str, planned: _Plan, questions: Sequence[Question] = ()) -> None:
        """Keeps a plan with what was asked for it."""
        with self._lock:
            self._kept[key] = _Kept(planned, tuple(questions))
            self._kept.move_to_end(key)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)


class PlanCache:
    """At most ``most`` plans of statements; 0 keeps none. Safe for many threads."""

    def __init__(self, planner: SqlPlanner, most: int = 1_000) -> None:
        self._planner = planner
        self._plans: _Plans[PlannedQuery] = _Plans(most)
        self._parsed: _Plans[Statement] = _Plans(min(most, PARSED_MOST))

    @property
    def hits(self) -> int:
        """Plans that served again."""
        return self._plans.hits

    @property
    def parsed_hits(self) -> int:
        """Parsed statements that served again."""
        return self._parsed.hits

    def plan(self, request: SqlRequest, catalogue: Catalogue, now_ms: int) -> PlannedQuery:
        """As ``query.sql.planner.plan``. Plans of one statement share their parts, which tell them apart from others.

        Raises:
            QueryError: the statement or the request cannot be answered.
        """
        if len(request.query) > LONGEST_CHARS:
            return self._planner(request, catalogue, now_ms)
        key = _key(request)
        kept = self._plans.get(key, catalogue)
        if kept is not None:
            query_id = request.context.get("sqlQueryId")
            return replace(kept, query_id=None if query_id is None else str(query_id))
        parsed = self._parsed.get(request.query, catalogue)
        listening = _Listening(catalogue)
        planned = self._planner(request, listening, now_ms, None if parsed is None else parsed.copied())
        if planned.is_timeless:
            self._plans.put(key, planned, listening.questions)
        elif parsed is None and len(request.query) <= PARSED_CHARS:
            self._parsed.put(request.query, parse_statement(request.query))
        return planned


class NativePlanCache:
    """At most ``most`` plans of native queries; 0 keeps none. Safe for many threads."""

    def __init__(self, planner: NativePlanner, most: int = 1_000) -> None:
        self._planner = planner
        self._plans: _Plans[NativePlan] = _Plans(most)

    @property
    def hits(self) -> int:
        """Plans that served again."""
        return self._plans.hits

    def plan(self, body: Any, catalogue: NativeCatalogue, now_ms: int) -> NativePlan:
        """As ``query.native.planner.plan``.

        Raises:
            QueryError: the query cannot be answered.
        """
        key, query_id = _native_key(body)
        if len(key) > LONGEST_CHARS:
            return self._planner(body, catalogue, now_ms)
        kept = self._plans.get(key, catalogue)
        if kept is not None:
            return replace(kept, planned=replace(kept.planned, query_id=query_id))
        listening = _NativeListening(catalogue)
        plan = self._planner(body, listening, now_ms)
        if plan.planned.is_timeless and not listening.is_fleeting:
            self._plans.put(key, plan, listening.questions)
        return plan


def _key(request: SqlRequest) -> str:
    """All that a plan follows from but the catalogue; as JSON, where 1, 1.0, true and "1" differ."""
    settings = [request.context.get(name) for name in READ]
    parameters = [(one.type, one.value) for one in request.parameters]
    flags = (request.header, request.types_header, request.sql_types_header)
    return json.dumps([request.query, settings, parameters, flags], default=repr)


def _native_key(body: Any) -> tuple[str, str | None]:
    """The query without its id, and the id. The order of members is kept: it may be that of the answer's."""
    query_id = None
    if isinstance(body, dict) and isinstance(body.get("context"), dict):
        found = body["context"].get("queryId")
        query_id = None if found is None else str(found)
        body = body | {"context": {name: value for name, value in body["context"].items() if name != "queryId"}}
    return json.dumps(body, default=repr), query_id


def _answer(catalogue: Any, method: str, names: tuple[str, ...]) -> object:
    found = getattr(catalogue, method)(*names)
    return tuple(found) if method in ("table_names", "lookup_names") else found


class _Listening:
    """A catalogue that notes what it is asked, each thing once."""

    def __init__(self, inner: Catalogue) -> None:
        self._inner = inner
        self.questions: list[Question] = []

    def table_names(self) -> Sequence[str]:
        """Names of all tables."""
        found = self._inner.table_names()
        self._note("table_names", (), tuple(found))
        return found

    def table(self, name: str) -> TableDef | None:
        """A table by its exact name."""
        found = self._inner.table(name)
        self._note("table", (name,), found)
        return found

    def lookup_names(self) -> Sequence[str]:
        """Names of all lookups."""
        found = self._inner.lookup_names()
        self._note("lookup_names", (), tuple(found))
        return found

    def has_lookup(self, name: str) -> bool:
        """Whether there is a lookup of that exact name."""
        found = self._inner.has_lookup(name)
        self._note("has_lookup", (name,), found)
        return found

    def _note(self, method: str, names: tuple[str, ...], found: object) -> None:
        question = (method, names, found)
        if question not in self.questions:
            self.questions.append(question)


class _NativeListening(_Listening):
    """One that native queries ask; ``is_fleeting`` when the answer was a list of all segments."""

    def __init__(self, inner: NativeCatalogue) -> None:
        super().__init__(inner)
        self._native = inner
        self.is_fleeting = False

    def time_range(self, name: str) -> tuple[int, int] | None:
        """The times of a table's first and last row."""
        found = self._native.time_range(name)
        self._note("time_range", (name,), found)
        return found

    def segments(self, name: str) -> Sequence[SegmentFact]:
        """A table's published segments."""
        self.is_fleeting = True
        return self._native.segments(name)
