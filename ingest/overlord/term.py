"""Everything one leadership generation runs: supervisors, task queue, task actions and duties.

A term is built from the store when the lease is taken and thrown away when it is lost; nothing of it
survives into another generation.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from ingest.clock import Clock
from ingest.errors import SpecError, StoreUnreachable
from ingest.metadata.records import DesiredState, SupervisorRecord
from ingest.metadata.store import MetadataStore
from ingest.overlord.actions import LeaderActions
from ingest.overlord.duties import Duties, Sweeper
from ingest.overlord.expiry import QuarantineBounds, QuarantineExpiry
from ingest.overlord.reports import facts_of
from ingest.overlord.roster import WorkerRoster
from ingest.overlord.sealings import Sealings
from ingest.overlord.served import ServedVersions
from ingest.overlord.tally import Tally
from ingest.spec import SupervisorSpec, parse_supervisor_spec
from ingest.supervisor.deliveries import Deliveries
from ingest.supervisor.messages import Event, StoreRefused
from ingest.supervisor.ports import RunnerPorts, SupplierFactory, TaskClient, TokenSource
from ingest.supervisor.report import lag, named
from ingest.supervisor.runner import SupervisorRunner
from ingest.supervisor.scaling import ScalingView
from segments.storage.base import DeepStorage

log = structlog.get_logger()

LOOK_AGAIN_S = 0.3


@dataclass(frozen=True, slots=True)
class OverlordPorts:
    """What an overlord is built on; wiring fills it."""

    store: MetadataStore
    storage: DeepStorage
    tasks: TaskClient
    suppliers: SupplierFactory
    tokens: TokenSource
    clock: Clock
    quarantine: QuarantineBounds = QuarantineBounds()
    tally: Tally = field(default_factory=Tally)


class Term:
    """One generation. ``on_lost`` is told from any thread when the store refuses it."""

    def __init__(self, generation: int, ports: OverlordPorts, on_lost: Callable[[], None]) -> None:
        self.generation = generation
        self._ports = ports
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._runners: dict[str, SupervisorRunner] = {}
        self._deliveries = Deliveries(ports.tasks, ports.clock)
        self.served = ServedVersions(ports.store, ports.clock)
        self.roster = WorkerRoster(ports.store, generation, ports.clock, self.post)
        sealings = Sealings()
        self.actions = LeaderActions(ports.store, generation, ports.clock, self.served, sealings, self.post)
        self.actions.published = ports.tally.published
        self._runner_ports = RunnerPorts(
            ports.store,
            self._deliveries,
            self.roster,
            ports.suppliers,
            ports.tokens,
            ports.clock,
            on_lost,
            self._on_terminated,
            sealings.tell,
            ports.tally.scaled,
            self._supervise_new,
        )
        sweeper = Sweeper(ports.store, ports.storage, generation, ports.clock)
        expiry = QuarantineExpiry(ports.store, generation, ports.clock, ports.quarantine)
        others = {
            # What an earlier leader was replaying when it died.
            "replay clean-up": lambda: ports.store.end_replays(generation, None),
            "quarantine expiry": expiry.expire,
        }
        self._duties = Duties(ports.store, self.served, sweeper, self.lags, ports.clock, others)
        self._duties.on_skipped = ports.tally.skipped

    def start(self) -> None:
        """Starts one runner per supervisor, also for terminated ones with rows still to publish."""
        for record in self._records():
            self._supervise_stored(record)
        self._duties.start()

    def stop(self) -> None:
        """Stops duties, supervisors and waiting beats, in this order. Tasks run on."""
        self._duties.stop()
        with self._lock:
            self._over.set()
            runners = list(self._runners.values())
        for runner in runners:
            runner.stop()
        self.roster.close()
        self._deliveries.close()

    def _records(self) -> list[SupervisorRecord]:
        store = self._ports.store
        records = {record.supervisor: record for record in store.supervisors()}
        wishing = {wish.supervisor for wish in store.reset_wishes(None)}
        for name in (wishing | set(store.unfinished_supervisors())) - set(records):
            record = store.supervisor(name)
            if record is not None:
                records[name] = record
        return list(records.values())

    def supervise(self, record: SupervisorRecord, spec: SupervisorSpec, *, only_new: bool = False) -> None:
        """Starts the supervisor's runner, or tells the running one of the change. Nothing once the term is
        over: the next one reads the store."""
        with self._lock:
            if self._over.is_set():
                return
            runner = self._runners.get(record.supervisor)
            if runner is None:
                runner = SupervisorRunner(record, spec, self.generation, self._runner_ports)
                self._runners[record.supervisor] = runner
                runner.start()
                return
        if not only_new:
            runner.change(record, spec)

    def _supervise_new(self) -> None:
        """Starts runners of supervisors that a transaction has made; whoever has one already keeps it as it is."""
        while not self._over.is_set():
            try:
                records = self._ports.store.supervisors()
            except StoreUnreachable:
                self._over.wait(LOOK_AGAIN_S)
                continue
            for record in records:
                if self.runner(record.supervisor) is None:
                    self._supervise_stored(record, only_new=True)
            return

    def _supervise_stored(self, record: SupervisorRecord, *, only_new: bool = False) -> None:
        """``supervise``; a spec that an earlier version took and this one does not is passed over."""
        try:
            spec, _ = parse_supervisor_spec(record.spec)
        except SpecError as error:
            log.error("stored spec not understood", supervisor=record.supervisor, error=str(error))
            return
        self.supervise(record, spec, only_new=only_new)

    def catch_up(self, supervisor: str, wishing: threading.Lock) -> None:
        """Soon tells the supervisor what is stored of it: a wish may be, whose answer was lost. ``wishing`` is held
        then, so that no later wish is told before an earlier one."""
        args = (supervisor, wishing)
        threading.Thread(target=self._catch_up, args=args, name=f"catch-up-{supervisor}", daemon=True).start()

    def _catch_up(self, supervisor: str, wishing: threading.Lock) -> None:
        while not self._over.is_set():
            try:
                with wishing:
                    record = self._ports.store.supervisor(supervisor)
                    gone = record is None or record.desired is DesiredState.TERMINATED
                    if record is not None and not (gone and self.runner(supervisor) is None):
                        self._supervise_stored(record)
                        why = "the answer to a wish was lost"  # it may have been a reset: all is read again
                        self.post(supervisor, StoreRefused(self._ports.clock.monotonic_ms(), why))
            except StoreUnreachable:
                self._over.wait(LOOK_AGAIN_S)
            else:
                return

    def runner(self, supervisor: str) -> SupervisorRunner | None:
        with self._lock:
            return self._runners.get(supervisor)

    def post(self, supervisor: str, event: Event) -> None:
        """Into the supervisor's mailbox; an event for nobody is dropped: the store holds the truth."""
        runner = self.runner(supervisor)
        if runner is not None:
            runner.post(event)

    def lags(self) -> dict[str, int]:
        """Records not yet read, per supervisor whose stream was seen."""
        with self._lock:
            runners = dict(self._runners)
        store = self._ports.store
        return {name: sum(lag(facts_of(store, runner)).values()) for name, runner in runners.items()}

    def time_lags(self) -> dict[str, dict[str, int]]:
        """Milliseconds by partition, per supervisor whose spec asks for them."""
        with self._lock:
            views = {name: runner.view().stream for name, runner in self._runners.items()}
        return {name: named(view.time_lags, view.places) for name, view in views.items() if view.time_lags is not None}

    def standstills(self) -> dict[str, int]:
        """For how many milliseconds a task of each supervisor has not read that should; 0 while all do."""
        with self._lock:
            return {name: runner.view().standing_ms for name, runner in self._runners.items()}

    def scalings(self) -> dict[str, ScalingView]:
        """How many task groups each auto scaler wants, and what holds it back."""
        with self._lock:
            views = {name: runner.view().scaling for name, runner in self._runners.items()}
        return {name: view for name, view in views.items() if view is not None}

    def counters(self) -> dict[str, dict[str, int]]:
        """What each live task has counted since it began, by token, as last heard."""
        with self._lock:
            runners = list(self._runners.values())
        return {token: beat.counters for runner in runners for token, beat in runner.view().beats.items()}

    def _on_terminated(self, supervisor: str) -> None:
        with self._lock:
            runner = self._runners.pop(supervisor, None)
        if runner is not None:
            runner.stop()
            self._supervise_again(supervisor)

    def _supervise_again(self, supervisor: str) -> None:
        """A spec may have been posted to the runner that has just ended: what is stored counts."""
        while not self._over.is_set():
            try:
                record = self._ports.store.supervisor(supervisor)
            except StoreUnreachable:
                self._over.wait(LOOK_AGAIN_S)
                continue
            if record is not None and record.desired is not DesiredState.TERMINATED:
                self._supervise_stored(record)
            return
