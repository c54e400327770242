"""The query node: answers statements at one version per table, and follows the metadata in the background."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import structlog

from query.answer import Keep, NativeResult, QueryResult
from query.asked import Asked, Begun, ignored, of_native, of_sql
from query.binding import Relation, bind_rows
from query.bound import BoundQuery
from query.clock import Clock
from query.columns import table_def
from query.damage import damage_of, pin_each
from query.engine import Engine, EngineSettings
from query.errors import QueryError, QueryUnavailable
from query.live import BoundTable, LiveTables
from query.live_columns import LiveColumns
from query.lookups.cache import LookupCache
from query.lookups.source import LookupSource, NoLookups
from query.mirror import Mirror
from query.model import PlannedQuery, SqlRequest, TableUse
from query.native import planner as native
from query.native.plan import NativePlan
from query.partials import Partials
from query.plan_cache import NativePlanCache, PlanCache
from query.planning import HUGE_CHARS, HugePlanner
from query.read_ahead import AheadSettings
from query.relations import Relations, streamed
from query.result_cache import Kept, KeptRun, ResultCache
from query.running import Runner
from query.runs import Run
from query.session import Seen
from query.sharing import Sharing, Turn
from query.source import LiveSource, SegmentCatalog
from query.sql.catalogue import TableDef
from query.sql.metadata import NoSystemTables, SystemTables, inline_rows
from query.sql.planner import plan
from query.task_calls import LiveSettings
from query.timeline_cache import TimelineCache
from query.worker_wire import Job
from segments.cache import SegmentCache
from segments.data_segment import DataSegment
from segments.errors import ServiceError

_log = structlog.get_logger(__name__)
NOTHING: Mapping[str, Seen] = MappingProxyType({})
FOLLOWER_ENDS_S = 5.0


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """``address`` is told to others; ``local_hosts`` are names of this host in tasks' addresses, whose spills
    are linked instead of fetched. ``sync_ms`` bounds how late a publish is noticed and acknowledged;
    ``mirror_bytes`` what live rows may take on disk. ``results_bytes`` bound the small answers that are kept, half as
    much the groups of parts of tables (``query.partials``) that have ``groups_from_rows``. ``lookup_roots`` are the
    folders whose files lookups may read.
    """

    address: str = ""
    sync_ms: int = 200
    lease_ms: int = 1_000
    mirror_bytes: int = 4 << 30
    prefetches: int = 4
    results_bytes: int = 64 << 20
    groups_from_rows: int = 20_000
    local_hosts: frozenset[str] = frozenset({"127.0.0.1", "localhost", "[::1]"})
    engine: EngineSettings = field(default_factory=EngineSettings)
    live: LiveSettings = field(default_factory=LiveSettings)
    lookup_roots: tuple[Path, ...] = ()


class QueryNode:
    """One node; safe for many threads. Between ``start`` and ``stop`` it follows the metadata by itself."""

    def __init__(  # noqa: PLR0913 - the ports of one node, given once by the wiring
        self,
        node_id: str,
        catalog: SegmentCatalog,
        live: LiveSource,
        cache: SegmentCache,
        mirror_dir: Path,
        settings: NodeSettings,
        clock: Clock,
        system: SystemTables | None = None,
        engine: Engine | None = None,
        lookups: LookupSource | None = None,
    ) -> None:
        """``engine``: one that the caller starts and stops, over the cache's and the mirror's folders."""
        self._node_id = node_id
        self._catalog = catalog
        self._cache = cache
        self._settings = settings
        self._clock = clock
        self.system: SystemTables = system or NoSystemTables()
        self._mirror = Mirror(mirror_dir / "chunks", settings.mirror_bytes, settings.local_hosts)
        self.lookups = LookupCache(self._mirror.root, lookups or NoLookups(), settings.lookup_roots, clock)
        self._prefetcher = ThreadPoolExecutor(settings.prefetches, "query-prefetch")
        self._timeline = TimelineCache(catalog, cache, self._prefetcher, clock)
        self._live = LiveTables(self._timeline, live, self._mirror, settings.live, clock)
        self._plans, self._native_plans = PlanCache(plan), NativePlanCache(native.plan)
        self.relations = Relations()
        self._results = ResultCache(settings.results_bytes)
        self._partials = Partials(settings.results_bytes // 2, settings.groups_from_rows)
        self._sharing = Sharing(self._results, clock)
        self._waiting = AheadSettings(mirror_dir / "spill")
        self._columns = LiveColumns(self._live.bind, clock)
        roots = [cache.root, self._mirror.root]
        self._owns_engine = engine is None
        self._engine = engine or Engine(settings.engine, roots, mirror_dir / "spill", clock)
        self._runner = Runner(self._engine, self._partials, settings.engine.long_rows)
        self._lock = threading.Lock()
        self._queries: dict[str, list[BoundQuery]] = {}
        self._huge = HugePlanner(clock, settings.engine.nice)
        self._stopping = threading.Event()
        self._follower: threading.Thread | None = None
        self._trimmed = 0
        self._renewed_ms = 0
        self._told: dict[str, int] = {}
        self._trouble = ""

    def start(self) -> None:
        """Starts the workers and begins to follow the metadata."""
        if self._owns_engine:
            self._engine.start()
        self._follower = threading.Thread(target=self._follow, name="query-follow", daemon=True)
        self._follower.start()

    def stop(self) -> None:
        """Ends all queries, calls and workers."""
        self._stopping.set()
        if self._follower is not None:
            # It may be waiting for a database that is away; it is a daemon, and changes nothing any more.
            self._follower.join(FOLLOWER_ENDS_S)
        self._columns.stop()
        self._live.stop()
        self.lookups.close()
        self._huge.stop()
        self._prefetcher.shutdown(wait=False, cancel_futures=True)
        if self._owns_engine:
            self._engine.stop()

    def execute(
        self, request: SqlRequest, seen: Mapping[str, Seen] = NOTHING, begun: Begun = ignored, askers: int = 1
    ) -> QueryResult:
        """Plans and starts a statement; ``begun`` is called first, with what cancels it from any thread. ``seen``:
        what its reader saw of tables at other nodes; the answer shows no less. ``askers``: how many wait for it.

        Raises:
            QueryError: it has no answer: the statement is at fault, a segment or a task's rows cannot be read,
                or a limit is reached.
        """
        return self._started(
            of_sql(request, self._clock.now_ms(), askers), lambda query: self._plan(request, query), seen, begun
        )

    def _plan(self, request: SqlRequest, query: BoundQuery) -> PlannedQuery:
        if len(request.query) > HUGE_CHARS:
            return self._huge.plan(request, query, self._clock.now_ms(), query.check)
        return self._plans.plan(request, query, self._clock.now_ms())

    def prepare(self, request: SqlRequest) -> PlannedQuery:
        """Plans a statement without running it; raises QueryError as ``execute``."""
        query = BoundQuery(self, NOTHING)
        try:
            return self._plan(request, query)
        except QueryError:
            raise
        except ServiceError as error:
            raise QueryUnavailable(str(error)) from error
        finally:
            query.close()

    def execute_native(
        self,
        query_id: str,
        body: object,
        seen: Mapping[str, Seen] = NOTHING,
        begun: Begun = ignored,
        askers: int = 1,
    ) -> NativeResult:
        """Plans and starts a native query; ``body`` is its JSON, ``query_id`` what it can be cancelled by. The
        others are those of ``execute``.

        Raises:
            QueryError: as of ``execute``.
        """
        shapes: list[NativePlan] = []

        def planned(query: BoundQuery) -> PlannedQuery:
            shapes.append(self._native_plans.plan(body, query, self._clock.now_ms()))
            return shapes[0].planned

        asked = of_native(query_id, body, self._clock.now_ms(), askers)
        return NativeResult(self._started(asked, planned, seen, begun), shapes[0])

    def _started(
        self, asked: Asked, planner: Callable[[BoundQuery], PlannedQuery], seen: Mapping[str, Seen], begun: Begun
    ) -> QueryResult:
        query = BoundQuery(self, seen, asked)
        name = asked.id
        self._enlist(name, query)
        begun(query.cancel)
        turn: Turn | None = None
        try:
            planned = planner(query)
            relations = [query.relation(use) for use in planned.tables]
            query.check()
            functions = [query.function(use) for use in planned.functions]
            query.claims(planned, self._settings.engine.long_rows)
            key = self._results.key(planned.duckdb_sql, relations, functions) if planned.use_cache else None
            most_ms = self._settings.engine.timeout_ms
            deadline_ms = self._clock.monotonic_ms() + min(planned.timeout_ms or most_ms, most_ms)
            found = None if key is None else self._sharing.answer(key, query.claim, deadline_ms, query.check)
            run: Run | KeptRun
            if isinstance(found, Kept):
                run, key = KeptRun(found), None
            else:
                turn = found
                left_ms = max(deadline_ms - self._clock.monotonic_ms(), 1)
                job = Job(0, planned.duckdb_sql, tuple(relations), tuple(functions), planned.is_small)
                run = self._runner.begin(query, planned, job, left_ms)
                if turn is not None:
                    turn.made()
            run.on_close(query.close)
            run.on_close(lambda: self._delist(name, query))
        except BaseException as error:
            if turn is not None:
                turn.over()
            query.close()
            self._delist(name, query)
            if isinstance(error, QueryError):
                raise query.told(error) from error
            if isinstance(error, ServiceError):
                raise QueryUnavailable(str(error)) from error
            raise
        kept_as = key if planned.populate_cache else None
        return QueryResult(planned, run, query, self._waiting, Keep(self._results, kept_as, turn))

    def cancel(self, query_id: str) -> bool:
        """Cancels every query of that id, of SQL (the context's ``sqlQueryId``) or native; False when there is none."""
        with self._lock:
            queries = list(self._queries.get(query_id, ()))
        for query in queries:
            query.cancel()
        return bool(queries)

    def end_queries(self, reason: QueryError) -> list[str]:
        """Ends every query that runs or waits here; who waits for one gets ``reason``. The ids of those that were."""
        with self._lock:
            listed = {name: list(queries) for name, queries in self._queries.items()}
        for queries in listed.values():
            for query in queries:
                query.cancel(reason)
        return sorted(listed)

    def queries(self) -> list[dict[str, object]]:
        """What runs or waits here now, oldest first: id, text, state and start of each."""
        with self._lock:
            queries = [query for listed in self._queries.values() for query in listed]
        return [query.shown() for query in sorted(queries, key=lambda query: query.asked.came_ms)]

    def refresh(self) -> None:
        """Looks for news in the metadata now, and acknowledges what this node has caught up with.

        Raises:
            ServiceError: the database cannot be read.
        """
        try:
            self._timeline.sync(self._live.moved)
            self.lookups.sync()
        finally:
            self._acknowledge()
        removed = self._mirror.removed + self.lookups.removed
        if removed != self._trimmed:
            self._trimmed = removed
            self._engine.trim()

    def _acknowledge(self) -> None:
        versions = self._timeline.acknowledged()
        now_ms = self._clock.monotonic_ms()
        if versions != self._told or now_ms - self._renewed_ms >= self._settings.lease_ms:
            self._catalog.acknowledge(self._node_id, self._settings.address, versions)
            self._told, self._renewed_ms = versions, now_ms

    def status(self) -> dict[str, object]:
        """What health and metrics show; ``trouble`` is empty while the metadata can be followed."""
        return {
            "tables": self._timeline.acknowledged(),
            "queriesRunning": self._engine.running,
            "queriesWaiting": self._engine.waiting,
            "cacheBytes": self._cache.used_bytes,
            "mirrorBytes": self._mirror.used_bytes,
            "mirrorChunks": len(self._mirror),
            "resultsBytes": self._results.used_bytes,
            "resultsFromCache": self._results.hits,
            "plansFromCache": self._plans.hits + self._native_plans.hits,
            "groupsBytes": self._partials.used_bytes,
            "groupsUsed": self._partials.hits,
            "trouble": self._trouble,
        }

    def table_names(self) -> Sequence[str]:
        """Names of all tables."""
        return self._timeline.names()

    def table(self, name: str) -> TableDef | None:
        """A table's columns, with those of its live rows as they were last seen (no task is asked)."""
        at = self._timeline.current(name)
        return None if at is None else table_def(name, at.snapshot.schema, at.schemas, self._columns.of(name))

    def lookup_names(self) -> Sequence[str]:
        """Names of all lookups."""
        return self.lookups.names()

    def has_lookup(self, name: str) -> bool:
        """Whether a lookup of that name is posted."""
        return name in self.lookups.names()

    def bind(self, name: str, seen: Seen | None, askers: int = 1) -> BoundTable | None:
        """A table at one version for one query of so many, which shows no less than was ``seen`` elsewhere."""
        return self._live.bind(name, seen, askers)

    def rows_at_hand(self, use: TableUse) -> Relation:
        """A relation over a table of INFORMATION_SCHEMA or sys."""
        if use.datasource == "COLUMNS":
            self._columns.look(self._live_names())
        return bind_rows(use, streamed(inline_rows(use, self, self.system)))

    def _live_names(self) -> list[str]:
        """Tables that may have rows which are not published."""
        found = ((name, self._timeline.current(name)) for name in self._timeline.names())
        return [name for name, at in found if at is not None and at.snapshot.required]

    def pin(self, segments: Sequence[DataSegment], pinned: list[DataSegment], check: Callable[[], None]) -> None:
        """Brings segments' local files and keeps them until ``unpin``, as ``pin_each``."""
        pin_each(self._cache, self._timeline.unreadable, segments, pinned, check)

    def unreadable(self, segments: Sequence[DataSegment]) -> list[DataSegment]:
        """Those of some segments that could not be brought when they were last asked for."""
        return self._timeline.unreadable.among(segments)

    def damaged(self, segments: Sequence[DataSegment]) -> dict[DataSegment, str]:
        """Which of these lie damaged on this node's disk, and how. Where no other query reads such a file, it is given
        up and comes anew from deep storage, proved, for the next."""
        found = {}
        for segment in segments:
            path = self._cache.held(segment)
            if path is not None and (damage := damage_of(path, segment)):
                found[segment] = damage
                self._cache.drop(segment)
        if found:
            self.distrust()
        return found

    def distrust(self) -> None:
        """Forgets what was made of files, for one of them was damaged: who read it before may have read other values,
        and workers remember its columns."""
        self._partials.forget()
        self._results.forget()
        self._engine.renew()

    def unpin(self, segments: Sequence[DataSegment]) -> None:
        """Gives up the pins of a query."""
        self._cache.unpin_each(segments)

    def _enlist(self, name: str, query: BoundQuery) -> None:
        with self._lock:
            self._queries.setdefault(name, []).append(query)

    def _delist(self, name: str, query: BoundQuery) -> None:
        with self._lock:
            listed = self._queries.get(name, [])
            if query in listed:
                listed.remove(query)
            if not listed:
                self._queries.pop(name, None)

    def _follow(self) -> None:
        while not self._stopping.is_set():
            try:
                self.refresh()
                self._trouble = ""
            except ServiceError as error:
                if not self._trouble:
                    _log.warning("metadata_not_followed", error=str(error))
                self._trouble = str(error)
            except Exception as error:
                # Whatever it was, a node that stopped following would hold up every hand-off.
                _log.exception("metadata_not_followed")
                self._trouble = f"{type(error).__name__}: {error}"
            self._stopping.wait(self._settings.sync_ms / 1000)
