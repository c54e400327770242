"""Multi-value strings: any member in conditions, each member in functions, one group per member.

A function of several strings, or of one string several times, is one change of members: ``upper(x) || x`` puts each
member beside itself, ``x || y`` each of one beside each of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from query.errors import UnsupportedQuery
from query.sql.term import Term
from query.sql.types import MULTI_VARCHAR, VARCHAR, Family


def spread(term: Term) -> str:
    """One row per member; a value without members keeps one row, of NULL."""
    return f"unnest(CASE WHEN len({term.sql}) > 0 THEN {term.sql} ELSE [NULL] END)"


def members(term: Term) -> str:
    """One row per member; NULL keeps one row, of NULL, and a list without members none."""
    return f"unnest(coalesce({term.sql}, [NULL]))"


def is_missing(term: Term) -> str:
    """True for NULL and for a list without members, which Druid does not tell apart."""
    return f"(coalesce(len({term.sql}), 0) = 0)"


def any_member(name: str, term: Term, condition: Callable[[Term], str]) -> str:
    """True when some member fulfils a condition; NULL when there is no member. ``name`` is a fresh one."""
    inner = condition(Term(name, VARCHAR))
    fitting = f"list_filter({term.sql}, lambda {name}: coalesce({inner}, FALSE))"
    return f"(CASE WHEN len({term.sql}) > 0 THEN len({fitting}) > 0 END)"


def mapped(lists: Sequence[tuple[str, str]], inner: Term) -> Term:
    """The list with what becomes of every member of a list, or of every combination of members of several.

    ``lists`` are the lists with the names by which ``inner`` calls their members.

    Raises:
        UnsupportedQuery: the change gives no text.
    """
    if inner.family is not Family.STRING or inner.type.multi:
        raise UnsupportedQuery(
            "this function is not supported on a multi-value string; use MV_TO_ARRAY or MV_TO_STRING"
        )
    if len(lists) == 1:
        sql = f"list_transform({lists[0][0]}, lambda {lists[0][1]}: {inner.sql})"
    else:
        sql = inner.sql
        for at, (source, name) in enumerate(reversed(lists)):
            # What has no members counts as one null, or nothing would be combined with the others.
            members = f"CASE WHEN len({source}) > 0 THEN {source} ELSE [NULL] END"
            sql = f"list_transform({members}, lambda {name}: {sql})"
            sql = f"flatten({sql})" if at else sql
    return Term(sql, MULTI_VARCHAR, lists=tuple(lists), member=inner.sql)
