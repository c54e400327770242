"""Binds a table to one version: asks tasks what is live, mirrors it, and remembers what was answered last.

The decisions are ``query.assembly``'s; this runner asks, fetches, waits and pins. Queries that come while an
assembly of the same table is under way share the next one, so a busy dashboard costs a task one call at a time.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import structlog

from query.assembly import (
    Answer,
    AskAlso,
    KeepHeld,
    Missing,
    Newer,
    Verdict,
    View,
    advance,
    decide,
)
from query.clock import Clock
from query.errors import QueryUnavailable
from query.gathering import Gathering
from query.mirror import ChunkKey, Mirror, MirroredChunk
from query.session import Seen, floor_of
from query.source import LiveSource
from query.task_calls import LiveSettings, TaskCalls
from query.timeline_cache import TableVersion, TimelineCache
from segments.errors import ServiceError
from segments.live import LiveAnswer

_log = structlog.get_logger(__name__)
_RETRACTED_MAX = 4


@dataclass(slots=True)
class BoundTable:
    """A table at one version for one query: all its segments and live chunks. ``close`` exactly once.

    ``seen`` is what a reader of the answer has seen."""

    at: TableVersion
    chunks: tuple[MirroredChunk, ...]
    seen: Seen
    close: Callable[[], None]


@dataclass(slots=True)
class _Held:
    view: View
    at: TableVersion
    keys: tuple[ChunkKey, ...]
    # Its chunks were given up: it says how far was answered, but is no answer.
    is_forgotten: bool = False


class LiveTables:
    """All tables' live rows; safe for many threads."""

    def __init__(
        self, timeline: TimelineCache, live: LiveSource, mirror: Mirror, settings: LiveSettings, clock: Clock
    ) -> None:
        self._timeline = timeline
        self._mirror = mirror
        self._lock = threading.Lock()
        self._tables: dict[str, _LiveTable] = {}
        self._calls = ThreadPoolExecutor(settings.calls, "query-live")
        self._tasks = TaskCalls(live, mirror, settings, clock, self._calls)
        self._settings = settings
        self._clock = clock
        mirror.make_room = self._make_room

    def bind(self, datasource: str, seen: Seen | None = None, askers: int = 1) -> BoundTable | None:
        """The table at the newest version that can be answered whole; None when there is no such table.
        ``seen``: what the reader saw of it at another node, below which this answer does not fall. ``askers``: how many
        wait for the answer.

        Raises:
            QueryUnavailable: a required answer did not come in time, or this node did not reach what was
                seen; it names group and sequence, or partition.
            ServiceError: the database cannot be read, or the mirror is full.
        """
        if self._timeline.current(datasource) is None:
            return None
        with self._lock:
            table = self._tables.get(datasource)
            if table is None:
                table = _LiveTable(datasource, self._timeline, self._mirror, self._tasks, self._settings, self._clock)
                self._tables[datasource] = table
        return table.bind(seen, askers)

    def moved(self, at: TableVersion) -> None:
        """A newer version is current: lets go of chunks whose rows it has published, if that loses nothing."""
        with self._lock:
            table = self._tables.get(at.snapshot.datasource)
        if table is not None:
            table.advance(at)

    def stop(self) -> None:
        """Ends the calls under way."""
        self._calls.shutdown(wait=False, cancel_futures=True)

    def _make_room(self) -> bool:
        """Forgets the chunks of the table that was not asked for the longest, if it was not for a while."""
        with self._lock:
            tables = sorted(self._tables.values(), key=lambda table: table.answered_ms)
        return any(table.forget() for table in tables)


class _LiveTable:
    """One table: what is held of it, and one assembly at a time."""

    def __init__(
        self,
        datasource: str,
        timeline: TimelineCache,
        mirror: Mirror,
        tasks: TaskCalls,
        settings: LiveSettings,
        clock: Clock,
    ) -> None:
        self._datasource = datasource
        self._timeline = timeline
        self._mirror = mirror
        self._tasks = tasks
        self._settings = settings
        self._clock = clock
        self._assembling = threading.Lock()
        self._state = threading.Lock()
        self._gathering = Gathering(settings.gather_ms, settings.pace_ms / len(os.sched_getaffinity(0)))
        self._begun = 0
        self._finished = 0
        self._outcome: bool | ServiceError = False
        self._held: _Held | None = None
        self.answered_ms = clock.monotonic_ms() - settings.trust_ms - 1

    def bind(self, seen: Seen | None, askers: int) -> BoundTable | None:
        """See ``LiveTables.bind``. The wait for what was seen elsewhere holds up nobody else."""
        deadline_ms = self._clock.monotonic_ms() + self._settings.wait_ms
        while True:
            try:
                return self._bind(seen, askers)
            except _NotReached as error:
                if self._clock.monotonic_ms() >= deadline_ms:
                    message = f"this node has not reached what the session saw of table {self._datasource}: {error}"
                    raise QueryUnavailable(message, {"table": self._datasource}) from error
            threading.Event().wait(self._settings.poll_ms / 1000)

    def _bind(self, seen: Seen | None, askers: int) -> BoundTable | None:
        with self._state:
            # An assembly that begins from now on sees everything that was there when this query came.
            needed = self._begun + 1
        with self._assembling:
            if self._finished < needed:
                wait_ms = self._gathering.wait_ms(self._clock.monotonic_ms())
                if wait_ms:
                    threading.Event().wait(wait_ms / 1000)
                self._outcome = self._assembled()
            self._gathering.served(askers)
            if isinstance(self._outcome, ServiceError):
                raise self._outcome
            if not self._outcome:
                return None
            self._reach(seen)
            with self._state:
                return self._bound()

    def _reach(self, seen: Seen | None) -> None:
        """Moves on to what was seen elsewhere, if that can be done at once. Raises _NotReached."""
        assert self._held is not None
        if seen is None or seen.is_reached_by(self._held.view):
            return
        try:
            is_there = self._assemble(seen)
        except QueryUnavailable as error:
            raise _NotReached(error.message) from error
        if not is_there or not seen.is_reached_by(self._held.view):
            raise _NotReached(f"version {self._held.view.version}, seen was {seen.version}")

    def advance(self, at: TableVersion) -> None:
        """Moves what is held to a newer version without asking, where that is possible."""
        # An assembly under way may wait for a task; it looks at the newest version itself.
        if not self._assembling.acquire(blocking=False):
            return
        try:
            with self._state:
                view = advance(at.snapshot, self._held.view) if self._held is not None else None
                if view is not None:
                    keys = self._keys(view)
                    self._mirror.repin(keys)
                    self._hold(_Held(view, at, keys))
        finally:
            self._assembling.release()

    def forget(self) -> bool:
        """Gives up the mirrored chunks of a table that nobody reads; how far it was answered stays known."""
        idle_ms = self._clock.monotonic_ms() - self.answered_ms
        if idle_ms <= self._settings.trust_ms or not self._assembling.acquire(blocking=False):
            return False
        try:
            with self._state:
                if self._held is None or not self._held.keys:
                    return False
                view = View(self._held.view.version, {}, self._held.view.reached)
                self._hold(_Held(view, self._held.at, (), is_forgotten=True))
                return True
        finally:
            self._assembling.release()

    def _assembled(self) -> bool | ServiceError:
        """One assembly; its failure is that of all queries that waited for it, so that none waits twice."""
        self._gathering.begun(self._clock.monotonic_ms())
        with self._state:
            self._begun += 1
            begun = self._begun
        try:
            return self._assemble()
        except ServiceError as error:
            return error
        finally:
            self._finished = begun

    def _assemble(self, seen: Seen | None = None) -> bool:
        """With ``seen`` it does not wait: whoever wants that waits elsewhere."""
        wait_ms = self._settings.wait_ms if seen is None else 0
        round_ = _Round(self._timeline, self._datasource, self._clock, self._settings, wait_ms, seen)
        while True:
            at = round_.at
            if at is None:
                return False
            with self._timeline.held(self._datasource, at.version):
                verdict = self._decide(round_, at)
                if isinstance(verdict, Answer) and self._adopt(round_, at, verdict.view):
                    if verdict.kept:
                        _log.debug("live_rows_kept", table=self._datasource, reason="; ".join(verdict.kept))
                    break
                if isinstance(verdict, AskAlso):
                    round_.answers |= self._tasks.ask(at, verdict.attempts)
            if isinstance(verdict, Newer | KeepHeld | Missing) and self._settle(round_, verdict):
                break
        self.answered_ms = self._clock.monotonic_ms()
        return True

    def _decide(self, round_: _Round, at: TableVersion) -> Verdict:
        held = floor_of(None if self._held is None else self._held.view, round_.seen)
        trust = self._held is not None and self._clock.monotonic_ms() - self.answered_ms <= self._settings.trust_ms
        suspects = self._tasks.suspects() if trust else {}
        return decide(at.snapshot, held, suspects | round_.answers, trust)

    def _settle(self, round_: _Round, verdict: Newer | KeepHeld | Missing) -> bool:
        """True if what is held is the answer; else there is news to decide on, or time was waited.

        Raises:
            QueryUnavailable: the time is over.
        """
        if round_.reload():
            return False
        may_keep = self._held is not None and not self._held.is_forgotten and round_.seen is None
        if isinstance(verdict, KeepHeld) and may_keep:
            _log.debug("live_rows_kept", table=self._datasource, reason=verdict.reason)
            return True
        round_.wait(verdict.reason)
        return False

    def _adopt(self, round_: _Round, at: TableVersion, view: View) -> bool:
        """Makes the view what is held, once all its chunks are here."""
        mine = set(self._held.keys) if self._held is not None else set()
        missing = [(key, token, chunk) for key, token, chunk in view.chunks() if (token, chunk.number) not in mine]
        failed = self._tasks.fetch(at, missing)
        if failed:
            # The lists are atomic: with a chunk gone the whole answer is void (PR-5).
            round_.retract(failed)
            return False
        with self._state:
            keys = self._keys(view)
            self._mirror.repin(key for key in keys if key in mine)
            if not mine.issuperset(keys):
                self._gathering.found_news()
            self._hold(_Held(view, at, keys))
        return True

    def _hold(self, held: _Held) -> None:
        """Replaces what is held; the caller has pinned its chunks."""
        before, self._held = self._held, held
        if before is not None:
            self._mirror.unpin(before.keys)

    @staticmethod
    def _keys(view: View) -> tuple[ChunkKey, ...]:
        return tuple((token, chunk.number) for _, token, chunk in view.chunks())

    def _bound(self) -> BoundTable:
        assert self._held is not None
        keys = self._held.keys
        self._mirror.repin(keys)
        chunks = tuple(self._mirror.get(key) for key in keys)
        return BoundTable(self._held.at, chunks, Seen.of(self._held.view), lambda: self._mirror.unpin(keys))


class _NotReached(Exception):
    """What a reader saw at another node is not here yet; says what is missing."""


class _Round:
    """One assembly: the version it looks at, the answers so far, its deadline, and what a reader saw elsewhere."""

    def __init__(
        self,
        timeline: TimelineCache,
        datasource: str,
        clock: Clock,
        settings: LiveSettings,
        wait_ms: int,
        seen: Seen | None,
    ) -> None:
        self._timeline = timeline
        self._datasource = datasource
        self._clock = clock
        self._poll_ms = settings.poll_ms
        self._deadline_ms = clock.monotonic_ms() + wait_ms
        self.seen = seen
        self._was_reloaded = False
        self._retracted: Counter[str] = Counter()
        self.at = timeline.current(datasource)
        self.answers: dict[str, LiveAnswer | None] = {}

    def retract(self, tokens: Iterable[str]) -> None:
        """Their answers are void. They are asked again at once, since a chunk that was replaced between
        answer and fetch is an ordinary thing; who fails time and again counts as out of reach."""
        for token in tokens:
            self._retracted[token] += 1
            if self._retracted[token] < _RETRACTED_MAX:
                self.answers.pop(token, None)
            else:
                self.answers[token] = None

    def reload(self) -> bool:
        """Loads the newest version; True if there is one, or another set of sequences or attempts."""
        before = self.at
        try:
            self.at = self._timeline.refresh(self._datasource)
        except ServiceError as error:
            # Queries go on without the database: what was loaded stays exact (PR-6).
            _log.debug("metadata_not_reloaded", table=self._datasource, error=str(error))
        if self.at is None or before is None or self.at.snapshot != before.snapshot or not self._was_reloaded:
            # The first time tasks are asked again in any case: a call may just have been lost.
            self._was_reloaded = True
            self.answers = {}
            return True
        return False

    def wait(self, reason: str) -> None:
        """Waits a little and forgets all answers.

        Raises:
            QueryUnavailable: the deadline has passed.
        """
        if self._clock.monotonic_ms() >= self._deadline_ms:
            raise QueryUnavailable(
                f"live rows of table {self._datasource} cannot be answered whole: {reason}", {"table": self._datasource}
            )
        threading.Event().wait(self._poll_ms / 1000)
        self.answers = {}
