"""Reads one message as JSON documents, or says why it cannot be read; the slow and deciding way (pure)."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from ingest.appenderator.decoding.lenient import LenientSyntax, integer_of
from ingest.appenderator.decoding.unreadable import Unreadable
from ingest.spec.model import Documents

__all__ = ["Unreadable", "read_documents"]
_BLANKS: Final = re.compile(r"[ \t\r\n]*")


def _constant(name: str) -> Any:
    raise Unreadable(f"{name} is not JSON")


_DECODER: Final = json.JSONDecoder(parse_int=integer_of, parse_constant=_constant)


def read_documents(message: bytes, how: Documents, features: frozenset[str] = frozenset()) -> list[Any] | None:
    """The documents of a message, each a value or an ``Unreadable``; None for a blank message.

    ``features`` are what is taken beside JSON; see ``lenient``.

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
    syntax = LenientSyntax(features) if features else _STRICT
    if how is Documents.LINES:
        return [_line(line, syntax) for line in text.split("\n") if line.strip(" \t\r\n")]
    documents: list[Any] = []
    position = syntax.skip_blanks(text, 0)
    while position < len(text):
        try:
            value, end = syntax.read(text, position)
        except Unreadable as error:
            if how is Documents.PREFIX and documents:
                return [*documents, error]
            raise
        documents.append(value)
        position = syntax.skip_blanks(text, end)
    return documents


def _line(text: str, syntax: _Strict | LenientSyntax) -> Any:
    try:
        start = syntax.skip_blanks(text, 0)
        value, end = syntax.read(text, start)
        if syntax.skip_blanks(text, end) < len(text):
            return Unreadable(f"more than one document in a line, at character {end}")
        return value
    except Unreadable as error:
        return error


class _Strict:
    """JSON as it is written down."""

    def read(self, text: str, position: int) -> tuple[Any, int]:
        try:
            return _DECODER.raw_decode(text, position)
        except json.JSONDecodeError as error:
            told = f"{error.msg[0].lower()}{error.msg[1:]}".removesuffix(" at")
            raise Unreadable(f"not JSON: {told} at character {error.pos}") from error
        except RecursionError as error:
            raise Unreadable("nested too deeply") from error

    def skip_blanks(self, text: str, position: int) -> int:
        match = _BLANKS.match(text, position)
        assert match is not None
        return match.end()


_STRICT: Final = _Strict()
