"""Resets over HTTP: what was read is published first, or given up at once when asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.in_process import click, eventually, spec
from tests.unit.server.test_api import SUPERVISOR, World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    found.post(SUPERVISOR, spec())
    found.system.stream.append("clicks", 0, [click(n) for n in range(10)])
    eventually(lambda: found.system.records_read() == 10)
    yield found
    found.system.stop()


def test_a_reset_that_discards_gives_up_what_was_read_and_reads_it_again(world: World) -> None:
    world.post(f"{SUPERVISOR}/clicks/reset?discard=true")
    eventually(lambda: any(task.task.group == 2 for task in world.system.tasks()))
    eventually(lambda: all(task.task.group == 2 for task in world.system.tasks()), what="the old one has ended")
    assert world.system.ledger() == []
    [reset] = [row for row in world.system.store.audit("clicks", 10) if row.action == "reset"]
    assert list(reset.detail["voided"]) == ["clicks_1_0"]
    eventually(lambda: world.system.records_read() == 10)
    world.post(f"{SUPERVISOR}/clicks/suspend")
    eventually(lambda: world.system.rows_published() == 10)


@pytest.mark.parametrize("query", ["", "?discard=false"])
def test_a_plain_reset_publishes_what_was_read_first(world: World, query: str) -> None:
    moves = {"partitions": {"type": "end", "stream": "clicks", "partitionOffsetMap": {"0": 4}}}
    world.post(f"{SUPERVISOR}/clicks/resetOffsets{query}", moves)
    eventually(lambda: world.system.rows_published() == 10)
    eventually(lambda: world.system.committed()[0] == 4)
    [reset] = [row for row in world.system.store.audit("clicks", 10) if row.action == "reset"]
    assert reset.detail["voided"] == {}
