"""Native queries with something wrong in them: each is answered or refused, none breaks planner or engine."""

import copy
import json
from collections.abc import Iterator
from random import Random
from typing import Any

import duckdb

from query.errors import QueryError
from segments.expression.functions import ARITIES, LAMBDA_FIRST
from tests.conformance.native import answer_text, answered
from tests.conformance.running import cases

JUNK: list[Any] = [None, True, -1, 10**30, 1.5, "", "x", "tags", "labels", "__time", [], {}, {"type": "x"}]
LEAVES = [
    "device",
    "tags",
    "quantity",
    "price",
    "__time",
    "labels",
    "payload",
    "nobody",
    "1",
    "2.5",
    "'a'",
    "''",
    "null",
    "'P1D'",
    "'LONG'",
    "'$.a'",
    "[1,2]",
    "x",
]
OPERATORS = ["+", "-", "*", "/", "%", "^", "<", "<=", "==", "!=", "&&", "||"]
# What a value does not allow is told by the engine, and by the node as invalid input.
VALUE_ERRORS = (duckdb.ConversionException, duckdb.OutOfRangeException, duckdb.InvalidInputException)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in children:
        yield from places(inner, (*path, key))


def changed(random: Random, query: Any, others: list[Any]) -> Any:
    query = copy.deepcopy(query)
    *way, last = random.choice(list(places(query)))
    holder = query
    for key in way:
        holder = holder[key]
    if isinstance(holder, dict) and random.random() < 0.2:
        del holder[last]
    else:
        holder[last] = random.choice(random.choice([JUNK, others]))
    return query


def test_a_query_with_one_part_changed_is_answered_or_refused() -> None:
    random = Random(7)
    queries = [case["request"] for case in cases().values() if case["kind"] == "native"]
    filters = [query["filter"] for query in queries if "filter" in query]
    answers = 0
    for _ in range(150):
        query = changed(random, random.choice(queries), filters)
        try:
            json.loads(answer_text(query))
            answers += 1
        except QueryError:
            pass
    assert answers > 10


def expression(random: Random, depth: int) -> str:
    if depth == 0 or random.random() < 0.2:
        return random.choice(LEAVES)
    if random.random() < 0.4:
        return f"({expression(random, depth - 1)} {random.choice(OPERATORS)} {expression(random, depth - 1)})"
    name = random.choice(sorted(ARITIES))
    least, most = ARITIES[name]
    arguments = [expression(random, depth - 1) for _ in range(random.randint(least, min(most, least + 2)))]
    if name in LAMBDA_FIRST:
        arguments[0] = f"(x) -> {expression(random, 1)}"
    return f"{name}({', '.join(arguments)})"


def test_an_expression_of_any_functions_has_a_value_or_is_refused() -> None:
    random, values = Random(7), 0
    for _ in range(150):
        column = {"type": "expression", "name": "v", "expression": expression(random, 2)}
        try:
            answered(queryType="groupBy", dataSource="events", intervals="0/3000", dimensions=["v"],
                     virtualColumns=[column])  # fmt: skip
            values += 1
        except (QueryError, *VALUE_ERRORS):
            pass
    assert values > 30
