"""The tables of the cases as Arrow, made from the data and specs beside this file, and their catalogue."""

import json
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from query.sql.catalogue import ColumnDef, MemoryCatalogue, TableDef
from query.sql.types import BIGINT, DOUBLE, FLOAT, MULTI_VARCHAR, TIMESTAMP, VARCHAR, SqlType, array_of
from segments.civil import DAY_MS, parse_iso_ms
from segments.sketch.build import column_sketch
from segments.sketch.shape import SketchKind, SketchShape

HERE = Path(__file__).parent
TABLES = ("events", "hourly", "products", "readings")
LOOKUPS = {
    "country_names": {"CH": "Switzerland", "JP": "Japan", "BR": "Brazil", "PL": "Poland", "US": "United States"},
}
MULTI_VALUE = {"tags", "colors"}
_TYPES = {
    "string": VARCHAR,
    "long": BIGINT,
    "double": DOUBLE,
    "float": FLOAT,
    "json": SqlType("OTHER", "json"),
    "ARRAY<LONG>": array_of(BIGINT),
    "ARRAY<STRING>": array_of(VARCHAR),
    "ARRAY<DOUBLE>": array_of(DOUBLE),
}
_METRICS = {
    "events": BIGINT,
    "quantity": BIGINT,
    "price": DOUBLE,
    "max_bytes": BIGINT,
    "min_price": DOUBLE,
    "phones": BIGINT,
    "users_theta": SqlType("OTHER", "thetaSketch"),
    "users_hll": SqlType("OTHER", "HLLSketch"),
    "price_q": SqlType("OTHER", "quantilesDoublesSketch"),
}
_ARROW = {
    "VARCHAR": pa.string(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "FLOAT": pa.float32(),
    "TIMESTAMP": pa.timestamp("ms", "UTC"),
    "OTHER": pa.string(),
}


def _dimension(entry: Any) -> ColumnDef:
    entry = {"name": entry} if isinstance(entry, str) else entry
    kind = _TYPES[entry.get("castToType") or entry.get("type", "string")]
    return ColumnDef(entry["name"], MULTI_VARCHAR if entry["name"] in MULTI_VALUE else kind)


@cache
def catalogue() -> MemoryCatalogue:
    """The four tables."""
    tables = []
    for name in TABLES:
        spec = json.loads((HERE / "specs" / f"{name}.json").read_text())["spec"]["dataSchema"]
        columns = [_dimension(entry) for entry in spec["dimensionsSpec"]["dimensions"]]
        columns += [ColumnDef(metric["name"], _METRICS[metric["name"]]) for metric in spec["metricsSpec"]]
        tables.append(TableDef(name, (ColumnDef("__time", TIMESTAMP), *columns)))
    return MemoryCatalogue(tables, LOOKUPS)


def _cell(value: Any, kind: SqlType) -> Any:
    if kind.multi:
        if value is None:
            return None
        return sorted(value) if isinstance(value, list) else [value]
    return (
        json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        if kind.name == "OTHER" and value is not None and not isinstance(value, bytes)
        else value
    )


def _arrow_type(kind: SqlType) -> Any:
    if kind.duckdb == "BLOB":
        return pa.binary()
    if kind.multi or kind.name == "ARRAY":
        return pa.list_(_ARROW[kind.element or "VARCHAR"])
    return _ARROW[kind.name]


@cache
def rows_of(name: str) -> pa.Table:
    """A table's rows under the columns' own names."""
    with (HERE / "data" / f"{name if name != 'hourly' else 'events'}.jsonl").open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    for row in rows:
        row["__time"] = parse_iso_ms(row.pop("ts"))
    table = catalogue().table(name)
    assert table is not None
    rows = _rolled_up(rows) if name == "hourly" else rows
    return pa.table(
        {
            column.name: pa.array([_cell(row.get(column.name), column.type) for row in rows], _arrow_type(column.type))
            for column in table.columns
        }
    )


def _rolled_up(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[row["__time"] // DAY_MS * DAY_MS, row["country"], row["device"]].append(row)
    return [_group(key, members) for key, members in groups.items()]


def _group(key: tuple[Any, ...], members: list[dict[str, Any]]) -> dict[str, Any]:
    def given(name: str) -> list[Any]:
        return [row[name] for row in members if row[name] is not None]

    return {
        "__time": key[0],
        "country": key[1],
        "device": key[2],
        "events": len(members),
        "quantity": sum(given("quantity")) if given("quantity") else None,
        "price": sum(given("price")) if given("price") else None,
        "max_bytes": max(given("bytes"), default=None),
        "min_price": min(given("price"), default=None),
        "phones": sum(row["device"] == "phone" for row in members),
        "users_theta": _sketch(SketchKind.THETA, given("user"), pa.string()),
        "users_hll": _sketch(SketchKind.HLL, given("user"), pa.string()),
        "price_q": _sketch(SketchKind.QUANTILES, given("price"), pa.float64()),
    }


def _sketch(kind: SketchKind, values: list[Any], type_: Any) -> bytes | None:
    return column_sketch(SketchShape.default(kind), pa.array(values, type_))
