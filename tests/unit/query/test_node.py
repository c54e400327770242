"""A query node over memory twins and real workers: each row counted once, whatever happens to tasks and files."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from query.bound import BoundQuery
from query.errors import QueryCancelled, QueryUnavailable, ResourceLimitExceeded, UnknownName
from query.model import SqlRequest
from query.node import NOTHING
from query.sql.planner import plan
from segments.arrow_schema import tagged
from segments.errors import StorageUnavailable
from segments.rollup import TIME_OF_PREFIX
from segments.schema import ColumnSpec, ColumnType, SegmentSchema
from tests.unit.query.memory_table import START_MS, MemoryTable, Task, rows
from tests.unit.query.node_steps import COUNT, Start, ask, total, until


def test_published_and_live_rows_make_one_answer(start: Start, table: MemoryTable) -> None:
    node, task = start(), table.tasks[0]
    table.read(task, 10)
    table.seal_and_publish(task)
    table.read(task, 5)
    assert ask(node, COUNT) == total(15)
    until(lambda: table.acknowledged == {"wiki": 2})
    assert ask(node, COUNT) == total(15)
    table.read(task, 1)
    assert ask(node, COUNT) == total(16)
    grouped = ask(node, "SELECT page, COUNT(*) FROM wiki GROUP BY page ORDER BY page")
    assert grouped == [("p0", 6), ("p1", 5), ("p2", 5)]


def test_the_newest_rows_are_read_first_where_only_they_are_kept(start: Start, table: MemoryTable) -> None:
    node, task = start(), table.tasks[0]
    files = []
    for _ in range(3):
        table.read(task, 4)
        files.append(table.seal_and_publish(task).checksum)
    table.read(task, 4)
    until(lambda: table.acknowledged == {"wiki": 4})  # the node reads files, not their rows as they were live
    newest = "SELECT added FROM wiki ORDER BY __time DESC LIMIT 6"
    assert ask(node, newest) == [(n,) for n in range(15, 9, -1)]
    query = BoundQuery(node, NOTHING)
    [use] = plan(SqlRequest(newest), query, 0).tables
    read = query.relation(use).sql
    query.close()
    places = [read.index(name) for name in ("_live0", *reversed(files))]
    assert places == sorted(places)


def test_columns_that_the_stream_brought_are_told_before_they_are_published_and_after(
    start: Start, table: MemoryTable
) -> None:
    node, task = start(), table.tasks[0]
    asked = "SELECT COLUMN_NAME, DATA_TYPE FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_NAME = 'wiki' ORDER BY 1"
    known = [("__time", "TIMESTAMP"), ("added", "BIGINT"), ("page", "VARCHAR")]
    assert ask(node, asked) == known
    node._columns._looked_ms.clear()  # time enough has passed for another look
    table.append(task, rows(0, 2, city=["a", "b"]))
    assert ask(node, asked) == [*known[:2], ("city", "VARCHAR"), known[2]]
    task.alive = False
    node._columns._looked_ms.clear()
    assert ("city", "VARCHAR") in ask(node, asked), "a task that does not answer takes no column away"


def test_native_queries_see_published_and_live_rows_at_one_version(start: Start, table: MemoryTable) -> None:
    node, task = start(), table.tasks[0]
    table.read(task, 10)
    table.seal_and_publish(task)
    table.read(task, 5)
    until(lambda: table.acknowledged == {"wiki": 2})  # metadata of published rows is asked for too

    def asked(**query: Any) -> Any:
        return json.loads(b"".join(node.execute_native("q", query | {"dataSource": "wiki"}).pieces()))

    asked(queryType="timeBoundary")
    until(lambda: table.acknowledged == {"wiki": 2})
    sums = [{"type": "count", "name": "n"}, {"type": "longSum", "name": "s", "fieldName": "added"}]
    [bucket] = asked(queryType="timeseries", intervals="2000/3000", granularity="all", aggregations=sums)
    assert bucket["result"] == {"n": 15, "s": sum(range(15))}
    [boundary] = asked(queryType="timeBoundary")
    [exact] = asked(queryType="timeBoundary", filter={"type": "true"})
    assert boundary == exact
    [analysis] = asked(queryType="segmentMetadata", analysisTypes=["interval", "size", "rollup"])
    assert analysis["numRows"] == 15 and len(analysis["intervals"]) == 1 and analysis["size"] > 0


def test_only_new_chunks_are_fetched_and_a_query_asks_once(start: Start, table: MemoryTable) -> None:
    node, task = start(), table.tasks[0]
    for _ in range(3):
        table.read(task, 4)
        ask(node, COUNT)
    assert (task.asked, task.fetched) == (3, 3)


def test_chunks_that_a_task_put_together_are_not_fetched_again(start: Start, table: MemoryTable) -> None:
    node, task = start(), table.tasks[0]
    for _ in range(5):
        table.read(task, 4)
    assert ask(node, COUNT) == total(20)
    table.join_chunks(task)
    assert ask(node, COUNT) == total(20)
    assert (task.fetched, node.status()["mirrorChunks"]) == (5, 1)
    # Nobody mirrored the parts of this one.
    table.read(task, 4)
    table.read(task, 4)
    table.join_chunks(task)
    assert ask(node, COUNT) == total(28)
    assert (task.fetched, node.status()["mirrorChunks"]) == (6, 1)


def test_a_spill_on_this_host_is_linked_and_counted(start: Start, table: MemoryTable, tmp_path: Path) -> None:
    node, task = start(), table.tasks[0]
    spill = tmp_path / "spill.arrow"
    table.append(task, rows(0, 20), spill)
    assert ask(node, COUNT) == total(20)
    assert task.fetched == 0 and spill.stat().st_nlink == 2
    assert node.status()["mirrorBytes"] == spill.stat().st_size


def test_a_file_of_that_name_that_is_another_is_not_taken_for_the_spill(
    start: Start, table: MemoryTable, tmp_path: Path
) -> None:
    node, task = start(), table.tasks[0]
    spill = tmp_path / "spill.arrow"
    table.append(task, rows(0, 20), spill)
    spill.write_bytes(b"something else")
    assert ask(node, COUNT) == total(20)
    assert task.fetched == 1


def test_the_count_does_not_fall_when_the_only_task_is_killed(start: Start, table: MemoryTable) -> None:
    node, task = start(), table.tasks[0]
    table.read(task, 100)
    assert ask(node, COUNT) == total(100)
    task.alive = False
    assert ask(node, COUNT) == total(100)
    successor = table.start_task()
    for _ in range(9):
        table.read(successor, 10)
        assert ask(node, COUNT) == total(100)
    # It publishes less than was answered: the node stays where it is until the rest has been read again.
    table.seal_and_publish(successor)
    until(lambda: table.acknowledged == {"wiki": 2})
    assert ask(node, COUNT) == total(100)
    table.read(successor, 11)
    assert ask(node, COUNT) == total(101)
    task.alive = True


def test_a_table_nobody_asked_for_waits_for_its_task_and_then_fails_by_name(start: Start, table: MemoryTable) -> None:
    node, task = start(wait_ms=100), table.tasks[0]
    table.read(task, 10)
    table.heartbeat(task)
    task.alive = False
    with pytest.raises(QueryUnavailable, match=r"group 1 of supervisor s.*sequence 1 must answer"):
        ask(node, COUNT)


def test_a_query_waits_for_a_task_that_is_being_restored(start: Start, table: MemoryTable) -> None:
    node, task = start(wait_ms=10_000), table.tasks[0]
    table.read(task, 10)
    table.heartbeat(task)
    task.alive = False
    answers: list[object] = []
    reader = threading.Thread(target=lambda: answers.append(ask(node, COUNT)))
    reader.start()
    until(lambda: table.calls > 2)
    table.read(table.start_task(), 10)
    reader.join(10)
    assert answers == [total(10)]


def test_a_chunk_that_cannot_be_fetched_restarts_the_live_part(start: Start, table: MemoryTable) -> None:
    node, task = start(), table.tasks[0]
    table.read(task, 10)
    task.refuses_fetches = 1
    assert ask(node, COUNT) == total(10)


def test_rows_a_task_dropped_are_read_at_a_newer_version(start: Start, table: MemoryTable) -> None:
    node, task = start(), table.tasks[0]
    table.read(task, 10)
    assert ask(node, COUNT) == total(10)
    table.seal_and_publish(task)
    del task.sequences[1]
    task.dropped_through = 2
    table.read(task, 3)
    assert ask(node, COUNT) == total(13)


def test_queries_go_on_without_the_database(start: Start, table: MemoryTable) -> None:
    node, task = start(), table.tasks[0]
    table.read(task, 10)
    assert ask(node, COUNT) == total(10)
    table.is_down = True
    until(lambda: "database" in str(node.status()["trouble"]))
    table.read(task, 5)
    assert ask(node, COUNT) == total(15)
    task.alive = False
    assert ask(node, COUNT) == total(15)
    table.is_down = False
    until(lambda: node.status()["trouble"] == "")


def test_a_version_is_acknowledged_only_when_its_segments_are_here(start: Start, table: MemoryTable) -> None:
    node, task = start(), table.tasks[0]
    table.read(task, 10)
    assert ask(node, COUNT) == total(10)
    until(lambda: table.acknowledged == {"wiki": 1})
    table.storage.fail_next("pull", StorageUnavailable("the bucket does not answer"), times=10**6)
    table.seal_and_publish(task)
    for _ in range(3):
        node.refresh()
        table.read(task, 1)
    # Queries go on with the rows that the task still serves.
    assert ask(node, COUNT) == total(13)
    assert table.acknowledged == {"wiki": 1}


def test_a_segment_that_cannot_be_read_is_named(start: Start, table: MemoryTable, base: Path) -> None:
    node, task = start(), table.tasks[0]
    table.read(task, 10)
    segment = table.seal_and_publish(task)
    assert ask(node, COUNT) == total(10)
    cached = base / "cache" / f"{segment.checksum}.parquet"
    until(cached.exists)
    cached.write_bytes(cached.read_bytes()[:50])
    with pytest.raises(QueryUnavailable, match=str(segment.id)):
        ask(node, "SELECT MAX(page) FROM wiki")


def test_files_outside_the_time_bounds_are_not_touched(start: Start, table: MemoryTable) -> None:
    node, task = start(), table.tasks[0]
    table.read(task, 10)
    table.seal_and_publish(task)
    table.read(task, 10)
    bound_ms = START_MS + 10_000
    table.storage.fail_next("pull", StorageUnavailable("the bucket does not answer"), times=10**6)
    sql = f"SELECT COUNT(*) FROM wiki WHERE __time >= MILLIS_TO_TIMESTAMP({bound_ms})"
    assert ask(node, sql) == [(10,)]


def test_columns_that_only_live_rows_have_are_there(start: Start, table: MemoryTable) -> None:
    node, task = start(), table.tasks[0]
    table.read(task, 2)
    table.seal_and_publish(task)
    tags = pa.array([["a", "b"], None], pa.list_(pa.string()))
    table.append(task, rows(2, 2, tags=tags, Page=["X", "Y"]))
    assert ask(node, "SELECT page, Page FROM wiki ORDER BY added") == [
        ("p0", None), ("p1", None), ("p2", "X"), ("p0", "Y"),
    ]  # fmt: skip
    assert ask(node, "SELECT COUNT(*) FROM wiki WHERE tags = 'b'") == [(1,)]


def test_chunks_of_one_arrow_type_whose_columns_are_not_the_same_are_told_apart(
    start: Start, table: MemoryTable
) -> None:
    node, task = start(), table.tasks[0]

    def append(first: int, tags: list[list[str]], found: list[int | None], **marks: bool) -> None:
        added = rows(first, 1, tags=pa.array(tags, pa.list_(pa.string())), found=pa.array(found, pa.int64()))
        columns = [ColumnSpec("tags", ColumnType.STRING, multi_value=not marks, empty_lists=bool(marks))]
        columns.append(ColumnSpec("found", ColumnType.LONG, untyped=bool(marks)))
        table.append(task, tagged(added, SegmentSchema.of(columns)))

    append(0, [[]], [None], bare=True)
    append(1, [["a", "b"]], [7])
    append(2, [[]], [None], bare=True)
    assert ask(node, "SELECT COUNT(*), SUM(found) FROM wiki WHERE tags = 'b'") == [(1, 7)]
    assert ask(node, "SELECT tags, found FROM wiki ORDER BY __time")[1] == (["a", "b"], 7)


def test_what_a_spill_keeps_for_the_merge_is_no_column(start: Start, table: MemoryTable, tmp_path: Path) -> None:
    node, task = start(), table.tasks[0]
    merge_only = {TIME_OF_PREFIX + "added": [1, 2]}
    table.append(task, rows(0, 2, **merge_only), tmp_path / "spill.arrow")
    ((_, page, added), _) = ask(node, "SELECT * FROM wiki ORDER BY added")
    assert (page, added) == ("p0", 0)


def test_a_published_column_of_another_type_is_cast(start: Start, table: MemoryTable) -> None:
    node = start()
    text = SegmentSchema.of([ColumnSpec("page", ColumnType.STRING), ColumnSpec("added", ColumnType.STRING)])
    table.publish(1, 3, rows(0, 3).set_column(2, "added", pa.array(["5", "x", "7"])), text)
    table.tasks[0].sequences = {}
    table.read(table.start_task(), 1)
    assert ask(node, COUNT) == [(4, 15)]


def test_names_and_system_tables(start: Start, table: MemoryTable) -> None:
    node = start()
    with pytest.raises(UnknownName, match="wikl"):
        ask(node, "SELECT COUNT(*) FROM wikl")
    found = ask(node, "SELECT TABLE_NAME FROM INFORMATION_SCHEMA.TABLES WHERE TABLE_SCHEMA = 'druid'")
    assert found == [("wiki",)]
    columns = ask(node, "SELECT COLUMN_NAME, DATA_TYPE FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_NAME = 'wiki'")
    assert columns == [("__time", "TIMESTAMP"), ("page", "VARCHAR"), ("added", "BIGINT")]
    assert ask(node, "SELECT COUNT(*) FROM sys.segments") == [(0,)]


def test_chunks_are_removed_once_published_and_read(start: Start, table: MemoryTable) -> None:
    node, task = start(), table.tasks[0]
    table.read(task, 10)
    ask(node, COUNT)
    assert node.status()["mirrorChunks"] == 1
    table.seal_and_publish(task)
    until(lambda: table.acknowledged == {"wiki": 2} and node.status()["mirrorChunks"] == 0)
    assert ask(node, COUNT) == total(10)


def test_live_rows_past_the_mirrors_limit_fail_by_name(start: Start, table: MemoryTable) -> None:
    node, task = start(mirror_bytes=2_000), table.tasks[0]
    table.read(task, 1_000)
    with pytest.raises(ResourceLimitExceeded, match="mirror"):
        ask(node, COUNT)


@pytest.mark.parametrize("by_its_id", [True, False])
def test_a_query_is_cancelled_by_its_id_or_ended_with_all_others_for_a_reason(
    start: Start, table: MemoryTable, by_its_id: bool
) -> None:
    node, task = start(), table.tasks[0]
    table.read(task, 2_000)
    sql = "SELECT COUNT(*) FROM wiki a, wiki b, wiki c WHERE a.added + b.added + c.added = -1"
    outcome: list[Exception] = []

    def run() -> None:
        try:
            ask(node, sql, sqlQueryId="q1")
        except (QueryCancelled, QueryUnavailable) as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    until(lambda: node.status()["queriesRunning"] == 1)
    until(lambda: [query["state"] for query in node.queries()] == ["RUNNING"])
    [query] = node.queries()
    assert (query["sqlQueryId"], query["sql"]) == ("q1", sql) and str(query["startTime"]).endswith("Z")
    if by_its_id:
        assert node.cancel("q1") and not node.cancel("q2")
    else:
        assert node.end_queries(QueryUnavailable("the server is stopping")) == ["q1"]
    thread.join(10)
    assert node.queries() == []
    assert [str(error) for error in outcome] == ["the query was cancelled" if by_its_id else "the server is stopping"]
    assert not node.cancel("q1")


def test_a_watcher_sees_every_row_once_through_publishes_and_kills(start: Start, table: MemoryTable) -> None:
    node = start(wait_ms=5_000)
    produced, polls = [0], [0]
    stopped = threading.Event()

    def poll() -> None:
        seen = polls[0]
        until(lambda: polls[0] > seen)

    def ingest() -> None:
        task: Task = table.tasks[0]
        for step in range(1, 61):
            table.read(task, 7)
            produced[0] = max(produced[0], max(task.sequences.items())[1].position[0])
            if step % 9 == 0:
                table.heartbeat(task)
                table.seal_and_publish(task)
            if step % 20 == 0:
                task.alive = False
                poll()
                task = table.start_task()
            poll()
        while max(task.sequences.items())[1].position[0] < produced[0]:
            table.read(task, 7)
        stopped.set()

    writer = threading.Thread(target=ingest)
    writer.start()
    last = 0
    while not stopped.is_set():
        ((count, added),) = ask(node, COUNT)
        assert (added or 0) == sum(range(count)), "rows are missing or doubled"
        assert count >= last, "the count fell"
        last = count
        polls[0] += 1
    writer.join()
    final = max(table.tasks[-1].sequences.items())[1].position[0]
    until(lambda: ask(node, COUNT) == total(final))
