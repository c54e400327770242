"""Rules for arrays and multi-value strings: the same functions, with ARRAY_ or MV_ in front."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from query.errors import InvalidQuery, UnsupportedQuery
from query.sql import term as t
from query.sql.casts import as_long, as_string, cast_to
from query.sql.frame import REFUSED, Arguments, Frame, function, node, per_member
from query.sql.functions_time import constant_text
from query.sql.java_regex import pattern_of
from query.sql.scope import where
from query.sql.term import Term
from query.sql.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INTEGER,
    MULTI_VARCHAR,
    VARCHAR,
    Family,
    SqlType,
    array_of,
    element_of,
)

_STRINGS = array_of(VARCHAR)


_OF_ANYTHING = ("ARRAY_LENGTH", "ARRAY_OFFSET", "ARRAY_ORDINAL", "ARRAY_SLICE", "ARRAY_CONCAT")
"""What keeps members that are JSON; all others see texts."""


@dataclass(frozen=True, slots=True)
class ListCall:
    """One call: its terms, and whether it is about multi-value strings."""

    frame: Frame
    name: str
    multi: bool
    terms: list[Term]
    filters: bool = False
    """Whether the call is, or is denied, as a condition on rows."""

    def found(self, sql: str) -> Term:
        """Whether members are there: of a missing string nothing is known as a condition, as a value it has none."""
        return Term(sql if self.filters or not self.multi else f"coalesce({sql}, FALSE)", BOOLEAN)

    def list(self, at: int) -> Term:
        """An argument as a list; a single text counts as a list of one."""
        given = self.terms[at]
        if given.family is Family.ARRAY:
            as_texts = self.multi or (given.type.element == "json" and self.name not in _OF_ANYTHING)
            return cast_to(given, _STRINGS) if as_texts else given
        if not self.multi and not given.is_null:
            raise InvalidQuery(f"argument {at + 1} of {self.name} must be an array, not {given.type.name}")
        listed = cast_to(given, MULTI_VARCHAR).sql
        # As an array a string without members is NULL, as in Druid.
        return Term(f"nullif({listed}, [])" if given.type.multi else listed, _STRINGS)

    def members(self, at: int) -> Term:
        """An argument as a list in which members are looked for: a string without any has one, of NULL."""
        if self.terms[at].family is Family.ARRAY or not self.multi:
            return self.list(at)
        return Term(f"coalesce({self.list(at).sql}, [NULL])", _STRINGS)

    def like(self, array: Term, at: int) -> Term:
        """An argument as a list of what ``array`` holds, or as one member of it."""
        given = self.terms[at]
        if given.family is Family.ARRAY:
            return cast_to(given, array.type)
        if given.type.multi:
            listed = cast_to(given, MULTI_VARCHAR).sql
            return cast_to(Term(f"coalesce(nullif({listed}, []), [NULL])", _STRINGS), array.type)
        return cast_to(given, element_of(array.type), self.frame.zone)

    def member(self, array: Term, at: int) -> str:
        """An argument as one member of ``array``."""
        return cast_to(self.terms[at], element_of(array.type), self.frame.zone).sql

    def number(self, at: int) -> str:
        """An argument as a whole number."""
        return as_long(self.terms[at]).sql

    def result(self, sql: str, array: Term) -> Term:
        """A list that the call gives."""
        return Term(sql, MULTI_VARCHAR if self.multi else array.type)


Rule = Callable[[ListCall], Term]


def _both(name: str, least: int, most: int | None = None) -> Callable[[Rule], Rule]:
    return _named({f"MV_{name}": True, f"ARRAY_{name}": False}, least, most)


def _named(names: dict[str, bool], least: int, most: int | None = None) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        for full_name, multi in names.items():
            _add(full_name, multi, rule, least, most)
        return rule

    return register


def _add(name: str, multi: bool, rule: Rule, least: int, most: int | None) -> None:
    @function(name, least=least, most=most)
    def _run(frame: Frame, arguments: Arguments) -> Term:
        # Lists are taken as they are, also where the members of others are looked at one by one.
        whole = frame.whole or frame
        terms = [whole.term(argument) for argument in arguments]
        return rule(ListCall(whole, name, multi, terms, _filters(arguments[0]) and terms[-1].type != terms[0].type))


_AROUND = (exp.Not, exp.And, exp.Or, exp.Paren)


def _filters(argument: exp.Expr) -> bool:
    around = argument.parent and argument.parent.parent
    while isinstance(around, _AROUND):
        around = around.parent
    return isinstance(around, exp.Where)


def only_members(array: str, name: str, wanted: str, only: bool) -> Term:
    """The members that are in a list, or those that are not; NULL is in one that has it. ``name`` is a fresh one."""
    held = (
        f"(CASE WHEN {name} IS NULL THEN len({wanted}) > list_count({wanted}) ELSE list_contains({wanted}, {name}) END)"
    )
    kept = f"list_filter({array}, lambda {name}: {'' if only else 'NOT '}coalesce({held}, FALSE))"
    return Term(f"CAST({kept} AS VARCHAR[])", MULTI_VARCHAR)


def _without_nulls(given: Term) -> tuple[str, ...]:
    """The text of an array of constants that has no NULL; nothing where that is not known."""
    known = given.family is Family.ARRAY and given.sql.startswith("CAST([") and "NULL" not in given.sql.upper()
    return (given.sql,) if known and "(" not in given.sql[5:] else ()


@_both("LENGTH", 1)
def _length(call: ListCall) -> Term:
    return t.call("len", INTEGER, call.list(0).sql)


@function("ARRAY_QUANTILE", least=2)
def _quantile(frame: Frame, arguments: Arguments) -> Term:
    """Between two members where it must be; NULLs do not count, and of texts there is none."""
    array, share = (frame.term(argument) for argument in arguments)
    if array.family is not Family.ARRAY:
        raise InvalidQuery(f"argument 1 of ARRAY_QUANTILE must be an array, not {array.type.name}")
    if not isinstance(share.value, int | float) or isinstance(share.value, bool) or not 0 <= share.value <= 1:
        raise InvalidQuery("argument 2 of ARRAY_QUANTILE must be a constant from 0 to 1")
    if element_of(array.type) not in (BIGINT, DOUBLE, FLOAT, INTEGER):
        return t.null(DOUBLE)
    numbers = f"CAST({array.sql} AS DOUBLE[])"
    return t.call("list_aggregate", DOUBLE, numbers, "'quantile_cont'", repr(float(share.value)))


@node(exp.Bracket, parts="this expressions")
def _item(frame: Frame, tree: exp.Expr) -> Term:
    raise UnsupportedQuery(f"array[index] is not supported: {REFUSED['ITEM']}", where(tree))


@_both("OFFSET", 2)
def _offset(call: ListCall) -> Term:
    array = call.list(0)
    index = call.number(1)
    return t.expression(f"CASE WHEN {index} >= 0 THEN {array.sql}[{index} + 1] END", element_of(array.type))


@_both("ORDINAL", 2)
def _ordinal(call: ListCall) -> Term:
    array = call.list(0)
    index = call.number(1)
    return t.expression(f"CASE WHEN {index} > 0 THEN {array.sql}[{index}] END", element_of(array.type))


@_both("OFFSET_OF", 2)
def _offset_of(call: ListCall) -> Term:
    array = call.list(0)
    return t.expression(f"nullif(list_position({array.sql}, {call.member(array, 1)}), 0) - 1", INTEGER)


@_both("ORDINAL_OF", 2)
def _ordinal_of(call: ListCall) -> Term:
    array = call.list(0)
    return t.expression(f"nullif(list_position({array.sql}, {call.member(array, 1)}), 0)", INTEGER)


@_both("CONTAINS", 2)
def _contains(call: ListCall) -> Term:
    if call.terms[1].is_null:
        array = call.members(0)
        return t.expression(f"len({array.sql}) > list_count({array.sql})", BOOLEAN)
    array = call.list(0)
    wanted = call.like(array, 1)
    if wanted.family is not Family.ARRAY:
        return call.found(f"list_contains({array.sql}, {wanted.sql})")
    found = f"list_has_all({array.sql}, {wanted.sql})"
    if wanted.sql in _without_nulls(call.terms[1]):
        return call.found(found)
    # The engine looks for no NULL.
    array = call.members(0)
    found = f"list_has_all({array.sql}, {wanted.sql})"
    nulls = f"(len({wanted.sql}) = list_count({wanted.sql}) OR len({array.sql}) > list_count({array.sql}))"
    return t.expression(f"{found} AND {nulls}", BOOLEAN)


@_both("OVERLAP", 2)
def _overlap(call: ListCall) -> Term:
    array = call.list(0)
    wanted = call.like(array, 1)
    if wanted.family is not Family.ARRAY:
        return call.found(f"list_contains({array.sql}, {wanted.sql})")
    if wanted.sql in _without_nulls(call.terms[1]):
        return call.found(f"list_has_any({array.sql}, {wanted.sql})")
    if call.terms[1].type.multi:
        # Unlike the first list the second one has no NULL where it is missing.
        wanted = Term(f"nullif({cast_to(call.terms[1], MULTI_VARCHAR).sql}, [])", _STRINGS)
    looked = call.members(0).sql
    nulls = f"len({wanted.sql}) > list_count({wanted.sql}) AND len({looked}) > list_count({looked})"
    found = f"coalesce(list_has_any({looked}, {wanted.sql}), FALSE) OR coalesce({nulls}, FALSE)"
    known = "" if call.multi else f"{array.sql} IS NOT NULL AND "
    return t.expression(f"CASE WHEN {known}TRUE THEN {found} END", BOOLEAN)


@_both("APPEND", 2)
def _append(call: ListCall) -> Term:
    array = call.list(0)
    member = cast_to(call.terms[1], element_of(array.type), call.frame.zone)
    # DuckDB appends to NULL as to an empty list; in Druid NULL stays NULL.
    longer = f"list_append({array.sql}, {member.sql})"
    return call.result(f"(CASE WHEN {array.sql} IS NOT NULL THEN {longer} END)", array)


@_both("PREPEND", 2)
def _prepend(call: ListCall) -> Term:
    array = call.list(1)
    member = cast_to(call.terms[0], element_of(array.type), call.frame.zone)
    longer = f"list_prepend({member.sql}, {array.sql})"
    return call.result(f"(CASE WHEN {array.sql} IS NOT NULL THEN {longer} END)", array)


@_both("CONCAT", 2)
def _concat(call: ListCall) -> Term:
    array = call.list(0)
    other = Term(call.list(1).sql, array.type) if call.multi else cast_to(call.list(1), array.type)
    joined = f"list_concat({array.sql}, {other.sql})"
    return call.result(f"(CASE WHEN {array.sql} IS NOT NULL AND {other.sql} IS NOT NULL THEN {joined} END)", array)


_MOST_PADDED = 10_000
"""Nulls that ARRAY_SLICE appends at most; Druid as many as one asks for."""


@_both("SLICE", 2, 3)
def _slice(call: ListCall) -> Term:
    array = call.list(0)
    start, end = call.number(1), call.number(2) if len(call.terms) > 2 else f"len({array.sql})"
    if len(call.terms) < 3:
        inside = f"{start} BETWEEN 0 AND {end}"
        return call.result(f"(CASE WHEN {inside} THEN list_slice({array.sql}, {start} + 1, {end}) END)", array)
    # Beyond the end there are nulls, as Java copies a range.
    inside = f"{start} BETWEEN 0 AND len({array.sql}) AND {start} <= {end}"
    width = f"CAST(least({end}, len({array.sql}) + {_MOST_PADDED}) - {start} AS BIGINT)"
    cut = f"list_resize(list_slice({array.sql}, {start} + 1, {end}), {width})"
    return call.result(f"(CASE WHEN {inside} THEN {cut} END)", array)


@_both("TO_STRING", 2)
def _to_string(call: ListCall) -> Term:
    array, separator = call.list(0), t.text_sql(constant_text(call.terms[1], f"the separator of {call.name}"))
    texts = array.sql if array.type == _STRINGS else f"CAST({array.sql} AS VARCHAR[])"
    name = call.frame.session.fresh("x")
    if call.terms[0].lists:
        # What a function made of a missing string is one NULL.
        texts = f"(CASE WHEN list_count({texts}) > 0 OR len({texts}) > 1 THEN {texts} END)"
    spelled = f"list_transform({texts}, lambda {name}: coalesce({name}, 'null'))"
    return t.call("array_to_string", VARCHAR, spelled, separator)


@_named({"MV_FILTER_ONLY": True, "MV_FILTER_NONE": True}, 2)
def _filter(call: ListCall) -> Term:
    array, name = call.list(0), call.frame.session.fresh("x")
    wanted = Term(call.list(1).sql, _STRINGS) if array.type == _STRINGS else cast_to(call.list(1), array.type)
    return only_members(array.sql, name, wanted.sql, call.name == "MV_FILTER_ONLY")


@_named({"MV_FILTER_REGEX": True, "MV_FILTER_PREFIX": True}, 2)
def _filter_by_text(call: ListCall) -> Term:
    array, name = call.list(0), call.frame.session.fresh("x")
    if call.name == "MV_FILTER_PREFIX":
        test = f"starts_with({name}, {t.text_sql(constant_text(call.terms[1], 'a prefix'))})"
    else:
        # The whole member must fit, as with Java's matches.
        pattern = pattern_of(call.terms[1])
        if pattern.needs_kernel:
            raise UnsupportedQuery("MV_FILTER_REGEX with look-around, back references or possessive groups")
        test = f"regexp_full_match({name}, {pattern.sql})"
    kept = f"list_filter({array.sql}, lambda {name}: coalesce({test}, FALSE))"
    return Term(f"CAST({kept} AS VARCHAR[])", MULTI_VARCHAR)


@_named({"MV_TO_ARRAY": True}, 1)
def _to_array(call: ListCall) -> Term:
    return call.list(0)


@_named({"ARRAY_TO_MV": False}, 1)
def _to_mv(call: ListCall) -> Term:
    return Term(f"CAST({call.list(0).sql} AS VARCHAR[])", MULTI_VARCHAR)


def _splitter(name: str, type_: SqlType) -> None:
    @function(name, least=2)
    def _run(frame: Frame, arguments: Arguments) -> Term:
        text, separator = (as_string(frame.term(argument), frame.zone).sql for argument in arguments)
        parts, name = f"string_split_regex({text}, {separator})", frame.session.fresh("x")
        # As in Java, without the empty texts at the end; an empty text is itself.
        filled = f"list_position(list_reverse(list_transform({parts}, lambda {name}: {name} <> '')), TRUE)"
        kept = f"({parts})[1:coalesce(len({parts}) - {filled} + 1, 0)]"
        return t.expression(f"CASE WHEN {text} = '' THEN [''] ELSE {kept} END", type_)


_splitter("STRING_TO_ARRAY", _STRINGS)
_splitter("STRING_TO_MV", MULTI_VARCHAR)


@function("SCALAR_IN_ARRAY", least=2)
def _scalar_in_array(frame: Frame, arguments: Arguments) -> Term:
    return per_member(frame, [frame.term(argument) for argument in arguments], _is_in_array)


def _is_in_array(frame: Frame, terms: list[Term]) -> Term:
    array = ListCall(frame, "SCALAR_IN_ARRAY", False, terms).list(1)
    member = cast_to(terms[0], element_of(array.type), frame.zone)
    found = f"list_contains({array.sql}, {member.sql})"
    if member.is_constant and not member.is_null:
        return Term(found, BOOLEAN)
    null = f"CASE WHEN len({array.sql}) > list_count({array.sql}) THEN TRUE END"
    return t.expression(f"CASE WHEN {member.sql} IS NULL THEN {null} ELSE {found} END", BOOLEAN)
