"""The functions of Druid's expression language: every documented name with how many arguments it takes."""

from __future__ import annotations

MANY = 1_000
"""Stands for "any number" of arguments."""

# One line per group: "name least most", most left out when it equals least, * for any number.
_TABLE = """
abs 1, acos 1, asin 1, atan 1, atan2 2, cbrt 1, ceil 1, copysign 2, cos 1, cosh 1, cot 1, div 2, exp 1, expm1 1,
floor 1, getexponent 1, hypot 2, log 1, log10 1, log1p 1, max 2, min 2, nextafter 2, nextup 1, pi 0, pow 2,
remainder 2, rint 1, round 1 2, safe_divide 2, scalb 2, signum 1, sin 1, sinh 1, sqrt 1, tan 1, tanh 1,
todegrees 1, toradians 1, ulp 1
bitwiseand 2, bitwisecomplement 1, bitwiseconvertdoubletolongbits 1, bitwiseconvertlongbitstodouble 1, bitwiseor 2,
bitwiseshiftleft 2, bitwiseshiftright 2, bitwisexor 2
case_searched 2 *, case_simple 3 *, cast 2, coalesce 1 *, greatest 0 *, if 3, isdistinctfrom 2, isfalse 1, isnull 1,
istrue 1, least 0 *, notdistinctfrom 2, notfalse 1, notnull 1, nottrue 1, nullif 2, nvl 2
concat 0 *, contains_string 2, decode_base64_utf8 1, format 1 *, icontains_string 2, left 2, like 2 3, lookup 2 3,
lower 1, lpad 2 3, ltrim 1 2, parse_long 1 2, regexp_extract 2 3, regexp_like 2, regexp_replace 3, repeat 2,
replace 3, reverse 1, right 2, rpad 2 3, rtrim 1 2, strlen 1, strpos 2 3, substring 3, trim 1 2, upper 1,
human_readable_binary_byte_format 1 2, human_readable_decimal_byte_format 1 2, human_readable_decimal_format 1 2
timestamp 1 2, timestamp_ceil 2 4, timestamp_extract 2 3, timestamp_floor 2 4, timestamp_format 1 3,
timestamp_parse 1 3, timestamp_shift 3 4, unix_timestamp 1 2, subtract_months 3
all 2, any 2, array 0 *, array_append 2, array_concat 2, array_contains 2, array_length 1, array_offset 2,
array_offset_of 2, array_ordinal 2, array_ordinal_of 2, array_overlap 2, array_prepend 2, array_quantile 2,
array_set_add 2,
array_set_add_all 2, array_slice 2 3, array_to_mv 1, array_to_string 2, cartesian_fold 3 *, cartesian_map 2 *,
filter 2, fold 3, map 2, mv_filter_none 2, mv_filter_only 2, mv_harmonize_nulls 1, mv_to_array 1,
scalar_in_array 2, string_to_array 2
json_keys 2, json_merge 1 *, json_object 0 *, json_paths 1, json_query 2, json_query_array 2, json_value 2 3,
parse_json 1, to_json_string 1, try_parse_json 1
ipv4_match 2, ipv4_parse 1, ipv4_stringify 1, ipv6_match 2
hyper_unique_estimate 1, hyper_unique_round_estimate 1, hll_sketch_estimate 1 2, theta_sketch_estimate 1,
hyper_unique 0, hyper_unique_add 2, complex_decode_base64 2, decode_base64_complex 2
bloom_filter_test 2
"""

LAMBDA_FIRST = frozenset({"all", "any", "cartesian_fold", "cartesian_map", "filter", "fold", "map"})
"""Functions whose first argument is a lambda; no other takes one."""

QUERY_ONLY = frozenset(
    {
        "bloom_filter_test",
        "complex_decode_base64",
        "decode_base64_complex",
        "hyper_unique",
        "hyper_unique_add",
        "lookup",
        "hyper_unique_estimate",
        "hyper_unique_round_estimate",
        "hll_sketch_estimate",
        "theta_sketch_estimate",
    }
)
"""Functions that only a query has: lookups, and sketches as values."""


def _arities() -> dict[str, tuple[int, int]]:
    arities = {}
    for entry in _TABLE.replace("\n", ",").split(","):
        name, *counts = entry.split() or [""]
        if name:
            least, most = counts[0], counts[-1]
            arities[name] = (int(least), MANY if most == "*" else int(most))
    return arities


ARITIES: dict[str, tuple[int, int]] = _arities()
"""Least and most arguments by function name in lower case."""
