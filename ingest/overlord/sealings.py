"""Lets a task's checkpoint ask wait for the round it began: the saved end comes back with the answer.

Without it the task hears the end by a call of its own, one more round trip in which it stands still.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from ingest.protocol import SequenceRecord, SequenceRef

GROUPS_MAX: Final = 4_096


class Sealings:
    """The last seals of this leadership, one of each group, of the ``GROUPS_MAX`` groups that were sealed last;
    safe from any thread. Of others nothing is lost but a round trip."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._last: OrderedDict[tuple[str, int], tuple[SequenceRecord, ...]] = OrderedDict()

    def tell(self, records: tuple[SequenceRecord, ...]) -> None:
        """A seal is saved: the sealed record and its successor, if any."""
        with self._changed:
            ref = records[0].ref
            self._last[ref.supervisor, ref.group] = records
            self._last.move_to_end((ref.supervisor, ref.group))
            if len(self._last) > GROUPS_MAX:
                self._last.popitem(last=False)
            self._changed.notify_all()

    def opened(self, ref: SequenceRef) -> bool:
        """Whether the group's last seal of this leadership opened ``ref``: then it has not been sealed yet."""
        with self._changed:
            records = self._last.get((ref.supervisor, ref.group), ())
            return len(records) > 1 and records[1].ref == ref

    def wait_for(self, ref: SequenceRef, timeout_ms: int) -> tuple[SequenceRecord, ...]:
        """What ``ref`` was sealed with; empty when that did not happen in time."""

        def sealed() -> tuple[SequenceRecord, ...]:
            records = self._last.get((ref.supervisor, ref.group), ())
            return records if records and records[0].ref == ref else ()

        with self._changed:
            return self._changed.wait_for(sealed, timeout_ms / 1_000) or ()

    def __len__(self) -> int:
        with self._changed:
            return len(self._last)
