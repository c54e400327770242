"""Rules for functions of text, with Druid's NULLs and its Java regular expressions."""

from __future__ import annotations

from sqlglot import exp

from query.errors import TEXT_MAX, TOO_LONG, InvalidQuery, ResourceLimitExceeded
from query.sql import term as t
from query.sql.casts import as_long, as_string, cast_to
from query.sql.frame import MANY, Frame, node, per_member, scalar
from query.sql.java_regex import pattern_of, replacement_of
from query.sql.term import Term
from query.sql.types import BIGINT, BOOLEAN, INTEGER, VARCHAR

_LONGEST = 2**31 - 1


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


_renamed("LOWER", "lower")
for _name in ("LENGTH", "CHAR_LENGTH", "CHARACTER_LENGTH", "STRLEN"):
    _renamed(_name, "length", "INTEGER")


@scalar("REVERSE")
def _reverse(frame: Frame, terms: list[Term]) -> Term:
    # By characters as Java does; the engine's own function keeps those together that are drawn as one.
    characters = f"regexp_extract_all({_texts(frame, terms)[0]}, '(?s).')"
    return Term(f"array_to_string(list_reverse({characters}), '')", VARCHAR)


@scalar("UPPER")
def _upper(frame: Frame, terms: list[Term]) -> Term:
    # One letter that becomes two; the engine knows a capital of its own for it.
    return t.call("upper", VARCHAR, f"replace({_texts(frame, terms)[0]}, 'ß', 'SS')")


@scalar("REPLACE", least=3)
def _replace(frame: Frame, terms: list[Term]) -> Term:
    text, old, new = _texts(frame, terms)
    replaced = f"replace({text}, {old}, {new})"
    if isinstance(terms[1].value, str) and terms[1].value:
        return Term(replaced, VARCHAR)
    # As in Java nothing stands before, between and behind all characters.
    name = frame.session.fresh("x")
    # The engine joins by a constant only.
    followed = f"list_transform(string_split({text}, ''), lambda {name}: {name} || {new})"
    between = f"{new} || array_to_string({followed}, '')"
    between = f"CASE WHEN {text} = '' THEN {new} ELSE {between} END"
    return t.expression(f"CASE WHEN {old} = '' THEN {between} ELSE {replaced} END", VARCHAR)


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
    text = as_string(terms[0], frame.zone).sql
    # As in Druid nothing begins behind the end: NULL, not the empty text.
    return t.expression(
        f"CASE WHEN length({text}) >= {numbers[0]} THEN substring({text}, {', '.join(numbers)}) END", VARCHAR
    )


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
        text, width = as_string(terms[0], frame.zone).sql, _bounded(f"greatest({_long(terms[1])}, 0)", terms[1])
        padded = f"{name.lower()}({text}, CAST({width} AS INTEGER), {fill})"
        if len(terms) > 2 and not (isinstance(terms[2].value, str) and terms[2].value):
            # Nothing to pad with: the engine fails, Druid only cuts.
            padded = f"(CASE WHEN {fill} = '' THEN \"left\"({text}, {width}) ELSE {padded} END)"
        # As in Druid a text of no length is NULL.
        return t.expression(f"CASE WHEN {_long(terms[1])} > 0 THEN {padded} END", VARCHAR)


_pad("LPAD")
_pad("RPAD")


@scalar("REPEAT", least=2)
def _repeat(frame: Frame, terms: list[Term]) -> Term:
    text, count = as_string(terms[0], frame.zone), f"greatest({_long(terms[1])}, 0)"
    times, size = terms[1].value, len(text.value) if isinstance(text.value, str) else 1
    if isinstance(times, int) and times * size > TEXT_MAX:
        raise ResourceLimitExceeded(f"REPEAT: {TOO_LONG}")
    # A count that does not fit is not reached by the product.
    product = f"length({text.sql}) * least({count}, {TEXT_MAX} + 1)"
    count = f"CASE WHEN {product} > {TEXT_MAX} THEN error({t.text_sql(TOO_LONG)}) ELSE {count} END"
    # As in Druid nothing repeated is NULL.
    return t.expression(f"CASE WHEN {_long(terms[1])} > 0 THEN repeat({text.sql}, {count}) END", VARCHAR)


def _bounded(length: str, given: Term) -> str:
    if isinstance(given.value, int) and given.value > TEXT_MAX:
        raise ResourceLimitExceeded(TOO_LONG)
    return (
        length
        if given.is_constant
        else f"CASE WHEN {length} > {TEXT_MAX} THEN error({t.text_sql(TOO_LONG)}) ELSE {length} END"
    )


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
    if not isinstance(radix, int) or not 2 <= radix <= 36:
        raise InvalidQuery("the radix of PARSE_LONG is a constant from 2 to 36")
    return t.call(frame.session.kernel("text_long"), BIGINT, text.sql, str(radix))


@scalar("DECODE_BASE64_UTF8")
def _decode_base64(frame: Frame, terms: list[Term]) -> Term:
    return t.call(frame.session.kernel("text_of_base64"), VARCHAR, *_texts(frame, terms))


@scalar("REGEXP_EXTRACT", least=2, most=3)
def _regexp_extract(frame: Frame, terms: list[Term]) -> Term:
    text, pattern = as_string(terms[0], frame.zone).sql, pattern_of(terms[1])
    group = terms[2].value if len(terms) > 2 else 0
    if not isinstance(group, int) or not 0 <= group <= 9:
        raise InvalidQuery("the group of REGEXP_EXTRACT must be a constant from 0 to 9")
    if pattern.needs_kernel:
        return t.call(frame.session.kernel("text_extracted"), VARCHAR, text, pattern.sql, str(group))
    if group and pattern.may_skip_groups and pattern.kernel_sql:
        # A group that took no part is NULL; the engine does not tell it from one that matched nothing.
        return t.call(frame.session.kernel("text_extracted"), VARCHAR, text, pattern.kernel_sql, str(group))
    found = f"regexp_extract({text}, {pattern.sql}, {group})"
    return t.expression(f"CASE WHEN regexp_matches({text}, {pattern.sql}) THEN {found} END", VARCHAR)


@scalar("REGEXP_LIKE", least=2)
def _regexp_like(frame: Frame, terms: list[Term]) -> Term:
    text, pattern = as_string(terms[0], frame.zone).sql, pattern_of(terms[1])
    name = frame.session.kernel("text_matches") if pattern.needs_kernel else "regexp_matches"
    return t.call(name, BOOLEAN, text, pattern.sql)


@scalar("REGEXP_REPLACE", least=3)
def _regexp_replace(frame: Frame, terms: list[Term]) -> Term:
    text, pattern = as_string(terms[0], frame.zone).sql, pattern_of(terms[1])
    replacement, by_kernel = replacement_of(terms[2], pattern)
    if by_kernel:
        spelled = pattern.kernel_sql or pattern.sql
        return t.call(frame.session.kernel("text_replaced"), VARCHAR, text, spelled, replacement)
    return t.call("regexp_replace", VARCHAR, text, pattern.sql, replacement, "'g'")
