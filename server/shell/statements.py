"""Finds where statements end in what was typed: at semicolons outside of texts, names and remarks (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_PLACE = re.compile(r"\bline (\[?)(\d+)(\]?), column (\[?)(\d+)(\]?)")


@dataclass(frozen=True, slots=True)
class Placed:
    """A statement and where it begins in the text that it is of: lines before it, letters before it in its line."""

    text: str
    lines: int = 0
    letters: int = 0

    def place(self, line: int, column: int) -> tuple[int, int]:
        """A place in the statement, both counted from 1, as one in the whole text."""
        return line + self.lines, column + (self.letters if line == 1 else 0)

    def told(self, error: str) -> str:
        """An error of the service with its places as those of the whole text."""

        def moved(found: re.Match[str]) -> str:
            line, column = self.place(int(found[2]), int(found[5]))
            return f"line {found[1]}{line}{found[3]}, column {found[4]}{column}{found[6]}"

        return _PLACE.sub(moved, error)


def placed(typed: str) -> list[Placed]:
    """Every statement of a text, the last one also without a semicolon."""
    found: list[Placed] = []
    begin = 0
    for end in [*_ends(typed), len(typed)]:
        piece = typed[begin:end]
        if not is_blank(piece):
            at = begin + len(piece) - len(piece.lstrip())
            found.append(Placed(piece.strip(), typed.count("\n", 0, at), at - typed.rfind("\n", 0, at) - 1))
        begin = end + 1
    return found


def split(typed: str) -> tuple[list[str], str]:
    """The whole statements, without their semicolons, and what is left of one that is not finished yet."""
    statements: list[str] = []
    begin = 0
    for end in _ends(typed):
        statements.append(typed[begin:end])
        begin = end + 1
    return [one.strip() for one in statements if not is_blank(one)], typed[begin:]


def _ends(typed: str) -> Iterator[int]:
    """Where the semicolons are that end a statement."""
    at = 0
    while at < len(typed):
        two, one = typed[at : at + 2], typed[at]
        if two == "--":
            at = _after(typed, "\n", at)
        elif two == "/*":
            at = _after(typed, "*/", at + 2)
        elif one in "'\"":
            # A doubled quote stands for one: it ends a text and begins the next, which comes to the same.
            at = _after(typed, one, at + 1)
        elif one == ";":
            yield at
            at += 1
        else:
            at += 1


def is_blank(typed: str) -> bool:
    """Whether there is nothing but blanks and remarks."""
    at = 0
    while at < len(typed):
        two = typed[at : at + 2]
        if two == "--":
            at = _after(typed, "\n", at)
        elif two == "/*":
            at = _after(typed, "*/", at + 2)
        elif typed[at].isspace():
            at += 1
        else:
            return False
    return True


def _after(typed: str, mark: str, begin: int) -> int:
    found = typed.find(mark, begin)
    return len(typed) if found < 0 else found + len(mark)
