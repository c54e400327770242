"""Quarantine files past their bounds are given up: in which order, with which words, and what verify makes of it."""

from __future__ import annotations

from collections.abc import Callable, Collection

from ingest.clock import ManualClock
from ingest.metadata.records import QuarantineRow
from ingest.overlord.duties import Sweeper
from ingest.overlord.expiry import DAY_MS, RIPE_MS, QuarantineBounds, QuarantineExpiry, past_bounds, too_old
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


def file(name: str, at_ms: int, state: str = "published") -> QuarantineRow:
    return QuarantineRow("t", SequenceRef("s", 1, at_ms), name, 1, 100, {}, at_ms, state)


def test_what_was_replayed_goes_first_then_the_oldest() -> None:
    files = [file("a", 1), file("b", 2), file("c", 3, "replayed"), file("d", 4)]

    def chosen(ripe: Collection[str] = (), max_bytes: int | None = None) -> list[str]:
        return [each.path for each in past_bounds(files, 400, set(ripe), max_bytes)]

    assert chosen() == [] and chosen(max_bytes=400) == []
    assert chosen(max_bytes=399) == ["c"]
    assert chosen(max_bytes=250) == ["c", "a"]
    assert chosen(max_bytes=0) == ["c", "a", "b", "d"]
    assert chosen(["a"]) == ["a"]
    assert chosen(["a"], max_bytes=250) == ["a", "c"]


def test_a_file_is_no_older_than_those_before_it() -> None:
    day = DAY_MS
    files = [file("a", 10 * day), file("of a clock that stood at zero", 1), file("of the future", 90 * day)]
    files.append(file("b", 12 * day))
    assert too_old(files, 20 * day, None) == set()
    assert too_old(files, 20 * day, 11) == set()
    assert too_old(files, 20 * day, 9) == {"a", "of a clock that stood at zero"}
    assert too_old(files, 20 * day, 7.9) == {"a", "of a clock that stood at zero", "b"}


class Jumpy(ManualClock):
    """Its wall clock may be set."""

    ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms

    def jump(self, by_ms: int) -> None:
        self.ahead_ms += by_ms


def test_a_clock_that_jumps_gives_nothing_up_and_age_does_after_an_hour_by_two_clocks(
    made: Callable[..., Table],
) -> None:
    table = made(broken_spec(), [told(1)])
    [kept] = table.store.quarantine_files("clicks", 10)
    clock = Jumpy(kept.published_ms)
    expiry = QuarantineExpiry(table.store, table.generation, clock, QuarantineBounds(max_age_days=1))
    clock.jump(400 * DAY_MS)
    assert expiry.expire() == 0
    clock.advance(RIPE_MS - 1)
    assert expiry.expire() == 0
    clock.jump(-400 * DAY_MS)
    assert expiry.expire() == 0
    clock.jump(400 * DAY_MS)
    clock.advance(2)
    assert expiry.expire() == 0, "it was set right in between: the hour begins anew"
    clock.advance(RIPE_MS)
    table.store.server_clock_ms = kept.published_ms + RIPE_MS
    assert expiry.expire() == 0, "the database's clock knows better"
    table.store.server_clock_ms = kept.published_ms + 2 * DAY_MS
    assert expiry.expire() == 0
    clock.advance(RIPE_MS)
    assert expiry.expire() == 1
