"""Runs statements in a pool of sandboxed worker processes, so that any one query can die alone.

One thread owns the processes: it starts them (the kernel ends a worker with the *thread* that started it),
stops queries whose time is over, and kills a worker that does not stop.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import structlog

from query.binding import Function, Relation
from query.clock import Clock
from query.errors import (
    QueryCapacityExceeded,
    QueryTimeout,
    QueryUnavailable,
)
from query.lanes import Lanes, Ticket
from query.runs import NOBODY, Owner, Run, Worker
from query.worker_start import WorkerStarter
from query.worker_wire import Job, Kind

_log = structlog.get_logger(__name__)
_TICK_S = 0.05
_REST_AFTER_MS = 1_000  # so long after the last query it is no longer looked for late ones
_REST_LOOK_S = 2.0  # how often it looks then whether workers are there
_START_AGAIN_MS = 1_000
_STARTS_MS = 120_000  # what takes longer to begin is ended: no other is started beside it
_SPARE_RESTS_MS = 30_000  # so long after its last query a worker beyond the usual number ends


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """``workers`` processes of ``threads`` threads and ``memory_bytes`` each; ``temp_bytes`` bounds what one spills.

    ``queued`` queries at most wait for a worker. One that reads ``long_rows``, has run for ``long_ms`` or told
    ``long_bytes`` counts as long (``query.lanes``); while all workers are held by such, up to ``spare`` more stand by
    for short ones. ``grace_ms`` after it was told to stop, a worker is killed. ``nice`` is what the workers' priority
    falls behind that of tasks (0 to 19): reading goes before asking.
    """

    workers: int = 2
    threads: int = 2
    memory_bytes: int = 1 << 30
    temp_bytes: int = 10 << 30
    queued: int = 100
    timeout_ms: int = 300_000
    grace_ms: int = 2_000
    long_rows: int = 20_000_000
    long_ms: int = 1_000
    long_bytes: int = 64 << 20
    spare: int = 1
    nice: int = 0


class Engine:
    """The pool; safe for many threads. ``roots`` are the folders from which a statement's files come."""

    def __init__(self, settings: EngineSettings, roots: Sequence[Path], temp_dir: Path, clock: Clock) -> None:
        self.clock = clock
        self._settings = settings
        self._starter = WorkerStarter(
            [str(root) for root in roots],
            temp_dir,
            settings.memory_bytes,
            settings.temp_bytes,
            settings.threads,
            settings.nice,
        )
        self._lock = threading.Lock()
        # Each who waits has a condition of its own: one free worker wakes one of fifty, not all of them.
        self._turns: dict[Ticket, threading.Condition] = {}
        self._owner_wanted = threading.Condition(self._lock)
        self._owner_looks = False
        # Only those that can begin at once: nobody waits for the start of one while another may come free.
        self._idle: list[Worker] = []
        self._starting: tuple[Worker, threading.Thread] | None = None
        self._count = 0
        self._generation = 0
        self._lanes = Lanes(settings.workers)
        self._runs: set[Run] = set()
        self._numbers = itertools.count(1)
        self._stopping = False
        self._start_again_ms = 0
        self._started_by_ms = 0
        self._owner: threading.Thread | None = None

    def start(self) -> None:
        """Starts the workers in the background, one after the other; the first query waits for the first of them."""
        self._starter.prepare()
        self._owner = threading.Thread(target=self._own_processes, name="query-engine", daemon=True)
        self._owner.start()

    def stop(self) -> None:
        """Ends all queries and all workers."""
        with self._lock:
            self._stopping = True
            self._owner_wanted.notify()
            for turn in self._turns.values():
                turn.notify()
        for run in list(self._runs):
            run.cancel(QueryUnavailable("the query node is stopping"))
            run.kill()
        if self._owner is not None:
            self._owner.join()
        starting = self._starting
        if starting is not None:
            starting[0].kill()
            starting[1].join()
        with self._lock:
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.discard()

    def run(
        self,
        sql: str,
        relations: Sequence[Relation],
        timeout_ms: int = 0,
        owner: Owner = NOBODY,
        functions: Sequence[Function] = (),
        is_small: bool = False,
    ) -> Run:
        """Starts a statement; ``timeout_ms`` counts from now, waiting included (0: the default).

        ``owner`` hears when it can be cancelled, and may end the wait for a worker before. ``is_small``: the answer has
        few rows for certain.

        Raises:
            QueryCapacityExceeded: too many are waiting.
            QueryTimeout, QueryFailed, QueryUnavailable, ResourceLimitExceeded: it has no answer.
        """
        return self.begin(Job(0, sql, tuple(relations), tuple(functions), is_small), timeout_ms, owner)

    def begin(self, job: Job, timeout_ms: int = 0, owner: Owner = NOBODY) -> Run:
        """As ``run``, of a job to which the pool gives its number."""
        allowed_ms = min(timeout_ms or self._settings.timeout_ms, self._settings.timeout_ms)
        deadline_ms = self.clock.monotonic_ms() + allowed_ms
        job = replace(job, number=next(self._numbers))
        worker = self._take_worker(deadline_ms, owner)
        run = Run(self, worker, job, deadline_ms, owner.claim.is_long)
        with self._lock:
            self._runs.add(run)
            if not self._owner_looks:
                self._owner_wanted.notify()
        owner.started(run)
        run.begin(job)
        return run

    def trim(self) -> None:
        """Tells idle workers to let go of files that have been removed."""
        with self._lock:
            for worker in self._idle:
                worker.send(Kind.TRIM)

    def renew(self) -> None:
        """Ends all workers, and with them what they remember of files; others take their places. Those that have a
        query end after it."""
        with self._lock:
            self._generation += 1
            idle, self._idle = self._idle, []
            for _ in idle:
                self._miss_one()
        for worker in idle:
            worker.discard()

    @property
    def running(self) -> int:
        """Queries that hold a worker now."""
        return len(self._runs)

    @property
    def waiting(self) -> int:
        """Queries that wait for a worker."""
        return len(self._lanes)

    def runs(self) -> list[Run]:
        """The queries that hold a worker now."""
        with self._lock:
            return list(self._runs)

    def give_back(self, run: Run, worker: Worker, reusable: bool) -> None:
        """Takes a worker back from its run."""
        with self._lock:
            self._runs.discard(run)
            self._lanes.end(run.is_long)
            keep = reusable and not self._stopping and worker.generation == self._generation
            if keep:
                worker.idle_since_ms = self.clock.monotonic_ms()
                self._idle.append(worker)
            else:
                self._miss_one()
            self._call_next()
        if not keep:
            worker.discard()

    def _take_worker(self, deadline_ms: int, owner: Owner) -> Worker:
        while True:
            worker = self._wait_for_worker(deadline_ms, owner)
            if worker.process.poll() is None:
                return worker
            # It died while nobody used it.
            worker.discard()
            with self._lock:
                self._lanes.end(owner.claim.is_long)
                self._miss_one()
                self._call_next()

    def _wait_for_worker(self, deadline_ms: int, owner: Owner) -> Worker:
        with self._lock:
            if not self._idle and len(self._lanes) >= self._settings.queued:
                raise QueryCapacityExceeded(f"{len(self._lanes)} queries are waiting for a worker already")
            ticket = self._lanes.join(owner.claim, self.clock.monotonic_ms())
            turn = self._turns[ticket] = threading.Condition(self._lock)
            try:
                while not (self._idle and self._lanes.next() == ticket) and not self._stopping:
                    owner.check()
                    left_ms = deadline_ms - self.clock.monotonic_ms()
                    if left_ms <= 0:
                        raise QueryTimeout("the query's time was over before a worker was free")
                    turn.wait(min(left_ms / 1000, 1.0))
                if self._stopping:
                    raise QueryUnavailable("the query node is stopping")
                self._lanes.begin(ticket.is_long)
                # The last one back has the chunks mapped that the next query most likely reads.
                return self._idle.pop()
            finally:
                self._lanes.leave(ticket)
                del self._turns[ticket]
                # It may have stood before somebody for whom there is a worker, too.
                self._call_next()

    def _call_next(self) -> None:
        """With the lock held: tells the one for whom there is a worker."""
        ticket = self._lanes.next() if self._idle else None
        if ticket is not None:
            self._turns[ticket].notify()

    def _miss_one(self) -> None:
        """With the lock held: a worker is gone, and its owner starts another."""
        self._count -= 1
        self._owner_wanted.notify()

    def _own_processes(self) -> None:
        rest_ms = 0
        while True:
            with self._lock:
                if self._stopping:
                    return
                now_ms = self.clock.monotonic_ms()
                self._notice_long(now_ms)
                postponed = now_ms < self._start_again_ms
                starts = not postponed and self._starting is None and self._count < self._wanted()
                surplus = self._surplus(now_ms)
                self._count += starts - len(surplus)
                if self._runs:
                    rest_ms = now_ms + _REST_AFTER_MS
                if not starts and not surplus:
                    # While it looks by itself nobody needs to wake it for each of many short queries.
                    self._owner_looks = postponed or now_ms < rest_ms
                    self._owner_wanted.wait(_TICK_S if self._owner_looks else _REST_LOOK_S)
                    self._owner_looks = True
                runs = list(self._runs)
            for worker in surplus:
                worker.discard()
            if starts:
                self._start_one()
            self._stop_late(runs)

    def _notice_long(self, now_ms: int) -> None:
        """With the lock held: what was taken for short and is not counts as long from now on."""
        for run in self._runs:
            has_run_ms = now_ms - run.begun_ms
            if not run.is_long and (
                has_run_ms >= self._settings.long_ms or run.told_bytes >= self._settings.long_bytes
            ):
                run.is_long = True
                self._lanes.lengthen()

    def _wanted(self) -> int:
        """With the lock held: how many workers there should be."""
        held_by_long = bool(self._runs) and not self._idle and all(run.is_long for run in self._runs)
        return self._settings.workers + (self._settings.spare if held_by_long else 0)

    def _surplus(self, now_ms: int) -> list[Worker]:
        """With the lock held: idle workers that are not kept, taken out of the others: those that died while nobody
        used them, and those beyond the usual number that have rested for long."""
        gone = [worker for worker in self._idle if worker.process.poll() is not None]
        # While long queries hold all others, those beyond are the ones that the next short query gets.
        needed = self._settings.spare if sum(run.is_long for run in self._runs) >= self._settings.workers else 0
        beyond = max(self._count - len(gone) - self._settings.workers - needed, 0)
        rested = (one for one in self._idle if one not in gone and now_ms - one.idle_since_ms >= _SPARE_RESTS_MS)
        gone += itertools.islice(rested, beyond)
        if gone:
            self._idle = [worker for worker in self._idle if worker not in gone]
        return gone

    def _start_one(self) -> None:
        """Starts a worker that is counted already. Its owner must not die where the machine gives none: the other
        workers would, and nobody would stop a query whose time is over."""
        worker: Worker | None = None
        try:
            worker = self._starter.start()
            waits = threading.Thread(target=self._await_start, args=(worker,), name="query-worker-start", daemon=True)
            self._started_by_ms = self.clock.monotonic_ms() + _STARTS_MS
            self._starting = worker, waits
            waits.start()
        except (OSError, RuntimeError) as error:
            # No more processes, or no thread to wait for one.
            self._starting = None
            self._start_again_ms = self.clock.monotonic_ms() + _START_AGAIN_MS
            _log.warning("query_worker_not_started", error=str(error))
            with self._lock:
                self._count -= 1
            if worker is not None:
                worker.discard()

    def _await_start(self, worker: Worker) -> None:
        begun = worker.begun()
        with self._lock:
            self._starting = None
            keep = begun and not self._stopping
            worker.generation = self._generation
            worker.idle_since_ms = now_ms = self.clock.monotonic_ms()
            if keep:
                # Those that have worked know more.
                self._idle.insert(0, worker)
                self._call_next()
                self._owner_wanted.notify()
            else:
                self._start_again_ms = now_ms + _START_AGAIN_MS
                self._miss_one()
        if not keep:
            worker.discard()
        if not begun and not self._stopping:
            _log.warning("query_worker_not_started", error=f"it ended with code {worker.process.returncode}")

    def _stop_late(self, runs: Sequence[Run]) -> None:
        now_ms = self.clock.monotonic_ms()
        starting = self._starting
        if starting is not None and now_ms >= self._started_by_ms:
            starting[0].kill()
        for run in runs:
            if run.stopped_at_ms is None and now_ms >= run.deadline_ms:
                run.cancel(QueryTimeout("the query did not end in its time"))
            elif run.stopped_at_ms is not None and now_ms >= run.stopped_at_ms + self._settings.grace_ms:
                run.kill()
