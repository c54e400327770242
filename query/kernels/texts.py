"""Functions of texts that the engine lacks: paths of JSON documents, IPv6 subnets, Java's regular expressions.

Each text of a batch is looked at once. What is no document or address has no answer: null.
"""

from __future__ import annotations

import base64
import ipaddress
import json
import re
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa

from query.kernels.java_format import formatted_json
from query.kernels.kernel import Kernel
from segments.errors import InvalidInterval
from segments.joda import compile_pattern

_TEXTS = pa.list_(pa.string())
_DIGITS = re.compile(r"[+-]?[0-9A-Za-z]{1,70}")
_BARE = re.compile(r"[^.\[\]'\"]+")


def _answers(answer: Callable[..., Any], type_: Any, texts: Any, constants: tuple[Any, ...]) -> Any:
    """The answers for a column whose other arguments are the same in every row."""
    flat = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    if not len(flat):
        return pa.array([], type_)
    encoded = flat.dictionary_encode()
    given = [column[0].as_py() for column in constants]
    found = pa.array([answer(text, *given) for text in encoded.dictionary.to_pylist()], type_)
    return found.take(encoded.indices)


def _alone(answer: Callable[..., Any], type_: Any) -> Callable[..., Any]:
    return lambda texts: _answers(answer, type_, texts, ())


def _with_one(answer: Callable[..., Any], type_: Any) -> Callable[..., Any]:
    return lambda texts, first: _answers(answer, type_, texts, (first,))


def _with_two(answer: Callable[..., Any], type_: Any) -> Callable[..., Any]:
    return lambda texts, first, second: _answers(answer, type_, texts, (first, second))


def _json_paths(text: str) -> list[str] | None:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    found: list[str] = []
    waiting = [("$", document)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [(f"{path}{_step(key)}", member) for key, member in value.items()]
        elif isinstance(value, list) and any(isinstance(member, dict | list) for member in value):
            waiting += [(f"{path}[{at}]", member) for at, member in enumerate(value)]
        else:
            found.append(path)
    return found


def _step(key: str) -> str:
    if _BARE.fullmatch(key):
        return f".{key}"
    quoted = key.replace("\\", "\\\\").replace("'", "\\'")
    return f"['{quoted}']"


def _in_subnet(text: str, subnet: str) -> bool:
    try:
        return ipaddress.IPv6Address(text) in _subnet(subnet)
    except ValueError:
        return False


@lru_cache(maxsize=16)
def _subnet(spelled: str) -> ipaddress.IPv6Network:
    return ipaddress.IPv6Network(spelled, strict=False)


def _long(text: str, radix: int) -> int | None:
    if not _DIGITS.fullmatch(text):
        return None
    try:
        number = int(text, radix)
    except ValueError:
        return None
    return number if -(2**63) <= number < 2**63 else None


def _of_base64(text: str) -> str | None:
    """The text that Base64 spells, filling signs given or not; what is no UTF-8 in it becomes U+FFFD, as in Java."""
    bare = text.rstrip("=")
    filled = len(text) - len(bare)
    if len(bare) % 4 == 1 or (filled and (filled > 2 or len(text) % 4)):
        return None
    try:
        return base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True).decode("utf-8", "replace")
    except ValueError:
        return None


def _time_of(text: str, pattern: str) -> int | None:
    """The milliseconds that a text says in a Joda pattern, on the clock of UTC unless it names another."""
    try:
        return compile_pattern(pattern)(text)
    except (InvalidInterval, OverflowError, ValueError):
        return None


def _zone_letters(time_ms: int, zone: str) -> str:
    """What a zone is called at a time: PST; its offset where it has no letters."""
    try:
        name = datetime.fromtimestamp(time_ms // 1000, ZoneInfo(zone)).tzname() or zone
    except (ValueError, OverflowError, OSError, ZoneInfoNotFoundError):
        return zone
    return name if name[0] not in "+-" else f"{name[:3]}:{name[3:] or '00'}"


def _of_bytes(text: str, most: int) -> str:
    """The whole characters of the first bytes."""
    return text if len(text) * 4 <= most else text.encode()[:most].decode("utf-8", "ignore")


def _matches(text: str, pattern: str) -> bool:
    return re.search(pattern, text, re.ASCII) is not None


def _extracted(text: str, pattern: str, group: int) -> str | None:
    found = re.search(pattern, text, re.ASCII)
    return None if found is None else found.group(group)


def _replaced(text: str, pattern: str, replacement: str) -> str:
    return re.sub(pattern, replacement, text, flags=re.ASCII)


KERNELS = {
    "text_json_paths": Kernel(_alone(_json_paths, _TEXTS), ("VARCHAR",), "VARCHAR[]"),
    "text_in_subnet": Kernel(_with_one(_in_subnet, pa.bool_()), ("VARCHAR", "VARCHAR"), "BOOLEAN"),
    "text_long": Kernel(_with_one(_long, pa.int64()), ("VARCHAR", "BIGINT"), "BIGINT"),
    "text_formatted": Kernel(_with_one(formatted_json, pa.string()), ("VARCHAR", "VARCHAR"), "VARCHAR"),
    "text_of_bytes": Kernel(_with_one(_of_bytes, pa.string()), ("VARCHAR", "BIGINT"), "VARCHAR"),
    "time_of_text": Kernel(_with_one(_time_of, pa.int64()), ("VARCHAR", "VARCHAR"), "BIGINT"),
    "time_zone_letters": Kernel(_with_one(_zone_letters, pa.string()), ("BIGINT", "VARCHAR"), "VARCHAR"),
    "text_of_base64": Kernel(_alone(_of_base64, pa.string()), ("VARCHAR",), "VARCHAR"),
    "text_matches": Kernel(_with_one(_matches, pa.bool_()), ("VARCHAR", "VARCHAR"), "BOOLEAN"),
    "text_extracted": Kernel(_with_two(_extracted, pa.string()), ("VARCHAR", "VARCHAR", "BIGINT"), "VARCHAR"),
    "text_replaced": Kernel(_with_two(_replaced, pa.string()), ("VARCHAR", "VARCHAR", "VARCHAR"), "VARCHAR"),
}
