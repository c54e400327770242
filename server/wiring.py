"""Turns settings into running services: the only module that names concrete classes of every layer."""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import structlog
from starlette.types import ASGIApp

import siltstone
from ingest.clock import Clock, SystemClock
from ingest.errors import StoreUnreachable
from ingest.metadata.marks import Marks
from ingest.metadata.records import NodeRecord
from ingest.metadata.schema import migrate
from ingest.metadata.sql import open_store
from ingest.metadata.store import MetadataStore
from ingest.overlord.expiry import QuarantineBounds
from ingest.overlord.leader import LeaderSettings
from ingest.overlord.overlord import Overlord
from ingest.overlord.term import OverlordPorts
from ingest.worker.middle_manager import MiddleManager, WorkerSettings
from ingest.worker.ports import OverlordWorkers, TaskLauncher
from ingest.worker.stopping import stop_tasks, tell_ended, tell_left
from query.engine import EngineSettings
from query.errors import QueryError
from query.node import NodeSettings, QueryNode
from query.task_calls import LiveSettings
from segments.cache import SegmentCache
from segments.civil import format_iso_ms
from segments.storage.base import DeepStorage
from server.announcement import Announcement
from server.app import build_app
from server.audit.table import audit_table
from server.avatica.connections import AvaticaLimits, Connections
from server.catalog import StoreCatalog
from server.clients import HttpLiveSource, HttpTaskChallenge, HttpTaskClient, HttpWorkers
from server.config import S3Storage, Settings, load
from server.config_secrets import masked
from server.data_dir import DataDir
from server.directory import Directory
from server.health import Health
from server.http_pool import HttpPool
from server.leader_view import LeaderView
from server.lookups import StoreLookups
from server.metrics import Metrics
from server.monitor import Monitor
from server.parts import Parts
from server.peer_view import PeerView
from server.service_metrics import add_service_metrics
from server.storage import build_deep_storage
from server.suppliers import kafka_observer
from server.system_tables import StoreSystemTables
from server.task_settings import TaskSettings, storage_section

log = structlog.get_logger()

RETRY_S = 1.0
TASKS_END_S = 20.0
PROBE_S = 10
TABLES_TOLD = 500


class Services:
    """Everything one process runs. ``start`` once, then ``stop`` once, from one thread."""

    def __init__(self, settings: Settings, data: DataDir, port: int, health: Health, launcher: TaskLauncher) -> None:
        self._settings = settings
        self._data = data
        self._health = health
        self._launcher = launcher
        self._clock = SystemClock()
        self._pool = HttpPool()
        self._stack = ExitStack()
        self._stopping = threading.Event()
        self._host = advertised_host(settings)
        self._address = f"{self._host}:{port}"
        self._urls = settings.overlord.urls or (f"http://{self._address}",)
        self._metrics = Metrics()
        self._marks = Marks(data.seen)
        self._queries: QueryNode | None = None
        self._connections: Connections | None = None
        self.stopping_now = ""
        self.is_stopped = False

    def start(self) -> ASGIApp | None:
        """Builds and starts every role, waiting for the metadata database; None when stopped meanwhile.

        Raises:
            ServiceError: it can never start so; the message says why.
        """
        settings, data, clock = self._settings, self._data, self._clock
        storage = build_deep_storage(settings.deep_storage, data.segments, clock)
        store = None
        if {"overlord", "query", "api"} & set(settings.roles):
            store = self._store()
            if store is None:
                return None
        monitor = Monitor(self._health, self._probe(storage), store, data.root, clock)
        monitor.keep(self._marks.save)
        self._at_stop("the note of the database", self._marks.save)
        self._at_stop("monitor", monitor.stop)
        overlord = self._overlord(store, storage) if store is not None and "overlord" in settings.roles else None
        detail = {"version": siltstone.__version__, "started": format_iso_ms(clock.now_ms())}
        catalog = None if store is None else StoreCatalog(store, clock, settings.roles, detail)
        directory = Directory(store, clock, settings.overlord.urls)
        queries = None
        if store is not None and catalog is not None and "query" in settings.roles:
            leader = LeaderView(directory, self._pool, self._address, store.database_id())
            shown = masked(settings.model_dump(mode="json"))
            peers = PeerView(directory, self._pool, self._address, shown, store.database_id())
            system = StoreSystemTables(store, overlord, directory, leader, peers)
            queries = self._query_node(catalog, storage, system, store, detail)
            peers.own_queries = queries.queries
            node = self._queries = queries
            self._health.add_probe(lambda: _concern("query", str(node.status()["trouble"])))
        if store is not None:
            own = NodeRecord(data.node, settings.roles, self._address, clock.now_ms(), {}, detail)
            monitor.announce(Announcement(store, overlord, clock, own))
        middle_manager = self._middle_manager(overlord) if "middle-manager" in settings.roles else None
        monitor.start()
        parts = Parts(
            settings=settings,
            node=data.node,
            address=self._address,
            clock=clock,
            secret=data.secret,
            health=self._health,
            metrics=self._metrics,
            storage=storage,
            scratch=data.scratch,
            directory=directory,
            store=store,
            catalog=catalog,
            overlord=overlord,
            middle_manager=middle_manager,
            queries=queries,
            jdbc=None if queries is None else self._jdbc(),
        )
        add_service_metrics(self._metrics, parts, queries)
        log.info("started", address=self._address, roles=",".join(settings.roles), node=data.node)
        return build_app(parts)

    @property
    def stop_s(self) -> float:
        """What requests have left once the process stops."""
        return self._settings.http.stop_s

    @property
    def tasks_end_s(self) -> float:
        """What ``stop`` takes in addition where it ends tasks."""
        return 0.0 if self._settings.worker.keep_tasks else TASKS_END_S

    def refuse_queries(self, why: str) -> None:
        """JDBC begins nothing new from now on; its drivers would repeat an HTTP 503 without a pause."""
        if self._connections is not None:
            self._connections.refusal = why

    def open_results(self) -> int:
        """JDBC results that are half read."""
        return 0 if self._connections is None else self._connections.open_results

    def end_queries(self, reason: QueryError) -> list[str]:
        """Ends every query; who waits for it is told the reason. Their ids."""
        if self._queries is None:
            return []
        ended = self._queries.end_queries(reason)
        if self._connections is not None:
            self._connections.end_results(str(reason))
        return ended

    def interrupt(self) -> None:
        """Ends a ``start`` that waits; safe from any thread and in a signal handler."""
        self._stopping.set()

    def stop(self) -> None:
        """Stops every role, the last started first. Tasks go on, unless ``worker.keep_tasks`` is false."""
        self._stopping.set()
        self._stack.close()
        self.stopping_now = "connections to other processes"
        self._pool.close()
        self.is_stopped = True

    def _at_stop(self, what: str, stop: Callable[[], object]) -> None:
        """What hangs in a stop is told by its name."""

        def named() -> None:
            self.stopping_now = what
            stop()

        self._stack.callback(named)

    def _probe(self, storage: DeepStorage) -> DeepStorage:
        """Deep storage for health checks: they must fail long before an upload would."""
        chosen = self._settings.deep_storage
        if not isinstance(chosen, S3Storage):
            return storage
        quick = chosen.model_copy(update={"upload_deadline_s": PROBE_S})
        return build_deep_storage(quick, self._data.segments, self._clock)

    def _store(self) -> MetadataStore | None:
        """Opens the metadata store, trying again while the database is away."""
        settings = self._settings
        told = ""
        while not self._stopping.is_set():
            try:
                if settings.auto_migrate:
                    migrate(settings.metadata_url)
                store = open_store(settings.metadata_url, lease_ms=settings.overlord.lease_ms, marks=self._marks)
            except StoreUnreachable as error:
                self._health.report("metadata", str(error))
                if str(error) != told:
                    log.warning("metadata store unreachable", error=(told := str(error)))
                self._stopping.wait(RETRY_S)
            else:
                self._health.report("metadata", None)
                self._at_stop("metadata store", store.close)
                return store
        return None

    def _overlord(self, store: MetadataStore, storage: DeepStorage) -> Overlord:
        ports = OverlordPorts(
            store,
            storage,
            HttpTaskClient(self._pool),
            kafka_observer,
            lambda: secrets.token_hex(24),
            self._clock,
            QuarantineBounds(self._settings.quarantine.max_bytes, self._settings.quarantine.max_age_days),
        )
        settings = LeaderSettings(self._data.node, self._address, self._settings.overlord.lease_ms)
        overlord = Overlord(ports, settings)
        overlord.start()
        self._at_stop("overlord", overlord.stop)
        return overlord

    def _query_node(
        self,
        catalog: StoreCatalog,
        storage: DeepStorage,
        system: StoreSystemTables,
        store: MetadataStore,
        detail: dict[str, Any],
    ) -> QueryNode:
        chosen = self._settings.query
        detail["cacheMaxBytes"] = chosen.cache_max_bytes
        engine = EngineSettings(
            workers=chosen.workers,
            threads=chosen.threads,
            memory_bytes=chosen.memory_limit_bytes,
            timeout_ms=chosen.timeout_ms,
            long_rows=chosen.long_rows,
            long_ms=chosen.long_ms,
            spare=chosen.spare_workers,
            nice=chosen.nice,
        )
        settings = NodeSettings(
            address=self._address,
            mirror_bytes=chosen.mirror_max_bytes,
            results_bytes=chosen.results_max_bytes,
            local_hosts=NodeSettings().local_hosts | {self._host, self._settings.worker.bind_host},
            engine=engine,
            live=LiveSettings(wait_ms=chosen.live_wait_ms, pace_ms=chosen.pace_ms),
            lookup_roots=chosen.lookup_roots,
        )
        cache = SegmentCache(self._data.cache, storage, chosen.cache_max_bytes)
        # Fronts send a query to a node that holds its table's segments, by preference.
        catalog.also_tell(lambda: {"cacheBytes": cache.used_bytes, "cached": cache.table_bytes(TABLES_TOLD)})
        live = HttpLiveSource(self._pool)
        lookups = StoreLookups(store, chosen.lookup_roots)
        node = QueryNode(
            self._data.node, catalog, live, cache, self._data.mirror, settings, self._clock, system, lookups=lookups
        )
        node.lookups.watch(lambda loaded, troubles: detail.update(lookups=loaded, lookupTroubles=troubles))
        node.start()
        self._at_stop("query node", node.stop)
        return node

    def _jdbc(self) -> Connections:
        chosen = self._settings.jdbc
        limits = AvaticaLimits(
            connections=chosen.connections_max,
            statements=chosen.statements_max,
            frame_rows=chosen.frame_rows,
            idle_ms=chosen.idle_s * 1_000,
            results_idle_ms=chosen.results_idle_s * 1_000,
        )
        connections = self._connections = Connections(limits, self._clock)
        self._at_stop("JDBC connections", connections.stop)
        return connections

    def _middle_manager(self, overlord: Overlord | None) -> MiddleManager:
        settings, data = self._settings, self._data
        TaskSettings(
            overlord_urls=self._urls,
            bind_host=settings.worker.bind_host,
            advertise_host=settings.worker.advertise_host or settings.worker.bind_host,
            deep_storage=storage_section(settings.deep_storage, data.segments),
            held_bytes_max=settings.worker.disk_max_bytes,
            uploads_max=settings.worker.uploads_max,
            log_level=settings.log.level,
            log_format=settings.log.format,
        ).write(data.tasks)
        workers: OverlordWorkers = HttpWorkers(self._urls, self._pool, data.secret)
        if overlord is not None and not settings.overlord.urls:
            workers = overlord
        challenge = HttpTaskChallenge(self._pool)
        middle_manager = MiddleManager(
            WorkerSettings(data.tasks, data.node, self._address, settings.worker.capacity),
            workers,
            self._launcher,
            challenge,
            self._clock,
        )
        middle_manager.start()
        self._health.add_probe(lambda: _concern("middle_manager", middle_manager.trouble))

        def stop() -> None:
            left = middle_manager.stop()
            if settings.worker.keep_tasks:
                tell_left(left, data.root)
            else:
                tell_ended(left, stop_tasks(data.tasks, challenge, TASKS_END_S, self._clock))

        self._at_stop("middle manager", stop)
        return middle_manager


def _concern(name: str, trouble: str) -> dict[str, str]:
    return {name: trouble} if trouble else {}


def advertised_host(settings: Settings) -> str:
    """The name under which other processes reach this one."""
    if settings.worker.advertise_host:
        return settings.worker.advertise_host
    host = settings.http.host
    return socket.gethostname() if host in ("0.0.0.0", "::", "") else host


def verify_offline(config: Path, table: str) -> dict[str, object]:
    """The audit of one table without a running service; reads, changes nothing.

    Raises:
        SettingsError, ServiceError: the settings, the database or deep storage cannot be used.
    """
    settings = load(config)
    clock: Clock = SystemClock()
    root = settings.data_dir.absolute()
    storage = build_deep_storage(settings.deep_storage, root / "segments", clock)
    store = open_store(settings.metadata_url, lease_ms=settings.overlord.lease_ms)
    try:
        return audit_table(store, storage, table, None).to_json()
    finally:
        store.close()
