"""Periods, intervals and calendar steps on constant times, so that planning can prune by them; reads no clock."""

from __future__ import annotations

import re
from dataclasses import dataclass

from query.errors import InvalidQuery
from segments.civil import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, add_months, month_number, month_start_ms, parse_iso_ms
from segments.errors import InvalidValue
from segments.joda import compile_pattern
from segments.truncation import fixed_offset_ms, offset_ms, to_utc_ms, zone_of

WEEK_ANCHOR_MS = 4 * DAY_MS  # Monday, 1970-01-05
_PERIOD = re.compile(
    r"P(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,3}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)
_HAS_ZONE = re.compile(r"[T ].*(Z|[+-]\d{2}(:?\d{2})?)$", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Span:
    """A period: ``months`` and ``days`` on the clock of a zone, ``fixed_ms`` in real time.

    ``weeks`` says that the days were written as weeks, which begin on Mondays.
    """

    months: int = 0
    days: int = 0
    fixed_ms: int = 0
    weeks: bool = False

    @property
    def parts(self) -> int:
        """How many of the three kinds it mixes."""
        return (self.months > 0) + (self.days > 0) + (self.fixed_ms > 0)


UNITS = {
    "MILLISECOND": Span(fixed_ms=1),
    "SECOND": Span(fixed_ms=SECOND_MS),
    "MINUTE": Span(fixed_ms=MINUTE_MS),
    "HOUR": Span(fixed_ms=HOUR_MS),
    "DAY": Span(days=1),
    "WEEK": Span(days=7, weeks=True),
    "MONTH": Span(months=1),
    "QUARTER": Span(months=3),
    "YEAR": Span(months=12),
    "DECADE": Span(months=120),
    "CENTURY": Span(months=1200),
}


def parse_span(text: str) -> Span:
    """Reads an ISO 8601 period such as P1D, PT15M or P3M.

    Raises:
        InvalidQuery: not a period, or an empty one.
    """
    match = _PERIOD.fullmatch(text)
    if match is None or len(text) == 1:
        raise InvalidQuery(f"{text!r} is not an ISO 8601 period such as P1D or PT1H")
    years, months, weeks, days, hours, minutes, seconds, fraction = (part or "0" for part in match.groups())
    fixed_ms = int(hours) * HOUR_MS + int(minutes) * MINUTE_MS + int(seconds) * SECOND_MS
    fixed_ms += int(fraction.ljust(3, "0")) if fraction != "0" else 0
    span = Span(
        int(years) * 12 + int(months), int(weeks) * 7 + int(days), fixed_ms, weeks=int(weeks) > 0 and int(days) == 0
    )
    if not span.parts:
        raise InvalidQuery(f"period {text!r} is empty")
    return span


def known_zone(name: str) -> str:
    """The name again, when it names a time zone.

    Raises:
        InvalidQuery: it does not.
    """
    try:
        zone_of(name)
    except InvalidValue as error:
        raise InvalidQuery(str(error)) from error
    return "UTC" if name in ("UTC", "Etc/UTC", "Z") or fixed_offset_ms(name) == 0 else name


def parse_time_ms(text: str, zone: str) -> int | None:
    """Reads a time in SQL or ISO form, in ``zone`` unless it names one; None when it is not one."""
    try:
        value_ms = parse_iso_ms(text.strip())
    except InvalidValue:
        return _rare_time_ms(text, zone)
    return value_ms if _HAS_ZONE.search(text.strip()) else to_utc_ms(value_ms, zone)


def _rare_time_ms(text: str, zone: str) -> int | None:
    """A day by single digits, week or number, which ISO 8601 or Druid's reader allow besides."""
    for pattern in ("yyyy-M-d", "xxxx-'W'ww-e", "xxxx-'W'ww", "yyyy-DDD"):
        try:
            return to_utc_ms(compile_pattern(pattern)(text), zone)
        except InvalidValue:
            continue
    return None


def floor_to_day_ms(value_ms: int, zone: str) -> int:
    """The start of the day in a zone."""
    return floor_ms(value_ms, UNITS["DAY"], zone, None)


def floor_ms(value_ms: int, span: Span, zone: str, origin_ms: int | None) -> int:
    """The start of the bucket of a time, exactly as ``calendar_sql.floor`` says it in SQL."""
    local_ms = value_ms + offset_ms(value_ms, zone)
    if span.parts > 1:
        width_ms = whole_ms(span, zone)
        return value_ms - (value_ms - (origin_ms or 0)) % width_ms
    if span.fixed_ms:
        if origin_ms is None and span.fixed_ms in (HOUR_MS, MINUTE_MS, SECOND_MS, 1):
            return value_ms - local_ms % span.fixed_ms
        return value_ms - (value_ms - fixed_anchor_ms(zone, origin_ms)) % span.fixed_ms
    if span.days:
        return to_utc_ms(local_ms - (local_ms - day_anchor_ms(span, zone, origin_ms)) % (span.days * DAY_MS), zone)
    if origin_ms is None:
        number = month_number(local_ms)
        return to_utc_ms(month_start_ms(number - (number - 1970 * 12) % span.months), zone)
    origin_local_ms = origin_ms + offset_ms(origin_ms, zone)
    steps = (month_number(local_ms) - month_number(origin_local_ms)) // span.months
    if add_months(origin_local_ms, steps * span.months) > local_ms:
        steps -= 1
    return to_utc_ms(add_months(origin_local_ms, steps * span.months), zone)


def fixed_anchor_ms(zone: str, origin_ms: int | None) -> int:
    """Where buckets of a number of hours, minutes or seconds are counted from."""
    return to_utc_ms(0, zone) if origin_ms is None else origin_ms


def day_anchor_ms(span: Span, zone: str, origin_ms: int | None) -> int:
    """The civil time from which buckets of days are counted; single weeks begin on Mondays."""
    if origin_ms is not None:
        return origin_ms + offset_ms(origin_ms, zone)
    return WEEK_ANCHOR_MS if span.weeks and span.days == 7 else 0


def whole_ms(span: Span, zone: str) -> int:
    """The length of a period that mixes days and hours.

    Raises:
        InvalidQuery: its length is not fixed.
    """
    if span.months or zone != "UTC":
        raise InvalidQuery("a period that mixes months, days and hours has no fixed length; use one unit")
    return span.days * DAY_MS + span.fixed_ms


def shift_ms(value_ms: int, span: Span, times: int, zone: str) -> int:
    """The time moved by a period, ``times`` over, on the clock of a zone."""
    if span.months or span.days:
        local_ms = value_ms + offset_ms(value_ms, zone)
        value_ms = to_utc_ms(add_months(local_ms, span.months * times) + span.days * times * DAY_MS, zone)
    return value_ms + span.fixed_ms * times


def parse_interval_ms(text: str, zone: str) -> tuple[int, int]:
    """Reads an ISO 8601 interval: two times, or a time and a period on either side.

    Raises:
        InvalidQuery: it is neither.
    """
    parts = text.split("/")
    if len(parts) == 2:
        start, end = (parse_time_ms(part, zone) if not part.startswith(("P", "p")) else None for part in parts)
        if start is not None and parts[1].startswith(("P", "p")):
            end = shift_ms(start, parse_span(parts[1]), 1, zone)
        elif end is not None and parts[0].startswith(("P", "p")):
            start = shift_ms(end, parse_span(parts[0]), -1, zone)
        if start is not None and end is not None:
            return start, end
    raise InvalidQuery(f"{text!r} is not an ISO 8601 interval such as 2024-03-01/P1D")
