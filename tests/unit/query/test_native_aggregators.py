"""Native aggregators that are computed in a way of their own."""

from __future__ import annotations

from typing import Any

import pytest

from query.errors import InvalidQuery, QueryError
from tests.conformance.engine import answered_rows
from tests.conformance.native import answered


def totals(*aggregations: Any, posts: Any = (), **changes: Any) -> Any:
    answer = answered(
        queryType="timeseries", dataSource="events", granularity="all", intervals="2000/3000",
        aggregations=list(aggregations), postAggregations=list(posts), **changes,
    )  # fmt: skip
    return answer[0]["result"]


def test_variance_and_its_root_are_those_of_sql() -> None:
    sample, population, root = answered_rows("SELECT VAR_SAMP(price), VAR_POP(price), STDDEV_SAMP(price) FROM events")[
        0
    ]
    found = totals(
        {"type": "variance", "name": "v", "fieldName": "price"},
        {"type": "variance", "name": "p", "fieldName": "price", "estimator": "population"},
        posts=[{"type": "stddev", "name": "s", "fieldName": "v"}],
    )
    assert found == {"v": pytest.approx(sample), "p": pytest.approx(population), "s": pytest.approx(root)}


def test_the_first_and_last_time_are_milliseconds() -> None:
    first, last = answered_rows(
        "SELECT TIMESTAMP_TO_MILLIS(MIN(__time)), TIMESTAMP_TO_MILLIS(MAX(__time)) FROM events"
    )[0]
    found = totals({"type": "timeMin", "name": "a", "fieldName": "__time"}, {"type": "timeMax", "name": "z"})
    assert found == {"a": first, "z": last}


def test_an_expression_folds_the_rows_of_each_group() -> None:
    fold = {
        "type": "expression", "name": "s", "fields": ["quantity"], "initialValue": "0",
        "fold": "__acc + nvl(quantity, 0)",
    }  # fmt: skip
    (wanted,) = answered_rows("SELECT SUM(quantity) FROM events")[0]
    assert totals(fold) == {"s": wanted}
    assert totals({**fold, "finalize": "o * 2"}) == {"s": 2 * wanted}
    filtered = {"type": "filtered", "filter": {"type": "false"}, "aggregator": {**fold, "initialValue": "7"}}
    assert totals(filtered) == {"s": 7}, "as it began, where there are no rows"
    longest = {
        "type": "expression", "name": "l", "fields": ["user"], "initialValue": "0", "accumulatorIdentifier": "m",
        "fold": "if(strlen(user) > m, strlen(user), m)",
    }  # fmt: skip
    assert totals(longest)["l"] == answered_rows("SELECT MAX(LENGTH(user)) FROM events")[0][0]
    seen = {
        "type": "expression", "name": "d", "fields": ["device"], "initialValue": "ARRAY<STRING>[]",
        "fold": "array_append(__acc, device)", "finalize": "array_length(o)",
    }  # fmt: skip
    assert totals(seen) == {"d": 200}


@pytest.mark.parametrize(
    ("aggregator", "told"),
    [
        ({"type": "variance", "name": "v", "fieldName": "price", "estimator": "odd"}, "neither sample nor population"),
        ({"type": "variance", "name": "v", "fieldName": "tags"}, "is not possible"),
        ({"type": "expression", "name": "e", "fields": [], "initialValue": "0"}, "fold"),
        ({"type": "expression", "name": "e", "fields": [], "initialValue": "0", "fold": "1 +"}, "at"),
    ],
)
def test_what_does_not_fit_says_why(aggregator: Any, told: str) -> None:
    with pytest.raises(QueryError) as refused:
        totals(aggregator)
    assert told in refused.value.message and isinstance(refused.value, InvalidQuery)
