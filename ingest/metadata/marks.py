"""How far this process has seen the metadata database, so that an older copy put in its place is noticed.

A database that is replaced by a copy without the last commits would hand out numbers a second time: table
versions, generations, ends of sequences that tasks were told. What was read or committed here is remembered,
also over a restart if there is a file for it, and every new connection has to show at least that.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import orjson
import structlog

from ingest.protocol import SequenceRef
from segments.storage.durable import replace_durably, sync_file

log = structlog.get_logger()

BEATS_UNSAVED: Final = 20
SEALED_MAX: Final = 1_000
"""Groups whose last saved end is remembered; the oldest is forgotten first."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A moment of the database, never more than it held: generation and heartbeats of leaders, versions by
    table, per (supervisor, group) the last sequence whose end was saved, and which database it is."""

    generation: int = 0
    beats: int = 0
    versions: Mapping[str, int] = field(default_factory=dict)
    sealed: Mapping[tuple[str, int], int] = field(default_factory=dict)
    database: str = ""

    def missing_in(self, found: Seen) -> str | None:
        """In plain words what ``found`` lacks; None when it holds all of this. Its ``sealed`` names those of
        ours that have an end there."""
        if self.database and found.database and self.database != found.database:
            return f"it was database {self.database} and is {found.database}, another one"
        for name, version in self.versions.items():
            there = found.versions.get(name)
            if there is None or there < version:
                return f"table {name} was at version {version} and is {'not there' if there is None else f'at {there}'}"
        if found.generation < self.generation:
            return f"generation {self.generation} has led, and {found.generation} is the last there"
        if found.beats < self.beats:
            return f"leaders had given {self.beats} signs of life, and {found.beats} are there"
        for (supervisor, group), number in self.sealed.items():
            if found.sealed.get((supervisor, group)) != number:
                return f"sequence {number} of group {group} of supervisor {supervisor} had an end and has none there"
        return None


class Marks:
    """The furthest ``Seen`` of one process; safe from any thread. With a ``path`` it survives restarts."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._generation = self._beats = 0
        self._versions: dict[str, int] = {}
        self._sealed: OrderedDict[tuple[str, int], int] = OrderedDict()
        self._database = ""
        self._saved: Seen | None = None
        self._load()

    def seen(self) -> Seen:
        """What any later moment of the same database holds. Ask before the moment is read."""
        with self._lock:
            return Seen(self._generation, self._beats, dict(self._versions), dict(self._sealed), self._database)

    @property
    def database(self) -> str:
        """Which database it is; empty while that is not known."""
        return self._database

    def note_database(self, name: str) -> None:
        """The first one stays: another has to show that it is the same."""
        with self._lock:
            self._database = self._database or name

    def version_of(self, datasource: str) -> int:
        """The table's furthest version; 0 when it was never seen."""
        return self._versions.get(datasource, 0)

    def note_leader(self, generation: int, beats: int = 0) -> None:
        with self._lock:
            self._generation = max(self._generation, generation)
            self._beats = max(self._beats, beats)

    def note_versions(self, versions: Mapping[str, int]) -> None:
        with self._lock:
            for name, version in versions.items():
                self._versions[name] = max(version, self._versions.get(name, 0))

    def note_sealed(self, ref: SequenceRef) -> None:
        key = (ref.supervisor, ref.group)
        with self._lock:
            self._sealed[key] = max(ref.number, self._sealed.get(key, 0))
            self._sealed.move_to_end(key)
            while len(self._sealed) > SEALED_MAX:
                self._sealed.popitem(last=False)

    def save(self) -> None:
        """Writes the file if there is news; to be called now and then by one thread. A file that cannot be
        written leaves the old one: less is noticed after a restart, nothing breaks."""
        seen = self.seen()
        if self._path is None or not self._is_news(seen):
            return
        document = {
            "database": seen.database,
            "generation": seen.generation,
            "beats": seen.beats,
            "versions": seen.versions,
            "sealed": [[supervisor, group, number] for (supervisor, group), number in seen.sealed.items()],
        }
        fresh = self._path.with_suffix(".new")
        with suppress(OSError):
            with fresh.open("wb") as file:
                file.write(orjson.dumps(document))
                sync_file(file)
            replace_durably(fresh, self._path)
            self._saved = seen

    def _is_news(self, seen: Seen) -> bool:
        """A few more signs of life are none: an idle service writes seldom."""
        before = self._saved
        if before is None:
            return True
        return seen.beats - before.beats >= BEATS_UNSAVED or replace(seen, beats=before.beats) != before

    def _load(self) -> None:
        if self._path is None or not self._path.exists():
            return
        try:
            document = orjson.loads(self._path.read_bytes())
            self.note_leader(int(document["generation"]), int(document["beats"]))
            self.note_database(str(document.get("database", "")))
            self.note_versions({str(name): int(version) for name, version in document["versions"].items()})
            for supervisor, group, number in document["sealed"]:
                self.note_sealed(SequenceRef(str(supervisor), int(group), int(number)))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            log.warning("what was seen of the database is not known", path=str(self._path), error=str(error))
