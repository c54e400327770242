"""Rules for time functions: buckets, shifts, parts, differences, conversions."""

from __future__ import annotations

from sqlglot import exp

from query.errors import InvalidQuery
from query.sql import calendar_sql as cal
from query.sql import term as t
from query.sql.calendar_math import (
    UNITS,
    Span,
    floor_ms,
    floor_to_day_ms,
    known_zone,
    parse_interval_ms,
    parse_span,
    shift_ms,
)
from query.sql.casts import as_long, as_number, cast_to
from query.sql.frame import Arguments, Frame, function, node, per_member, scalar
from query.sql.operators import shifted
from query.sql.term import Term
from query.sql.types import BIGINT, BOOLEAN, DATE, INTEGER, TIMESTAMP, Family
from segments.civil import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

# Within a day, parts are arithmetic on the remainder: (width that holds it, width of the unit).
_CLOCK_PARTS = {
    "MILLISECOND": (SECOND_MS, 1),
    "SECOND": (MINUTE_MS, SECOND_MS),
    "MINUTE": (HOUR_MS, MINUTE_MS),
    "HOUR": (DAY_MS, HOUR_MS),
}
_DATE_PARTS = {
    "DAY": "day",
    "DOW": "isodow",
    "ISODOW": "isodow",
    "DOY": "doy",
    "WEEK": "week",
    "MONTH": "month",
    "QUARTER": "quarter",
    "YEAR": "year",
    "ISOYEAR": "isoyear",
    "CENTURY": "century",
    "MILLENNIUM": "millennium",
}


def as_time(term: Term, zone: str) -> Term:
    """The argument of a time function: a time, a text that is one, or milliseconds.

    Raises:
        InvalidQuery: anything else.
    """
    return term if term.family is Family.TIME else cast_to(term, TIMESTAMP, zone)


def constant_text(term: Term, what: str) -> str:
    """The value of an argument that must be a constant text.

    Raises:
        InvalidQuery: it is not one.
    """
    if not term.is_constant or not isinstance(term.value, str):
        raise InvalidQuery(f"{what} must be a text constant")
    return term.value


def zone_argument(frame: Frame, terms: list[Term], at: int) -> str:
    """The time zone given as an argument, else the session's."""
    if len(terms) <= at or terms[at].is_null:
        return frame.zone
    return known_zone(constant_text(terms[at], "the time zone"))


def _origin(frame: Frame, terms: list[Term], at: int) -> int | None:
    if len(terms) <= at or terms[at].is_null:
        return None
    origin = as_time(terms[at], frame.zone)
    if not origin.is_constant or not isinstance(origin.value, int):
        raise InvalidQuery("the origin must be a constant time")
    return origin.value


def floored(moment: Term, span: Span, zone: str, origin_ms: int | None = None) -> Term:
    """The start of the bucket; of a constant at once, so that files can be pruned by it."""
    if moment.is_constant and isinstance(moment.value, int):
        return t.time(floor_ms(moment.value, span, zone, origin_ms))
    return Term(cal.floor(moment.sql, span, zone, origin_ms), TIMESTAMP)


def ceiled(moment: Term, span: Span, zone: str, origin_ms: int | None = None) -> Term:
    """The start of the next bucket, or of this one when the time is exactly there."""
    if moment.is_constant and isinstance(moment.value, int):
        start_ms = floor_ms(moment.value, span, zone, origin_ms)
        return t.time(start_ms if start_ms == moment.value else shift_ms(start_ms, span, 1, zone))
    return Term(cal.ceiling(moment.sql, span, zone, origin_ms), TIMESTAMP)


def _bucket(up: bool) -> None:
    name = "TIME_CEIL" if up else "TIME_FLOOR"

    @scalar(name, least=2, most=4)
    def _rule(frame: Frame, terms: list[Term]) -> Term:
        span = parse_span(constant_text(terms[1], f"the period of {name}"))
        zone = zone_argument(frame, terms, 3)
        place = ceiled if up else floored
        return place(as_time(terms[0], frame.zone), span, zone, _origin(frame, terms, 2))


_bucket(up=False)
_bucket(up=True)


@node(exp.Floor, exp.Ceil, parts="this to")
def _floor_or_ceil(frame: Frame, tree: exp.Expr) -> Term:
    from query.sql.functions_numeric import rounded_to_whole

    up, unit, operand = isinstance(tree, exp.Ceil), tree.args.get("to"), frame.term(tree.this)
    if unit is None:
        return rounded_to_whole(operand, up)
    span, place = unit_span(unit.name), ceiled if up else floored
    return per_member(frame, [operand], lambda _, terms: place(as_time(terms[0], frame.zone), span, frame.zone))


def unit_span(name: str) -> Span:
    """The period of a unit name.

    Raises:
        InvalidQuery: there is no such unit.
    """
    span = UNITS.get(name.upper())
    if span is None:
        raise InvalidQuery(f"{name!r} is not a time unit; known are {', '.join(UNITS)}")
    return span


@scalar("DATE_TRUNC", least=2)
def _date_trunc(frame: Frame, terms: list[Term]) -> Term:
    span = unit_span(constant_text(terms[0], "the unit of DATE_TRUNC").rstrip("sS"))
    return floored(as_time(terms[1], frame.zone), span, frame.zone)


@scalar("TIME_SHIFT", least=3, most=4)
def _time_shift(frame: Frame, terms: list[Term]) -> Term:
    span = parse_span(constant_text(terms[1], "the period of TIME_SHIFT"))
    zone = zone_argument(frame, terms, 3)
    return shifted(zone, as_time(terms[0], frame.zone).typed(TIMESTAMP), span, as_long(terms[2]))


def _unit_name(tree: exp.Expr) -> str:
    """A unit written bare or in quotes, with or without SQL_TSI_ in front."""
    return tree.name.upper().removeprefix("SQL_TSI_")


@function("TIMESTAMPADD", "DATEADD", least=3)
def _timestampadd(frame: Frame, arguments: Arguments) -> Term:
    span = unit_span(_unit_name(arguments[0]))
    count, moment = as_long(frame.term(arguments[1])), as_time(frame.term(arguments[2]), frame.zone)
    if span.days and moment.type != DATE:
        # Days of a time are 24 hours each, as those of an INTERVAL are; only TIME_SHIFT follows the clock.
        span = Span(fixed_ms=span.days * DAY_MS)
    return shifted(frame.zone, moment, span, count)


@function("TIMESTAMPDIFF", "DATEDIFF", least=3)
def _timestampdiff(frame: Frame, arguments: Arguments) -> Term:
    span = unit_span(_unit_name(arguments[0]))
    start, end = (as_time(frame.term(argument), frame.zone).sql for argument in arguments[1:])
    if span.months:
        civil = [cal.stamp(cal.local(side, frame.zone)) for side in (start, end)]
        months = f"datesub('month', {civil[0]}, {civil[1]})"
        return t.expression(f"{months} // {span.months}", INTEGER)
    return t.expression(f"({end} - {start}) // {span.days * DAY_MS + span.fixed_ms}", INTEGER)


def extracted(moment: Term, unit: str, zone: str) -> Term:
    """A part of a time on the clock of a zone.

    Raises:
        InvalidQuery: there is no such part.
    """
    name = unit.upper()
    if name == "EPOCH":
        return t.expression(f"({moment.sql} - {cal.remainder(moment.sql, SECOND_MS)}) // {SECOND_MS}", BIGINT)
    civil = cal.local(moment.sql, zone)
    if name in _CLOCK_PARTS:
        whole, unit_ms = _CLOCK_PARTS[name]
        return t.expression(f"{cal.remainder(civil, whole)} // {unit_ms}", BIGINT)
    if name == "DECADE":
        return t.expression(f"date_part('year', {cal.stamp(civil)}) // 10", BIGINT)
    if name not in _DATE_PARTS:
        known = ", ".join(["EPOCH", "DECADE", *_CLOCK_PARTS, *_DATE_PARTS])
        raise InvalidQuery(f"{unit!r} is not a part of a time; known are {known}")
    return Term(f"CAST(date_part('{_DATE_PARTS[name]}', {cal.stamp(civil)}) AS BIGINT)", BIGINT)


@node(exp.Extract)
def _extract(frame: Frame, tree: exp.Expr) -> Term:
    operand, zone = frame.term(tree.expression), frame.zone
    return per_member(frame, [operand], lambda _, terms: extracted(as_time(terms[0], zone), tree.this.name, zone))


@scalar("TIME_EXTRACT", least=2, most=3)
def _time_extract(frame: Frame, terms: list[Term]) -> Term:
    unit = constant_text(terms[1], "the unit of TIME_EXTRACT")
    return extracted(as_time(terms[0], frame.zone), unit, zone_argument(frame, terms, 2))


def _part_function(name: str, unit: str) -> None:
    @scalar(name)
    def _rule(frame: Frame, terms: list[Term]) -> Term:
        return extracted(as_time(terms[0], frame.zone), unit, frame.zone)


for _name, _unit in {
    "YEAR": "YEAR",
    "QUARTER": "QUARTER",
    "MONTH": "MONTH",
    "WEEK": "WEEK",
    "DAYOFYEAR": "DOY",
    "DAYOFMONTH": "DAY",
    "DAYOFWEEK": "DOW",
    "HOUR": "HOUR",
    "MINUTE": "MINUTE",
    "SECOND": "SECOND",
}.items():
    _part_function(_name, _unit)


@function("TIME_IN_INTERVAL", least=2)
def _time_in_interval(frame: Frame, arguments: Arguments) -> Term:
    start_ms, end_ms = parse_interval_ms(
        constant_text(frame.term(arguments[1]), "the interval of TIME_IN_INTERVAL"), frame.zone
    )
    moment = as_time(frame.term(arguments[0]), frame.zone)
    if moment.time_column:
        column = moment.time_column
        return t.expression(f"{column} >= {t.zoned_sql(start_ms)} AND {column} < {t.zoned_sql(end_ms)}", BOOLEAN)
    return t.expression(f"{moment.sql} >= {start_ms} AND {moment.sql} < {end_ms}", BOOLEAN)


@scalar("MILLIS_TO_TIMESTAMP")
def _millis_to_timestamp(frame: Frame, terms: list[Term]) -> Term:
    return as_long(as_number(terms[0])).typed(TIMESTAMP)


@scalar("TIMESTAMP_TO_MILLIS")
def _timestamp_to_millis(frame: Frame, terms: list[Term]) -> Term:
    return Term(as_time(terms[0], frame.zone).sql, BIGINT)


@node(exp.CurrentTimestamp)
def _current_timestamp(frame: Frame, tree: exp.Expr) -> Term:
    return t.time(frame.session.now())


@function("CURRENT_TIMESTAMP", "LOCALTIMESTAMP")
def _current_to_digits(frame: Frame, arguments: Arguments) -> Term:
    """With a number of digits, of which Druid keeps three whatever is asked for."""
    digits = frame.term(arguments[0]).value
    if not isinstance(digits, int) or isinstance(digits, bool):
        raise InvalidQuery("CURRENT_TIMESTAMP takes a whole number of digits")
    return t.time(frame.session.now())


@node(exp.CurrentDate)
def _current_date(frame: Frame, tree: exp.Expr) -> Term:
    return t.time(floor_to_day_ms(frame.session.now(), frame.zone), DATE)
