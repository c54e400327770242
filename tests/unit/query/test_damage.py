"""A damaged local file of a segment is found, told by its segment, and brought anew."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from query.bound import BoundQuery
from query.damage import damage_of
from query.engine import Engine
from query.errors import QueryUnavailable, UnsupportedQuery
from query.model import SqlRequest
from query.node import NOTHING
from query.sql.planner import plan
from segments.errors import SegmentNotFound
from tests.unit.query.memory_table import MemoryTable
from tests.unit.query.node_steps import Start, ask, until

DAMAGE: dict[str, Any] = {
    "a file cut short": lambda path: path.write_bytes(path.read_bytes()[:-20]),
    "an empty file": lambda path: path.write_bytes(b""),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "a missing file": lambda path: path.unlink(),
    "a lost column": lambda path: pq.write_table(pq.read_table(path, columns=["__time", "page"]), path),
    "other values": lambda path: pq.write_table(
        (read := pq.read_table(path)).set_column(
            read.schema.get_field_index("added"), "added", pa.array([0] * len(read), pa.int64())
        ),
        path,
    ),
    "another type": lambda path: pq.write_table(
        (read := pq.read_table(path)).set_column(2, "added", read.column("added").cast(pa.string())), path
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_every_damage_to_a_file_is_seen(table: MemoryTable, tmp_path: Path, damage: str) -> None:
    table.read(table.tasks[0], 10)
    segment = table.seal_and_publish(table.tasks[0])
    path = tmp_path / "file"
    table.storage.pull(segment.load_spec, path)
    assert damage_of(path, segment) == ""
    DAMAGE[damage](path)
    assert damage_of(path, segment)


def test_a_damaged_file_is_told_with_its_segment_and_brought_anew(start: Start, table: MemoryTable, base: Path) -> None:
    node, task = start(), table.tasks[0]
    table.read(task, 10)
    segment = table.seal_and_publish(task)
    until(lambda: table.acknowledged == {"wiki": 2})
    asked = "SELECT SUM(added + 1), MAX(page) FROM wiki"
    assert ask(node, asked, useCache=False) == [(55, "p2")]
    DAMAGE["a lost column"](base / "cache" / f"{segment.checksum}.parquet")
    node._engine.renew()  # whose workers remember the file
    with pytest.raises(QueryUnavailable, match=f"segment {re.escape(str(segment.id))}: .* anew"):
        ask(node, asked, useCache=False)
    assert ask(node, asked, useCache=False) == [(55, "p2")]


def test_a_file_that_is_whole_again_by_the_time_of_the_error_is_named_too(start: Start, table: MemoryTable) -> None:
    """Another query that read it found the damage first, and the file was brought anew meanwhile."""
    node, task = start(), table.tasks[0]
    table.read(task, 10)
    segment = table.seal_and_publish(task)
    until(lambda: table.acknowledged == {"wiki": 2})
    query, asked = BoundQuery(node, NOTHING), SqlRequest("SELECT SUM(added) FROM wiki")
    for use in plan(asked, query, 0).tables:
        query.relation(use)
    query.hold()
    met = {"engineError": "BinderException"}
    told = query.told(UnsupportedQuery('not supported: Referenced column "added" not found in FROM clause!', met))
    other = UnsupportedQuery('not supported: Referenced column "c7" not found in FROM clause!', met)
    assert query.told(other) is other, "no file has a column of that name"
    query.close()
    assert isinstance(told, QueryUnavailable) and f"segment {segment.id}: its file" in told.message
    assert told.status == 503 and told.context["segment"] == str(segment.id)


def test_a_worker_that_was_busy_when_a_file_was_found_damaged_remembers_it_no_longer(engine: Engine) -> None:
    run = engine.run("SELECT i FROM range(100000000000) t(i)", [])
    engine.renew()
    run.close()
    again = engine.run("SELECT 1", [])
    assert again.pid != run.pid
    again.close()


def test_answers_of_a_damaged_file_are_not_kept_once_it_was_found(start: Start, table: MemoryTable, base: Path) -> None:
    node, task = start(groups_from_rows=1), table.tasks[0]
    table.read(task, 10)
    segment = table.seal_and_publish(task)
    until(lambda: table.acknowledged == {"wiki": 2})
    path, asked = base / "cache" / f"{segment.checksum}.parquet", "SELECT SUM(added), MAX(page) FROM wiki"
    assert ask(node, asked, useCache=False) == [(45, "p2")]
    DAMAGE["other values"](path)
    node._engine.renew()
    for order in ("", " ORDER BY 1", " ORDER BY 2"):
        assert ask(node, asked + order) == [(0, "p2")], "nothing tells"
    DAMAGE["a lost column"](path)
    node._engine.renew()
    with pytest.raises(QueryUnavailable):
        ask(node, asked, useCache=False)
    for order in ("", " ORDER BY 1", " ORDER BY 2 DESC"):
        assert ask(node, asked + order) == [(45, "p2")]


@pytest.mark.parametrize("counted", ["COUNT(*)", "SUM(added)"])
def test_rows_of_a_segment_that_cannot_be_had_are_not_counted_either(
    start: Start, table: MemoryTable, counted: str
) -> None:
    node, task = start(), table.tasks[0]
    table.read(task, 10)
    table.storage.fail_next("pull", SegmentNotFound("no such file"), times=3)
    segment = table.seal_and_publish(task)
    until(lambda: table.acknowledged == {"wiki": 2})
    for condition in ("", " WHERE __time >= TIMESTAMP '2000-01-01'"):
        with pytest.raises(QueryUnavailable, match=f"segment {re.escape(str(segment.id))} cannot be read: no such"):
            ask(node, f"SELECT {counted} FROM wiki{condition}")
    # One that has no part in the answer is not asked for.
    assert ask(node, f"SELECT {counted} FROM wiki WHERE __time < TIMESTAMP '2000-01-01'")[0][0] in (0, None)
    table.storage.heal()
    assert ask(node, f"SELECT {counted} FROM wiki") == [(10 if counted.startswith("COUNT") else 45,)]
    assert node.unreadable([segment]) == []
