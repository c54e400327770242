"""An endless stream made of one day of real Wikipedia edits: event n is the same at every start (pure but for loading).

Every event is a function of the seed, its number and the time at which it is sent. About 1 in 100
carries a time one to three hours back, about 1 in 1000 is no valid JSON.
"""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

DATA = Path(__file__).parent / "data" / "wikipedia-edits.jsonl.gz"
LATE_PER_MILLE = 10
MALFORMED_PER_MILLE = 1

_MASK = (1 << 64) - 1
_TIME = b'{"time":"'
_ADDED = re.compile(rb'"added":(\d+)')
_MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Edit:
    """One event without its time: where it goes, what kind it is, and what it adds to the sums."""

    number: int
    partition: int
    late_by_ms: int  # 0 for an event in time
    malformed: bool
    added: int  # 0 where malformed
    line: bytes


def _mixed(value: int) -> int:
    """Spreads a number over 64 bits (splitmix64's finish), the same on every machine."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & _MASK
    return value ^ value >> 31


class Edits:
    """The stream for one seed and number of partitions."""

    def __init__(self, seed: int, partitions: int, path: Path = DATA) -> None:
        assert partitions > 0
        self._seed = _mixed(seed)
        self._partitions = partitions
        with gzip.open(path) as file:
            self._lines = file.read().splitlines()

    def event(self, number: int) -> Edit:
        """Event ``number`` (>= 0); after the day's last one the day begins anew."""
        chance = _mixed(self._seed ^ number)
        line = self._lines[number % len(self._lines)]
        draw = chance % 1000
        malformed = draw < MALFORMED_PER_MILLE
        late = MALFORMED_PER_MILLE <= draw < MALFORMED_PER_MILLE + LATE_PER_MILLE
        found = _ADDED.search(line)
        return Edit(
            number=number,
            partition=(chance >> 16) % self._partitions,
            late_by_ms=(60 + (chance >> 32) % 120) * _MINUTE_MS if late else 0,
            malformed=malformed,
            added=int(found.group(1)) if found and not malformed else 0,
            line=line,
        )


def spelt(edit: Edit, now_ms: int) -> bytes:
    """The event's JSON with its time moved to now (ms UTC); a malformed one is cut in its middle."""
    at = datetime.fromtimestamp((now_ms - edit.late_by_ms) / 1000, UTC)
    text = at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03d}Z"
    assert edit.line.startswith(_TIME)
    moved = _TIME + text.encode() + edit.line[edit.line.index(b'"', len(_TIME)) :]
    return moved[: len(moved) // 2] if edit.malformed else moved
