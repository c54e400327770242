"""Search queries, which filters, extraction functions and the search query share: does a text contain others."""

from __future__ import annotations

from query.native.request import Part
from query.native.rows import call
from query.sql import term as t
from query.sql.casts import cast_to
from query.sql.frame import Session
from query.sql.term import Term
from query.sql.types import BOOLEAN


def matches(session: Session, operand: Term, query: Part) -> str:
    """The condition that one text matches a search query.

    Raises:
        QueryError: there is no such search query.
    """
    kind = query.type
    if kind in ("contains", "insensitive_contains"):
        exact = kind == "contains" and _is_exact(query)
        return contains(session, operand, query.text("value"), exact)
    if kind == "fragment":
        found = [contains(session, operand, value, _is_exact(query)) for value in query.texts("values")]
        return f"({' AND '.join(found) or 'TRUE'})"
    if kind == "regex":
        return found_by(session, operand, query.text("pattern"))
    if kind == "all":
        return "TRUE"
    raise query.unknown_type("search query")


def _is_exact(query: Part) -> bool:
    return query.flag("case_sensitive" if query.has("case_sensitive") else "caseSensitive")


def contains(session: Session, operand: Term, value: str, exact: bool) -> str:
    """The condition that a text contains another, in this or in any case."""
    name = "CONTAINS_STRING" if exact else "ICONTAINS_STRING"
    return cast_to(call(session, name, operand, t.text(value)), BOOLEAN).sql


def found_by(session: Session, operand: Term, pattern: str) -> str:
    """The condition that a pattern of Java is found in a text."""
    return cast_to(call(session, "REGEXP_LIKE", operand, t.text(pattern)), BOOLEAN).sql
