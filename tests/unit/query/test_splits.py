"""An answer made of groups of parts of a table is the answer of the table, to the last bit and however it is parted.

But for sums of doubles that no order adds up exactly, which differ in their last digits from run to run anyway.
"""

from __future__ import annotations

from random import Random

import duckdb
import pyarrow as pa
import pytest

from query.errors import QueryError
from query.kernels.offering import offered
from query.model import PlannedQuery, TableUse
from query.native import planner as native_planner
from query.splits import GROUPS, PARTS, Split
from query.sql import planner as sql_planner
from tests.conformance import tables
from tests.conformance.engine import NOW_MS, request_of
from tests.conformance.native import catalogue
from tests.conformance.running import cases
from tests.unit.query.rows import planned, table
from tests.unit.query.statements import Statements

KEYS = [
    "s",
    "S",
    "mv",
    "n",
    "d",
    "__time",
    "TIME_FLOOR(__time, 'PT1H')",
    "UPPER(s)",
    "MV_TO_STRING(mv, ',')",
    "STRLEN(mv)",
    "n > 3",
    "CASE WHEN s = 'a' THEN n END",
    "CAST(d AS BIGINT)",
]
TOLD = [
    "COUNT(*)",
    "COUNT(s)",
    "COUNT(mv)",
    "SUM(n)",
    "AVG(n)",
    "SUM(d)",
    "AVG(d)",
    "MIN(d)",
    "MAX(S)",
    "MIN(__time)",
    "MAX(n > 2)",
    "SUM(n - 3)",
    "SUM(STRLEN(mv))",
    "MAX(CAST(mv AS DOUBLE))",
    "COUNT(STRLEN(mv))",
    "BIT_XOR(n)",
    "COUNT(DISTINCT s)",
    "COUNT(DISTINCT d)",
    "APPROX_COUNT_DISTINCT(n)",
    "SUM(n) + COUNT(*) * 2",
]
WINDOWS = [
    "__time < TIMESTAMP '2024-01-01 12:00:00'",
    "__time > TIMESTAMP '2024-01-01 06:30:00'",
    "__time BETWEEN TIMESTAMP '2024-01-01 03:00:00' AND TIMESTAMP '2024-01-01 20:00:00'",
    "TIME_IN_INTERVAL(__time, '2024-01-01T02:00:00/PT9H')",
    "__time >= TIMESTAMP '2024-01-01 05:00:00' AND (n > 1 OR s = 'a') AND __time < TIMESTAMP '2024-01-01 19:00:00'",
]
FILTERS = ["s = 'a'", "n > 2", "d IS NULL", "mv = 'x'", "__time < TIMESTAMP '2024-01-01 12:00:00'"]
WHOLE_ONLY = [
    "SELECT STDDEV(d) FROM t GROUP BY s",
    "SELECT SUM(DISTINCT d) FROM t",
    "SELECT COUNT(*) FROM t GROUP BY ROLLUP(s)",
    "SELECT LATEST(n) FROM t",
    "SELECT DS_HLL(s) FROM t",
    "SELECT SUM(DISTINCT n) FROM t",
    "SELECT COUNT(DISTINCT mv) FROM t",
    "SELECT COUNT(DISTINCT s), COUNT(DISTINCT n) FROM t",
    "SELECT COUNT(DISTINCT s), COUNT(DISTINCT s) FILTER (WHERE n > 1) FROM t",
    "SELECT COUNT(*) FROM t",
    "SELECT s, n FROM t",
    "SELECT SUM(n) OVER () FROM t",
    "SELECT COUNT(s) FROM t WHERE n IN (SELECT n FROM t)",
    "SELECT COUNT(s) FROM t WHERE __time > CURRENT_TIMESTAMP OR n = 1",
    "SELECT COUNT(s) FROM t WHERE __time > CURRENT_TIMESTAMP AND MILLIS_TO_TIMESTAMP(n) < CURRENT_TIMESTAMP",
    "SELECT MAX(TIMESTAMPDIFF(DAY, __time, CURRENT_TIMESTAMP)) FROM t WHERE __time > CURRENT_TIMESTAMP",
    "SELECT a.s, COUNT(*) FROM t a JOIN t b ON a.s = b.s GROUP BY 1",
    "SELECT s, COUNT(*) FROM t GROUP BY s UNION ALL SELECT S, COUNT(*) FROM t GROUP BY S",
]


def statement(random: Random) -> str:
    def told() -> str:
        call = random.choice(TOLD)
        filtered = random.random() < 0.4 and call.endswith(")")
        return f"{call} FILTER (WHERE {random.choice(FILTERS)})" if filtered else call

    keys = random.sample(KEYS, random.randrange(3))
    cells = keys + [told() for _ in range(random.randint(1, 3))]
    sql = f"SELECT {', '.join(cells)} FROM t"
    sql += f" WHERE {random.choice(FILTERS + WINDOWS)}" if random.random() < 0.5 else ""
    sql += f" GROUP BY {', '.join(str(at + 1) for at in range(len(keys)))}" if keys else ""
    sql += f" HAVING {told()} > 1" if random.random() < 0.3 else ""
    # Groups that are equal in what they are ordered by come in the order of their keys.
    ordered = random.sample(range(1, len(cells) + 1), random.randint(0, len(cells)))
    order = f" ORDER BY {', '.join(f'{at} DESC' for at in ordered)}" if ordered else ""
    return sql + (f"{order} LIMIT {random.randint(1, 4)}" if random.random() < 0.4 else "")


def rows(random: Random, count: int) -> pa.Table:
    def some(values: list[object]) -> list[object]:
        return [random.choice([None, *values]) for _ in range(count)]

    return table(
        __time=[f"2024-01-01T{random.randrange(24):02}:{random.randrange(60):02}:00Z" for _ in range(count)],
        s=some(["a", "b", ""]), S=some(["a", "é", "zz"]), mv=some([["x"], ["x", "y"], [], ["x", "x"]]),
        n=some([1, 2, 3, -7, 2**62 - 1]), d=some([0.25, -3.5, 0.0, -0.0, 2.0**40, float("nan"), float("inf")]),
    )  # fmt: skip


class Engine:
    """What a worker does, in this process."""

    def __init__(self) -> None:
        self.connection = duckdb.connect(config={"threads": 1})
        self.connection.execute("SET TimeZone = 'UTC'")

    def run(self, sql: str, **relations: pa.Table) -> pa.Table:
        for name, held in relations.items():
            self.connection.register(name, held)
        answer: pa.Table = self.connection.sql(sql).to_arrow_table()
        return answer


def by_parts(engine: Engine, split: Split, name: str, parts: list[pa.Table], random: Random) -> pa.Table:
    """Groups of each part, merged one after the other or united at the end, as they happen to come."""
    shelves: list[pa.Table] = []
    for part in parts:
        made = engine.run(split.partial_sql, **{name: part})
        if shelves and random.random() < 0.5:
            both = f"{split.of('one')} UNION ALL {split.of('two')}"
            merged = f"WITH {PARTS} AS NOT MATERIALIZED ({both}) {split.merge_sql}"
            made = engine.run(merged, one=shelves.pop(), two=made)
        shelves.append(made)
    united = " UNION ALL ".join(split.of(f"g{at}") for at in range(len(shelves)))
    held = {f"g{at}": shelf for at, shelf in enumerate(shelves)}
    return engine.run(f"WITH {GROUPS} AS NOT MATERIALIZED ({united}) {split.final_sql}", **held)


def sorted_rows(answer: pa.Table, digits: int) -> list[str]:
    def spelled(cell: object) -> object:
        return f"{cell:.{digits}g}" if isinstance(cell, float) else cell

    rows_ = zip(*(column.to_pylist() for column in answer.columns), strict=True)
    return sorted(repr([spelled(cell) for cell in row]) for row in rows_)


def bounded(held: pa.Table, use: TableUse) -> pa.Table:
    """The rows that lie in the times of a statement, which it does not ask for itself."""
    [moment] = [column.internal for column in use.columns if column.name == "__time"]
    start_ms, end_ms = use.time_bounds
    times: list[int] = held[moment].cast(pa.int64()).to_pylist()  # type: ignore[assignment]  # none is null
    kept = [(start_ms is None or at >= start_ms) and (end_ms is None or at < end_ms) for at in times]
    return held.filter(pa.array(kept, pa.bool_()))


def difference(
    engine: Engine, plan: PlannedQuery, split: Split, held: pa.Table, random: Random, digits: int = 17
) -> str:
    """What differs between the answer of all rows and that of parts of them; empty when nothing does.

    ``digits`` of a double count: all of them where sums of them are exact in any order.
    """
    [use] = plan.tables
    held = held.select([column.name for column in use.columns])
    held = held.rename_columns([column.internal for column in use.columns])
    within = bounded(held, use) if split.is_bounded else held
    cuts = sorted(random.randint(0, len(within)) for _ in range(random.randint(0, 3)))
    ends = zip([0, *cuts], [*cuts, len(within)], strict=True)
    parts = [within.slice(begin, end - begin) for begin, end in ends]
    with offered(engine.connection, plan.functions, tables.catalogue().lookups.__getitem__):
        whole = engine.run(plan.duckdb_sql, **{use.relation: held})
        made = by_parts(engine, split, use.relation, parts, random)
    is_same = sorted_rows(whole, digits) == sorted_rows(made, digits) and whole.schema.types == made.schema.types
    return "" if is_same else f"{plan.duckdb_sql}\n  {whole.to_pylist()}\n  {made.to_pylist()}"


def compared(seed: int, count: int) -> tuple[int, list[str]]:
    random, engine, splits, wrong = Random(seed), Engine(), 0, []
    for _ in range(count):
        plan = planned(statement(random))
        if plan.split is not None:
            splits += 1
            wrong.append(difference(engine, plan, plan.split, rows(random, random.randrange(12)), random))
    return splits, [found for found in wrong if found]


def compared_cases(share: float) -> tuple[int, list[str]]:
    """The recorded requests, SQL and native, over the tables that they were recorded of."""
    random, engine, splits, wrong = Random(8), Engine(), 0, []
    for name, case in cases().items():
        if random.random() >= share or case["kind"] not in ("sql", "native"):
            continue
        try:
            if case["kind"] == "native":
                plan = native_planner.plan(case["request"], catalogue(), NOW_MS).planned
            else:
                plan = sql_planner.plan(request_of(case["request"]), catalogue(), NOW_MS)
        except QueryError:
            continue
        if plan.split is not None:
            splits += 1
            found = difference(engine, plan, plan.split, tables.rows_of(plan.tables[0].datasource), random, 13)
            wrong += [f"{name}: {found}"] if found else []
    return splits, wrong


def test_parts_give_the_answer_of_the_whole_to_recorded_requests() -> None:
    splits, wrong = compared_cases(0.06)
    assert not wrong, "\n".join(wrong)
    assert splits > 5


@pytest.mark.slow
def test_parts_give_the_answer_of_the_whole_to_all_recorded_requests() -> None:
    splits, wrong = compared_cases(1.0)
    assert not wrong, "\n".join(wrong)
    assert splits > 200


def test_parts_give_the_answer_of_the_whole() -> None:
    splits, wrong = compared(seed=6, count=12)
    assert not wrong, "\n".join(wrong)
    assert splits > 6


@pytest.mark.slow
def test_parts_give_the_answer_of_the_whole_for_many_statements() -> None:
    splits, wrong = compared(seed=7, count=600)
    assert not wrong, "\n".join(wrong[:20])
    assert splits > 450


def test_a_window_that_moves_has_the_same_parts() -> None:
    one, two = (
        planned(f"SELECT s, SUM(n) FROM t WHERE __time >= TIMESTAMP '2024-01-0{day}' AND d > 1 GROUP BY 1").split
        for day in (1, 2)
    )
    assert one is not None and one.is_bounded and one == two
    last_day = "__time > CURRENT_TIMESTAMP - INTERVAL '1' DAY"
    last = planned(f"SELECT s, SUM(n) FROM t WHERE {last_day} AND d > 1 GROUP BY 1")
    assert last.split == one and not last.is_timeless
    other = planned("SELECT s, SUM(n) FROM t WHERE __time >= TIMESTAMP '2024-01-01' OR d > 1 GROUP BY 1").split
    assert other is not None and not other.is_bounded


@pytest.mark.parametrize("sql", WHOLE_ONLY)
def test_what_depends_on_the_order_or_on_all_rows_is_not_split(sql: str) -> None:
    assert planned(sql).split is None


def test_any_statement_is_split_or_not_without_an_error() -> None:
    statements = Statements(3)
    for _ in range(30):
        sql = statements.statement()
        try:
            found = planned(sql).split
        except QueryError:
            continue
        assert found is None or found.final_sql != found.partial_sql, sql
