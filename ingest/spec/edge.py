"""The JSON shapes of Druid's supervisor spec for pydantic: types only; the rules are in ``ingest.spec.rules``.

Everything is optional here, so that one missing field does not hide what is wrong elsewhere. Numbers
and booleans may be written as text, as Druid reads them. Unknown fields are kept and reported.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    StrictStr,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel

from segments.civil import Period
from segments.errors import InvalidInterval

_MONTH_MS = 30 * 86_400_000
# Less than 63 bits by far: a period may be added to any time.
_PERIOD_MAX_MS = 2_147_483_647 * 86_400_000


def _period_ms(value: Any) -> int:
    """Druid's periods as milliseconds; a month counts as 30 days, a year as 365."""
    if not isinstance(value, str):
        raise ValueError("must be an ISO 8601 period as text, such as PT1H")
    try:
        period = Period.parse(value)
    except InvalidInterval as error:
        raise ValueError(str(error)) from error
    years, months = divmod(period.months, 12)
    whole_ms = years * 365 * 86_400_000 + months * _MONTH_MS + period.days * 86_400_000 + period.fixed_ms
    if whole_ms > _PERIOD_MAX_MS:
        raise ValueError("must not be longer than P2147483647D, Druid's way to say never")
    return whole_ms


def _named(value: Any) -> Any:
    """A bare name stands for an object with only a name."""
    return {"name": value} if isinstance(value, str) else value


PeriodMs = Annotated[int, PlainValidator(_period_ms)]


class Edge(BaseModel):
    """A JSON object with Druid's camel-case names; unknown fields are kept."""

    model_config = ConfigDict(alias_generator=to_camel, extra="allow", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, value: Any) -> Any:
        """As in Druid, a field that is null has its default."""
        return {k: v for k, v in value.items() if v is not None} if isinstance(value, dict) else value

    @field_validator("*")
    @classmethod
    def _fits_a_long(cls, value: Any) -> Any:
        """What neither Druid nor the metadata store could hold is refused where it is read, whatever the field."""
        if type(value) is int and not -(2**63) <= value < 2**63:
            raise ValueError("must be a whole number of at most 64 bits")
        return value


class TimestampEdge(Edge):
    column: StrictStr = "timestamp"
    format: StrictStr = "auto"
    missing_value: StrictStr | None = None


class DimensionEdge(Edge):
    name: StrictStr | None = None
    type: StrictStr = "string"
    create_bitmap_index: bool = True
    multi_value_handling: StrictStr = "sorted_array"
    cast_to_type: StrictStr | None = None
    max_string_length: int | None = None
    format_version: int | None = None


class DimensionsEdge(Edge):
    dimensions: list[Annotated[DimensionEdge, BeforeValidator(_named)]] = []
    dimension_exclusions: list[StrictStr] = []
    spatial_dimensions: list[Any] = []
    include_all_dimensions: bool = False
    use_schema_discovery: bool = False
    force_segment_sort_by_time: bool = True


class MetricEdge(Edge):
    type: StrictStr | None = None
    name: StrictStr | None = None
    field_name: StrictStr | None = None
    expression: Any = None
    time_column: StrictStr | None = None
    max_string_bytes: int | None = None
    filter: Any = None
    aggregator: dict[str, Any] | None = None
    lg_k: int | None = Field(default=None, alias="lgK")
    tgt_hll_type: StrictStr | None = None
    string_encoding: StrictStr | None = None
    size: int | None = None
    k: int | None = None
    nominal_entries: int | None = None
    number_of_values: int | None = None
    metric_columns: list[StrictStr] | None = None
    is_input_theta_sketch: bool = False
    is_input_hyper_unique: bool = False
    # These shape a query's answer only; Druid takes them at ingestion too.
    round: bool = False
    should_finalize: bool = True
    max_stream_length: int | None = None
    error_bounds_std_dev: int | None = None
    aggregate_multiple_values: bool = True


class GranularityEdge(Edge):
    type: StrictStr = "uniform"
    segment_granularity: Any = "DAY"
    query_granularity: Any = "NONE"
    rollup: bool = True
    intervals: Any = None


class TransformEdge(Edge):
    transforms: list[Any] = []
    filter: Any = None


class DataSchemaEdge(Edge):
    data_source: StrictStr | None = None
    timestamp_spec: TimestampEdge | None = None
    dimensions_spec: DimensionsEdge | None = None
    metrics_spec: list[MetricEdge] = []
    granularity_spec: GranularityEdge = GranularityEdge()
    transform_spec: TransformEdge | None = None
    projections: list[Any] | None = None


class FlattenFieldEdge(Edge):
    type: StrictStr = "root"
    name: StrictStr | None = None
    expr: StrictStr | None = None
    nodes: list[StrictStr] | None = None


class FlattenEdge(Edge):
    use_field_discovery: bool = True
    fields: list[Annotated[FlattenFieldEdge, BeforeValidator(_named)]] = []


class IdleEdge(Edge):
    enabled: bool = False
    inactive_after_millis: int = 600_000


class BoundedEdge(Edge):
    start_sequence_numbers: dict[str, Any] | None = None
    end_sequence_numbers: dict[str, Any] | None = None


class AutoScalerEdge(Edge):
    enable_task_auto_scaler: bool = False
    auto_scaler_strategy: StrictStr = "lagBased"
    task_count_min: int | None = None
    task_count_max: int | None = None
    task_count_start: int | None = None
    stop_task_count_ratio: float | None = None
    min_trigger_scale_action_frequency_millis: int = 600_000
    min_scale_up_delay: PeriodMs | None = None
    min_scale_down_delay: PeriodMs | None = None
    lag_collection_interval_millis: int = 30_000
    lag_collection_range_millis: int = 600_000
    scale_action_start_delay_millis: int = 300_000
    scale_action_period_millis: int = 60_000
    scale_out_threshold: int = 6_000_000
    trigger_scale_out_fraction_threshold: float = 0.3
    scale_in_threshold: int = 1_000_000
    trigger_scale_in_fraction_threshold: float = 0.9
    scale_out_step: int = 2
    scale_in_step: int = 1
    lag_aggregate: StrictStr = "SUM"


class IOConfigEdge(Edge):
    type: StrictStr | None = None
    topic: StrictStr | None = None
    topic_pattern: StrictStr | None = None
    consumer_properties: dict[str, Any] | None = None
    input_format: dict[str, Any] | None = None
    poll_timeout: int = 100
    replicas: int = 1
    task_count: int = 1
    task_duration: PeriodMs = 3_600_000
    start_delay: PeriodMs = 5_000
    period: PeriodMs = 30_000
    use_earliest_offset: bool = False
    completion_timeout: PeriodMs = 1_800_000
    late_message_rejection_period: PeriodMs | None = None
    late_message_rejection_start_date_time: StrictStr | None = None
    early_message_rejection_period: PeriodMs | None = None
    auto_scaler_config: AutoScalerEdge | None = None
    idle_config: IdleEdge | None = None
    stop_task_count: int | None = None
    server_priority_to_replicas: dict[str, Any] | None = None
    bounded_stream_config: BoundedEdge | None = None
    header_based_filter_config: dict[str, Any] | None = None
    config_overrides: dict[str, Any] | None = None
    emit_time_lag_metrics: bool = False


class TuningEdge(Edge):
    type: StrictStr = "kafka"
    appendable_index_spec: Any = None
    max_rows_in_memory: int = 150_000
    max_bytes_in_memory: int = 0
    skip_bytes_in_memory_overhead_check: bool = False
    max_rows_per_segment: int | None = 5_000_000
    max_total_rows: int | None = 20_000_000
    intermediate_persist_period: PeriodMs = 600_000
    intermediate_handoff_period: PeriodMs | None = None
    max_pending_persists: int = 0
    num_persist_threads: int = 1
    index_spec: Any = None
    index_spec_for_intermediate_persists: Any = None
    max_columns_to_merge: int = -1
    report_parse_exceptions: bool = False
    log_parse_exceptions: bool = False
    max_parse_exceptions: int | None = None
    max_saved_parse_exceptions: int | None = None
    handoff_condition_timeout: int = 900_000
    reset_offset_automatically: bool = False
    skip_sequence_number_availability_check: bool = False
    segment_write_out_medium_factory: Any = None
    release_locks_on_handoff: bool = False
    worker_threads: int | None = None
    chat_threads: int | None = None
    chat_retries: int = 8
    http_timeout: PeriodMs = 10_000
    shutdown_timeout: PeriodMs = 80_000
    offset_fetch_period: PeriodMs = 30_000
    repartition_transition_duration: PeriodMs = 120_000
    on_bad_value: StrictStr = "null"


class EnvelopeEdge(Edge):
    type: StrictStr | None = None
    id: StrictStr | None = None
    suspended: bool = False
    context: dict[str, Any] | None = None
    spec: dict[str, Any] | None = None


class SpecEdge(Edge):
    data_schema: DataSchemaEdge = DataSchemaEdge()
    io_config: IOConfigEdge = IOConfigEdge()
    tuning_config: TuningEdge = TuningEdge()
