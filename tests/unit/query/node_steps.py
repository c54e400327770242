"""What tests of a query node do and expect: questions, totals, waiting."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from query.model import SqlRequest
from query.node import QueryNode

COUNT = "SELECT COUNT(*), SUM(added) FROM wiki"
Start = Callable[..., QueryNode]


def ask(node: QueryNode, sql: str, **context: Any) -> list[tuple[Any, ...]]:
    result = node.execute(SqlRequest(sql, dict(context)))
    return [tuple(row.values()) for batch in result.batches() for row in batch.to_pylist()]


def total(count: int) -> list[tuple[int, int]]:
    return [(count, sum(range(count)))]


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "it did not happen within 20 s"
        time.sleep(0.005)
