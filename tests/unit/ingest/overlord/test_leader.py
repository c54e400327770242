"""The leader's lease on a clock that the test moves."""

from __future__ import annotations

from ingest.clock import ManualClock
from ingest.metadata.memory import MemoryMetadataStore
from ingest.overlord.leader import LeaderElection, LeaderSettings


class Node:
    """One overlord's election with what it was told."""

    def __init__(self, name: str, store: MemoryMetadataStore, clock: ManualClock) -> None:
        self.gained: list[int] = []
        self.lost = 0
        settings = LeaderSettings(name, f"{name}:1", lease_ms=4_000)
        self.election = LeaderElection(store, settings, clock, self.gained.append, self._lose)

    def _lose(self) -> None:
        self.lost += 1

    def step(self) -> int | None:
        self.election.step()
        return self.election.generation


def two() -> tuple[Node, Node, ManualClock]:
    store, clock = MemoryMetadataStore(), ManualClock()
    return Node("one", store, clock), Node("two", store, clock), clock


def test_the_first_to_come_leads_at_once() -> None:
    one, two_, _ = two()
    assert one.step() == 1
    assert two_.step() is None
    assert one.gained == [1]


def test_a_standby_takes_over_when_the_counter_has_stood_still_for_the_lease() -> None:
    one, standby, clock = two()
    one.step()
    standby.step()
    clock.advance(3_999)
    assert standby.step() is None
    clock.advance(1)
    assert standby.step() == 2


def test_a_beating_leader_is_never_replaced() -> None:
    one, standby, clock = two()
    one.step()
    for _ in range(50):
        clock.advance(1_000)
        one.step()
        assert standby.step() is None


def test_a_leader_that_was_replaced_steps_down_once() -> None:
    one, standby, clock = two()
    one.step()
    standby.step()
    clock.advance(4_000)
    standby.step()
    assert one.step() is None
    one.step()
    assert one.lost == 1


def test_an_overlord_that_comes_back_under_its_own_name_does_not_wait_for_its_earlier_life() -> None:
    store, clock = MemoryMetadataStore(), ManualClock()
    Node("one", store, clock).step()
    assert Node("one", store, clock).step() == 2


def test_a_refused_write_ends_the_term() -> None:
    one, _, _ = two()
    one.step()
    one.election.report_loss(1)
    one.step()
    assert one.lost == 1


def test_late_word_of_a_loss_in_an_earlier_generation_ends_nothing() -> None:
    one, standby, clock = two()
    one.step()
    standby.step()
    clock.advance(4_000)
    assert standby.step() == 2
    assert one.step() is None
    clock.advance(4_000)
    one.step()
    clock.advance(4_000)
    assert one.step() == 3
    one.election.report_loss(1)
    assert one.step() == 3
    assert one.lost == 1
