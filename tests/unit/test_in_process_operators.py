"""What operators do to a running supervisor, joined in memory: suspend, resume, change, terminate, reset, hand-off."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ingest.errors import StoreUnreachable, TaskUnreachable
from ingest.offsets import OffsetMap
from ingest.overlord.changing import WrongState
from ingest.overlord.refusals import UnknownSupervisor
from ingest.protocol import PROTOCOL_VERSION, PauseReport, StopCommand, TaskCommand
from tests.in_process import System, chain_is_whole, click, eventually, spec


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    found = System(tmp_path)
    yield found
    found.stop()


def running(system: System, partitions: int = 1, **settings: Any) -> None:
    system.stream.create_topic("clicks", partitions)
    system.start()
    system.overlord.submit(spec(**settings))


def feed(system: System, count: int, partition: int = 0) -> None:
    system.stream.append("clicks", partition, [click(n) for n in range(count)])


def test_groups_share_the_partitions(system: System) -> None:
    running(system, 4, taskCount=2, maxRowsPerSegment=100)
    for partition in range(4):
        feed(system, 250, partition)
    eventually(lambda: len(system.tasks()) == 2)
    eventually(lambda: system.rows_published() == 1_000, 30)
    groups = {row.ref.group: set(row.start) for row in system.ledger()}
    assert sorted(len(partitions) for partitions in groups.values()) == [2, 2]
    chain_is_whole(system)


def test_a_resumed_supervisor_goes_on_where_it_stopped(system: System) -> None:
    running(system)
    feed(system, 150)
    eventually(lambda: system.records_read() == 150)
    system.overlord.suspend("clicks")
    with pytest.raises(WrongState):
        system.overlord.suspend("clicks")
    eventually(lambda: not system.tasks())
    assert system.committed() == OffsetMap({0: 150})
    feed(system, 50)
    system.overlord.resume("clicks")
    eventually(lambda: system.records_read() == 200, what="the new group has read on")
    system.overlord.suspend("clicks")
    eventually(lambda: system.rows_published() == 200)
    chain_is_whole(system)


def test_a_changed_spec_cuts_over_at_a_checkpoint(system: System) -> None:
    running(system)
    feed(system, 100)
    eventually(lambda: system.records_read() == 100)
    posted = spec()
    posted["spec"]["dataSchema"]["dimensionsSpec"]["dimensions"] = ["page"]
    record, _ = system.overlord.submit(posted)
    assert record.version == 2
    eventually(lambda: system.rows_published() == 100)
    feed(system, 100)
    eventually(lambda: system.records_read() == 200)
    system.overlord.suspend("clicks")
    eventually(lambda: system.rows_published() == 200)
    chain_is_whole(system)
    assert [row.spec_version for row in system.ledger()] == [1, 2]
    columns = [row.segment.schema.dimensions for row in system.store.segments("clicks", None, 10, False)]
    assert sorted(columns) == [("page",), ("page", "n")]


def test_a_terminated_supervisor_publishes_what_it_read_and_is_gone(system: System) -> None:
    running(system)
    feed(system, 100)
    eventually(lambda: system.records_read() == 100)
    system.overlord.terminate("clicks")
    eventually(lambda: system.rows_published() == 100)
    eventually(lambda: not system.tasks())
    eventually(lambda: system.overlord.leading().runner("clicks") is None)
    with pytest.raises(UnknownSupervisor):
        system.overlord.status("clicks")
    with pytest.raises(UnknownSupervisor):
        system.overlord.resume("clicks")


def test_wishes_back_to_back_leave_no_task_behind(system: System) -> None:
    running(system, 2)
    feed(system, 100)
    eventually(lambda: system.records_read() == 100)
    system.overlord.suspend("clicks")
    eventually(lambda: not system.tasks())
    system.overlord.resume("clicks")
    system.overlord.reset("clicks")
    system.overlord.terminate("clicks")
    eventually(lambda: system.overlord.leading().runner("clicks") is None, 30)
    live = system.store.attempts("clicks", True, 10)
    assert not live, "a supervisor is gone only when its last task has ended"
    eventually(lambda: not system.tasks())


def test_a_task_that_cannot_be_told_of_the_end_keeps_its_terminated_supervisor(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    running(system)
    eventually(lambda: system.tasks() and system.tasks()[0].runner.view.sequences)
    deliver = system.send

    def no_stop(address: str, token: str, command: TaskCommand) -> PauseReport | None:
        if isinstance(command, StopCommand):
            raise TaskUnreachable("cut off")
        return deliver(address, token, command)

    monkeypatch.setattr(system, "send", no_stop)
    system.overlord.terminate("clicks")
    eventually(lambda: not any(group.sequences for group in system.store.groups("clicks")))
    eventually(lambda: any(row.action == "rest" for row in system.store.audit("clicks", 10)))
    monkeypatch.setattr(system, "send", deliver)
    eventually(lambda: not system.tasks(), what="told as soon as it can be reached")
    eventually(lambda: system.overlord.leading().runner("clicks") is None)
    assert not system.store.attempts("clicks", True, 10)


def test_a_reset_publishes_what_was_read_then_moves_the_offset(system: System) -> None:
    running(system, 2)
    feed(system, 100)
    feed(system, 100, 1)
    eventually(lambda: system.records_read() == 200)
    system.overlord.reset_offsets("clicks", OffsetMap({0: 40}))
    eventually(lambda: system.rows_published() == 200, 30)

    def epochs() -> OffsetMap:
        stored = system.store.offsets("clicks", "clicks")
        return OffsetMap() if stored is None else stored.epochs

    eventually(lambda: epochs().get(0, 0) > 0, 30)
    whole = OffsetMap({0: 100, 1: 100})
    eventually(lambda: any(t.task.group == 2 and t.runner.view.positions == whole for t in system.tasks()), 30)
    system.overlord.suspend("clicks")
    eventually(lambda: system.rows_published() == 260, 30)
    assert system.committed() == OffsetMap({0: 100, 1: 100})
    assert any(row.action == "reset" for row in system.store.audit("clicks", 10))


def test_bad_records_are_published_in_a_quarantine_file(system: System) -> None:
    running(system)
    system.stream.append("clicks", 0, [click(1), b"{not json", click(2), None])
    eventually(lambda: system.records_read() == 4)
    system.overlord.suspend("clicks")
    eventually(lambda: system.rows_published() == 2)
    (row,) = system.ledger()
    counts = row.counts[0]
    assert (counts.good, counts.unparseable, counts.tombstones) == (2, 1, 1)
    (file,) = system.store.quarantine_files("clicks", 10)
    assert file.rows == 1
    assert system.storage.exists(file.load_spec)


def test_a_task_keeps_published_rows_until_every_query_node_has_acknowledged(system: System) -> None:
    running(system, maxRowsPerSegment=100)

    def node(acknowledged: int) -> None:
        versions = {"clicks": acknowledged}
        system.store.renew_node("query-1", ["query"], "q:1", system.clock.now_ms(), versions, {})

    node(0)
    feed(system, 150)
    eventually(lambda: system.rows_published() == 100)
    (task,) = system.tasks()
    eventually(lambda: len(task.runner.view.sequences) == 2)
    assert task.rows.held()[0] == 150, "published, and still held for the node"
    node(system.ledger()[0].version)
    eventually(lambda: task.rows.held()[0] == 50)


def test_rows_are_handed_off_at_once_without_query_nodes(system: System) -> None:
    running(system, maxRowsPerSegment=100)
    feed(system, 150)
    eventually(lambda: system.rows_published() == 100)
    (task,) = system.tasks()
    eventually(lambda: task.rows.held()[0] == 50)


def test_an_ended_task_is_shut_down_by_its_id_and_replaced(system: System) -> None:
    running(system)
    feed(system, 100)
    eventually(lambda: system.records_read() == 100)
    (task,) = system.tasks()
    assert system.overlord.shut_down_task(task.task.task_id)
    eventually(lambda: system.tasks() and task not in system.tasks())
    eventually(lambda: system.records_read() == 100)
    assert not system.overlord.shut_down_task("no such task")


def test_a_drained_worker_hands_off_early_ends_its_tasks_and_takes_nothing_new(system: System) -> None:
    system.stream.create_topic("clicks", 1)
    system.start(workers=2)
    system.overlord.submit(spec())
    feed(system, 100)
    eventually(lambda: system.records_read() == 100)
    drained = next(worker for worker in system.workers if worker.tasks)
    drained.enabled = False
    eventually(lambda: system.rows_published() == 100, what="handed off early")
    eventually(lambda: not any(task.thread.is_alive() for task in drained.tasks.values()))
    feed(system, 50)
    eventually(lambda: system.records_read() == 150, what="another worker reads on")
    eventually(lambda: not drained.tasks)
    system.overlord.suspend("clicks")
    eventually(lambda: system.rows_published() == 150)
    chain_is_whole(system)


def test_the_only_worker_drained_reads_on_when_enabled_again(system: System) -> None:
    running(system)
    feed(system, 100)
    eventually(lambda: system.records_read() == 100)
    (worker,) = system.workers
    worker.enabled = False
    eventually(lambda: system.rows_published() == 100)
    eventually(lambda: not system.tasks())
    feed(system, 50)
    worker.enabled = True
    eventually(lambda: system.records_read() == 150)


def test_a_task_of_an_older_protocol_is_replaced_at_its_sequences_end(system: System) -> None:
    system.protocol = PROTOCOL_VERSION - 1
    running(system, maxRowsPerSegment=100)
    feed(system, 50)
    eventually(lambda: system.records_read() == 50)
    (old,) = system.tasks()
    system.protocol = PROTOCOL_VERSION
    feed(system, 100)
    eventually(lambda: system.rows_published() >= 100)
    eventually(lambda: system.tasks() and old not in system.tasks(), what="the old one has ended")
    eventually(lambda: system.records_read() == 150)
    system.overlord.suspend("clicks")
    eventually(lambda: system.rows_published() == 150)
    chain_is_whole(system)
    assert old.outcome is not None
    assert old.outcome.succeeded


def test_a_drain_right_after_the_start_loses_nothing_with_two_replicas(system: System) -> None:
    system.stream.create_topic("clicks", 2)
    feed(system, 100)
    feed(system, 100, 1)
    system.start(workers=3)
    system.overlord.submit(spec(replicas=2, maxRowsPerSegment=60))
    eventually(lambda: len(system.tasks()) == 2)
    drained = next(worker for worker in system.workers if worker.tasks)
    drained.enabled = False
    eventually(lambda: not drained.tasks, what="its replica has ended")
    feed(system, 100)
    eventually(lambda: system.records_read() == 300)
    eventually(lambda: len(system.tasks()) == 2, what="two replicas again")
    system.overlord.suspend("clicks")
    eventually(lambda: system.rows_published() == 300)
    chain_is_whole(system)


def lose_the_answer(system: System, method: str) -> None:
    """The next call of the store's ``method`` is carried out, and its caller never hears so."""

    def lose(called: str) -> None:
        if called == method:
            system.store.hooks.after_commit = None
            raise StoreUnreachable("cut off", effect_known_absent=False)

    system.store.hooks.after_commit = lose


def test_a_wish_whose_answer_was_lost_is_carried_out_without_another_word(system: System) -> None:
    running(system)
    feed(system, 20)
    eventually(lambda: system.records_read() == 20)
    overlord = system.overlord
    lose_the_answer(system, "set_desired")
    with pytest.raises(StoreUnreachable):
        overlord.suspend("clicks")
    eventually(lambda: system.rows_published() == 20 and not system.tasks(), what="it is suspended")
    lose_the_answer(system, "ask_reset")
    with pytest.raises(StoreUnreachable):
        overlord.reset_offsets("clicks", OffsetMap({0: 5}))
    eventually(lambda: system.committed() == OffsetMap({0: 5}), what="it is reset")
    lose_the_answer(system, "put_supervisor")
    with pytest.raises(StoreUnreachable):
        overlord.submit(spec(maxRowsPerSegment=10))
    eventually(lambda: bool(system.tasks()), what="it runs under the new spec")
    eventually(lambda: overlord.spec("clicks").tuning.max_rows_per_segment == 10)
    lose_the_answer(system, "set_desired")
    with pytest.raises(StoreUnreachable):
        overlord.terminate("clicks")
    eventually(lambda: overlord.leading().runner("clicks") is None, what="it is gone")
    lose_the_answer(system, "put_supervisor")
    with pytest.raises(StoreUnreachable):
        overlord.submit(spec())
    eventually(lambda: bool(system.tasks()), what="it is there again")
