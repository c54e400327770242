"""The hardest scenarios of replicated ingestion, joined in memory; docs/protocol.md lists where each is tested."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ingest.errors import StoreUnreachable, TaskUnreachable
from ingest.metadata.memory import StoreHooks
from ingest.offsets import OffsetMap
from ingest.protocol import AttemptState, PauseCommand, PauseReport, SealCommand, TaskCommand
from ingest.stream.memory import MemorySupplier
from ingest.stream.supplier import BrokerUnreachable, Poll
from segments.data_segment import LoadSpec
from segments.errors import StorageUnavailable
from segments.storage.memory import MemoryDeepStorage
from tests.in_process import HOUR_MS, NOON_MS, LocalActions, System, TaskThread, chain_is_whole, click, eventually, spec

pytestmark = pytest.mark.integration


class GatedStorage(MemoryDeepStorage):
    """Holds up, or fails, every push of the attempts it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.held_up: set[str] = set()
        self.fails = False
        self.open = threading.Event()

    def push(self, local: Path, key: str) -> LoadSpec:
        if any(f"{token}-" in key for token in self.held_up):
            if self.fails:
                raise StorageUnavailable("this bucket takes nothing from you")
            self.open.wait(30)
        return super().push(local, key)


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    found = System(tmp_path)
    yield found
    found.stop()


def running(system: System, partitions: int = 1, workers: int = 1, **settings: Any) -> None:
    system.stream.create_topic("clicks", partitions)
    system.start(workers)
    system.overlord.submit(spec(**settings))


def feed(system: System, count: int, partition: int = 0) -> None:
    system.stream.append("clicks", partition, [click(n) for n in range(count)])


def another_leader(system: System, name: str = "overlord-2") -> None:
    system.overlord.stop()
    system.overlord = system.new_overlord(name)
    system.overlord.start()


def finished(system: System, rows: int) -> None:
    """Everything is published when the supervisor is suspended, each row once, in one chain."""
    system.overlord.suspend("clicks")
    eventually(lambda: system.rows_published() >= rows, 30, f"{rows} rows published")
    assert system.rows_published() == rows
    chain_is_whole(system)


def test_an_end_told_to_one_replica_outlives_that_replica_its_leader_and_a_silent_database(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    running(system, workers=2, replicas=2, maxRowsPerSegment=100)
    feed(system, 90)
    eventually(lambda: [t.runner.view.positions.get(0) for t in system.tasks()] == [90, 90])
    told, deaf = system.tasks()
    deliver = system.send

    def not_to_the_deaf(address: str, token: str, command: TaskCommand) -> PauseReport | None:
        if isinstance(command, SealCommand) and token == deaf.task.token:
            raise TaskUnreachable("the answer was lost")
        return deliver(address, token, command)

    monkeypatch.setattr(system, "send", not_to_the_deaf)
    feed(system, 60)
    eventually(
        lambda: 1 in [record.ref.number for record, *_ in told.runner.view.sequences], what="one knows its successor"
    )

    def away(method: str) -> None:
        raise StoreUnreachable(f"{method}: the database is away", effect_known_absent=True)

    system.store.hooks = StoreHooks(before_commit=away)
    told.stop()
    another_leader(system)
    monkeypatch.setattr(system, "send", deliver)
    system.store.hooks = StoreHooks()
    eventually(lambda: system.rows_published() == 100, 30)
    finished(system, 150)


def test_a_publish_whose_answer_is_lost_with_its_task_is_not_done_again_by_anybody(system: System) -> None:
    running(system, workers=2, replicas=2, maxRowsPerSegment=100)
    died: list[str] = []

    def lose(method: str) -> None:
        if method == "publish" and not died:
            victim = next(task for task in system.tasks() if task.runner.view.committer)
            died.append(victim.task.token)
            victim.runner.stop_restorable()
            raise StoreUnreachable("the reply was lost", effect_known_absent=False)

    system.store.hooks = StoreHooks(after_commit=lose)
    feed(system, 150)
    eventually(lambda: died, what="the committer has died")
    eventually(lambda: len([t for t in system.tasks() if t.task.token not in died]) == 2, what="it is replaced")
    eventually(lambda: system.records_read() == 150)
    finished(system, 150)
    assert [row.end for row in system.ledger()] == [OffsetMap({0: 100}), OffsetMap({0: 150})]


@pytest.mark.parametrize("how", ["fails", "hangs"])
def test_who_is_ready_before_its_predecessor_waits_and_nobody_who_could_go_on_is_ended(
    system: System, how: str
) -> None:
    storage = system.storage = GatedStorage()
    storage.fails = how == "fails"
    system.overlord = system.new_overlord("overlord-1")
    system.stream.create_topic("clicks", 2)
    system.start()
    posted = spec(maxRowsPerSegment=100)
    posted["spec"]["ioConfig"]["completionTimeout"] = "PT1S"  # much shorter than the storage's trouble
    system.overlord.submit(posted)
    feed(system, 50)
    feed(system, 10, 1)
    eventually(lambda: system.records_read() == 60)
    [first] = system.tasks()
    storage.held_up.add(first.task.token)
    wider = spec(maxRowsPerSegment=100, taskCount=2)
    wider["spec"]["ioConfig"]["completionTimeout"] = "PT1S"
    system.overlord.submit(wider)
    eventually(lambda: len(followers(system, first)) == 2, what="two groups follow the first")
    feed(system, 120)
    feed(system, 120, 1)
    eventually(lambda: sum(sum(t.runner.view.positions.values()) for t in followers(system, first)) == 60 + 240)
    tokens = {task.task.token for task in followers(system, first)}
    eventually(lambda: all(t.runner.view.status.value == "reading" for t in followers(system, first)))
    until = system.clock.monotonic_ms() + 2_500
    eventually(lambda: system.clock.monotonic_ms() > until)
    assert system.rows_published() == 0, "nobody overtakes"
    assert {task.task.token for task in followers(system, first)} == tokens, "and nobody was ended for waiting"
    if how == "fails":
        first.runner.stop_restorable()  # its successor may write where it may not
    else:
        storage.open.set()
    eventually(lambda: system.rows_published() >= 260, 30)
    assert tokens == {task.task.token for task in followers(system, first)}
    finished(system, 300)


def followers(system: System, first: TaskThread) -> list[TaskThread]:
    return [task for task in system.tasks() if task.task.group != first.task.group]


def test_limits_a_silent_replica_a_new_size_and_a_reset_at_once_delay_no_other_group(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    running(system, 3, workers=2, replicas=2, taskCount=3, maxRowsPerSegment=100)
    eventually(lambda: len(system.tasks()) == 6)
    for partition in range(3):
        feed(system, 90, partition)
    eventually(lambda: all(sum(task.runner.view.positions.values()) == 90 for task in system.tasks()))
    silent = system.tasks()[0]
    deliver = system.send
    heard = threading.Event()

    def slowly(address: str, token: str, command: TaskCommand) -> PauseReport | None:
        if token == silent.task.token and isinstance(command, PauseCommand):
            heard.wait(10)
        return deliver(address, token, command)

    monkeypatch.setattr(system, "send", slowly)
    for partition in range(3):
        feed(system, 60, partition)
    others = [task for task in system.tasks() if task.task.group != silent.task.group]
    eventually(lambda: system.rows_published() >= 200, what="the other groups go on while one is asked in vain")
    eventually(lambda: all(sum(task.runner.view.positions.values()) == 150 for task in others))
    system.overlord.submit(spec(replicas=2, taskCount=2, maxRowsPerSegment=100))
    system.overlord.reset_offsets("clicks", OffsetMap({2: 120}))
    heard.set()
    eventually(lambda: not system.store.reset_wishes("clicks"), 60, "the reset is carried out")
    eventually(lambda: system.committed().get(2, 0) >= 120 and len(system.tasks()) == 4, 30)
    system.overlord.suspend("clicks")
    eventually(lambda: system.rows_published() >= 480, 30)
    assert system.rows_published() == 450 + 30, "of partition 2 the last 30 were read twice, as asked"


def test_records_compacted_away_and_transactions_at_the_end_of_a_range_leave_no_lag(system: System) -> None:
    system.storage.fail_next("push", StorageUnavailable("not yet"), times=10_000)
    running(system, maxRowsPerSegment=100)
    feed(system, 100)
    eventually(lambda: any(task.runner.view.positions == OffsetMap({0: 100}) for task in system.tasks()))
    eventually(lambda: len(system.store.groups("clicks")[0].sequences) == 2, what="its end is saved")
    [victim] = system.tasks()
    victim.stop()
    shutil.rmtree(system.root / "attempts" / victim.rows._appenderator._directory.parent.name)
    system.stream.remove("clicks", 0, [50, 98, 99])  # compaction, also at the very end
    system.storage.heal()
    aborted = system.stream.begin()
    aborted.append("clicks", 0, [click(n) for n in range(20)])
    aborted.abort()
    kept = system.stream.begin()
    kept.append("clicks", 0, [click(n) for n in range(10)])
    kept.commit()
    gone = system.stream.begin()
    gone.append("clicks", 0, [click(n) for n in range(5)])
    gone.abort()
    eventually(lambda: system.rows_published() == 97, 30, "the replacement ends where the dead one would have")

    def lag() -> int:
        system.look()
        payload = system.overlord.status("clicks")["payload"]
        return int(payload["aggregateLag"]) if payload["latestOffsets"].get("0", 0) > 135 else -1

    eventually(lambda: lag() == 0, 20, "lag is 0 where nothing visible is left")
    finished(system, 107)
    assert system.committed()[0] > 135


@pytest.mark.parametrize("call", ["allocate", "stage", "publish", "ask_checkpoint"])
def test_one_that_was_given_up_and_comes_back_in_the_middle_changes_nothing_and_ends(
    system: System, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    running(system, workers=2, maxRowsPerSegment=100)
    feed(system, 50)
    eventually(lambda: system.records_read() == 50)
    [zombie] = system.tasks()
    token = zombie.task.token
    asked, back = threading.Event(), threading.Event()

    def cut_off(name: str) -> Callable[..., Any]:
        ask = getattr(LocalActions, name)

        def held(actions: LocalActions, *arguments: Any) -> Any:
            if token in (getattr(arguments[0], "token", arguments[0]),) and name == call and not back.is_set():
                asked.set()
                back.wait(30)
            return ask(actions, *arguments)

        return held

    monkeypatch.setattr(LocalActions, call, cut_off(call))
    feed(system, 70)
    assert asked.wait(10)
    host = next(worker for worker in system.workers if token in worker.tasks)
    host.stop()  # its middle manager is cut off as well
    leader = system.store.leadership()
    assert leader is not None
    system.store.set_attempt_state(
        leader.generation, token, AttemptState.FAILED, "not heard of for too long", system.clock.now_ms()
    )
    another_leader(system)  # who finds it so
    whole = OffsetMap({0: 120})
    others = lambda: [t for t in system.tasks() if t is not zombie and t.runner.view.positions == whole]  # noqa: E731
    eventually(others, 20, "another attempt has read everything")
    back.set()
    eventually(lambda: not zombie.thread.is_alive(), 20, "refused, it ends by itself")
    finished(system, 120)


def test_groups_that_come_and_go_under_load_and_under_several_leaders_lose_nothing(system: System) -> None:
    running(system, 4, workers=2, taskCount=3, maxRowsPerSegment=60)
    sent = 0
    for step, groups in enumerate((1, 3, 2, 4)):
        for partition in range(4):
            feed(system, 40, partition)
        sent += 160
        system.overlord.submit(spec(taskCount=groups, maxRowsPerSegment=60))
        if step % 2:
            another_leader(system, f"overlord-{step + 2}")
            eventually(lambda: system.overlord.is_leading)
        for partition in range(4):
            feed(system, 15, partition)
        sent += 60
    eventually(lambda: total_read(system) == sent, 40, "everything is read")
    finished(system, sent)


def total_read(system: System) -> int:
    furthest: dict[int, int] = {}
    for task in system.tasks():
        for partition, offset in task.runner.view.positions.items():
            furthest[partition] = max(furthest.get(partition, 0), offset)
    return sum(furthest.values())


def test_late_rows_over_many_hours_cost_one_allocation_per_hour_and_sequence(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, int]] = []
    allocate = LocalActions.allocate

    def counted(actions: LocalActions, request: Any) -> Any:
        asked.append((request.ref.name, request.interval_start_ms))
        return allocate(actions, request)

    monkeypatch.setattr(LocalActions, "allocate", counted)
    running(system, maxRowsPerSegment=1_000_000, maxTotalRows=1_000)
    hours = 120
    rows = [click(n, NOON_MS - (n * 7 % hours) * HOUR_MS) for n in range(2_000)]
    system.stream.append("clicks", 0, rows)
    eventually(lambda: system.rows_published() >= 1_000, 40)
    finished(system, 2_000)
    assert len(asked) == len(set(asked)), "nothing is asked for twice"
    assert len(asked) <= hours * len(system.ledger())


def test_a_broken_record_at_the_very_end_of_a_sequence_is_counted_once_whoever_publishes(system: System) -> None:
    running(system, workers=2, replicas=2, maxRowsPerSegment=100)
    system.stream.append("clicks", 0, [*(click(n) for n in range(99)), b"{broken", click(99), b"{broken", click(100)])
    eventually(lambda: system.records_read() == 103)
    eventually(lambda: system.rows_published() == 100)
    victim = next(task for task in system.tasks() if task.runner.view.committer)
    victim.stop()
    eventually(lambda: len(system.tasks()) == 2)
    finished(system, 101)
    counts = [row.counts[0] for row in system.ledger()]
    assert sum(each.unparseable for each in counts) == 2
    assert sum(each.good for each in counts) == 101
    assert sum(file.rows for file in system.store.quarantine_files("clicks", 10)) == 2


@pytest.mark.parametrize("dies", [False, True], ids=["the task lives", "the task dies"])
def test_what_was_read_before_its_records_expired_is_published_and_the_rest_passed_over(
    system: System, monkeypatch: pytest.MonkeyPatch, dies: bool
) -> None:
    running(system, 2, resetOffsetAutomatically=True)
    feed(system, 100)
    feed(system, 50, 1)
    eventually(lambda: system.records_read() == 150)
    eventually(lambda: any(sum(a.positions.values()) == 150 for a in system.store.attempts("clicks", True, 10)))
    away, poll = threading.Event(), MemorySupplier.poll

    def unless_away(supplier: MemorySupplier, max_records: int, timeout_ms: int) -> list[Poll]:
        if away.is_set():
            raise BrokerUnreachable("localhost:9092", "away")
        return poll(supplier, max_records, timeout_ms)

    monkeypatch.setattr(MemorySupplier, "poll", unless_away)
    away.set()
    [task] = system.tasks()
    eventually(lambda: task.runner.stream_error)
    feed(system, 200)
    system.stream.truncate("clicks", 0, 250)
    if dies:
        task.stop()
    away.clear()
    whole = OffsetMap({0: 300, 1: 50})
    eventually(lambda: any(each.runner.view.positions == whole for each in system.tasks()), 30, "the rest is read")
    system.overlord.suspend("clicks")
    eventually(lambda: system.rows_published() == 200, 30)
    assert [row.end for row in system.ledger()] == [OffsetMap({0: 100, 1: 50}), whole]
    [reset] = [row for row in system.store.audit("clicks", 10) if row.action == "reset"]
    assert (reset.detail["from"], reset.detail["moves"], reset.detail["voided"]) == ({"0": 100}, {"0": 250}, {})
