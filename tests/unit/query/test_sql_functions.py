"""Every function that Druid documents gives its answer here or is refused by name, and the page about them says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from query.errors import UnsupportedQuery
from query.sql.frame import AGGREGATES, FUNCTIONS, REFUSED
from query.sql.routines import SIGNATURES
from query.sql.windows import WINDOW_NAMES
from tests.unit.query.documented_functions import DOCUMENTED, FAMILIES, ROUTINES, ROWS, WINDOWS, Documented
from tests.unit.query.rows import ask, planned

LIST = Path(__file__).parent / "druid_functions.txt"
RECORDED = [
    json.loads(line)
    for line in (Path(__file__).parent / "druid_routines.jsonl").read_text(encoding="utf-8").splitlines()
]
"""``INFORMATION_SCHEMA.ROUTINES`` of a running Druid 33 with the extension druid-datasketches, row by row."""
SYNTAX = {
    "+",
    "-",
    "APPEND",
    "ARRAY",
    "ARRAY[]",
    "BETWEEN ASYMMETRIC",
    "BETWEEN SYMMETRIC",
    "CASE",
    "CAST",
    "CEIL",
    "CURRENT_DATE",
    "EXTRACT",
    "FLOOR",
    "LIKE",
    "NOT BETWEEN ASYMMETRIC",
    "NOT BETWEEN SYMMETRIC",
    "NOT LIKE",
    "SUBSTRING",
    "TRIM",
    "UNNEST",
}
"""Read by the parser, not called by name."""
OTHER_NAMES = {
    "CEILING",
    "DATEADD",
    "DATEDIFF",
    "DAYOFMONTH",
    "DAYOFWEEK",
    "DAYOFYEAR",
    "HOUR",
    "MINUTE",
    "MONTH",
    "QUARTER",
    "SECOND",
    "SIGN",
    "WEEK",
    "YEAR",
}
"""Druid's planner knows these; its pages do not name them."""
PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "sql-functions.md"


def statement(one: Documented) -> str:
    order = " ORDER BY n LIMIT 1" if one in WINDOWS else " LIMIT 1"
    group = " GROUP BY s" if one.name == "GROUPING" else ""
    first_only = [*FAMILIES["Texts"], *FAMILIES["Arrays and multi-value strings"], *ROUTINES]
    where = " WHERE n = 1" if one in first_only and "(WHERE" not in one.expression else ""
    return f"SELECT {one.expression} FROM t{where}{group}{order}"


@pytest.mark.parametrize("one", DOCUMENTED, ids=lambda one: one.name)
def test_a_documented_function_gives_its_answer_or_is_refused_by_name(one: Documented) -> None:
    if one.answer is UnsupportedQuery:
        with pytest.raises(UnsupportedQuery) as refused:
            planned(statement(one))
        named = "array[index]" if one.name == "ITEM" else one.name
        assert one.told in refused.value.message and named in refused.value.message
        return
    (found,) = ask(statement(one), ROWS, sqlStringifyArrays=False)[0]
    if isinstance(one.answer, float):
        assert found == pytest.approx(one.answer, rel=1e-9)
    else:
        assert found == one.answer and type(found) is type(one.answer)


def listed() -> set[str]:
    lines = LIST.read_text(encoding="utf-8").splitlines()
    return {line for line in lines if line and not line.startswith("#")}


def test_the_table_has_each_function_of_druids_pages_once() -> None:
    names = [one.name for one in DOCUMENTED]
    assert len(names) == len(set(names))
    assert set(names) - {one.name for one in ROUTINES} == listed()


def test_every_routine_of_a_running_druid_is_in_the_table_and_those_that_work_have_its_signatures() -> None:
    plain = {one.name.split(" (")[0]: one.status for one in DOCUMENTED}
    absent = [row["name"] for row in RECORDED if row["name"].upper() not in plain]
    assert not absent
    ours = {
        row[0]: tuple(row[1:])
        for row in ask("SELECT ROUTINE_NAME, IS_AGGREGATOR, SIGNATURES FROM INFORMATION_SCHEMA.ROUTINES")
    }
    for row in RECORDED:
        if plain[row["name"].upper()] == "refused":
            assert row["name"] not in ours
        else:
            aggregator, signatures = ours[row["name"].upper()]
            assert aggregator == row["aggregator"] and row["signatures"] in (None, signatures)
    assert {row["name"].upper() for row in RECORDED} >= set(SIGNATURES)


def test_what_works_is_registered_and_what_is_registered_is_documented_or_a_known_other_name() -> None:
    plain = {one.name.split(" (")[0] for one in DOCUMENTED if one.status != "refused"}
    refused = {one.name for one in DOCUMENTED if one.status == "refused"}
    known = {*FUNCTIONS, *AGGREGATES, *WINDOW_NAMES}
    assert plain - known == SYNTAX
    assert known - plain == OTHER_NAMES
    assert refused == set(REFUSED) and not refused & known


def test_the_page_about_functions_says_of_each_what_its_test_shows() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "docs/reference/sql-functions.md: write it anew from page()"


def page() -> str:
    """The page, from the table of documented functions."""
    statuses = [one.status for one in DOCUMENTED]
    counts = {status: statuses.count(status) for status in ("works", "differs", "refused")}
    lines = [
        "# SQL functions",
        "",
        f"Druid 37's pages name {len(DOCUMENTED) - len(ROUTINES)} SQL functions, and a running Druid 33 lists",
        f"{len(ROUTINES)} more routines (`INFORMATION_SCHEMA.ROUTINES`, of which the tests hold a record). Of all",
        f"of them {counts['works']} work as there, {counts['differs']} differ as told, and {counts['refused']} are",
        "refused by name with what to use.",
        "Each row is a test (`tests/unit/query/documented_functions.py`): the example, over a small",
        "table of `n` 1 to 4, gives the answer. [SQL](sql.md) says what holds for all of them.",
    ]
    for family, functions in FAMILIES.items():
        lines += ["", f"## {family}", "", "| function | status | example | answer |", "|---|---|---|---|"]
        lines += [row(one) for one in functions]
    return "\n".join(lines) + "\n"


def row(one: Documented) -> str:
    answer = one.told if one.answer is UnsupportedQuery else json.dumps(one.answer, ensure_ascii=False)
    status = f"{one.status}: {one.differs}" if one.differs else one.status
    cells = [f"`{one.name}`", status, f"`{one.expression}`", "" if one.status == "refused" else f"`{answer}`"]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
