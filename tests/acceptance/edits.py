"""The Wikipedia edits: what an independent pass over the file says, a stream of them, and their supervisor's spec."""

from __future__ import annotations

import gzip
import json
import threading
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from tests.servers.topics import ONCE

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "server" / "quickstart" / "data" / "wikipedia-edits.jsonl.gz"
PARTITIONS = 4


@cache
def lines() -> list[bytes]:
    """The file's records in order."""
    return gzip.decompress(DATA.read_bytes()).splitlines()


@dataclass(frozen=True, slots=True)
class Facts:
    """What plain Python finds in some records."""

    rows: int
    added: int
    users: int
    by_hour: dict[str, int]


@cache
def facts(count: int | None = None) -> Facts:
    """Of the first ``count`` records, or of all."""
    records = [json.loads(line) for line in lines()[:count]]
    by_hour = Counter(f"{record['time'][:13]}:00:00.000Z" for record in records)
    added = sum(record["added"] or 0 for record in records)
    return Facts(len(records), added, len({record["user"] for record in records}), dict(by_hour))


def spec(bootstrap: str, topic: str, *, replicas: int = 1, **tuning: Any) -> dict[str, Any]:
    """The example's spec for a topic, with some tuning."""
    posted: dict[str, Any] = json.loads((ROOT / "examples" / "wikipedia.supervisor.json").read_text())
    posted["spec"]["ioConfig"] |= {
        "topic": topic,
        "replicas": replicas,
        "consumerProperties": {"bootstrap.servers": bootstrap},
    }
    posted["spec"]["tuningConfig"] |= tuning
    return posted


class Edits:
    """Sends the first ``count`` records at a steady rate from a thread; ``sent`` of them left at most."""

    def __init__(self, bootstrap: str, topic: str, *, rate: float, count: int | None = None) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, **ONCE, "linger.ms": 2})
        self._topic = topic
        self._rate = rate
        self._count = len(lines()) if count is None else count
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.sent = 0

    def __enter__(self) -> Edits:
        self._thread.start()
        return self

    def __exit__(self, *ended_by: Any) -> None:
        self._stop.set()
        self._thread.join()

    def all_sent(self) -> int:
        """Waits for the last record; how many there are."""
        self._thread.join()
        return self.sent

    def _run(self) -> None:
        while self.sent < self._count and not self._stop.is_set():
            batch = lines()[self.sent : min(self._count, self.sent + max(1, int(self._rate / 20)))]
            for number, line in enumerate(batch, self.sent):
                self._producer.produce(self._topic, line, partition=number % PARTITIONS)
            # Counted before it is certain: a watcher must never find more rows than this.
            self.sent += len(batch)
            self._producer.poll(0)
            self._stop.wait(0.05)
        assert self._producer.flush(60) == 0, "not all records were delivered"
