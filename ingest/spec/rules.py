"""The rules of a spec's dataSchema: what is accepted, and what is refused because it would change the rows."""

from __future__ import annotations

from typing import Final

from ingest.spec.edge import (
    DataSchemaEdge,
    DimensionEdge,
    DimensionsEdge,
    IOConfigEdge,
    TimestampEdge,
    TuningEdge,
)
from ingest.spec.model import DataSchema, Dimension, Discovery, JsonFormat, Metric, MultiValueHandling, TimestampSpec
from ingest.spec.notes import PLACEHOLDER, Notes
from ingest.spec.rules_format import read_header_filter, read_input_format
from ingest.spec.rules_metrics import read_metrics
from ingest.spec.rules_transform import read_transforms
from segments.civil import parse_iso_ms
from segments.errors import InvalidGranularity, InvalidInterval
from segments.interval import Granularity
from segments.schema import RESERVED_PREFIX, is_column_name
from segments.storage.layout import is_folder_name
from segments.time_format import time_parser

TIME_COLUMN: Final = "__time"
_NAME_RULE: Final = f" that holds no NUL character and does not begin with {RESERVED_PREFIX}"
_DIMENSION_TYPES: Final = ("string", "long", "float", "double", "auto", "json")
_CASTS: Final = ("STRING", "LONG", "DOUBLE", "ARRAY<STRING>", "ARRAY<LONG>", "ARRAY<DOUBLE>")


def read_data_schema(
    block: DataSchemaEdge, io: IOConfigEdge, tuning: TuningEdge, root: str, notes: Notes
) -> DataSchema | None:
    """The schema, or None where it is so wrong that there is none; every fault is noted."""
    path = f"{root}.dataSchema"
    before = len(notes.problems)
    if block.projections:
        notes.warn(f"{path}.projections have no effect here: queries read the table itself")
    datasource = _datasource(block, path, notes)
    timestamp = _timestamp(block.timestamp_spec or TimestampEdge(), f"{path}.timestampSpec", notes)
    spec = block.dimensions_spec or DimensionsEdge()
    dimensions, discovery = _dimensions(spec, f"{path}.dimensionsSpec", notes)
    metrics = tuple(read_metrics(block.metrics_spec, f"{path}.metricsSpec", notes))
    _unique(dimensions, metrics, path, notes)
    granularities = _granularities(block, f"{path}.granularitySpec", notes)
    transforms, row_filter = read_transforms(block.transform_spec, f"{path}.transformSpec", notes)
    input_format = read_input_format(io.input_format, f"{root}.ioConfig.inputFormat", notes, io.topic or "")
    where = f"{root}.ioConfig.headerBasedFilterConfig"
    header_filter = read_header_filter(io.header_based_filter_config, where, notes)
    if len(notes.problems) > before or granularities is None:
        return None
    return DataSchema(
        datasource=datasource,
        timestamp=timestamp,
        dimensions=dimensions,
        exclusions=frozenset(spec.dimension_exclusions),
        discovery=discovery,
        metrics=metrics,
        segment_granularity=granularities[0],
        query_granularity=granularities[1],
        rollup=block.granularity_spec.rollup,
        filter=row_filter,
        input_format=input_format or JsonFormat(),
        reject_bad_values=tuning.on_bad_value == "reject",
        transforms=transforms,
        header_filter=header_filter,
    )


def _datasource(block: DataSchemaEdge, path: str, notes: Notes) -> str:
    name = block.data_source or ""
    bad = not name.strip() or "/" in name or name.startswith(".") or name != name.strip() or not name.isprintable()
    if bad or not is_folder_name(name):
        # Files of the table lie in a folder of this name, with all but ASCII letters and digits percent-encoded.
        rule = (
            "must be a name of up to 255 bytes (85 beyond ASCII letters and digits) without slashes, a leading dot, "
            "control characters or outer blanks, and not _quarantine"
        )
        notes.problem(f"{path}.dataSource", block.data_source, rule, "name the table")
    return name


def _timestamp(block: TimestampEdge, path: str, notes: Notes) -> TimestampSpec:
    try:
        time_parser(block.format)
    except InvalidInterval as error:
        cure = "use auto, iso, posix, millis, micro, nano or a Joda pattern"
        notes.problem(f"{path}.format", block.format, str(error), cure)
    missing_ms = None
    if block.missing_value is not None:
        try:
            missing_ms = parse_iso_ms(block.missing_value)
        except InvalidInterval as error:
            notes.problem(f"{path}.missingValue", block.missing_value, str(error), "write an ISO 8601 time")
    return TimestampSpec(block.column, block.format, missing_ms)


def _dimensions(block: DimensionsEdge, path: str, notes: Notes) -> tuple[tuple[Dimension, ...], Discovery]:
    if block.spatial_dimensions:
        notes.refused(f"{path}.spatialDimensions", block.spatial_dimensions, "a spatial dimension", "remove them")
    items = list(enumerate(block.dimensions))
    if not block.force_segment_sort_by_time:
        notes.warn(f"{path}.forceSegmentSortByTime has no effect: rows lie by time first, then by dimensions in order")
        # Only so Druid takes the time among the dimensions, to say where it sorts by it.
        items = [(at, item) for at, item in items if item.name != TIME_COLUMN]
    dimensions = [
        dimension
        for at, item in items
        if (dimension := _dimension(item, f"{path}.dimensions[{at}]", notes)) is not None
    ]
    for name in sorted({d.name for d in dimensions} & set(block.dimension_exclusions)):
        rule = "is also one of the dimensions"
        notes.problem(f"{path}.dimensionExclusions", name, rule, "declare it or exclude it, not both")
    if block.dimensions and not block.include_all_dimensions:
        # Druid discovers only where nothing is declared, or where it is told to include everything.
        if block.use_schema_discovery:
            notes.warn(f"{path}.useSchemaDiscovery has no effect beside dimensions unless includeAllDimensions is true")
        if block.dimension_exclusions:
            notes.warn(f"{path}.dimensionExclusions has no effect beside dimensions")
        discovery = Discovery.NONE
    else:
        discovery = Discovery.TYPED if block.use_schema_discovery else Discovery.STRINGS
    return tuple(dimensions), discovery


def _dimension(block: DimensionEdge, path: str, notes: Notes) -> Dimension | None:
    name = block.name
    if name == PLACEHOLDER and notes.problems:
        return None
    if name is None or name == TIME_COLUMN or not is_column_name(name):
        rule = f"must be a name other than {TIME_COLUMN}{_NAME_RULE}"
        notes.problem(f"{path}.name", name, rule, "name the dimension after its input field")
        return None
    if block.type not in _DIMENSION_TYPES:
        notes.refused(f"{path}.type", block.type, "this dimension type", f"use one of {', '.join(_DIMENSION_TYPES)}")
    if block.max_string_length is not None:
        notes.refused(f"{path}.maxStringLength", block.max_string_length, "cutting texts off", "remove it")
    if block.cast_to_type is not None and (block.type != "auto" or block.cast_to_type.upper() not in _CASTS):
        cure = f"use type auto with one of {', '.join(_CASTS)}"
        notes.refused(f"{path}.castToType", block.cast_to_type, "this cast", cure)
    try:
        handling = MultiValueHandling(block.multi_value_handling.lower())
    except ValueError:
        cure = "use sorted_array, sorted_set or array"
        notes.problem(f"{path}.multiValueHandling", block.multi_value_handling, "is not a known way", cure)
        handling = MultiValueHandling.SORTED_ARRAY
    return Dimension(name, block.type, handling, block.cast_to_type.upper() if block.cast_to_type else None)


def _unique(dimensions: tuple[Dimension, ...], metrics: tuple[Metric, ...], path: str, notes: Notes) -> None:
    seen: set[str] = set()
    named = [("dimensionsSpec.dimensions", item.name) for item in dimensions]
    named += [("metricsSpec", item.name) for item in metrics]
    for where, name in named:
        if name in seen:
            rule = "names two columns"
            notes.problem(f"{path}.{where}", name, rule, "give every dimension and metric its own name")
        seen.add(name)


def _granularities(block: DataSchemaEdge, path: str, notes: Notes) -> tuple[Granularity, Granularity] | None:
    spec = block.granularity_spec
    if spec.type != "uniform":
        notes.refused(f"{path}.type", spec.type, "this granularitySpec", 'use "uniform"')
    if spec.intervals:
        notes.warn(f"{path}.intervals has no effect on a stream")
    read: list[Granularity] = []
    for name, value in (("segmentGranularity", spec.segment_granularity), ("queryGranularity", spec.query_granularity)):
        try:
            read.append(Granularity.of(value))
        except InvalidGranularity as error:
            notes.problem(f"{path}.{name}", value, str(error), "use a name such as hour or day, or a period object")
    if len(read) < 2:
        return None
    segment, query = read
    where = f"{path}.queryGranularity"
    if segment.name == "NONE":
        rule = "would make a segment per millisecond"
        notes.problem(f"{path}.segmentGranularity", spec.segment_granularity, rule, "use hour or day")
    elif query.name == "ALL" and segment.name != "ALL":
        rule = "would give all rows one time, outside of their segments"
        notes.problem(where, spec.query_granularity, rule, "use a granularity as fine as the segments")
    elif query.nominal_width_ms > segment.nominal_width_ms:
        rule = "is coarser than segmentGranularity"
        notes.problem(where, spec.query_granularity, rule, "make it finer, or the segments coarser")
    return segment, query
