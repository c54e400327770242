"""Remembers how statements were planned: a dashboard asks the same all day, and planning costs more than the rest.

A plan follows from the statement, from what its request sets, and from what the planner asked its catalogue. So the
questions are kept with the answers, and a plan serves again when a query that is bound anew gets the same answers:
the same columns of the same types, the same lookups. A plan that says what time it is serves once.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from query.model import PlannedQuery, SqlRequest
from query.sql.catalogue import Catalogue, TableDef

LONGEST_CHARS = 20_000
"""A longer statement is a list of literals more than a question: it is planned anew each time."""
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
"""What the planner reads of a context, besides the query's id."""
Planner = Callable[[SqlRequest, Catalogue, int], PlannedQuery]


@dataclass(frozen=True, slots=True)
class _Kept:
    """A plan with the planner's questions (method, names) and what it was told."""

    planned: PlannedQuery
    questions: tuple[tuple[str, tuple[str, ...], object], ...]


class PlanCache:
    """At most ``most`` plans, the least recently used of them going first; 0 keeps none. Safe for many threads."""

    def __init__(self, planner: Planner, most: int = 1_000) -> None:
        self._planner = planner
        self._most = most
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self.hits = 0

    def plan(self, request: SqlRequest, catalogue: Catalogue, now_ms: int) -> PlannedQuery:
        """As ``query.sql.planner.plan``. Plans of one statement share their parts, which tell them apart from others.

        Raises:
            QueryError: the statement or the request cannot be answered.
        """
        if len(request.query) > LONGEST_CHARS:
            return self._planner(request, catalogue, now_ms)
        key = _key(request)
        with self._lock:
            kept = self._kept.get(key)
        if kept is not None and all(_answer(catalogue, *asked[:2]) == asked[2] for asked in kept.questions):
            with self._lock:
                self.hits += 1
                if key in self._kept:
                    self._kept.move_to_end(key)
            query_id = request.context.get("sqlQueryId")
            return replace(kept.planned, query_id=None if query_id is None else str(query_id))
        listening = _Listening(catalogue)
        planned = self._planner(request, listening, now_ms)
        if planned.is_timeless:
            with self._lock:
                self._kept[key] = _Kept(planned, tuple(listening.questions))
                self._kept.move_to_end(key)
                while len(self._kept) > self._most:
                    self._kept.popitem(last=False)
        return planned


def _key(request: SqlRequest) -> str:
    """All that a plan follows from but the catalogue; as JSON, where 1, 1.0, true and "1" differ."""
    settings = [request.context.get(name) for name in READ]
    parameters = [(one.type, one.value) for one in request.parameters]
    flags = (request.header, request.types_header, request.sql_types_header)
    return json.dumps([request.query, settings, parameters, flags], default=repr)


def _answer(catalogue: Catalogue, method: str, names: tuple[str, ...]) -> object:
    match method:
        case "table":
            return catalogue.table(*names)
        case "has_lookup":
            return catalogue.has_lookup(*names)
        case "table_names":
            return tuple(catalogue.table_names())
        case _:
            return tuple(catalogue.lookup_names())


class _Listening:
    """A catalogue that notes what it is asked, each thing once."""

    def __init__(self, inner: Catalogue) -> None:
        self._inner = inner
        self.questions: list[tuple[str, tuple[str, ...], object]] = []

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
