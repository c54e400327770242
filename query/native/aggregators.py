"""Aggregators as SQL aggregates, each with its type."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from query.errors import InvalidQuery
from query.native import expressions, histograms
from query.native.aggregators_computed import VARIANCES, extreme_time_sql, fold, variance_sql
from query.native.dimensions import dimension_of
from query.native.filters import filter_sql
from query.native.request import Part
from query.native.rows import Rows
from query.native.sketches import AGGREGATORS, finalized, sketch_sql
from query.sql.bloom import BLOOM_TYPE, bloom_sql
from query.sql.casts import as_number, as_string, cast_to
from query.sql.multi_value import one_text, only_member
from query.sql.sketches import sketch_type
from query.sql.term import Term, extreme_sql
from query.sql.types import BIGINT, DOUBLE, FLOAT, JSON, VARCHAR, Family, SqlType

_NUMBERS = {"long": BIGINT, "double": DOUBLE, "float": FLOAT}
_SIMPLE = re.compile(r"(long|double|float|string)(Sum|Min|Max|First|Last|Any|Mean|FirstFold|LastFold)")
_OLD_NAMES = {"min": "doubleMin", "max": "doubleMax"}
_OF_NUMBERS = ("Sum", "Min", "Max", "Mean")
_FOLDED = {"Sum": "list_sum", "Min": "list_min", "Max": "list_max"}
_REFUSED = """
javascript stringFirstFold stringLastFold longFirstFold longLastFold doubleFirstFold doubleLastFold
floatFirstFold floatLastFold sqlFirst distinctCount spectatorHistogram spectatorHistogramTimer
spectatorHistogramDistribution momentSketch momentSketchMerge tDigestSketch
"""
_NOT_BUILT = frozenset(_REFUSED.split())


@dataclass(frozen=True, slots=True)
class Aggregate:
    """``sql`` is the call of an aggregate, safe to be selected; ``grouping`` names dimensions of a grouping id.

    ``sketch`` is what ``sql`` is the estimate of, and ``held`` its type: post-aggregators and queries around this one
    see that. ``merged`` is how values of parts of the rows make that of all, as ``query.splits`` knows it; empty: not.
    """

    name: str
    sql: str
    type: SqlType
    grouping: tuple[str, ...] | None = None
    sketch: str = ""
    held: SqlType | None = None
    merged: str = ""


def aggregates_of(rows: Rows, query: Part, name: str = "aggregations") -> list[Aggregate]:
    """The aggregators of a query.

    Raises:
        QueryError: one is unknown, not built or does not fit.
    """
    return [aggregate(rows, part, []) for part in query.parts(name)]


def aggregate(rows: Rows, part: Part, conditions: list[str]) -> Aggregate:
    """One aggregator over the rows that fulfil all conditions."""
    kind = _OLD_NAMES.get(part.type, part.type)
    if kind == "filtered":
        return _filtered(rows, part, conditions)
    name = part.text("name")
    suffix = f" FILTER (WHERE {' AND '.join(conditions)})" if conditions else ""
    if kind == "count":
        return Aggregate(name, f"count(*){suffix}", BIGINT, merged="count")
    if kind == "cardinality":
        return Aggregate(name, _cardinality(rows, part, suffix), BIGINT)
    if kind == "grouping":
        return Aggregate(name, "", BIGINT, tuple(part.texts("groupings")))
    if kind in VARIANCES:
        return Aggregate(name, variance_sql(rows, part, suffix), DOUBLE)
    if kind in ("timeMin", "timeMax"):
        return Aggregate(name, extreme_time_sql(rows, part, suffix), BIGINT)
    if kind in _FOLDS:
        return Aggregate(name, *_FOLDS[kind](rows, part, suffix))
    if kind in AGGREGATORS or kind in histograms.AGGREGATORS:
        return _sketch(rows, part, suffix)
    match = _SIMPLE.fullmatch(kind)
    rule = _RULES.get(match[2]) if match else None
    if match is None or rule is None or (match[1] == "string" and match[2] in _OF_NUMBERS):
        raise part.unsupported("the aggregator") if kind in _NOT_BUILT else part.unknown_type("aggregator")
    type_ = _NUMBERS.get(match[1], VARCHAR)
    return rule(_Call(rows, part, name, match[2], type_, suffix))


def _bloom(rows: Rows, part: Part, suffix: str) -> tuple[str, SqlType]:
    field = dimension_of(rows, part.get("field"), part.at("field")).term
    entries = part.whole("maxNumEntries", 1_500, 1) or 1_500
    return bloom_sql(rows.session, field, entries, suffix, part.path), BLOOM_TYPE


_FOLDS: dict[str, Callable[[Rows, Part, str], tuple[str, SqlType]]] = {
    "expression": fold,
    "bloom": _bloom,
    "histogram": histograms.of_breaks,
    "singleValue": histograms.only_value,
}


def _sketch(rows: Rows, part: Part, suffix: str) -> Aggregate:
    name = part.text("name")
    if part.type in histograms.AGGREGATORS:
        sql, values = histograms.histogram(rows, part, suffix)
        return Aggregate(name, sql, JSON, sketch=values, held=histograms.HELD)
    kind = AGGREGATORS[part.type]
    sketch = sketch_sql(rows.session, part, kind, rows.column, suffix)
    if not part.flag("shouldFinalize", True):
        return Aggregate(name, sketch, sketch_type(kind), sketch=sketch, held=sketch_type(kind))
    sql, type_ = finalized(rows.session, part, kind, sketch)
    return Aggregate(name, sql, type_, sketch=sketch, held=sketch_type(kind))


def _filtered(rows: Rows, part: Part, conditions: list[str]) -> Aggregate:
    inner = part.part("aggregator")
    if part.has("name"):
        inner = Part(inner.value | {"name": part.text("name")}, inner.path)
    return aggregate(rows, inner, [*conditions, filter_sql(rows, part.part("filter"))])


@dataclass(frozen=True, slots=True)
class _Call:
    """One aggregator of a column or expression."""

    rows: Rows
    part: Part
    name: str
    kind: str
    type: SqlType
    suffix: str

    def operand(self) -> Term:
        """What is aggregated, as the aggregator's type."""
        if self.part.has("expression"):
            found = expressions.compiled(self.rows, self.part.text("expression"))
        else:
            found = self.rows.column(self.part.text("fieldName"))
        if self.type == VARCHAR:
            return one_text(found) if found.type.multi and found.family is Family.STRING else as_string(found)
        several = found.type.multi and self.kind not in _FOLDED
        if several or found.family in (Family.ARRAY, Family.COMPLEX):
            raise InvalidQuery(f"{self.part.path}: {self.part.type} of a column of {found.type.druid} is not possible")
        if found.type.multi and not found.lists and not self.part.has("expression"):
            return self._of_members(found)
        return cast_to(as_number(only_member(found) if found.type.multi else found), self.type)

    def _of_members(self, column: Term) -> Term:
        """All members of a stored multi-value string, as Druid aggregates them; of what an expression makes of them
        it takes only that of a row with one."""
        name = self.rows.session.fresh("x")
        number = cast_to(as_number(Term(name, column.type.member)), self.type)
        summed = _FOLDED[self.kind]
        return Term(f"{summed}(list_transform({column.sql}, lambda {name}: {number.sql}))", self.type)

    def result(self, sql: str, type_: SqlType | None = None, merged: str = "") -> Aggregate:
        """The finished aggregate."""
        return Aggregate(self.name, sql, type_ or self.type, merged=merged)


def _sum(call: _Call) -> Aggregate:
    operand = call.operand()
    if call.type == FLOAT:
        return call.result(f"CAST(sum(CAST({operand.sql} AS DOUBLE)){call.suffix} AS FLOAT)")
    return call.result(f"sum({operand.sql}){call.suffix}", merged="sum" if call.type == BIGINT else "total")


def _extreme(call: _Call) -> Aggregate:
    kind = call.kind.lower()
    return call.result(extreme_sql(kind, call.operand(), call.suffix), merged=kind)


def _mean(call: _Call) -> Aggregate:
    return call.result(f"avg(CAST({call.operand().sql} AS DOUBLE)){call.suffix}", DOUBLE)


def _at_time(call: _Call) -> Aggregate:
    """The value of the first or last row by time, also when it is null."""
    moment = call.rows.column(call.part.text_or("__time", "timeColumn"))
    name = "arg_min_null" if call.kind == "First" else "arg_max_null"
    operand = call.operand()
    sql = f"{name}({operand.sql}, {moment.time_column or moment.sql}){call.suffix}"
    return _cut(call, sql, operand)


def _cut(call: _Call, sql: str, operand: Term) -> Aggregate:
    """A text of as many bytes as are asked for; all of it where nothing is."""
    if call.type != VARCHAR:
        return call.result(sql)
    most = call.part.whole("maxStringBytes", least=1)
    kernel = call.rows.session.kernel("text_of_bytes") if most is not None else ""
    return call.result(f"{kernel}({sql}, {most})" if kernel else sql, operand.type)


def _any(call: _Call) -> Aggregate:
    operand = call.operand()
    return _cut(call, f"any_value({operand.sql}){call.suffix}", operand)


_RULES: dict[str, Callable[[_Call], Aggregate]] = {
    "Sum": _sum,
    "Min": _extreme,
    "Max": _extreme,
    "Mean": _mean,
    "First": _at_time,
    "Last": _at_time,
    "Any": _any,
}


def _cardinality(rows: Rows, part: Part, suffix: str) -> str:
    """Exact where Druid estimates: different values of all fields together, or different rows of them."""
    specs = part.items("fields", "fieldNames")
    if not specs:
        raise InvalidQuery(f"{part.at('fields')}: at least one is needed")
    terms = [dimension_of(rows, spec, f"{part.at('fields')}[{at}]").term for at, spec in enumerate(specs)]
    if part.flag("byRow"):
        known = [f"list_count({one.sql}) > 0" if one.type.multi else f"{one.sql} IS NOT NULL" for one in terms]
        row = f"row({', '.join(one.sql for one in terms)})"
        # A row of nothing is none.
        return f"count(DISTINCT CASE WHEN {' OR '.join(known)} THEN {row} END){suffix}"
    if len(terms) == 1 and not terms[0].type.multi:
        return f"count(DISTINCT {terms[0].sql}){suffix}"
    lists = [one.sql if one.type.multi else f"[CAST({one.sql} AS VARCHAR)]" for one in terms]
    joined = lists[0]
    for other in lists[1:]:
        joined = f"list_concat({joined}, {other})"
    return f"coalesce(len(list_distinct(flatten(list({joined}){suffix}))), 0)"
