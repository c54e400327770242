"""Compiles Joda-Time patterns such as ``dd/MMM/yyyy:HH:mm:ss Z`` into parsers of one text (English names)."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from segments.civil import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, days_from_civil, days_in_month
from segments.errors import InvalidGranularity, InvalidInterval

_MONTHS: Final = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
_ZONES: Final = {"utc": "UTC", "gmt": "UTC", "z": "UTC", "est": "America/New_York", "edt": "America/New_York",
                 "cst": "America/Chicago", "cdt": "America/Chicago", "mst": "America/Denver", "mdt": "America/Denver",
                 "pst": "America/Los_Angeles", "pdt": "America/Los_Angeles"}  # fmt: skip
PATTERN_MAX: Final = 1_000  # characters; each costs time in every compilation
_KNOWN: Final = "yYuxwMdDeEaHhkKmsSzZG"
_TOKEN: Final = re.compile(r"(?P<letter>[A-Za-z])(?P=letter)*|'(?P<quoted>(?:[^']|'')*)'|(?P<other>[^A-Za-z'])")


@lru_cache(maxsize=256)
def compile_pattern(pattern: str) -> Callable[[str], int]:
    """A parser from text to milliseconds UTC that raises ``InvalidInterval`` where the text does not fit.

    Raises:
        InvalidInterval: the pattern has a letter that Joda does not know, no letter at all, or is too long.
    """
    if len(pattern) > PATTERN_MAX:
        raise InvalidInterval(f"time format {pattern[:50]!r}... has {len(pattern)} characters, more than {PATTERN_MAX}")
    out: list[str] = []
    seen: set[str] = set()
    tokens = list(_TOKEN.finditer(pattern))
    if sum(len(token.group()) for token in tokens) != len(pattern):
        raise InvalidInterval(f"time format {pattern!r} has an unclosed quote")
    for at, token in enumerate(tokens):
        letter = token["letter"]
        if letter is None:
            literal = token["other"] if token["other"] is not None else (token["quoted"].replace("''", "'") or "'")
            out.append(re.escape(literal))
            continue
        if letter not in _KNOWN:
            raise InvalidInterval(f"time format {pattern!r} has the unknown letter {letter!r}")
        adjacent = at + 1 < len(tokens) and (tokens[at + 1]["letter"] or "") in tuple("yYuxwMdDeHhkKmsS")
        out.append(_group(letter, len(token.group()), letter in seen, adjacent))
        seen.add(letter)
    if not seen:
        raise InvalidInterval(f"time format {pattern!r} is neither a known name nor a pattern")
    expression = re.compile("".join(out), re.IGNORECASE | re.ASCII)

    def parse(text: str) -> int:
        match = expression.fullmatch(text)
        if match is None:
            raise InvalidInterval(f"time {text[:100]!r} does not fit the format {pattern!r}")
        return _instant_ms({name: value for name, value in match.groupdict().items() if value is not None}, text)

    return parse


def _group(letter: str, count: int, repeated: bool, adjacent: bool) -> str:
    if letter in "yYux":
        body = rf"[+-]?\d{{{count}}}" if adjacent else (r"\d{2}|[+-]?\d{3,9}|\d" if count == 2 else r"[+-]?\d{1,9}")
        name = f"year{count}" if letter in "yYu" else "weekyear"
    elif letter == "M" and count >= 3:
        name, body = "month_name", r"[a-z]{3,9}\.?"
    elif letter == "E" or (letter == "e" and count >= 3):
        name, body = "day_name", r"[a-z]{3,9}\.?"
    elif letter == "S":
        name, body = "fraction", rf"\d{{{count}}}" if adjacent else r"\d{1,9}"
    elif letter == "a":
        name, body = "half", r"[ap]m"
    elif letter == "G":
        name, body = "era", r"AD|BC|CE|BCE"
    elif letter == "Z":
        name, body = ("zone", r"[a-z_]+(?:/[a-z_+\-0-9]+)*") if count >= 3 else ("offset", r"Z|[+-]\d{2}:?\d{2}")
    elif letter == "z":
        name, body = "zone", r"[a-z]+(?: [a-z]+)*"
    else:
        name = f"n_{letter}"
        body = rf"\d{{{count}}}" if adjacent else rf"\d{{1,{max(count, 3 if letter == 'D' else 2)}}}"
    return f"(?:{body})" if repeated else f"(?P<{name}>{body})"


def _instant_ms(found: dict[str, str], text: str) -> int:
    days = _days(found, text)
    hour = _hour(found, text)
    minute, second = int(found.get("n_m", 0)), int(found.get("n_s", 0))
    if hour > 23 or minute > 59 or second > 59:
        raise InvalidInterval(f"time {text[:100]!r} names a time of day that does not exist")
    millis = int(found.get("fraction", "0")[:3].ljust(3, "0"))
    local_ms = days * DAY_MS + hour * HOUR_MS + minute * MINUTE_MS + second * SECOND_MS + millis
    if "offset" in found:
        return local_ms - _offset_ms(found["offset"])
    return _in_zone(local_ms, found["zone"], text) if "zone" in found else local_ms


def _days(found: dict[str, str], text: str) -> int:
    year, month = _year(found), _month(found, text)
    if "n_D" in found:
        day_of_year = int(found["n_D"])
        if not 1 <= day_of_year <= days_from_civil(year + 1, 1, 1) - days_from_civil(year, 1, 1):
            raise InvalidInterval(f"time {text[:100]!r} names a day that does not exist")
        return days_from_civil(year, 1, 1) + day_of_year - 1
    if "weekyear" in found or "n_w" in found:
        year, week, day = int(found.get("weekyear", year)), int(found.get("n_w", 1)), int(found.get("n_e", 1))
        fourth = days_from_civil(year, 1, 4)
        if not (1 <= week <= 53 and 1 <= day <= 7):
            raise InvalidInterval(f"time {text[:100]!r} names a week that does not exist")
        return fourth - (fourth + 3) % 7 + (week - 1) * 7 + day - 1
    day = int(found.get("n_d", 1))
    if not 1 <= month <= 12 or not 1 <= day <= days_in_month(year, month):
        raise InvalidInterval(f"time {text[:100]!r} names a day that does not exist")
    return days_from_civil(year, month, day)


def _year(found: dict[str, str]) -> int:
    for name, value in found.items():
        if name.startswith("year"):
            year = int(value)
            # Joda reads exactly two digits under `yy` within fifty years around 2000.
            if name == "year2" and len(value) == 2 and value.isdigit():
                year += 2000 if year < 50 else 1900
            return 1 - year if found.get("era", "AD").upper() in ("BC", "BCE") else year
    return 2000 if "n_d" in found or "n_M" in found or "month_name" in found else 1970


def _month(found: dict[str, str], text: str) -> int:
    if "month_name" not in found:
        return int(found.get("n_M", 1))
    name = found["month_name"].rstrip(".").lower()
    for number, month in enumerate(_MONTHS, 1):
        if name in (month, month[:3]):
            return number
    raise InvalidInterval(f"time {text[:100]!r} names no month known in English")


def _hour(found: dict[str, str], text: str) -> int:
    if "n_H" in found:
        return int(found["n_H"])
    if "n_k" in found:
        return int(found["n_k"]) % 24
    if "n_h" not in found and "n_K" not in found:
        return 0
    hour = int(found["n_h"]) % 12 if "n_h" in found else int(found["n_K"])
    if hour > 11 or int(found.get("n_h", 1)) > 12:
        raise InvalidInterval(f"time {text[:100]!r} names a time of day that does not exist")
    return hour + (12 if found.get("half", "am").lower() == "pm" else 0)


def _offset_ms(offset: str) -> int:
    if offset in "Zz":
        return 0
    digits = offset[1:].replace(":", "")
    return (-1 if offset[0] == "-" else 1) * (int(digits[:2]) * HOUR_MS + int(digits[2:]) * MINUTE_MS)


def _in_zone(local_ms: int, zone: str, text: str) -> int:
    from segments.truncation import to_utc_ms

    name = _ZONES.get(zone.lower(), zone)
    if name == "UTC":
        return local_ms
    try:
        return to_utc_ms(local_ms, name)
    except InvalidGranularity as error:
        raise InvalidInterval(f"time {text[:100]!r} names an unknown zone {zone!r}") from error
