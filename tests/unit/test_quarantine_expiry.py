"""Quarantine files past their bounds are given up: in which order, with which words, and what verify makes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ingest.metadata.records import QuarantineRow
from ingest.overlord.duties import Sweeper
from ingest.overlord.expiry import QuarantineBounds, QuarantineExpiry, past_bounds
from ingest.protocol import SequenceRef
from tests.in_process import spec
from tests.unit.quarantine_table import Table, broken_spec, told


def test_a_file_past_its_bounds_is_given_up_with_a_word_and_verify_knows(made: Callable[..., Table]) -> None:
    table = made(broken_spec(), [told(1), b"{broken"])
    table.mend(spec())
    table.replay()
    bounds = QuarantineBounds(max_bytes=1)
    assert QuarantineExpiry(table.store, table.generation, table.system.clock, QuarantineBounds()).expire() == 0
    assert QuarantineExpiry(table.store, table.generation, table.system.clock, bounds).expire() == 2
    assert QuarantineExpiry(table.store, table.generation, table.system.clock, bounds).expire() == 0
    [told_of] = [row for row in table.store.audit("clicks", 10) if row.action == "quarantine-expired"]
    assert (told_of.detail["files"], told_of.detail["recordsNeverIngested"]) == (2, 1)
    assert {file.state for file in table.store.quarantine_files("clicks", 10)} == {"expired"}
    table.assert_proved()
    assert Sweeper(table.store, table.system.storage, table.generation, table.system.clock).sweep() == 2
    table.assert_proved()


def test_what_was_replayed_goes_first_then_the_oldest() -> None:
    def file(name: str, at_ms: int, state: str = "published") -> QuarantineRow:
        return QuarantineRow("t", SequenceRef("s", 1, at_ms), name, 1, 100, {}, at_ms, state)

    files = [file("a", 1), file("b", 2), file("c", 3, "replayed"), file("d", 4)]

    def chosen(**bounds: Any) -> list[str]:
        return [each.path for each in past_bounds(files, 400, 10, QuarantineBounds(**bounds))]

    assert chosen() == [] and chosen(max_bytes=400) == []
    assert chosen(max_bytes=399) == ["c"]
    assert chosen(max_bytes=250) == ["c", "a"]
    assert chosen(max_bytes=0) == ["c", "a", "b", "d"]
    assert chosen(max_age_days=8 / 86_400_000) == ["a"]
    assert chosen(max_age_days=8 / 86_400_000, max_bytes=250) == ["a", "c"]
