"""Holds the lookups of the cluster on this node: each as one Arrow file, read again when its source changes."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import structlog

from query.clock import Clock
from query.errors import QueryUnavailable
from query.lookups.files import LookupUnreadable, Pair, newest_file, read_pairs, version_of
from query.lookups.source import LookupSource
from query.lookups.spec import MAX_PAIRS, FileSource, InvalidLookup, LookupSpec, MapSource, TableSource, parse_lookup
from segments.errors import ServiceError

_log = structlog.get_logger(__name__)
# A name is never used twice: workers know files by their names.
_NAMES = itertools.count(1)
Told = Callable[[dict[str, str], dict[str, list[str]]], None]
"""Takes the versions that are loaded, by name, and of those that cannot be read their version and why."""
RETRY_MS = 5_000
MAX_BYTES = 128 << 20


@dataclass(slots=True)
class LookupFile:
    """The pairs of a lookup at one time: an Arrow IPC file of the columns k and v below the mirror's folder."""

    lookup: str
    path: Path
    pairs: int
    pins: int = 0
    is_current: bool = True

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.name


@dataclass(slots=True)
class _Entry:
    spec: LookupSpec | None
    version: str
    file: LookupFile | None = None
    loaded: str = ""
    content: str = ""
    error: str = ""
    due_ms: int | None = 0
    is_loading: bool = False


@dataclass(frozen=True, slots=True)
class LookupState:
    """What is loaded of one lookup; ``error`` says why it is not, or not anew."""

    version: str
    loaded: bool
    pairs: int
    error: str = ""


@dataclass(slots=True)
class LookupCache:
    """The lookups of this node; safe for many threads. ``sync`` belongs to one thread, which it never holds up:
    files and databases are read by another."""

    root: Path
    source: LookupSource
    file_roots: Sequence[Path]
    clock: Clock
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _entries: dict[str, _Entry] = field(default_factory=dict)
    _change: int | None = None
    _removed: int = 0
    _told: Told = lambda loaded, troubles: None
    _loader: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "query-lookups"))

    def sync(self) -> None:
        """Takes over what was posted, and begins to read what is due.

        Raises:
            ServiceError: the configuration cannot be read.
        """
        found = self.source.lookups(self._change)
        if found is not None:
            self._take_over(found.configurations)
            self._change = found.change
        now_ms = self.clock.monotonic_ms()
        with self._lock:
            due = [
                (name, entry)
                for name, entry in self._entries.items()
                if entry.due_ms is not None and entry.due_ms <= now_ms and not entry.is_loading
            ]
            for _, entry in due:
                entry.is_loading = True
        for name, entry in due:
            if entry.spec is not None and isinstance(entry.spec.source, MapSource):
                self._load(name, entry)
            else:
                self._loader.submit(self._load, name, entry)

    def watch(self, told: Told) -> None:
        """Calls ``told`` with what is loaded and what cannot be: now, and whenever that changes."""
        self._told = told
        told({}, {})

    def close(self) -> None:
        """Lets a reading that is under way end by itself, and begins no other."""
        self._loader.shutdown(wait=False, cancel_futures=True)

    def names(self) -> list[str]:
        """All lookups that are posted."""
        with self._lock:
            return sorted(self._entries)

    def states(self) -> dict[str, LookupState]:
        """What is loaded, by name."""
        with self._lock:
            return {
                name: LookupState(
                    entry.version, entry.file is not None, entry.file.pairs if entry.file else 0, entry.error
                )
                for name, entry in self._entries.items()
            }

    @property
    def removed(self) -> int:
        """How many files were removed so far."""
        return self._removed

    def pin(self, name: str) -> LookupFile | None:
        """The lookup's pairs as they are now, kept until ``unpin``; None when there is no such lookup.

        Raises:
            QueryUnavailable: it could not be read yet.
        """
        with self._lock:
            entry = self._entries.get(name)
            if entry is None:
                return None
            if entry.file is None:
                reason = entry.error or "it is being read"
                raise QueryUnavailable(f"lookup {name!r} is not loaded: {reason}", {"lookup": name})
            entry.file.pins += 1
            return entry.file

    def unpin(self, file: LookupFile) -> None:
        """Gives up a pin."""
        with self._lock:
            file.pins -= 1
            self._remove_unused(file)

    def _take_over(self, configurations: dict[str, Any]) -> None:
        with self._lock:
            for name in set(self._entries) - set(configurations):
                self._retire(self._entries.pop(name).file)
        for name, container in configurations.items():
            try:
                spec, error = parse_lookup(name, container), ""
            except InvalidLookup as invalid:
                spec, error = None, str(invalid)
            with self._lock:
                old = self._entries.get(name)
                if old is not None and old.spec == spec and spec is not None:
                    continue
                entry = _Entry(spec, "" if spec is None else spec.version, error=error)
                entry.due_ms = None if spec is None else 0
                # What was loaded answers until the new source was read.
                if old is not None:
                    entry.file, entry.loaded = old.file, old.loaded
                self._entries[name] = entry
        with self._lock:
            self._tell()

    def _load(self, name: str, entry: _Entry) -> None:
        assert entry.spec is not None
        source = entry.spec.source
        file, error = None, ""
        try:
            content = self._content(source)
            if not content or content != entry.content or entry.file is None:
                file = self._written(name, self._pairs(source))
        except ServiceError as unreadable:
            error, content = str(unreadable), entry.content
        except Exception as broken:
            # A source's driver may raise anything; the lookup stays as it was.
            error, content = f"{type(broken).__name__}: {broken}", entry.content
        if error and error != entry.error:
            _log.warning("lookup_not_loaded", lookup=name, error=error)
        poll_ms = 0 if isinstance(source, MapSource) else source.poll_ms
        pause_ms = min(poll_ms or RETRY_MS, RETRY_MS) if error else poll_ms
        with self._lock:
            entry.error, entry.content, entry.is_loading = error, content, False
            entry.due_ms = self.clock.monotonic_ms() + pause_ms if pause_ms else None
            if file is None:
                self._tell()
                return
            if self._entries.get(name) is not entry:
                self._retire(file)
                return
            self._retire(entry.file)
            entry.file, entry.loaded = file, entry.version
            self._tell()

    def _content(self, source: MapSource | FileSource | TableSource) -> str:
        """Changes when the source does; empty when that cannot be told without reading it."""
        if isinstance(source, FileSource):
            return version_of(newest_file(source, self.file_roots))
        return self.source.table_version(source) if isinstance(source, TableSource) else "posted"

    def _pairs(self, source: MapSource | FileSource | TableSource) -> Iterable[Pair]:
        if isinstance(source, MapSource):
            return source.pairs.items()
        if isinstance(source, FileSource):
            return read_pairs(newest_file(source, self.file_roots), source.format)
        return self.source.table_pairs(source)

    def _written(self, name: str, pairs: Iterable[Pair]) -> LookupFile:
        by_key: dict[str, str] = {}
        for key, value in pairs:
            by_key[key] = value
            if len(by_key) > MAX_PAIRS:
                raise LookupUnreadable(f"more than {MAX_PAIRS} pairs; ingest them as a table and join with that")
        columns = [pa.array(by_key, pa.large_string()), pa.array(by_key.values(), pa.large_string())]
        table = pa.table(columns, names=["k", "v"])
        if table.nbytes > MAX_BYTES:
            raise LookupUnreadable(f"{table.nbytes} bytes; at most {MAX_BYTES} are held")
        path = self.root / f"lookup_{next(_NAMES)}.arrow"
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        return LookupFile(name, path, len(by_key))

    def _tell(self) -> None:
        """Under the lock."""
        loaded = {name: entry.loaded for name, entry in self._entries.items() if entry.file is not None}
        self._told(loaded, {name: [entry.version, entry.error] for name, entry in self._entries.items() if entry.error})

    def _retire(self, file: LookupFile | None) -> None:
        """Under the lock."""
        if file is not None:
            file.is_current = False
            self._remove_unused(file)

    def _remove_unused(self, file: LookupFile) -> None:
        if not file.is_current and file.pins == 0:
            self._removed += 1
            with contextlib.suppress(OSError):
                file.path.unlink()
