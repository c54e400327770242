"""Reads granularities and answers which bucket a time falls into, in Python and in SQL alike (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from query.errors import InvalidQuery
from query.native.intervals import Interval, parse_instant
from query.native.request import Part, part_of
from query.results import zoned_iso
from query.sql import calendar_sql as cal
from query.sql.calendar_math import Span, floor_ms, known_zone, parse_span, shift_ms, whole_ms
from segments.civil import DAY_MS, format_iso_ms

_MONTH_MS = 30 * DAY_MS

_NAMED = {
    "NONE": "PT0.001S",
    "SECOND": "PT1S",
    "MINUTE": "PT1M",
    "FIVE_MINUTE": "PT5M",
    "TEN_MINUTE": "PT10M",
    "FIFTEEN_MINUTE": "PT15M",
    "THIRTY_MINUTE": "PT30M",
    "HOUR": "PT1H",
    "SIX_HOUR": "PT6H",
    "EIGHT_HOUR": "PT8H",
    "DAY": "P1D",
    "WEEK": "P1W",
    "MONTH": "P1M",
    "QUARTER": "P3M",
    "YEAR": "P1Y",
}


@dataclass(frozen=True, slots=True)
class Granularity:
    """Buckets of one period on the clock of a zone, counted from an origin; ``span`` is None for one bucket of all."""

    span: Span | None
    zone: str = "UTC"
    origin_ms: int | None = None
    is_none: bool = False

    @property
    def is_all(self) -> bool:
        """True when there is one bucket."""
        return self.span is None

    def floor_sql(self, time_ms: str) -> str:
        """The bucket's start as SQL, of a time in ms."""
        assert self.span is not None, "one bucket has no start"
        return time_ms if self.is_none else cal.floor(time_ms, self.span, self.zone, self.origin_ms)

    def starts(self, within: Interval) -> Iterator[int]:
        """The starts of all buckets that an interval touches, in order."""
        assert self.span is not None, "one bucket has no start"
        start = floor_ms(within[0], self.span, self.zone, self.origin_ms)
        while start < within[1]:
            yield start
            following = floor_ms(shift_ms(start, self.span, 1, self.zone), self.span, self.zone, self.origin_ms)
            # A day that a change of the clock made longer holds its own start twice.
            start = following if following > start else shift_ms(start, self.span, 1, self.zone)

    def about(self, within: Interval) -> int:
        """About how many buckets an interval touches."""
        assert self.span is not None, "one bucket has no start"
        length_ms = self.span.months * _MONTH_MS + self.span.days * DAY_MS + self.span.fixed_ms
        return (within[1] - within[0]) // length_ms + 1

    def spelled(self, time_ms: int) -> str:
        """A time as Druid writes it under this granularity: in its zone, with the offset."""
        return format_iso_ms(time_ms) if self.zone == "UTC" else zoned_iso(time_ms, self.zone)


ALL = Granularity(None)


def granularity_of(query: Part, default: str | None = None) -> Granularity:
    """What ``granularity`` says.

    Raises:
        InvalidQuery: it is missing or means nothing.
    """
    given = query.get("granularity")
    if given is None:
        if default is None:
            raise InvalidQuery("granularity: one is needed, such as all, day or a period")
        given = default
    return parse_granularity(given, query.at("granularity"))


def parse_granularity(given: Any, path: str) -> Granularity:
    """A name, or an object of type period, duration, all or none.

    Raises:
        InvalidQuery: it is neither.
    """
    if isinstance(given, str):
        return _named(given, path)
    part = part_of(given, path)
    kind = part.type
    if kind == "period":
        zone = known_zone(part.text_or("UTC", "timeZone"))
        granularity = Granularity(parse_span(part.text("period")), zone, _origin(part))
        assert granularity.span is not None
        if granularity.span.parts > 1:
            # Refuses what has no fixed length now, not in the middle of the answer.
            whole_ms(granularity.span, zone)
        return granularity
    if kind == "duration":
        duration_ms = part.whole("duration", least=1)
        if duration_ms is None:
            raise InvalidQuery(f"{part.at('duration')}: milliseconds are needed")
        return Granularity(Span(fixed_ms=duration_ms), "UTC", _origin(part) or 0)
    if kind in ("all", "none"):
        return _named(kind, path)
    raise part.unknown_type("granularity: period, duration, all and none are")


def _named(name: str, path: str) -> Granularity:
    upper = name.upper()
    if upper == "ALL":
        return ALL
    if upper not in _NAMED:
        raise InvalidQuery(f"{path}: {name!r} is none of all, {', '.join(_NAMED).lower()}")
    return Granularity(parse_span(_NAMED[upper]), is_none=upper == "NONE")


def _origin(part: Part) -> int | None:
    origin = part.get("origin")
    if origin is None or isinstance(origin, int):
        return origin
    return parse_instant(str(origin))
