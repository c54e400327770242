"""Every function that Druid 37 documents: an expression with its answer, or how it is refused; and what differs.

An expression is the one column of a SELECT over ``ROWS``; the answer is that of the first row. An answer that is an
exception type says that the statement is refused, ``told`` what the refusal says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from query.errors import UnsupportedQuery
from tests.unit.query.rows import table

ROWS = table(
    __time=["2024-01-01T00:00:00", "2024-01-02T03:04:05", "2024-02-29T12:00:00", "2024-03-31T23:59:59"],
    n=[1, 2, 3, 4],
    d=[0.5, 1.5, 2.5, 3.5],
    s=["a", "b", "a", None],
    S=['{"k": {"x": 1, "y": [1, 2]}, "z": "t"}', None, "{}", "no"],
    mv=[["x", "y"], ["y"], [], None],
)
MV = "CASE WHEN n < 9 THEN mv END"


@dataclass(frozen=True)
class Documented:
    """One function; ``differs`` says how its answer is another than Druid's, empty when it is the same."""

    name: str
    expression: str
    answer: Any
    differs: str = ""
    told: str = ""

    @property
    def status(self) -> str:
        """works, differs or refused."""
        if self.answer is UnsupportedQuery:
            return "refused"
        return "differs" if self.differs else "works"


F = Documented
EXACT = "exact where Druid estimates"
FILTER = "BAAAAAgAAQAAAAQAQAAgAQAAAAABAAAEAAAAAAAAAAAAAAAAAAACAAAAAAAAAEAAAAQgAAAAAAAAAAAACAAQAAgAAAEA"
"""1, 2, 3 and 4 as longs."""
AGGREGATES = [
    F("ANY_VALUE", "ANY_VALUE(n) FILTER (WHERE n = 3)", 3),
    F("APPROX_COUNT_DISTINCT", "APPROX_COUNT_DISTINCT(s)", 2, EXACT),
    F("APPROX_COUNT_DISTINCT_BUILTIN", "APPROX_COUNT_DISTINCT_BUILTIN(s)", 2, EXACT),
    F("APPROX_COUNT_DISTINCT_DS_HLL", "APPROX_COUNT_DISTINCT_DS_HLL(n, 12, 'HLL_8')", 4, f"{EXACT}, over raw columns"),
    F("APPROX_COUNT_DISTINCT_DS_THETA", "APPROX_COUNT_DISTINCT_DS_THETA(n, 64)", 4, f"{EXACT}, over raw columns"),
    F("APPROX_QUANTILE", "APPROX_QUANTILE(n, 0.5)", 2.0, EXACT),
    F("APPROX_QUANTILE_DS", "APPROX_QUANTILE_DS(n, 0.5, 128)", 2.0, f"{EXACT}, over raw columns"),
    F("APPROX_QUANTILE_FIXED_BUCKETS", "APPROX_QUANTILE_FIXED_BUCKETS(n, 0.5, 10, 2, 9)", 3.0, EXACT),
    F("ARRAY_AGG", "ARRAY_AGG(DISTINCT s)", [None, "a", "b"]),
    F("ARRAY_CONCAT_AGG", "ARRAY_CONCAT_AGG(ARRAY[n, 0])", [1, 0, 2, 0, 3, 0, 4, 0]),
    F("AVG", "AVG(n)", 2.5),
    F("BIT_AND", "BIT_AND(n) FILTER (WHERE n > 2 AND n <> 4)", 3, "Druid's begins at 0 and so is always 0"),
    F("BIT_OR", "BIT_OR(n)", 7),
    F("BIT_XOR", "BIT_XOR(n)", 4),
    F("BLOOM_FILTER", "BLOOM_FILTER(n, 10)", f'"{FILTER}"'),
    F("COUNT", "COUNT(s)", 3),
    F("DS_HLL", "HLL_SKETCH_ESTIMATE(DS_HLL(n), TRUE)", 4.0),
    F("DS_QUANTILES_SKETCH", "DS_GET_QUANTILE(DS_QUANTILES_SKETCH(n, 64), 1)", 4.0),
    F("DS_THETA", "THETA_SKETCH_ESTIMATE(DS_THETA(n))", 4.0),
    F("DS_TUPLE_DOUBLES", "DS_TUPLE_DOUBLES_METRICS_SUM_ESTIMATE(DS_TUPLE_DOUBLES(s, n, d))", [6.0, 4.5]),
    F("EARLIEST", "EARLIEST(s, 10)", "a"),
    F("EARLIEST_BY", "EARLIEST_BY(n, MILLIS_TO_TIMESTAMP(-n))", 4),
    F("GROUPING", "GROUPING(s)", 0),
    F("LATEST", "LATEST(n)", 4),
    F("LATEST_BY", "LATEST_BY(n, MILLIS_TO_TIMESTAMP(-n))", 1),
    F("MAX", "MAX(d)", 3.5),
    F("MIN", "MIN(d)", 0.5),
    F("SPECTATOR_COUNT", "SPECTATOR_COUNT(n)", 4, "of numbers, not of stored histograms"),
    F("SPECTATOR_PERCENTILE", "SPECTATOR_PERCENTILE(n, 50)", 2.5, f"{EXACT}; of numbers"),
    F("STDDEV", "STDDEV(n)", 1.2909944487358056),
    F("STDDEV_POP", "STDDEV_POP(n)", 1.118033988749895),
    F("STDDEV_SAMP", "STDDEV_SAMP(n)", 1.2909944487358056),
    F("STRING_AGG", "STRING_AGG(DISTINCT s, '-')", "a-b"),
    F("LISTAGG", "LISTAGG(DISTINCT s, '-')", "a-b"),
    F("SUM", "SUM(n)", 10, "beyond 64 bits exact where Druid's wraps"),
    F("TDIGEST_GENERATE_SKETCH", "TDIGEST_GENERATE_SKETCH(n)", UnsupportedQuery, told="community extension"),
    F("TDIGEST_QUANTILE", "TDIGEST_QUANTILE(n, 0.5)", 2.5, EXACT),
    F("VARIANCE", "VARIANCE(n)", 1.6666666666666667),
    F("VAR_POP", "VAR_POP(n)", 1.25),
    F("VAR_SAMP", "VAR_SAMP(n)", 1.6666666666666667),
]
HLL, THETA = "DS_HLL(n)", "DS_THETA(n)"
PAIR, QUANTILES = "DS_TUPLE_DOUBLES(s, n)", "DS_QUANTILES_SKETCH(n)"
SUMS = "DS_TUPLE_DOUBLES_METRICS_SUM_ESTIMATE"
AS_ARRAY, WORDS = "an array, not its text", "the library's words"
THETA_BOUNDS = f"JSON_VALUE(THETA_SKETCH_ESTIMATE_WITH_ERROR_BOUNDS({THETA}, 2), '$.highBound' RETURNING DOUBLE)"
HLL_BOUNDS = f"ARRAY_LENGTH(HLL_SKETCH_ESTIMATE_WITH_ERROR_BOUNDS({HLL}, 2))"
SKETCHES = [
    F("DECODE_BASE64_COMPLEX", "THETA_SKETCH_ESTIMATE(DECODE_BASE64_COMPLEX('thetaSketch', 'AQMDAAAezJM='))", 0.0),
    F("DS_CDF", f"DS_CDF({QUANTILES}, 2)", [0.5, 1.0], AS_ARRAY),
    F("DS_GET_QUANTILE", f"DS_GET_QUANTILE({QUANTILES}, 0.25)", 1.0),
    F("DS_GET_QUANTILES", f"DS_GET_QUANTILES({QUANTILES}, 0, 1)", [1.0, 4.0], AS_ARRAY),
    F("DS_HISTOGRAM", f"DS_HISTOGRAM({QUANTILES}, 2)", [2.0, 2.0], AS_ARRAY),
    F("DS_QUANTILE_SUMMARY", f"SUBSTRING(DS_QUANTILE_SUMMARY({QUANTILES}), 1, 13)", "### Quantiles", WORDS),
    F("DS_RANK", f"DS_RANK({QUANTILES}, 2)", 0.5),
    F("DS_TUPLE_DOUBLES_INTERSECT", f"{SUMS}(DS_TUPLE_DOUBLES_INTERSECT({PAIR}, {PAIR}))", [12.0]),
    F("DS_TUPLE_DOUBLES_METRICS_SUM_ESTIMATE", f"{SUMS}({PAIR})", [6.0]),
    F("DS_TUPLE_DOUBLES_NOT", f"{SUMS}(DS_TUPLE_DOUBLES_NOT({PAIR}, {PAIR}))", [0.0]),
    F("DS_TUPLE_DOUBLES_UNION", f"{SUMS}(DS_TUPLE_DOUBLES_UNION({PAIR}, {PAIR}))", [12.0]),
    F("HLL_SKETCH_ESTIMATE", f"HLL_SKETCH_ESTIMATE({HLL}, TRUE)", 4.0),
    F("HLL_SKETCH_ESTIMATE_WITH_ERROR_BOUNDS", HLL_BOUNDS, 3, AS_ARRAY),
    F("HLL_SKETCH_TO_STRING", f"SUBSTRING(HLL_SKETCH_TO_STRING({HLL}), 1, 7)", "### HLL", WORDS),
    F("HLL_SKETCH_UNION", f"HLL_SKETCH_ESTIMATE(HLL_SKETCH_UNION(12, 'HLL_8', {HLL}, {HLL}), TRUE)", 4.0),
    F("THETA_SKETCH_ESTIMATE", f"THETA_SKETCH_ESTIMATE({THETA})", 4.0),
    F("THETA_SKETCH_ESTIMATE_WITH_ERROR_BOUNDS", THETA_BOUNDS, 4.0),
    F("THETA_SKETCH_INTERSECT", f"THETA_SKETCH_ESTIMATE(THETA_SKETCH_INTERSECT({THETA}, {THETA}))", 4.0),
    F("THETA_SKETCH_NOT", f"THETA_SKETCH_ESTIMATE(THETA_SKETCH_NOT({THETA}, {THETA}))", 0.0),
    F("THETA_SKETCH_UNION", f"THETA_SKETCH_ESTIMATE(THETA_SKETCH_UNION(64, {THETA}, {THETA}))", 4.0),
]  # fmt: skip
NUMBERS = [
    F("ABS", "ABS(-2.5)", 2.5),
    F("ACOS", "ACOS(1)", 0.0),
    F("ASIN", "ASIN(0)", 0.0),
    F("ATAN", "ATAN(0)", 0.0),
    F("ATAN2", "ATAN2(0, -1)", 3.141592653589793),
    F("BITWISE_AND", "BITWISE_AND(12, 10)", 8),
    F("BITWISE_COMPLEMENT", "BITWISE_COMPLEMENT(0)", -1),
    F("BITWISE_CONVERT_DOUBLE_TO_LONG_BITS", "BITWISE_CONVERT_DOUBLE_TO_LONG_BITS(1.5)", 4609434218613702656),
    F("BITWISE_CONVERT_LONG_BITS_TO_DOUBLE", "BITWISE_CONVERT_LONG_BITS_TO_DOUBLE(4609434218613702656)", 1.5),
    F("BITWISE_OR", "BITWISE_OR(12, 10)", 14),
    F("BITWISE_SHIFT_LEFT", "BITWISE_SHIFT_LEFT(3, 2)", 12),
    F("BITWISE_SHIFT_RIGHT", "BITWISE_SHIFT_RIGHT(12, 2)", 3),
    F("BITWISE_XOR", "BITWISE_XOR(12, 10)", 6),
    F("CEIL (numeric)", "CEIL(1.2)", 2.0),
    F("COS", "COS(0)", 1.0),
    F("COT", "ROUND(COT(1), 6)", 0.642093),
    F("DEGREES", "DEGREES(0)", 0.0),
    F("DIV", "DIV(7, 2)", 3),
    F("EXP", "EXP(0)", 1.0),
    F("FLOOR (numeric)", "FLOOR(-1.2)", -2.0),
    F("HUMAN_READABLE_BINARY_BYTE_FORMAT", "HUMAN_READABLE_BINARY_BYTE_FORMAT(1048576, 1)", "1.0 MiB"),
    F("HUMAN_READABLE_DECIMAL_BYTE_FORMAT", "HUMAN_READABLE_DECIMAL_BYTE_FORMAT(1000000)", "1.00 MB"),
    F("HUMAN_READABLE_DECIMAL_FORMAT", "HUMAN_READABLE_DECIMAL_FORMAT(1500)", "1.50 K"),
    F("LN", "LN(1)", 0.0),
    F("LOG10", "LOG10(1000)", 3.0),
    F("MOD", "MOD(78, 10)", 8),
    F("PI", "ROUND(PI, 4)", 3.1416),
    F("POWER", "POWER(5, 2)", 25.0),
    F("RADIANS", "RADIANS(0)", 0.0),
    F("ROUND", "ROUND(2.345, 2)", 2.35),
    F("SAFE_DIVIDE", "SAFE_DIVIDE(1, 0)", None),
    F("SIN", "SIN(0)", 0.0),
    F("SQRT", "SQRT(25)", 5.0),
    F("TAN", "TAN(0)", 0.0),
    F("TRUNC", "TRUNC(-73.93, 1)", -73.9),
    F("TRUNCATE", "TRUNCATE(1234, -2)", 1200),
]
TEXTS = [
    F("BTRIM", "BTRIM('xxaxx', 'x')", "a"),
    F("CHARACTER_LENGTH", "CHARACTER_LENGTH('abc')", 3),
    F("CHAR_LENGTH", "CHAR_LENGTH('abc')", 3),
    F("CONCAT", "CONCAT('a', 'b', 'c')", "abc"),
    F("CONTAINS_STRING", "CONTAINS_STRING('abc', 'B')", False),
    F("DECODE_BASE64_UTF8", "DECODE_BASE64_UTF8('w7w=')", "ü"),
    F("ICONTAINS_STRING", "ICONTAINS_STRING('abc', 'B')", True),
    F("LEFT", "LEFT('abc', 2)", "ab"),
    F("LENGTH", "LENGTH('üx')", 2, "characters beyond U+FFFF count once, not twice"),
    F("LOOKUP", "LOOKUP('JP', 'country_names')", "Japan"),
    F("LOWER", "LOWER('ÀB')", "àb"),
    F("LPAD", "LPAD('a', 3, 'xy')", "xya"),
    F("LTRIM", "LTRIM('  a ')", "a "),
    F("PARSE_LONG", "PARSE_LONG('ff', 16)", 255),
    F("POSITION", "POSITION('b' IN 'abab' FROM 3)", 4),
    F("REGEXP_EXTRACT", "REGEXP_EXTRACT('a12b', '([0-9])([0-9])', 2)", "2"),
    F("REGEXP_LIKE", "REGEXP_LIKE('abc', '(?<=a)b')", True),
    F("REGEXP_REPLACE", "REGEXP_REPLACE('a12', '([0-9])', '<$1>')", "a<1><2>"),
    F("REPEAT", "REPEAT('ab', 2)", "abab", "at most 16 million characters"),
    F("REPLACE", "REPLACE('aXa', 'X', '-')", "a-a"),
    F("REVERSE", "REVERSE('abc')", "cba"),
    F("RIGHT", "RIGHT('abc', 2)", "bc"),
    F("RPAD", "RPAD('abc', 2)", "ab"),
    F("RTRIM", "RTRIM(' a  ')", " a"),
    F("STRING_FORMAT", "STRING_FORMAT('%s-%05d-%.2f', 'a', 42, 1.5)", "a-00042-1.50"),
    F("STRLEN", "STRLEN('abc')", 3, "characters beyond U+FFFF count once, not twice"),
    F("STRPOS", "STRPOS('abc', 'c')", 3),
    F("SUBSTR", "SUBSTR('abcd', 2, 2)", "bc"),
    F("SUBSTRING", "SUBSTRING('abcd', 3)", "cd"),
    F("TEXTCAT", "TEXTCAT('a', 'b')", "ab"),
    F("TRIM", "TRIM(BOTH 'x' FROM 'xax')", "a"),
    F("UPPER", "UPPER('aü')", "AÜ"),
]
T = "TIMESTAMP '2024-02-29 12:34:56'"
TIMES = [
    F("CEIL (date and time)", f"CEIL({T} TO DAY)", "2024-03-01T00:00:00.000Z"),
    F("CURRENT_DATE", "CURRENT_DATE", "2024-03-10T00:00:00.000Z"),
    F("CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP", "2024-03-10T12:34:56.789Z"),
    F("DATE_TRUNC", f"DATE_TRUNC('month', {T})", "2024-02-01T00:00:00.000Z"),
    F("EXTRACT", f"EXTRACT(DOW FROM {T})", 4),
    F("FLOOR (date and time)", f"FLOOR({T} TO HOUR)", "2024-02-29T12:00:00.000Z"),
    F("MILLIS_TO_TIMESTAMP", "MILLIS_TO_TIMESTAMP(1)", "1970-01-01T00:00:00.001Z"),
    F("TIMESTAMPADD", f"TIMESTAMPADD(MONTH, 1, {T})", "2024-03-29T12:34:56.000Z"),
    F("TIMESTAMPDIFF", f"TIMESTAMPDIFF(DAY, {T}, TIMESTAMP '2024-03-02 12:34:55')", 1),
    F("TIMESTAMP_TO_MILLIS", "TIMESTAMP_TO_MILLIS(TIMESTAMP '1970-01-01 00:00:01')", 1000),
    F("TIME_CEIL", f"TIME_CEIL({T}, 'PT1H')", "2024-02-29T13:00:00.000Z"),
    F("TIME_EXTRACT", f"TIME_EXTRACT({T}, 'HOUR', 'Asia/Tokyo')", 21),
    F("TIME_FLOOR", f"TIME_FLOOR({T}, 'P1W')", "2024-02-26T00:00:00.000Z"),
    F("TIME_FORMAT", f"TIME_FORMAT({T}, 'yyyy/MM/dd HH')", "2024/02/29 12", "zone names in full (`zzzz`) are refused"),
    F("TIME_IN_INTERVAL", f"TIME_IN_INTERVAL({T}, '2024-02-01/P1M')", True),
    F("TIME_PARSE", "TIME_PARSE('29/02/2024', 'dd/MM/yyyy')", "2024-02-29T00:00:00.000Z"),
    F("TIME_SHIFT", f"TIME_SHIFT({T}, 'P1Y', 1)", "2025-02-28T12:34:56.000Z"),
]
CHOICES = [
    F("BLOOM_FILTER_TEST", f"BLOOM_FILTER_TEST(n, '{FILTER}')", True),
    F("CASE", "CASE n WHEN 1 THEN 'one' ELSE 'more' END", "one"),
    F("CAST", "CAST('1e3' AS BIGINT)", 1000),
    F("COALESCE", "COALESCE(NULL, 'a')", "a"),
    F("GREATEST", "GREATEST(1, 3, 2)", 3),
    F("IPV4_MATCH", "IPV4_MATCH('10.1.2.3', '10.1.0.0/16')", True),
    F("IPV4_PARSE", "IPV4_PARSE('0.0.1.0')", 256),
    F("IPV4_STRINGIFY", "IPV4_STRINGIFY(256)", "0.0.1.0"),
    F("IPV6_MATCH", "IPV6_MATCH('2001:db8::1', '2001:db8::/32')", True),
    F("LEAST", "LEAST(1, 3, 2)", 1),
    F("NULLIF", "NULLIF('a', 'a')", None),
    F("NVL", "NVL(NULL, 'a')", "a"),
]
LISTS = [
    F("ARRAY[]", "ARRAY[1, 2]", [1, 2]),
    F("ARRAY_APPEND", "ARRAY_APPEND(ARRAY[1], 2)", [1, 2]),
    F("ARRAY_CONCAT", "ARRAY_CONCAT(ARRAY[1], ARRAY[2])", [1, 2]),
    F("ARRAY_CONTAINS", "ARRAY_CONTAINS(ARRAY[1, 2], ARRAY[2])", True),
    F("ARRAY_LENGTH", "ARRAY_LENGTH(ARRAY[1, 2])", 2),
    F("ARRAY_OFFSET", "ARRAY_OFFSET(ARRAY['a', 'b'], 1)", "b"),
    F("ARRAY_OFFSET_OF", "ARRAY_OFFSET_OF(ARRAY['a', 'b'], 'b')", 1),
    F("ARRAY_ORDINAL", "ARRAY_ORDINAL(ARRAY['a', 'b'], 1)", "a"),
    F("ARRAY_ORDINAL_OF", "ARRAY_ORDINAL_OF(ARRAY['a', 'b'], 'b')", 2),
    F("ARRAY_OVERLAP", "ARRAY_OVERLAP(ARRAY[1, 2], ARRAY[2, 3])", True),
    F("ARRAY_PREPEND", "ARRAY_PREPEND(1, ARRAY[2])", [1, 2]),
    F("ARRAY_SLICE", "ARRAY_SLICE(ARRAY[1, 2, 3], 1, 3)", [2, 3]),
    F("ARRAY_TO_MV", "MV_LENGTH(ARRAY_TO_MV(ARRAY['a', 'b']))", 2),
    F("ARRAY_TO_STRING", "ARRAY_TO_STRING(ARRAY[1, 2], '-')", "1-2"),
    F("MV_APPEND", "MV_TO_ARRAY(MV_APPEND(mv, 'z'))", ["x", "y", "z"]),
    F("MV_CONCAT", "MV_TO_ARRAY(MV_CONCAT(mv, mv))", ["x", "y", "x", "y"]),
    F("MV_CONTAINS", "MV_CONTAINS(mv, 'y')", True),
    F("MV_FILTER_NONE", "MV_FILTER_NONE(mv, ARRAY['x'])", "y"),
    F("MV_FILTER_ONLY", "MV_FILTER_ONLY(mv, ARRAY['x'])", "x"),
    F("MV_FILTER_PREFIX", "MV_FILTER_PREFIX(mv, 'x')", "x"),
    F("MV_FILTER_REGEX", "MV_FILTER_REGEX(mv, '[y-z]')", "y"),
    F("MV_LENGTH", "MV_LENGTH(mv)", 2),
    F("MV_OFFSET", "MV_OFFSET(mv, 1)", "y"),
    F("MV_OFFSET_OF", "MV_OFFSET_OF(mv, 'y')", 1),
    F("MV_ORDINAL", "MV_ORDINAL(mv, 1)", "x"),
    F("MV_ORDINAL_OF", "MV_ORDINAL_OF(mv, 'y')", 2),
    F("MV_OVERLAP", "MV_OVERLAP(mv, ARRAY['y', 'q'])", True),
    F("MV_PREPEND", "MV_TO_ARRAY(MV_PREPEND('w', mv))", ["w", "x", "y"]),
    F("MV_SLICE", "MV_SLICE(mv, 1, 2)", "y"),
    F("MV_TO_ARRAY", "MV_TO_ARRAY(mv)", ["x", "y"]),
    F("MV_TO_STRING", "MV_TO_STRING(mv, '+')", "x+y"),
    F("SCALAR_IN_ARRAY", "SCALAR_IN_ARRAY(2, ARRAY[1, 2])", True),
    F("STRING_TO_ARRAY", "STRING_TO_ARRAY('a1b', '[0-9]')", ["a", "b"]),
    F("STRING_TO_MV", "MV_LENGTH(STRING_TO_MV('a,b', ','))", 2),
    F("UNNEST", "(SELECT MAX(e) FROM UNNEST(ARRAY[1, 5, 2]) AS u(e))", 5),
]
NESTED = [
    F("JSON_KEYS", "JSON_KEYS(PARSE_JSON(S), '$.k')", ["x", "y"]),
    F("JSON_MERGE", "TO_JSON_STRING(JSON_MERGE(PARSE_JSON('{\"a\":1}'), PARSE_JSON('{\"b\":2}')))", '{"a":1,"b":2}'),
    F("JSON_OBJECT", "TO_JSON_STRING(JSON_OBJECT(KEY 'a' VALUE 1))", '{"a":1}'),
    F("JSON_PATHS", "ARRAY_LENGTH(JSON_PATHS(PARSE_JSON(S)))", 3),
    F("JSON_QUERY", "TO_JSON_STRING(JSON_QUERY(PARSE_JSON(S), '$.k.y'))", "[1,2]"),
    F("JSON_QUERY_ARRAY", "ARRAY_LENGTH(JSON_QUERY_ARRAY(PARSE_JSON(S), '$.k.y'))", 2),
    F("JSON_VALUE", "JSON_VALUE(PARSE_JSON(S), '$.k.x' RETURNING BIGINT)", 1),
    F("PARSE_JSON", "TO_JSON_STRING(PARSE_JSON('{\"a\": 1}'))", '{"a":1}'),
    F("TO_JSON_STRING", "TO_JSON_STRING('a')", '"a"'),
    F("TRY_PARSE_JSON", "TRY_PARSE_JSON('{')", None),
]
BY_N = "OVER (ORDER BY n)"
WINDOWS = [
    F("CUME_DIST", f"CUME_DIST() {BY_N}", 0.25),
    F("DENSE_RANK", f"DENSE_RANK() {BY_N}", 1),
    F("FIRST_VALUE", f"FIRST_VALUE(n) {BY_N}", 1),
    F("LAG", f"LAG(n) {BY_N}", None),
    F("LAST_VALUE", "LAST_VALUE(n) OVER (ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)", 4),
    F("LEAD", f"LEAD(n, 2, -1) {BY_N}", 3),
    F("NTILE", f"NTILE(2) {BY_N}", 1),
    F("PERCENT_RANK", f"PERCENT_RANK() {BY_N}", 0.0),
    F("RANK", f"RANK() {BY_N}", 1),
    F("ROW_NUMBER", f"ROW_NUMBER() {BY_N}", 1),
]
AS_DRUID = "Druid lists it and refuses it as well"
ROUTINES = [
    F("$SUM0", "$SUM0(n) FILTER (WHERE n > 9)", 0),
    F("+", "1 + 2", 3),
    F("-", "n - 3", -2),
    F("APPEND", "(SELECT COUNT(*) FROM TABLE(APPEND('t', 't')))", 8),
    F("APPROX_COUNT_DISTINCT_DS_HLL_UTF8", "APPROX_COUNT_DISTINCT_DS_HLL_UTF8(s)", 1, EXACT),
    F("ARRAY", "ARRAY[n, 7]", [1, 7]),
    F("ARRAY_QUANTILE", "ARRAY_QUANTILE(ARRAY[1, 2, 3, 4], 0.9)", 3.7),
    F("BETWEEN ASYMMETRIC", "2 BETWEEN 3 AND 1", False),
    F("BETWEEN SYMMETRIC", "2 BETWEEN SYMMETRIC 3 AND 1", True),
    F("COMPLEX_DECODE_BASE64", "THETA_SKETCH_ESTIMATE(COMPLEX_DECODE_BASE64('thetaSketch', 'AQMDAAAezJM='))", 0.0),
    F("CURRENT_TIME", "CURRENT_TIME", UnsupportedQuery, told="use CURRENT_TIMESTAMP"),
    F("IFNULL", "IFNULL(NULL, 3)", 3),
    F("ITEM", "ARRAY[1, 2][1]", UnsupportedQuery, told="use ARRAY_OFFSET"),
    F("JSON_VALUE_ANY", "JSON_VALUE_ANY(PARSE_JSON(S), '$.z')", "t"),
    F("JSON_VALUE_ARRAY_BIGINT", "JSON_VALUE_ARRAY_BIGINT(PARSE_JSON(S), '$.k.y')", [1, 2]),
    F("JSON_VALUE_ARRAY_DOUBLE", "JSON_VALUE_ARRAY_DOUBLE(PARSE_JSON(S), '$.k.y')", [1.0, 2.0]),
    F("JSON_VALUE_ARRAY_VARCHAR", "JSON_VALUE_ARRAY_VARCHAR(PARSE_JSON(S), '$.k.y')", ["1", "2"]),
    F("JSON_VALUE_BIGINT", "JSON_VALUE_BIGINT(PARSE_JSON(S), '$.k.x')", 1),
    F("JSON_VALUE_DOUBLE", "JSON_VALUE_DOUBLE(PARSE_JSON(S), '$.k.x')", 1.0),
    F("JSON_VALUE_VARCHAR", "JSON_VALUE_VARCHAR(PARSE_JSON(S), '$.k.x')", "1"),
    F("LIKE", "s LIKE 'a%'", True),
    F("LITERAL_AGG", "LITERAL_AGG(n)", UnsupportedQuery, told=AS_DRUID),
    F("LOCALTIME", "LOCALTIME", UnsupportedQuery, told="use LOCALTIMESTAMP"),
    F("LOCALTIMESTAMP", "LOCALTIMESTAMP", "2024-03-10T12:34:56.789Z"),
    F("NOT BETWEEN ASYMMETRIC", "2 NOT BETWEEN 3 AND 1", True),
    F("NOT BETWEEN SYMMETRIC", "2 NOT BETWEEN SYMMETRIC 3 AND 1", False),
    F("NOT LIKE", "s NOT LIKE 'a%'", False),
    F("REINTERPRET", "REINTERPRET(n)", UnsupportedQuery, told=AS_DRUID),
    F("ROW", "ROW(n, s)", UnsupportedQuery, told="Druid refuses it as well"),
    F("SEARCH", "SEARCH(n, 1)", UnsupportedQuery, told=AS_DRUID),
    F("SINGLE_VALUE", "SINGLE_VALUE(n) FILTER (WHERE n = 3)", 3),
]
"""What a running Druid 33 lists among its routines beside what its pages name."""
FAMILIES = {
    "Aggregates": AGGREGATES,
    "Sketches": SKETCHES,
    "Numbers": NUMBERS,
    "Texts": TEXTS,
    "Times": TIMES,
    "Choice, addresses and others": CHOICES,
    "Arrays and multi-value strings": LISTS,
    "Nested data": NESTED,
    "Windows": WINDOWS,
    "Only among Druid's routines": ROUTINES,
}
DOCUMENTED = [one for family in FAMILIES.values() for one in family]
