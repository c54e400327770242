"""Decodes polls into one batch: typed structs first, single rows where needed, then filter, windows and columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ingest.appenderator.decoding.assembly import assemble
from ingest.appenderator.decoding.batch import DecodedBatch, Fate, Fates, Ints, Rejected, RowProblem, Run
from ingest.appenderator.decoding.columns import ColumnReader, joined
from ingest.appenderator.decoding.discovery import Discoverer
from ingest.appenderator.decoding.failing import marked
from ingest.appenderator.decoding.fast import FastReader
from ingest.appenderator.decoding.formats import document_reader
from ingest.appenderator.decoding.non_finite import holds_non_finite
from ingest.appenderator.decoding.objects import ObjectReader
from ingest.appenderator.decoding.plan import Source, compile_plan
from ingest.appenderator.decoding.records import Beside, kept_by_headers, messages_of, wanted_documents
from ingest.appenderator.decoding.slow import SlowMessage, SlowReader, SlowRow
from ingest.appenderator.decoding.transforms import Transforms
from ingest.spec.model import DataSchema, Discovery, JsonFormat, Rejection
from ingest.stream.schemas import SchemaSources
from ingest.stream.supplier import OpenDocuments, Poll
from segments.arrow_arrays import ArrowArray, array_of
from segments.coercion import spelt
from segments.filter.evaluate import passing_rows
from segments.time_arrays import TimeReader

_INPUT_SHOWN_BYTES: Final = 2_000
_FAR_PAST: Final = -(2**63)


@dataclass(slots=True)
class _Rows:
    """Rows between reading and assembly, in message order."""

    times_ms: Ints
    row_message: Ints
    columns: list[ArrowArray]  # of an auto field a list of values until `_built`
    documents: list[dict[str, Any]]


@dataclass(slots=True)
class _Messages:
    """The messages of all polls side by side."""

    values: list[bytes | None]
    offsets: Ints
    partitions: Ints
    timestamps_ms: Ints
    runs: tuple[Run, ...]
    sources: dict[int, tuple[str, int]]


class RowDecoder:
    """Decodes one spec version's messages. For one thread.

    ``only_slow`` leaves the fast way out; the result is the same, which tests rely on. ``schemas`` opens
    the registries that the format names.
    """

    def __init__(
        self,
        schema: DataSchema,
        rejection: Rejection | None = None,
        *,
        only_slow: bool = False,
        schemas: SchemaSources | None = None,
    ) -> None:
        self._plan = compile_plan(schema)
        self._rejection = rejection or Rejection()
        exact = holds_non_finite(schema.input_format)
        self._readers = [ColumnReader(field, non_finite=exact) for field in self._plan.fields]
        self._times = TimeReader(schema.timestamp.format)
        documents = document_reader(schema.input_format, schemas)
        plain = isinstance(schema.input_format, JsonFormat)
        self._fast: FastReader | ObjectReader = FastReader(self._plan) if plain else ObjectReader(self._plan, documents)
        self._transforms = Transforms(self._plan.transforms, self._plan.time_transform)
        self._slow = SlowReader(self._plan, self._readers, self._transforms, documents)
        self._discoverer = Discoverer(self._plan)
        self._only_slow = only_slow

    def decode(self, polls: Sequence[Poll], opened_at_ms: int) -> DecodedBatch:
        """One batch of all polls. ``opened_at_ms`` is the stored time of the sequence (PR-15).

        Raises:
            SchemaRegistryUnreachable, DescriptorUnusable: nothing was decided; decode the same polls again.
        """
        messages = _gather(polls)
        fates: Fates = np.full(len(messages.values), Fate.GOOD, dtype=np.uint8)
        rows, slow = self._read_kept(polls, fates)
        rejected, problems = _judge(messages, slow, fates, Beside(polls))
        hiding = {name: rows.columns[at] for name, at in self._plan.shadowed}
        # Whole objects are read for paths as well, where nothing is to be discovered.
        discovers = self._fast.reads_objects and self._plan.discovery is not Discovery.NONE
        discovered = self._discoverer.read(rows.documents, hiding) if discovers else {}
        keep = self._kept(rows, discovered, messages, fates, opened_at_ms)
        for at, message in slow.items():
            if message.reasons and message.rows:
                fates[at] = Fate.UNPARSEABLE if fates[at] not in (Fate.GOOD, Fate.PARTLY) else Fate.PARTLY
            elif fates[at] == Fate.GOOD and any(row.errors for row in message.rows):
                fates[at] = Fate.PARTLY
        schema, batch = assemble(self._plan, rows.times_ms, rows.columns, discovered, self._readers, keep)
        truncated: dict[str, int] = {}
        for message in slow.values():
            for label in message.truncated:
                truncated[label] = truncated.get(label, 0) + 1
        return DecodedBatch(
            schema=schema,
            rows=batch,
            row_message=rows.row_message if keep is None else rows.row_message[keep],
            event_times_ms=rows.times_ms if keep is None else rows.times_ms[keep],
            runs=messages.runs,
            offsets=messages.offsets,
            fates=fates,
            rejected=tuple(rejected),
            problems=tuple(problems),
            truncated=truncated,
        )

    def _read_kept(self, polls: Sequence[Poll], fates: Fates) -> tuple[_Rows, dict[int, SlowMessage]]:
        """As ``_read``, without the records that their headers keep out, whose fates are set."""
        schema = self._plan.schema
        values = messages_of(polls, schema.input_format)
        wanted = wanted_documents(polls)
        if schema.header_filter is None:
            return self._read(values, wanted)
        kept = kept_by_headers(polls, schema.header_filter)
        fates[~kept] = Fate.FILTERED
        at: Ints = np.flatnonzero(kept).astype(np.int64)
        kept_wanted = {new: wanted[old] for new, old in enumerate(at.tolist()) if old in wanted} if wanted else {}
        rows, slow = self._read([values[position] for position in at], kept_wanted)
        rows.row_message = at[rows.row_message]
        return rows, {int(at[position]): message for position, message in slow.items()}

    def _read(self, values: list[Any], wanted: Mapping[int, OpenDocuments]) -> tuple[_Rows, dict[int, SlowMessage]]:
        """Rows of all messages in order, and what the slow way found in those it read."""
        nothing: tuple[list[Any], list[int]] = ([], list(range(len(values))))
        fast_rows, rejected = nothing if self._only_slow or wanted else self._fast.read(values)
        message_of: Ints = np.arange(len(values), dtype=np.int64)
        if rejected:
            message_of = np.delete(message_of, rejected)
        rows, bad = self._read_fast(fast_rows, message_of)
        rejected = sorted([*rejected, *bad])
        slow = {at: self._slow.read(values[at], wanted.get(at)) for at in rejected}
        slow_rows = [(at, row) for at, message in slow.items() for row in message.rows]
        return self._built(self._merged(rows, slow_rows)), slow

    def _read_fast(self, fast_rows: list[Any], message_of: Ints) -> tuple[_Rows, list[int]]:
        """Columns of the structs; rows that some column or the time cannot take are left out and named."""
        if not fast_rows:
            return _Rows(message_of[:0], message_of[:0], [reader.read([])[0] for reader in self._readers], []), []
        bad = np.zeros(len(fast_rows), dtype=np.bool_)

        def column_of(source: Source) -> list[Any]:
            return marked(self._fast.column(fast_rows, source), source, bad)

        times_ms, good = self._read_times(column_of(self._plan.time))
        columns: list[ArrowArray] = []
        bad |= ~good
        computed = self._transforms.of_rows(column_of, times_ms, bad)
        times_ms = self._transforms.times_of(computed, times_ms, bad)
        for reader in self._readers:
            source = reader.field.source
            if reader.field.computed is not None:
                column, bad_rows = reader.read_computed(computed[reader.field.computed])
                columns.append(column)
                bad[bad_rows] = True
                continue
            ready = self._fast.arrow(fast_rows, source)
            if ready is not None and reader.takes(ready):
                columns.append(ready)
                continue
            column, bad_rows = reader.read(column_of(source), typed=self._fast.is_typed(source))
            columns.append(column)
            bad[bad_rows] = True
        for _, source in self._plan.programs:
            column_of(source)
        documents: list[dict[str, Any]] = fast_rows if self._fast.reads_objects else []
        rows = _Rows(times_ms, message_of, columns, documents)
        if not bad.any():
            return rows, []
        return _selected(rows, np.flatnonzero(~bad)), [int(at) for at in message_of[bad]]

    def _read_times(self, values: list[Any]) -> tuple[Ints, npt.NDArray[np.bool_]]:
        times_ms, good = self._times.read(values)
        missing_ms = self._plan.schema.timestamp.missing_ms
        if missing_ms is not None and not good.all():
            absent = np.fromiter((value is None for value in values), dtype=np.bool_, count=len(values))
            times_ms = np.where(absent, missing_ms, times_ms)
            good = good | absent
        return times_ms, good

    def _merged(self, rows: _Rows, slow_rows: list[tuple[int, SlowRow]]) -> _Rows:
        if not slow_rows:
            return rows
        columns: list[Any] = []
        for at, (reader, column) in enumerate(zip(self._readers, rows.columns, strict=True)):
            values = [row.values[at] for _, row in slow_rows]
            columns.append([*column, *values] if isinstance(column, list) else joined(column, reader.build(values)))
        times_ms = np.array([row.time_ms for _, row in slow_rows], dtype=np.int64)
        row_message = np.array([message for message, _ in slow_rows], dtype=np.int64)
        merged = _Rows(
            np.concatenate((rows.times_ms, times_ms)),
            np.concatenate((rows.row_message, row_message)),
            columns,
            [*rows.documents, *(row.document for _, row in slow_rows)] if self._fast.reads_objects else [],
        )
        if not len(rows.row_message):
            return merged
        return _selected(merged, np.argsort(merged.row_message, kind="stable"))

    def _built(self, rows: _Rows) -> _Rows:
        for at, (reader, column) in enumerate(zip(self._readers, rows.columns, strict=True)):
            if isinstance(column, list):
                rows.columns[at] = reader.build(column)
        return rows

    def _kept(
        self,
        rows: _Rows,
        discovered: dict[str, tuple[ArrowArray, ColumnReader]],
        messages: _Messages,
        fates: Fates,
        opened_at_ms: int,
    ) -> npt.NDArray[np.bool_] | None:
        """Which rows pass filter and windows (None: all); marks messages of which none does."""
        row_fates: Fates = np.full(len(rows.times_ms), Fate.GOOD, dtype=np.uint8)
        rejection, schema = self._rejection, self._plan.schema
        if rejection.early_period_ms is not None:
            latest_ms = np.maximum(messages.timestamps_ms[rows.row_message], opened_at_ms) + rejection.early_period_ms
            row_fates[rows.times_ms > latest_ms] = Fate.EARLY
        earliest_ms = rejection.late_start_ms if rejection.late_start_ms is not None else _FAR_PAST
        if rejection.late_period_ms is not None:
            earliest_ms = opened_at_ms - rejection.late_period_ms
        row_fates[rows.times_ms < earliest_ms] = Fate.LATE
        if schema.filter is not None:
            names = {name: rows.columns[at] for name, at in self._plan.filter_fields}
            found = {name: column for name, (column, _) in discovered.items()}
            passing = passing_rows(schema.filter, {**found, **names}, rows.times_ms)
            row_fates[~passing] = Fate.FILTERED
        keep: npt.NDArray[np.bool_] = row_fates == Fate.GOOD
        if keep.all():
            return None
        fates[rows.row_message[~keep]] = row_fates[~keep]
        fates[rows.row_message[keep]] = Fate.GOOD
        return keep


def _selected(rows: _Rows, positions: npt.NDArray[np.intp]) -> _Rows:
    taken = array_of(positions)
    return _Rows(
        rows.times_ms[positions],
        rows.row_message[positions],
        [[c[at] for at in positions] if isinstance(c, list) else c.take(taken) for c in rows.columns],
        [rows.documents[at] for at in positions] if rows.documents else [],
    )


def _gather(polls: Sequence[Poll]) -> _Messages:
    values: list[bytes | None] = []
    runs: list[Run] = []
    offsets: list[Ints] = []
    timestamps: list[Ints] = []
    for poll in polls:
        first, count = len(values), len(poll.values)
        values.extend(poll.values)
        at = poll.offsets
        offsets.append(np.arange(at.start, at.stop, at.step) if isinstance(at, range) else np.array(at, dtype=np.int64))
        known = len(poll.timestamps_ms) == count
        timestamps.append(np.array(poll.timestamps_ms if known else [-1] * count, dtype=np.int64))
        runs.append(Run(poll.partition, poll.first_offset, poll.end_offset, first, len(values)))
    empty: Ints = np.empty(0, dtype=np.int64)
    partitions = [np.full(run.end_message - run.first_message, run.partition, dtype=np.int64) for run in runs]
    return _Messages(
        values,
        np.concatenate([empty, *offsets]),
        np.concatenate([empty, *partitions]),
        np.concatenate([empty, *timestamps]),
        tuple(runs),
        {poll.partition: poll.source for poll in polls if poll.source is not None},
    )


def _judge(
    messages: _Messages, slow: dict[int, SlowMessage], fates: Fates, beside: Beside
) -> tuple[list[Rejected], list[RowProblem]]:
    """Fates of blank and unparseable messages, the quarantine's records, and what samples are taken from."""
    rejected: list[Rejected] = []
    problems: list[RowProblem] = []
    for at, message in slow.items():
        # What a message holds may be quoted in what is said of it.
        reasons = list(map(spelt, message.reasons))
        details = tuple([*reasons, *(spelt(error) for row in message.rows for error in row.errors)])
        if message.blank:
            fates[at] = Fate.TOMBSTONE
        elif not message.rows:
            fates[at] = Fate.UNPARSEABLE
            details = details or ("no document in the message",)
        if not details:
            continue
        partition, offset = int(messages.partitions[at]), int(messages.offsets[at])
        source = messages.sources.get(partition)
        value = messages.values[at]
        if message.reasons or not message.rows:
            time_ms, reason = int(messages.timestamps_ms[at]), "; ".join(reasons or details)
            key, headers, parts, wanted = beside.of(at)
            # Where some of its documents are rows, by now or before, the others are named.
            part = OpenDocuments(tuple(message.bad), message.of) if message.rows or wanted is not None else None
            rejected.append(Rejected(partition, offset, time_ms, value, reason, source, key, headers, parts, part))
        shown = (value or b"")[:_INPUT_SHOWN_BYTES].decode(errors="replace")
        problems.append(RowProblem(partition, offset, fates[at] == Fate.UNPARSEABLE, details, shown, source))
    return rejected, problems
