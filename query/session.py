"""What a reader has seen of a table, so that another node shows it no less (pure: no clock, no I/O).

A node by itself never goes backwards; a reader whose questions go to several nodes does, unless each knows
how far the others had answered. What it must reach is a version and, per partition, an offset in a reset
epoch (PR-7). It travels as one short text between the front that remembers and the node that answers.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from query.assembly import PartitionKey, Reached, View

TEXT_MAX = 60_000
"""Longest text: it goes into a header. Some six thousand partitions fit."""
_JSON_MAX = 4 << 20


@dataclass(frozen=True, slots=True)
class Seen:
    """One table as it was answered: nothing below this may be shown to who saw it."""

    version: int
    reached: Mapping[PartitionKey, Reached] = field(default_factory=dict)

    @classmethod
    def of(cls, view: View) -> Seen:
        """What an answer with this view shows."""
        return cls(view.version, view.reached)

    def is_reached_by(self, view: View) -> bool:
        """Whether an answer with the view shows no less. What the view's version no longer knows (a supervisor
        that is gone), or holds in a raised epoch, is void."""
        return view.version >= self.version and all(
            not _is_less(view.reached.get(key), last) for key, last in self.reached.items()
        )

    def joined(self, other: Seen) -> Seen:
        """The least that shows no less than both."""
        reached = dict(self.reached)
        for key, there in other.reached.items():
            here = reached.get(key)
            if here is None or (here.epoch, here.offset) < (there.epoch, there.offset):
                reached[key] = there
        return Seen(max(self.version, other.version), reached)


def floor_of(held: View | None, seen: Seen | None) -> View | None:
    """What an answer may not fall below: what the node holds, and what the reader saw elsewhere. The view's
    copies are the node's own."""
    if seen is None:
        return held
    if held is None:
        return View(seen.version, {}, seen.reached)
    joined = Seen.of(held).joined(seen)
    return View(joined.version, held.copies, joined.reached)


def _is_less(now: Reached | None, last: Reached) -> bool:
    return now is not None and now.epoch == last.epoch and now.offset < last.offset


def spell(tables: Mapping[str, Seen]) -> str:
    """As text; tables that make it too long are left out, the longest first."""
    spelled = {name: _columns(seen) for name, seen in tables.items()}
    while spelled:
        packed = zlib.compress(msgspec.json.encode(spelled), 6)
        if len(packed) * 4 <= TEXT_MAX * 3:
            return base64.urlsafe_b64encode(packed).decode()
        del spelled[max(spelled, key=lambda name: len(tables[name].reached))]
    return ""


def read(text: str) -> dict[str, Seen]:
    """The tables of a text that ``spell`` wrote.

    Raises:
        ValueError: it did not.
    """
    if not text:
        return {}
    if len(text) > TEXT_MAX:
        raise ValueError(f"longer than {TEXT_MAX} characters")
    try:
        unpacker = zlib.decompressobj()
        plain = unpacker.decompress(base64.urlsafe_b64decode(text.encode("ascii")), _JSON_MAX)
        spelled = _DECODER.decode(plain)
    except (UnicodeEncodeError, zlib.error, msgspec.DecodeError) as error:
        raise ValueError(str(error)) from error
    return {name: _seen(*columns) for name, columns in spelled.items()}


_Columns = tuple[int, dict[str, tuple[list[int], list[int], list[int]]]]
"""Version; by supervisor: partitions, epochs, offsets, side by side, which packs well."""
_DECODER = msgspec.json.Decoder(dict[str, _Columns])


def _columns(seen: Seen) -> tuple[int, dict[str, Any]]:
    found: dict[str, tuple[list[int], list[int], list[int]]] = {}
    for (supervisor, partition), reached in seen.reached.items():
        partitions, epochs, offsets = found.setdefault(supervisor, ([], [], []))
        partitions.append(partition)
        epochs.append(reached.epoch)
        offsets.append(reached.offset)
    return seen.version, found


def _seen(version: int, supervisors: dict[str, tuple[list[int], list[int], list[int]]]) -> Seen:
    reached: dict[PartitionKey, Reached] = {}
    for supervisor, (partitions, epochs, offsets) in supervisors.items():
        if not len(partitions) == len(epochs) == len(offsets):
            raise ValueError(f"columns of {supervisor!r} differ in length")
        for partition, epoch, offset in zip(partitions, epochs, offsets, strict=True):
            reached[supervisor, partition] = Reached(epoch, offset)
    return Seen(version, reached)
