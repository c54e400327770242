"""Calls to tasks that several tables make at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from query.gathering import Gathering
from query.mirror import Mirror
from query.source import LiveAttempt, TableSnapshot
from query.task_calls import LiveSettings, TaskCalls
from query.timeline_cache import TableVersion
from segments.errors import StorageUnavailable
from segments.live import ChunkInfo, LiveAnswer, LiveAsk
from segments.schema import SegmentSchema

SNAPSHOT = TableSnapshot("t", 1, SegmentSchema.of([]), (), (), (), {}, {}, (), ())


class Moment(int):
    """A time; while two are compared, ``between`` happens."""

    def __new__(cls, value: int, between: Between) -> Moment:
        made = super().__new__(cls, value)
        made.between = between
        return made

    between: Between

    def __add__(self, other: int) -> Moment:
        return Moment(int(self) + other, self.between)

    def __gt__(self, other: int) -> bool:
        self.between.happens()
        return int(self) > int(other)


class Between:
    """A clock that stands still, and what happens once in the middle of a comparison of its times."""

    def __init__(self) -> None:
        self.waits: list[threading.Thread] = []

    def monotonic_ms(self) -> int:
        return Moment(1_000, self)

    def now_ms(self) -> int:
        return 0

    def happens(self) -> None:
        if self.waits:
            thread = self.waits.pop()
            thread.start()
            thread.join(0.2)


class Away:
    """No task answers."""

    def ask(self, attempt: LiveAttempt, ask: LiveAsk, timeout_ms: int) -> LiveAnswer:
        raise StorageUnavailable("nobody there")

    def fetch(self, attempt: LiveAttempt, chunk: ChunkInfo, timeout_ms: int) -> bytes:
        raise AssertionError("nothing to fetch")


def test_a_task_found_away_for_one_table_does_not_break_the_look_of_another(tmp_path: Path) -> None:
    clock, at = Between(), TableVersion(SNAPSHOT, (), 1)
    with ThreadPoolExecutor(2) as pool:
        calls = TaskCalls(Away(), Mirror(tmp_path, 1, frozenset()), LiveSettings(), clock, pool)
        calls.ask(at, (LiveAttempt("s", 1, "one", "a:1", True),))
        other = threading.Thread(target=calls.ask, args=(at, (LiveAttempt("s", 2, "two", "b:1", True),)))
        clock.waits.append(other)
        assert "one" in calls.suspects()
        other.join()
        assert calls.suspects() == {"one": None, "two": None}


def test_many_who_ask_at_once_share_an_assembly_and_one_who_asks_alone_never_waits() -> None:
    gathering = Gathering(10)
    for now_ms in (100, 101, 105):
        assert gathering.wait_ms(now_ms) == 0, "one after the other"
        gathering.begun(now_ms)
        gathering.served()
    gathering.served()
    assert [gathering.wait_ms(now_ms) for now_ms in (106, 114, 115, 200)] == [9, 1, 0, 0]
    gathering.begun(115)
    gathering.served()
    assert gathering.wait_ms(116) == 0, "the others have gone"


def test_while_rows_arrive_those_who_never_pause_are_served_the_later_the_more_they_are() -> None:
    gathering = Gathering(10, pace_ms=2)
    for now_ms in (10_000, 10_100, 10_200):
        gathering.begun(now_ms)
        gathering.served(50)
        assert gathering.wait_ms(now_ms + 1) == 9, "the same rows as before"
    waits, now_ms = [], 20_000
    for _ in range(7):
        gathering.begun(now_ms)
        gathering.found_news()
        gathering.served(50)
        waits.append(gathering.wait_ms(now_ms))
        now_ms += waits[-1]
    assert waits == [10, 10, 10, 10, 60, 100, 100], "a burst is answered at once, what goes on is paced"
    gathering.begun(now_ms)
    gathering.found_news()
    gathering.served()
    assert gathering.wait_ms(now_ms) == 0, "alone"
    gathering.served(5_000)
    assert gathering.wait_ms(now_ms) == 1_000, "whoever comes then is not made to wait for all of them"


def test_many_who_refresh_at_once_and_pause_then_never_wait_for_the_pace() -> None:
    gathering = Gathering(10, pace_ms=2)
    for now_ms in range(1_000, 9_000, 500):
        for askers in (1, 49, 5):
            gathering.begun(now_ms)
            gathering.found_news()
            gathering.served(askers)
            assert gathering.wait_ms(now_ms + 10) == 0
