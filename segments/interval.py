"""Decides what an interval is (half-open, UTC milliseconds) and which bucket of a granularity a time falls in.

Importing this module loads neither Arrow nor time zone data, so that protocol machines may use it; both are
loaded by the methods that need them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from segments.civil import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    SECOND_MS,
    Period,
    add_months,
    format_iso_ms,
    month_number,
    month_start_ms,
    parse_iso_ms,
)
from segments.errors import InvalidGranularity, InvalidInterval

if TYPE_CHECKING:
    import pyarrow as pa

# 1970-01-01 was a Thursday; ISO weeks begin on Monday.
_MONDAY_MS = -3 * DAY_MS


@dataclass(frozen=True, slots=True, order=True)
class Interval:
    """``[start_ms, end_ms)`` in UTC; ordered by start, then end. May be empty (start equals end)."""

    start_ms: int
    end_ms: int

    ETERNITY: ClassVar["Interval"]

    def __post_init__(self) -> None:
        if self.end_ms < self.start_ms:
            raise InvalidInterval(f"interval ends at {self.end_ms} before it starts at {self.start_ms}")

    @classmethod
    def parse(cls, text: str) -> "Interval":
        """Reads ``start/end``, ``start/period`` or ``period/end``.

        Raises:
            InvalidInterval: malformed, or the end lies before the start.
        """
        first, slash, second = text.partition("/")
        if not slash or "/" in second:
            raise InvalidInterval(f"{text!r} is not an interval such as 2015-09-12/2015-09-13")
        if first.startswith(("P", "p")):
            end_ms = parse_iso_ms(second)
            return cls(Period.parse(first).added_to(end_ms, -1), end_ms)
        start_ms = parse_iso_ms(first)
        if second.startswith(("P", "p")):
            return cls(start_ms, Period.parse(second).added_to(start_ms))
        return cls(start_ms, parse_iso_ms(second))

    def __str__(self) -> str:
        return f"{format_iso_ms(self.start_ms)}/{format_iso_ms(self.end_ms)}"

    @property
    def width_ms(self) -> int:
        return self.end_ms - self.start_ms

    def contains(self, other: "Interval | int") -> bool:
        """True if the instant, or the whole of the other interval, lies inside."""
        if isinstance(other, int):
            return self.start_ms <= other < self.end_ms
        return self.start_ms <= other.start_ms and other.end_ms <= self.end_ms

    def overlaps(self, other: "Interval") -> bool:
        """True if some instant lies in both; touching ends do not overlap, an empty interval overlaps nothing."""
        return max(self.start_ms, other.start_ms) < min(self.end_ms, other.end_ms)

    def intersection(self, other: "Interval") -> "Interval | None":
        """The common part, or None if there is no instant in both."""
        start_ms, end_ms = max(self.start_ms, other.start_ms), min(self.end_ms, other.end_ms)
        return Interval(start_ms, end_ms) if start_ms < end_ms else None


# Half of the 64-bit range on either side, as in Druid, so that widths still fit into 64 bits.
Interval.ETERNITY = Interval(-(2**62), 2**62 - 1)

_SIMPLE: dict[str, Period] = {
    "SECOND": Period(fixed_ms=SECOND_MS),
    "MINUTE": Period(fixed_ms=MINUTE_MS),
    "FIVE_MINUTE": Period(fixed_ms=5 * MINUTE_MS),
    "TEN_MINUTE": Period(fixed_ms=10 * MINUTE_MS),
    "FIFTEEN_MINUTE": Period(fixed_ms=15 * MINUTE_MS),
    "THIRTY_MINUTE": Period(fixed_ms=30 * MINUTE_MS),
    "HOUR": Period(fixed_ms=HOUR_MS),
    "SIX_HOUR": Period(fixed_ms=6 * HOUR_MS),
    "EIGHT_HOUR": Period(fixed_ms=8 * HOUR_MS),
    "DAY": Period(days=1),
    "WEEK": Period(days=7),
    "MONTH": Period(months=1),
    "QUARTER": Period(months=3),
    "YEAR": Period(months=12),
}
_KNOWN = ("ALL", "NONE", *_SIMPLE)
_UTC = "UTC"


@dataclass(frozen=True, slots=True)
class Granularity:
    """A rule that cuts time into buckets; every instant is in exactly one.

    ``name`` is one of Druid's simple names, PERIOD or DURATION. Days, weeks and months follow the calendar of
    ``time_zone``; hours and less are fixed lengths of real time, counted from ``origin_ms`` (without one: from
    local midnight of 1970-01-01; single hours then follow the zone's clock). ``period_text`` keeps what the
    user wrote.
    """

    name: str
    period: Period = Period()
    time_zone: str = _UTC
    origin_ms: int | None = None
    period_text: str = ""

    ALL: ClassVar["Granularity"]
    NONE: ClassVar["Granularity"]
    SECOND: ClassVar["Granularity"]
    MINUTE: ClassVar["Granularity"]
    HOUR: ClassVar["Granularity"]
    DAY: ClassVar["Granularity"]
    WEEK: ClassVar["Granularity"]
    MONTH: ClassVar["Granularity"]
    QUARTER: ClassVar["Granularity"]
    YEAR: ClassVar["Granularity"]

    @classmethod
    def of(cls, value: "str | Mapping[str, object] | Granularity") -> "Granularity":
        """Reads Druid's JSON: a simple name in any case, or an object of type period, duration, all or none.

        Raises:
            InvalidGranularity: unknown name, type, zone or period; or a period that mixes months or days with
                smaller units, which has no buckets that follow from the time alone.
        """
        if isinstance(value, Granularity):
            return value
        if isinstance(value, str):
            return cls._simple(value)
        if not isinstance(value, Mapping):
            raise InvalidGranularity(f"granularity {value!r} is neither a name nor an object")
        kind = str(value.get("type", "")).lower()
        if kind == "period":
            return cls._of_period(value)
        if kind == "duration":
            return cls._of_duration(value)
        return cls._simple(kind)

    @classmethod
    def _simple(cls, text: str) -> "Granularity":
        name = text.upper()
        if name not in _KNOWN:
            raise InvalidGranularity(f"granularity {text!r} is not one of {', '.join(_KNOWN)} or a period object")
        return cls(name, _SIMPLE.get(name, Period()))

    @classmethod
    def _of_period(cls, value: Mapping[str, object]) -> "Granularity":
        text = str(value.get("period", ""))
        try:
            period = Period.parse(text)
        except InvalidInterval as error:
            raise InvalidGranularity(f"granularity period: {error}") from error
        if [period.months > 0, period.days > 0, period.fixed_ms > 0].count(True) != 1:
            raise InvalidGranularity(
                f"granularity period {text!r} must be of one kind: months, days, or hours and less"
            )
        zone = str(value.get("timeZone") or _UTC)
        if zone != _UTC:
            from segments.truncation import zone_of

            zone_of(zone)
        return cls("PERIOD", period, zone, _origin_ms(value), text)

    @classmethod
    def _of_duration(cls, value: Mapping[str, object]) -> "Granularity":
        duration_ms = value.get("duration")
        if isinstance(duration_ms, str) and duration_ms.isdecimal():
            duration_ms = int(duration_ms)
        if isinstance(duration_ms, bool) or not isinstance(duration_ms, int) or duration_ms <= 0:
            raise InvalidGranularity(f"granularity duration {value.get('duration')!r} is not a positive number of ms")
        return cls("DURATION", Period(fixed_ms=duration_ms), origin_ms=_origin_ms(value))

    def to_json(self) -> str | dict[str, object]:
        """The shortest form that ``of`` reads back to an equal granularity."""
        if self.name == "DURATION":
            duration: dict[str, object] = {"type": "duration", "duration": self.period.fixed_ms}
            return duration if self.origin_ms is None else duration | {"origin": format_iso_ms(self.origin_ms)}
        if self.name != "PERIOD":
            return self.name
        period: dict[str, object] = {"type": "period", "period": self.period_text, "timeZone": self.time_zone}
        return period if self.origin_ms is None else period | {"origin": format_iso_ms(self.origin_ms)}

    def __str__(self) -> str:
        if self.name == "DURATION":
            return f"{self.period.fixed_ms} ms"
        return self.name if self.name != "PERIOD" else f"{self.period_text} in {self.time_zone}"

    @property
    def fixed_width_ms(self) -> int | None:
        """The width of every bucket where all are equally wide (NONE: 1), else None.

        Bucket starts are then congruent to ``fixed_phase_ms`` modulo this width.
        """
        if self.name == "NONE":
            return 1
        if self.name == "ALL" or self.period.months:
            return None
        if self.time_zone == _UTC:
            return self.period.days * DAY_MS + self.period.fixed_ms
        # A zone's single hours follow its clock, which can be off by half an hour and jump.
        if self.period.days or (self.period.fixed_ms == HOUR_MS and self.origin_ms is None):
            return None
        return self.period.fixed_ms

    @property
    def fixed_phase_ms(self) -> int:
        """Where buckets of a fixed width begin, as the remainder of any start by the width; else 0."""
        width_ms = self.fixed_width_ms
        return 0 if width_ms is None else self._anchor_ms() % width_ms

    @property
    def nominal_width_ms(self) -> int:
        """A typical width, to compare coarse with fine: months count as 30 days, ALL as everything."""
        if self.name == "ALL":
            return Interval.ETERNITY.width_ms
        if self.name == "NONE":
            return 1
        return self.period.months * 30 * DAY_MS + self.period.days * DAY_MS + self.period.fixed_ms

    def bucket(self, time_ms: int) -> Interval:
        """The bucket an instant falls in. NONE gives one millisecond, ALL gives eternity.

        Raises:
            InvalidInterval: the granularity has a time zone and the instant is outside the years 1 to 9999.
        """
        if self.name == "ALL":
            return Interval.ETERNITY
        width_ms = self.fixed_width_ms
        if width_ms is not None:
            start_ms = time_ms - (time_ms - self._anchor_ms()) % width_ms
            return Interval(start_ms, start_ms + width_ms)
        if self.time_zone == _UTC:
            return Interval(*self.civil_bucket(time_ms, self.origin_ms))
        from segments.truncation import zoned_bucket

        return zoned_bucket(self, time_ms)

    def truncate(self, time_ms: int) -> int:
        """The start of the instant's bucket; ALL leaves the instant's bucket start at eternity's start."""
        return self.bucket(time_ms).start_ms

    def buckets(self, interval: Interval) -> Iterator[Interval]:
        """Every bucket that overlaps the interval, in time order; whole buckets, also at the edges."""
        start_ms = interval.start_ms
        while start_ms < interval.end_ms:
            bucket = self.bucket(start_ms)
            yield bucket
            start_ms = bucket.end_ms

    def truncate_array(self, times: "pa.Array[Any]") -> "pa.Array[Any]":
        """``truncate`` on an int64 array of milliseconds; nulls stay null.

        Raises:
            InvalidInterval: as ``bucket``, for any value.
        """
        from segments.truncation import truncate_array

        return truncate_array(self, times)

    def civil_bucket(self, local_ms: int, origin_local_ms: int | None) -> tuple[int, int]:
        """Start and end, in civil time, of the bucket of days or months that holds a civil time.

        Without an origin single weeks begin on Mondays and everything else counts from 1970-01-01.
        """
        months, days = self.period.months, self.period.days
        if not months:
            default_ms = _MONDAY_MS if days == 7 else 0
            anchor_ms = default_ms if origin_local_ms is None else origin_local_ms
            start_ms = local_ms - (local_ms - anchor_ms) % (days * DAY_MS)
            return start_ms, start_ms + days * DAY_MS
        if origin_local_ms is None:
            since_1970 = month_number(local_ms) - 1970 * 12
            first = since_1970 - since_1970 % months + 1970 * 12
            return month_start_ms(first), month_start_ms(first + months)
        count = (month_number(local_ms) - month_number(origin_local_ms)) // months
        # The origin's day of month may not have come yet in this month.
        while add_months(origin_local_ms, count * months) > local_ms:
            count -= 1
        while add_months(origin_local_ms, (count + 1) * months) <= local_ms:
            count += 1
        return add_months(origin_local_ms, count * months), add_months(origin_local_ms, (count + 1) * months)

    def _anchor_ms(self) -> int:
        if self.origin_ms is not None:
            return self.origin_ms
        if self.name in ("PERIOD", "WEEK") and self.period.days == 7:
            return _MONDAY_MS
        if self.time_zone == _UTC or self.period.fixed_ms < HOUR_MS:
            return 0
        from segments.truncation import to_utc_ms

        return to_utc_ms(0, self.time_zone)


def _origin_ms(value: Mapping[str, object]) -> int | None:
    origin = value.get("origin")
    if origin is None or isinstance(origin, int):
        return origin
    try:
        return parse_iso_ms(str(origin))
    except InvalidInterval as error:
        raise InvalidGranularity(f"granularity origin: {error}") from error


for _name in ("ALL", "NONE", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR"):
    setattr(Granularity, _name, Granularity.of(_name))
