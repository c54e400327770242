"""Reads one message as JSON documents, or says why it cannot be read; the slow and deciding way (pure)."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

from ingest.spec.model import Documents

_BLANKS: Final = re.compile(r"[ \t\r\n]*")
# Python reads no longer ones, and neither does the fast way: their cost grows with the square of their length.
_INTEGER_DIGITS_MAX: Final = 4_300


class Unreadable(ValueError):
    """The message, or one document of it, is not JSON; the text says where and why."""


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits.lstrip("-")) <= _INTEGER_DIGITS_MAX else math.inf * (-1 if digits[0] == "-" else 1)


def _constant(name: str) -> Any:
    raise Unreadable(f"{name} is not JSON")


_DECODER: Final = json.JSONDecoder(parse_int=_integer, parse_constant=_constant)


def read_documents(message: bytes, how: Documents) -> list[Any] | None:
    """The documents of a message, each a value or an ``Unreadable``; None for a blank message.

    Raises:
        Unreadable: the whole message is unreadable.
    """
    try:
        text = message.decode()
    except UnicodeDecodeError as error:
        raise Unreadable(f"not UTF-8 at byte {error.start}") from error
    text = text.removeprefix("\ufeff")
    if not text.strip(" \t\r\n"):
        return None
    if how is Documents.LINES:
        return [_line(line) for line in text.split("\n") if line.strip(" \t\r\n")]
    documents: list[Any] = []
    position = _skip_blanks(text, 0)
    while position < len(text):
        try:
            value, end = _read(text, position)
        except Unreadable as error:
            if how is Documents.PREFIX and documents:
                return [*documents, error]
            raise
        documents.append(value)
        position = _skip_blanks(text, end)
    return documents


def _line(text: str) -> Any:
    try:
        start = _skip_blanks(text, 0)
        value, end = _read(text, start)
        if text[end:].strip(" \t\r\n"):
            return Unreadable(f"more than one document in a line, at character {end}")
        return value
    except Unreadable as error:
        return error


def _read(text: str, position: int) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text, position)
    except json.JSONDecodeError as error:
        raise Unreadable(f"not JSON: {error.msg[0].lower()}{error.msg[1:]} at character {error.pos}") from error
    except RecursionError as error:
        raise Unreadable("nested too deeply") from error


def _skip_blanks(text: str, position: int) -> int:
    match = _BLANKS.match(text, position)
    assert match is not None
    return match.end()
