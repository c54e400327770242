"""Reads the intervals of a native query and puts them in order, without overlaps (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from query.errors import InvalidQuery
from query.native.request import Part
from query.sql.calendar_math import parse_span, shift_ms
from segments.civil import DAY_MS, MAX_ROW_TIME_MS, MIN_ROW_TIME_MS, format_iso_ms, parse_iso_ms
from segments.errors import InvalidValue

Interval = tuple[int, int]
"""[start, end) in ms UTC, within the years 1 to 9999; what lies beyond holds no rows."""

ETERNITY: Interval = (MIN_ROW_TIME_MS, MAX_ROW_TIME_MS + 1)
_CYCLE_MS = 146_097 * DAY_MS
_YEAR_DIGITS = 9
_YEAR = re.compile(r"([+-]?)(\d+)(.*)", re.DOTALL)


def intervals_of(query: Part, required: bool) -> tuple[Interval, ...]:
    """What ``intervals`` says, condensed; all of time when it may be missing and is.

    Raises:
        InvalidQuery: it is missing, or an entry is no interval.
    """
    written = _written(query)
    if written is None:
        if required:
            raise InvalidQuery("intervals: at least one is needed, such as 2024-01-01/2024-02-01")
        return (ETERNITY,)
    return condensed(parse_interval(item) for item in written)


def start_as_written_ms(query: Part) -> int:
    """Where the first of the intervals begins, in ms UTC, also where that is beyond the years that rows may have.

    Raises:
        InvalidQuery: an entry is no interval.
    """
    starts = [ETERNITY[0]]
    for position, item in enumerate(_written(query) or []):
        start = parse_interval(item)[0]
        first = item.partition("/")[0]
        if start == ETERNITY[0] and not first.startswith(("P", "p")):
            start = _instant(first)
        starts = [min(starts[0], start) if position else start]
    return starts[0]


def _written(query: Part) -> list[Any] | None:
    given: Any = query.get("intervals")
    if isinstance(given, dict):
        key = "segments" if given.get("type") == "segments" else "intervals"
        return [item.get("itvl") if isinstance(item, dict) else item for item in given.get(key) or []]
    return given if given is None or isinstance(given, list) else [given]


def condensed(intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    """The same times as few intervals in order; those that touch become one."""
    result: list[Interval] = []
    for start, end in sorted(intervals):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(result[-1][1], end))
        else:
            result.append((start, end))
    return tuple(result)


def parse_interval(text: Any) -> Interval:
    """Two times, or a time and a period on either side; the end is not part of it.

    Raises:
        InvalidQuery: it is neither, or ends before it starts.
    """
    sides = text.split("/") if isinstance(text, str) else []
    if len(sides) != 2 or all(side.startswith(("P", "p")) for side in sides):
        raise InvalidQuery(f"intervals: {text!r} is not an ISO 8601 interval such as 2024-03-01/2024-03-02")
    first, second = sides
    start = None if first.startswith(("P", "p")) else parse_instant(first)
    end = None if second.startswith(("P", "p")) else parse_instant(second)
    if start is None:
        assert end is not None
        start = shift_ms(end, parse_span(first), -1, "UTC")
    if end is None:
        end = shift_ms(start, parse_span(second), 1, "UTC")
    if end < start:
        raise InvalidQuery(f"intervals: {text!r} ends before it starts")
    return max(start, ETERNITY[0]), min(max(end, ETERNITY[0]), ETERNITY[1])


def parse_instant(text: str) -> int:
    """A time in ms UTC; years beyond 1 to 9999, which Druid's eternity has, become the nearest of ours.

    Raises:
        InvalidQuery: not a time.
    """
    return min(max(_instant(text), ETERNITY[0]), ETERNITY[1])


def _instant(text: str) -> int:
    match = _YEAR.fullmatch(text.strip())
    if match is None:
        raise InvalidQuery(f"intervals: {text!r} is not an ISO 8601 time such as 2024-03-01T00:00:00Z")
    sign, digits, rest = match.groups()
    year = -int(digits[:_YEAR_DIGITS]) if sign == "-" else int(digits[:_YEAR_DIGITS])
    # Every 400 years the calendar is the same again.
    cycles, alike = divmod(year, 400)
    try:
        return parse_iso_ms(f"{2000 + alike}{rest}") + (cycles - 5) * _CYCLE_MS
    except InvalidValue as error:
        raise InvalidQuery(f"intervals: {error}") from error


def spelled(interval: Interval) -> str:
    """An interval as Druid writes it."""
    return "/".join(format_iso_ms(min(max(side, MIN_ROW_TIME_MS), MAX_ROW_TIME_MS)) for side in interval)
