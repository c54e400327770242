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
_GROUP = re.compile(r"\$(\d)|\$\{([A-Za-z][A-Za-z0-9]*)\}|\\(.)|(\\)$")


@dataclass(frozen=True, slots=True)
class Pattern:
    """A constant pattern as SQL text; ``needs_kernel`` when the engine cannot read it."""

    sql: str
    needs_kernel: bool
    kernel_sql: str = ""
    """The pattern as a kernel reads it; empty where only the engine can."""

    may_be_empty: bool = False
    """Whether it fits an empty text."""

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
            re.compile(_NAMED.sub("(?P<", _NOT_PYTHON.sub("a", pattern)))
        except re.error as error:
            raise InvalidQuery(f"regular expression {pattern!r}: {error}") from error
        python_too = _NOT_PYTHON.search(pattern) is None
        named = _NAMED.sub("(?P<", pattern)
        if not python_too:
            return Pattern(t.text_sql(named), False)
        return Pattern(t.text_sql(named), False, t.text_sql(named), re.match(named, "") is not None)
    spelled = _BACK.sub(r"(?P=\1)", _NAMED.sub("(?P<", pattern))
    try:
        re.compile(spelled)
    except re.error as error:
        reason = f"regular expression {pattern!r} uses what is not supported beside look-around: {error}"
        raise UnsupportedQuery(reason) from error
    return Pattern(t.text_sql(spelled), True)


def replacement_of(term: Term, pattern: Pattern) -> tuple[str, bool]:
    """A constant replacement with groups $0 to $9 and ${name}, and whether a kernel must put it in: for groups with
    names, and where the pattern fits an empty text, which Java finds once more behind a match.

    Raises:
        UnsupportedQuery: it names groups, and the pattern is one that only the engine reads.
    """
    text = constant_text(term, "the replacement of REGEXP_REPLACE")
    is_named = any(match[2] for match in _GROUP.finditer(text))
    by_kernel = pattern.needs_kernel or bool(pattern.kernel_sql and (is_named or pattern.may_be_empty))
    if is_named and not by_kernel:
        raise UnsupportedQuery("named groups in the replacement of a pattern with \\p{...} are not supported")

    def reference(match: re.Match[str]) -> str:
        if match[1] or match[2]:
            return f"\\g<{match[1] or match[2]}>" if by_kernel else f"\\{match[1]}"
        return "\\\\" if match[3] == "\\" else match[3] or ""

    return t.text_sql(_GROUP.sub(reference, text)), by_kernel
