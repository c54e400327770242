"""Rows as a real Druid 33 read them (recorded), but for the differences that are documented."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from ingest.appenderator.decoding import RowDecoder
from tests.unit.ingest.appenderator.rows import OPENED_MS, poll_of, spec_of
from tests.unit.ingest.appenderator.test_appenderator import held, merged, published_rows

CASES = [
    json.loads(line) for line in (Path(__file__).parents[3] / "data" / "druid-rows.jsonl").read_text().splitlines()
]
# Docs: docs/reference/spec.md, "Differences from Druid".
OBJECTS = {"ingest-flatten-03": {"obj": '{"c":5}'}}  # Druid writes a Java map
DIFFERENT: dict[str, dict[int, Any]] = {
    "ingest-types-02": {6: '{"a":1}', 8: "9223372036854775808"},  # JSON text; an integer keeps its digits
    "ingest-types-04": {8: None},  # beyond 64 bits: never clamped
    "ingest-types-18": {2: None},
    "ingest-multi-value-05": {1: ['["a"]', "b"], 2: '{"k":1}'},
}


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_rows_are_as_druid_reads_them(case: dict[str, Any], tmp_path: Path) -> None:
    schema = {**case["dataSchema"], "dataSource": "table"}
    spec = spec_of(schema, input_format=case["inputFormat"])
    # A header row stands at the start of a message, as at the start of a file.
    messages = [case["input"].encode()] if case.get("whole") else case["input"].encode().split(b"\n")
    if case["dataSchema"].get("granularitySpec", {}).get("rollup"):
        appenderator = held(tmp_path, spec)
        appenderator.append(1, [poll_of(messages)])
        stored = [
            {**row, "__time": round(row["__time"].timestamp() * 1000)} for row in published_rows(merged(appenderator))
        ]
        assert _by_text(stored) == _by_text([item["parsed"] for item in case["expected"]])
        return
    batch = RowDecoder(spec.data_schema).decode([poll_of(messages)], OPENED_MS)
    nested = {column.name for column in batch.schema.columns if column.is_json}
    rows = {int(message): row for message, row in zip(batch.row_message, batch.rows.to_pylist(), strict=True)}
    for row in rows.values():
        row.update({name: json.loads(row[name]) for name in nested if row[name] is not None})
    expected = [item for item in case["expected"]]
    if len(expected) != batch.messages:
        assert [row["__time"] for row in rows.values()] == [item["parsed"]["__time"] for item in expected]
        return
    for at, item in enumerate(expected):
        parsed = item.get("parsed")
        assert (at in rows) == (parsed is not None), f"row {at}"
        if parsed is None:
            continue
        for name, value in parsed.items():
            wanted = DIFFERENT.get(case["id"], {}).get(at, value) if name == "v" else value
            wanted = OBJECTS.get(case["id"], {}).get(name, wanted)
            auto = name != "__time" and _is_auto(spec, name)
            assert _same(rows[at].get(name), wanted, auto), f"row {at}, {name}: {rows[at].get(name)!r}"


def _by_text(rows: list[dict[str, Any]]) -> list[str]:
    """In one order; a single value and a list of it alike, as a query shows them."""
    plain = [{k: v[0] if isinstance(v, list) and len(v) == 1 else v for k, v in row.items()} for row in rows]
    return sorted(json.dumps(row, sort_keys=True) for row in plain)


def _is_auto(spec: Any, name: str) -> bool:
    kinds = {dimension.name: dimension.type for dimension in spec.data_schema.dimensions}
    kind: str = kinds.get(name, "auto" if spec.data_schema.discovery.value == "typed" else "string")
    return kind == "auto"


def _same(found: Any, wanted: Any, auto: bool) -> bool:
    """Druid's sampler shows an auto column's values as they came; here the column has one type already."""
    if isinstance(found, list) and not isinstance(wanted, list):
        # A text of one member is shown as that, and one without members as null.
        found = found[0] if len(found) == 1 else found or None
    if wanted == "NaN" and isinstance(found, float):
        return math.isnan(found)
    if isinstance(found, int | float) and isinstance(wanted, float):
        return math.isclose(found, wanted, rel_tol=1e-6)
    if auto and not isinstance(wanted, list | dict) and found is not None and wanted is not None:
        if isinstance(wanted, int | float) and not isinstance(found, str):
            return bool(float(found) == float(wanted))
        return bool(str(found).lower() == str(wanted).lower())
    if auto:
        return bool(found is not None or wanted in (None, []))
    return bool(found == wanted)
