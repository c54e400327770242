"""Groups of parts are kept while those parts are there, serve with what came since, and never stand for other rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from query.binding import Function, Relation
from query.engine import Engine
from query.errors import QueryUnavailable, ResourceLimitExceeded
from query.mirror import MirroredChunk
from query.model import TableUse
from query.node import QueryNode
from query.partials import LARGE_ROWS, Delta, Partials, Plan
from query.runs import NOBODY, Owner, Run
from query.splits import Split
from query.worker_wire import Job
from segments.errors import SegmentNotFound
from tests.unit.query.memory_table import START_MS, MemoryTable
from tests.unit.query.node_steps import Start, ask, until

BY_PAGE = "SELECT page, COUNT(*), SUM(added), MIN(added), AVG(added) FROM wiki GROUP BY page ORDER BY page"
SERIES = {
    "queryType": "timeseries",
    "dataSource": "wiki",
    "intervals": "2000/2100",
    "granularity": "minute",
    "aggregations": [{"type": "count", "name": "n"}, {"type": "longSum", "name": "a", "fieldName": "added"}],
    "postAggregations": [{"type": "expression", "name": "e", "expression": "a / n"}],
}
SPLIT = Split("SELECT x AS k0 FROM t1 GROUP BY 1", (("k0", "key"),), "SELECT p.k0 FROM g_all AS p GROUP BY p.k0")
USE = TableUse("druid", "t", "t1", ())


def chunk(number: int, rows: int = 10) -> MirroredChunk:
    return MirroredChunk(("token", number), f"{number}.arrow", (), "", rows, 100, 0, 9)


def planned(partials: Partials, *chunks: MirroredChunk, use: TableUse = USE, functions: str = "") -> Plan | None:
    called = [Function(functions)] if functions else []
    return partials.plan(SPLIT, use, called, ((), chunks), lambda delta: Relation("t1", "SELECT 1"))


def read(plan: Plan | None) -> list[tuple[int, ...]]:
    assert plan is not None
    return [tuple(one.key[1] for one in delta.chunks) for delta in plan.deltas]


def kept(partials: Partials, *chunks: MirroredChunk, groups: bytes = b"groups") -> Plan:
    planned(partials, *chunks)
    plan = planned(partials, *chunks)
    assert plan is not None
    partials.keep(plan, {step.name: groups for step in plan.steps if step.sql})
    return plan


def test_only_rows_that_came_since_are_read_until_a_part_is_gone() -> None:
    partials = Partials(1_000, 0)
    assert planned(partials, chunk(1)) is None, "the first time all is read"
    kept(partials, chunk(1), chunk(2))
    assert read(planned(partials, chunk(1), chunk(2))) == [()]
    more = planned(partials, chunk(1), chunk(2), chunk(3))
    assert read(more) == [(3,)] and more is not None and more.rows == 10 and more.steps[0].kept == b"groups"
    assert read(planned(partials, chunk(1), chunk(3))) == [(1, 3)], "2 cannot be taken out of the groups"
    assert read(planned(partials, chunk(1), chunk(2), chunk(9, LARGE_ROWS))) == [(9,), ()]


def test_groups_that_were_begun_before_all_was_forgotten_are_not_kept() -> None:
    partials = Partials(1_000, 0)
    planned(partials, chunk(1))
    begun = planned(partials, chunk(1))
    assert begun is not None
    partials.forget()
    planned(partials, chunk(1))
    partials.keep(begun, {step.name: b"of a damaged file" for step in begun.steps})
    again = planned(partials, chunk(1))
    assert read(again) == read(begun) and partials.used_bytes == 0


def test_other_columns_functions_or_bounds_have_other_groups() -> None:
    partials = Partials(1_000, 0)
    kept(partials, chunk(1))
    for other in (replace(USE, time_bounds=(0, 5)), replace(USE, relation="t2")):
        assert planned(partials, chunk(1), use=other) is None and read(planned(partials, chunk(1), use=other)) == [(1,)]
    assert planned(partials, chunk(1), functions="lookup_1") is None
    assert read(planned(partials, chunk(1), functions="lookup_1")) == [(1,)]


def test_what_lies_across_a_bound_is_read_each_time_and_a_window_that_moves_finds_its_groups() -> None:
    partials, moving = Partials(10_000, 0), replace(SPLIT, is_bounded=True)

    def within(start_ms: int) -> Plan | None:
        parts = [replace(chunk(at), min_time_ms=at * 10, max_time_ms=at * 10 + 9) for at in range(start_ms // 10, 9)]
        use = replace(USE, time_bounds=(start_ms, None))
        return partials.plan(moving, use, (), ((), parts), lambda delta: Relation("t1", "SELECT 1"))

    assert within(52) is None
    plan = within(52)
    assert read(plan) == [(6, 7, 8), (5,)] and plan is not None
    assert [step.is_told for step in plan.steps] == [True, False]
    partials.keep(plan, {"g_small": b"groups"})
    assert read(within(55)) == [(), (5,)]
    assert read(within(60)) == [()]
    assert read(within(41)) == [(5,), (4,)]
    assert read(within(65)) == [(7, 8), (6,)]
    assert within(85) is None, "there is nothing to keep"
    for start_ms in (10, 60, 10, 60):
        plan = within(start_ms)
        assert plan is not None
        partials.keep(plan, {step.name: b"groups" for step in plan.steps if step.sql})
    assert read(within(10)) == read(within(60)) == [()], "two windows in turn"


def test_groups_are_bounded_and_a_statement_of_too_many_reads_all() -> None:
    partials = Partials(300, 0)
    for at in range(6):
        kept(partials, chunk(1), groups=b"g" * 30)
        plan = planned(partials, chunk(1), use=replace(USE, relation=f"u{at}"))
        assert plan is None and partials.used_bytes <= 300
        plan = planned(partials, chunk(1), use=replace(USE, relation=f"u{at}"))
        assert plan is not None
        partials.keep(plan, {step.name: b"g" * 30 for step in plan.steps})
    assert partials.used_bytes <= 300
    plan = kept(partials, chunk(1), chunk(2))
    partials.give_up(plan)
    partials.keep(plan, {"g_small": b"late"})
    assert planned(partials, chunk(1), chunk(2)) is None and planned(partials, chunk(1)) is None
    assert Partials(0, 0).plan(SPLIT, USE, (), ((), (chunk(1),)), _unread) is None
    assert planned(Partials(100, 11), chunk(1)) is None and planned(Partials(100, 0)) is None


def native(node: QueryNode, **context: object) -> bytes:
    return b"".join(node.execute_native("q", SERIES | {"context": context}).pieces())


def _unread(delta: Delta) -> Relation:
    raise AssertionError("nothing is read")


def test_what_is_kept_beside_groups_is_bounded_too() -> None:
    parts = [chunk(number) for number in range(100)]
    partials = Partials(20_000, 0)
    for at in range(9):
        split = replace(SPLIT, partial_sql=f"SELECT {'x' * 10_000}{at} AS k0 FROM t1")
        for _ in range(2):
            plan = partials.plan(split, USE, (), ((), parts), lambda delta: Relation("t1", "SELECT 1"))
        assert plan is not None and len(plan.key[0]) < 100, "a statement of megabytes is not kept"
        partials.keep(plan, {"g_small": b"groups"})
    assert 6_000 <= partials.used_bytes <= 20_000, "names of parts count"
    assert partials.plan(SPLIT, USE, (), ((), parts), _unread) is None


def test_a_node_reads_what_came_since_through_publishes_joins_and_a_reset(start: Start, table: MemoryTable) -> None:
    node, task = start(groups_from_rows=1), table.tasks[0]

    def same() -> int:
        expected = ask(node, BY_PAGE, useCache=False)
        assert ask(node, BY_PAGE) == expected
        assert native(node) == native(node, useCache=False)
        window = f"WHERE __time >= MILLIS_TO_TIMESTAMP({START_MS + 7_500})"
        asked = BY_PAGE.replace("GROUP", f"{window} GROUP")
        assert ask(node, asked) == ask(node, asked, useCache=False)
        used = node.status()["groupsUsed"]
        assert isinstance(used, int)
        return used

    steps: list[Callable[[], object]] = [
        lambda: table.read(task, 30),
        lambda: table.read(task, 5),
        lambda: table.seal_and_publish(task),
        lambda: table.read(task, 14),
        lambda: table.join_chunks(task),
        lambda: table.seal_and_publish(task),
        lambda: table.read(task, 3),
    ]
    for step in steps:
        step()
        until(lambda: node.status()["tables"] == table.versions())
        used = same()
    assert used >= 2 * len(steps) - 5 and ask(node, "SELECT COUNT(*) FROM wiki") == [(52,)]
    table.drop_oldest()
    until(lambda: node.status()["tables"] == table.versions())
    assert same() > used and ask(node, "SELECT COUNT(*) FROM wiki") == [(17,)]
    # Another attempt reads the same rows again, in chunks of other names.
    task.alive = False
    second = table.start_task()
    table.read(second, 2)
    table.read(second, 3)
    until(lambda: ask(node, "SELECT COUNT(*) FROM wiki") == [(19,)])
    same()
    assert ask(node, BY_PAGE, populateCache=False) == ask(node, BY_PAGE, useCache=False)


def test_a_query_that_is_answered_of_groups_holds_only_the_files_it_reads(start: Start, table: MemoryTable) -> None:
    node, task = start(groups_from_rows=1), table.tasks[0]
    published = []
    for _ in range(3):
        table.read(task, 10)
        published.append(table.seal_and_publish(task))
    until(lambda: node.status()["tables"] == table.versions())
    for _ in range(2):
        ask(node, BY_PAGE, populateCache=True)
        table.read(task, 1)
    for segment in published:
        node._cache.drop(segment)
    # As on a node whose cache is smaller than its tables: what is in groups need not come again.
    table.storage.fail_next("pull", SegmentNotFound("it is not asked for"), times=99)
    assert sum(int(row[1]) for row in ask(node, BY_PAGE)) == 32
    with pytest.raises(QueryUnavailable, match="it is not asked for"):
        ask(node, BY_PAGE, useCache=False)
    table.storage.heal()
    assert ask(node, BY_PAGE) == ask(node, BY_PAGE, useCache=False)


def test_two_segments_of_one_content_are_read_each_time(table: MemoryTable) -> None:
    table.read(table.tasks[0], 10)
    segment = table.seal_and_publish(table.tasks[0])
    other = replace(segment, id=replace(segment.id, partition_num=9))
    partials = Partials(1_000, 0)
    for _ in range(3):
        assert partials.plan(SPLIT, USE, (), ([segment, other], ()), _unread) is None
    partials.plan(SPLIT, USE, (), ([segment], ()), _unread)
    assert partials.plan(SPLIT, USE, (), ([segment], ()), lambda one: Relation("t1", "SELECT 1")) is not None


def test_a_node_answers_of_all_rows_where_groups_are_too_many(start: Start, table: MemoryTable) -> None:
    node, task = start(groups_from_rows=1, results_bytes=8_000), table.tasks[0]
    table.read(task, 300)
    # Eight bytes of each group's key and eight of its count: more than the thousand that groups may have.
    asked = "SELECT added, COUNT(*) FROM wiki GROUP BY added ORDER BY added"
    for number in (301, 302, 303):
        table.read(task, 1)
        assert [row[0] for row in ask(node, asked)] == list(range(number))
    assert node.status()["groupsBytes"] == 0
    assert ask(node, BY_PAGE) == ask(node, BY_PAGE, useCache=False)


def test_a_node_answers_of_all_rows_where_groups_take_more_memory_than_these(
    start: Start, table: MemoryTable, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, whole = [], engine.begin

    def scarce(job: Job, timeout_ms: int, owner: Owner = NOBODY) -> Run:
        begun.append(bool(job.steps))
        if job.steps:
            raise ResourceLimitExceeded("the query needs more memory", {"engineError": "OutOfMemoryException"})
        return whole(job, timeout_ms, owner)

    monkeypatch.setattr(engine, "begin", scarce)
    node, task = start(groups_from_rows=1), table.tasks[0]
    for number in (1, 2, 3):
        table.read(task, 1)
        asked = "SELECT COUNT(DISTINCT page), SUM(added) FROM wiki"
        assert ask(node, asked)[0][0] == min(number, 3)
    assert begun == [False, True, False, False], "once tried, then no more"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_whatever_becomes_of_the_parts_groups_give_the_answer_of_all_rows(
    start: Start, table: MemoryTable, seed: int
) -> None:
    random, node, task = Random(seed), start(groups_from_rows=1), table.tasks[0]
    table.read(task, 20)
    dropped = 0
    for _ in range(120):
        match random.randrange(9):
            case 0 | 1 if task.sequences[max(task.sequences)].chunks:
                table.seal_and_publish(task)
            case 2 if len(task.sequences[max(task.sequences)].chunks) > 1:
                table.join_chunks(task)
            case 3 if random.random() < 0.5:
                dropped += table.drop_oldest()
            case 4 if random.random() < 0.3:
                position = max(task.sequences.items())[1].position[0]
                task.alive = False
                task = table.start_task()
                while (at := max(task.sequences.items())[1].position[0]) < position:
                    table.read(task, random.randint(1, position - at))
            case _:
                table.read(task, random.randint(1, 30))
        total = max(task.sequences.items())[1].position[0] - dropped
        until(lambda: node.status()["tables"] == table.versions())
        until(lambda total=total: ask(node, "SELECT COUNT(*) FROM wiki") == [(total,)])  # type: ignore[misc]  # bound now
        for asked in (
            BY_PAGE,
            BY_PAGE.replace("GROUP", f"WHERE __time >= MILLIS_TO_TIMESTAMP({START_MS + 40_500}) GROUP"),
        ):
            assert ask(node, asked) == ask(node, asked, useCache=False)
        assert native(node) == native(node, useCache=False)
    used = node.status()["groupsUsed"]
    assert isinstance(used, int) and used > 150
