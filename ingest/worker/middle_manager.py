"""The middle manager: takes tasks, starts and watches their processes, reports their ends, adopts them after its own.

Stopping it stops no task. Its successor locks the same state root, finds the tasks by their
directories, proves them, and goes on watching (PR-26). What it cannot prove it never signals.
"""

from __future__ import annotations

import fcntl
import os
import select
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import structlog

from ingest.clock import Clock
from ingest.errors import IngestError, OtherDatabase, OverlordUnreachable
from ingest.protocol import EndedTask, RunningTask, TaskSpec, WorkerHeartbeat, WorkerOrders
from ingest.task.directory import AttemptDirectory, write_atomically
from ingest.wire import WireError
from ingest.worker.held_task import HeldTask, close_never_started, end_of, find_running, hold_started
from ingest.worker.ports import LaunchFailed, OverlordWorkers, TaskChallenge, TaskLauncher
from ingest.worker.retention import EndedSweep, bound_log, database_of

log = structlog.get_logger()

BEAT_WAIT_MS = 800
"""How long the overlord may hold a beat open; below a second, so that it never takes silence for death."""
RETRY_S = 0.5
DYING_S = 0.02
WATCH_TIMEOUT_MS = 500
SWEEP_EVERY_MS = 10_000
ADOPTED_AT_ONCE = 16


class StateRootTaken(IngestError):
    """Another middle manager uses the state root."""

    effect_known_absent = True


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """One middle manager: its state root, its name (the same after a restart), the address it
    advertises (``host:port``) and how many task processes it runs at once."""

    root: Path
    worker: str
    address: str
    capacity: int


class MiddleManager:
    """Owns the task processes under one state root.

    Two threads: one beats (and starts what is ordered), one watches pidfds. ``start`` raises
    StateRootTaken; after ``stop`` the tasks run on.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        overlord: OverlordWorkers,
        launcher: TaskLauncher,
        challenge: TaskChallenge,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._root = settings.root
        self._overlord = overlord
        self._launcher = launcher
        self._challenge = challenge
        self._clock = clock
        self._enabled = True
        self._lock = threading.RLock()
        self._orders_lock = threading.Lock()
        self._held: dict[str, HeldTask] = {}
        self._ended: dict[str, tuple[EndedTask, AttemptDirectory]] = {}
        self._unsettled: dict[str, tuple[TaskSpec, AttemptDirectory]] = {}
        self._generation = 0
        self._database = ""  # whose the attempts under the root are; anybody's while there are none
        self.trouble = ""
        """That who answers as the overlord is not that of the tasks here; empty while all is well."""
        self._stopping = threading.Event()
        self._wake_read, self._wake_write = -1, -1
        self._root_lock = -1
        self._threads: list[threading.Thread] = []
        self._swept_ms = 0
        self._ended_sweep = EndedSweep()

    def start(self) -> None:
        """Locks the root, adopts what runs there, and begins to beat."""
        self._lock_root()
        self._enabled = not self._disabled_mark.exists()
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._adopt()
        self._launcher.warm_up()  # not before: seconds of imports beside the proofs of those that run
        for name, run in (("worker-watch", self._watch), ("worker-beat", self._beat_forever)):
            thread = threading.Thread(target=run, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self, timeout_s: float = 5.0) -> tuple[RunningTask, ...]:
        """Stops watching and beating; every task goes on: these do. The root is free for a successor."""
        self._stopping.set()
        self._wake()
        for thread in self._threads:
            thread.join(timeout_s)
        self._launcher.close()
        with self._lock:
            left = self.running()
            for held in self._held.values():
                held.close()
            self._held.clear()
        for descriptor in (self._wake_read, self._wake_write, self._root_lock):
            if descriptor >= 0:
                os.close(descriptor)
        return left

    @property
    def enabled(self) -> bool:
        return self._enabled

    def set_enabled(self, enabled: bool) -> None:
        """A disabled middle manager is given no new tasks; those it has hand off early and end (a drain).
        It stays so over a restart."""
        self._enabled = enabled
        try:
            if enabled:
                self._disabled_mark.unlink(missing_ok=True)
            else:
                write_atomically(self._disabled_mark, b"")
        except OSError as error:  # a full disk must not stand in the way of a drain
            log.warning("not remembered over a restart", path=str(self._disabled_mark), error=str(error))
        log.info("worker enabled" if enabled else "worker disabled", worker=self._settings.worker)
        self._beat_now()

    @property
    def _disabled_mark(self) -> Path:
        return self._root / "disabled"

    def running(self) -> tuple[RunningTask, ...]:
        with self._lock:
            return tuple(held.running() for held in self._held.values())

    def log_path(self, task_id: str, attempt: int | None = None) -> Path | None:
        """The log file of a task's attempt (the latest by default), also after its end."""
        found = [
            (spec.attempt, directory.log)
            for spec, directory in self._directories()
            if spec.task_id == task_id and attempt in (None, spec.attempt)
        ]
        return max(found)[1] if found else None

    # ---------------------------------------------------------------- adoption

    def _lock_root(self) -> None:
        (self._root / "attempts").mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise StateRootTaken(f"{self._root} is in use by another middle manager; stop it first") from error
        self._root_lock = descriptor

    def _directories(self) -> Iterator[tuple[TaskSpec, AttemptDirectory]]:
        for path in sorted((self._root / "attempts").iterdir()):
            directory = AttemptDirectory(path)
            try:
                yield directory.spec(), directory
            except WireError as error:
                log.warning("attempt directory left alone", path=str(path), error=str(error))

    def _adopt(self) -> None:
        attempts = list(self._directories())
        self._database = database_of(attempts)
        found = [(spec, path) for spec, path in attempts if not path.is_marked("acknowledged")]
        # Side by side: a task that is slow to prove itself must not keep the others waiting.
        with ThreadPoolExecutor(ADOPTED_AT_ONCE, thread_name_prefix="adopt") as pool:
            for settled in [pool.submit(self._settle, spec, directory) for spec, directory in found]:
                settled.result()
        log.info("tasks adopted", worker=self._settings.worker, running=len(self._held), ended=len(self._ended))

    def _settle(self, spec: TaskSpec, directory: AttemptDirectory) -> None:
        """Takes one attempt found on disk as running, as ended, or as undecided for now."""
        held = find_running(spec, directory)
        if held is not None:
            held.prove(self._challenge)
        with self._lock:
            self._unsettled.pop(spec.token, None)
            if spec.token in self._held:  # the other thread was faster
                if held is not None:
                    held.close()
            elif held is not None:
                self._held[spec.token] = held
            elif directory.result() is not None or close_never_started(directory, self._clock.now_ms()):
                self._ended[spec.token] = (end_of(spec, directory), directory)
            else:
                self._unsettled[spec.token] = (spec, directory)

    # ---------------------------------------------------------------- watching

    def _watch(self) -> None:
        while not self._stopping.is_set():
            try:
                self._watch_once()
            except OSError as error:  # a full disk takes no result file: the end is taken at the next look
                log.warning("state root not written", worker=self._settings.worker, error=str(error))
                self._stopping.wait(RETRY_S)
            except Exception:  # a thread that dies would see no task end any more
                log.exception("watch broke", worker=self._settings.worker)
                self._stopping.wait(RETRY_S)

    def _watch_once(self) -> None:
        poll = select.poll()
        poll.register(self._wake_read, select.POLLIN)
        with self._lock:
            by_pidfd = {held.pidfd: held for held in self._held.values()}
        for pidfd in by_pidfd:
            poll.register(pidfd, select.POLLIN)
        ready = {descriptor for descriptor, _ in poll.poll(WATCH_TIMEOUT_MS)}
        with suppress(BlockingIOError):
            os.read(self._wake_read, 4096)
        gone = [by_pidfd[pidfd] for pidfd in ready if pidfd in by_pidfd]
        for held in gone:
            self._take_end(held)
        self._decide_undecided()
        if gone:
            self._beat_now()
        self._sweep()

    def _take_end(self, held: HeldTask) -> None:
        self._launcher.reap(held.pid)
        ended = end_of(held.spec, held.directory)
        close_never_started(held.directory, self._clock.now_ms())
        with self._lock:
            del self._held[held.spec.token]
            self._ended[held.spec.token] = (ended, held.directory)
        held.close()
        log.info("task ended", task=ended.task_id, attempt=ended.attempt, succeeded=ended.succeeded, error=ended.error)

    def _decide_undecided(self) -> None:
        for spec, directory in list(self._unsettled.values()):
            self._settle(spec, directory)
        with self._lock:
            unproved = [held for held in self._held.values() if not held.proved]
        for held in unproved:
            held.prove(self._challenge)

    def _sweep(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._swept_ms >= SWEEP_EVERY_MS:
            self._swept_ms = now_ms
            attempts = list(self._directories())
            self._database = database_of(attempts)
            self._ended_sweep.sweep(attempts, self._clock.now_ms(), now_ms)
            for _, directory in attempts:
                bound_log(directory)

    def _wake(self) -> None:
        with suppress(BlockingIOError):
            os.write(self._wake_write, b"!")

    # ---------------------------------------------------------------- beating

    def _beat_forever(self) -> None:
        while not self._stopping.is_set():
            try:
                done = self._beat(BEAT_WAIT_MS)
            except OSError as error:  # as above: the order is repeated
                log.warning("state root not written", worker=self._settings.worker, error=str(error))
                done = False
            except Exception:  # a thread that dies would leave its tasks without a middle manager
                log.exception("beat broke", worker=self._settings.worker)
                done = False
            if not done:
                self._stopping.wait(RETRY_S)

    def _beat_now(self) -> None:
        """Reports without waiting for the beat that is held open; orders are idempotent by token."""
        if not self._stopping.is_set():
            self._beat(0)

    def _beat(self, wait_ms: int) -> bool:
        with self._lock:
            beat = WorkerHeartbeat(
                worker=self._settings.worker,
                address=self._settings.address,
                capacity=self._settings.capacity,
                enabled=self._enabled,
                running=self.running(),
                ended=tuple(ended for ended, _ in self._ended.values()),
                wait_ms=wait_ms,
                generation=self._generation,
                kept=self._ended_sweep.kept(),
                database=self._database,
            )
        try:
            orders = self._overlord.beat(beat)
            if self._database and orders.database != self._database:
                raise OtherDatabase(f"it works on database {orders.database or 'of no name'}, not {self._database}")
            self.trouble = ""
        except OtherDatabase as error:
            self._tell_other(str(error))
            return False
        except OverlordUnreachable as error:
            log.debug("overlord unreachable", worker=self._settings.worker, error=str(error))
            return False
        except IngestError as error:  # another version of it may answer what cannot be read here
            log.warning("beat not understood", worker=self._settings.worker, error=str(error))
            return False
        return self._obey(orders)

    def _tell_other(self, found: str) -> None:
        """Of its orders none is for the tasks here: they read on, and are neither ended nor removed by its word."""
        told = (
            f"the tasks under {self._root} belong to another service than the overlord that answers ({found}); correct "
            "overlord.urls, or `siltstone accept-database` if their database is lost"
        )
        if told != self.trouble:
            log.warning("orders of another service refused", worker=self._settings.worker, error=told)
        self.trouble = told

    def _obey(self, orders: WorkerOrders) -> bool:
        """False when the orders come from a leader that has been replaced: they are refused (PR-23)."""
        with self._orders_lock:
            if orders.generation < self._generation or self._stopping.is_set():
                return False
            self._generation = orders.generation
            for token in orders.acknowledged:
                self._acknowledge(token)
            with self._lock:
                busy = {(held.spec.supervisor, held.spec.group) for held in self._held.values()}
            self._ended_sweep.remove(orders.unneeded, busy)
            for token in orders.kill:
                self._kill(token)
            for spec in orders.start:
                self._start_task(spec)
        return True

    def _acknowledge(self, token: str) -> None:
        with self._lock:
            entry = self._ended.pop(token, None)
        if entry is not None:
            with suppress(OSError):
                entry[1].mark("acknowledged")

    def _kill(self, token: str) -> None:
        with self._lock:
            held = self._held.get(token)
        if held is None:
            return
        if not held.prove(self._challenge):
            log.warning("unproved process left alone", task=held.spec.task_id, pid=held.pid)
            return
        if held.killed:
            self._stopping.wait(DYING_S)  # the order is repeated at once for as long as the process dies
            return
        held.kill()
        log.info("task killed", task=held.spec.task_id, attempt=held.spec.attempt, pid=held.pid)

    def _start_task(self, spec: TaskSpec) -> None:
        directory = AttemptDirectory.of(self._root, spec)
        with self._lock:
            if spec.token in self._held or spec.token in self._ended or spec.token in self._unsettled:
                return
        if directory.path.exists():
            if not directory.is_marked("acknowledged"):
                self._settle(spec, directory)
            return
        try:
            directory.create(spec)
            self._database = self._database or spec.database
            held = hold_started(spec, directory, self._launcher.launch(directory))
        except (OSError, LaunchFailed) as error:
            self._settle_failed_start(spec, directory, str(error))
            return
        if held is None:
            self._settle(spec, directory)
            return
        with self._lock:
            self._held[spec.token] = held
        self._wake()
        log.info("task started", task=spec.task_id, attempt=spec.attempt, pid=held.pid, group=spec.group)

    def _settle_failed_start(self, spec: TaskSpec, directory: AttemptDirectory, error: str) -> None:
        log.error("task not started", task=spec.task_id, attempt=spec.attempt, error=error)
        try:
            self._settle(spec, directory)
        except OSError:  # not even the directory could be made: nothing runs, only the report is left
            ended = EndedTask(spec.task_id, spec.attempt, spec.token, False, error)
            with self._lock:
                self._ended[spec.token] = (ended, directory)
