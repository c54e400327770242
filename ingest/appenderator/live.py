"""Decides which live chunks answer a query, from the committed offsets it brings (PR-1), and serves their bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from ingest.appenderator.hydrant import Hydrant, Piece, positions_of
from ingest.appenderator.sequence_rows import SequenceRows
from segments.interval import Interval
from segments.live import ChunkInfo, LiveAnswer, LiveAsk, LiveSequence, LiveStatus
from segments.parquet.spill import open_runs, with_dictionaries
from segments.rollup import TIME_OF_PREFIX


def live_answer(
    ask: LiveAsk, token: str, group: int, sequences: Sequence[SequenceRows], dropped_through: int
) -> LiveAnswer:
    """``sequences`` in order of number; ``dropped_through`` is the table version below which some are gone (PR-6)."""

    def refused(status: LiveStatus, detail: str) -> LiveAnswer:
        return LiveAnswer(status, token, group, detail=detail)

    if ask.group != group:
        return refused(LiveStatus.NOT_THERE, f"this task reads group {group}, not {ask.group}")
    if ask.version < dropped_through:
        return refused(LiveStatus.TOO_OLD, f"version {ask.version} is below {dropped_through}")
    live: list[LiveSequence] = []
    for sequence in sequences:
        # Taken once: the ingest thread may replace both meanwhile.
        record, hydrants = sequence.record, sequence.hydrants
        if not _starts_at_or_after(record.start, ask.vector):
            # A publish moves all partitions of a sequence at once: whatever this task has heard of its end
            # or its publish, the committed offsets say that its rows are in segments.
            continue
        for partition, epoch in record.epochs.items():
            if ask.epochs.get(partition, epoch) != epoch:
                return refused(LiveStatus.EPOCH, f"partition {partition} was reset")
        live.append(
            LiveSequence(
                number=record.ref.number,
                spec_version=record.spec_version,
                start=dict(record.start),
                position=dict(positions_of(record.start, hydrants)),
                end=None if record.end is None else dict(record.end),
                chunks=chunks_of(record.ref.number, hydrants),
            )
        )
    if live and any(live[0].start.get(p, offset) != offset for p, offset in ask.vector.items()):
        return refused(LiveStatus.NOT_THERE, f"the first live sequence starts at {live[0].start}, past the vector")
    return LiveAnswer(LiveStatus.OK, token, group, tuple(live))


def chunks_of(number: int, hydrants: Sequence[Hydrant]) -> tuple[ChunkInfo, ...]:
    """Every live chunk in order of arrival."""
    return tuple(piece.info(number, hydrant.ranges_for_chunks()) for hydrant in hydrants for piece in hydrant.pieces)


def _starts_at_or_after(start: Mapping[int, int], vector: Mapping[int, int]) -> bool:
    return all(offset >= vector.get(partition, offset) for partition, offset in start.items())


def chunk_stream(piece: Piece) -> bytes | None:
    """The chunk's rows with exactly the segment's columns, as one IPC stream.

    Texts in memory go as they are: making dictionaries took a fifth of what reading the rows did, for rows that are
    few, are looked at once or twice, and come again with dictionaries when they are spilled.
    """
    if piece.batch is not None:
        table = _stored(pa.Table.from_batches([piece.batch]))
    else:
        assert piece.path is not None
        if not piece.path.exists():
            return None
        inside = Interval(piece.min_time_ms, piece.max_time_ms + 1)
        runs = pa.Table.from_batches([run.batch for run in open_runs([piece.path], inside)])
        table = with_dictionaries(_stored(runs))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def _stored(table: pa.Table) -> pa.Table:
    """Without what only the task needs."""
    return table.select([name for name in table.schema.names if not name.startswith(TIME_OF_PREFIX)])
