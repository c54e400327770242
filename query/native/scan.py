"""The query types scan and search: rows as they are, and which values of dimensions match."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from query.errors import InvalidQuery, UnsupportedQuery
from query.native.dimensions import dimension_of
from query.native.granularity import granularity_of
from query.native.grouping import reading
from query.native.intervals import ETERNITY
from query.native.matching import matches
from query.native.ordering import known_order, ordered, sort_key
from query.native.plan import Draft, Setting
from query.native.shapes import Stamps, json_object, json_text
from query.native.timeseries import BucketShape, covered_times
from query.sql import term as t
from query.sql.casts import as_string
from query.sql.multi_value import as_array, spread
from query.sql.scope import Output
from query.sql.term import Term
from query.sql.types import BIGINT, VARCHAR, Family
from segments.schema import TIME_COLUMN

BATCH_ROWS = 20_480
_FORMATS = {"list": False, "compactedlist": True}


def scan(setting: Setting) -> Draft:
    """Rows in the wanted columns; times are milliseconds, a column that does not exist is null."""
    query = setting.query
    read = reading(setting)
    names = query.texts("columns") or [*dict.fromkeys([*(name for name, _ in read.rows.names()), *read.rows.virtual])]
    spelled = query.text_or("list", "resultFormat").lower()
    if spelled == "valuevector":
        raise UnsupportedQuery("resultFormat: 'valueVector' is not supported, as in Druid; use list or compactedList")
    if spelled not in _FORMATS:
        raise InvalidQuery(f"resultFormat: {spelled!r} is none of list, compactedList")
    known = [(name, read.rows.shown.get(name) or read.rows.find(name)) for name in names]
    terms = [(name, found and as_array(found)) for name, found in known]
    values = [found or t.null(VARCHAR) for _, found in terms]
    outputs = tuple(Output(name, f"o{at}", one.type) for at, (name, one) in enumerate(zip(names, values, strict=True)))
    items = [f"{value.sql} AS {output.internal}" for value, output in zip(values, outputs, strict=True)]
    sql = f"SELECT {', '.join(items) or '1 AS o0'} FROM {read.rows.sql}{read.where}"
    order = _scan_order(setting, read.rows.time(), dict(terms))
    limit, offset = query.whole("limit", least=1), query.whole("offset", 0)
    sql += f" ORDER BY {order}" if order else ""
    sql += f" LIMIT {limit}" if limit is not None else ""
    sql += f" OFFSET {offset}" if offset else ""
    types = [None if found is None or name in read.rows.shown else found.type.druid for name, found in terms]
    batch = query.whole("batchSize", BATCH_ROWS, least=1) or BATCH_ROWS
    shape = ScanShape(tuple(names), tuple(types), _FORMATS[spelled], batch)
    return Draft(sql, outputs, shape, lambda: (sql, outputs))


def _scan_order(setting: Setting, moment: Term | None, selected: dict[str, Term | None]) -> str:
    query = setting.query
    order = query.text_or("none", "order").lower()
    if order not in ("none", "ascending", "descending"):
        raise InvalidQuery(f"order: {order!r} is none of none, ascending, descending")
    keys = []
    for part in query.parts("orderBy"):
        name, way = part.text("columnName"), part.text_or("ascending", "order").lower()
        found = selected.get(name) or (moment if name == TIME_COLUMN else None)
        if found is None:
            raise InvalidQuery(f"{part.at('columnName')}: {name!r} is not among the columns of the query")
        keys.append(ordered(found.sql, way == "descending"))
    if not keys and order != "none":
        if moment is None:
            raise InvalidQuery("order: these rows have no __time to be ordered by")
        if moment.table is not None and order == "descending" and query.whole("limit", least=1) is not None:
            moment.table.newest_first = True
        keys.append(ordered(moment.time_column or moment.sql, order == "descending"))
    return ", ".join(keys)


@dataclass(frozen=True, slots=True)
class ScanShape:
    """``[{segmentId, columns, events, rowSignature}]``, a block per ``batch`` rows."""

    names: tuple[str, ...]
    types: tuple[str | None, ...]
    compact: bool
    batch: int

    def pieces(self, rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
        """The body."""
        signature = [
            f'{{"name":{json_text(name)}}}'
            if type_ is None
            else f'{{"name":{json_text(name)},"type":{json_text(type_)}}}'
            for name, type_ in zip(self.names, self.types, strict=True)
        ]
        end = f'],"rowSignature":[{",".join(signature)}]}}'
        columns = ",".join(map(json_text, self.names))
        count = 0
        yield "["
        for cells in rows:
            if count % self.batch == 0:
                yield f'{end + "," if count else ""}{{"segmentId":null,"columns":[{columns}],"events":['
            between = "," if count % self.batch else ""
            yield between + self._event(cells)
            count += 1
        yield f"{end}]" if count else "]"

    def _event(self, cells: tuple[str, ...]) -> str:
        return f"[{','.join(cells)}]" if self.compact else json_object(self.names, cells)


def _once_each(term: Term) -> Term:
    """The members without repetitions: a row counts once for each."""
    missing = f"CASE WHEN len({term.sql}) > list_count({term.sql}) THEN [NULL] ELSE [] END"
    return Term(f"list_concat(list_distinct({term.sql}), {missing})", term.type)


def search(setting: Setting) -> Draft:
    """Values of dimensions that match a search query, with how many rows have them."""
    query, granularity = setting.query, granularity_of(setting.query, "all")
    read = reading(setting)
    texts = [name for name, type_ in read.rows.names() if type_.family is Family.STRING]
    specs = query.items("searchDimensions") or [*texts, *read.rows.virtual]
    wanted = query.part("query")
    moment = read.rows.time()
    bucket = "NULL" if granularity.is_all or moment is None else granularity.floor_sql(moment.sql)
    selects = []
    for at, spec in enumerate(specs):
        dimension = dimension_of(read.rows, spec, f"searchDimensions[{at}]")
        term, source = dimension.term, read.rows.sql
        if term.type.multi:
            member = setting.session.fresh("u")
            source += f" CROSS JOIN LATERAL (SELECT {spread(_once_each(term))} AS m) AS {member}"
            term = Term(f"{member}.m", VARCHAR)
        text = as_string(term)
        tests = [*read.conditions, matches(setting.session, text, wanted)]
        items = f"CAST({bucket} AS BIGINT) AS t, {t.text_sql(dimension.name)} AS d, {text.sql} AS v, count(*) AS n"
        selects.append(f"SELECT {items} FROM {source} WHERE {' AND '.join(tests)} GROUP BY 1, 3")
    empty = "SELECT CAST(NULL AS BIGINT) AS t, '' AS d, '' AS v, CAST(0 AS BIGINT) AS n WHERE FALSE"
    sql = " UNION ALL ".join(selects) or empty
    sort = query.part("sort").type if query.has("sort") else "lexicographic"
    key = sort_key(setting.session, Term("v", VARCHAR), known_order(sort, "sort.type"))
    limit = query.whole("limit", 1000, least=1)
    ranked = f"SELECT *, row_number() OVER (PARTITION BY t ORDER BY {ordered(key)}, v, d) AS r FROM ({sql})"
    sql = f"SELECT t, d, v, n FROM ({ranked}) WHERE r <= {limit} ORDER BY t, r"
    columns = (
        Output("timestamp", "t", BIGINT),
        Output("dimension", "d", VARCHAR),
        Output("value", "v", VARCHAR),
        Output("count", "n", BIGINT),
    )
    first = (read.intervals or (ETERNITY,))[0][0]
    is_told = granularity.is_all and bool(covered_times(setting, read.rows, read.intervals))
    names = ("dimension", "value", "count")
    return Draft(sql, columns, BucketShape(Stamps.of(setting, granularity), names, first, is_told))
