"""Recorded answers over rows that went through the row path: nested data, arrays, sketches, filtered aggregates.

The other cases run over tables that are made by hand; here the specs and data of the recording become segments.
"""

from __future__ import annotations

import json
from functools import cache, partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from ingest.appenderator.appenderator import Appenderator
from ingest.spec import parse_supervisor_spec
from query.binding import ChunkGroup, FileGroup, bind_table, quote
from query.columns import table_def
from query.model import ColumnUse, TableUse
from query.sql.catalogue import MemoryCatalogue, TableDef
from segments.arrow_schema import column_of_field
from segments.live import LiveAsk
from segments.parquet.reader import read_footer
from server.catalog import declared_schema
from tests.conformance import running
from tests.conformance.engine import answer
from tests.conformance.tables import HERE
from tests.unit.ingest.appenderator.rows import poll_of
from tests.unit.ingest.appenderator.test_appenderator import held, merged

NAMES = ("labels", "scores", "ratios", "payload", "phones", "users_theta", "users_hll", "price_q")
TABLES = {"events": "events", "hourly": "events", "products": "products", "readings": "readings"}
UNBUILT: dict[str, str] = json.loads((HERE / "unbuilt.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("state", ["live", "published"])
def test_recorded_answers_hold_over_ingested_rows(state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ingested = {name: table_of(name, tmp_path / name, state) for name in TABLES}
    catalogue = MemoryCatalogue([table for table, _ in ingested.values()])
    over: Any = {"catalogue": catalogue, "rows": lambda name: ingested[name][1]}
    monkeypatch.setattr(running, "answer", partial(answer, **over))
    wrong = {name: found for name in chosen() if (found := running.fault(running.cases()[name])) is not None}
    assert len(chosen()) > 40
    assert not wrong, "\n".join(f"{name}: {found}" for name, found in wrong.items())


def table_of(name: str, folder: Path, state: str) -> tuple[TableDef, pa.Table]:
    """A table of the recording: its definition, and its rows under their own names as a statement binds them."""
    posted = json.loads((HERE / "specs" / f"{name}.json").read_text(encoding="utf-8"))
    posted["spec"]["ioConfig"]["consumerProperties"] = {"bootstrap.servers": "none"}
    spec = parse_supervisor_spec(posted)[0]
    rows = held(folder, spec)
    lines = (HERE / "data" / f"{TABLES[name]}.jsonl").read_bytes().splitlines()
    for first in range(0, len(lines), 60):
        if first == 120:
            # Two batches live in a spill, the others in memory.
            rows.persist()
        rows.append(1, [poll_of(lines[first : first + 60], first)])
    chunks = chunks_of(rows, folder) if state == "live" else []
    files = [file.path for file in merged(rows).files] if state == "published" else []
    return bound(posted, files, chunks)


def bound(posted: dict[str, Any], files: list[Path], chunks: list[ChunkGroup]) -> tuple[TableDef, pa.Table]:
    """The table that a spec declares over segments and live chunks, and its rows."""
    name = parse_supervisor_spec(posted)[0].datasource
    groups = [FileGroup(read_footer(path).schema, (str(path),)) for path in files]
    stored, live = [group.schema for group in groups], [group.columns for group in chunks]
    table = table_def(name, declared_schema(json.dumps(posted).encode()), stored, live)
    columns = tuple(
        ColumnUse(c.name, f"c{at}", c.type, "TIMESTAMP WITH TIME ZONE" if c.name == "__time" else c.type.duckdb)
        for at, c in enumerate(table.columns)
    )
    relation = bind_table(TableUse("druid", name, "r", columns), groups, chunks)
    connection = _connection()
    for source in relation.arrow:
        # As a query's worker maps them.
        tables = [pa.ipc.open_stream(Path(path).read_bytes()).read_all() for path in source.paths]
        taken = pa.concat_tables([table.select(list(source.columns)) for table in tables])
        connection.register(source.name, taken.rename_columns([f"k{at}" for at in range(len(source.columns))]))
    selected = ", ".join(f"{quote(column.internal)} AS {quote(column.name)}" for column in columns)
    return table, connection.sql(f"SELECT {selected} FROM ({relation.sql})").to_arrow_table()


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def chunks_of(rows: Appenderator, folder: Path) -> list[ChunkGroup]:
    """The live chunks as a query node mirrors them."""
    groups: list[ChunkGroup] = []
    for chunk in rows.live(LiveAsk(1, 7, {0: 0}, {})).sequences[0].chunks:
        path = folder / f"chunk-{chunk.number}"
        content = rows.chunk_bytes(chunk.number)
        assert content is not None
        path.write_bytes(content)
        columns = tuple(column_of_field(field) for field in pa.ipc.open_stream(content).schema)
        groups.append(ChunkGroup(columns, (str(path),)))
    return groups


@cache
def chosen() -> list[str]:
    """The statements that read a column of these kinds."""
    found = []
    for name, case in running.cases().items():
        if (
            case["kind"] == "sql"
            and name not in UNBUILT
            and any(column in json.dumps(case["request"]) for column in NAMES)
        ):
            found.append(name)
    return found
