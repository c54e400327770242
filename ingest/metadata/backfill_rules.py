"""How a jump over a range leaves that range to another supervisor (pure)."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

from ingest.metadata.records import AuditRow, ResetWish, StreamOffsets
from ingest.offsets import OffsetMap, furthest


@dataclass(frozen=True, slots=True)
class Skipped:
    """What a jump writes: where the supervisor goes on, and the first offsets and the spec of who reads the rest."""

    moves: OffsetMap
    stream: StreamOffsets
    spec: dict[str, Any]


def skipped(stored: StreamOffsets, wish: ResetWish, taken: bool) -> Skipped | str:
    """Cut by the committed offsets of this very transaction: the range starts where the published rows end, whatever
    was read meanwhile, and nothing moves back. Else why nothing may move; ``taken``: the name is another's.
    """
    assert wish.backfill is not None
    name = str(wish.backfill["id"])
    if taken:
        return f"supervisor {name!r} exists already"
    if wish.topic_id != stored.topic_id:
        return f"the topic is {stored.topic_id} now; the offsets were meant for {wish.topic_id}"
    moves = furthest(wish.moves, stored.committed).restrict(p for p in wish.moves if p in stored.committed)
    starts = stored.committed.restrict(moves)
    epochs = OffsetMap(dict.fromkeys(starts, 0))
    spec = copy.deepcopy(wish.backfill)
    bounds = {"startSequenceNumbers": starts.to_json(), "endSequenceNumbers": moves.to_json()}
    spec["spec"]["ioConfig"]["boundedStreamConfig"] = bounds
    return Skipped(moves, StreamOffsets(name, stored.topic, stored.topic_id, starts, epochs, starts), spec)


def jumped(audit: AuditRow, found: Skipped | str, wish: ResetWish) -> AuditRow:
    """What the trail says of it."""
    assert wish.backfill is not None
    name = wish.backfill["id"]
    if isinstance(found, str):
        return replace(audit, action="backfill refused", detail={**audit.detail, "backfill": name, "refused": found})
    return replace(audit, detail={**audit.detail, "moves": found.moves.to_json(), "backfill": name})
