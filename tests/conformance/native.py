"""Runs native queries over the tables of the cases, and says whether an answer is the recorded one."""

import json
from functools import cache
from typing import Any

import pyarrow as pa

from query.native.aggregators_told import aggregators_of
from query.native.plan import SegmentFact
from query.native.planner import plan
from query.sql.catalogue import MemoryCatalogue
from query.sql.metadata import NoSystemTables
from segments.civil import month_number, month_start_ms
from server.catalog import declared_schema
from tests.conformance import tables
from tests.conformance.engine import NOW_MS, run
from tests.conformance.judging import DEFAULT_TOLERANCE, same, same_bag

Case = dict[str, Any]
_FACTS = ("intervals", "numRows", "rollup", "queryGranularity")
_COLUMN_FACTS = ("typeSignature", "hasMultipleValues", "hasNulls", "cardinality", "minValue", "maxValue")


class RecordedCatalogue(MemoryCatalogue):
    """The tables of the cases with what is known of their rows; segments are of one month each."""

    def time_range(self, name: str) -> tuple[int, int] | None:
        times = _times(name) if self.table(name) else []
        return (min(times), max(times)) if times else None

    def segments(self, name: str) -> list[SegmentFact]:
        months = sorted({month_number(time_ms) for time_ms in _times(name)})
        posted = json.loads((tables.HERE / "specs" / f"{name}.json").read_text(encoding="utf-8"))
        posted["spec"]["ioConfig"]["consumerProperties"] = {"bootstrap.servers": "none"}
        schema = declared_schema(json.dumps(posted).encode())
        told = schema.rollup, schema.query_granularity.name, aggregators_of(schema)
        return [SegmentFact(f"{name}_{at}", (month_start_ms(at), month_start_ms(at + 1)), 1, 1, *told) for at in months]


def _times(name: str) -> list[int]:
    column = tables.rows_of(name)["__time"].cast(pa.int64())
    return [int(time_ms) for time_ms in column.to_pylist() if time_ms is not None]


@cache
def catalogue() -> RecordedCatalogue:
    known = tables.catalogue()
    found = [known.table(name) for name in tables.TABLES]
    return RecordedCatalogue([table for table in found if table is not None], known.lookups)


def answer_text(body: Any) -> str:
    """The body of the answer to a native query."""
    planned = plan(body, catalogue(), NOW_MS)
    batches = run(planned.planned, catalogue(), tables.rows_of, NoSystemTables())
    return b"".join(planned.pieces(batches)).decode()


def answered(**query: Any) -> Any:
    """The answer to a native query, from its members."""
    return json.loads(answer_text(query))


def judge_native(case: Case, actual: Any) -> str | None:
    """None when the answer is right, else what is wrong."""
    expected, tolerance = case["expected"]["result"], case.get("tolerance", DEFAULT_TOLERANCE)
    query = case["request"]
    if case.get("compare") == "segmentMetadata":
        expected, actual = [list(map(_facts, side)) for side in (expected, actual)]
    elif query["queryType"] == "scan":
        expected, actual = _events(expected), _events(actual)
        if query.get("order", "none") == "none":
            return None if same_bag(expected, actual, tolerance) else f"{actual[:3]}, expected {expected[:3]}"
    right = same(expected, actual, tolerance)
    return None if right else f"{json.dumps(actual)[:1500]}, expected {json.dumps(expected)[:1500]}"


def _events(answer: list[Any]) -> list[Any]:
    return [
        event if isinstance(event, dict) else dict(zip(block["columns"], event, strict=True))
        for block in answer
        for event in block["events"]
    ]


def _facts(analysis: Case) -> Case:
    columns = {
        name: {key: column.get(key) for key in _COLUMN_FACTS} for name, column in (analysis["columns"] or {}).items()
    }
    return {key: analysis.get(key) for key in _FACTS} | {
        "columns": columns,
        "aggregators": analysis.get("aggregators") or {},
    }
