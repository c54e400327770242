"""Who asks the same of the same rows at once shares one run; nobody waits for one who fails, is slow or less urgent."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa
import pytest

from query.errors import QueryCancelled, QueryTimeout
from query.lanes import Claim
from query.model import SqlRequest
from query.result_cache import Kept, ResultCache
from query.sharing import READ_MS, Sharing, Turn
from tests.unit.query.memory_table import MemoryTable
from tests.unit.query.node_steps import COUNT, Start, ask, total, until

KEY = b"k"
BATCH = pa.record_batch({"x": [1]})


class Hand:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.at_ms = 0

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic_ms(self) -> int:
        return self.at_ms


class Asked:
    """Others who ask for the answer of one turn, and how often their wait looked around."""

    def __init__(self) -> None:
        self.cache, self.clock, self.looks = ResultCache(1 << 20), Hand(), 0
        self.sharing = Sharing(self.cache, self.clock)
        self.pool = ThreadPoolExecutor(4)
        first = self.sharing.answer(KEY, Claim(), 1_000, self.look)
        assert isinstance(first, Turn)
        self.turn = first

    def look(self) -> None:
        self.looks += 1

    def another(self, claim: Claim | None = None, look: Callable[[], None] | None = None) -> Future[Kept | Turn | None]:
        return self.pool.submit(self.sharing.answer, KEY, claim or Claim(), 1_000, look or self.look)

    def waits(self) -> None:
        """Returns when somebody waits."""
        before = self.looks
        until(lambda: self.looks > before)


@pytest.fixture
def asked() -> Asked:
    return Asked()


def test_who_waited_gets_what_the_first_one_left(asked: Asked) -> None:
    others = [asked.another() for _ in range(3)]
    asked.waits()
    asked.cache.put(KEY, BATCH.schema, [BATCH])
    asked.turn.over()
    found = [other.result(5) for other in others]
    assert all(isinstance(one, Kept) and one.batches == (BATCH,) for one in found)


def test_who_waited_for_nothing_makes_the_answer_alone_and_waits_no_second_time(asked: Asked) -> None:
    others = [asked.another() for _ in range(3)]
    asked.waits()
    asked.turn.over()
    asked.turn.over()
    # One that came late may have the next turn; who waited has had its wait.
    assert all(other.result(5) is None or isinstance(other.result(5), Turn) for other in others)
    assert None in [other.result(5) for other in others]


def test_a_slow_reader_holds_up_nobody(asked: Asked) -> None:
    asked.turn.made()
    other = asked.another()
    asked.waits()
    asked.clock.at_ms = READ_MS + 1
    assert other.result(5) is None
    assert asked.another().result(5) is None, "nor who comes after that"


def test_who_is_more_urgent_does_not_wait_for_who_is_less(asked: Asked) -> None:
    assert isinstance(asked.another(Claim(priority=5)).result(5), Turn)
    assert isinstance(asked.another(Claim(is_long=True)).result(5), Turn)


def test_a_wait_ends_with_its_query(asked: Asked) -> None:
    def cancelled() -> None:
        raise QueryCancelled("the query was cancelled")

    with pytest.raises(QueryCancelled):
        asked.another(look=cancelled).result(5)
    other = asked.another()
    asked.waits()
    asked.clock.at_ms = 1_000
    with pytest.raises(QueryTimeout):
        other.result(5)


def test_a_node_runs_a_statement_once_for_all_who_ask_it_at_once(start: Start, table: MemoryTable) -> None:
    node, task = start(), table.tasks[0]
    table.read(task, 10)
    first = node.execute(SqlRequest(COUNT))
    gone = threading.Event()

    def other() -> list[tuple[int, int]]:
        try:
            return ask(node, COUNT)
        finally:
            gone.set()

    with ThreadPoolExecutor(8) as pool:
        others = [pool.submit(other) for _ in range(8)]
        rows = [tuple(row.values()) for batch in first.batches() for row in batch.to_pylist()]
        assert rows == total(10) and [one.result(10) for one in others] == [total(10)] * 8
    assert node.status()["resultsFromCache"] == 8
    table.read(task, 1)
    failing = node.execute(SqlRequest(COUNT))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ask, node, COUNT)
        failing.close()
        assert waiting.result(10) == total(11)
    assert gone.is_set() and node.status()["queriesRunning"] == 0
