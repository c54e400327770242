"""Multi-value strings: any member in conditions, each member in functions, one group per member.

A function of several strings, or of one string several times, is one change of members: ``upper(x) || x`` puts each
member beside itself, ``x || y`` each of one beside each of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from query.errors import UnsupportedQuery
from query.sql import term as t
from query.sql.term import Term
from query.sql.types import JSON, MULTI_VARCHAR, VARCHAR, Family, array_of


def spread(term: Term) -> str:
    """One row per member; a value without members keeps one row, of NULL."""
    listed = _of_members(term)
    return f"unnest(CASE WHEN len({listed}) > 0 THEN {listed} ELSE [NULL] END)"


def members(term: Term) -> str:
    """One row per member; NULL keeps one row, of NULL, and a list without members none."""
    return f"unnest(coalesce({_of_members(term)}, [NULL]))"


def _of_members(term: Term) -> str:
    """The list itself, or what a function made of its members: of none nothing, where as a value it is that of NULL."""
    if len(term.lists) != 1:
        return term.sql
    [(source, name)] = term.lists
    return f"list_transform(coalesce({source}, [NULL]), lambda {name}: {term.member})"


def whole_list(term: Term) -> Term:
    """All values of one that may have several, as an array: NULL where there are none, as in Druid."""
    array = as_array(term) if term.family is not Family.STRING else Term(term.sql, array_of(term.type.member))
    return Term(f"nullif({array.sql}, [])", array.type)


def as_array(term: Term) -> Term:
    """The term as an answer holds it: what became of members is an array unless it is text."""
    if not term.type.multi or term.family is Family.STRING:
        return term
    array = array_of(term.type.member)
    return Term(f"CAST({term.sql} AS {array.duckdb})", array)


def _of_each(lists: Sequence[tuple[str, str]], sql: str) -> str:
    for at, (source, name) in enumerate(reversed(lists)):
        sql = f"list_transform(CASE WHEN len({source}) > 0 THEN {source} ELSE [NULL] END, lambda {name}: {sql})"
        sql = f"flatten({sql})" if at else sql
    return sql


def as_java_text(term: Term) -> Term:
    """An array as Druid tells it where a text is asked for."""
    texts = f"array_to_string(list_transform({term.sql}, lambda x: coalesce(x, 'null')), ', ')"
    return t.expression(f"'[' || {texts} || ']'", VARCHAR)


def one_text(term: Term) -> Term:
    """A multi-value string as aggregators take it: the text of its only member, or all of them as Java writes lists."""
    several = as_java_text(term).sql
    return t.expression(f"CASE WHEN len({term.sql}) > 1 THEN {several} ELSE list_extract({term.sql}, 1) END", VARCHAR)


def only_member(term: Term) -> Term:
    """The value of a row with one member; NULL of one with several, which Druid's aggregates and groups of numbers
    leave out. Of none it is what the function makes of NULL."""
    return Term(f"(CASE WHEN len({term.sql}) = 1 THEN list_extract({term.sql}, 1) END)", term.type.member)


def is_missing(term: Term) -> str:
    """True for NULL, for a list without members, which Druid does not tell apart here, and for a list with a NULL."""
    return f"(coalesce(len({term.sql}), 0) = 0 OR len({term.sql}) > list_count({term.sql}))"


def refuse_lists(terms: Sequence[Term]) -> None:
    """For what makes arrays of values.

    Raises:
        UnsupportedQuery: a term has several values, or is an array.
    """
    if any(term.type.multi or term.family is Family.ARRAY for term in terms):
        raise UnsupportedQuery("an array cannot hold lists; MV_TO_ARRAY is the array of a multi-value string's members")


def is_none(term: Term) -> str:
    """True for NULL, alone or in a list, and for a list without members."""
    return f"(coalesce(len({term.sql}), 0) = 0 OR (len({term.sql}) = 1 AND list_count({term.sql}) = 0))"


def any_member(name: str, term: Term, condition: Callable[[Term], str]) -> str:
    """True when some member fulfils a condition; NULL when none does and all are NULL. ``name`` is a fresh one."""
    inner = condition(Term(name, term.type.member))
    fitting = f"list_filter({term.sql}, lambda {name}: coalesce({inner}, FALSE))"
    return f"(CASE WHEN len({fitting}) > 0 THEN TRUE WHEN list_count({term.sql}) > 0 THEN FALSE END)"


def mapped(lists: Sequence[tuple[str, str]], inner: Term) -> Term:
    """The list with what becomes of every member of a list, or of every combination of members of several.

    ``lists`` are the lists with the names by which ``inner`` calls their members. What has no members counts as one
    null, as in Druid.

    What becomes nested data is one JSON list.

    Raises:
        UnsupportedQuery: the change gives several values for one.
    """
    if inner.type == JSON:
        return Term(f"CAST(to_json({_of_each(lists, f'CAST({inner.sql} AS JSON)')}) AS VARCHAR)", JSON)
    if inner.type.multi or inner.family in (Family.ARRAY, Family.COMPLEX, Family.INTERVAL):
        raise UnsupportedQuery(
            "this function is not supported on a multi-value string; use MV_TO_ARRAY or MV_TO_STRING"
        )
    sql = _of_each(lists, inner.sql)
    type_ = MULTI_VARCHAR if inner.family in (Family.STRING, Family.NULL) else replace(inner.type, multi=True)
    return Term(sql, type_, lists=tuple(lists), member=inner.sql)
