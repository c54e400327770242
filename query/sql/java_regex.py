"""Java's regular expressions: most are read by the engine, those that need more by a kernel (pure)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from query.errors import InvalidQuery, UnsupportedQuery
from query.sql import term as t
from query.sql.functions_time import constant_text
from query.sql.term import Term

# What RE2 lacks of Java's expressions: look-around, possessive and atomic groups, back references.
_JAVA_ONLY = re.compile(r"\(\?(?:[=!>]|<[=!])|[*+?}]\+|\\[1-9]|\\k<")
# What Java and RE2 read alike but Python does not; only used to find broken patterns early.
_NOT_PYTHON = re.compile(r"\\[pP](\{[^}]*\}|.)|\(\?[a-z-]+\)|\\[QEz]|\[\[:\^?\w+:\]")
_NAMED = re.compile(r"\(\?<(?=[A-Za-z])")
_BACK = re.compile(r"\\k<(\w+)>")
_SKIPS = re.compile(r"\)(?:[?*]|\{0)|\|")
_GROUP = re.compile(r"\$(\d)|\$\{[^}]*\}|\\(.)|(\\)$")


@dataclass(frozen=True, slots=True)
class Pattern:
    """A constant pattern as SQL text; ``needs_kernel`` when the engine cannot read it."""

    sql: str
    needs_kernel: bool
    kernel_sql: str = ""
    """The pattern as a kernel reads it; empty where only the engine can."""

    @property
    def may_skip_groups(self) -> bool:
        """Whether a group of a match may take no part in it."""
        return _SKIPS.search(self.sql) is not None


def pattern_of(term: Term) -> Pattern:
    """Reads a constant Java pattern.

    Raises:
        InvalidQuery: it is broken.
        UnsupportedQuery: nobody here reads it as Java does.
    """
    pattern = constant_text(term, "a regular expression")
    if not _JAVA_ONLY.search(pattern):
        try:
            re.compile(_NOT_PYTHON.sub("a", pattern))
        except re.error as error:
            raise InvalidQuery(f"regular expression {pattern!r}: {error}") from error
        python_too = _NOT_PYTHON.search(pattern) is None
        return Pattern(t.text_sql(pattern), False, t.text_sql(_NAMED.sub("(?P<", pattern)) if python_too else "")
    spelled = _BACK.sub(r"(?P=\1)", _NAMED.sub("(?P<", pattern))
    try:
        re.compile(spelled)
    except re.error as error:
        reason = f"regular expression {pattern!r} uses what is not supported beside look-around: {error}"
        raise UnsupportedQuery(reason) from error
    return Pattern(t.text_sql(spelled), True)


def replacement_of(term: Term, pattern: Pattern) -> str:
    """A constant replacement with groups $0 to $9, as the reader of the pattern wants it.

    Raises:
        UnsupportedQuery: it has named groups.
    """
    text = constant_text(term, "the replacement of REGEXP_REPLACE")

    def reference(match: re.Match[str]) -> str:
        if match[1]:
            return f"\\g<{match[1]}>" if pattern.needs_kernel else f"\\{match[1]}"
        if match[2]:
            return "\\\\" if match[2] == "\\" else match[2]
        raise UnsupportedQuery("named groups in a replacement are not supported")

    return t.text_sql(_GROUP.sub(reference, text))
