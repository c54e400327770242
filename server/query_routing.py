"""Which query node is asked first: one that holds the table's segments, with few questions under way.

Every node can answer every table alone, so this is preference only; whoever is asked gives the same answer.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from ingest.metadata.records import NodeRecord

WARM = 0.8
"""A node with this share of what the best one holds of a table counts as well prepared."""
LOOKED_AT_BYTES = 256 << 10
_WORD = re.compile(rb"[^\s\"'`\\,;()\[\]{}<>=+*/|!?&^#@]+")


def tables_named(body: bytes, known: Collection[str]) -> set[str]:
    """The known tables whose names stand in a query, whatever its language. May name too many."""
    words = set(_WORD.findall(body[:LOOKED_AT_BYTES]))
    words |= {part for word in words for part in word.split(b".")}
    spaced = {name for name in known if any(character.isspace() for character in name)}
    return {name for name in known if name.encode() in words} | {
        name for name in spaced if name.encode() in body[:LOOKED_AT_BYTES]
    }


def known_tables(nodes: Iterable[NodeRecord]) -> set[str]:
    """Every table that some node follows."""
    return {table for node in nodes for table in node.acknowledged}


def ranked(
    nodes: Sequence[NodeRecord], late: Collection[str], tables: Collection[str], running: Mapping[str, int], last: str
) -> list[NodeRecord]:
    """The nodes, best first: those that renewed their rows lately, then those that hold the tables' segments,
    then who answered this session ``last``, then who has the fewest questions ``running`` (by address). Else a
    table goes to the same node each time, so that its live rows are mirrored once."""
    held = {node.node: _held_bytes(node, tables) for node in nodes}
    enough = WARM * max(held.values(), default=0)

    def rank(node: NodeRecord) -> tuple[bool, bool, bool, int, bytes]:
        drawn = hashlib.blake2b("\0".join([node.node, *sorted(tables)]).encode(), digest_size=8).digest()
        is_cold = held[node.node] < enough
        return node.node in late, is_cold, node.address != last, running.get(node.address, 0), drawn

    return sorted(nodes, key=rank)


def _held_bytes(node: NodeRecord, tables: Collection[str]) -> int:
    cached = node.detail.get("cached")
    return sum(int(cached.get(table, 0)) for table in tables) if isinstance(cached, dict) else 0


class Running:
    """How many queries this front has under way at each node, and who answered each session last. For the event
    loop's thread."""

    def __init__(self) -> None:
        self.by_address: Counter[str] = Counter()

    def begin(self, address: str) -> None:
        self.by_address[address] += 1

    def end(self, address: str) -> None:
        self.by_address[address] -= 1
        if not self.by_address[address]:
            del self.by_address[address]
