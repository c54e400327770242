"""The fields of an instant on a zone's calendar, and Joda's patterns that spell them (English names)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from segments.civil import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, civil_from_days, days_from_civil
from segments.expression.values import ExpressionFailed
from segments.truncation import offset_ms

_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_TOKEN: Final = re.compile(r"(?P<letter>[A-Za-z])(?P=letter)*|'(?P<quoted>(?:[^']|'')*)'|(?P<other>[^A-Za-z'])")


@dataclass(frozen=True, slots=True)
class TimeFields:
    """What a zone's calendar and clock show; ``days`` counts from 1970-01-01."""

    time_ms: int
    zone: str
    offset_ms: int
    days: int
    year: int
    month: int
    day: int
    in_day_ms: int

    @classmethod
    def of(cls, time_ms: int, zone: str) -> TimeFields:
        ahead_ms = offset_ms(time_ms, zone)
        days, in_day_ms = divmod(time_ms + ahead_ms, DAY_MS)
        return cls(time_ms, zone, ahead_ms, days, *civil_from_days(days), in_day_ms)

    @property
    def hour(self) -> int:
        return self.in_day_ms // HOUR_MS

    @property
    def minute(self) -> int:
        return self.in_day_ms % HOUR_MS // MINUTE_MS

    @property
    def second(self) -> int:
        return self.in_day_ms % MINUTE_MS // SECOND_MS

    @property
    def milli(self) -> int:
        return self.in_day_ms % SECOND_MS

    @property
    def weekday(self) -> int:
        """1 (Monday) to 7."""
        return (self.days + 3) % 7 + 1

    @property
    def day_of_year(self) -> int:
        return self.days - days_from_civil(self.year, 1, 1) + 1

    @property
    def week(self) -> tuple[int, int]:
        """The ISO year and week."""
        thursday = self.days - self.weekday + 4
        year = civil_from_days(thursday)[0]
        return year, (thursday - days_from_civil(year, 1, 1)) // 7 + 1

    def unit(self, name: str) -> int | None:
        """The value of one of ``timestamp_extract``'s units; None for any other name."""
        units: Mapping[str, Callable[[], int]] = {
            "EPOCH": lambda: self.time_ms // SECOND_MS,
            "MICROSECOND": lambda: self.milli * 1000,
            "MILLISECOND": lambda: self.milli,
            "SECOND": lambda: self.second,
            "MINUTE": lambda: self.minute,
            "HOUR": lambda: self.hour,
            "DAY": lambda: self.day,
            "DOW": lambda: self.weekday,
            "ISODOW": lambda: self.weekday,
            "DOY": lambda: self.day_of_year,
            "WEEK": lambda: self.week[1],
            "MONTH": lambda: self.month,
            "QUARTER": lambda: (self.month - 1) // 3 + 1,
            "YEAR": lambda: self.year,
            "ISOYEAR": lambda: self.week[0],
            "DECADE": lambda: self.year // 10,
            "CENTURY": lambda: -(-self.year // 100),
            "MILLENNIUM": lambda: -(-self.year // 1000),
        }
        found = units.get(name)
        return None if found is None else found()


def spell(time_ms: int, pattern: str, zone: str) -> str:
    """The instant by a Joda pattern.

    Raises:
        ExpressionFailed: the pattern has a letter that Joda does not know, or an unclosed quote.
    """
    fields = TimeFields.of(time_ms, zone)
    tokens = list(_TOKEN.finditer(pattern))
    if sum(len(token.group()) for token in tokens) != len(pattern):
        raise ExpressionFailed(f"time format {pattern!r} has an unclosed quote")
    return "".join(_token(fields, token, pattern) for token in tokens)


def _token(fields: TimeFields, token: re.Match[str], pattern: str) -> str:
    letter, count = token["letter"], len(token.group())
    if letter is None:
        return token["other"] if token["other"] is not None else (token["quoted"].replace("''", "'") or "'")
    if letter in _NUMBERS:
        return str(_NUMBERS[letter](fields)).zfill(count)
    if letter in _TEXTS:
        return _TEXTS[letter](fields, count)
    raise ExpressionFailed(f"time format {pattern!r} has the unknown letter {letter!r}")


_NUMBERS: Final[Mapping[str, Callable[[TimeFields], int]]] = {
    "w": lambda f: f.week[1],
    "D": lambda f: f.day_of_year,
    "d": lambda f: f.day,
    "e": lambda f: f.weekday,
    "H": lambda f: f.hour,
    "k": lambda f: f.hour or 24,
    "K": lambda f: f.hour % 12,
    "h": lambda f: f.hour % 12 or 12,
    "m": lambda f: f.minute,
    "s": lambda f: f.second,
    "C": lambda f: -(-f.year // 100),
}


def _year(fields: TimeFields, count: int) -> str:
    return f"{fields.year % 100:02d}" if count == 2 else str(fields.year).zfill(count)


def _week_year(fields: TimeFields, count: int) -> str:
    return f"{fields.week[0] % 100:02d}" if count == 2 else str(fields.week[0]).zfill(count)


def _month(fields: TimeFields, count: int) -> str:
    name = _MONTHS[fields.month - 1]
    return str(fields.month).zfill(count) if count < 3 else name[:3] if count == 3 else name


def _offset(fields: TimeFields, count: int) -> str:
    if count >= 3:
        return fields.zone
    minutes = abs(fields.offset_ms) // MINUTE_MS
    sign, colon = "-" if fields.offset_ms < 0 else "+", ":" if count == 2 else ""
    return f"{sign}{minutes // 60:02d}{colon}{minutes % 60:02d}"


_TEXTS: Final[Mapping[str, Callable[[TimeFields, int], str]]] = {
    "y": _year,
    "Y": _year,
    "u": _year,
    "x": _week_year,
    "M": _month,
    "E": lambda f, n: _DAYS[f.weekday - 1][: None if n > 3 else 3],
    "S": lambda f, n: f"{f.milli:03d}".ljust(n, "0")[:n],
    "a": lambda f, n: "AM" if f.hour < 12 else "PM",
    "G": lambda f, n: "AD" if f.year > 0 else "BC",
    "Z": _offset,
    "z": lambda f, n: "UTC" if f.zone == "UTC" else f.zone,
}
