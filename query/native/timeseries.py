"""The query types timeseries and topN: aggregates per bucket of time, and the best of a dimension in each."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from query.errors import InvalidQuery, ResourceLimitExceeded
from query.native.dimensions import dimension_of
from query.native.granularity import Granularity, granularity_of
from query.native.grouping import Groups, reading
from query.native.intervals import ETERNITY, Interval
from query.native.ordering import known_order, ordered, sort_key
from query.native.plan import Draft, Setting
from query.native.request import Part, part_of
from query.native.rows import Rows
from query.native.shapes import Stamps, json_object
from query.sql import term as t
from query.sql.scope import Output
from query.sql.term import Term
from query.sql.types import BIGINT

_EMPTY, _BUCKET, _TOTAL = 0, 1, 2
INNER_BUCKETS = 10_000
"""Buckets of a timeseries that is the data source of another query."""
BUCKETS_MAX = 10_000_000
"""Buckets of a timeseries, those without rows among them."""


def timeseries(setting: Setting) -> Draft:
    """Aggregates per bucket, also for buckets without rows between the table's first and last."""
    query, granularity = setting.query, granularity_of(setting.query)
    read = reading(setting)
    groups = Groups.of(setting, granularity, read, ())
    skip = setting.context.flag("skipEmptyBuckets")
    buckets = groups.select(_BUCKET)
    if granularity.is_all:
        # Also without aggregates all rows are one bucket.
        buckets += f" HAVING {groups.rows_sql()} > 0" if skip else " HAVING count(*) >= 0"
    selects = [buckets, groups.select(_EMPTY, empty=True)]
    if setting.context.flag("grandTotal"):
        total = Groups(read, Granularity(None), (), groups.aggregates, groups.outputs)
        selects.append(total.select(_TOTAL))
    sql = groups.with_posts(setting, " UNION ALL ".join(selects))
    down = query.flag("descending")
    columns = (Output("k", "k", BIGINT), groups.bucket, *groups.outputs)
    ordered_rows = f"FROM ({sql}) ORDER BY k, t {'DESC' if down else 'ASC'}"
    sql = f"SELECT {_listed(*columns)} {ordered_rows}"
    inner = f"SELECT {_listed(columns[0], groups.bucket, *groups.inner_outputs)} {ordered_rows}"
    covered = covered_times(setting, read.rows, read.intervals)
    filled = () if skip or granularity.is_all or granularity.is_none else covered
    if sum(map(granularity.about, filled)) > BUCKETS_MAX:
        raise ResourceLimitExceeded(
            f"the timeseries would tell more than {BUCKETS_MAX} buckets, most of them without rows; "
            "use shorter intervals, a wider granularity, or the context skipEmptyBuckets"
        )
    names = tuple(one.name for one in groups.outputs)
    limit = query.whole("limit", least=1)
    first = first_stamp(covered, read.intervals)
    stamp_name = setting.context.text_or("", "timestampResultField")
    shape = TimeseriesShape(Stamps.of(setting, granularity), filled, names, down, limit, first, stamp_name)
    return Draft(sql, columns, shape, lambda: groups.inner(_told_rows(setting, inner, shape)))


def _told_rows(setting: Setting, sql: str, shape: TimeseriesShape) -> str:
    """The buckets that the shape would tell, those without rows among them, as rows for a query around this one."""
    name, buckets = setting.session.fresh("w"), f"(SELECT * FROM ({sql}) WHERE k = {_BUCKET})"
    starts = list(islice(shape.starts(), INNER_BUCKETS + 1))
    if len(starts) > INNER_BUCKETS:
        raise InvalidQuery(f"{setting.query.path}: a timeseries as data source has at most {INNER_BUCKETS} buckets")
    if starts:
        # One text: the engine takes long over thousands of constants.
        listed = f"SELECT unnest(CAST(string_split('{','.join(map(str, starts))}', ',') AS BIGINT[])) AS s"
        missing = f"SELECT * REPLACE (s AS t) FROM {name} JOIN ({listed}) ON TRUE WHERE k = {_EMPTY}"
        told = f"SELECT * FROM {name} WHERE k = {_BUCKET}"
        absent = f"SELECT * EXCLUDE (s) FROM ({missing} AND s NOT IN (SELECT t FROM ({told})))"
        buckets = f"(WITH {name} AS ({sql}) {told} UNION ALL {absent})"
    limit = f" LIMIT {shape.limit}" if shape.limit is not None else ""
    return f"SELECT * FROM {buckets} ORDER BY t {'DESC' if shape.descending else 'ASC'}{limit}"


def covered_times(setting: Setting, rows: Rows, intervals: tuple[Interval, ...]) -> tuple[Interval, ...]:
    """The parts of the intervals in which the tables have rows: from their first to their last."""
    ranges = [found for table in rows.tables if (found := setting.catalogue.time_range(table.name)) is not None]
    if not ranges:
        return ()
    first, last = min(one for one, _ in ranges), max(one for _, one in ranges) + 1
    cut = [(max(start, first), min(end, last)) for start, end in intervals]
    return tuple((start, end) for start, end in cut if start < end)


def first_stamp(covered: tuple[Interval, ...], intervals: tuple[Interval, ...]) -> int:
    """The time that one bucket of all carries: the first row's that the intervals reach, else their start."""
    return (covered or intervals or (ETERNITY,))[0][0]


@dataclass(frozen=True, slots=True)
class TimeseriesShape:
    """``[{timestamp, result}]``; ``filled`` are the times in which buckets without rows are told too."""

    stamps: Stamps
    filled: tuple[Interval, ...]
    names: tuple[str, ...]
    descending: bool
    limit: int | None
    first_ms: int
    stamp_name: str = ""
    """What the start of a bucket, in ms, is called among its values; empty: it is not there."""

    def pieces(self, rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
        """The body."""
        total: tuple[str, ...] | None = None
        written = 0
        yield "["
        for kind, bucket, cells in self._buckets(rows):
            if kind == _TOTAL:
                total = cells
            elif self.limit is None or written < self.limit:
                yield self._element(self.stamps.json(bucket), cells, written, bucket)
                written += 1
        if total is not None:
            yield self._element("null", total, written)
        yield "]"

    def _element(self, stamp: str, cells: tuple[str, ...], written: int, bucket: int | None = None) -> str:
        names = self.names
        if self.stamp_name:
            names, cells = (*names, self.stamp_name), (*cells, "null" if bucket is None else str(bucket))
        return f'{"," if written else ""}{{"timestamp":{stamp},"result":{json_object(names, cells)}}}'

    def _buckets(self, rows: Iterator[tuple[str, ...]]) -> Iterator[tuple[int, int, tuple[str, ...]]]:
        """Rows as kind, bucket and cells, with the missing buckets in their places."""
        waiting = self.starts()
        empty: tuple[str, ...] = ()
        expected = next(waiting, None)
        for kind, bucket, *cells in rows:
            if int(kind) == _EMPTY:
                empty = tuple(cells)
                continue
            start = int(bucket) if bucket != "null" else self.first_ms
            is_bucket = int(kind) == _BUCKET
            while expected is not None and (not is_bucket or self._before(expected, start)):
                yield _BUCKET, expected, empty
                expected = next(waiting, None)
            if is_bucket and expected == start:
                expected = next(waiting, None)
            yield int(kind), start, tuple(cells)
        while expected is not None:
            yield _BUCKET, expected, empty
            expected = next(waiting, None)

    def _before(self, one: int, other: int) -> bool:
        return one > other if self.descending else one < other

    def starts(self) -> Iterator[int]:
        """The starts of the buckets that are told in any case, in the order of the answer."""
        # Eight bytes each where they are told from the last one on.
        yield from reversed(array("q", self._ascending())) if self.descending else self._ascending()

    def _ascending(self) -> Iterator[int]:
        last = None
        for interval in self.filled:
            for start in self.stamps.granularity.starts(interval):
                if last is None or start > last:
                    yield start
                last = start if last is None else max(last, start)


def top_n(setting: Setting) -> Draft:
    """The best values of a dimension per bucket, exactly."""
    query, granularity = setting.query, granularity_of(setting.query)
    threshold = query.whole("threshold", least=1)
    if threshold is None:
        raise InvalidQuery("threshold: a number of 1 or more is needed")
    read = reading(setting)
    if not query.has("dimension"):
        raise InvalidQuery("dimension: one is needed")
    dimension = dimension_of(read.rows, query.get("dimension"), "dimension")
    groups = Groups.of(setting, granularity, read, (dimension,))
    groups.members_only = True
    sql = groups.with_posts(setting, groups.select())
    metric = query.get("metric")
    if isinstance(metric, str):
        metric = {"type": "numeric", "metric": metric}
    order, test = _metric_order(setting, groups, part_of(metric, "metric"), False)
    ranked = f"SELECT *, row_number() OVER (PARTITION BY t ORDER BY {order}) AS r FROM ({sql}){test}"
    columns = (groups.bucket, *groups.outputs)
    sql = f"SELECT {_listed(*columns)} FROM ({ranked}) WHERE r <= {threshold} ORDER BY t, r"
    covered = covered_times(setting, read.rows, read.intervals)
    first = first_stamp(covered, read.intervals)
    names = tuple(one.name for one in groups.outputs)
    inner = (
        f"SELECT {_listed(groups.bucket, *groups.inner_outputs)} FROM ({ranked}) WHERE r <= {threshold} ORDER BY t, r"
    )
    shape = BucketShape(Stamps.of(setting, granularity), names, first, granularity.is_all and bool(covered))
    return Draft(sql, columns, shape, lambda: groups.inner(inner))


def _listed(*columns: Output) -> str:
    return ", ".join(column.internal for column in columns)


def _metric_order(setting: Setting, groups: Groups, metric: Part, inverted: bool) -> tuple[str, str]:
    """The ORDER BY of a metric spec, and the WHERE of where the last answer stopped.

    Ties, which Druid leaves open, are broken by the dimension.
    """
    kind, known = metric.type, groups.names()
    value = Term("d0", groups.outputs[0].type)
    tie = ordered("d0", descending=inverted)
    if kind == "numeric":
        name = metric.text("metric")
        if name not in known:
            raise InvalidQuery(f"{metric.at('metric')}: {name!r} is no aggregator or post-aggregator of the query")
        return f"{ordered(known[name].sql, descending=not inverted)}, {ordered('d0')}", ""
    if kind == "inverted":
        inner = metric.get("metric")
        part = part_of({"type": "numeric", "metric": inner} if isinstance(inner, str) else inner, metric.at("metric"))
        return _metric_order(setting, groups, part, not inverted)
    orders = {"lexicographic": "lexicographic", "alphaNumeric": "alphanumeric"}
    if kind != "dimension" and kind not in orders:
        raise metric.unknown_type("topN metric")
    order = orders.get(kind) or known_order(metric.text_or("lexicographic", "ordering"), metric.at("ordering"))
    key = sort_key(setting.session, value, order)
    test = ""
    if metric.has("previousStop"):
        stop = sort_key(setting.session, t.text(str(metric.get("previousStop"))), order)
        test = f" WHERE {key} {'<' if inverted else '>'} {stop}"
    if order == "numeric":
        tie = ordered("d0", descending=not inverted)
    # Null is the first one either way.
    first = "(d0 IS NULL) DESC, " if inverted else ""
    return f"{first}{ordered(key, inverted)}, {tie}", test


@dataclass(frozen=True, slots=True)
class BucketShape:
    """``[{timestamp, result: [...]}]``: the rows of each bucket, which lie together.

    ``always``: there is a bucket even without any.
    """

    stamps: Stamps
    names: tuple[str, ...]
    first_ms: int
    always: bool = False

    def pieces(self, rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
        """The body."""
        opened: str | None = None
        yield "["
        for bucket, *cells in rows:
            between = ","
            if bucket != opened:
                stamp = self.stamps.json(self.first_ms if bucket == "null" else int(bucket))
                yield f'{"" if opened is None else "]},"}{{"timestamp":{stamp},"result":['
                opened, between = bucket, ""
            yield between + json_object(self.names, tuple(cells))
        if opened is None and self.always:
            yield f'{{"timestamp":{self.stamps.json(self.first_ms)},"result":[]}}'
        yield "]" if opened is None else "]}]"
