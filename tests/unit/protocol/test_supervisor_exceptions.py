"""Too many bad messages: counted over ranges and leaders, a final round, publish, then rest until an operator acts."""

from __future__ import annotations

from dataclasses import replace

from ingest.metadata.records import DesiredState
from ingest.protocol import SequenceRef, SequenceState, StopCommand
from ingest.supervisor import messages as m
from tests.unit.protocol.lead import CONFIG, Lead, one_replica
from tests.unit.protocol.task_builder import at

FIRST = SequenceRef("edits", 1, 0)
LIMITED = replace(CONFIG, max_parse_exceptions=10)


def limited() -> Lead:
    return one_replica(max_parse_exceptions=10)


def sealed_with(lead: Lead, *offsets: int, bad: int) -> None:
    """The task's limit ends the open sequence, of which ``bad`` messages were bad."""
    number = lead.group.open.ref.number if lead.group.open is not None else 0
    lead.beat("t1", number, *offsets, bad={number: bad})
    lead.ask("t1", SequenceRef("edits", 1, number), *offsets)
    lead.took("t1", lead.seal_sent_to("t1"))


def finally_reported(lead: Lead, sequence: int, *offsets: int) -> list[m.Command]:
    assert lead.group.round is not None
    return lead.paused("t1", lead.group.round.number, sequence, *offsets)


def test_crossing_the_limit_asks_for_a_final_round_and_nothing_follows() -> None:
    lead = limited()
    lead.beat("t1", 0, 50, 50, bad={0: 10})
    lead.tick()
    assert lead.group.round is None and lead.machine.stopped is None, "as many as are allowed"
    lead.beat("t1", 0, 60, 60, bad={0: 11})
    lead.tick()
    finally_reported(lead, 0, 60, 61)
    [record] = lead.store.sequences("edits", 1, 0)
    assert (record.state, record.end, record.released) == (SequenceState.SEALED, at(60, 61), True)
    assert not lead.of(m.OpenGroup) and not [c for c in lead.ticks(5_000) if isinstance(c, m.OpenGroup)]


def test_what_is_before_is_published_then_epochs_rise_tasks_end_and_are_not_replaced() -> None:
    lead = limited()
    lead.beat("t1", 0, 60, 60, bad={0: 11})
    lead.tick()
    finally_reported(lead, 0, 60, 60)
    lead.published(FIRST, bad=11)
    assert lead.sent(StopCommand) == ["t1"]
    stream = lead.store.offsets("edits", "edits")
    assert stream is not None and stream.epochs == at(1, 1)
    assert "11 messages were bad" in str(lead.store.audit("edits", 1)[0].detail["reason"])
    lead.ended("t1", True)
    assert not [c for c in lead.ticks(70_000) if isinstance(c, m.CreateAttempt | m.OpenGroup | m.RaiseEpochs)]


def test_it_is_unhealthy_and_says_what_to_do() -> None:
    lead = limited()
    lead.beat("t1", 0, 60, 60, bad={0: 11})
    lead.tick()
    status = lead.machine.health.status(DesiredState.RUNNING, stopping=False, started=True)
    assert (status.state, status.healthy) == ("UNHEALTHY_TASKS", False)
    assert "maxParseExceptions allows 10" in str(lead.machine.health.reason)
    lead.see(2)
    assert lead.machine.health.reason is not None, "a look at the stream does not cure it"


def test_published_sealed_and_open_ranges_count_together() -> None:
    lead = limited()
    sealed_with(lead, 10, 10, bad=4)
    lead.published(FIRST, bad=5)
    sealed_with(lead, 20, 20, bad=3)
    lead.beat("t1", 2, 30, 30, bad={1: 3, 2: 2})
    lead.tick()
    assert lead.machine.exceptions() == 10 and lead.machine.stopped is None
    lead.beat("t1", 2, 31, 31, bad={1: 3, 2: 3})
    lead.tick()
    assert lead.machine.stopped is not None


def test_a_saved_end_carries_what_was_known_of_its_range() -> None:
    lead = limited()
    sealed_with(lead, 10, 10, bad=7)
    assert lead.store.sequences("edits", 1, 0)[0].parse_exceptions == 7
    lead.take_over(lead.generation, LIMITED)
    assert lead.machine.exceptions() == 7, "the next leader knows it before any task has spoken"


def test_the_next_leader_stays_stopped() -> None:
    lead = limited()
    lead.beat("t1", 0, 60, 60, bad={0: 11})
    lead.tick()
    finally_reported(lead, 0, 60, 60)
    lead.take_over(lead.generation, LIMITED)
    assert lead.machine.stopped is not None and not lead.of(m.OpenGroup)


def test_reading_the_store_again_forgets_no_count() -> None:
    lead = limited()
    lead.beat("t1", 0, 60, 60, bad={0: 11})
    lead.tick()
    lead.post(lead.loaded())
    assert lead.machine.stopped is not None


def test_a_start_by_an_operator_counts_from_nothing_even_while_the_rest_is_published() -> None:
    lead = limited()
    lead.beat("t1", 0, 60, 60, bad={0: 11})
    lead.tick()
    finally_reported(lead, 0, 60, 60)
    record = lead.store.start_again(lead.generation, "edits", 1, 0)
    lead.desire(DesiredState.RUNNING, replace(LIMITED, spec_version=record.version))
    assert lead.of(m.OpenGroup) and lead.machine.stopped is None
    opened = lead.store.sequences("edits", 2, 0)[0]
    assert (opened.spec_version, opened.start) == (2, at(60, 60))
    lead.published(FIRST, bad=11)
    lead.ticks(2_000)
    assert lead.machine.exceptions() == 0 and lead.machine.stopped is None


def test_without_a_limit_nothing_stops() -> None:
    lead = one_replica()
    lead.beat("t1", 0, 60, 60, bad={0: 1_000_000})
    lead.tick()
    assert lead.machine.stopped is None and lead.machine.exceptions_view() is None


def test_suspension_of_a_stopped_supervisor_is_a_suspension() -> None:
    lead = limited()
    lead.beat("t1", 0, 60, 60, bad={0: 11})
    lead.tick()
    finally_reported(lead, 0, 60, 60)
    lead.published(FIRST, bad=11)
    lead.desire(DesiredState.SUSPENDED)
    status = lead.machine.health.status(DesiredState.SUSPENDED, stopping=False, started=False)
    assert (status.state, lead.machine.stopped) == ("SUSPENDED", None)
