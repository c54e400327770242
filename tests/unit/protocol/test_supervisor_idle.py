"""A supervisor whose stream is quiet: when it rests, what its tasks do then, and what wakes it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ingest.metadata.records import DesiredState
from ingest.offsets import OffsetMap
from ingest.protocol import SequenceRef, SequenceState, StopCommand
from ingest.supervisor import messages as m
from tests.unit.protocol.lead import CONFIG, Lead
from tests.unit.protocol.task_builder import at

FIRST = SequenceRef("edits", 1, 0)
AFTER_MS = 10_000
IDLE = replace(CONFIG, idle_after_ms=AFTER_MS)


def look(lead: Lead, *ends: int) -> list[m.Command]:
    starts = OffsetMap((p, 0) for p in range(len(ends)))
    return lead.post(m.StreamSeen(lead.now_ms, "id", starts, starts, OffsetMap(enumerate(ends))))


def quiet(lead: Lead, *ends: int, for_ms: int = AFTER_MS) -> list[m.Command]:
    """A look every second; all commands of that time."""
    done = look(lead, *ends)
    for _ in range(for_ms // 1_000):
        done = [*done, *lead.ticks(1_000), *look(lead, *ends)]
    return done


def reading() -> Lead:
    """Partitions 0 and 1 read to 5 and 3 by t1."""
    lead = Lead(IDLE)
    lead.run("t1", "w1")
    lead.beat("t1", 0, 5, 3)
    return lead


def asleep() -> Lead:
    lead = reading()
    quiet(lead, 5, 3)
    assert lead.group.round is not None
    lead.paused("t1", lead.group.round.number, 0, 5, 3)
    return lead


def test_a_stream_that_stays_quiet_is_released_published_and_left() -> None:
    lead = asleep()
    [record] = lead.store.sequences("edits", 1, 0)
    assert (record.state, record.released, record.end) == (SequenceState.SEALED, True, at(5, 3))
    lead.published(FIRST)
    assert lead.machine.idle and lead.machine.rested
    assert lead.sent(StopCommand) == ["t1"]
    assert not [c for c in quiet(lead, 5, 3) if isinstance(c, m.OpenGroup | m.CreateAttempt | m.RaiseEpochs)]


def test_it_is_not_quiet_while_something_comes_or_is_unread() -> None:
    lead = reading()
    quiet(lead, 5, 3, for_ms=AFTER_MS - 1_000)
    quiet(lead, 5, 4)
    assert not lead.machine.idle, "one record more, which nobody has read"
    lead.beat("t1", 0, 5, 4)
    quiet(lead, 5, 4, for_ms=AFTER_MS - 1_000)
    assert not lead.machine.idle
    quiet(lead, 5, 4, for_ms=2_000)
    assert lead.machine.idle


def test_what_comes_opens_the_partitions_where_they_were_released_before_that_is_published() -> None:
    lead = asleep()
    look(lead, 5, 7)
    assert not lead.machine.idle
    [opened] = [c for c in lead.did if isinstance(c, m.OpenGroup)]
    assert opened.partitions == (0, 1)
    assert lead.store.sequences("edits", 2, 0)[0].start == at(5, 3)


def test_a_reset_wakes_it_where_the_offset_lies_behind_the_end() -> None:
    lead = asleep()
    lead.published(FIRST)
    lead.post(m.ResetAsked(lead.now_ms, OffsetMap({0: 2}), discard=False))
    assert not lead.machine.idle
    assert lead.store.sequences("edits", 2, 0)[0].start == at(2, 3)


@pytest.mark.parametrize("change", [{"spec_version": 2}, {"idle_after_ms": None}])
def test_an_act_of_an_operator_wakes_it(change: dict[str, int | None]) -> None:
    lead = asleep()
    lead.published(FIRST)
    lead.desire(DesiredState.RUNNING, replace(IDLE, **change))  # type: ignore[arg-type]
    assert not lead.machine.idle and lead.of(m.OpenGroup)


def test_a_new_leader_starts_nothing_before_it_has_looked() -> None:
    lead = asleep()
    lead.published(FIRST)
    lead.take_over(lead.generation, IDLE)
    assert lead.machine.idle
    assert not [c for c in lead.ticks(3_000) if isinstance(c, m.OpenGroup | m.CreateAttempt)]
    assert not look(lead, 5, 3) and lead.machine.idle
    look(lead, 6, 3)
    assert not lead.machine.idle and lead.of(m.OpenGroup)


def test_a_new_leader_wakes_at_once_when_something_came_meanwhile() -> None:
    lead = asleep()
    lead.published(FIRST)
    lead.take_over(lead.generation, IDLE)
    look(lead, 5, 9)
    assert not lead.machine.idle and lead.of(m.OpenGroup)


def test_a_new_leader_that_finds_open_groups_waits_as_long_as_any() -> None:
    lead = reading()
    lead.take_over(lead.generation, IDLE)
    assert not lead.machine.idle
    lead.beat("t1", 0, 5, 3)
    quiet(lead, 5, 3, for_ms=AFTER_MS - 1_000)
    assert not lead.machine.idle


def test_without_an_idle_config_tasks_stay() -> None:
    lead = Lead()
    lead.run("t1", "w1")
    lead.beat("t1", 0, 5, 3)
    quiet(lead, 5, 3, for_ms=60_000)
    assert not lead.machine.idle and lead.group.open is not None


def test_suspended_it_is_not_idle() -> None:
    lead = asleep()
    lead.desire(DesiredState.SUSPENDED)
    quiet(lead, 5, 3)
    assert not lead.machine.idle


BOUNDED = replace(CONFIG, bounds=at(5, 3))


def test_a_range_that_was_read_is_released_at_once_and_complete_when_it_is_published() -> None:
    lead = Lead(BOUNDED)
    lead.run("t1", "w1")
    lead.beat("t1", 0, 5, 2)
    look(lead, 5, 3)
    assert not lead.machine.complete, "one record is unread"
    lead.beat("t1", 0, 5, 3)
    look(lead, 5, 3)
    assert lead.machine.complete and lead.group.round is not None
    lead.paused("t1", lead.group.round.number, 0, 5, 3)
    assert not lead.machine.is_completed
    lead.published(FIRST)
    assert lead.machine.is_completed and lead.sent(StopCommand) == ["t1"]
    lead.take_over(lead.generation, BOUNDED)
    assert lead.machine.is_completed and not lead.of(m.OpenGroup)


def test_what_becomes_of_a_partition_that_was_read_to_its_end_is_no_fault() -> None:
    lead = Lead(BOUNDED)
    lead.run("t1", "w1")
    lead.beat("t1", 0, 5, 0)
    gone = OffsetMap({0: 50, 1: 0})
    lead.post(m.StreamSeen(lead.now_ms, "id", OffsetMap(), gone, at(5, 3)))
    assert lead.machine.health.named is None
    lead.post(m.StreamSeen(lead.now_ms, "id", OffsetMap(), at(50, 2), at(5, 3)))
    assert "have expired" in str(lead.machine.health.named)


def test_ends_that_move_on_open_the_partitions_again() -> None:
    lead = Lead(BOUNDED)
    lead.run("t1", "w1")
    lead.beat("t1", 0, 5, 3)
    look(lead, 5, 3)
    assert lead.group.round is not None
    lead.paused("t1", lead.group.round.number, 0, 5, 3)
    lead.published(FIRST)
    lead.desire(DesiredState.RUNNING, replace(BOUNDED, spec_version=2, bounds=at(9, 3)))
    assert not lead.machine.complete
    assert lead.store.sequences("edits", 2, 0)[0].start == at(5, 3)
