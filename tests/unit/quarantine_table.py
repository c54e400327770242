"""A table that was read by a spec, with its quarantine, and the leader's part in replaying that."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ingest.appenderator.quarantine import read_records
from ingest.metadata.memory import MemoryMetadataStore
from ingest.metadata.records import QuarantineRow
from ingest.overlord.replays import ReplayPorts, Replays
from server.audit.table import audit_table
from tests.in_process import NOON_MS, System, eventually, spec


def broken_spec(**tuning: Any) -> dict[str, Any]:
    """It looks for the time where it is not."""
    posted = spec(**tuning)
    posted["spec"]["dataSchema"]["timestampSpec"] = {"column": "when", "format": "millis"}
    return posted


def told(n: int, name: str = "at") -> bytes:
    return json.dumps({name: NOON_MS + n, "page": f"p{n}", "n": n}).encode()


class Table:
    """What was read by a spec, published, with a quarantine; and the leader's part in replaying it."""

    def __init__(self, root: Path, posted: dict[str, Any], records: list[Any], **beside: Any) -> None:
        self.system = System(root / "tasks")
        self.scratch = root / "scratch"
        self.scratch.mkdir()
        self.system.stream.create_topic("clicks", 1)
        self.system.start()
        self.system.overlord.submit(posted)
        self.system.stream.append("clicks", 0, records, **beside)
        eventually(lambda: self.system.records_read() == len(records))
        self.suspend()

    def suspend(self) -> None:
        self.system.overlord.suspend("clicks")
        eventually(lambda: not self.system.tasks() and not self.system.store.groups("clicks"))

    def mend(self, posted: dict[str, Any]) -> None:
        self.system.overlord.submit({**posted, "suspended": True})

    @property
    def store(self) -> MemoryMetadataStore:
        return self.system.store

    @property
    def generation(self) -> int:
        return self.system.overlord.leading().generation

    def replays(self, store: Any = None, storage: Any = None, schemas: Any = None) -> Replays:
        numbers = itertools.count(len(self.store.state.replays))
        ports = ReplayPorts(
            store or self.store,
            storage or self.system.storage,
            lambda: f"replay-{next(numbers)}",
            self.system.clock,
            self.scratch,
            schemas,
        )
        return Replays(ports)

    def files(self) -> list[QuarantineRow]:
        return [file for file in self.store.quarantine_files("clicks", 100) if file.state == "published"]

    def replay(self) -> list[dict[str, Any]]:
        return [self.replays().replay(self.generation, "clicks", file.path) for file in self.files()]

    def rows(self, root: Path) -> list[dict[str, Any]]:
        """Of all published segments."""
        found: list[dict[str, Any]] = []
        for at, row in enumerate(self.store.segments("clicks", None, 1_000, False)):
            path = root / f"{at}.parquet"
            self.system.storage.pull(row.segment.load_spec, path)
            found += pq.read_table(path).to_pylist()
        return found

    def waiting(self, root: Path) -> list[dict[str, Any]]:
        """The records that wait in the quarantine."""
        found: list[dict[str, Any]] = []
        for at, file in enumerate(self.files()):
            path = root / f"kept-{at}.parquet"
            self.system.storage.pull(file.load_spec, path)
            found += read_records(path, 0, 10_000, 10**9)[1]
        return found

    def assert_proved(self) -> None:
        assert audit_table(self.store, self.system.storage, "clicks", None).faults == []
