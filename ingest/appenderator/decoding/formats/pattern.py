"""Reads lines by a regular expression that a whole line must match, in linear time whatever the line holds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ingest.appenderator.decoding.formats.lines import text_lines
from ingest.appenderator.decoding.formats.reader import ByRow
from ingest.appenderator.decoding.unreadable import Unreadable
from ingest.spec.formats import RegexFormat

_NAMED: Final = re.compile(r"\(\?P?<[A-Za-z][A-Za-z0-9_]*>")


class PatternLines(ByRow):
    """``regex``. An empty group is null, for the engine does not tell it from one that took no part."""

    def __init__(self, form: RegexFormat) -> None:
        self._columns = form.columns
        self._list = form.list_delimiter
        self._pattern = rf"\A(?:{_numbered(form.pattern)})\z"

    def many(self, messages: Sequence[bytes | None]) -> tuple[list[dict[str, Any]], list[int]]:
        texts: list[str | None] = []
        for message in messages:
            try:
                lines = text_lines(message) if message else None
            except Unreadable:
                lines = None
            texts.append(lines[0] if lines is not None and len(lines) == 1 else None)
        found = self._match(texts)
        rows = [row for row in found if row is not None]
        return rows, [at for at, row in enumerate(found) if row is None]

    def documents(self, message: bytes | None) -> list[Any] | None:
        lines = None if message is None else text_lines(message)
        if lines is None:
            return None
        return [Unreadable("the line does not match the pattern") if r is None else r for r in self._match(lines)]

    def _match(self, lines: Sequence[str | None]) -> list[dict[str, Any] | None]:
        groups = pc.extract_regex(pa.array(lines, pa.string()), self._pattern)
        columns = [self._values(group.to_pylist()) for group in groups.flatten()]
        rows = map(dict, (zip(self._columns, values, strict=True) for values in zip(*columns, strict=True)))
        return [row if good else None for row, good in zip(rows, groups.is_valid().to_pylist(), strict=True)]

    def _values(self, texts: list[str | None]) -> list[Any]:
        mark = self._list
        return [None if not text else text.split(mark) if mark in text else text for text in texts]


def _numbered(pattern: str) -> str:
    """The pattern with every capturing group named g1, g2, ... for the engine gives back named groups only."""
    out: list[str] = []
    position = number = 0
    in_class = False
    while position < len(pattern):
        character = pattern[position]
        named = _NAMED.match(pattern, position)
        if character == "\\":
            out.append(pattern[position : position + 2])
            position += 2
            continue
        if in_class or character == "[":
            # A bracket right after the opening one belongs to the class.
            opening = not in_class
            in_class = character != "]" or opening
            if opening and pattern[position + 1 : position + 2] == "]":
                out.append("[\\]")
                position += 2
                continue
            out.append(character)
        elif character == "(" and (named or not pattern.startswith("(?", position)):
            number += 1
            out.append(f"(?P<g{number}>")
            position += len(named.group()) if named else 1
            continue
        else:
            out.append(character)
        position += 1
    return "".join(out)
