"""Rules for nested data: JSON columns, read by paths such as ``$.a['b'][0]``. A text is a value, as in Druid, and is
read as JSON by those functions alone that say so."""

from __future__ import annotations

import re

from sqlglot import exp

from query.errors import InvalidQuery
from query.sql import term as t
from query.sql.casts import as_string, cast_to
from query.sql.frame import MANY, Arguments, Frame, function, per_member, scalar
from query.sql.functions_time import constant_text
from query.sql.operators import named_type
from query.sql.term import Term
from query.sql.types import BIGINT, BOOLEAN, DOUBLE, JSON, VARCHAR, Family, SqlType, array_of

_JSON_LIST = SqlType("ARRAY", "json")
_DIGITS_MAX = 9
_STEP = re.compile(r"\.([A-Za-z_][\w-]*)|\[(\d+)\]|\['((?:[^'\\]|\\.)*)'\]|\[\"((?:[^\"\\]|\\.)*)\"\]")


def pointer(path: str) -> str:
    """A path as an RFC 6901 pointer, which the engine reads whatever the keys contain.

    Raises:
        InvalidQuery: it is not a path of keys and positions.
    """
    if not path.startswith("$"):
        raise InvalidQuery(f"JSON path {path!r} must begin with $")
    steps, at = [], 1
    while at < len(path):
        match = _STEP.match(path, at)
        if match is None:
            raise InvalidQuery(f"JSON path {path!r} is not one of keys and positions, such as $.a['b'][0]")
        key = next(group for group in match.groups() if group is not None)
        steps.append(re.sub(r"\\(.)", r"\1", key).replace("~", "~0").replace("/", "~1"))
        at = match.end()
    return "".join(f"/{step}" for step in steps)


def _json(operand: Term) -> str:
    """The operand as JSON text: nested data as it is, a text, number or array as the value that it is."""
    if operand.family is Family.COMPLEX:
        if operand.type.element != "json":
            raise InvalidQuery(f"a value of {operand.type.druid} is not JSON")
        return operand.sql
    if operand.is_null:
        return "CAST(NULL AS VARCHAR)"
    if operand.family not in (Family.STRING, Family.LONG, Family.DOUBLE, Family.ARRAY, Family.BOOLEAN):
        raise InvalidQuery(f"a value of {operand.type.name} is not JSON")
    return f"(CASE WHEN {operand.sql} IS NOT NULL THEN CAST({_to_json(operand)} AS VARCHAR) END)"


def _to_json(operand: Term) -> str:
    listed = operand.family is Family.ARRAY and operand.type.element == "json"
    return f"to_json(CAST({operand.sql} AS JSON[]))" if listed else f"to_json({operand.sql})"


def _parsed(operand: Term) -> str:
    """The operand as JSON text, a text read as such; one that is no JSON counts as NULL."""
    if operand.family is not Family.STRING or operand.type.multi or operand.is_null:
        return _json(operand)
    return f"(CASE WHEN json_valid({operand.sql}) THEN {operand.sql} END)"


def _at(frame: Frame, arguments: Arguments) -> tuple[str, str]:
    path = constant_text(frame.term(arguments[1]), "a JSON path") if len(arguments) > 1 else "$"
    document = _json(frame.term(arguments[0]))
    before, step, after = path.partition("[-")
    while step:
        # Counted from the end, which a pointer cannot say: down to the list, and on from its member.
        position, closed, path = after.partition("]")
        if not closed or not position.isdigit() or len(position) > _DIGITS_MAX:
            raise InvalidQuery(f"JSON path {before}[-{after!r} has no position behind [-")
        document = f"json_extract(json_extract({document}, {t.text_sql(pointer(before))}), '$[-{position}]')"
        path = f"${path}"
        before, step, after = path.partition("[-")
    return document, t.text_sql(pointer(path))


@function("JSON_VALUE", least=2, most=3)
def _json_value(frame: Frame, arguments: Arguments) -> Term:
    return _value_at(frame, arguments, named_type(arguments[2]) if len(arguments) > 2 else VARCHAR)


def _json_value_of(name: str, type_: SqlType) -> None:
    @function(f"JSON_VALUE_{name}", least=2)
    def _rule(frame: Frame, arguments: Arguments) -> Term:
        return _value_at(frame, arguments, type_)


for _name, _type in {"ANY": VARCHAR, "VARCHAR": VARCHAR, "BIGINT": BIGINT, "DOUBLE": DOUBLE}.items():
    _json_value_of(_name, _type)
    if _name != "ANY":
        _json_value_of(f"ARRAY_{_name}", array_of(_type))


def _value_at(frame: Frame, arguments: Arguments, type_: SqlType) -> Term:
    """The value at a path as a type; NULL where it is another, an object or missing."""
    document, path = _at(frame, arguments)
    if type_.family is Family.ARRAY:
        return Term(f"TRY_CAST(json_extract({document}, {path}) AS {type_.duckdb})", type_)
    text = f"json_extract_string({document}, {path})"
    kind = f"json_type({document}, {path})"
    scalar_text = Term(
        f"(CASE WHEN {kind} = 'BOOLEAN' THEN CASE WHEN {text} = 'true' THEN '1' ELSE '0' END "
        f"WHEN {kind} NOT IN ('OBJECT', 'ARRAY', 'NULL') THEN {text} END)",
        VARCHAR,
    )
    if type_.family is Family.BOOLEAN:
        return t.expression(f"CASE WHEN {scalar_text.sql} IS NOT NULL THEN {_is_true(kind, scalar_text)} END", type_)
    if type_.family is Family.LONG:
        # A number with a fraction is cut, a text must be whole.
        cut = f"TRY_CAST(trunc(TRY_CAST({text} AS DOUBLE)) AS BIGINT)"
        return t.expression(
            f"CASE WHEN {kind} = 'DOUBLE' THEN {cut} ELSE {cast_to(scalar_text, BIGINT).sql} END", type_
        )
    return cast_to(scalar_text, type_, frame.zone)


def _is_true(kind: str, scalar_text: Term) -> str:
    """Whether a value is true: a number above 0, a text that says so; any other text is false."""
    cut = f"TRY_CAST({scalar_text.sql} AS DOUBLE)"
    number = f"{kind} <> 'VARCHAR' AND trunc({cut}) > 0"
    return f"(coalesce({number}, FALSE) OR {kind} = 'VARCHAR' AND coalesce({cast_to(scalar_text, BOOLEAN).sql}, FALSE))"


@function("JSON_QUERY", least=2)
def _json_query(frame: Frame, arguments: Arguments) -> Term:
    document, path = _at(frame, arguments)
    return Term(f"nullif(CAST(json_extract({document}, {path}) AS VARCHAR), 'null')", JSON)


@function("JSON_QUERY_ARRAY", least=2)
def _json_query_array(frame: Frame, arguments: Arguments) -> Term:
    document, path = _at(frame, arguments)
    found = f"json_extract({document}, {path})"
    # One value is a list of one, as in Druid; an object is none.
    alone = f"CASE WHEN json_type({document}, {path}) NOT IN ('NULL', 'OBJECT') THEN [CAST({found} AS VARCHAR)] END"
    listed = f"CAST(TRY_CAST({found} AS JSON[]) AS VARCHAR[])"
    return t.expression(f"CASE WHEN json_type({document}, {path}) = 'ARRAY' THEN {listed} ELSE {alone} END", _JSON_LIST)


@function("JSON_KEYS", least=1, most=2)
def _json_keys(frame: Frame, arguments: Arguments) -> Term:
    document, path = _at(frame, arguments)
    kind, keys = f"json_type({document}, {path})", f"json_keys({document}, {path})"
    # Of a list they are the positions.
    positions = f"CAST(range(CAST(json_array_length({document}, {path}) AS BIGINT)) AS VARCHAR[])"
    return t.expression(f"CASE {kind} WHEN 'OBJECT' THEN {keys} WHEN 'ARRAY' THEN {positions} END", array_of(VARCHAR))


@scalar("PARSE_JSON")
def _parse_json(frame: Frame, terms: list[Term]) -> Term:
    # The inner cast makes a broken text an error of conversion, told as the statement's own.
    return Term(f"CAST(json(CAST({as_string(terms[0], frame.zone).sql} AS JSON)) AS VARCHAR)", JSON)


@scalar("TRY_PARSE_JSON")
def _try_parse_json(frame: Frame, terms: list[Term]) -> Term:
    text = as_string(terms[0], frame.zone).sql
    return t.expression(f"CASE WHEN json_valid({text}) THEN CAST(json({text}) AS VARCHAR) END", JSON)


def _as_value(operand: Term) -> str:
    """The operand as a JSON value: nested data as it is, anything else by its type."""
    if operand.family is Family.COMPLEX:
        return f"CAST({_json(operand)} AS JSON)"
    if operand.is_null:
        return "CAST('null' AS JSON)"
    return _to_json(operand)


@scalar("TO_JSON_STRING")
def _to_json_string(frame: Frame, terms: list[Term]) -> Term:
    operand = terms[0]
    return Term(
        _json(operand) if operand.family is Family.COMPLEX else f"CAST({_as_value(operand)} AS VARCHAR)", VARCHAR
    )


@function("JSON_OBJECT", least=0, most=MANY)
def _json_object(frame: Frame, arguments: Arguments) -> Term:
    terms: list[Term] = []
    for pair in arguments:
        if not isinstance(pair, exp.PropertyEQ):
            raise InvalidQuery("JSON_OBJECT takes pairs: KEY 'a' VALUE 1, or 'a': 1")
        terms += [frame.term(pair.this), frame.term(pair.expression)]
    return per_member(frame, terms, json_object)


def json_object(frame: Frame, terms: list[Term]) -> Term:
    """The object of keys and values in turn."""
    parts = [_as_value(term) if at % 2 else as_string(term).sql for at, term in enumerate(terms)]
    return Term(f"CAST(json_object({', '.join(parts)}) AS VARCHAR)", JSON)


@function("JSON_MERGE", least=2, most=MANY)
def _json_merge(frame: Frame, arguments: Arguments) -> Term:
    merged, *others = (_parsed(frame.term(argument)) for argument in arguments)
    for other in others:
        merged = f"CAST(json_merge_patch({merged}, {other}) AS VARCHAR)"
    return Term(merged, JSON)


@function("JSON_PATHS")
def _json_paths(frame: Frame, arguments: Arguments) -> Term:
    """The paths of all values that hold no others; a list of plain values is one."""
    return t.call(frame.session.kernel("text_json_paths"), array_of(VARCHAR), _json(frame.term(arguments[0])))
