"""Converts between milliseconds since 1970 UTC and calendar dates, ISO 8601 texts and periods; reads no clock.

Works on plain integers in the proleptic Gregorian calendar for any year, because Druid's "eternity"
lies far outside of what Python's dates can hold.
"""

import re
from dataclasses import dataclass

from segments.errors import InvalidInterval

SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

# Rows may lie in the years 1 to 9999; Parquet, DuckDB and Python's dates all hold these exactly.
MIN_ROW_TIME_MS = -62_135_596_800_000
MAX_ROW_TIME_MS = 253_402_300_799_999

_INSTANT = re.compile(
    r"(?P<year>[+-]?\d{4,9})(?:-(?P<month>\d{2})(?:-(?P<day>\d{2}))?)?"
    r"(?:[T ](?P<hour>\d{2})(?::(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<fraction>\d{1,9}))?)?)?"
    r"(?P<zone>Z|[+-]\d{2}(?::?\d{2})?)?)?",
    re.ASCII | re.IGNORECASE,
)
_PERIOD = re.compile(
    r"P(?:(?P<years>\d+)Y)?(?:(?P<months>\d+)M)?(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+)D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+)(?:\.(?P<fraction>\d{1,3}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)


def days_from_civil(year: int, month: int, day: int) -> int:
    """Returns the days from 1970-01-01 to a date; ``day`` may be out of the month and then carries."""
    year -= month <= 2
    era = year // 400
    year_of_era = year - era * 400
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468


def civil_from_days(days: int) -> tuple[int, int, int]:
    """Returns (year, month, day) of a day counted from 1970-01-01."""
    days += 719_468
    era = days // 146_097
    day_of_era = days - era * 146_097
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted_month + 2) // 5 + 1
    month = shifted_month + (3 if shifted_month < 10 else -9)
    return year_of_era + era * 400 + (month <= 2), month, day


def days_in_month(year: int, month: int) -> int:
    """Returns 28 to 31."""
    following = (year, month + 1) if month < 12 else (year + 1, 1)
    return days_from_civil(*following, 1) - days_from_civil(year, month, 1)


def add_months(local_ms: int, months: int) -> int:
    """Moves a civil time by whole months; a day the target month lacks becomes its last day, as in Joda."""
    days, in_day_ms = divmod(local_ms, DAY_MS)
    year, month, day = civil_from_days(days)
    year, month_index = divmod(year * 12 + month - 1 + months, 12)
    day = min(day, days_in_month(year, month_index + 1))
    return days_from_civil(year, month_index + 1, day) * DAY_MS + in_day_ms


def month_number(local_ms: int) -> int:
    """Counts months since year 0, so that months can be divided and compared."""
    year, month, _ = civil_from_days(local_ms // DAY_MS)
    return year * 12 + month - 1


def month_start_ms(number: int) -> int:
    """The civil time at which the month with this number (see ``month_number``) begins."""
    year, month_index = divmod(number, 12)
    return days_from_civil(year, month_index + 1, 1) * DAY_MS


def format_iso_ms(time_ms: int) -> str:
    """Spells an instant as Druid does: ``2015-09-12T00:00:00.000Z``."""
    days, in_day_ms = divmod(time_ms, DAY_MS)
    year, month, day = civil_from_days(days)
    hour, rest = divmod(in_day_ms, HOUR_MS)
    minute, rest = divmod(rest, MINUTE_MS)
    second, millis = divmod(rest, SECOND_MS)
    year_text = f"{year:04d}" if year >= 0 else f"-{-year:04d}"
    return f"{year_text}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}.{millis:03d}Z"


def parse_iso_ms(text: str) -> int:
    """Reads an ISO 8601 instant; parts may be missing from the right, no zone means UTC.

    Digits past milliseconds are cut off. ``24:00:00`` is the next midnight.

    Raises:
        InvalidInterval: not such a text, or a field out of range.
    """
    match = _INSTANT.fullmatch(text)
    if match is None:
        raise InvalidInterval(f"{text!r} is not an ISO 8601 time such as 2015-09-12T00:00:00.000Z")
    number = {name: int(match[name] or default) for name, default in _FIELD_DEFAULTS.items()}
    hour, minute, second = number["hour"], number["minute"], number["second"]
    millis = int((match["fraction"] or "0")[:3].ljust(3, "0"))
    if not 1 <= number["month"] <= 12 or not 1 <= number["day"] <= days_in_month(number["year"], number["month"]):
        raise InvalidInterval(f"{text!r} names a day that does not exist")
    if hour > 24 or minute > 59 or second > 59 or (hour == 24 and (minute, second, millis) != (0, 0, 0)):
        raise InvalidInterval(f"{text!r} names a time of day that does not exist")
    days = days_from_civil(number["year"], number["month"], number["day"])
    local_ms = days * DAY_MS + hour * HOUR_MS + minute * MINUTE_MS + second * SECOND_MS + millis
    return local_ms - _zone_offset_ms(match["zone"], text)


_FIELD_DEFAULTS = {"year": 0, "month": 1, "day": 1, "hour": 0, "minute": 0, "second": 0}


def _zone_offset_ms(zone: str | None, text: str) -> int:
    if zone is None or zone in "Zz":
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    hours, minutes = int(digits[:2]), int(digits[2:])
    if hours > 18 or minutes > 59:
        raise InvalidInterval(f"{text!r} has a zone offset beyond 18 hours")
    return (-1 if zone[0] == "-" else 1) * (hours * HOUR_MS + minutes * MINUTE_MS)


@dataclass(frozen=True, slots=True)
class Period:
    """An ISO 8601 period: whole months, whole days (a week is seven) and a fixed number of milliseconds.

    Months and days are counted in civil time, ``fixed_ms`` in real time.
    """

    months: int = 0
    days: int = 0
    fixed_ms: int = 0

    @classmethod
    def parse(cls, text: str) -> "Period":
        """Reads ``P1D``, ``PT15M``, ``P1Y6M``, ``PT0.5S``; letters of either case, as Joda does.

        Raises:
            InvalidInterval: not a period, or an empty one.
        """
        match = _PERIOD.fullmatch(text)
        if match is None or len(text) == 1:
            raise InvalidInterval(f"{text!r} is not an ISO 8601 period such as P1D or PT1H")
        part = {name: int(value or 0) for name, value in match.groupdict().items() if name != "fraction"}
        millis = int((match["fraction"] or "0").ljust(3, "0"))
        return cls(
            months=part["years"] * 12 + part["months"],
            days=part["weeks"] * 7 + part["days"],
            fixed_ms=part["hours"] * HOUR_MS + part["minutes"] * MINUTE_MS + part["seconds"] * SECOND_MS + millis,
        )

    def added_to(self, time_ms: int, times: int = 1) -> int:
        """Moves a UTC (or zone-less civil) time by this period, ``times`` over; negative moves back."""
        return add_months(time_ms, self.months * times) + (self.days * DAY_MS + self.fixed_ms) * times
