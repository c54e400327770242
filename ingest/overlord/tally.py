"""What an overlord has counted since its process began, over all its terms; for metrics."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import fields

from ingest.protocol import PartitionCounts, PublishRequest

FATES = tuple(field.name for field in fields(PartitionCounts) if field.name != "no_record")


class Tally:
    """Safe from any thread. Counts only grow."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._messages: Counter[tuple[str, str]] = Counter()
        self._scalings: Counter[tuple[str, str]] = Counter()
        self._skipped: Counter[str] = Counter()

    def published(self, request: PublishRequest) -> None:
        """A range was published just now: each of its messages by its fate, once for all replicas."""
        with self._lock:
            for counts in request.counts.values():
                for fate in FATES:
                    self._messages[request.ref.supervisor, fate] += getattr(counts, fate)

    def scaled(self, supervisor: str, before: int, after: int) -> None:
        """The auto scaler decided on another number of task groups."""
        with self._lock:
            self._scalings[supervisor, "out" if after > before else "in"] += 1

    def skipped(self, duty: str) -> None:
        """A turn of a periodic duty was left out, for the one before still ran."""
        with self._lock:
            self._skipped[duty] += 1

    def skips(self) -> dict[str, int]:
        """By duty."""
        with self._lock:
            return dict(self._skipped)

    def messages(self) -> dict[tuple[str, str], int]:
        """By supervisor and fate."""
        with self._lock:
            return dict(self._messages)

    def scalings(self) -> dict[tuple[str, str], int]:
        """By supervisor and direction: out, in."""
        with self._lock:
            return dict(self._scalings)
