"""The metadata store as a query node sees it: one table's snapshot in the query side's own terms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import orjson

from ingest.clock import Clock
from ingest.metadata.records import GroupState, StreamOffsets, TableState
from ingest.metadata.store import MetadataStore
from ingest.offsets import OffsetMap, furthest
from ingest.protocol import AttemptState, SequenceState
from ingest.spec import DataSchema, parse_supervisor_spec
from query.source import LiveAttempt, RequiredSequence, TableSnapshot
from segments.interval import Granularity
from segments.schema import JSON, TIME_COLUMN, ColumnSpec, ColumnType, SegmentSchema

UNPUBLISHED = (SequenceState.OPEN, SequenceState.SEALED)
ANSWERING = (AttemptState.RUNNING, AttemptState.STOPPING)


class StoreCatalog:
    """``query.source.SegmentCatalog`` over a metadata store; safe from any thread."""

    def __init__(self, store: MetadataStore, clock: Clock, roles: Sequence[str], detail: dict[str, Any]) -> None:
        self._store = store
        self._clock = clock
        self._roles = tuple(roles)
        self._detail = detail
        self._told: Callable[[], dict[str, Any]] = dict

    def also_tell(self, told: Callable[[], dict[str, Any]]) -> None:
        """What else to say of this node in its lease row; asked at every renewal, before the node starts."""
        self._told = told

    def versions(self) -> dict[str, int]:
        return self._store.table_versions()

    def snapshot(self, datasource: str, since: int | None) -> TableSnapshot | None:
        # No table has such a name, and not every database takes it as a question.
        state = None if "\0" in datasource else self._store.table(datasource, since)
        if state is None:
            return None
        rows = tuple(row.segment for row in state.segments if row.removed is None or row.removed > state.version)
        whole = since is None
        streams = tuple(_read_now(state))
        return TableSnapshot(
            datasource=datasource,
            version=state.version,
            schema=_declared(state),
            segments=rows if whole else (),
            added=() if whole else rows,
            removed=() if whole else state.removed,
            committed={stream.supervisor: dict(stream.committed) for stream in streams},
            epochs={stream.supervisor: dict(stream.epochs) for stream in streams},
            required=tuple(_required(state.groups)),
            attempts=tuple(_attempts(state.groups)),
        )

    def acknowledge(self, node: str, address: str, versions: dict[str, int]) -> None:
        detail = self._detail | self._told()
        self._store.renew_node(node, self._roles, address, self._clock.now_ms(), versions, detail)


def _read_now(state: TableState) -> Iterable[StreamOffsets]:
    """Of a supervisor that has read several topics the offsets of the one that its newest spec names: a spec with
    another topic is taken only when all of the one before is published. None while it has no offsets yet."""
    for stream in state.streams:
        versions = state.specs.get(stream.supervisor)
        if versions is None or _topic_of(orjson.dumps(versions[max(versions)])) == stream.topic:
            yield stream


@lru_cache(maxsize=1_000)
def _topic_of(posted: bytes) -> str:
    return parse_supervisor_spec(orjson.loads(posted))[0].io.topic


def _required(groups: Iterable[GroupState]) -> Iterable[RequiredSequence]:
    for group in groups:
        for sequence in group.sequences:
            if not sequence.assigned or sequence.state not in UNPUBLISHED:
                continue
            reported = sequence.start
            if sequence.state is SequenceState.OPEN:
                reported = furthest(sequence.start, group.reported.restrict(_shared(group.reported, sequence.start)))
            yield RequiredSequence(
                supervisor=group.supervisor,
                group=group.group,
                number=sequence.ref.number,
                spec_version=sequence.spec_version,
                start=dict(sequence.start),
                epochs=dict(sequence.epochs),
                end=None if sequence.end is None else dict(sequence.end),
                reported=dict(reported),
            )


def _shared(one: OffsetMap, other: OffsetMap) -> list[int]:
    return [partition for partition in one if partition in other]


def _attempts(groups: Iterable[GroupState]) -> Iterable[LiveAttempt]:
    for group in groups:
        for attempt in group.attempts:
            if attempt.address is not None and attempt.state in ANSWERING:
                yield LiveAttempt(group.supervisor, group.group, attempt.token, attempt.address, attempt.committer)


def _declared(state: TableState) -> SegmentSchema:
    """What the newest specs of the table's supervisors declare; only the time where there is none."""
    columns: dict[str, ColumnSpec] = {}
    granularity, rollup = Granularity.of("NONE"), False
    for versions in state.specs.values():
        declared = declared_schema(orjson.dumps(versions[max(versions)]))
        granularity, rollup = declared.query_granularity, declared.rollup
        for column in declared.columns:
            columns.setdefault(column.name, column)
    columns.setdefault(TIME_COLUMN, ColumnSpec(TIME_COLUMN, ColumnType.LONG, kind="time"))
    ordered = sorted(columns.values(), key=lambda column: ("time", "dimension", "metric").index(column.kind))
    return SegmentSchema.of(ordered, granularity, rollup)


@lru_cache(maxsize=1_000)
def declared_schema(posted: bytes) -> SegmentSchema:
    """The columns a posted spec names; those that only rows can tell (auto, discovered) are left out."""
    spec, _ = parse_supervisor_spec(orjson.loads(posted))
    schema = spec.data_schema
    columns = [ColumnSpec(TIME_COLUMN, ColumnType.LONG, kind="time"), *_dimensions(schema)]
    columns += [metric.column for metric in schema.metrics]
    return SegmentSchema.of(columns, schema.query_granularity, schema.rollup)


def _dimensions(schema: DataSchema) -> Iterable[ColumnSpec]:
    for dimension in schema.dimensions:
        kind = dimension.cast_to or dimension.type.upper()
        if kind == "JSON":
            yield ColumnSpec(dimension.name, ColumnType.COMPLEX, complex_type=JSON)
        elif kind != "AUTO" and dimension.name != TIME_COLUMN:
            yield ColumnSpec(dimension.name, ColumnType(kind))
