"""Java's String.format: flags, widths, precisions and positions, as far as values of SQL reach (pure)."""

from __future__ import annotations

import json
import math
import re
import struct
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import lru_cache

Value = str | int | float | None
_SPEC = re.compile(r"%(?:(\d+)\$)?([-#+ 0,(<]*)(\d+)?(?:\.(\d+))?([a-zA-Z%])")
_KNOWN = "bBhHsScCdoxXeEfgGn%"
_INTEGERS, _FLOATS = "doxX", "eEfgG"
PADDED_MAX = 10_000
_WIDE = Context(prec=2_000)


class BadFormat(ValueError):
    """Java would throw: Druid then gives the pattern and the arguments as they are."""


def formatted_json(values: str, pattern: str) -> str:
    """The same of values in a JSON list; doubles are objects there, since not all of them are JSON numbers."""
    given = [float(value["d"]) if isinstance(value, dict) else value for value in json.loads(values)]
    return formatted(pattern, tuple(given))


def formatted(pattern: str, values: tuple[Value, ...]) -> str:
    """The pattern with the values in it; where Java refuses it, the pattern and the values behind it, as Druid does."""
    try:
        pieces, at = [], 0
        for piece in _pieces(pattern):
            if isinstance(piece, str):
                pieces.append(piece)
                continue
            number, flags, width, precision, kind = piece
            if kind in "n%":
                text = "\n" if kind == "n" else "%"
                pieces.append(_padded(text, flags, width))
                continue
            if "<" in flags:
                index = at - 1
            elif number:
                index = number - 1
            else:
                index, at = at, at + 1
            if not 0 <= index < len(values):
                raise BadFormat("no such argument")
            pieces.append(_one(values[index], flags, width, precision, kind))
        return "".join(pieces)
    except BadFormat:
        return "; ".join([pattern, *("null" if value is None else _told(value) for value in values)])


@lru_cache(maxsize=256)
def _pieces(pattern: str) -> tuple[str | tuple[int, str, int, int | None, str], ...]:
    found: list[str | tuple[int, str, int, int | None, str]] = []
    start = 0
    for match in _SPEC.finditer(pattern):
        between = pattern[start : match.start()]
        if "%" in between or match[5] not in _KNOWN:
            raise BadFormat("not a conversion")
        width = int(match[3] or 0)
        if width > PADDED_MAX or int(match[4] or 0) > PADDED_MAX:
            raise BadFormat("too wide")
        found += [between, (int(match[1] or 0), match[2], width, None if match[4] is None else int(match[4]), match[5])]
        start = match.end()
    if "%" in pattern[start:]:
        raise BadFormat("not a conversion")
    return (*found, pattern[start:])


def _one(value: Value, flags: str, width: int, precision: int | None, kind: str) -> str:
    upper, lower = kind.isupper(), kind.lower()
    needs_width = "-" in flags or "0" in flags
    if (needs_width and not width) or {"-", "0"} <= set(flags) or {"+", " "} <= set(flags):
        raise BadFormat("flags that do not go together")
    if value is None and lower != "b":
        text = "null"[: len("null") if precision is None else precision]
        return _padded(text.upper() if upper else text, flags.replace("0", ""), width)
    if kind in _INTEGERS:
        text = _integer(value, flags, width, precision, lower)
    elif kind in _FLOATS:
        text = _float(value, flags, width, precision, lower)
    else:
        if set(flags) & set("+ 0,(#"):
            raise BadFormat("a flag of numbers")
        text = _text(value, precision, lower)
    return _padded(text.upper() if upper else text, flags, width)


def _text(value: Value, precision: int | None, kind: str) -> str:
    if kind == "c":
        raise BadFormat("neither a long nor a text is a character")
    if kind == "b":
        told = "false" if value is None else "true"
    elif kind == "h":
        told = format(_hash(value) & 0xFFFFFFFF, "x")
    else:
        told = _told(value)
    return told if precision is None else told[:precision]


def _told(value: Value) -> str:
    from query.results import java_number

    return java_number(value) if isinstance(value, float) else str(value)


def _hash(value: Value) -> int:
    if isinstance(value, str):
        found = 0
        for unit in memoryview(value.encode("utf-16-le")).cast("H"):
            found = (31 * found + unit) & 0xFFFFFFFF
        return found
    bits: int = struct.unpack(">q", struct.pack(">d", value))[0] if isinstance(value, float) else int(value or 0)
    return bits ^ (bits >> 32)


def _integer(value: Value, flags: str, width: int, precision: int | None, kind: str) -> str:
    if not isinstance(value, int) or precision is not None:
        raise BadFormat("no whole number")
    if kind == "d":
        if "#" in flags:
            raise BadFormat("a flag of other conversions")
        digits = f"{abs(value):,}" if "," in flags else str(abs(value))
        return _signed(digits, value < 0, flags, width)
    if set(flags) & set("+ ,("):
        raise BadFormat("a flag of decimal numbers")
    digits = format(value & 0xFFFFFFFFFFFFFFFF, kind)
    lead = {"o": "0", "x": "0x"}[kind] if "#" in flags else ""
    return lead + (digits.rjust(width - len(lead), "0") if "0" in flags else digits)


def _float(value: Value, flags: str, width: int, precision: int | None, kind: str) -> str:
    if not isinstance(value, float) or ("," in flags and kind == "e") or ("#" in flags and kind == "g"):
        raise BadFormat("no floating-point number")
    negative = math.copysign(1.0, value) < 0
    if not math.isfinite(value):
        told = "NaN" if math.isnan(value) else "Infinity"
        return _signed(told, negative and told != "NaN", flags.replace("0", "").replace(",", ""), 0)
    places = 6 if precision is None else precision
    exact = abs(Decimal(repr(value)))
    if kind == "g":
        places = max(places, 1)
        rounded = _rounded(exact, places)
        if rounded == 0 or Decimal("1e-4") <= rounded < Decimal(10) ** places:
            shown = max(places - (rounded.adjusted() + 1 if rounded else 1), 0)
            digits = _fixed(exact, shown)
        else:
            digits = _scientific(exact, places - 1)
    else:
        digits = _fixed(exact, places) if kind == "f" else _scientific(exact, places)
    if "," in flags:
        whole, point, rest = digits.partition(".")
        digits = f"{int(whole):,}{point}{rest}"
    return _signed(digits, negative, flags, width)


def _rounded(value: Decimal, digits: int) -> Decimal:
    return value.quantize(Decimal(1).scaleb(value.adjusted() - digits + 1), ROUND_HALF_UP) if value else value


def _fixed(value: Decimal, places: int) -> str:
    # Digits that a sum of doubles never has are zeros.
    kept = min(places, 400)
    with_zeros = format(value.quantize(Decimal(1).scaleb(-kept), ROUND_HALF_UP, _WIDE), "f")
    return with_zeros + "0" * (places - kept)


def _scientific(value: Decimal, places: int) -> str:
    rounded = _rounded(value, places + 1) if value else value
    exponent = rounded.adjusted() if rounded else 0
    digits = _fixed(rounded.scaleb(-exponent, _WIDE), places)
    return f"{digits}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def _signed(digits: str, negative: bool, flags: str, width: int) -> str:
    before, after = ("(", ")") if negative and "(" in flags else ("-", "") if negative else ("", "")
    if not negative:
        before = "+" if "+" in flags else " " if " " in flags else ""
    if "0" in flags:
        digits = digits.rjust(width - len(before) - len(after), "0")
    return before + digits + after


def _padded(text: str, flags: str, width: int) -> str:
    return text.ljust(width) if "-" in flags else text.rjust(width)
