"""An answer is given again only to the same question over the same rows, and the memory for that is bounded."""

from __future__ import annotations

import pyarrow as pa

from query.binding import ArrowInput, Function, Relation, RowInput
from query.result_cache import SHARE, ResultCache
from tests.unit.query.memory_table import MemoryTable
from tests.unit.query.node_steps import COUNT, Start, ask, total, until


def relation(path: str = "a.parquet", chunk: str = "1", column: int = 0) -> Relation:
    return Relation("t1", f"SELECT x FROM read_parquet(['{path}'])", (ArrowInput("l", (chunk,), (column,)),))


def test_every_part_of_a_question_is_part_of_its_key() -> None:
    cache = ResultCache(1 << 20)
    asked = [
        cache.key("SELECT 1", [relation()], []),
        cache.key("SELECT 2", [relation()], []),
        cache.key("SELECT 1", [relation("b.parquet")], []),
        cache.key("SELECT 1", [relation(chunk="2")], []),
        cache.key("SELECT 1", [relation(column=1)], []),
        cache.key("SELECT 1", [relation(), relation()], []),
        cache.key("SELECT 1", [relation()], [Function("f", "lookup1")]),
        cache.key("SELECT 1", [relation()], [Function("f", "lookup2")]),
    ]
    assert len(set(asked)) == len(asked) and None not in asked
    assert asked[0] == cache.key("SELECT 1", [relation()], [])
    at_hand = Relation("t2", "SELECT * FROM r", rows=(RowInput("r", ""),))
    assert cache.key("SELECT 1", [relation(), at_hand], []) is None and cache.key("SELECT 1", [], []) is None
    assert ResultCache(0).key("SELECT 1", [relation()], []) is None


def test_the_least_recently_used_answers_go_and_large_ones_never_come() -> None:
    cache = ResultCache(SHARE * 3_000)
    batch = pa.record_batch({"x": pa.array(range(200))})
    for number in range(200):
        cache.put(bytes([number]), batch.schema, [batch])
        assert cache.get(bytes([0])) is not None, "it is asked for all the time"
    assert cache.used_bytes <= SHARE * 3_000 and cache.get(bytes([1])) is None and cache.get(bytes([199])) is not None
    cache.put(b"large", batch.schema, [batch, batch])
    assert cache.get(b"large") is None
    used = cache.used_bytes
    cache.put(bytes([199]), batch.schema, [batch])
    assert cache.used_bytes == used


def test_what_was_begun_before_the_cache_forgot_is_never_told_afterwards() -> None:
    cache, batch = ResultCache(1 << 20), pa.record_batch({"x": [1]})
    begun = cache.key("SELECT 1", [relation()], [])
    assert begun is not None
    cache.forget()
    cache.put(begun, batch.schema, [batch])
    asked = cache.key("SELECT 1", [relation()], [])
    assert asked is not None and cache.get(asked) is None, "it read the damaged file"


def test_a_node_answers_again_until_there_are_other_rows(start: Start, table: MemoryTable) -> None:
    node, task = start(), table.tasks[0]
    table.read(task, 10)
    table.seal_and_publish(task)
    table.read(task, 2)
    # Once the node has it, what is published is read from other files: not between two of the questions.
    until(lambda: node.status()["tables"] == table.versions())
    assert [ask(node, COUNT) for _ in range(3)] == [total(12)] * 3
    assert node.status()["resultsFromCache"] == 2
    assert ask(node, COUNT, useCache=False) == total(12) and node.status()["resultsFromCache"] == 2
    table.read(task, 1)
    assert ask(node, COUNT) == total(13) and node.status()["resultsFromCache"] == 2
    table.seal_and_publish(task)
    assert ask(node, COUNT) == total(13)
    newest = {"queryType": "timeBoundary", "dataSource": "wiki", "filter": {"type": "true"}}
    assert len({b"".join(node.execute_native("q", newest).pieces()) for _ in range(3)}) == 1
    ask(node, "SELECT COUNT(*) FROM INFORMATION_SCHEMA.TABLES")
    assert node.cancel("q") is False and node.status()["queriesRunning"] == 0
