"""Decides which instant a time value means: auto, iso, posix, millis, micro, nano, ruby and Joda patterns.

Zone-less texts are UTC; results are milliseconds in the years 1 to 9999. Importing this module does
not load Arrow.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, Final

from segments.civil import MAX_ROW_TIME_MS, MIN_ROW_TIME_MS, parse_iso_ms
from segments.errors import InvalidInterval
from segments.joda import compile_pattern

TimeParser = Callable[[Any], int]
"""Reads one JSON value; raises ``InvalidInterval`` with the reason when it is no time."""

# Units per millisecond as a fraction (numerator, denominator): value * n // d is milliseconds.
_NUMERIC: Final[dict[str, tuple[int, int]]] = {
    "posix": (1000, 1),
    "millis": (1, 1),
    "micro": (1, 1000),
    "nano": (1, 1_000_000),
}
_DIGITS: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_TRAILING_ZONE: Final = re.compile(
    r"(?P<time>.*\d) (?P<zone>Z|UTC|GMT|[+-]\d{2}:?\d{2}|[A-Za-z]+(?:/[A-Za-z_+-]+\d*)*)", re.ASCII
)


def numeric_scale(name: str) -> tuple[int, int] | None:
    """How a numeric format's unit becomes milliseconds: (multiply by, then divide by); None for texts."""
    return _NUMERIC.get(name)


@lru_cache(maxsize=256)
def time_parser(name: str) -> TimeParser:
    """The parser of a format name or Joda pattern.

    Raises:
        InvalidInterval: a pattern with a letter that is not understood.
    """
    scale = _NUMERIC.get(name)
    if scale is not None:
        return lambda value: _in_range(_scaled(value, *scale), value)
    if name == "iso":
        return lambda value: _in_range(parse_iso_ms(_text(value)), value)
    if name == "auto":
        return lambda value: _in_range(_auto_ms(value), value)
    if name == "ruby":
        return lambda value: _in_range(_ruby_ms(value), value)
    joda = compile_pattern(name)
    return lambda value: _in_range(joda(_text(value)), value)


def _in_range(time_ms: int, value: Any) -> int:
    if not MIN_ROW_TIME_MS <= time_ms <= MAX_ROW_TIME_MS:
        raise InvalidInterval(f"time {_shown(value)} is outside the years 1 to 9999")
    return time_ms


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else text[:97] + "..."


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise InvalidInterval(f"time {_shown(value)} is neither text nor number")


def _scaled(value: Any, numerator: int, denominator: int) -> int:
    """Integers and texts of digits; fractions of the unit are cut off, as a Java cast does."""
    if isinstance(value, str):
        if not _DIGITS.fullmatch(value) or len(value) > 30:
            raise InvalidInterval(f"time {_shown(value)} is not a whole number")
        number = int(value)
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInterval(f"time {_shown(value)} is neither number nor digits")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidInterval(f"time {_shown(value)} is not finite")
        number = int(value)
    else:
        number = value
    return number * numerator // denominator


def _ruby_ms(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidInterval(f"time {_shown(value)} is neither number nor text")
    try:
        seconds = Decimal(str(value))
        return int(seconds * 1000) if seconds.is_finite() and abs(seconds) < 10**15 else MAX_ROW_TIME_MS + 1
    except InvalidOperation as error:
        raise InvalidInterval(f"time {_shown(value)} is not a number of seconds") from error


def _auto_ms(value: Any) -> int:
    if not isinstance(value, str):
        return _scaled(value, 1, 1)
    text = value
    if len(text) >= 2 and text[0] == text[-1] == '"':
        text = text[1:-1]
    if _DIGITS.fullmatch(text):
        return _scaled(text, 1, 1)
    try:
        return parse_iso_ms(text)
    except InvalidInterval:
        zoned = _TRAILING_ZONE.fullmatch(text)
        if zoned is None:
            raise
        return _with_zone(zoned["time"], zoned["zone"])


def _with_zone(text: str, zone: str) -> int:
    local_ms = parse_iso_ms(text)
    if zone in ("Z", "UTC", "GMT"):
        return local_ms
    if zone[0] in "+-":
        return parse_iso_ms(text.replace(" ", "T") + zone)
    from segments.errors import InvalidGranularity
    from segments.truncation import to_utc_ms

    try:
        return to_utc_ms(local_ms, zone)
    except InvalidGranularity as error:
        raise InvalidInterval(f"time {text!r} names an unknown zone {zone!r}") from error
