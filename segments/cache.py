"""Keeps segment files on the local disk under a byte limit, downloaded once, proved by checksum, pinned while read."""

import contextlib
import hashlib
import os
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from segments.data_segment import DataSegment
from segments.errors import CacheFull, SegmentCorrupt, SegmentTooLarge, ServiceError
from segments.identity import SegmentId
from segments.storage.base import DeepStorage
from segments.storage.durable import TEMPORARY_PREFIX, disk_error, make_directories

_SUFFIX = ".parquet"
_TOUCH_EVERY = 16
"""Uses of a file per note of its time."""
_ARRIVING = ".arriving"


def file_name(segment: DataSegment) -> str:
    """What a segment's file is called in a cache's folder."""
    return segment.checksum + _SUFFIX


@dataclass(slots=True)
class _Entry:
    """One file: counted in the limit from the moment its download begins."""

    size_bytes: int
    # Whose it is; a file found at start-up tells it only when somebody names it.
    table: str = ""
    pins: int = 0
    uses: int = 0
    # Files found at start-up are hashed at their first use.
    proved: bool = False
    ready: threading.Event = field(default_factory=threading.Event)
    failure: Exception | None = None


class SegmentCache:
    """Local copies of segments, named by their checksums, least recently used first to go.

    Safe for many threads: a segment asked for by several at once is pulled once. A pinned file is never
    removed, so whoever opens a file (DuckDB dies if one vanishes) pins it first. One process owns the folder;
    what it holds survives a restart. Its bytes never exceed ``max_bytes``, downloads under way included.
    """

    def __init__(self, root: Path, storage: DeepStorage, max_bytes: int) -> None:
        """Scans the folder, removes unfinished downloads, and evicts down to the limit.

        Raises:
            StorageMisconfigured, StorageFull, StorageUnavailable: the folder cannot be used.
        """
        assert max_bytes > 0, "a cache needs room"
        self._root = root
        self._storage = storage
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        # Ordered by last use, oldest first.
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._used_bytes = 0
        self._table_bytes: Counter[str] = Counter()
        try:
            self._scan()
        except OSError as error:
            raise disk_error(error, root, "using the segment cache") from error

    @property
    def root(self) -> Path:
        """The folder; every file lies directly in it."""
        return self._root

    @property
    def used_bytes(self) -> int:
        return self._used_bytes

    @property
    def max_bytes(self) -> int:
        return self._max_bytes

    def table_bytes(self, tables_max: int) -> dict[str, int]:
        """Bytes by table, of the tables that hold the most; downloads under way included."""
        with self._lock:
            return dict(self._table_bytes.most_common(tables_max))

    def recognise(self, segments: Iterable[DataSegment]) -> None:
        """Says whose the files are that were found at start-up; nothing is read or downloaded."""
        with self._lock:
            for segment in segments:
                entry = self._entries.get(segment.checksum)
                if entry is not None:
                    self._belongs(entry, segment)

    def get(self, segment: DataSegment) -> Path:
        """The local file of a segment, pulled if need be. It may be evicted any time later unless pinned.

        Raises:
            as ``pin``.
        """
        path = self.pin(segment)
        self.unpin(segment)
        return path

    def pin(self, segment: DataSegment) -> Path:
        """As ``get``, and keeps the file until ``unpin`` was called as often as ``pin``.

        Raises:
            SegmentTooLarge: it can never fit.
            CacheFull: it does not fit beside what is pinned now.
            SegmentCorrupt: the stored file is not the one that was published; it is not kept.
            SegmentNotFound, StorageError: it could not be pulled.
        """
        while True:
            entry, pulls = self._claim(segment)
            if pulls:
                self._pull(segment, entry)
                return self._path(segment)
            entry.ready.wait()
            if entry.failure is None:
                return self._path(segment)
            # Another thread's pull failed. Its claim is gone; this thread's own try decides what it sees.
            if not isinstance(entry.failure, ServiceError) or not entry.failure.retryable:
                raise entry.failure

    def pin_held(self, segments: Iterable[DataSegment], pinned: list[DataSegment]) -> list[DataSegment]:
        """Pins those that are here and proved, at once, and adds them to ``pinned``; the others are to be pinned by
        themselves."""
        missing = []
        with self._lock:
            for segment in segments:
                entry = self._entries.get(segment.checksum)
                if entry is None or not entry.proved or not entry.ready.is_set():
                    missing.append(segment)
                else:
                    self._use(segment, entry)
                    pinned.append(segment)
        return missing

    def _use(self, segment: DataSegment, entry: _Entry) -> None:
        """One more pin of a file that is here; with the lock held."""
        entry.pins += 1
        self._belongs(entry, segment)
        self._entries.move_to_end(segment.checksum)
        if entry.uses % _TOUCH_EVERY == 0:
            # Recency survives a restart by the file's time, about: a query may pin thousands of files.
            with contextlib.suppress(OSError):
                os.utime(self._path(segment))
        entry.uses += 1

    def unpin(self, segment: DataSegment) -> None:
        """Gives up one pin."""
        self.unpin_each((segment,))

    def unpin_each(self, segments: Iterable[DataSegment]) -> None:
        """Gives up one pin of each."""
        with self._lock:
            for segment in segments:
                entry = self._entries[segment.checksum]
                assert entry.pins > 0, f"{segment.id} was not pinned"
                entry.pins -= 1

    @contextlib.contextmanager
    def pinned(self, segments: Iterable[DataSegment]) -> Iterator[dict[SegmentId, Path]]:
        """The local files of many segments, all pinned inside the block.

        Raises:
            as ``pin``; what was pinned until then is let go.
        """
        with contextlib.ExitStack() as stack:
            paths = {}
            for segment in segments:
                paths[segment.id] = self.pin(segment)
                stack.callback(self.unpin, segment)
            yield paths

    def held(self, segment: DataSegment) -> Path | None:
        """Where the segment's file should lie now; None when the cache does not hold it."""
        with self._lock:
            entry = self._entries.get(segment.checksum)
            return self._path(segment) if entry is not None and entry.ready.is_set() else None

    def drop(self, segment: DataSegment) -> None:
        """Removes a segment's file now if nobody pins it; else it goes the way of all others, by age."""
        with self._lock:
            entry = self._entries.get(segment.checksum)
            if entry is not None and not entry.pins:
                self._evict(segment.checksum)

    def _claim(self, segment: DataSegment) -> tuple[_Entry, bool]:
        """Pins the entry; the second value says that the caller has to bring and prove the file."""
        name = segment.checksum
        with self._lock:
            entry = self._entries.get(name)
            if entry is not None and not entry.proved and not entry.pins and entry.size_bytes != segment.size_bytes:
                # Found at start-up, but cut off: counted with its wrong size.
                self._evict(name)
                entry = None
            if entry is not None:
                if entry.ready.is_set() and entry.proved:
                    self._use(segment, entry)
                    return entry, False
                self._belongs(entry, segment)
                entry.pins += 1
                self._entries.move_to_end(name)
                needs_proof = entry.ready.is_set()
                if needs_proof:
                    entry.ready.clear()
                return entry, needs_proof
            self._make_room(segment)
            entry = _Entry(segment.size_bytes, pins=1)
            self._belongs(entry, segment)
            self._entries[name] = entry
            self._used_bytes += segment.size_bytes
            return entry, True

    def _make_room(self, segment: DataSegment) -> None:
        if segment.size_bytes > self._max_bytes:
            raise SegmentTooLarge(
                f"segment {segment.id} has {segment.size_bytes} bytes, the cache's limit is {self._max_bytes}; "
                "raise the cache's limit"
            )
        free_bytes = self._max_bytes - self._used_bytes
        idle = [name for name, entry in self._entries.items() if not entry.pins]
        for name in idle:
            if free_bytes >= segment.size_bytes:
                return
            free_bytes += self._entries[name].size_bytes
            self._evict(name)
        if free_bytes < segment.size_bytes:
            raise CacheFull(
                f"segment {segment.id} needs {segment.size_bytes} bytes, but running queries hold all but {free_bytes} "
                f"of the cache's {self._max_bytes}; run fewer queries at once or raise the cache's limit"
            )

    def _evict(self, name: str) -> None:
        (self._root / (name + _SUFFIX)).unlink(missing_ok=True)
        entry = self._entries.pop(name)
        self._used_bytes -= entry.size_bytes
        if entry.table:
            self._table_bytes[entry.table] -= entry.size_bytes
            if not self._table_bytes[entry.table]:
                del self._table_bytes[entry.table]

    def _belongs(self, entry: _Entry, segment: DataSegment) -> None:
        """With the lock held. Equal files of two tables are one, of the table that named it first."""
        if not entry.table:
            entry.table = segment.id.datasource
            self._table_bytes[entry.table] += entry.size_bytes

    def _pull(self, segment: DataSegment, entry: _Entry) -> None:
        path = self._path(segment)
        try:
            self._bring(segment, path)
        except BaseException as error:
            with self._lock:
                entry.failure = error if isinstance(error, Exception) else CacheFull(f"pull of {segment.id} was ended")
                self._evict(segment.checksum)
            entry.ready.set()
            raise
        entry.proved = True
        entry.ready.set()

    def _bring(self, segment: DataSegment, path: Path) -> None:
        try:
            if not self._is_whole(path, segment):
                self._download(segment, path)
        except OSError as error:
            raise disk_error(error, path, "caching") from error

    def _download(self, segment: DataSegment, path: Path) -> None:
        arriving = path.with_suffix(_ARRIVING)
        try:
            self._storage.pull(segment.load_spec, arriving)
            if not self._is_whole(arriving, segment):
                raise SegmentCorrupt(
                    f"segment {segment.id} at {segment.load_spec} is not the published file: it has "
                    f"{arriving.stat().st_size} bytes, expected {segment.size_bytes} with SHA-256 {segment.checksum}; "
                    "put the file back from a backup, or mark the segment unused to do without its rows"
                )
            arriving.replace(path)
        finally:
            with contextlib.suppress(OSError):
                arriving.unlink(missing_ok=True)

    @staticmethod
    def _is_whole(path: Path, segment: DataSegment) -> bool:
        try:
            if path.stat().st_size != segment.size_bytes:
                return False
            with path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest() == segment.checksum
        except FileNotFoundError:
            return False

    def _path(self, segment: DataSegment) -> Path:
        return self._root / file_name(segment)

    def _scan(self) -> None:
        make_directories(self._root)
        found = []
        for file in os.scandir(self._root):
            if file.name.startswith(TEMPORARY_PREFIX) or file.name.endswith(_ARRIVING):
                os.unlink(file.path)
            elif file.name.endswith(_SUFFIX):
                status = file.stat()
                found.append((status.st_mtime_ns, file.name.removesuffix(_SUFFIX), status.st_size))
        for _, name, size_bytes in sorted(found):
            self._entries[name] = entry = _Entry(size_bytes)
            entry.ready.set()
            self._used_bytes += size_bytes
        for name in list(self._entries):
            if self._used_bytes <= self._max_bytes:
                break
            self._evict(name)
