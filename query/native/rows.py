"""The rows a native query works on: the text behind FROM, and what each name means there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from query.errors import InvalidQuery
from query.native.intervals import ETERNITY, Interval
from query.sql import term as t
from query.sql.frame import FUNCTIONS, LARGEST_CHARS, Frame, Session, node
from query.sql.scope import OpenTable, Output, Scope, Source
from query.sql.term import Term
from query.sql.types import BIGINT, TIMESTAMP, VARCHAR, Family, SqlType
from segments.schema import TIME_COLUMN


class Given(exp.Expression):
    """A tree node that stands for a term that is translated already, so that SQL's rules serve native queries."""

    arg_types = {"term": True}


@node(Given, parts="term")
def _given(frame: Frame, tree: exp.Expr) -> Term:
    term = tree.args["term"]
    assert isinstance(term, Term)
    return term


def call(session: Session, name: str, *terms: Term) -> Term:
    """A function of Druid SQL over translated arguments; a multi-value one is changed member by member.

    Raises:
        QueryError: the arguments do not fit.
    """
    frame = Frame(session, Scope(), clause="a native query")
    return plain(FUNCTIONS[name](frame, [Given(term=term) for term in terms]))


def plain(term: Term) -> Term:
    """The term by the types that native queries have: times and truth values are longs."""
    if term.family is Family.TIME:
        return Term(term.sql, BIGINT, term.value, term.is_constant, term.time_column, term.table)
    if term.family is Family.BOOLEAN:
        if term.type.multi:
            several = SqlType("BIGINT", multi=True)
            member = f"CAST({term.member} AS BIGINT)"
            return Term(f"CAST({term.sql} AS BIGINT[])", several, lists=term.lists, member=member)
        return Term(f"CAST({term.sql} AS BIGINT)", BIGINT)
    return term


def constant(value: Any) -> Term:
    """The term of a JSON value; a whole number beyond 64 bits is a double.

    Raises:
        InvalidQuery: it is an object or a list.
    """
    if isinstance(value, dict | list):
        raise InvalidQuery(f"a text or a number is needed where {type(value).__name__} stands")
    if isinstance(value, int) and not t.LONG_MIN <= value <= t.LONG_MAX:
        return t.double(float(value))
    return t.constant(value)


def small_enough(term: Term) -> Term:
    """The term again. One that is used twice in the next, and that again, would grow without bound.

    Raises:
        InvalidQuery: it is too large.
    """
    if len(term.sql) > LARGEST_CHARS:
        raise InvalidQuery("an expression is too large: functions inside each other repeat what they are given")
    return term


@dataclass(slots=True)
class Rows:
    """``sql`` is one item of a FROM. A name is looked up among the virtual columns first, then in ``sources``,
    each with the prefix its columns go by. A name nobody has is a column of nulls, as in Druid.
    """

    session: Session
    sql: str
    sources: list[tuple[str, Source]]
    virtual: dict[str, Term] = field(default_factory=dict)
    shown: dict[str, Term] = field(default_factory=dict)
    """How a scan shows virtual columns of which each value has a type of its own."""
    tables: list[OpenTable] = field(default_factory=list)
    """The stored tables whose own time is this one's: those that intervals narrow."""
    is_bounded: bool = False
    """True when the intervals of the query hold already."""

    def find(self, name: str) -> Term | None:
        """The column of that exact name."""
        if name in self.virtual:
            return self.virtual[name]
        for prefix, source in self.sources:
            if name.startswith(prefix):
                column = source.find(name[len(prefix) :])
                if column is not None:
                    return plain(source.term(column))
        return None

    def column(self, name: str) -> Term:
        """The column of that name, or one of nulls."""
        return self.find(name) or t.null(VARCHAR)

    def names(self) -> Iterator[tuple[str, SqlType]]:
        """All stored columns by name and type, in order, without the virtual ones."""
        for prefix, source in self.sources:
            for column in source.columns:
                yield prefix + column.name, BIGINT if column.type == TIMESTAMP else column.type

    @property
    def is_empty(self) -> bool:
        """True when no table of that name exists."""
        return not any(source.columns for _, source in self.sources)

    def time(self) -> Term | None:
        """The column ``__time``, unless these rows have none."""
        found = self.find(TIME_COLUMN)
        return found if found is not None and found.family is Family.LONG else None

    def filter(self, test: str) -> None:
        """Keeps the rows that pass a test, from now on."""
        self.sql = f"{self.sql} JOIN (SELECT 1) AS {self.session.fresh('one')} ON {test}"

    def within(self, intervals: tuple[Interval, ...]) -> list[str]:
        """The condition that a row lies in one of the intervals, and the narrowing of the tables; empty when all do."""
        moment = self.time()
        if intervals == (ETERNITY,) or moment is None or self.is_bounded:
            return []
        for table in self.tables:
            table.narrow(intervals[0][0] if intervals else 0, intervals[-1][1] if intervals else 0)
        splitting = self.session.splitting
        if splitting is not None and len(intervals) == 1 and moment.time_column:
            splitting.is_bounded = True
            return []
        return [time_within(moment, intervals)]


def time_within(moment: Term, intervals: tuple[Interval, ...]) -> str:
    """The condition that a time in ms lies in one of the intervals; on a stored column so that files are pruned."""
    if not intervals:
        return "FALSE"
    parts = []
    for start, end in intervals:
        sides = []
        if start > ETERNITY[0]:
            sides.append((">=", start))
        if end < ETERNITY[1]:
            sides.append(("<", end))
        if moment.time_column:
            bounds = [f"{moment.time_column} {symbol} {t.zoned_sql(value)}" for symbol, value in sides]
        else:
            bounds = [f"{moment.sql} {symbol} {value}" for symbol, value in sides]
        parts.append(f"({' AND '.join(bounds or ['TRUE'])})")
    return f"({' OR '.join(parts)})"


def rows_of_query(session: Session, sql: str, outputs: tuple[Output, ...]) -> Rows:
    """Rows of a subquery; ``outputs`` say by which internal names it gives its columns."""
    internal = session.fresh("a")
    return Rows(session, f"({sql}) AS {internal}", [("", Source("", internal, outputs))])
