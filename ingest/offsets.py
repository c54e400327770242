"""The algebra of offset maps: one next-to-read offset per partition, ranges half-open (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NewType

Partition = NewType("Partition", int)
Offset = NewType("Offset", int)


class OffsetMap(Mapping[int, int]):
    """An immutable, hashable map of partition to next-to-read offset, iterated in partition order.

    The same shape carries reset epochs per partition. Operations cost O(partitions).
    """

    __slots__ = ("_hash", "_items")

    def __init__(self, items: Mapping[int, int] | Iterable[tuple[int, int]] = ()) -> None:
        pairs = items.items() if isinstance(items, Mapping) else items
        self._items: dict[int, int] = dict(sorted(pairs))
        self._hash: int | None = None

    def __getitem__(self, partition: int) -> int:
        return self._items[partition]

    def __iter__(self) -> Iterator[int]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(tuple(self._items.items()))
        return self._hash

    def __eq__(self, other: object) -> bool:
        if isinstance(other, OffsetMap):
            return self._items == other._items
        return NotImplemented

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{p}:{o}" for p, o in self._items.items()) + "}"

    @classmethod
    def from_json(cls, value: Mapping[str, int]) -> OffsetMap:
        """Reads Druid's form, an object whose keys are partition numbers as text."""
        return cls((int(p), int(o)) for p, o in value.items())

    def to_json(self) -> dict[str, int]:
        """Druid's form: partition numbers as text keys."""
        return {str(p): o for p, o in self._items.items()}

    def with_(self, moves: Mapping[int, int]) -> OffsetMap:
        """This map with ``moves`` laid over it (partitions may be new)."""
        return OffsetMap({**self._items, **moves})

    def restrict(self, partitions: Iterable[int]) -> OffsetMap:
        """Only the given partitions, which must all be present."""
        return OffsetMap((p, self._items[p]) for p in partitions)

    def reached(self, target: Mapping[int, int]) -> bool:
        """Whether every partition of ``target`` stands at or past its offset here."""
        return all(self._items.get(p, -1) >= o for p, o in target.items())


def furthest(*maps: Mapping[int, int]) -> OffsetMap:
    """Per partition the largest offset of any map; a partition missing from one map is taken from the others."""
    merged: dict[int, int] = {}
    for offsets in maps:
        for partition, offset in offsets.items():
            if offset > merged.get(partition, -1):
                merged[partition] = offset
    return OffsetMap(merged)


def split_run(first: int, end: int, at: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Cuts the half-open run ``[first, end)`` at ``at`` into the part below it and the part from it on."""
    cut = min(max(at, first), end)
    return (first, cut), (cut, end)
