"""Rules for functions of text, with Druid's NULLs and its Java regular expressions."""

from __future__ import annotations

import re

from sqlglot import exp

from query.errors import InvalidQuery, UnsupportedQuery
from query.sql import term as t
from query.sql.casts import as_long, as_string, cast_to
from query.sql.frame import MANY, Frame, node, per_member, scalar
from query.sql.functions_time import constant_text
from query.sql.term import Term
from query.sql.types import BIGINT, BOOLEAN, INTEGER, VARCHAR

# What RE2 lacks of Java's expressions: look-around, possessive and atomic groups, back references.
_JAVA_ONLY = re.compile(r"\(\?(?:[=!>]|<[=!])|[*+?}]\+|\\[1-9]|\\k<")
# What Java and RE2 read alike but Python does not; only used to find broken patterns early.
_NOT_PYTHON = re.compile(r"\\[pP](\{[^}]*\}|.)|\(\?[a-z-]+\)|\\[QEz]|\[\[:\^?\w+:\]")
_LONGEST = 2**31 - 1
_GROUP = re.compile(r"\$(\d)|\$\{[^}]*\}|\\(.)|(\\)$")


def _texts(frame: Frame, terms: list[Term]) -> list[str]:
    return [as_string(one, frame.zone).sql for one in terms]


def _long(one: Term) -> str:
    return as_long(one).sql


def _length(one: Term, least: int = 0) -> str:
    """A number of characters; longer than any text is as good as endless."""
    return f"least(greatest({_long(one)}, {least}), {_LONGEST})"


def _renamed(name: str, duckdb_name: str, result: str = "VARCHAR", least: int = 1, most: int | None = None) -> None:
    types = {"VARCHAR": VARCHAR, "INTEGER": INTEGER}

    @scalar(name, least=least, most=most)
    def _rule(frame: Frame, terms: list[Term]) -> Term:
        return t.call(duckdb_name, types[result], *_texts(frame, terms))


for _name in ("LOWER", "UPPER", "REVERSE"):
    _renamed(_name, _name.lower())
for _name in ("LENGTH", "CHAR_LENGTH", "CHARACTER_LENGTH", "STRLEN"):
    _renamed(_name, "length", "INTEGER")
_renamed("REPLACE", "replace", least=3)
_renamed("STRPOS", "strpos", "INTEGER", least=2)


@scalar("CONCAT", "TEXTCAT", least=1, most=MANY)
def _concat(frame: Frame, terms: list[Term]) -> Term:
    # The operator, not the function: NULL makes the whole NULL.
    return t.expression(" || ".join(_texts(frame, terms)), VARCHAR)


@scalar("SUBSTR", least=2, most=3)
def _substr(frame: Frame, terms: list[Term]) -> Term:
    return _substring_of(frame, terms)


def _substring_of(frame: Frame, terms: list[Term]) -> Term:
    numbers = [_length(one, -_LONGEST) for one in terms[1:]]
    return t.call("substring", VARCHAR, as_string(terms[0], frame.zone).sql, *numbers)


@node(exp.Substring, parts="this start length")
def _substring(frame: Frame, tree: exp.Expr) -> Term:
    parts = [tree.this, tree.args.get("start"), tree.args.get("length")]
    if parts[1] is None:
        raise InvalidQuery("SUBSTRING takes 2 to 3 arguments")
    return per_member(frame, [frame.term(part) for part in parts if part is not None], _substring_of)


@scalar("LEFT", least=2)
def _left(frame: Frame, terms: list[Term]) -> Term:
    return t.call('"left"', VARCHAR, *_texts(frame, terms[:1]), _length(terms[1]))


@scalar("RIGHT", least=2)
def _right(frame: Frame, terms: list[Term]) -> Term:
    return t.call('"right"', VARCHAR, *_texts(frame, terms[:1]), _length(terms[1]))


_TRIMS = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}


@node(exp.Trim, parts="this expression position")
def _trim(frame: Frame, tree: exp.Expr) -> Term:
    parts = [tree.this, tree.args.get("expression")]
    terms = [frame.term(part) for part in parts if part is not None]
    name = _TRIMS[(tree.args.get("position") or "BOTH").upper()]
    return per_member(frame, terms, lambda inner, inside: _trimmed(inner, inside, name))


def _trimmed(frame: Frame, terms: list[Term], name: str) -> Term:
    return t.call(name, VARCHAR, *_texts(frame, terms))


def _trim_function(name: str, duckdb_name: str) -> None:
    @scalar(name, least=1, most=2)
    def _rule(frame: Frame, terms: list[Term]) -> Term:
        return _trimmed(frame, terms, duckdb_name)


for _name, _duckdb in {"BTRIM": "trim", "LTRIM": "ltrim", "RTRIM": "rtrim"}.items():
    _trim_function(_name, _duckdb)


def _pad(name: str) -> None:
    @scalar(name, least=2, most=3)
    def _rule(frame: Frame, terms: list[Term]) -> Term:
        fill = as_string(terms[2], frame.zone).sql if len(terms) > 2 else "' '"
        text, width = as_string(terms[0], frame.zone).sql, f"CAST(greatest({_long(terms[1])}, 0) AS INTEGER)"
        return t.call(name.lower(), VARCHAR, text, width, fill)


_pad("LPAD")
_pad("RPAD")


@scalar("REPEAT", least=2)
def _repeat(frame: Frame, terms: list[Term]) -> Term:
    return t.call("repeat", VARCHAR, as_string(terms[0], frame.zone).sql, f"greatest({_long(terms[1])}, 0)")


@scalar("POSITION", least=2, most=3)
def _position(frame: Frame, terms: list[Term]) -> Term:
    needle, text = _texts(frame, terms[:2])
    if len(terms) == 2:
        return t.call("strpos", INTEGER, text, needle)
    start = _long(terms[2])
    found = f"strpos(substring({text}, {start}), {needle})"
    return t.expression(f"CASE WHEN {found} > 0 THEN {found} + {start} - 1 ELSE {found} END", INTEGER)


@scalar("CONTAINS_STRING", least=2)
def _contains(frame: Frame, terms: list[Term]) -> Term:
    return t.call("contains", BOOLEAN, *_texts(frame, terms))


@scalar("ICONTAINS_STRING", least=2)
def _icontains(frame: Frame, terms: list[Term]) -> Term:
    return t.call("contains", BOOLEAN, *(f"lower({one})" for one in _texts(frame, terms)))


@scalar("PARSE_LONG", least=1, most=2)
def _parse_long(frame: Frame, terms: list[Term]) -> Term:
    radix = 10 if len(terms) == 1 else terms[1].value
    text = as_string(terms[0], frame.zone)
    if radix == 10:
        return cast_to(Term(f"regexp_extract({text.sql}, '^[+-]?[0-9]+$')", VARCHAR), BIGINT)
    if radix != 16:
        raise UnsupportedQuery("PARSE_LONG reads numbers of radix 10 and 16")
    valid = f"regexp_full_match({text.sql}, '[0-9a-fA-F]{{1,15}}')"
    return t.expression(f"CASE WHEN {valid} THEN TRY_CAST('0x' || {text.sql} AS BIGINT) END", BIGINT)


@scalar("DECODE_BASE64_UTF8")
def _decode_base64(frame: Frame, terms: list[Term]) -> Term:
    return Term(f"TRY(decode(from_base64({_texts(frame, terms)[0]})))", VARCHAR)


def _pattern(term: Term) -> str:
    """A constant Java pattern that RE2 reads alike.

    Raises:
        UnsupportedQuery: it needs what RE2 lacks.
    """
    pattern = constant_text(term, "a regular expression")
    if _JAVA_ONLY.search(pattern):
        raise UnsupportedQuery(f"regular expression {pattern!r} uses look-around, back references or possessive groups")
    try:
        re.compile(_NOT_PYTHON.sub("a", pattern))
    except re.error as error:
        raise InvalidQuery(f"regular expression {pattern!r}: {error}") from error
    return t.text_sql(pattern)


@scalar("REGEXP_EXTRACT", least=2, most=3)
def _regexp_extract(frame: Frame, terms: list[Term]) -> Term:
    text, pattern = as_string(terms[0], frame.zone).sql, _pattern(terms[1])
    group = terms[2].value if len(terms) > 2 else 0
    if not isinstance(group, int) or not 0 <= group <= 9:
        raise InvalidQuery("the group of REGEXP_EXTRACT must be a constant from 0 to 9")
    return t.expression(
        f"CASE WHEN regexp_matches({text}, {pattern}) THEN regexp_extract({text}, {pattern}, {group}) END", VARCHAR
    )


@scalar("REGEXP_LIKE", least=2)
def _regexp_like(frame: Frame, terms: list[Term]) -> Term:
    return t.call("regexp_matches", BOOLEAN, as_string(terms[0], frame.zone).sql, _pattern(terms[1]))


@scalar("REGEXP_REPLACE", least=3)
def _regexp_replace(frame: Frame, terms: list[Term]) -> Term:
    replacement = constant_text(terms[2], "the replacement of REGEXP_REPLACE")
    return t.call(
        "regexp_replace",
        VARCHAR,
        as_string(terms[0], frame.zone).sql,
        _pattern(terms[1]),
        t.text_sql(_GROUP.sub(_re2_reference, replacement)),
        "'g'",
    )


def _re2_reference(match: re.Match[str]) -> str:
    if match[1]:
        return f"\\{match[1]}"
    if match[2]:
        return "\\\\" if match[2] == "\\" else match[2]
    raise UnsupportedQuery("named groups in a replacement are not supported")
