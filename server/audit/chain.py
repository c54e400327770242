"""Judges the ledger of one stream: ranges without gap or overlap up to the committed offsets, sums that fit (pure).

Per partition and reset epoch the published ranges must join, the first at the epoch's stored start, the
last at the committed offset. A jump from one epoch to the next needs an audit row that names the
partition. Each range's messages must add up: every offset is a message with one fate, or no record.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ingest.metadata.records import AuditRow, LedgerRow, StreamOffsets
from ingest.protocol import Place

Link = tuple[int, int, str]
"""(start, end, sequence name) of one published range of a partition."""


def chain_faults(
    stream: StreamOffsets, ledger: Sequence[LedgerRow], audits: Sequence[AuditRow], places: Iterable[Place] = ()
) -> Iterator[str]:
    """Every fault of one (supervisor, topic); ``ledger`` in version order, ``places`` those of several topics."""
    names = {place.number: place.name for place in places}

    def name(partition: int) -> str:
        return names.get(partition, f"{stream.topic}[{partition}]")

    links: dict[tuple[int, int], list[Link]] = defaultdict(list)
    for row in ledger:
        yield from _count_faults(row, names)
        for partition, start in row.start.items():
            links[partition, row.epochs[partition]].append((start, row.end[partition], row.ref.name))
    known = {partition for partition, _ in links}
    for partition in sorted(known - set(stream.committed)):
        yield f"{name(partition)}: the ledger holds ranges of a partition without stored offsets"
    for partition, committed in stream.committed.items():
        epoch = stream.epochs.get(partition, 0)
        where = f"{name(partition)} epoch {epoch}"
        yield from _epoch_faults(where, stream.starts.get(partition), committed, links.get((partition, epoch), []))
        earlier = {e: found for (p, e), found in links.items() if p == partition and e < epoch}
        for old, found in sorted(earlier.items()):
            yield from _join_faults(f"{name(partition)} epoch {old}", found)
        if not any(_names(audit, partition) for audit in audits):
            begin = stream.starts.get(partition, committed)
            yield from _jump_faults(name(partition), {**earlier, epoch: [(begin, begin, "its start")]})


def _epoch_faults(where: str, begin: int | None, committed: int, links: list[Link]) -> Iterator[str]:
    moved = sorted(link for link in links if link[0] != link[1])
    yield from _join_faults(where, links)
    if begin is None:
        yield f"{where}: no stored start"
    elif moved and moved[0][0] != begin:
        yield f"{where}: the first range begins at {moved[0][0]}, the stored start is {begin}"
    last = moved[-1][1] if moved else begin
    if last is not None and last != committed:
        yield f"{where}: the ranges end at {last}, the committed offset is {committed}"


def _jump_faults(where: str, by_epoch: dict[int, list[Link]]) -> Iterator[str]:
    """An epoch may be raised in place (a suspension does); one that begins elsewhere was moved by somebody."""
    last: int | None = None
    for epoch, links in sorted(by_epoch.items()):
        begin = min(start for start, _, _ in links)
        if last is not None and begin != last:
            yield f"{where}: epoch {epoch} begins at {begin}, not at {last}, but no audit row says who moved the offset"
        last = max(end for _, end, _ in links)


def _join_faults(where: str, links: Iterable[Link]) -> Iterator[str]:
    previous: Link | None = None
    for link in sorted(link for link in links if link[0] != link[1]):
        if link[1] < link[0]:
            yield f"{where}: {link[2]} goes backwards from {link[0]} to {link[1]}"
        if previous is not None and link[0] > previous[1]:
            yield f"{where}: offsets {previous[1]} to {link[0]} are in no range (between {previous[2]} and {link[2]})"
        if previous is not None and link[0] < previous[1]:
            yield f"{where}: offsets {link[0]} to {previous[1]} are in two ranges ({previous[2]} and {link[2]})"
        previous = link


def _count_faults(row: LedgerRow, names: Mapping[int, str]) -> Iterator[str]:
    for partition, start in row.start.items():
        span = row.end[partition] - start
        counts = row.counts.get(partition)
        counted = counts.offsets if counts is not None else 0
        if counted != span:
            where = f"{row.ref.name}[{names.get(partition, partition)}]"
            yield f"{where}: {span} offsets, but {counted} messages and empty offsets were counted"
    if row.rows_stored > row.rows_in:
        yield f"{row.ref.name}: {row.rows_stored} rows stored of {row.rows_in} read"


def _names(audit: AuditRow, partition: int) -> bool:
    """Whether an audit row speaks of the partition, in whichever field it lists partitions."""
    for value in audit.detail.values():
        if isinstance(value, dict) and str(partition) in value:
            return True
        if isinstance(value, list | tuple) and partition in value:
            return True
    return False
