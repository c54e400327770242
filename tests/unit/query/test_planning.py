"""Huge statements are planned beside the server's process: the same plans and errors, and others need not wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ingest.clock import SystemClock
from query.errors import InvalidQuery, QueryCancelled, QueryUnavailable, SqlParseError, UnknownName
from query.model import SqlRequest
from query.planning import HUGE_CHARS, HugePlanner
from query.sql.planner import plan
from tests.unit.query.rows import NOW_MS, catalogue

VALUES = ", ".join(f"'v{at}'" for at in range(8_000))
HUGE = f"SELECT COUNT(*) FROM t WHERE s IN ({VALUES}) AND LOOKUP(s, 'country_names') IS NULL"


@pytest.fixture(scope="module")
def planner() -> Iterator[HugePlanner]:
    made = HugePlanner(SystemClock())
    yield made
    made.stop()


def unchecked() -> None:
    """Nobody cancels."""


def planned(planner: HugePlanner, query: str, check: Any = unchecked) -> Any:
    return planner.plan(SqlRequest(query), catalogue(), NOW_MS, check)


def test_a_huge_statement_has_the_plan_it_always_had_and_this_process_is_free_meanwhile(planner: HugePlanner) -> None:
    assert len(HUGE) > HUGE_CHARS
    planned(planner, "SELECT 1")
    begun = time.process_time()
    beside = planned(planner, HUGE)
    waited = time.process_time() - begun
    begun = time.process_time()
    here = plan(SqlRequest(HUGE), catalogue(), NOW_MS)
    assert beside == here
    assert waited < (time.process_time() - begun) / 3


def test_errors_are_those_of_the_statement(planner: HugePlanner) -> None:
    with pytest.raises(UnknownName, match="did you mean") as unknown:
        planned(planner, f"SELECT\n  ss FROM t WHERE s IN ({VALUES})")
    assert (unknown.value.context["line"], unknown.value.context["column"]) == ("2", "3")
    with pytest.raises(SqlParseError, match="Incorrect syntax") as wrong:
        planned(planner, f"SELECT s FROM t WHERE s IN ({VALUES}))")
    assert wrong.value.status == 400 and wrong.value.context["sourceType"] == "sql"
    with pytest.raises(InvalidQuery, match="nested too deeply"):
        planned(planner, "SELECT " + "(" * 10_000 + "1" + ")" * 10_000)
    assert planned(planner, "SELECT 1").result_columns[0].sql_type == "INTEGER"


def test_a_cancelled_statement_is_left_and_the_next_one_is_planned(planner: HugePlanner) -> None:
    def cancelled() -> None:
        raise QueryCancelled("the query was cancelled")

    with pytest.raises(QueryCancelled):
        planned(planner, HUGE, cancelled)
    assert planned(planner, "SELECT 2").duckdb_sql


def test_a_statement_that_waits_for_another_can_be_cancelled() -> None:
    planner = HugePlanner(SystemClock())
    asked, go_on = threading.Event(), threading.Event()

    def waiting() -> None:
        asked.set()
        go_on.wait(10)

    first = threading.Thread(target=lambda: planned(planner, HUGE, waiting))
    first.start()
    assert asked.wait(10)
    with pytest.raises(QueryCancelled):
        planned(planner, HUGE, _raise_cancelled)
    go_on.set()
    first.join()
    planner.stop()


def _raise_cancelled() -> None:
    raise QueryCancelled("the query was cancelled")


def test_a_planner_that_dies_fails_its_statement_and_another_takes_its_place() -> None:
    planner = HugePlanner(SystemClock())

    def killed() -> None:
        process = planner._process
        assert process is not None
        process.kill()

    with pytest.raises(QueryUnavailable, match="send the statement again") as died:
        planned(planner, HUGE, killed)
    assert died.value.retryable
    assert planned(planner, "SELECT 1").duckdb_sql
    planner.stop()
    planner.stop()
