"""Keeps every table at one version of its metadata, and says which version the node may move on to.

A version becomes current when the segments it adds have been brought into the local cache, or could not be
after all tries. Until then queries stay at the older one, whose rows the tasks still serve, because this
node has not acknowledged the newer one (PR-6).
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace

import structlog

from query.clock import Clock
from query.damage import Unreadable
from query.errors import QueryUnavailable
from query.source import SegmentCatalog, TableSnapshot
from segments.cache import SegmentCache
from segments.data_segment import DataSegment
from segments.errors import CacheError, ServiceError
from segments.schema import SegmentSchema

_log = structlog.get_logger(__name__)

ASKED_MS = 10_000  # so long after its last query a table is read at every look
IDLE_READ_MS = 2_000


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A table at one version: ``snapshot.segments`` are all visible ones; ``schemas`` each of theirs once.

    ``loaded`` counts the loads of this node, so that a later one can be told from an earlier one.
    """

    snapshot: TableSnapshot
    schemas: tuple[SegmentSchema, ...]
    loaded: int

    @property
    def version(self) -> int:
        """The version of the metadata."""
        return self.snapshot.version


class TimelineCache:
    """All tables; safe for many threads. Prefetching runs on ``executor``.

    What a version does not count (new sequences, reported positions) is read again at every ``sync`` for a
    table that is being asked, and every ``IDLE_READ_MS`` for one that is not: hundreds of idle tables cost
    next to nothing. The first query after a pause reads its table afresh.
    """

    def __init__(self, catalog: SegmentCatalog, cache: SegmentCache, executor: Executor, clock: Clock) -> None:
        self._catalog = catalog
        self._cache = cache
        self._executor = executor
        self._clock = clock
        self.unreadable = Unreadable()
        self._lock = threading.Lock()
        self._read_ms: dict[str, int] = {}
        self._asked_ms: dict[str, int] = {}
        self._tables: dict[str, TableVersion] = {}
        self._loading: set[str] = set()
        self._loads = 0
        # How often each version is in use by somebody who may still ask a task for it.
        self._holds: dict[str, Counter[int]] = {}
        # Tables whose database was older than what had been read from it: they may be at any version again.
        self._went_back: dict[str, str] = {}

    def names(self) -> list[str]:
        """Every table that is known now."""
        with self._lock:
            return sorted(self._tables)

    def current(self, datasource: str) -> TableVersion | None:
        """The version that queries start from; loaded now if the table was not asked for a while.

        Without the database a table that is known stays at what was last read of it (PR-6).

        Raises:
            ServiceError: the database cannot be read, or became older than what was read from it.
        """
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            self._check_went_back(datasource)
            found = self._tables.get(datasource)
            rested = not self._is_asked(datasource, now_ms) and datasource not in self._loading
            if found is not None:
                self._asked_ms[datasource] = now_ms
        if found is None:
            return self.refresh(datasource)
        if not rested:
            return found
        try:
            return self.refresh(datasource)
        except ServiceError:
            with self._lock:
                self._check_went_back(datasource)
            return found

    def _is_asked(self, datasource: str, now_ms: int) -> bool:
        """Whether queries came lately; with the lock held."""
        asked_ms = self._asked_ms.get(datasource)
        return asked_ms is not None and now_ms - asked_ms < ASKED_MS

    def _is_due(self, datasource: str, version: int, now_ms: int) -> bool:
        """Whether the table must be read now; with the lock held."""
        known = self._tables.get(datasource)
        if known is None or known.version != version or datasource in self._went_back:
            return True
        return self._is_asked(datasource, now_ms) or now_ms - self._read_ms.get(datasource, 0) >= IDLE_READ_MS

    def refresh(self, datasource: str) -> TableVersion | None:
        """Loads the newest version and makes it current at once; None when there is no such table.

        Raises:
            ServiceError: the database cannot be read.
        """
        loaded = self._load(datasource)
        if loaded is None:
            with self._lock:
                self._tables.pop(datasource, None)
            return None
        return self._make_current(loaded)

    def sync(self, on_moved: Callable[[TableVersion], None]) -> None:
        """Looks for newer versions of all tables; calls back for each that became current.

        Tables whose new segments are still being brought are left alone until those are there.

        Raises:
            ServiceError: the database cannot be read.
        """
        versions, now_ms = self._catalog.versions(), self._clock.monotonic_ms()
        with self._lock:
            for gone in set(self._tables) - set(versions):
                del self._tables[gone]
                self._asked_ms.pop(gone, None)
            free = [name for name in versions if name not in self._loading]
            due = [name for name in free if self._is_due(name, versions[name], now_ms)]
        trouble: ServiceError | None = None
        for name in due:
            try:
                self._sync_one(name, on_moved)
            except ServiceError as error:
                # One table that cannot be followed must not hold up the others.
                trouble = trouble or error
        if trouble is not None:
            raise trouble

    def _sync_one(self, name: str, on_moved: Callable[[TableVersion], None]) -> None:
        with self._lock:
            before = self._tables.get(name)
        loaded = self._load(name)
        if loaded is None:
            return
        # At the first load nothing has been promised to a task: queries bring what they read.
        added = self._added(before, loaded) if before is not None else ()
        if added:
            with self._lock:
                self._loading.add(name)
            self._executor.submit(self._prefetch, name, loaded, added, on_moved)
        else:
            moved = self._make_current(loaded)
            if before is None or moved.version != before.version:
                on_moved(moved)

    def acknowledged(self) -> dict[str, int]:
        """Per table the lowest version for which this node may still ask a task."""
        with self._lock:
            return {
                name: min([table.version, *(version for version, count in self._holds.get(name, {}).items() if count)])
                for name, table in self._tables.items()
            }

    @contextlib.contextmanager
    def held(self, datasource: str, version: int) -> Iterator[None]:
        """Keeps a version unacknowledged inside the block."""
        with self._lock:
            self._holds.setdefault(datasource, Counter())[version] += 1
        try:
            yield
        finally:
            with self._lock:
                holds = self._holds[datasource]
                holds[version] -= 1
                if not holds[version]:
                    del holds[version]

    def _load(self, datasource: str) -> TableVersion | None:
        with self._lock:
            before = self._tables.get(datasource)
            self._loads += 1
            number = self._loads
            self._read_ms[datasource] = self._clock.monotonic_ms()
            self._check_went_back(datasource)
        since = None if before is None else before.version
        snapshot = self._catalog.snapshot(datasource, since)
        if snapshot is None:
            return None
        if before is None:
            self._cache.recognise(snapshot.segments)
            return TableVersion(snapshot, _schemas(snapshot.segments), number)
        if snapshot.version < before.version:
            # Never in one database. What is called by a known version may be something else from now on.
            with self._lock:
                self._went_back[datasource] = (
                    f"the metadata of table {datasource} is at version {snapshot.version}, but this node has read "
                    f"version {before.version} of it: the database was replaced by an older copy; see "
                    "docs/operations.md, then restart this node"
                )
                _log.error("metadata_went_back", table=datasource, found=snapshot.version, known=before.version)
                self._check_went_back(datasource)
        if snapshot.version == before.version:
            same = replace(snapshot, segments=before.snapshot.segments, added=(), removed=())
            return TableVersion(same, before.schemas, number)
        segments = {str(segment.id): segment for segment in before.snapshot.segments}
        for name in snapshot.removed:
            segments.pop(name, None)
        segments |= {str(segment.id): segment for segment in snapshot.added}
        merged = tuple(segments.values())
        return TableVersion(replace(snapshot, segments=merged, added=(), removed=()), _schemas(merged), number)

    def _make_current(self, loaded: TableVersion) -> TableVersion:
        with self._lock:
            name = loaded.snapshot.datasource
            now = self._tables.get(name)
            # Of two loads that overlap the later one wins; a version never falls.
            if now is None or (loaded.version, loaded.loaded) > (now.version, now.loaded):
                self._tables[name] = now = loaded
            return now

    def _check_went_back(self, datasource: str) -> None:
        """With the lock held."""
        if datasource in self._went_back:
            raise QueryUnavailable(self._went_back[datasource])

    @staticmethod
    def _added(before: TableVersion, loaded: TableVersion) -> tuple[DataSegment, ...]:
        if loaded.version == before.version:
            return ()
        known = {segment.id for segment in before.snapshot.segments}
        return tuple(segment for segment in loaded.snapshot.segments if segment.id not in known)

    def _prefetch(
        self,
        name: str,
        loaded: TableVersion,
        added: Sequence[DataSegment],
        on_moved: Callable[[TableVersion], None],
    ) -> None:
        try:
            for segment in added:
                self._bring(segment)
            on_moved(self._make_current(loaded))
        except ServiceError as error:
            # The tasks keep the rows: the next sync tries again.
            _log.warning("segment_prefetch_failed", table=name, version=loaded.version, error=str(error))
        except Exception:  # nobody looks at the future: a hand-off would be held up, again and again, without a word
            _log.exception("segment_prefetch_failed", table=name, version=loaded.version)
        finally:
            with self._lock:
                self._loading.discard(name)

    def _bring(self, segment: DataSegment) -> None:
        try:
            self._cache.get(segment)
            self.unreadable.forget(segment)
        except CacheError:
            # No room now: the query that reads it will make some, or say so.
            _log.info("segment_not_prefetched", segment=str(segment.id))
        except ServiceError as error:
            if error.retryable:
                raise
            # It will not get better; queries that need it, or count its rows, fail and name it.
            self.unreadable.note(segment, error)
            _log.error("segment_unreadable", segment=str(segment.id), error=str(error))


def _schemas(segments: Sequence[DataSegment]) -> tuple[SegmentSchema, ...]:
    return tuple(dict.fromkeys(segment.schema for segment in segments))
