"""A supervisor spec as frozen values: what Druid's JSON says, with its defaults filled in (pure data).

Periods are milliseconds; names are Druid's in snake case. Nothing here reads JSON; see
``ingest.spec.parsing``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Protocol

from ingest.spec.combining import combining
from ingest.spec.json_path import Step
from segments.expression.tree import Expression, columns_of
from segments.filter.model import Filter
from segments.interval import Granularity
from segments.parquet.codecs import Codecs
from segments.schema import ColumnSpec, ColumnType
from segments.sketch.shape import HYPER_UNIQUE, SketchShape

SAVED_UNSTATED: Final = 10
"""How many of the newest bad records are told where the spec does not say; Druid would tell none."""
UNLIMITED: Final = 2_147_483_647
"""Druid's spelling of "no limit" for parse exceptions."""


@dataclass(frozen=True, slots=True)
class TimestampSpec:
    """Where a row's time comes from. ``missing_ms`` stands in for a missing or null value, never for a bad one."""

    column: str = "timestamp"
    format: str = "auto"
    missing_ms: int | None = None


class MultiValueHandling(Enum):
    """What becomes of the order of a multi-value string dimension."""

    SORTED_ARRAY = "sorted_array"
    SORTED_SET = "sorted_set"
    ARRAY = "array"


@dataclass(frozen=True, slots=True)
class Dimension:
    """One declared dimension. ``type`` is string, long, float, double, json or auto; ``cast_to`` (auto only)
    is STRING, LONG, DOUBLE, or ARRAY<...> of one of them."""

    name: str
    type: str = "string"
    multi_value: MultiValueHandling = MultiValueHandling.SORTED_ARRAY
    cast_to: str | None = None


@dataclass(frozen=True, slots=True)
class Metric:
    """One aggregator; ``field`` is the input field ("" for count). ``type`` is Druid's name; of a filtered one, that
    of the aggregator inside.

    ``filter``: only rows that pass it count. ``sketch``: what the column's sketches are; ``stored_input``: the field
    holds sketches in base64, not values; ``numbers`` name the fields beside a tuple's key. ``time_field`` decides
    between values of a first or last in place of the row's time. Texts are cut at ``max_bytes``. ``expression`` stands
    in the place of ``field``; it sees transforms.
    """

    name: str
    type: str
    field: str = ""
    filter: Filter | None = None
    sketch: SketchShape | None = None
    stored_input: bool = False
    numbers: tuple[str, ...] = ()
    time_field: str = ""
    max_bytes: int = 1024
    expression: Expression | None = None

    @property
    def column(self) -> ColumnSpec:
        """The stored column."""
        united = combining(self.type, self.sketch, self.max_bytes, self.time_field)
        if self.sketch is not None:
            complex_type = HYPER_UNIQUE if self.type == HYPER_UNIQUE else self.sketch.kind.value
            return ColumnSpec(
                self.name, ColumnType.COMPLEX, kind="metric", complex_type=complex_type, aggregator=united
            )
        stored = _METRIC_COLUMNS.get(self.type_prefix, ColumnType.LONG)
        return ColumnSpec(self.name, stored, kind="metric", aggregator=united)

    @property
    def type_prefix(self) -> str:
        """``long``, ``double``, ``float`` or ``string``; ``count`` and sketches have their type's own name."""
        return next((prefix for prefix in _METRIC_COLUMNS if self.type.startswith(prefix)), self.type)

    @property
    def fields(self) -> tuple[str, ...]:
        """Every input field that it alone reads; those of its filter are the filter's."""
        computed = columns_of(self.expression) if self.expression is not None else ()
        return tuple(name for name in (self.field, *self.numbers, self.time_field, *computed) if name)


_METRIC_COLUMNS: Final = {
    "long": ColumnType.LONG,
    "double": ColumnType.DOUBLE,
    "float": ColumnType.FLOAT,
    "string": ColumnType.STRING,
}


@dataclass(frozen=True, slots=True)
class Transform:
    """A field computed from a row's input fields and its time, never from other transforms. It hides an input field of
    its name. ``__time`` replaces the row's time."""

    name: str
    expression: Expression


class Discovery(Enum):
    """Which undeclared fields become dimensions."""

    NONE = "none"
    STRINGS = "strings"  # Druid's classic mode: root-level simple fields, as strings
    TYPED = "typed"  # useSchemaDiscovery: the least restrictive type that fits


@dataclass(frozen=True, slots=True)
class FlattenField:
    """A field computed from each object: ``steps`` lead to it from the root."""

    name: str
    steps: tuple[Step, ...]


class Documents(Enum):
    """How a message that holds several JSON documents is read (Druid's three readers)."""

    WHOLE = "whole"  # a syntax error anywhere rejects the whole message
    LINES = "lines"  # assumeNewlineDelimited: each line for itself
    PREFIX = "prefix"  # useJsonNodeReader: what stands before a syntax error is kept


class InputFormat(Protocol):
    """How messages become documents: ``JsonFormat`` or one of ``ingest.spec.formats``.

    ``flatten`` are fields computed from each document; ``discover_fields`` False leaves only those.
    """

    @property
    def flatten(self) -> tuple[FlattenField, ...]: ...
    @property
    def discover_fields(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class JsonFormat:
    """``inputFormat`` of type json. ``features`` are what Jackson is told to take beside JSON."""

    flatten: tuple[FlattenField, ...] = ()
    discover_fields: bool = True
    documents: Documents = Documents.WHOLE
    features: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class HeaderFilter:
    """``headerBasedFilterConfig``: a record whose last header ``name`` has another value than these is filtered.

    A record without the header is kept.
    """

    name: str
    values: frozenset[str]
    encoding: str = "utf-8"


@dataclass(frozen=True, slots=True)
class DataSchema:
    """What decides a table's rows: everything here is part of the identity of a spec version."""

    datasource: str
    timestamp: TimestampSpec
    dimensions: tuple[Dimension, ...]
    exclusions: frozenset[str]
    discovery: Discovery
    metrics: tuple[Metric, ...]
    segment_granularity: Granularity
    query_granularity: Granularity
    rollup: bool
    filter: Filter | None
    input_format: InputFormat
    reject_bad_values: bool = False
    transforms: tuple[Transform, ...] = ()
    header_filter: HeaderFilter | None = None


@dataclass(frozen=True, slots=True)
class Rejection:
    """Windows outside of which rows are thrown away, relative to the sequence's stored time (PR-15)."""

    late_period_ms: int | None = None
    late_start_ms: int | None = None
    early_period_ms: int | None = None


@dataclass(frozen=True, slots=True)
class IdleConfig:
    """How long a stream must be quiet and read to its end for its tasks to publish and end."""

    enabled: bool = False
    inactive_after_ms: int = 600_000


@dataclass(frozen=True, slots=True)
class Bounds:
    """The only range that is read, per partition from ``starts`` to ``ends``: the same partitions, no end below its
    start."""

    starts: dict[int, int] = field(hash=False)
    ends: dict[int, int] = field(hash=False)


class LagAggregate(Enum):
    """How the lags of all partitions become one number."""

    SUM = "SUM"
    MAX = "MAX"
    AVERAGE = "AVERAGE"


@dataclass(frozen=True, slots=True)
class AutoScaling:
    """Druid's lag based auto scaler, switched on. Lags are records; fractions are shares of the samples kept.

    ``scale_out_delay_ms`` and ``scale_in_delay_ms`` must have passed since the last change of the number
    of tasks. Both bounds of that number are at least 1 and in order.
    """

    task_count_min: int
    task_count_max: int
    collection_interval_ms: int = 30_000
    collection_range_ms: int = 600_000
    start_delay_ms: int = 300_000
    period_ms: int = 60_000
    scale_out_threshold: int = 6_000_000
    scale_out_fraction: float = 0.3
    scale_in_threshold: int = 1_000_000
    scale_in_fraction: float = 0.9
    scale_out_step: int = 2
    scale_in_step: int = 1
    scale_out_delay_ms: int = 600_000
    scale_in_delay_ms: int = 600_000
    aggregate: LagAggregate = LagAggregate.SUM


@dataclass(frozen=True, slots=True)
class IOConfig:
    """Where rows come from and how tasks are laid out. ``consumer_properties`` are as posted, secrets unresolved.

    With ``auto_scaling`` the number of tasks begins at ``task_count``. ``topic`` is the stream's name: of a
    ``topicPattern`` the pattern between slashes, which no topic can be called.
    """

    topic: str
    consumer_properties: dict[str, Any] = field(hash=False)
    task_count: int = 1
    replicas: int = 1
    task_duration_ms: int = 3_600_000
    start_delay_ms: int = 5_000
    period_ms: int = 30_000
    completion_timeout_ms: int = 1_800_000
    poll_timeout_ms: int = 100
    use_earliest_offset: bool = False
    stop_task_count: int | None = None
    rejection: Rejection = Rejection()
    idle: IdleConfig = IdleConfig()
    auto_scaling: AutoScaling | None = None
    time_lag: bool = False
    bounds: Bounds | None = None

    @property
    def stream(self) -> str:
        """Topic or pattern, as people write it."""
        return self.topic if self.topic_pattern is None else self.topic_pattern

    @property
    def topic_pattern(self) -> str | None:
        return self.topic[1:-1] if self.topic.startswith("/") else None


@dataclass(frozen=True, slots=True)
class TuningConfig:
    """Limits and patience. ``max_bytes_in_memory``: 0 asks for the task's own default, -1 is unlimited.

    ``intermediate_handoff_period_ms`` None means never by time.
    """

    max_rows_in_memory: int = 150_000
    max_bytes_in_memory: int = 0
    max_rows_per_segment: int = 5_000_000
    max_total_rows: int = 20_000_000
    intermediate_persist_period_ms: int = 600_000
    intermediate_handoff_period_ms: int | None = None
    max_pending_persists: int = 0
    log_parse_exceptions: bool = False
    max_parse_exceptions: int = UNLIMITED
    max_saved_parse_exceptions: int = SAVED_UNSTATED
    handoff_condition_timeout_ms: int = 900_000
    reset_offset_automatically: bool = False
    http_timeout_ms: int = 10_000
    shutdown_timeout_ms: int = 80_000
    offset_fetch_period_ms: int = 30_000
    chat_retries: int = 8
    reject_bad_values: bool = False
    codecs: Codecs = Codecs()


@dataclass(frozen=True, slots=True)
class SupervisorSpec:
    """A whole spec. ``posted`` is the JSON object exactly as it came, and what GET answers."""

    supervisor: str
    suspended: bool
    data_schema: DataSchema
    io: IOConfig
    tuning: TuningConfig
    context: dict[str, Any] = field(hash=False)
    posted: dict[str, Any] = field(hash=False, compare=False, repr=False)

    @property
    def datasource(self) -> str:
        return self.data_schema.datasource


def rows_differ(old: SupervisorSpec, new: SupervisorSpec) -> bool:
    """Whether the same records could become other rows, so that the change must cut over at a checkpoint.

    Layout (tasks, replicas), limits and patience do not count; the topic does, because its offsets are others.
    """
    return (old.data_schema, old.io.topic, old.io.rejection) != (new.data_schema, new.io.topic, new.io.rejection)
