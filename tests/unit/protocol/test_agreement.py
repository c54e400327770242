"""One round: what counts as a report, what the agreed end is."""

from __future__ import annotations

import pytest

from ingest.protocol import PauseReport
from ingest.supervisor.agreement import CheckpointRound, RoundReason, RoundStep
from tests.unit.protocol.task_builder import at, opened


def a_round(reason: RoundReason = RoundReason.LIMIT) -> CheckpointRound:
    return CheckpointRound(7, opened(3, at(10, 20)), reason, 1_000, {"a", "b"})


def test_the_end_is_the_furthest_position_per_partition() -> None:
    round_ = a_round()
    assert round_.take_report("a", PauseReport(7, 3, at(15, 21)))
    assert round_.take_report("b", PauseReport(7, 3, at(12, 25)))
    assert not round_.awaiting
    assert round_.save() == at(15, 25)


def test_a_laggard_in_an_earlier_sequence_never_pulls_the_end_below_the_start() -> None:
    round_ = a_round()
    round_.take_report("a", PauseReport(7, 2, at(4, 99)))
    assert round_.agreed_end() == at(10, 20)
    assert round_.is_void()


@pytest.mark.parametrize("reason", [RoundReason.RELEASE, RoundReason.CUT_OVER])
def test_a_release_or_cut_over_closes_an_empty_sequence(reason: RoundReason) -> None:
    assert not a_round(reason).is_void()


@pytest.mark.parametrize(
    ("token", "report"),
    [("a", PauseReport(6, 3, at(15, 21))), ("c", PauseReport(7, 3, at(15, 21)))],
    ids=["another round", "nobody asked"],
)
def test_a_report_that_answers_something_else_is_not_taken(token: str, report: PauseReport) -> None:
    round_ = a_round()
    assert not round_.take_report(token, report)
    assert round_.positions == {}


@pytest.mark.parametrize("step", [RoundStep.SAVING, RoundStep.TELLING])
def test_a_report_after_the_pausing_step_is_not_taken(step: RoundStep) -> None:
    round_ = a_round()
    round_.step = step
    assert not round_.take_report("a", PauseReport(7, 3, at(15, 21)))
    round_.take_ask("a", 3, at(16, 21))
    assert round_.positions == {}


def test_a_repeated_report_counts_once() -> None:
    round_ = a_round()
    assert round_.take_report("a", PauseReport(7, 3, at(15, 21)))
    assert not round_.take_report("a", PauseReport(7, 3, at(19, 21)))
    assert round_.agreed_end() == at(15, 21)


def test_the_askers_own_positions_are_its_report() -> None:
    round_ = a_round()
    round_.take_ask("a", 3, at(11, 20))
    assert round_.awaiting == {"b"} and round_.agreed_end() == at(11, 20)


def test_an_end_is_fixed_once() -> None:
    round_ = a_round(RoundReason.RELEASE)
    round_.save()
    with pytest.raises(AssertionError):
        round_.save()
    round_.tell({"a"}, 2_000)
    with pytest.raises(AssertionError):
        round_.tell({"a"}, 3_000)
