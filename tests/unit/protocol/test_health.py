"""A supervisor's state in Druid's words."""

from __future__ import annotations

import pytest

from ingest.metadata.records import DesiredState
from ingest.supervisor.health import EVENTS_MAX, Health, Status


def status(health: Health, desired: DesiredState = DesiredState.RUNNING, started: bool = True) -> Status:
    return health.status(desired, stopping=False, started=started)


@pytest.fixture
def running() -> Health:
    health = Health(3, 3)
    health.run_succeeded()
    return health


def test_it_is_pending_until_the_stream_was_seen_then_creates_tasks_then_runs() -> None:
    health = Health(3, 3)
    assert status(health).detailed == "PENDING"
    health.run_failed(0, "StreamError", "refused", stream=True)
    assert status(health).detailed == "CONNECTING_TO_STREAM"
    health.run_succeeded()
    assert status(health, started=False).detailed == "CREATING_TASKS"
    assert status(health) == Status("RUNNING", "RUNNING", True)


def test_after_a_changed_spec_one_good_look_is_enough() -> None:
    health = Health(3, 3)
    for _ in range(5):
        health.run_failed(0, "StreamError", "refused", stream=True)
    assert not status(health).healthy
    health.spec_changed()
    assert not status(health).healthy, "nothing is known to be better yet"
    health.run_succeeded()
    assert status(health).healthy


def test_a_changed_spec_that_cures_nothing_stays_unhealthy() -> None:
    health = Health(3, 3)
    for _ in range(3):
        health.task_ended(0, False, "broke")
    assert not status(health).healthy
    health.spec_changed()
    health.task_ended(0, False, "broke again")
    health.run_succeeded()
    assert not status(health).healthy
    health.task_ended(0, True, "")
    assert not status(health).healthy, "one end of three"
    health.progressed()
    assert status(health).healthy


@pytest.mark.parametrize(
    ("ever", "detailed"), [(False, "UNABLE_TO_CONNECT_TO_STREAM"), (True, "LOST_CONTACT_WITH_STREAM")]
)
def test_three_bad_looks_make_it_unhealthy_and_three_good_ones_healthy(ever: bool, detailed: str) -> None:
    health = Health(3, 3)
    if ever:
        health.run_succeeded()
    for _ in range(3):
        assert status(health).healthy
        health.run_failed(0, "StreamError", "refused", stream=True)
    assert status(health) == Status("UNHEALTHY_SUPERVISOR", detailed, False)
    health.run_succeeded()
    health.run_succeeded()
    assert not status(health).healthy
    health.run_succeeded()
    assert status(health).healthy


def test_three_failed_tasks_make_it_unhealthy_until_something_is_published(running: Health) -> None:
    for _ in range(3):
        running.task_ended(0, False, "killed")
    assert status(running) == Status("UNHEALTHY_TASKS", "UNHEALTHY_TASKS", False)
    running.progressed()
    assert status(running).healthy


def test_a_named_condition_stays_until_it_is_lifted(running: Health) -> None:
    running.named = "topic edits was deleted and created again"
    assert not status(running).healthy
    running.named = None
    running.good_runs = 3
    assert status(running).healthy


def test_suspended_and_terminated_have_their_words(running: Health) -> None:
    assert status(running, DesiredState.SUSPENDED).state == "SUSPENDED"
    assert status(running, DesiredState.TERMINATED).state == "STOPPING"


def test_only_the_newest_problems_are_kept(running: Health) -> None:
    for number in range(EVENTS_MAX + 5):
        running.task_ended(number, False, f"task {number}")
    assert len(running.problems) == EVENTS_MAX and running.problems[-1].message == f"task {EVENTS_MAX + 4}"
