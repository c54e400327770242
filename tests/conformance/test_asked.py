"""Single expressions, filters, extraction functions and orders over a few odd rows, as a real Druid 33.0.0 answered.

`asked.jsonl` holds a statement of one expression, or a native query over ROWS, a line; what Druid refuses is not there.
`told.jsonl` holds statements and native queries over the tables of the cases, with all that Druid told.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from query.model import ResultFormat, SqlRequest
from tests.conformance.engine import answer
from tests.conformance.judging import DEFAULT_TOLERANCE, same, same_bag
from tests.conformance.native import answered
from tests.conformance.tables import HERE

ROWS: dict[str, Any] = {
    "type": "inline",
    "columnNames": ["i", "s", "d", "mv", "z", "v", "t"],
    "columnTypes": ["LONG", "STRING", "DOUBLE", "STRING", "STRING", "STRING", "LONG"],
    "rows": [
        [1, "abc", 0.5, ["x", "y"], None, "1.10", 1709210096789],
        [2, "", 1.5, ["z"], None, "1.9", 0],
        [-13, "12", 2.5, [], None, "1.2-rc1", -1],
        [40, None, None, None, None, "10", 86400000],
        [5, "Ünï 7", 1e10, ["x", "12"], None, "2", 1e12],
        [6, "a1b22", -0.0, ["abc"], None, None, 5],
    ],
}
ALWAYS = "-146136543-09-08T08:23:32.096Z/146140482-04-24T15:36:27.903Z"
ASIDE = ("segmentId", "rowSignature", "timestamp")


@cache
def asked() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (HERE / "asked.jsonl").read_text(encoding="utf-8").splitlines()]


def bare(value: Any) -> Any:
    if isinstance(value, list):
        return [bare(one) for one in value]
    return {key: bare(one) for key, one in value.items() if key not in ASIDE} if isinstance(value, dict) else value


def told(statement: str) -> list[Any]:
    request = SqlRequest(statement, result_format=ResultFormat.ARRAY, header=True, types_header=True)
    found: list[Any] = json.loads(answer(request))
    return found[1:]


def test_expressions_of_sql_have_the_answers_of_druid() -> None:
    cases = [case for case in asked() if "sql" in case]
    wrong = [(case, found) for case in cases if not same([case["types"], case["row"]], found := told(case["sql"]))]
    assert len(cases) > 130 and not wrong


@cache
def told_of_tables() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (HERE / "told.jsonl").read_text(encoding="utf-8").splitlines()]


def test_native_queries_over_the_tables_have_the_answers_of_druid() -> None:
    cases = [case for case in told_of_tables() if "native" in case]
    found = [(case, bare(answered(**case["native"]))) for case in cases]
    wrong = [(case, got) for case, got in found if not same(case["answer"], got)]
    assert len(cases) > 15 and not wrong


def test_statements_over_the_tables_have_the_answers_of_druid() -> None:
    cases = [case for case in told_of_tables() if "sql" in case]
    wrong = []
    for case in cases:
        request = SqlRequest(
            case["sql"], case.get("context", {}), result_format=ResultFormat.ARRAY, header=True, types_header=True
        )
        columns, types, *rows = json.loads(answer(request))
        alike = same if case.get("ordered") else same_bag
        if [columns, types] != [case["columns"], case["types"]] or not alike(case["rows"], rows, DEFAULT_TOLERANCE):
            wrong.append((case, columns, types, rows))
    assert len(cases) > 50 and not wrong


@pytest.mark.parametrize("kind", ["groupBy", "timeseries", "topN", "search", "scan"])
def test_native_queries_over_odd_rows_have_the_answers_of_druid(kind: str) -> None:
    cases = [case for case in asked() if case.get("native", {}).get("queryType") == kind]
    wrong = []
    for case in cases:
        query = {"dataSource": ROWS, "intervals": ALWAYS, "granularity": "all"} | case["native"]
        found = bare(answered(**query))
        if not same(case["answer"], found):
            wrong.append((case, found))
    assert len(cases) >= 15 and not wrong
