"""A supervisor whose tasks do not read says why and since when, although its own look at the stream goes well."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.offsets import OffsetMap
from ingest.protocol import TaskHeartbeat
from ingest.supervisor.standstills import LASTING_MS, Standstills, told


def beat(token: str, status: str = "reading", detail: str | None = None, **more: Any) -> TaskHeartbeat:
    held: dict[str, Any] = {"unpublished_rows": 7, "unpublished_bytes": 900, "pending_publishes": 3, **more}
    return TaskHeartbeat(token, 1, OffsetMap({0: 5}), status, None, counters={}, detail=detail, **held)


def test_a_task_that_cannot_read_for_a_while_is_told_with_its_latest_reason_and_its_first_moment() -> None:
    tasks = Standstills()
    tasks.heard(beat("a", "cannot_read", "no broker"), 1_000)
    tasks.heard(beat("b"), 1_000)
    tasks.heard(beat("a", "cannot_read", "no registry"), 2_000)
    now_ms = 1_000 + LASTING_MS
    assert tasks.lasting(now_ms - 1) == []
    lasting = tasks.lasting(now_ms)
    assert lasting[0].is_ill
    assert told(lasting, now_ms, LASTING_MS) == ("a task does not read since 1970-01-01T00:00:00.000Z: no registry",)
    tasks.heard(beat("b", "cannot_read", "no registry"), 1_000)
    assert told(tasks.lasting(now_ms), now_ms, LASTING_MS)[0].startswith("2 tasks do not read since 1970")


def test_reading_again_or_ending_takes_it_back() -> None:
    tasks = Standstills()
    for token in ("a", "b"):
        tasks.heard(beat(token, "cannot_read", "no registry"), 0)
    tasks.heard(beat("a"), 1_000)
    tasks.gone("b")
    assert tasks.lasting(10 * LASTING_MS) == []
    tasks.heard(beat("a", "cannot_read", "no registry"), 20_000)
    assert tasks.lasting(20_000 + LASTING_MS - 1) == []


@pytest.mark.parametrize(
    ("status", "detail", "words"),
    [
        ("paused", None, ["paused for a checkpoint", "/status/health"]),
        ("paused", "the disk is full", ["paused for a checkpoint", "Besides: the disk is full"]),
        ("back_pressure", None, ["worker.disk_max_bytes", "7 rows, 900 bytes", "3 sequences wait", "deep_storage"]),
        ("back_pressure", "the bucket refuses", ["waits for room: the bucket refuses", "3 sequences wait"]),
    ],
)
def test_waiting_that_ends_by_itself_is_told_and_is_no_illness(
    status: str, detail: str | None, words: list[str]
) -> None:
    tasks = Standstills()
    tasks.heard(beat("a", status, detail), 0)
    [found] = tasks.lasting(LASTING_MS)
    assert not found.is_ill and all(word in found.why for word in words), found.why
    tasks.heard(beat("a", "cannot_read", "no broker"), LASTING_MS)
    assert tasks.lasting(LASTING_MS) == [], "another reason begins anew"
    for ending in ("publishing", "stopping", "starting"):
        tasks.heard(beat("a", ending), LASTING_MS)
        assert not tasks.found
