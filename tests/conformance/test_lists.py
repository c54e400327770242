"""Multi-value strings with lists without members, nulls and empty texts, as a real Druid 33.0.0 answered.

`lists.jsonl` holds an expression of SQL or of native queries with its value in every row of ROWS, a condition with how
many rows fulfil it, a statement or a native query a line. The rows went through the row path.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ingest.spec import parse_supervisor_spec
from query.model import ResultFormat, SqlRequest
from query.native.planner import plan
from query.sql.catalogue import MemoryCatalogue, TableDef
from query.sql.metadata import NoSystemTables
from tests.conformance.engine import NOW_MS, answer, run
from tests.conformance.judging import same, same_bag
from tests.conformance.tables import HERE
from tests.conformance.test_asked import bare
from tests.conformance.test_ingested_rows import bound, chunks_of
from tests.unit.ingest.appenderator.rows import poll_of
from tests.unit.ingest.appenderator.test_appenderator import held, merged

# i, mv, mw, one (of which no row has several values), s
ROWS: list[tuple[Any, ...]] = [
    (1, ["x", "y"], ["p", "q"], "a", "abc"),
    (2, ["z"], [], "b", ""),
    (3, [], ["p"], [], "12"),
    (4, None, ["p", "q"], None, None),
    (5, [None], ["q"], [None], "Ünï 7"),
    (6, [""], None, [""], "a1b22"),
    (7, ["x", "12"], ["12", "x"], ["c"], "x"),
    (8, ["", None, "x"], ["x"], "c", "x"),
    (9, "w", "w", "d", "w"),
    (10, ["a1b22", "Ünï 7"], ["abc"], "a", "Ünï 7"),
    (11, None, [], None, "zz"),
    (12, [], [None, "r"], [], "x"),
    (13, ["x", "x"], ["x"], "c", "x"),
    (14, ["3", "12"], ["2"], "7", "3"),
]
NAMES = ("i", "mv", "mw", "one", "s")
NUMBERS: list[tuple[Any, ...]] = [
    (1, ["1", "2"], "a"),
    (2, ["3"], "b"),
    (3, "4", "a"),
    (4, None, "b"),
    (5, [], "a"),
    (6, ["x", "5"], "b"),
    (7, [None, "6"], "a"),
    (8, ["2.5", "1"], "b"),
    (9, [""], "a"),
    (10, ["7", "7"], "b"),
]
"""i, m, s"""
FIRST_MS = 1_709_251_201_000
Table = tuple[TableDef, Any]


class Catalogue(MemoryCatalogue):
    """The tables with their time."""

    def time_range(self, name: str) -> tuple[int, int]:
        return FIRST_MS, FIRST_MS + 1000 * (len(ROWS) - 1)

    def segments(self, name: str) -> list[Any]:
        return []


class World:
    """l of all columns, lr and lo rolled up by one of them; num of numbers among texts."""

    def __init__(self, folder: Path, state: str) -> None:
        plain = [*NAMES[1:], {"type": "long", "name": "i"}]
        self.tables: dict[str, Table] = {
            name: ingested(name, dimensions, folder / name, state)
            for name, dimensions in (("l", plain), ("lr", ["mv"]), ("lo", ["one"]))
        }
        numbers = [dict(zip(("i", "m", "s"), row, strict=True)) for row in NUMBERS]
        self.tables["num"] = ingested("num", [{"type": "long", "name": "i"}, "m", "s"], folder / "num", state, numbers)
        self.catalogue = Catalogue([table for table, _ in self.tables.values()])

    def rows(self, name: str) -> Any:
        return self.tables[name][1]

    def told(self, statement: str) -> list[Any]:
        request = SqlRequest(statement, result_format=ResultFormat.ARRAY, header=True, types_header=True)
        found: list[Any] = json.loads(answer(request, self.catalogue, self.rows))
        return found[1:]

    def answered(self, query: dict[str, Any]) -> Any:
        body = {"dataSource": "l", "intervals": "2024-01-01/2025-01-01", "granularity": "all"} | query
        planned = plan(body, self.catalogue, NOW_MS)
        batches = run(planned.planned, self.catalogue, self.rows, NoSystemTables())
        return bare(json.loads(b"".join(planned.pieces(batches))))


def ingested(
    name: str, dimensions: list[Any], folder: Path, state: str, given: list[dict[str, Any]] | None = None
) -> Table:
    rollup = len(dimensions) == 1
    schema = {
        "dataSource": name,
        "timestampSpec": {"column": "t", "format": "millis"},
        "dimensionsSpec": {"dimensions": dimensions},
        "metricsSpec": [{"type": "count", "name": "n"}] if rollup else [],
        "granularitySpec": {"queryGranularity": "DAY" if rollup else "NONE", "rollup": rollup},
    }
    io = {"topic": "t", "inputFormat": {"type": "json"}, "consumerProperties": {"bootstrap.servers": "none"}}
    posted = {"type": "kafka", "spec": {"dataSchema": schema, "ioConfig": io}}
    rows = held(folder, parse_supervisor_spec(posted)[0])
    given = given or [dict(zip(NAMES, row, strict=True)) for row in ROWS]
    values = [row | {"t": FIRST_MS + 1000 * at} for at, row in enumerate(given)]
    rows.append(1, [poll_of(values[:4])])
    rows.persist()
    rows.append(1, [poll_of(values[4:], 4)])
    if state == "live":
        return bound(posted, [], chunks_of(rows, folder))
    return bound(posted, [file.path for file in merged(rows).files], [])


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("published"), "published")


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("live"), "live")


@cache
def recorded(kind: str) -> list[dict[str, Any]]:
    lines = (HERE / "lists.jsonl").read_text(encoding="utf-8").splitlines()
    return [case for line in lines if kind in (case := json.loads(line))]


def test_a_function_of_a_list_has_the_values_of_druid(world: World) -> None:
    cases, wrong = recorded("value"), []
    for first in range(0, len(cases), 20):
        part = cases[first : first + 20]
        items = ", ".join(f"{case['value']} AS v{at}" for at, case in enumerate(part))
        types, *rows = world.told(f"SELECT {items} FROM l ORDER BY __time")
        for at, case in enumerate(part):
            found = [row[at] for row in rows]
            if types[at] != case["type"] or not same(case["values"], found):
                wrong.append((case, types[at], found))
    assert len(cases) > 130 and not wrong


def test_a_native_expression_over_lists_has_the_values_of_druid(world: World) -> None:
    cases, wrong = recorded("expression"), []
    for first in range(0, len(cases), 20):
        part = cases[first : first + 20]
        names = [f"v{at}" for at in range(len(part))]
        computed = [
            {"type": "expression", "name": name, "expression": case["expression"]}
            for name, case in zip(names, part, strict=True)
        ]
        scan = {"queryType": "scan", "order": "ascending", "resultFormat": "compactedList"}
        [block] = world.answered(scan | {"virtualColumns": computed, "columns": ["__time", *names]})
        for at, case in enumerate(part, 1):
            found = [row[at] for row in block["events"]]
            if not same(case["values"], found):
                wrong.append((case, found))
    assert len(cases) > 180 and not wrong


def test_what_becomes_of_members_is_a_list_of_its_type_to_list_functions(world: World) -> None:
    values = {
        "array_set_add(array('x'), i)": ["7", "x"],
        "any((x) -> x > 1, strlen(mv))": 1,
        "fold((x, acc) -> concat(acc, x), strlen(mv), '')": "21",
        "array_overlap(strlen(mv), array('1'))": 1,
        "array_concat(strlen(mv), array(5))": [2, 1, 5],
    }
    computed = [{"type": "expression", "name": f"v{at}", "expression": one} for at, one in enumerate(values)]
    scan = {"queryType": "scan", "filter": {"type": "selector", "dimension": "i", "value": "7"}}
    names = [one["name"] for one in computed]
    [block] = world.answered(scan | {"virtualColumns": computed, "columns": names, "resultFormat": "compactedList"})
    assert block["events"] == [list(values.values())]
    types, *rows = world.told("SELECT STRLEN(mv), STRLEN(mv) + 1, MV_OVERLAP(mv, STRLEN(mw)) FROM l WHERE i = 7")
    assert types == ["ARRAY<LONG>", "ARRAY<LONG>", "LONG"] and rows == [["[2,1]", "[3,2]", False]]


def test_as_many_rows_fulfil_a_condition_on_a_list_as_in_druid(world: World) -> None:
    cases = recorded("where")
    found = [world.told(f"SELECT COUNT(*), SUM(i) FROM l WHERE {case['where']}")[1] for case in cases]
    assert len(cases) > 90
    assert not [(case, one) for case, one in zip(cases, found, strict=True) if case["found"] != one]


@pytest.mark.parametrize("state", ["world", "live"])
def test_statements_about_lists_have_the_answers_of_druid(state: str, request: pytest.FixtureRequest) -> None:
    found_by, cases, wrong = request.getfixturevalue(state), recorded("sql"), []
    for case in cases:
        if state == "live" and ("GROUP BY" not in case["sql"] or "FROM l " not in case["sql"]):
            # Rows of two batches do not roll up before they are merged, and of numbers the statement alone decides.
            continue
        types, *rows = found_by.told(case["sql"])
        if types != case["types"] or not same_bag(case["rows"], rows, 1e-6):
            wrong.append((case, rows))
    assert len(cases) > 60 and not wrong


def test_native_queries_about_lists_have_the_answers_of_druid(world: World) -> None:
    wrong = []
    for case in recorded("native"):
        found = world.answered(case["native"])
        bag = case["native"]["queryType"] == "groupBy"
        if not (same_bag if bag else same)(case["answer"], found, 1e-6):
            wrong.append((case, found))
    assert len(recorded("native")) > 120 and not wrong


def test_rows_without_members_are_in_no_group_of_a_top_list_while_they_are_live(live: World, world: World) -> None:
    for case in recorded("native"):
        if case["native"].get("dimension") in ("mv", "mw", "one") and "dataSource" not in case["native"]:
            assert live.answered(case["native"]) == world.answered(case["native"])
