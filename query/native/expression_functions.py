"""The functions of Druid's expression language, most of them by the rule of the SQL function they share."""

from __future__ import annotations

from query.errors import InvalidQuery, UnsupportedQuery
from query.native.expression_lists import as_list
from query.native.expressions import FUNCTIONS, Compiler, function, named_type
from query.native.rows import call
from query.sql import term as t
from query.sql.bloom import held_sql
from query.sql.casts import as_long, as_number, as_string, cast_to
from query.sql.comparison import compare, like
from query.sql.frame import Frame, per_member
from query.sql.functions_lookup import looked_up
from query.sql.multi_value import is_missing
from query.sql.operators import alike
from query.sql.scope import Scope
from query.sql.term import Term
from query.sql.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    MULTI_VARCHAR,
    TIMESTAMP,
    VARCHAR,
    Family,
    array_of,
    common_type,
    element_of,
)
from segments.expression.tree import Call, Lambda

# Expression functions that are a SQL function under another name, or under their own in upper case.
_AS_SQL = {
    "bitwiseconvertdoubletolongbits": "BITWISE_CONVERT_DOUBLE_TO_LONG_BITS",
    "bitwiseconvertlongbitstodouble": "BITWISE_CONVERT_LONG_BITS_TO_DOUBLE",
    "bitwiseand": "BITWISE_AND",
    "bitwisecomplement": "BITWISE_COMPLEMENT",
    "bitwiseor": "BITWISE_OR",
    "bitwiseshiftleft": "BITWISE_SHIFT_LEFT",
    "bitwiseshiftright": "BITWISE_SHIFT_RIGHT",
    "bitwisexor": "BITWISE_XOR",
    "div": "DIV",
    "format": "STRING_FORMAT",
    "log": "LN",
    "pow": "POWER",
    "signum": "SIGN",
    "timestamp_ceil": "TIME_CEIL",
    "timestamp_extract": "TIME_EXTRACT",
    "timestamp_floor": "TIME_FLOOR",
    "timestamp_parse": "TIME_PARSE",
    "timestamp_shift": "TIME_SHIFT",
    "todegrees": "DEGREES",
    "toradians": "RADIANS",
    "trim": "BTRIM",
}
_SAME_NAME = """
abs acos array_to_mv asin atan atan2 coalesce concat contains_string cos cot decode_base64_utf8 exp greatest
human_readable_binary_byte_format human_readable_decimal_byte_format human_readable_decimal_format icontains_string
ipv4_match ipv4_parse ipv4_stringify ipv6_match
json_keys json_paths json_merge json_query json_query_array least left log10 lower lpad ltrim
mv_filter_none mv_filter_only mv_to_array nullif nvl parse_json parse_long pi regexp_extract regexp_like regexp_replace
repeat replace reverse right round rpad rtrim safe_divide scalar_in_array sin sqrt string_to_array strlen tan
to_json_string try_parse_json upper
"""
_AS_SQL |= {name: name.upper() for name in _SAME_NAME.split()}
# Each has an MV_ twin in SQL for multi-value strings.
_LISTS = frozenset(
    [
        "append",
        "concat",
        "contains",
        "length",
        "offset",
        "offset_of",
        "ordinal",
        "ordinal_of",
        "overlap",
        "prepend",
        "slice",
        "to_string",
    ]
)
_TEXT_NAMES = """
concat contains_string format icontains_string left lower lpad ltrim regexp_extract regexp_like regexp_replace repeat
replace reverse right rpad rtrim strlen trim upper
"""
_OF_TEXT = frozenset(_TEXT_NAMES.split())
"""What takes the members of a list of texts one by one, like those of a string of several."""
_LIST_PLACES = {"array_prepend": (1,), "array_concat": (0, 1), "array_overlap": (0, 1)}
"""Where list functions take their lists, unless in front."""
_OVER_LISTS = frozenset({"array", "map", "filter", "any", "all", "fold", "cartesian_map", "cartesian_fold"})
_DUCKDB_MATH = {"cbrt": "cbrt", "cosh": "cosh", "sinh": "sinh", "tanh": "tanh", "rint": "round_even"}
_OF_NOTHING = {"concat": t.text(""), "greatest": t.null(), "least": t.null()}
_REDUCED = {"max": "greatest", "min": "least"}


def called(compiler: Compiler, tree: Call) -> Term:
    """The term of a call.

    Raises:
        QueryError: the function is not built, or its arguments do not fit.
    """
    if compiler.whole is not None and (tree.name in _OVER_LISTS or tree.name.startswith(("array_", "mv_"))):
        # Lists are taken as they are, also where the members of others are looked at one by one.
        compiler = compiler.whole
    rule = FUNCTIONS.get(tree.name)
    if rule is not None:
        return rule(compiler, tree)
    terms = [compiler.value(argument) for argument in tree.arguments if not isinstance(argument, Lambda)]
    if tree.name in _OF_TEXT:
        texts = array_of(VARCHAR)
        terms = [Term(term.sql, MULTI_VARCHAR) if term.type == texts else term for term in terms]
    if tree.name == "array_to_mv":
        terms = [as_list(term) for term in terms]
    if tree.name in _OF_NOTHING and not terms:
        return _OF_NOTHING[tree.name]
    if tree.name in _AS_SQL:
        return call(compiler.session, _AS_SQL[tree.name], *terms)
    if tree.name.startswith("array_") and tree.name[6:] in _LISTS:
        places = _LIST_PLACES.get(tree.name, (0,))
        listed = [as_list(term) if at in places or term.type.multi else term for at, term in enumerate(terms)]
        if tree.name == "array_concat" and all(one.family is Family.ARRAY for one in listed):
            # Unlike SQL's it has the type that holds the members of both.
            type_ = common_type(listed[0].type, listed[1].type)
            listed = [cast_to(one, type_ or one.type) for one in listed]
        return call(compiler.session, tree.name.upper(), *listed)
    if tree.name in _DUCKDB_MATH:
        extra = ", 0" if tree.name == "rint" else ""
        return Term(f"{_DUCKDB_MATH[tree.name]}({cast_to(as_number(terms[0]), DOUBLE).sql}{extra})", DOUBLE)
    raise UnsupportedQuery(f"the expression function {tree.name!r} is not supported")


def _values(compiler: Compiler, tree: Call) -> list[Term]:
    return [compiler.value(argument) for argument in tree.arguments]


def _chosen(compiler: Compiler, branches: list[tuple[str, Term]], default: Term) -> Term:
    results, type_ = alike(compiler.frame, [*(value for _, value in branches), default], "a choice")
    whens = [f"WHEN {test} THEN {value.sql}" for (test, _), value in zip(branches, results, strict=False)]
    return t.expression(f"CASE {' '.join(whens)} ELSE {results[-1].sql} END", type_)


@function("if")
def _if(compiler: Compiler, tree: Call) -> Term:
    def choice(inner: Compiler) -> Term:
        test, *values = tree.arguments
        first, second = (inner.value(value) for value in values)
        return _chosen(inner, [(inner.condition(test), first)], second)

    return compiler.each(choice)


@function("case_searched")
def _case_searched(compiler: Compiler, tree: Call) -> Term:
    def choice(inner: Compiler) -> Term:
        pairs = list(tree.arguments)
        default = pairs.pop() if len(pairs) % 2 else None
        branches = [(inner.condition(pairs[at]), inner.value(pairs[at + 1])) for at in range(0, len(pairs), 2)]
        return _chosen(inner, branches, t.null() if default is None else inner.value(default))

    return compiler.each(choice)


@function("case_simple")
def _case_simple(compiler: Compiler, tree: Call) -> Term:
    def choice(inner: Compiler) -> Term:
        subject, *rest = _values(inner, tree)
        pairs = rest if len(rest) % 2 == 0 else rest[:-1]
        tests = [compare(inner.frame, "=", subject, one).sql for one in pairs[::2]]
        return _chosen(inner, list(zip(tests, pairs[1::2], strict=True)), rest[-1] if len(rest) % 2 else t.null())

    return compiler.each(choice)


@function("isnull", "notnull")
def _is_null(compiler: Compiler, tree: Call) -> Term:
    operand = compiler.value(tree.arguments[0])
    if operand.type.multi:
        # Any member may be the one that is, or is not, null.
        return Term(is_missing(operand) if tree.name == "isnull" else f"(list_count({operand.sql}) > 0)", BOOLEAN)
    return Term(f"({operand.sql} IS {'' if tree.name == 'isnull' else 'NOT '}NULL)", BOOLEAN)


@function("istrue", "isfalse", "nottrue", "notfalse")
def _is_true(compiler: Compiler, tree: Call) -> Term:
    word = "TRUE" if tree.name.endswith("true") else "FALSE"
    test = "IS NOT DISTINCT FROM" if tree.name.startswith("is") else "IS DISTINCT FROM"
    return t.expression(f"{compiler.condition(tree.arguments[0])} {test} {word}", BOOLEAN)


@function("isdistinctfrom", "notdistinctfrom")
def _is_distinct(compiler: Compiler, tree: Call) -> Term:
    pair, _ = alike(compiler.frame, _values(compiler, tree), tree.name)
    test = "IS DISTINCT FROM" if tree.name.startswith("is") else "IS NOT DISTINCT FROM"
    return t.expression(f"{pair[0].sql} {test} {pair[1].sql}", BOOLEAN)


@function("cast")
def _cast(compiler: Compiler, tree: Call) -> Term:
    operand, name = _values(compiler, tree)
    if not isinstance(name.value, str):
        raise InvalidQuery("cast needs the name of a type, such as 'LONG'")
    return as_type(operand, name.value, compiler.frame)


def as_type(operand: Term, name: str, frame: Frame | None = None) -> Term:
    """A value as the type of a name; a long from a fraction is cut, from a text it must be whole.

    Raises:
        InvalidQuery: there is no such type, or no such cast.
    """
    type_ = named_type(name)
    if operand.type.multi and type_ == VARCHAR:
        return operand
    if operand.type.multi and type_.family is Family.ARRAY:
        return cast_to(as_list(operand), type_)
    if operand.type.multi and type_.family is not Family.ARRAY and frame is not None:
        return per_member(frame, [operand], lambda _, terms: cast_to(terms[0], type_))
    if type_.family is Family.ARRAY and operand.family is not Family.ARRAY and not operand.type.multi:
        member = cast_to(operand, element_of(type_))
        return t.expression(f"CASE WHEN {member.sql} IS NOT NULL THEN [{member.sql}] END", type_)
    return cast_to(operand, type_)


@function("floor", "ceil")
def _whole(compiler: Compiler, tree: Call) -> Term:
    def whole(_: Frame, terms: list[Term]) -> Term:
        return t.call(tree.name, DOUBLE, cast_to(as_number(terms[0]), DOUBLE).sql)

    return per_member(compiler.frame, [compiler.value(tree.arguments[0])], whole)


@function("max", "min")
def _two(compiler: Compiler, tree: Call) -> Term:
    pair, type_ = alike(compiler.frame, [as_number(value) for value in _values(compiler, tree)], tree.name)
    both = f"{pair[0].sql} IS NOT NULL AND {pair[1].sql} IS NOT NULL"
    name = _REDUCED[tree.name]
    return t.expression(f"CASE WHEN {both} THEN {name}({pair[0].sql}, {pair[1].sql}) END", type_)


@function("remainder", "scalb", "ulp", "nextup", "nextafter", "getexponent")
def _of_doubles(compiler: Compiler, tree: Call) -> Term:
    """As IEEE 754 has them."""
    sides = [cast_to(as_number(value), DOUBLE).sql for value in _values(compiler, tree)]
    infinity = "CAST('Infinity' AS DOUBLE)"
    formula = {
        "remainder": "{0} - {1} * round_even({0} / {1}, 0)",
        "scalb": "{0} * pow(2, trunc({1}))",
        "ulp": f"CASE WHEN isinf({{0}}) THEN {infinity} ELSE nextafter(abs({{0}}), {infinity}) - abs({{0}}) END",
        "nextup": f"nextafter({{0}}, {infinity})",
        "nextafter": "nextafter({0}, {1})",
        "getexponent": "CASE WHEN {0} = 0 THEN -1023 WHEN isfinite({0}) THEN floor(log2(abs({0}))) ELSE 1024 END",
    }[tree.name]
    found = t.expression(formula.format(*sides), DOUBLE)
    return cast_to(found, BIGINT) if tree.name == "getexponent" else found


@function("timestamp_format")
def _timestamp_format(compiler: Compiler, tree: Call) -> Term:
    terms = _values(compiler, tree)
    if len(terms) > 1 and not terms[1].is_null:
        return call(compiler.session, "TIME_FORMAT", *terms)
    zone = terms[2:] or [t.text("UTC")]
    text = call(compiler.session, "TIME_FORMAT", terms[0], t.text("yyyy-MM-dd'T'HH:mm:ss.SSSZZ"), *zone)
    return t.expression(f"regexp_replace({text.sql}, '[+]00:00$', 'Z')", VARCHAR)


@function("hypot", "copysign", "expm1", "log1p")
def _composed(compiler: Compiler, tree: Call) -> Term:
    sides = [cast_to(as_number(value), DOUBLE).sql for value in _values(compiler, tree)]
    formula = {
        "hypot": "sqrt({0} * {0} + {1} * {1})",
        "copysign": "CASE WHEN signbit({1}) THEN -abs({0}) ELSE abs({0}) END",
        "expm1": "exp({0}) - 1",
        "log1p": "ln(1 + {0})",
    }[tree.name]
    return t.expression(formula.format(*sides), DOUBLE)


@function("substring")
def _substring(compiler: Compiler, tree: Call) -> Term:
    operand, start, length = _values(compiler, tree)
    if not isinstance(start.value, int) or not isinstance(length.value, int):
        raise InvalidQuery("substring takes a constant index from 0 and a constant length, -1 for the rest")
    return substring(compiler, operand, start.value, length.value)


def substring(compiler: Compiler, operand: Term, index: int, length: int) -> Term:
    """The text from an index counted from 0; null when the text ends before it."""

    def one(text: str) -> str:
        size = f", {length}" if length >= 0 else ""
        return f"(CASE WHEN length({text}) > {index} THEN substring({text}, {index + 1}{size}) END)"

    return per_member(compiler.frame, [operand], lambda frame, terms: Term(one(as_string(terms[0]).sql), VARCHAR))


@function("strpos")
def _strpos(compiler: Compiler, tree: Call) -> Term:
    return per_member(compiler.frame, _values(compiler, tree), _place)


def _place(frame: Frame, terms: list[Term]) -> Term:
    text, needle, *from_ = terms
    sides = [as_string(side).sql for side in (text, needle)]
    if not from_:
        return t.expression(f"strpos({sides[0]}, {sides[1]}) - 1", INTEGER)
    start = as_long(from_[0]).sql
    rest = f"strpos(substring({sides[0]}, {start} + 1), {sides[1]})"
    found = f"CASE WHEN {rest} > 0 THEN {rest} + {start} - 1 WHEN {rest} = 0 THEN -1 END"
    return t.expression(found, INTEGER)


@function("bloom_filter_test")
def _bloom_filter_test(compiler: Compiler, tree: Call) -> Term:
    operand, filter_ = _values(compiler, tree)
    return held_sql(compiler.session, operand, filter_.value, "bloom_filter_test")


@function("like")
def _like(compiler: Compiler, tree: Call) -> Term:
    operand, pattern, *escape = _values(compiler, tree)
    return like(compiler.frame, operand, pattern, escape[0] if escape else None)


@function("timestamp", "unix_timestamp")
def _timestamp(compiler: Compiler, tree: Call) -> Term:
    moment = call(compiler.session, "TIME_PARSE", *_values(compiler, tree))
    return moment if tree.name == "timestamp" else t.expression(f"{moment.sql} // 1000", BIGINT)


@function("lookup")
def _lookup(compiler: Compiler, tree: Call) -> Term:
    key, name, *others = _values(compiler, tree)
    if not name.is_constant or not isinstance(name.value, str):
        raise InvalidQuery("lookup takes the lookup's name as a constant text")
    lookup = name.value

    def value(_: Frame, terms: list[Term]) -> Term:
        found = looked_up(compiler.session, as_string(terms[0]), lookup)
        return t.call("coalesce", VARCHAR, found.sql, as_string(others[0]).sql) if others else found

    return per_member(Frame(compiler.session, Scope(), clause="lookup"), [key], value)


def moment_of(term: Term) -> Term:
    """A long as the time that SQL's rules for times want."""
    return Term(as_long(as_number(term)).sql, TIMESTAMP, time_column=term.time_column, table=term.table)
