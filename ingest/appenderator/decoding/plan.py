"""Decides which fields of each object are read, and into which typed columns, for one data schema (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ingest.spec.json_path import Step
from ingest.spec.model import DataSchema, Dimension, Discovery, Metric, MultiValueHandling
from segments.filter.model import columns_of
from segments.schema import TIME_COLUMN


class Kind(Enum):
    """How an input field is read."""

    STRING = "string"
    LONG = "long"
    DOUBLE = "double"
    FLOAT = "float"
    AUTO = "auto"
    METRIC_LONG = "metric long"
    METRIC_DOUBLE = "metric double"
    METRIC_FLOAT = "metric float"


@dataclass(frozen=True, slots=True)
class Source:
    """Where a field stands: the name of the root key and the steps below it; no root: always null."""

    root: str | None
    rest: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class Field:
    """One column to be read from every object. ``label`` names it in error messages."""

    label: str
    source: Source
    kind: Kind
    multi_value: MultiValueHandling = MultiValueHandling.SORTED_ARRAY


@dataclass(frozen=True, slots=True)
class Plan:
    """``fields`` are all columns to read. ``dimensions`` and ``metrics`` point into them by position
    (a count has none), ``filter_fields`` by the name that the filter uses."""

    schema: DataSchema
    time: Source
    fields: tuple[Field, ...]
    dimensions: tuple[tuple[Dimension, int], ...]
    metrics: tuple[tuple[Metric, int | None], ...]
    filter_fields: tuple[tuple[str, int], ...]
    discovery: Discovery
    never_discovered: frozenset[str]
    flattened: tuple[tuple[str, Source], ...]
    discover_roots: bool


_DIMENSION_KINDS = {"string": Kind.STRING, "long": Kind.LONG, "float": Kind.FLOAT, "double": Kind.DOUBLE}
_CAST_KINDS = {"STRING": Kind.STRING, "LONG": Kind.LONG, "DOUBLE": Kind.DOUBLE}
_METRIC_KINDS = {"long": Kind.METRIC_LONG, "double": Kind.METRIC_DOUBLE, "float": Kind.METRIC_FLOAT}


def compile_plan(schema: DataSchema) -> Plan:
    """The plan of a schema that the spec's rules accepted."""
    flattened = {field.name: _source(field.steps) for field in schema.input_format.flatten}

    def source_of(name: str) -> Source:
        # As in Druid a named field is found at the root also where undeclared ones are not discovered.
        return flattened.get(name, Source(name))

    fields: list[Field] = []
    dimensions: list[tuple[Dimension, int]] = []
    for dimension in schema.dimensions:
        dimensions.append((dimension, len(fields)))
        name = dimension.name
        fields.append(Field(name, source_of(name), _kind_of(dimension), _handling(dimension)))
    metrics: list[tuple[Metric, int | None]] = []
    for metric in schema.metrics:
        metrics.append((metric, None if metric.type == "count" else len(fields)))
        if metric.type != "count":
            prefix = next(prefix for prefix in _METRIC_KINDS if metric.type.startswith(prefix))
            fields.append(Field(metric.field, source_of(metric.field), _METRIC_KINDS[prefix]))
    filter_fields: list[tuple[str, int]] = []
    for name in sorted(columns_of(schema.filter) if schema.filter is not None else ()):
        declared = [at for dimension, at in dimensions if dimension.name == name]
        if name != TIME_COLUMN and declared:
            filter_fields.append((name, declared[0]))
        elif name != TIME_COLUMN:
            filter_fields.append((name, len(fields)))
            fields.append(Field(name, source_of(name), Kind.STRING, MultiValueHandling.ARRAY))
    taken = {schema.timestamp.column, TIME_COLUMN, ""} | schema.exclusions
    taken |= {dimension.name for dimension in schema.dimensions}
    taken |= {name for metric in schema.metrics for name in (metric.name, metric.field)}
    return Plan(
        schema=schema,
        time=source_of(schema.timestamp.column),
        fields=tuple(fields),
        dimensions=tuple(dimensions),
        metrics=tuple(metrics),
        filter_fields=tuple(filter_fields),
        discovery=schema.discovery,
        never_discovered=frozenset(taken),
        flattened=tuple((name, source) for name, source in flattened.items() if name not in taken),
        discover_roots=schema.input_format.discover_fields,
    )


def _source(steps: tuple[Step, ...]) -> Source:
    if not steps or not isinstance(steps[0], str):
        return Source(None)
    return Source(steps[0], steps[1:])


def _kind_of(dimension: Dimension) -> Kind:
    if dimension.cast_to is not None:
        return _CAST_KINDS[dimension.cast_to]
    return _DIMENSION_KINDS.get(dimension.type, Kind.AUTO)


def _handling(dimension: Dimension) -> MultiValueHandling:
    # An auto column is Druid's array, whose order means something.
    return MultiValueHandling.ARRAY if dimension.type == "auto" else dimension.multi_value
