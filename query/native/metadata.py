"""The query types that tell about a table: timeBoundary, dataSourceMetadata and segmentMetadata."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from query.errors import InvalidQuery
from query.native.aggregators_told import merged, strategy_of
from query.native.granularity import ALL
from query.native.grouping import Reading, reading
from query.native.intervals import Interval, condensed, intervals_of, spelled
from query.native.plan import Draft, SegmentFact, Setting
from query.native.rows import Rows
from query.native.shapes import Stamps, json_object
from query.native.sources import rows_of
from query.sql.multi_value import is_missing
from query.sql.scope import Output
from query.sql.term import Term
from query.sql.types import BIGINT, BOOLEAN, VARCHAR, Family, SqlType
from segments.schema import TIME_COLUMN

_ANALYSES = ("cardinality", "interval", "minmax", "size", "aggregators", "rollup", "querygranularity", "timestampspec")
_DEFAULT_ANALYSES = ("cardinality", "interval", "minmax")
_BOUNDS = {"mintime": "minTime", "maxtime": "maxTime"}


def time_boundary(setting: Setting) -> Draft:
    """The times of the first and last row."""
    bound = setting.query.text_or("", "bound")
    if bound and bound.lower() not in _BOUNDS:
        raise InvalidQuery(f"bound: {bound!r} is neither minTime nor maxTime")
    names = (_BOUNDS[bound.lower()],) if bound else ("maxTime", "minTime")
    return _bounds(setting, names)


def data_source_metadata(setting: Setting) -> Draft:
    """The time of the newest row that was ingested."""
    return _bounds(setting, ("maxIngestedEventTime",))


def _bounds(setting: Setting, names: tuple[str, ...]) -> Draft:
    known = _known_range(setting)
    if known is None:
        read: Reading = reading(setting, intervals_required=False)
        moment = read.rows.time()
        first, last = (
            (f"epoch_ms({name}({moment.time_column}))" if moment.time_column else f"{name}({moment.sql})")
            if moment is not None
            else "NULL"
            for name in ("min", "max")
        )
        source = f" FROM {read.rows.sql}{read.where}"
    else:
        first, last, source = str(known[0]), str(known[1]), ""
    sql = f"SELECT CAST({first} AS BIGINT) AS lo, CAST({last} AS BIGINT) AS hi{source}"
    columns = (Output("minTime", "lo", BIGINT), Output("maxTime", "hi", BIGINT))
    return Draft(sql, columns, BoundsShape(Stamps.of(setting, ALL), names))


def _known_range(setting: Setting) -> tuple[int, int] | None:
    """The range of a plain table that is asked for whole: the catalogue knows it, no file need be read."""
    query, name = setting.query, setting.query.get("dataSource")
    if isinstance(name, dict) and name.get("type") == "table":
        name = name.get("name")
    if not isinstance(name, str) or query.has("filter") or query.has("intervals"):
        return None
    return setting.catalogue.time_range(name)


@dataclass(frozen=True, slots=True)
class BoundsShape:
    """``[{timestamp, result}]`` with the named bounds; nothing for a table without rows."""

    stamps: Stamps
    names: tuple[str, ...]

    def pieces(self, rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
        """The body."""
        for first, last in rows:
            if first == "null":
                break
            cells = [self.stamps.json(int(first if name == "minTime" else last)) for name in self.names]
            yield f'[{{"timestamp":{cells[-1]},"result":{json_object(self.names, cells)}}}]'
            return
        yield "[]"


def segment_metadata(setting: Setting) -> Draft:
    """What columns the rows have, of published segments and of running tasks together, as one merged answer."""
    query = setting.query
    given = query.get("dataSource")
    rows = rows_of(setting.session, given, "dataSource", setting.subquery)
    names = [table.name for table in rows.tables]
    facts = [fact for name in names for fact in setting.catalogue.segments(name)]
    if query.has("intervals"):
        asked = intervals_of(query, True)
        facts = [fact for fact in facts if any(_overlap(fact.interval, one) for one in asked)]
        rows_within = condensed([*asked, *(fact.interval for fact in facts)])
    else:
        rows_within = intervals_of(query, False)
    analyses = _analyses(setting)
    columns = _included(setting, rows)
    conditions = rows.within(rows_within)
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    items, outputs = ["count(*) AS n"], [Output("numRows", "n", BIGINT)]
    for at, (name, _) in enumerate(columns):
        for key, (sql, type_) in _facts_sql(rows.column(name), name, analyses).items():
            internal = f"{key}{at}"
            items.append(f"{sql} AS {internal}")
            outputs.append(Output(f"{key} {name}", internal, type_))
    sql = f"SELECT {', '.join(items)} FROM {rows.sql}{where}"
    strategy = strategy_of(query) if "aggregators" in analyses else ""
    united = merged(facts, strategy) if strategy else None
    shape = SegmentMetadataShape(columns, analyses, facts, query.flag("merge"), united)
    return Draft(sql, tuple(outputs), shape)


def _overlap(one: Interval, other: Interval) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _analyses(setting: Setting) -> tuple[str, ...]:
    if setting.query.get("analysisTypes") is None:
        return _DEFAULT_ANALYSES
    found = tuple(name.lower() for name in setting.query.texts("analysisTypes"))
    unknown = [name for name in found if name not in _ANALYSES]
    if unknown:
        raise InvalidQuery(f"analysisTypes: {unknown[0]!r} is none of {', '.join(_ANALYSES)}")
    return found


def _included(setting: Setting, rows: Rows) -> tuple[tuple[str, SqlType], ...]:
    columns = tuple(rows.names())
    if not setting.query.has("toInclude"):
        return columns
    part = setting.query.part("toInclude")
    if part.type == "list":
        wanted = part.texts("columns")
        return tuple(column for column in columns if column[0] in wanted)
    if part.type not in ("all", "none"):
        raise part.unknown_type("toInclude")
    return columns if part.type == "all" else ()


def _facts_sql(operand: Term, name: str, analyses: Sequence[str]) -> dict[str, tuple[str, SqlType]]:
    """What is computed of one column; lists of several values count by member, and a null is a value too."""
    missing = is_missing(operand) if operand.type.multi else f"({operand.sql} IS NULL)"
    nulls = "FALSE" if name == TIME_COLUMN else f"coalesce(bool_or({missing}), FALSE)"
    if operand.type.duckdb == "BLOB":
        # Nobody looks into sketches: one of nothing may be among them.
        nulls = "TRUE"
    found: dict[str, tuple[str, SqlType]] = {"h": (nulls, BOOLEAN)}
    if operand.family is not Family.STRING:
        return found
    members = f"flatten(list({operand.sql}))" if operand.type.multi else ""
    if "cardinality" in analyses:
        different = f"coalesce(len(list_distinct({members})), 0)" if members else f"count(DISTINCT {operand.sql})"
        found["c"] = (f"{different} + CAST({nulls} AS BIGINT)", BIGINT)
    if "minmax" in analyses:
        for key, fold in (("l", "min"), ("g", "max")):
            found[key] = (f"list_{fold}({members})" if members else f"{fold}({operand.sql})", VARCHAR)
    return found


@dataclass(frozen=True, slots=True)
class SegmentMetadataShape:
    """One merged analysis; nothing when there are neither rows nor segments."""

    columns: tuple[tuple[str, SqlType], ...]
    analyses: tuple[str, ...]
    facts: Sequence[SegmentFact]
    merge: bool
    aggregators: dict[str, Any] | None = None

    def pieces(self, rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
        """The body."""
        cells = iter(next(rows))
        count = int(next(cells))
        if not count and not self.facts:
            yield "[]"
            return
        columns = {name: self._column(type_, cells) for name, type_ in self.columns}
        yield json.dumps([self._analysis(count, columns)], ensure_ascii=False)

    def _column(self, type_: SqlType, cells: Iterator[str]) -> dict[str, Any]:
        has_nulls = json.loads(next(cells))
        is_text = type_.family is Family.STRING
        cardinality: int | None = 0 if is_text else None
        least = most = None
        if is_text and "cardinality" in self.analyses:
            cardinality = json.loads(next(cells))
        if is_text and "minmax" in self.analyses:
            least, most = json.loads(next(cells)), json.loads(next(cells))
        return {
            "typeSignature": type_.druid,
            "type": type_.element if type_.family is Family.COMPLEX else type_.druid,
            "hasMultipleValues": type_.multi,
            "hasNulls": has_nulls,
            "size": 0,
            "cardinality": cardinality,
            # Null is the smallest value there is.
            "minValue": None if has_nulls else least,
            "maxValue": most,
            "errorMessage": None,
        }

    def _analysis(self, count: int, columns: dict[str, Any]) -> dict[str, Any]:
        intervals = [spelled(one) for one in condensed(fact.interval for fact in self.facts)]
        grains = {fact.query_granularity for fact in self.facts}
        rollups = {fact.rollup for fact in self.facts}
        asked = self.analyses
        return {
            "id": self.facts[0].id if len(self.facts) == 1 and not self.merge else "merged",
            "intervals": intervals if "interval" in asked else None,
            "columns": columns,
            "size": sum(fact.bytes for fact in self.facts) if "size" in asked else 0,
            "numRows": count,
            "aggregators": self.aggregators,
            "projections": None,
            "timestampSpec": None,
            "queryGranularity": grains.pop() if "querygranularity" in asked and len(grains) == 1 else None,
            "rollup": rollups.pop() if "rollup" in asked and len(rollups) == 1 else None,
        }
