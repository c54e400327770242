"""Rows that are known to be there are counted and not read, in exactly the cases in which nothing else is asked."""

from __future__ import annotations

import re

from query.bound import BoundQuery
from query.model import SqlRequest
from query.node import NOTHING
from query.sql.planner import plan
from segments.civil import format_iso_ms
from tests.unit.query.memory_table import START_MS, MemoryTable
from tests.unit.query.node_steps import Start, ask

COUNTED = [
    # what is asked of 30 rows a second apart, of which 12 to 29 are live; the answer; which rows must be read
    ("", 30, False),
    ("WHERE __time >= '{0}'", 30, False),
    ("WHERE __time >= '{0}' AND __time < '{12}'", 12, False),
    ("WHERE __time BETWEEN '{12}' AND '{29}'", 18, False),
    ("WHERE '{11}' < __time", 18, False),
    ("WHERE TIME_IN_INTERVAL(__time, '{0}/{30}')", 30, False),
    ("WHERE __time >= '{3}'", 27, True),
    ("WHERE __time <= '{3}'", 4, True),
    ("WHERE __time <> '{3}'", 29, True),
    ("WHERE __time >= '{0}' AND added > 5", 24, True),
    ("WHERE __time >= '{0}' OR added > 5", 30, True),
    ("WHERE __time >= '{40}'", 0, False),
    ("WHERE NOT __time < '{3}'", 27, True),
]


def test_rows_whose_number_is_known_are_counted_without_being_read(start: Start, table: MemoryTable) -> None:
    node, task = start(), table.tasks[0]
    table.read(task, 12)
    table.seal_and_publish(task)
    table.read(task, 10)
    table.read(task, 8)
    moments = [format_iso_ms(START_MS + at * 1000) for at in range(41)]
    for condition, count, reads in COUNTED:
        asked = f"SELECT COUNT(*) FROM wiki {condition}"
        asked = re.sub(r"\{(\d+)\}", lambda found: moments[int(found[1])], asked)
        assert ask(node, asked) == [(count,)], condition
        query = BoundQuery(node, NOTHING)
        bound = [query.relation(use) for use in plan(SqlRequest(asked), query, 0).tables]
        query.close()
        assert any(relation.arrow or "read_parquet" in relation.sql for relation in bound) is reads, condition


def test_times_that_are_told_are_read_not_counted(start: Start, table: MemoryTable) -> None:
    node, task = start(), table.tasks[0]
    table.read(task, 5)
    since = format_iso_ms(START_MS)
    [(first, last, some)] = ask(
        node,
        "SELECT MIN(__time), MAX(__time), COUNT(*) FILTER (WHERE __time > MILLIS_TO_TIMESTAMP("
        f"{START_MS})) FROM wiki WHERE __time >= '{since}'",
    )
    assert (last - first, some) == (4000, 4)
    grouped = ask(node, f"SELECT added, COUNT(*) FROM wiki WHERE __time >= '{since}' GROUP BY 1 ORDER BY 1")
    assert grouped == [(at, 1) for at in range(5)]
    nested = f"SELECT COUNT(*) FROM (SELECT 1 AS x FROM wiki WHERE __time >= '{since}') AS a WHERE x = 1"
    assert ask(node, nested) == [(5,)]
    joined = f"SELECT COUNT(*) FROM wiki AS a JOIN wiki AS b ON a.added = b.added WHERE a.__time >= '{since}'"
    assert ask(node, joined) == [(5,)]
