"""Druid's filters on Arrow columns: which rows pass, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from segments.filter.evaluate import passing_rows
from segments.filter.model import columns_of
from segments.filter.parse import like_to_pattern, parse_filter

COLUMNS = {
    "s": pa.array(["a", "b", None, "", "10"]),
    "n": pa.array([1, 2, None, 10, -5]),
    "d": pa.array([1.0, 2.5, None, 10.0, -0.5]),
    "m": pa.array([["a", "b"], ["c"], None, [None, "a"], []], pa.list_(pa.string())),
}
TIMES = np.array([0, 1_000, 2_000, 3_000, 4_000], dtype=np.int64)


def passing(item: dict[str, Any]) -> list[int]:
    parsed, problems = parse_filter(item, "$.filter")
    assert parsed is not None, problems
    return [int(at) for at in np.flatnonzero(passing_rows(parsed, COLUMNS, TIMES))]


@pytest.mark.parametrize(
    ("item", "rows"),
    [
        ({"type": "selector", "dimension": "s", "value": "a"}, [0]),
        ({"type": "selector", "dimension": "s", "value": None}, [2]),
        ({"type": "selector", "dimension": "s", "value": ""}, [3]),
        ({"type": "selector", "dimension": "s", "value": 10}, [4]),
        ({"type": "selector", "dimension": "n", "value": "10"}, [3]),
        ({"type": "selector", "dimension": "n", "value": "x"}, []),
        ({"type": "selector", "dimension": "m", "value": "a"}, [0, 3]),
        ({"type": "selector", "dimension": "nowhere", "value": None}, [0, 1, 2, 3, 4]),
        ({"type": "in", "dimension": "s", "values": ["a", None, "zz"]}, [0, 2]),
        ({"type": "in", "dimension": "n", "values": ["1", 2, 3.5]}, [0, 1]),
        ({"type": "equals", "column": "d", "matchValueType": "DOUBLE", "matchValue": 2.5}, [1]),
        ({"type": "equals", "column": "s", "matchValueType": "LONG", "matchValue": 10}, [4]),
        ({"type": "range", "column": "n", "matchValueType": "LONG", "lower": 1, "upper": 9, "upperOpen": True}, [0, 1]),
        ({"type": "range", "column": "d", "matchValueType": "DOUBLE", "upper": 0}, [4]),
        ({"type": "bound", "dimension": "s", "lower": "a", "upper": "b"}, [0, 1]),
        ({"type": "bound", "dimension": "s", "lower": "9", "ordering": "numeric"}, [4]),
        ({"type": "bound", "dimension": "n", "lower": "1", "lowerStrict": True, "ordering": "numeric"}, [1, 3]),
        ({"type": "null", "column": "d"}, [2]),
        ({"type": "like", "dimension": "s", "pattern": "_0"}, [4]),
        ({"type": "like", "dimension": "m", "pattern": "%b"}, [0]),
        ({"type": "regex", "dimension": "s", "pattern": "^[ab]$"}, [0, 1]),
        ({"type": "interval", "dimension": "__time", "intervals": ["1970-01-01/PT2S"]}, [0, 1]),
        ({"type": "columnComparison", "dimensions": ["n", "s"]}, [2]),
        ({"type": "true"}, [0, 1, 2, 3, 4]),
        ({"type": "false"}, []),
        ({"type": "not", "field": {"type": "selector", "dimension": "s", "value": "a"}}, [1, 3, 4]),
        ({"type": "not", "field": {"type": "null", "column": "s"}}, [0, 1, 3, 4]),
        (
            {
                "type": "and",
                "fields": [
                    {"type": "selector", "dimension": "m", "value": "a"},
                    {
                        "type": "or",
                        "fields": [
                            {"type": "null", "column": "s"},
                            {"type": "like", "dimension": "s", "pattern": "a%"},
                        ],
                    },
                ],
            },
            [0],
        ),
    ],
)
def test_a_filter_passes_exactly_these_rows(item: dict[str, Any], rows: list[int]) -> None:
    assert passing(item) == rows


def test_every_fault_of_a_filter_is_told_with_its_path() -> None:
    item = {
        "type": "and",
        "fields": [
            {"type": "javascript"},
            {"type": "selector"},
            {"type": "not", "field": 7},
            {"type": "in", "dimension": "s", "values": "a"},
            {"type": "equals", "column": "s", "matchValueType": "ARRAY<LONG>", "matchValue": [1]},
            {"type": "regex", "dimension": "s", "pattern": "(?<=a)b"},
            {"type": "selector", "dimension": "s", "value": "a", "extractionFn": {"type": "upper"}},
            {"type": "interval", "dimension": "__time", "intervals": ["yesterday"]},
        ],
    }
    parsed, problems = parse_filter(item, "$.filter")
    assert parsed is None
    assert [problem.path for problem in problems] == [
        "$.filter.fields[0].type",
        "$.filter.fields[1].column",
        "$.filter.fields[2].field",
        "$.filter.fields[3].values",
        "$.filter.fields[4].matchValueType",
        "$.filter.fields[5].pattern",
        "$.filter.fields[6].extractionFn",
        "$.filter.fields[7].intervals[0]",
    ]


def test_like_patterns_take_every_other_character_literally() -> None:
    assert like_to_pattern("50\\%.", "\\") == r"^50%\.\z"


def test_a_filter_knows_the_columns_it_reads() -> None:
    parsed, _ = parse_filter({"type": "columnComparison", "dimensions": ["a", "b"]}, "$")
    assert parsed is not None and columns_of(parsed) == {"a", "b"}


@pytest.mark.parametrize(
    ("item", "path"),
    [
        ({"type": {"type": "and"}}, "$.filter.type"),
        ({"type": ["selector"]}, "$.filter.type"),
        ({"type": "bound", "dimension": "s", "lower": "a", "ordering": ["numeric"]}, "$.filter.ordering"),
        ({"type": "bound", "dimension": "s", "lower": "a", "ordering": {"type": {}}}, "$.filter.ordering"),
    ],
)
def test_a_kind_that_is_no_text_is_refused_by_its_path(item: dict[str, Any], path: str) -> None:
    parsed, problems = parse_filter(item, "$.filter")
    assert parsed is None and [problem.path for problem in problems] == [path]
