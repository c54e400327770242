"""A supervisor whose tasks cannot read says so after a while, although its own look at the stream goes well."""

from __future__ import annotations

from ingest.supervisor.health import UNREADABLE_MS, Unreadable


def test_a_task_that_cannot_read_for_a_while_is_told_with_its_latest_reason() -> None:
    tasks = Unreadable()
    tasks.heard("a", "no broker", 1_000)
    tasks.heard("b", None, 1_000)
    tasks.heard("a", "no registry", 2_000)
    assert tasks.lasting(1_000 + UNREADABLE_MS - 1) is None
    assert tasks.lasting(1_000 + UNREADABLE_MS) == "no registry"


def test_reading_again_or_ending_takes_it_back() -> None:
    tasks = Unreadable()
    for token in ("a", "b"):
        tasks.heard(token, "no registry", 0)
    tasks.heard("a", None, 1_000)
    tasks.gone("b")
    assert tasks.lasting(10 * UNREADABLE_MS) is None
    tasks.heard("a", "no registry", 20_000)
    assert tasks.lasting(20_000 + UNREADABLE_MS - 1) is None
