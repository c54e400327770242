"""What expressions are worth: function by function, in Druid's types, and alike by column and by row."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segments.errors import InvalidExpression
from segments.expression.columns import ColumnExpression
from segments.expression.evaluate import evaluator_of, unknown_functions
from segments.expression.functions import ARITIES
from segments.expression.parser import parse_expression
from segments.expression.values import ExpressionFailed
from tests.searching import examples

NOON = 1_709_208_000_000  # 2024-02-29T12:00:00Z
ROW: dict[str, Any] = {
    "n": 7,
    "d": 2.5,
    "s": "Ada Lovelace",
    "t": "12",
    "nothing": None,
    "tags": ["b", "a", None],
    "numbers": [3, 1, 2],
    "o": {"a": {"b": [10, {"c": "x"}]}, "t": True, "n": None},
    "__time": NOON,
    "two words": "quoted",
}
CASES = """
1 + 2 | 3
n / 2 | 3
-7 / 2 | -3
-7 % 2 | -1
n / 2.0 | 3.5
d / 0 | inf
2 ^ 10 | 1024
2.0 ^ 0.5 | 1.4142135623730951
t + 1 | 13.0
t + t | '1212'
s + nothing | None
'b' > 'a' | 1
t == 12 | 1
'x' == 1 | None
nothing == nothing | None
!(n > 3) | 0
!nothing | None
nothing && 0 | 0
nothing || 1 | 1
nothing && 1 | None
"two words" | 'quoted'
-d | -2.5
abs(-3) | 3
ceil(d) | 3.0
floor(-2.5) | -3.0
round(2.5) | 3.0
round(-2.345, 2) | -2.35
round(1250, -2) | 1300
div(7, 2) | 3
div(7.5, 2) | 3
safe_divide(1, 0) | None
safe_divide(7, 2) | 3
safe_divide(7, 2.0) | 3.5
max(1, 2.5) | 2.5
min(3, 2) | 2
sqrt(-1) | nan
log(0) | -inf
log10(1000) | 3.0
pow(2, 3) | 8.0
pi() | 3.141592653589793
signum(-2.0) | -1.0
remainder(5, 3) | -1.0
hypot(3, 4) | 5.0
abs(t) | None
bitwiseand(6, 3) | 2
bitwiseshiftleft(1, 63) | -9223372036854775808
bitwisecomplement(0) | -1
bitwiseconvertdoubletolongbits(1.0) | 4607182418800017408
getexponent(8.0) | 3
scalb(1.5, 2) | 6.0
cot(1) | 0.6420926159343308
if(n > 3, 'big', 'small') | 'big'
case_searched(n < 3, 'low', n < 10, 'mid', 'high') | 'mid'
case_searched(n < 3, 'low') | None
case_simple(n, 1, 'one', 7, 'seven', 'other') | 'seven'
nvl(nothing, 'x') | 'x'
coalesce(nothing, nothing, 3) | 3
nullif(n, 7) | None
isnull(nothing) | 1
notnull(n) | 1
istrue('true') | 1
isfalse(0) | 1
nottrue(nothing) | 1
notfalse(nothing) | 1
isdistinctfrom(nothing, 1) | 1
notdistinctfrom(nothing, nothing) | 1
greatest(1, 3.5, nothing) | 3.5
least('b', 'a') | 'a'
greatest() | None
cast('12.7', 'LONG') | 12
cast(12, 'STRING') | '12'
cast(1.0, 'STRING') | '1.0'
cast('x', 'DOUBLE') | None
cast(numbers, 'ARRAY<STRING>') | ['3', '1', '2']
concat(s, '!') | 'Ada Lovelace!'
concat(s, nothing) | None
upper(s) | 'ADA LOVELACE'
lower(s) | 'ada lovelace'
strlen(s) | 12
substring(s, 4, 4) | 'Love'
substring(s, 4, -1) | 'Lovelace'
left(s, 3) | 'Ada'
right(s, 4) | 'lace'
strpos(s, 'a') | 2
strpos(s, 'z') | -1
strpos(s, 'a', 3) | 9
replace(s, 'a', 'o') | 'Ado Loveloce'
reverse('abc') | 'cba'
repeat('ab', 3) | 'ababab'
repeat('ab', 0) | None
trim('  x ') | 'x'
ltrim('xxa', 'x') | 'a'
rtrim('a  ') | 'a'
lpad('7', 3, '0') | '007'
lpad('abcd', 2) | 'ab'
rpad('7', 3, 'ab') | '7ab'
like(s, 'Ada%') | 1
like('50%', '50!%', '!') | 1
like(nothing, '%') | None
contains_string(s, 'love') | 0
icontains_string(s, 'love') | 1
regexp_extract(s, '(\\\\w+) (\\\\w+)', 2) | 'Lovelace'
regexp_extract(s, 'z') | None
regexp_like(s, '^Ada') | 1
regexp_replace('xaby', '(a)(b)', '$2$1') | 'xbay'
parse_long('ff', 16) | 255
parse_long('x') | None
format('%05d|%-4s|%.2f|%,d|%s', 7, 'x', 1.5, 1234567, nothing) | '00007|x   |1.50|1,234,567|null'
decode_base64_utf8('aGVsbG8=') | 'hello'
human_readable_binary_byte_format(1500) | '1.46 KiB'
human_readable_decimal_byte_format(1500000, 1) | '1.5 MB'
human_readable_decimal_format(1500) | '1.50 K'
timestamp('2024-02-29T12:00:00Z') | 1709208000000
unix_timestamp('2024-02-29') | 1709164800
timestamp_floor(__time, 'P1D') | 1709164800000
timestamp_floor(__time, 'P1D', null, 'America/Los_Angeles') | 1709193600000
timestamp_ceil(__time, 'P1M') | 1709251200000
timestamp_ceil(1709251200000, 'P1M') | 1709251200000
timestamp_shift(__time, 'P1Y', 1) | 1740744000000
timestamp_shift(__time, 'PT1H', -2, 'UTC') | 1709200800000
timestamp_extract(__time, 'DOY') | 60
timestamp_extract(__time, 'HOUR', 'Asia/Tokyo') | 21
timestamp_extract(__time, 'WEEK') | 9
timestamp_format(__time) | '2024-02-29T12:00:00.000Z'
timestamp_format(__time, 'EEE dd MMM yy HH:mm Z', 'Europe/Berlin') | 'Thu 29 Feb 24 13:00 +0100'
timestamp_parse('2024-02-29 12:00:00') | 1709208000000
timestamp_parse('29.02.2024', 'dd.MM.yyyy', 'Europe/Berlin') | 1709161200000
timestamp_parse('soon') | None
array(1, 'a') | [1, 'a']
array_length(tags) | 3
array_offset(tags, 0) | 'b'
array_offset(tags, 9) | None
array_ordinal(tags, 1) | 'b'
array_contains(tags, 'a') | 1
array_contains(numbers, [1, 2]) | 1
array_overlap(numbers, [9, 3]) | 1
array_offset_of(numbers, 2) | 2
array_ordinal_of(numbers, 2) | 3
array_append(numbers, 4) | [3, 1, 2, 4]
array_prepend(0, numbers) | [0, 3, 1, 2]
array_concat(numbers, [9]) | [3, 1, 2, 9]
array_set_add([1, 2], 1) | [1, 2]
array_quantile([4, 1, 3, 2], 0.9) | 3.7
array_quantile([1.5, null, 3.0], 0.5) | 2.25
array_quantile(['a'], 0.5) | None
array_quantile([1], 2) | None
subtract_months(timestamp('2020-03-31'), 1, 'UTC') | 602
subtract_months(timestamp('2020-05-31'), timestamp('2020-03-30'), 'UTC') | 2
subtract_months(timestamp('2020-03-30'), timestamp('2020-05-31'), 'UTC') | -2
subtract_months(null, 1, 'UTC') | None
array_set_add_all([2], [1, 2]) | [1, 2]
array_slice(numbers, 1) | [1, 2]
array_slice(numbers, 0, 2) | [3, 1]
array_to_string(numbers, '-') | '3-1-2'
string_to_array('a,b,,', ',') | ['a', 'b']
array_to_mv(numbers) | ['3', '1', '2']
mv_to_array(tags) | ['b', 'a', None]
mv_filter_only(tags, ['a']) | ['a']
mv_filter_none(tags, ['a']) | ['b', None]
mv_harmonize_nulls(nothing) | [None]
scalar_in_array(1, numbers) | 1
scalar_in_array(9, numbers) | 0
map(x -> x * 2, numbers) | [6, 2, 4]
filter((x) -> x > 1, numbers) | [3, 2]
fold((x, acc) -> acc + x, numbers, 10) | 16
any(x -> x == n, numbers) | 0
all(x -> x < n, numbers) | 1
cartesian_map((x, y) -> x + y, [1, 2], [10, 20]) | [11, 21, 12, 22]
cartesian_fold((x, y, acc) -> acc + x * y, [1, 2], [3], 0) | 9
map(x -> x, nothing) | None
json_value(o, '$.a.b[0]') | 10
json_value(o, '$.a.b[1].c') | 'x'
json_value(o, '$.a') | None
json_value(o, '$.t') | 1
json_value(o, '$.a.b[0]', 'STRING') | '10'
json_value(o, '.a.b[-1].c') | 'x'
json_query(o, '$.a.b[1]') | {'c': 'x'}
json_query_array(o, '$.a.b[0]') | [10]
json_keys(o, '$') | ['a', 't', 'n']
json_paths(o) | ['$.a.b[0]', '$.a.b[1].c', '$.t', '$.n']
json_object('a', 1, 'b', array(1)) | {'a': 1, 'b': [1]}
json_merge('{"a": {"x": 1}}', '{"a": {"y": 2}}') | {'a': {'x': 1, 'y': 2}}
parse_json('[1, {"a": null}]') | [1, {'a': None}]
try_parse_json('{') | None
to_json_string(o) | '{"a":{"b":[10,{"c":"x"}]},"t":true,"n":null}'
ipv4_match('10.1.2.3', '10.0.0.0/8') | 1
ipv4_match('x', '10.0.0.0/8') | 0
ipv4_parse('1.2.3.4') | 16909060
ipv4_stringify(16909060) | '1.2.3.4'
ipv6_match('2001:db8::1', '2001:db8::/32') | 1
"""
TABLE = [tuple(line.split(" | ")) for line in CASES.strip().splitlines()]


def same(found: Any, wanted: Any) -> bool:
    if isinstance(found, float) and isinstance(wanted, float) and math.isnan(wanted):
        return math.isnan(found)
    return type(found) is type(wanted) and found == wanted


@pytest.mark.parametrize(("text", "wanted"), TABLE, ids=[text for text, _ in TABLE])
def test_an_expression_has_druids_value(text: str, wanted: str) -> None:
    text = text.replace("\\\\\\\\", "\\\\")
    expected = eval(wanted, {"inf": math.inf, "nan": math.nan})
    assert same(evaluator_of(text)[0](ROW), expected), evaluator_of(text)[0](ROW)


def test_every_function_of_the_grammar_is_built_and_tested() -> None:
    assert unknown_functions() == []
    tested = " ".join(text for text, _ in TABLE)
    absent = [name for name in ARITIES if f"{name}(" not in tested]
    trigonometry = {"acos", "asin", "atan", "atan2", "cbrt", "cos", "cosh", "exp", "expm1", "log1p", "sin", "sinh"}
    trigonometry |= {"tan", "tanh", "todegrees", "toradians", "nextafter", "nextup", "rint", "ulp", "copysign"}
    bits = {"bitwiseor", "bitwisexor", "bitwiseshiftright", "bitwiseconvertlongbitstodouble"}
    of_queries = {"lookup", "bloom_filter_test", "hll_sketch_estimate", "theta_sketch_estimate"}
    of_queries |= {"hyper_unique_estimate", "hyper_unique_round_estimate", "hyper_unique", "hyper_unique_add"}
    of_queries |= {"complex_decode_base64", "decode_base64_complex"}
    assert set(absent) == trigonometry | bits | of_queries


@pytest.mark.parametrize("name", ["acos", "cbrt", "exp", "rint", "sin", "tanh", "todegrees", "ulp", "nextup"])
def test_functions_of_doubles_are_javas(name: str) -> None:
    value = evaluator_of(f"{name}(0.5)")[0]({})
    named = {"rint": 0.0, "todegrees": math.degrees(0.5), "nextup": math.nextafter(0.5, 1)}
    assert value == named.get(name, getattr(math, name)(0.5) if name not in named else None)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1 / 0", "division by zero"),
        ("s - 't'", "cannot be used with -"),
        ("-s", "only numbers"),
        ("repeat(s, 2000000000)", "more than 1000000"),
        ("lpad(s, 2000000000, 'x')", "more than 1000000"),
        ("parse_json('{')", "not JSON"),
        ("regexp_like(s, '(')", "no regular expression"),
        ("json_value(o, '$..a')", "cannot be read"),
        ("timestamp_floor(__time, 'P1D', null, 'Nowhere/City')", "unknown"),
        ("timestamp_floor(__time, 'x')", "period"),
        ("timestamp_shift(__time, 'P1000000Y', 9)", "outside the years"),
        ("timestamp_extract(__time, 'FORTNIGHT')", "no unit"),
        ("cast(s, 'BLOB')", "cast knows"),
        ("substring(s, 99, 1)", "outside of a text"),
        ("map((x, y) -> x, numbers)", "no value"),
        ("timestamp('soon')", "ISO 8601"),
        ("9 ^ 999999999", "beyond 64 bits"),
        ("fold((x, acc) -> acc * acc, string_to_array(repeat('x', 99), ''), n)", "more than 16384 bits"),
        ("fold((x, acc) -> acc + acc, string_to_array(repeat('x', 99), ''), s)", "more than 1000000"),
        ("fold((x, acc) -> array_concat(acc, acc), string_to_array(repeat('x', 99), ''), tags)", "more than 100000"),
    ],
)
def test_a_row_without_a_value_says_why(text: str, says: str) -> None:
    with pytest.raises(ExpressionFailed) as caught:
        evaluator_of(text)[0](ROW)
    assert says in str(caught.value)


def test_functions_that_only_queries_have_are_refused_when_read() -> None:
    with pytest.raises(InvalidExpression, match="works in queries"):
        evaluator_of("lookup(s, 'names')")


def test_whole_numbers_never_wrap() -> None:
    assert evaluator_of("n * 9223372036854775807")[0]({"n": 2}) == 2**64 - 2


BY_COLUMN = """
a + b ; a - b * 2 ; a / b ; a * 9223372036854775807 ; a > b ; a == b && c > 'm' ; !(a > 1) || b != 2 ; upper(c)
lower(c) ; concat(c, '-', a) ; nvl(c, 'none') ; if(a > b, c, 'x') ; case_searched(a > 1, 'p', b > 1, c, 'q') ; isnull(a)
notnull(c) ; strlen(c) ; like(c, '%a_') ; contains_string(c, 'a') ; timestamp_floor(a, 'PT1H') ; a % 7 ; missing + a
coalesce(c, c) ; timestamp_floor(a, 'P1D', null, 'Europe/Berlin')
timestamp_extract(a, 'DOY') ; cast(a, 'STRING') ; cast(a, 'DOUBLE')
abs(a) ; -a ; c + c ; c < 'b' ; regexp_extract(c, '[a-z]+', 0) ; c == a ; missing || c
"""
EXPRESSIONS = [text.strip() for text in BY_COLUMN.replace("\n", ";").split(";") if text.strip()]
TEXTS = st.none() | st.text("abzAZ% 1.é", max_size=6) | st.sampled_from(["true", "12", "", "straße"])
LONGS = st.none() | st.integers(-5, 5) | st.integers(-(2**63), 2**63 - 1)
DOUBLES = st.none() | st.floats(allow_nan=False, width=32)
COLUMN = st.lists(TEXTS, min_size=6, max_size=6) | st.lists(LONGS, min_size=6, max_size=6)
NUMBERS = (
    st.lists(LONGS, min_size=6, max_size=6)
    | st.lists(DOUBLES, min_size=6, max_size=6)
    | st.lists(LONGS | DOUBLES | TEXTS | st.booleans(), min_size=6, max_size=6)
)


@settings(max_examples=examples(40), deadline=None)
@given(st.sampled_from(EXPRESSIONS), NUMBERS, NUMBERS, COLUMN)
def test_columns_have_the_values_of_their_rows(text: str, a: list[Any], b: list[Any], c: list[Any]) -> None:
    expression = ColumnExpression(parse_expression(text))
    inputs = {name: column for name, column in {"a": a, "b": b, "c": c}.items() if name in expression.columns}
    found = expression.of_rows(inputs, 6)
    for at, value in enumerate(found.to_list()):
        row = {name: int(v[at]) if isinstance(v[at], bool) else v[at] for name, v in inputs.items()}
        try:
            wanted = expression.of_row(row)
        except ExpressionFailed:
            assert at in found.failed
            continue
        assert at not in found.failed
        assert same(value, wanted) or (value == wanted and isinstance(value, float)), (value, wanted)
