"""What breaks or crosses in an overlord or a task, joined in memory: it stays where it is, and nothing stops."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ingest.appenderator.manifest import Manifest, write_manifest
from ingest.errors import OverlordUnreachable, StoreUnreachable, TaskUnreachable
from ingest.metadata.memory import StoreHooks
from ingest.metadata.records import DesiredState
from ingest.offsets import OffsetMap
from ingest.overlord.changing import WrongState
from ingest.protocol import CommitterCommand, PublishOutcome, PublishReply, SequenceRecord
from ingest.stream.memory import MemoryStream
from ingest.stream.supplier import BrokerUnreachable
from ingest.supervisor.messages import TaskBeat
from ingest.task.messages import PublishEnded
from segments.errors import StorageFull
from tests.in_process import LocalActions, System, chain_is_whole, click, eventually, spec


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    found = System(tmp_path)
    yield found
    found.stop()


def running(system: System, **settings: Any) -> None:
    system.stream.create_topic("clicks", 1)
    system.start()
    system.overlord.submit(spec(**settings))


def feed(system: System, count: int) -> None:
    system.stream.append("clicks", 0, [click(n) for n in range(count)])


def once(method: str, action: Callable[[], None]) -> Callable[[str], None]:
    """A store hook that acts at the first call of ``method``."""
    done: set[str] = set()

    def hook(called: str) -> None:
        if called == method and method not in done:
            done.add(method)
            action()

    return hook


def breaks() -> None:
    raise AssertionError("broken on purpose")


def test_two_posts_at_once_reach_the_supervisor_in_the_order_in_which_they_were_stored(system: System) -> None:
    running(system)
    first_stored, second_done = threading.Event(), threading.Event()

    def linger() -> None:
        first_stored.set()
        second_done.wait(0.3)  # time for the second to overtake, if it can

    system.store.hooks = StoreHooks(after_commit=once("put_supervisor", linger))
    first = threading.Thread(target=system.overlord.submit, args=(spec(maxRowsPerSegment=200),))
    first.start()
    assert first_stored.wait(5)
    record, _ = system.overlord.submit(spec(maxRowsPerSegment=300))
    second_done.set()
    first.join(5)
    runner = system.overlord.leading().runner("clicks")
    assert runner is not None
    eventually(lambda: runner.view().config.spec_version >= 2)
    eventually(lambda: runner.view().config.spec_version == record.version, 30, "the newest spec came last")
    assert runner.view().spec.posted == record.spec


def test_a_spec_posted_while_a_terminated_supervisor_ends_is_supervised(system: System) -> None:
    running(system)
    feed(system, 10)
    eventually(lambda: system.records_read() == 10)
    # The epochs are raised as the very last act before the supervisor's runner ends.
    system.store.hooks = StoreHooks(after_commit=once("reset_offsets", lambda: _post_again(system)))
    system.overlord.terminate("clicks")
    eventually(lambda: system.rows_published() == 10)
    feed(system, 10)
    eventually(lambda: system.records_read() == 20, what="the new spec is read")
    record = system.store.supervisor("clicks")
    assert record is not None and record.desired is DesiredState.RUNNING


def _post_again(system: System) -> None:
    system.overlord.submit(spec(maxRowsPerSegment=500))


def test_a_supervisor_that_breaks_begins_again_without_costing_the_leadership(system: System) -> None:
    running(system, maxRowsPerSegment=100)
    system.store.hooks = StoreHooks(before_commit=once("seal", breaks))
    feed(system, 250)
    eventually(lambda: system.rows_published() == 200)
    leader = system.store.leadership()
    assert leader is not None and leader.generation == 1
    runner = system.overlord.leading().runner("clicks")
    assert runner is not None
    assert "AssertionError" in {problem.kind for problem in runner.view().problems}
    chain_is_whole(system)


def test_a_heartbeat_that_breaks_is_not_the_last(system: System) -> None:
    system.store.hooks = StoreHooks(before_commit=once("record_positions", breaks))
    running(system)
    feed(system, 50)

    def reported() -> int:
        attempts = system.store.attempts("clicks", True, 10)
        return sum(sum(attempt.positions.values()) for attempt in attempts)

    eventually(lambda: reported() == 50)


def test_a_question_that_breaks_is_asked_again(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    answer, asked = system.store.sequences, 0

    def sequences(supervisor: str, group: int, from_number: int) -> tuple[SequenceRecord, ...]:
        nonlocal asked
        asked += 1
        if asked == 1:
            breaks()
        return answer(supervisor, group, from_number)

    monkeypatch.setattr(system.store, "sequences", sequences)
    running(system, maxRowsPerSegment=100)
    feed(system, 150)
    eventually(lambda: system.rows_published() >= 100)
    assert asked > 1


def test_a_new_spec_heard_of_by_an_answer_is_read_without_another_question(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    running(system, maxRowsPerSegment=100)
    feed(system, 50)
    eventually(lambda: system.records_read() == 50)

    def nowhere(*_: object) -> None:
        raise TaskUnreachable("cut off")

    def unreachable(*_: object) -> None:
        raise OverlordUnreachable("cut off")

    # Nothing is told to the task, and it cannot say hello again: what it learns, it learns by its own ask.
    monkeypatch.setattr(system, "send", nowhere)
    monkeypatch.setattr(LocalActions, "register", unreachable)
    assert system.overlord.submit(spec(maxRowsPerSegment=101))[0].version == 2
    feed(system, 100)
    eventually(lambda: system.rows_published() == 100)
    eventually(lambda: system.records_read() == 150, what="it reads on under the new spec")
    assert {record.spec_version for record in system.store.groups("clicks")[0].sequences} == {2}


def test_a_task_that_never_connected_reads_over_the_properties_of_a_new_spec(system: System) -> None:
    running(system)
    feed(system, 100)
    eventually(lambda: system.records_read() == 100)
    system.overlord.suspend("clicks")
    eventually(lambda: not system.tasks() and system.rows_published() == 100)
    system.brokers["dead:9092"] = MemoryStream()
    system.brokers["dead:9092"].trouble = BrokerUnreachable("dead:9092", "nobody answers")
    system.overlord.submit(spec(broker="dead:9092"))
    eventually(lambda: any(task.runner.stream_error for task in system.tasks()), what="it cannot connect")
    feed(system, 50)
    system.overlord.submit(spec())
    eventually(lambda: system.records_read() == 150, what="the new properties are used")
    system.overlord.suspend("clicks")
    eventually(lambda: system.rows_published() == 150)
    chain_is_whole(system)


def test_a_task_that_reads_takes_new_properties_at_its_next_sequence(system: System) -> None:
    running(system)
    feed(system, 100)
    eventually(lambda: system.records_read() == 100)
    system.brokers["new:9092"] = system.stream  # the same cluster by another name
    system.brokers["localhost:9092"] = MemoryStream()
    system.overlord.submit(spec(broker="new:9092"))
    eventually(lambda: system.rows_published() == 100)
    feed(system, 50)
    eventually(lambda: system.records_read() == 150)
    assert len(system.store.attempts("clicks", None, 10)) == 1, "it went on, no other was started"


def test_a_publish_that_ends_after_its_sequence_was_given_up_is_not_handed_off_for_ever(system: System) -> None:
    running(system)
    eventually(lambda: system.tasks() and system.tasks()[0].runner.view.sequences)
    (task,) = system.tasks()
    late = PublishEnded(system.clock.monotonic_ms(), 77, PublishReply(PublishOutcome.ALREADY, 5))
    task.runner._mailbox.post(late)
    task.runner.command(CommitterCommand(1, True))  # answered after it
    assert task.runner.handoffs_pending == 0


def test_a_reset_outlives_the_leader_that_took_it_and_is_carried_out_once(system: System) -> None:
    running(system)
    feed(system, 100)
    eventually(lambda: system.records_read() == 100)
    # From now on nothing is sealed, so that the reset is still waiting when the leader goes.
    system.store.hooks = StoreHooks(before_commit=_no_seal)
    system.overlord.reset_offsets("clicks", OffsetMap({0: 40}))
    system.overlord.stop()
    system.store.hooks = StoreHooks()
    assert len(system.store.reset_wishes("clicks")) == 1
    system.overlord = system.new_overlord("overlord-2")
    system.overlord.start()
    eventually(lambda: system.rows_published() == 100, 30, "what was read is published first")
    eventually(lambda: not system.store.reset_wishes("clicks"), 30)
    eventually(lambda: system.records_read() == 100 and all(t.task.group == 2 for t in system.tasks()), 30)
    system.overlord.suspend("clicks")
    eventually(lambda: system.rows_published() == 160, 30)
    assert [row.action for row in system.store.audit("clicks", 10)].count("reset") == 1


def test_a_reset_asked_for_before_anything_was_read_is_refused(system: System) -> None:
    system.start()
    system.overlord.submit(spec())
    with pytest.raises(WrongState, match="not been reached"):
        system.overlord.reset_offsets("clicks", OffsetMap({0: 40}))


def _no_seal(method: str) -> None:
    if method == "seal":
        raise StoreUnreachable("the database is away", effect_known_absent=True)


def test_a_task_whose_disk_is_full_waits_and_reads_on_when_it_is_not(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = threading.Event()

    def write(directory: Path, manifest: Manifest) -> None:
        if full.is_set():
            raise StorageFull(f"writing {directory}: no space left; free some space on this disk")
        write_manifest(directory, manifest)

    monkeypatch.setattr("ingest.appenderator.appenderator.write_manifest", write)
    running(system, maxRowsInMemory=50, maxRowsPerSegment=400)
    feed(system, 60)
    eventually(lambda: system.records_read() == 60)
    [task] = system.tasks()
    full.set()
    feed(system, 2_000)
    eventually(lambda: "free some space" in (task.runner.stream_error or ""))
    assert system.records_read() < 2_060, "memory is bounded"
    full.clear()
    eventually(lambda: system.records_read() == 2_060)
    assert system.tasks() == [task], "it lived through it"
    assert task.runner.stream_error is None
    system.overlord.suspend("clicks")
    eventually(lambda: system.rows_published() == 2_060)
    chain_is_whole(system)


def test_a_beat_that_arrives_after_its_task_has_ended_is_not_kept(system: System) -> None:
    running(system)
    runner = system.overlord.leading().runner("clicks")
    assert runner is not None
    eventually(lambda: runner.view().beats)
    [(token, beat)] = runner.view().beats.items()
    system.overlord.shut_down_task(system.tasks()[0].task.task_id)
    eventually(lambda: token not in runner.view().beats)
    late = replace(beat, status="cannot_read", detail="a broker that is gone")
    runner.post(TaskBeat(system.clock.monotonic_ms(), late))
    eventually(lambda: runner.view().beats)
    assert token not in runner.view().beats, "nobody would take it back: the supervisor would look ill for ever"
