"""The task queue and the middle managers: which attempt runs where, what each worker is told.

Attempts wait here until a worker has room; an assignment is stored before its start order is sent,
and orders are repeated until the worker reports the attempt, so a lost beat loses nothing. A worker
that falls silent loses nothing but new assignments: its tasks speak for themselves (PR-26).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from ingest.clock import Clock
from ingest.errors import AttemptRefused, LeadershipLost, StoreUnreachable
from ingest.metadata.records import GroupState
from ingest.metadata.store import AttemptStore, StoreConflict
from ingest.overlord.leftovers import unneeded
from ingest.protocol import EndedTask, TaskSpec, WorkerHeartbeat, WorkerOrders
from ingest.supervisor.messages import AttemptAssigned, Event, ReplicaLeaving, TaskEnded

log = structlog.get_logger()

FRESH_MS = 4_000
"""A worker that has not beaten for this long gets no new attempts."""
WAIT_MAX_MS = 30_000
TIDY_MS = 60_000
WORKER_KEPT_MS = 3_600_000
"""A worker that has been silent for so long is not shown any more."""
TIDIED_AT_ONCE = 200
SLOTS_BEYOND = 1
"""Each worker keeps so many slots beyond its capacity for attempts that others wait for (PR-12)."""


@dataclass(slots=True)
class Worker:
    """A middle manager as its last beat showed it. ``assigned`` are start orders it has not confirmed,
    ``reserved`` attempts whose assignment is being stored."""

    beat: WorkerHeartbeat
    seen_ms: int
    assigned: dict[str, TaskSpec] = field(default_factory=dict)
    reserved: set[str] = field(default_factory=set)

    def taken_by(self) -> set[str]:
        """Attempts that run here, or are about to."""
        return {task.token for task in self.beat.running} | set(self.assigned) | self.reserved


@dataclass(slots=True)
class Waiting:
    """An attempt that no worker was found for yet. ``placing``: its assignment is on its way into the store;
    ``stored``: it is there, to ``prefer``, which has not beaten in this generation yet."""

    spec: TaskSpec
    prefer: str | None
    avoid: tuple[str, ...]
    placing: bool = False
    stored: bool = False
    claimed: bool = False


class RosterStore(AttemptStore, Protocol):
    """What the roster reads and writes."""

    def groups(self, supervisor: str) -> list[GroupState]:
        """Groups with unpublished sequences or live attempts."""
        ...


class WorkerRoster:
    """In memory for one leader generation; safe from any thread. ``post`` reaches a supervisor's mailbox."""

    def __init__(self, store: RosterStore, generation: int, clock: Clock, post: Callable[[str, Event], None]) -> None:
        self._store = store
        self._generation = generation
        self._clock = clock
        self._post = post
        self._changed = threading.Condition()
        self._workers: dict[str, Worker] = {}
        self._waiting: dict[str, Waiting] = {}
        self._placed: dict[str, str] = {}
        self._claimed: set[str] = set()
        self._freed: set[str] = set()
        self._kill: set[str] = set()
        self._known_live: set[str] = set()
        self._closed = False
        self._tidied_ms = clock.monotonic_ms()

    # ---------------------------------------------------------------- the task queue

    def enqueue(self, spec: TaskSpec, prefer_worker: str | None, avoid_workers: tuple[str, ...]) -> None:
        with self._changed:
            if spec.token in self._placed or spec.token in self._waiting:
                return
            self._known_live.add(spec.token)
            self._waiting[spec.token] = Waiting(spec, prefer_worker, avoid_workers)
        self.place()

    def reassign(self, spec: TaskSpec, worker: str) -> None:
        with self._changed:
            if spec.token in self._placed:
                return
            self._known_live.add(spec.token)
            self._give(spec, worker)

    def _give(self, spec: TaskSpec, worker: str) -> None:
        """What the store has given to a worker, for its next beat; with the lock held."""
        self._placed[spec.token] = worker
        if worker in self._workers:
            self._workers[worker].assigned[spec.token] = spec
        else:
            self._waiting[spec.token] = Waiting(spec, worker, (), stored=True)
        self._changed.notify_all()

    def claim(self, token: str) -> None:
        with self._changed:
            entry = self._waiting.get(token)
            if entry is None or entry.claimed:
                return
            entry.claimed = True
            self._claimed.add(token)
        self.place()

    def free(self, token: str) -> None:
        with self._changed:
            self._freed.add(token)
            self._changed.notify_all()
        self.place()

    def kill(self, token: str) -> None:
        with self._changed:
            self._kill.add(token)
            self._waiting.pop(token, None)
            for worker in self._workers.values():
                worker.assigned.pop(token, None)
            self._changed.notify_all()

    def settled(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def workers(self) -> list[tuple[WorkerHeartbeat, int]]:
        """Last beat and its monotonic time, by name."""
        with self._changed:
            return [(worker.beat, worker.seen_ms) for _, worker in sorted(self._workers.items())]

    def waiting(self) -> list[TaskSpec]:
        """Attempts that no worker has room for."""
        with self._changed:
            return [entry.spec for entry in self._waiting.values()]

    def close(self) -> None:
        """Lets every waiting beat go; this generation is over."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    # ---------------------------------------------------------------- beats

    def beat(self, beat: WorkerHeartbeat) -> WorkerOrders:
        """Takes a worker's report and answers with its orders, waiting for some up to ``beat.wait_ms``."""
        with self._changed:
            self._take_beat(beat)
        if not beat.enabled:
            self._drain(beat)
        self._tidy()
        leftovers = self._unneeded(beat)
        reported: set[str] = set()
        deadline_ms = self._clock.monotonic_ms() + min(beat.wait_ms, WAIT_MAX_MS)
        while True:
            acknowledged = self._settle_ended(beat.ended, reported)
            zombies = self._zombies(beat)
            self.place()
            with self._changed:
                orders = self._orders(beat, acknowledged, zombies, leftovers)
                left_ms = deadline_ms - self._clock.monotonic_ms()
                told = orders.start or orders.kill or orders.acknowledged or orders.unneeded
                if told or left_ms <= 0 or self._closed:
                    return orders
                self._changed.wait(left_ms / 1_000)

    def _take_beat(self, beat: WorkerHeartbeat) -> None:
        known = self._workers.get(beat.worker)
        worker = known or Worker(beat, 0)
        worker.beat, worker.seen_ms = beat, self._clock.monotonic_ms()
        self._workers[beat.worker] = worker
        if known is None:
            log.info("worker joined", worker=beat.worker, capacity=beat.capacity, running=len(beat.running))
        for token, entry in list(self._waiting.items()):
            if entry.stored and entry.prefer == beat.worker:
                del self._waiting[token]
                worker.assigned[token] = entry.spec
        for token in [task.token for task in beat.running] + [ended.token for ended in beat.ended]:
            worker.assigned.pop(token, None)

    def _drain(self, beat: WorkerHeartbeat) -> None:
        """A disabled worker's attempts shall hand off early and end. Said with every beat: a supervisor
        that read its state anew has forgotten it."""
        for task in beat.running:
            try:
                attempt = self._store.attempt(task.token)
            except StoreUnreachable:
                return
            if attempt is not None and attempt.state.is_live:
                reason = f"worker {beat.worker} is drained"
                self._post(attempt.supervisor, ReplicaLeaving(self._clock.monotonic_ms(), task.token, reason))

    def _settle_ended(self, ended: tuple[EndedTask, ...], reported: set[str]) -> tuple[str, ...]:
        """Tells supervisors of ends; acknowledged is only what the store holds as ended."""
        acknowledged: list[str] = []
        for end in ended:
            try:
                attempt = self._store.attempt(end.token)
            except StoreUnreachable:
                continue
            if attempt is None or not attempt.state.is_live:
                acknowledged.append(end.token)
                with self._changed:
                    self._forget(end.token)
            elif end.token not in reported:
                reported.add(end.token)
                event = TaskEnded(self._clock.monotonic_ms(), end.token, end.succeeded, end.error)
                self._post(attempt.supervisor, event)
        return tuple(acknowledged)

    def __len__(self) -> int:
        """Of how many attempts something is remembered."""
        with self._changed:
            return len(self._remembered() | self._waiting.keys())

    def _remembered(self) -> set[str]:
        return self._placed.keys() | self._kill | self._freed | self._claimed | self._known_live

    def _forget(self, token: str) -> None:
        """It has ended in the store: a process that still runs is found out by asking the store."""
        for tokens in (self._kill, self._freed, self._claimed, self._known_live):
            tokens.discard(token)
        self._placed.pop(token, None)

    def _tidy(self) -> None:
        """Once a minute. Ends that nobody reports (the host is lost, the process was never started) leave nothing
        behind, and neither do workers that never come back."""
        now_ms = self._clock.monotonic_ms()
        with self._changed:
            if now_ms - self._tidied_ms < TIDY_MS:
                return
            self._tidied_ms = now_ms
            for name, worker in list(self._workers.items()):
                if now_ms - worker.seen_ms >= WORKER_KEPT_MS and not worker.assigned and not worker.reserved:
                    log.info("worker forgotten", worker=name)
                    del self._workers[name]
            here = {token for worker in self._workers.values() for token in worker.taken_by()}
            left = sorted(self._remembered() - self._waiting.keys() - here)[:TIDIED_AT_ONCE]
        for token in left:
            try:
                attempt = self._store.attempt(token)
            except StoreUnreachable:
                return
            if attempt is None or not attempt.state.is_live:
                with self._changed:
                    self._forget(token)

    def _zombies(self, beat: WorkerHeartbeat) -> set[str]:
        """Running attempts that the store holds as ended: nobody may have told their process."""
        zombies: set[str] = set()
        for task in beat.running:
            if task.token in self._known_live:
                continue
            try:
                attempt = self._store.attempt(task.token)
            except StoreUnreachable:
                continue
            if attempt is not None and attempt.state.is_live:
                self._known_live.add(task.token)
            elif attempt is not None:
                zombies.add(task.token)
        return zombies

    def _unneeded(self, beat: WorkerHeartbeat) -> tuple[str, ...]:
        try:
            return unneeded(beat.kept, self._store.groups)
        except StoreUnreachable:
            return ()  # it asks again

    def _orders(
        self, beat: WorkerHeartbeat, acknowledged: tuple[str, ...], zombies: set[str], leftovers: tuple[str, ...]
    ) -> WorkerOrders:
        running = {task.token for task in beat.running}
        gone = {ended.token for ended in beat.ended}
        assigned = self._workers[beat.worker].assigned
        start = tuple(spec for token, spec in assigned.items() if token not in running | gone)
        kill = tuple(sorted((self._kill | zombies) & running))
        return WorkerOrders(self._generation, start, kill, acknowledged, leftovers)

    # ---------------------------------------------------------------- placement

    def place(self) -> None:
        """Gives waiting attempts to workers with room, claims first, then oldest first; what fits nowhere
        waits on."""
        with self._changed:
            order = sorted(self._waiting, key=lambda token: not self._waiting[token].claimed)
        for token in order:
            with self._changed:
                entry = self._waiting.get(token)
                if entry is None or entry.placing or entry.stored:
                    continue
                worker = self._choose(entry)
                if worker is None:
                    continue
                entry.placing = True
                self._workers[worker].reserved.add(token)
            try:
                self._store_placement(token, entry, worker)
            finally:
                with self._changed:
                    self._workers[worker].reserved.discard(token)

    def _choose(self, entry: Waiting) -> str | None:
        now_ms = self._clock.monotonic_ms()
        usable = {
            name: worker
            for name, worker in self._workers.items()
            if worker.beat.enabled and now_ms - worker.seen_ms <= FRESH_MS
        }
        # Replicas share a worker only when there is no other at all; a full one is waited for.
        apart = {name: worker for name, worker in usable.items() if name not in entry.avoid} or usable
        left = {name: self._slots_left(worker) for name, worker in apart.items()}
        free = {name: slots for name, slots in left.items() if slots > 0 or self._has_beyond(entry, apart[name])}
        if entry.prefer in free:
            return entry.prefer
        return min(free, key=lambda name: (-free[name], name), default=None)

    def _slots_left(self, worker: Worker) -> int:
        """Of its capacity; below zero where that was lowered, or the slot beyond it is taken."""
        return worker.beat.capacity - len(worker.taken_by() - self._freed)

    def _has_beyond(self, entry: Waiting, worker: Worker) -> bool:
        """Whether a claim finds the slot beyond its capacity; only other claims take that (PR-12)."""
        return entry.claimed and len((worker.taken_by() & self._claimed) - self._freed) < SLOTS_BEYOND

    def _store_placement(self, token: str, entry: Waiting, worker: str) -> None:
        """Stored before told."""
        try:
            given = self._assigned(token, worker)
        except StoreUnreachable:
            entry.placing = False
            return
        except (AttemptRefused, StoreConflict, LeadershipLost) as error:
            log.warning("attempt not assigned", task=entry.spec.task_id, error=str(error))
            with self._changed:
                self._waiting.pop(token, None)
            return
        with self._changed:
            if self._waiting.pop(token, None) is not None:
                self._give(entry.spec, given)
        self._post(entry.spec.supervisor, AttemptAssigned(self._clock.monotonic_ms(), token, given))
        log.info("attempt assigned", task=entry.spec.task_id, attempt=entry.spec.attempt, worker=given)

    def _assigned(self, token: str, worker: str) -> str:
        """Who has it now: another worker, where the answer to an earlier choice was lost."""
        try:
            self._store.assign_attempt(self._generation, token, worker)
        except StoreConflict:
            known = self._store.attempt(token)
            if known is None or known.worker is None:
                raise
            return known.worker
        return worker
