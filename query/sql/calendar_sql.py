"""Writes calendar arithmetic for DuckDB: everything on milliseconds, zones only where days or longer need them."""

from __future__ import annotations

from query.sql.calendar_math import Span, day_anchor_ms, fixed_anchor_ms, whole_ms
from query.sql.term import text_sql
from segments.civil import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS
from segments.truncation import fixed_offset_ms, offset_ms

_LIFT = 2**61
_EPOCH = "TIMESTAMP '1970-01-01'"
_TRUNCATED = {1: "month", 3: "quarter", 12: "year"}


def stamp(local_ms: str) -> str:
    """Civil milliseconds as DuckDB's plain timestamp."""
    return f"epoch_ms(CAST({local_ms} AS BIGINT))"


def local(utc_ms: str, zone: str) -> str:
    """Milliseconds as the clock of a zone shows them."""
    if zone == "UTC":
        return utc_ms
    fixed_ms = fixed_offset_ms(zone)
    if fixed_ms is not None:
        return f"({utc_ms} + {fixed_ms})"
    return f"epoch_ms(timezone({text_sql(zone)}, make_timestamptz(CAST({utc_ms} AS BIGINT) * 1000)))"


def utc(local_ms: str, zone: str) -> str:
    """Civil milliseconds of a zone as milliseconds UTC."""
    if zone == "UTC":
        return local_ms
    fixed_ms = fixed_offset_ms(zone)
    if fixed_ms is not None:
        return f"({local_ms} - {fixed_ms})"
    return f"epoch_ms(timezone({text_sql(zone)}, {stamp(local_ms)}))"


def remainder(value: str, width: int, anchor: int = 0) -> str:
    """The distance from the last multiple of ``width``, never negative; DuckDB's own % follows the sign.

    So the value is lifted by a large multiple of the width first: cheaper than a second %, and exact for any
    value within 2**60 of zero.
    """
    return f"(({value} + {_LIFT // width * width - anchor}) % {width})"


def multiple(value: str, width: int, anchor: int = 0) -> str:
    """The last multiple of ``width``, counted from ``anchor``, at or before the value: ``value - remainder(...)``."""
    lift = _LIFT // width * width - anchor
    return f"(({value} + {lift}) // {width} * {width} - {lift})"


def floor(value_ms: str, span: Span, zone: str, origin_ms: int | None) -> str:
    """The start of the bucket of a time: the SQL of ``calendar_math.floor_ms``."""
    if span.parts > 1:
        return multiple(value_ms, whole_ms(span, zone), origin_ms or 0)
    if span.fixed_ms:
        if origin_ms is None and span.fixed_ms in (HOUR_MS, MINUTE_MS, SECOND_MS, 1):
            if zone == "UTC":
                return multiple(value_ms, span.fixed_ms)
            return f"({value_ms} - {remainder(local(value_ms, zone), span.fixed_ms)})"
        return multiple(value_ms, span.fixed_ms, fixed_anchor_ms(zone, origin_ms))
    if span.days:
        return floor_days(value_ms, zone, span.days, day_anchor_ms(span, zone, origin_ms))
    return _floor_months(value_ms, span.months, zone, origin_ms)


def floor_days(value_ms: str, zone: str, days: int, anchor_ms: int) -> str:
    """The start of a bucket of whole days on a zone's clock."""
    return utc(multiple(local(value_ms, zone), days * DAY_MS, anchor_ms), zone)


def _floor_months(value_ms: str, months: int, zone: str, origin_ms: int | None) -> str:
    civil = stamp(local(value_ms, zone))
    if origin_ms is not None:
        return _floor_months_from(civil, months, zone, origin_ms + offset_ms(origin_ms, zone))
    if months in _TRUNCATED:
        return utc(f"epoch_ms(CAST(date_trunc('{_TRUNCATED[months]}', {civil}) AS TIMESTAMP))", zone)
    number = f"datediff('month', {_EPOCH}, {civil})"
    return utc(f"epoch_ms({_EPOCH} + to_months(CAST({number} - {remainder(number, months)} AS INTEGER)))", zone)


def _floor_months_from(civil: str, months: int, zone: str, origin_local_ms: int) -> str:
    origin = stamp(str(origin_local_ms))
    number = f"datediff('month', {origin}, {civil})"
    steps = f"({number} - {remainder(number, months)})"
    start, before = (f"({origin} + to_months(CAST({steps} - {back} AS INTEGER)))" for back in (0, months))
    return utc(f"epoch_ms(CASE WHEN {start} > {civil} THEN {before} ELSE {start} END)", zone)


def shift(value_ms: str, span: Span, times: str, zone: str) -> str:
    """The time moved by a period, ``times`` (an integer expression) over."""
    result = value_ms
    if span.months or span.days:
        civil = local(result, zone)
        if span.months:
            civil = f"epoch_ms({stamp(civil)} + to_months(CAST({times} * {span.months} AS INTEGER)))"
        if span.days:
            civil = f"({civil} + {times} * {span.days * DAY_MS})"
        result = utc(civil, zone)
    return f"({result} + {times} * {span.fixed_ms})" if span.fixed_ms else result


def ceiling(value_ms: str, span: Span, zone: str, origin_ms: int | None) -> str:
    """The start of the next bucket, unless a bucket starts here."""
    start = floor(value_ms, span, zone, origin_ms)
    return f"(CASE WHEN {start} = {value_ms} THEN {value_ms} ELSE {shift(start, span, '1', zone)} END)"
