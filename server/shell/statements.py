"""Finds where statements end in what was typed: at semicolons outside of texts, names and remarks (pure)."""

from __future__ import annotations


def split(typed: str) -> tuple[list[str], str]:
    """The whole statements, without their semicolons, and what is left of one that is not finished yet."""
    statements: list[str] = []
    begin = at = 0
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
            statements.append(typed[begin:at])
            begin = at = at + 1
        else:
            at += 1
    return [one.strip() for one in statements if not is_blank(one)], typed[begin:]


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
