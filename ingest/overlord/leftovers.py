"""Which rows that ended attempts left on middle managers' disks nobody can need any more (pure but for the look-up)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ingest.metadata.records import GroupState
from ingest.protocol import KeptRows


def unneeded(kept: Iterable[KeptRows], groups_of: Callable[[str], list[GroupState]]) -> tuple[str, ...]:
    """Tokens of those whose every sequence is published, closed or void: a successor links in rows of unpublished
    sequences only. That an attempt was fenced is not enough, for its rows may be the last copy of what the stream
    has dropped since. Raises what the look-up raises.
    """
    lowest: dict[str, dict[int, int]] = {}
    found: list[str] = []
    for rows in kept:
        if rows.supervisor not in lowest:
            groups = groups_of(rows.supervisor)
            lowest[rows.supervisor] = {g.group: min(r.ref.number for r in g.sequences) for g in groups if g.sequences}
        needed_from = lowest[rows.supervisor].get(rows.group)
        if needed_from is None or rows.sequence < needed_from:
            found.append(rows.token)
    return tuple(found)
