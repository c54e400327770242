"""Multi-value strings: any member in conditions, each member in functions, one group per member."""

from __future__ import annotations

from collections.abc import Callable

from query.errors import UnsupportedQuery
from query.sql.term import Term
from query.sql.types import MULTI_VARCHAR, VARCHAR, Family


def spread(term: Term) -> str:
    """One row per member; a value without members keeps one row, of NULL."""
    return f"unnest(CASE WHEN len({term.sql}) > 0 THEN {term.sql} ELSE [NULL] END)"


def is_missing(term: Term) -> str:
    """True for NULL and for a list without members, which Druid does not tell apart."""
    return f"(coalesce(len({term.sql}), 0) = 0)"


def any_member(name: str, term: Term, condition: Callable[[Term], str]) -> str:
    """True when some member fulfils a condition; NULL when there is no member. ``name`` is a fresh one."""
    inner = condition(Term(name, VARCHAR))
    fitting = f"list_filter({term.sql}, lambda {name}: coalesce({inner}, FALSE))"
    return f"(CASE WHEN len({term.sql}) > 0 THEN len({fitting}) > 0 END)"


def each_member(name: str, term: Term, change: Callable[[Term], Term]) -> Term:
    """The list with every member changed.

    Raises:
        UnsupportedQuery: the change gives no text.
    """
    inner = change(Term(name, VARCHAR))
    if inner.family is not Family.STRING or inner.type.multi:
        raise UnsupportedQuery(
            "this function is not supported on a multi-value string; use MV_TO_ARRAY or MV_TO_STRING"
        )
    return Term(f"list_transform({term.sql}, lambda {name}: {inner.sql})", MULTI_VARCHAR)
