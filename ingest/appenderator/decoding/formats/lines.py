"""Reads lines of text: comma-separated with RFC 4180's quotes, separated by anything else without, or whole."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Sequence
from typing import Any, Final, cast

from ingest.appenderator.decoding.formats.reader import OneByOne
from ingest.appenderator.decoding.unreadable import Unreadable
from ingest.spec.formats import DelimitedFormat
from segments.coercion import LONG_MAX, LONG_MIN

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_FRACTION: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?", re.ASCII)


def text_lines(message: bytes) -> list[str] | None:
    """The lines of a message without those that are blank; None if all are.

    Raises:
        Unreadable: it is not UTF-8.
    """
    try:
        text = message.decode()
    except UnicodeDecodeError as error:
        raise Unreadable(f"not UTF-8 at byte {error.start}") from error
    lines = [line.removesuffix("\r") for line in text.removeprefix("\ufeff").split("\n")]
    return [line for line in lines if line.strip(" \t")] or None


def split_line(line: str, delimiter: str, quoted: bool) -> list[str | None]:
    """The fields of one line. What is empty is null; between quotes, where there are any, it is an empty text.

    Raises:
        Unreadable: a quote is not closed, or text follows the closing one.
    """
    if not quoted or '"' not in line:
        return [field or None for field in line.split(delimiter)]
    fields: list[str | None] = []
    position = 0
    while True:
        if line.startswith('"', position):
            field, position = _quoted(line, position)
            fields.append(field)
            if position < len(line) and not line.startswith(delimiter, position):
                raise Unreadable(f"text follows a closed quote at character {position}")
        else:
            end = line.find(delimiter, position)
            end = len(line) if end < 0 else end
            fields.append(line[position:end] or None)
            position = end
        if position >= len(line):
            return fields
        position += len(delimiter)
        if position == len(line):
            return [*fields, None]


def _quoted(line: str, position: int) -> tuple[str, int]:
    pieces: list[str] = []
    position += 1
    while True:
        end = line.find('"', position)
        if end < 0:
            raise Unreadable("a quote is not closed")
        pieces.append(line[position:end])
        if not line.startswith('"', end + 1):
            return "".join(pieces), end + 1
        pieces.append('"')
        position = end + 2


def _split_quoted(lines: list[str], delimiter: str) -> list[list[str | None]] | None:
    """As ``split_line`` for each line, by the library; None where it is not sure to agree about all of them."""
    if len(delimiter) != 1:
        return None
    try:
        rows = list(csv.reader(lines, delimiter=delimiter, strict=True))
    except csv.Error:
        return None
    # A quote that is not closed goes on in the next line, so that there are fewer rows than lines.
    if len(rows) != len(lines):
        return None
    found: list[list[str | None]] = []
    for line, row in zip(lines, rows, strict=True):
        if "" not in row:
            found.append([*row])
        else:
            found.append(split_line(line, delimiter, True) if '""' in line else [field or None for field in row])
    return found


def as_number(text: str) -> Any:
    """A number where the whole text is one that a column could hold, else the text."""
    if _WHOLE.fullmatch(text) and LONG_MIN <= int(text) <= LONG_MAX:
        return int(text)
    if _FRACTION.fullmatch(text) and math.isfinite(number := float(text)):
        return number
    return text


class DelimitedLines(OneByOne):
    """``csv`` and ``tsv``. A line with too few fields leaves the last columns out; fields beyond them are dropped."""

    def __init__(self, form: DelimitedFormat) -> None:
        self._form = form
        self._alone = not form.header and not form.skip_rows
        self._list = form.list_delimiter
        self._marks = ["\r", "\ufeff", form.list_delimiter]

    def many(self, messages: Sequence[bytes | None]) -> tuple[list[dict[str, Any]], list[int]]:
        lines = self._simple_lines(messages) if self._alone else None
        if lines is None:
            return super().many(messages)
        delimiter, columns = self._form.delimiter, self._form.columns
        if self._form.quoted and any('"' in line for line in lines):
            split = _split_quoted(lines, delimiter)
            return (
                super().many(messages) if split is None else ([dict(zip(columns, s, strict=False)) for s in split], [])
            )
        rows = [dict(zip(columns, line.split(delimiter), strict=False)) for line in lines]
        # What is empty is null; most lines have nothing empty.
        return [{k: v or None for k, v in row.items()} if "" in row.values() else row for row in rows], []

    def _simple_lines(self, messages: Sequence[bytes | None]) -> list[str] | None:
        """The lines of a batch in which every message is one without lists or numbers; else None."""
        if self._form.parse_numbers or not all(messages):
            return None
        try:
            text = b"\n".join(cast("Sequence[bytes]", messages)).decode()
        except UnicodeDecodeError:
            return None
        lines = text.split("\n")
        plain = len(lines) == len(messages) and not any(mark in text for mark in self._marks)
        return lines if plain and not any(map(str.isspace, lines)) else None

    def one(self, message: bytes | None) -> dict[str, Any]:
        if not message or not self._alone:
            raise Unreadable("not one line")
        lines = text_lines(message)
        if lines is None or len(lines) != 1:
            raise Unreadable("not one line")
        return self._row(lines[0], self._form.columns)

    def documents(self, message: bytes | None) -> list[Any] | None:
        lines = None if message is None else text_lines(message)
        if lines is None:
            return None
        columns = self._form.columns
        rest = iter(lines[self._form.skip_rows :])
        if self._form.header:
            header = next(rest, None)
            if header is None:
                raise Unreadable("no header row in the message")
            columns = self._header(header)
        return [self._document(line, columns) for line in rest]

    def _header(self, line: str) -> tuple[str, ...]:
        names = split_line(line, self._form.delimiter, self._form.quoted)
        if any(name is None for name in names) or len(set(names)) < len(names):
            raise Unreadable("the header row has an empty name, or one twice")
        return tuple(name for name in names if name is not None)

    def _document(self, line: str, columns: tuple[str, ...]) -> Any:
        try:
            return self._row(line, columns)
        except Unreadable as error:
            return error

    def _row(self, line: str, columns: tuple[str, ...]) -> dict[str, Any]:
        fields = split_line(line, self._form.delimiter, self._form.quoted)
        return dict(zip(columns, map(self._value, fields), strict=False))

    def _value(self, field: str | None) -> Any:
        if not field:
            return field
        if self._list in field:
            parts = field.split(self._list)
            return [as_number(part) for part in parts] if self._form.parse_numbers else parts
        return as_number(field) if self._form.parse_numbers else field


class PlainLines(OneByOne):
    """``lines``: the text of each line in the column ``line``."""

    def one(self, message: bytes | None) -> dict[str, Any]:
        found = self.documents(message)
        if found is None or len(found) != 1:
            raise Unreadable("not one line")
        document: dict[str, Any] = found[0]
        return document

    def documents(self, message: bytes | None) -> list[Any] | None:
        lines = None if message is None else text_lines(message)
        return None if lines is None else [{"line": line} for line in lines]
