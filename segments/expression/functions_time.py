"""Functions of times: milliseconds UTC, zones by IANA name or offset, formats in Joda's letters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from segments.civil import DAY_MS, MAX_ROW_TIME_MS, MIN_ROW_TIME_MS, Period, format_iso_ms, parse_iso_ms
from segments.errors import InvalidGranularity, InvalidInterval
from segments.expression.time_fields import TimeFields, spell
from segments.expression.values import ExpressionFailed, Function, Value, long_of, text_of
from segments.interval import Granularity
from segments.time_format import time_parser
from segments.truncation import offset_ms, to_utc_ms


def _time(value: Value) -> int | None:
    """Milliseconds, also as text; an ISO 8601 text is not read here, as in Druid."""
    number = long_of(value)
    if number is not None and not MIN_ROW_TIME_MS <= number <= MAX_ROW_TIME_MS:
        raise ExpressionFailed(f"time {number} is outside the years 1 to 9999")
    return number


def zone_name(value: Value) -> str:
    """The zone's IANA name; null is UTC.

    Raises:
        ExpressionFailed: there is no such zone.
    """
    name = text_of(value) or "UTC"
    _check_zone(name)
    return name


@lru_cache(maxsize=200)
def _check_zone(name: str) -> None:
    try:
        offset_ms(0, name)
    except InvalidGranularity as error:
        raise ExpressionFailed(str(error)) from error


@lru_cache(maxsize=500)
def granularity_of(period: str, origin_ms: int | None, zone: str) -> Granularity:
    """The buckets of a period.

    Raises:
        ExpressionFailed: not a period that has buckets.
    """
    spec: dict[str, object] = {"type": "period", "period": period, "timeZone": zone}
    try:
        return Granularity.of(spec if origin_ms is None else {**spec, "origin": origin_ms})
    except InvalidGranularity as error:
        raise ExpressionFailed(str(error)) from error


def _granularity(a: Sequence[Value]) -> Granularity:
    origin = a[2] if len(a) > 2 else None
    origin_ms = _instant(origin) if isinstance(origin, str) else long_of(origin)
    return granularity_of(text_of(a[1]) or "", origin_ms, zone_name(a[3] if len(a) > 3 else None))


def _floor(a: Sequence[Value]) -> Value:
    time_ms = _time(a[0])
    return None if time_ms is None else _granularity(a).truncate(time_ms)


def _ceil(a: Sequence[Value]) -> Value:
    time_ms = _time(a[0])
    if time_ms is None:
        return None
    bucket = _granularity(a).bucket(time_ms)
    return time_ms if bucket.start_ms == time_ms else bucket.end_ms


def _shift(a: Sequence[Value]) -> Value:
    time_ms, step = _time(a[0]), long_of(a[2])
    if time_ms is None or step is None:
        return None
    try:
        period = Period.parse(text_of(a[1]) or "")
    except InvalidInterval as error:
        raise ExpressionFailed(str(error)) from error
    if abs(step) * (abs(period.months) * 31 * DAY_MS + period.days * DAY_MS + period.fixed_ms) > 2 * MAX_ROW_TIME_MS:
        raise ExpressionFailed("the shift leads outside the years 1 to 9999")
    zone = zone_name(a[3] if len(a) > 3 else None)
    # Months and days are counted on the zone's calendar, hours and less in real time.
    local_ms = Period(period.months, period.days).added_to(time_ms + offset_ms(time_ms, zone), step)
    shifted = to_utc_ms(local_ms, zone) if period.months or period.days else time_ms
    return _time(shifted + period.fixed_ms * step)


def _extract(a: Sequence[Value]) -> Value:
    time_ms = _time(a[0])
    if time_ms is None:
        return None
    unit = (text_of(a[1]) or "").upper()
    fields = TimeFields.of(time_ms, zone_name(a[2] if len(a) > 2 else None))
    value = fields.unit(unit)
    if value is None:
        raise ExpressionFailed(f"timestamp_extract knows no unit {unit!r}")
    return value


def _instant(text: str, zone: str = "UTC") -> int | None:
    """An ISO 8601 text's time, in the zone where the text has none; None where it is none."""
    try:
        time_ms = parse_iso_ms(text)
    except InvalidInterval:
        return None
    clock = text[10:]
    has_zone = clock.endswith("Z") or "+" in clock or "-" in clock
    return time_ms if has_zone or zone == "UTC" else to_utc_ms(time_ms, zone)


def _parse(a: Sequence[Value]) -> Value:
    text, pattern = text_of(a[0]), text_of(a[1]) if len(a) > 1 else None
    zone = zone_name(a[2] if len(a) > 2 else None)
    if text is None:
        return None
    if pattern is None:
        # As in Druid a blank may stand for the T.
        return _instant(text.replace(" ", "T", 1), zone)
    try:
        time_ms = time_parser(pattern)(text)
    except InvalidInterval:
        return None
    zoned = any(letter in pattern for letter in "zZ")
    return time_ms if zoned or zone == "UTC" else to_utc_ms(time_ms, zone)


def _spelt(a: Sequence[Value]) -> Value:
    time_ms = _time(a[0])
    if time_ms is None:
        return None
    pattern, zone = text_of(a[1]) if len(a) > 1 else None, zone_name(a[2] if len(a) > 2 else None)
    if pattern is None and zone == "UTC":
        return format_iso_ms(time_ms)
    return spell(time_ms, pattern or "yyyy-MM-dd'T'HH:mm:ss.SSSZZ", zone)


def _of_text(a: Sequence[Value]) -> Value:
    value, pattern = a[0], text_of(a[1]) if len(a) > 1 else None
    if value is None:
        return None
    try:
        return time_parser(pattern or "auto")(value if pattern is None else text_of(value))
    except InvalidInterval as error:
        raise ExpressionFailed(str(error)) from error


def _unix(a: Sequence[Value]) -> Value:
    time_ms = _of_text(a)
    return None if time_ms is None else time_ms // 1000


def _months_between(a: Sequence[Value]) -> Value:
    """Whole months from the second time to the first, on a zone's calendar; towards zero."""
    later, earlier, zone = _time(a[0]), _time(a[1]), zone_name(a[2])
    if later is None or earlier is None:
        return None
    if later < earlier:
        return -_whole_months(later, earlier, zone)
    return _whole_months(earlier, later, zone)


def _whole_months(start_ms: int, end_ms: int, zone: str) -> int:
    start_ms, end_ms = (one + offset_ms(one, zone) for one in (start_ms, end_ms))
    first, last = (TimeFields.of(one, "UTC") for one in (start_ms, end_ms))
    months = (last.year - first.year) * 12 + last.month - first.month
    return months - (Period(months).added_to(start_ms) > end_ms)


FUNCTIONS: Final[dict[str, Function]] = {
    "timestamp": _of_text,
    "unix_timestamp": _unix,
    "timestamp_floor": _floor,
    "timestamp_ceil": _ceil,
    "timestamp_shift": _shift,
    "timestamp_extract": _extract,
    "timestamp_parse": _parse,
    "timestamp_format": _spelt,
    "subtract_months": _months_between,
}
