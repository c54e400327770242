"""Writes the SELECT that groups rows and computes aggregates and post-aggregates, for all query types that do so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from query.errors import InvalidQuery
from query.native.aggregators import Aggregate, aggregates_of
from query.native.dimensions import Dimension, add_virtual_columns
from query.native.filters import where
from query.native.granularity import Granularity
from query.native.intervals import Interval, intervals_of
from query.native.plan import Setting, distinct_names
from query.native.post_aggregators import Names, post_aggregate
from query.native.rows import Rows
from query.native.sources import rows_of
from query.splits import CannotSplit, Splitting
from query.sql.multi_value import members, spread
from query.sql.scope import Output
from query.sql.term import Term, one_zero
from query.sql.types import BIGINT
from segments.schema import TIME_COLUMN


@dataclass(slots=True)
class Reading:
    """What a query reads: its rows with virtual columns, the conditions on them, and its intervals."""

    rows: Rows
    conditions: list[str]
    intervals: tuple[Interval, ...]

    @property
    def where(self) -> str:
        """The WHERE clause, empty without conditions."""
        return f" WHERE {' AND '.join(self.conditions)}" if self.conditions else ""


def reading(setting: Setting, intervals_required: bool = True) -> Reading:
    """Opens a query's data source and translates intervals, virtual columns and filter.

    Raises:
        QueryError: one of them is at fault.
    """
    query = setting.query
    given = query.get("dataSource")
    if given is None:
        raise InvalidQuery("dataSource: one is needed")
    intervals = intervals_of(query, intervals_required)
    rows = rows_of(setting.session, given, "dataSource", setting.subquery, intervals)
    conditions = rows.within(intervals)
    add_virtual_columns(rows, query)
    return Reading(rows, conditions + where(rows, query), intervals)


@dataclass(slots=True)
class Groups:
    """A grouping under way. Columns are internal: t the bucket, d0.. dimensions, a0.. aggregates, p0.. the others.

    ``members_only``: a row whose list has no members is in no group, where it is in that of null otherwise.
    """

    reading: Reading
    granularity: Granularity
    dimensions: Sequence[Dimension] = ()
    aggregates: list[Aggregate] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    members_only: bool = False

    @classmethod
    def of(cls, setting: Setting, granularity: Granularity, read: Reading, dimensions: Sequence[Dimension]) -> Groups:
        """The groups of a query with its aggregators.

        Raises:
            QueryError: two have the same name, or one does not fit.
        """
        groups = cls(read, granularity, dimensions, aggregates_of(read.rows, setting.query))
        groups.outputs = [Output(one.name, f"d{at}", one.term.type) for at, one in enumerate(dimensions)]
        for at, one in enumerate(dimensions):
            if one.term.type.multi:
                groups.outputs[at] = Output(one.name, f"d{at}", one.term.type.member)
        groups.outputs += [Output(one.name, f"a{at}", one.type) for at, one in enumerate(groups.aggregates)]
        posts = [part.text_or("", "name") for part in setting.query.parts("postAggregations")]
        distinct_names([one.name for one in groups.outputs] + posts)
        return groups

    def select(self, kind: int | None = None, kept: frozenset[int] | None = None, empty: bool = False) -> str:
        """One grouping: by the bucket and the dimensions in ``kept`` (all when None); ``kind`` is a constant column k.

        ``empty`` groups no rows at all, which gives one row of what aggregates are without any.
        """
        splitting = self.reading.rows.session.splitting
        if splitting is not None:
            return self._select_of_groups(splitting, kind, kept, empty)
        items = [] if kind is None else [f"{kind} AS k"]
        source, keys = self.reading.rows.sql, []
        moment = self.reading.rows.time()
        buckets = not self.granularity.is_all
        bucket = self.granularity.floor_sql(moment.sql) if buckets and moment else "NULL"
        items.append(f"CAST({'NULL' if empty else bucket} AS BIGINT) AS t")
        if buckets and not empty:
            keys.append("t")
        for at, dimension in enumerate(self.dimensions):
            value = one_zero(dimension.term).sql
            if dimension.term.type.multi:
                # A row counts once for each member also where subtotals leave the dimension out.
                value = f"u{at}.m"
                rows = (members if self.members_only else spread)(dimension.term)
                source += f" CROSS JOIN LATERAL (SELECT {rows} AS m) AS u{at}"
            if kept is not None and at not in kept:
                items.append(f"CAST(NULL AS {self.outputs[at].type.duckdb}) AS d{at}")
                continue
            items.append(f"{value} AS d{at}")
            keys.append(f"d{at}")
        items += [f"{self._aggregate(one, kept)} AS a{at}" for at, one in enumerate(self.aggregates)]
        items += [f"{one.sketch} AS s{at}" for at, one in enumerate(self.aggregates) if one.held is not None]
        conditions = " WHERE FALSE" if empty else self.reading.where
        # Keys by position: a column of the table may have the same internal name.
        first = 1 if kind is None else 2
        positions = [str(first + (0 if key == "t" else 1 + int(key[1:]))) for key in keys]
        grouped = f" GROUP BY {', '.join(positions)}" if positions else ""
        return f"SELECT {', '.join(items)} FROM {source}{conditions}{grouped}"

    def _select_of_groups(
        self, splitting: Splitting, kind: int | None, kept: frozenset[int] | None, empty: bool
    ) -> str:
        """As ``select``, of the groups of parts of the rows."""
        source, moment = self.reading.rows.sql, self.reading.rows.time()
        if kept is not None or not isinstance(moment, Term):
            raise CannotSplit("several groupings of one row")
        cells = [] if self.granularity.is_all else [splitting.key(self.granularity.floor_sql(moment.sql), BIGINT)]
        for at, dimension in enumerate(self.dimensions):
            if dimension.term.type.multi:
                members_of = members if self.members_only else spread
                source += f" CROSS JOIN LATERAL (SELECT {members_of(dimension.term)} AS m) AS u{at}"
                cells.append(splitting.key(f"u{at}.m", self.outputs[at].type))
            else:
                cells.append(splitting.key(one_zero(dimension.term).sql, dimension.term.type))
        names = [] if self.granularity.is_all else ["t"]
        names += [f"d{at}" for at in range(len(self.dimensions))]
        items = [] if kind is None else [f"{kind} AS k"]
        items += ["CAST(NULL AS BIGINT) AS t"] if self.granularity.is_all else []
        items += [f"{'NULL' if empty else cell} AS {name}" for cell, name in zip(cells, names, strict=True)]
        for at, one in enumerate(self.aggregates):
            told = self._aggregate(one, None) if one.grouping is not None else splitting.merged(one.merged, one.sql)
            items.append(f"{told} AS a{at}")
        grouped = f" GROUP BY {', '.join(cells)}" if cells and not empty else ""
        groups = splitting.read(source + self.reading.where)
        return f"SELECT {', '.join(items)} FROM {groups}{' WHERE FALSE' if empty else ''}{grouped}"

    def rows_sql(self) -> str:
        """What counts the rows of a group."""
        splitting = self.reading.rows.session.splitting
        return "count(*)" if splitting is None else splitting.merged("count", "count(*)")

    def _aggregate(self, one: Aggregate, kept: frozenset[int] | None) -> str:
        if one.grouping is None:
            return one.sql
        bits = 0
        names = [dimension.name for dimension in self.dimensions]
        for name in one.grouping:
            missing = name not in names or (kept is not None and names.index(name) not in kept)
            bits = bits << 1 | missing
        return f"CAST({bits} AS BIGINT)"

    def names(self) -> dict[str, Term]:
        """What each name of the answer means outside the grouping."""
        return {one.name: Term(one.internal, one.type) for one in self.outputs}

    def sketches(self) -> dict[str, Term]:
        """The sketches behind aggregates that the answer tells estimates of, by the aggregate's name."""
        return {one.name: Term(f"s{at}", one.held) for at, one in enumerate(self.aggregates) if one.held is not None}

    @property
    def inner_outputs(self) -> tuple[Output, ...]:
        """The columns as a query around this one sees them: with sketches where the answer would tell estimates."""
        raw = self.sketches()
        return tuple(
            Output(one.name, raw[one.name].sql, raw[one.name].type) if one.name in raw else one for one in self.outputs
        )

    def with_posts(self, setting: Setting, sql: str) -> str:
        """The grouping with the query's post-aggregates, one level of SELECT for each."""
        for at, part in enumerate(setting.query.parts("postAggregations")):
            term = post_aggregate(setting.session, part, Names(self.names(), self.sketches()))
            self.outputs.append(Output(part.text("name"), f"p{at}", term.type))
            sql = f"SELECT *, {term.sql} AS p{at} FROM ({sql})"
        return sql

    def inner(self, sql: str) -> tuple[str, tuple[Output, ...]]:
        """The groups as the data source of another query: the bucket is the time, unless there is one bucket only."""
        moment = () if self.granularity.is_all else (Output(TIME_COLUMN, "t", BIGINT),)
        return sql, (*moment, *self.inner_outputs)

    @property
    def bucket(self) -> Output:
        """The bucket's start; NULL under granularity all."""
        return Output("timestamp", "t", BIGINT)
