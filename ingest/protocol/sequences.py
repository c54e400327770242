"""Sequences as every process names and knows them (pure data)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from ingest.offsets import OffsetMap

PROTOCOL_VERSION: Final = 1
"""Announced by every process; a task of an older number is adopted and replaced at its next sequence end."""


@dataclass(frozen=True, slots=True, order=True)
class SequenceRef:
    """Names one sequence: supervisor, group epoch and sequence number.

    ``group`` and ``number`` come from stored counters that survive deletion (PR-19); ``number``
    grows within the group.
    """

    supervisor: str
    group: int
    number: int

    @property
    def name(self) -> str:
        return f"{self.supervisor}_{self.group}_{self.number}"


class SequenceState(Enum):
    """Life of a sequence in the metadata store."""

    OPEN = "open"  # its end is not agreed yet
    SEALED = "sealed"  # end saved, rows not yet published
    PUBLISHED = "published"  # its ledger row exists
    CLOSED_EMPTY = "closed_empty"  # sealed with end == start: nothing to publish (PR-10)
    VOID = "void"  # given up in favour of new sequences over the same range (PR-13)


@dataclass(frozen=True, slots=True)
class SequenceRecord:
    """One sequence as the store holds it; also what replacements are given.

    ``start`` fixes the partition set (PR-11). ``epochs`` are the reset epochs of those partitions
    when it was opened. ``opened_at_ms`` is the stored time from which rejection windows are
    computed (PR-15). ``assigned`` says whether any worker was ever told to read it (PR-7);
    ``released`` that no sequence follows it in its group; ``version`` is the table version of its
    publish (0 until then), by which every replica knows when it may drop the rows.
    ``parse_exceptions`` counts its bad messages (PR-16): 0 while open, as far as was known when its end
    was saved, exactly once it is published.
    """

    ref: SequenceRef
    start: OffsetMap
    epochs: OffsetMap
    spec_version: int
    opened_at_ms: int
    state: SequenceState = SequenceState.OPEN
    end: OffsetMap | None = None
    assigned: bool = False
    released: bool = False
    version: int = 0
    parse_exceptions: int = 0

    @property
    def is_empty(self) -> bool:
        return self.end == self.start
