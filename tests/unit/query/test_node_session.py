"""A query node asked for a session that has seen more elsewhere (PR-7)."""

from __future__ import annotations

import threading

import pytest

from query.answer import QueryResult
from query.assembly import Reached
from query.errors import QueryUnavailable
from query.model import SqlRequest
from query.session import Seen
from tests.unit.query.memory_table import MemoryTable
from tests.unit.query.node_steps import COUNT, Start, ask, total


def rows_of(result: QueryResult) -> list[tuple[int, ...]]:
    return [tuple(row.values()) for batch in result.batches() for row in batch.to_pylist()]


def test_an_answer_shows_no_less_than_the_reader_saw_at_another_node(start: Start, table: MemoryTable) -> None:
    node, task = start(), table.tasks[0]
    table.read(task, 7)
    seen = {"wiki": Seen(1, {("s", 0): Reached(0, 10)})}
    assert ask(node, COUNT) == total(7), "without a session the promise is the node's own"
    with pytest.raises(QueryUnavailable, match="session saw of table wiki: .*offset 7.* 10 "):
        node.execute(SqlRequest(COUNT), seen)
    assert ask(node, COUNT) == total(7), "nobody else waits for it"
    timer = threading.Timer(0.05, lambda: table.read(task, 3))
    timer.start()
    result = node.execute(SqlRequest(COUNT), seen)
    assert rows_of(result) == total(10)
    assert result.seen == seen
    timer.join()


def test_a_reader_who_saw_a_newer_version_gets_it(start: Start, table: MemoryTable) -> None:
    node, task = start(), table.tasks[0]
    table.read(task, 10)
    assert ask(node, COUNT) == total(10)
    table.seal_and_publish(task)
    table.read(task, 2)
    seen = {"wiki": Seen(table.version, {("s", 0): Reached(0, 12)})}
    result = node.execute(SqlRequest(COUNT), seen)
    assert result.versions == {"wiki": table.version}
    assert rows_of(result) == total(12)
    with pytest.raises(QueryUnavailable, match="session saw"):
        node.execute(SqlRequest(COUNT), {"wiki": Seen(table.version + 1)})


def test_another_replica_is_asked_when_the_first_is_behind_what_was_seen(start: Start, table: MemoryTable) -> None:
    node, first = start(), table.tasks[0]
    ahead = table.start_task()
    table.read(first, 5)
    table.read(ahead, 9)
    assert ask(node, COUNT) == total(5)
    seen = {"wiki": Seen(1, {("s", 0): Reached(0, 9)})}
    result = node.execute(SqlRequest(COUNT), seen)
    assert rows_of(result) == total(9)
    assert ask(node, COUNT) == total(9), "from now on it is the node's own promise"
