"""Calls tasks for live rows: asks several at once, brings the chunks they name, and remembers who did not answer."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import structlog

from query.assembly import GroupKey, vector_of
from query.clock import Clock
from query.errors import QueryError
from query.mirror import ChunkKey, ChunkUnreadable, Mirror, MirroredChunk
from query.source import LiveAttempt, LiveSource
from query.timeline_cache import TableVersion
from segments.errors import ServiceError
from segments.live import ChunkInfo, LiveAnswer, LiveAsk

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LiveSettings:
    """``wait_ms`` bounds the wait for a required answer, ``ask_ms`` and ``fetch_ms`` one call.

    An attempt that could not be reached is not asked again for ``suspect_ms`` while another, or what is held,
    can answer. What is held stands in for a task that is down as long as the table was answered within the
    last ``trust_ms``; a reader who comes later waits for the task. While several ask for a table at once, its
    tasks are asked every ``gather_ms`` at most, for all who came until then, and while rows arrive those that refresh
    without a pause every ``pace_ms`` of one processor (half as many of two) for each of them (``query.gathering``); who
    asks alone never waits for that.
    """

    wait_ms: int = 10_000
    ask_ms: int = 1_000
    fetch_ms: int = 10_000
    suspect_ms: int = 1_000
    trust_ms: int = 10_000
    poll_ms: int = 25
    gather_ms: int = 10
    pace_ms: int = 12
    calls: int = 8


class TaskCalls:
    """Calls to tasks, several at once."""

    def __init__(
        self, live: LiveSource, mirror: Mirror, settings: LiveSettings, clock: Clock, calls: ThreadPoolExecutor
    ) -> None:
        self._live = live
        self._mirror = mirror
        self._settings = settings
        self._clock = clock
        self._calls = calls
        self._lock = threading.Lock()
        self._suspects: dict[str, int] = {}

    def suspects(self) -> dict[str, LiveAnswer | None]:
        """Attempts that could not be reached a moment ago."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:  # calls of other tables note others meanwhile
            self._suspects = {token: until_ms for token, until_ms in self._suspects.items() if until_ms > now_ms}
            return dict.fromkeys(self._suspects)

    def ask(self, at: TableVersion, attempts: Iterable[LiveAttempt]) -> dict[str, LiveAnswer | None]:
        """Every attempt's answer; None where there is none."""
        if isinstance(attempts, tuple) and len(attempts) == 1:
            return {attempts[0].token: self._ask_one(at, attempts[0])}
        futures = {attempt.token: self._calls.submit(self._ask_one, at, attempt) for attempt in attempts}
        return {token: future.result() for token, future in futures.items()}

    def _ask_one(self, at: TableVersion, attempt: LiveAttempt) -> LiveAnswer | None:
        vector, epochs = vector_of(at.snapshot, attempt.supervisor)
        ask = LiveAsk(at.version, attempt.group, vector, epochs)
        try:
            answer = self._live.ask(attempt, ask, self._settings.ask_ms)
        except ServiceError as error:
            self._suspect(attempt.token, error)
            return None
        # The token names the chunks: an answer of another process is none.
        return answer if answer.token == attempt.token and answer.group == attempt.group else None

    def fetch(self, at: TableVersion, wanted: Iterable[tuple[GroupKey, str, ChunkInfo]]) -> set[str]:
        """Brings and pins chunks; tokens of attempts that failed, in which case nothing stays pinned.

        Raises:
            ResourceLimitExceeded: the mirror is full.
        """
        attempts = {attempt.token: attempt for attempt in at.snapshot.attempts}
        futures: list[tuple[str, Future[MirroredChunk]]] = [
            (token, self._calls.submit(self._fetch_one, attempts.get(token), token, chunk))
            for _, token, chunk in wanted
        ]
        failed: set[str] = set()
        pinned: list[ChunkKey] = []
        fatal: ServiceError | None = None
        for token, future in futures:
            try:
                pinned.append(future.result().key)
            except ServiceError as error:
                fatal = fatal or (error if isinstance(error, QueryError) else None)
                failed.add(token)
        if failed:
            self._mirror.unpin(pinned)
        if fatal is not None:
            raise fatal
        return failed

    def _fetch_one(self, attempt: LiveAttempt | None, token: str, chunk: ChunkInfo) -> MirroredChunk:
        def over_the_wire() -> bytes:
            if attempt is None:
                raise ChunkUnreadable(f"attempt {token} is no longer listed")
            return self._live.fetch(attempt, chunk, self._settings.fetch_ms)

        return self._mirror.pin(attempt, token, chunk, over_the_wire)

    def _suspect(self, token: str, error: ServiceError) -> None:
        until_ms = self._clock.monotonic_ms() + self._settings.suspect_ms
        with self._lock:
            self._suspects[token] = until_ms
        _log.info("task_did_not_answer", token=token[:8], error=str(error))
