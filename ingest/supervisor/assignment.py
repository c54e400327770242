"""Which partitions form a task group: even, stable, moving as few as possible (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

PartitionSet = tuple[int, ...]


def assign(current: Iterable[Sequence[int]], partitions: Iterable[int], task_count: int) -> tuple[PartitionSet, ...]:
    """Splits ``partitions`` into at most ``task_count`` sorted sets whose sizes differ by at most one.

    With no current groups partition p goes to set p modulo task_count, as in Druid. Otherwise a group
    keeps its partitions as far as evenness allows: surplus and new ones go to the smallest groups.
    O(partitions * log).
    """
    wanted = sorted(set(partitions))
    count = min(max(task_count, 1), len(wanted))
    if count == 0:
        return ()
    kept = [sorted(set(group) & set(wanted)) for group in current]
    kept = [group for group in kept if group]
    if not kept:
        return tuple(tuple(wanted[i::count]) for i in range(count))
    return _rebalanced(kept, wanted, count)


def _rebalanced(kept: list[list[int]], wanted: list[int], count: int) -> tuple[PartitionSet, ...]:
    """The largest groups stay; the ``extra`` sets that may hold one more are those that already do."""
    kept = sorted(kept, key=lambda group: (-len(group), group))
    base, extra = divmod(len(wanted), count)
    sets = kept[:count] + [[] for _ in range(count - len(kept))]
    held = {p for group in sets for p in group}
    homeless = [p for p in wanted if p not in held]
    limits = [base + (i < extra) for i in range(count)]
    for group, limit in zip(sets, limits, strict=True):
        homeless += group[limit:]
        del group[limit:]
    homeless.sort()
    for group, limit in zip(sets, limits, strict=True):
        while len(group) < limit:
            group.append(homeless.pop(0))
    return tuple(sorted(tuple(sorted(group)) for group in sets))
