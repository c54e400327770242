"""Decides which fields of each object are read, and into which typed columns, for one data schema (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from ingest.spec.json_path import Step
from ingest.spec.model import DataSchema, Dimension, Discovery, Metric, MultiValueHandling
from segments.filter.model import Filter, columns_of
from segments.schema import TIME_COLUMN
from segments.sketch.shape import SketchShape


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
    SKETCH = "sketch"


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
    sketch: SketchShape | None = None
    stored_input: bool = False


@dataclass(frozen=True, slots=True)
class PlannedMetric:
    """An aggregator and the positions of the fields it reads; a count has no ``value``.

    ``filter_fields`` are names that its filter uses.
    """

    metric: Metric
    value: int | None = None
    numbers: tuple[int, ...] = ()
    time: int | None = None
    filter_fields: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """``fields`` are all columns to read. ``dimensions`` and ``metrics`` point into them by position,
    ``filter_fields`` by the name that the filter uses."""

    schema: DataSchema
    time: Source
    fields: tuple[Field, ...]
    dimensions: tuple[tuple[Dimension, int], ...]
    metrics: tuple[PlannedMetric, ...]
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
    fields = _Fields(flattened)
    dimensions = tuple((dimension, fields.add_dimension(dimension)) for dimension in schema.dimensions)
    metrics = tuple(fields.add_metric(metric) for metric in schema.metrics)
    filter_fields = fields.add_filter(schema.filter)
    taken = {schema.timestamp.column, TIME_COLUMN, ""} | schema.exclusions
    taken |= {dimension.name for dimension in schema.dimensions}
    taken |= {name for metric in schema.metrics for name in (metric.name, *metric.fields)}
    return Plan(
        schema=schema,
        time=fields.source_of(schema.timestamp.column),
        fields=tuple(fields.found),
        dimensions=dimensions,
        metrics=metrics,
        filter_fields=filter_fields,
        discovery=schema.discovery,
        never_discovered=frozenset(taken),
        flattened=tuple((name, source) for name, source in flattened.items() if name not in taken),
        discover_roots=schema.input_format.discover_fields,
    )


class _Fields:
    """Collects the fields to read; what two readers want alike is read once."""

    def __init__(self, flattened: Mapping[str, Source]) -> None:
        self.found: list[Field] = []
        self._flattened = flattened
        self._dimensions: dict[str, int] = {}

    def source_of(self, name: str) -> Source:
        # As in Druid a named field is found at the root also where undeclared ones are not discovered.
        return self._flattened.get(name, Source(name))

    def add_dimension(self, dimension: Dimension) -> int:
        name = dimension.name
        self._dimensions[name] = at = len(self.found)
        self.found.append(Field(name, self.source_of(name), _kind_of(dimension), _handling(dimension)))
        return at

    def add_metric(self, metric: Metric) -> PlannedMetric:
        return PlannedMetric(
            metric,
            value=self._value_of(metric),
            numbers=tuple(self._add(name, Kind.METRIC_DOUBLE) for name in metric.numbers),
            time=self._add(metric.time_field, Kind.METRIC_LONG) if metric.time_field else None,
            filter_fields=self.add_filter(metric.filter),
        )

    def _value_of(self, metric: Metric) -> int | None:
        if metric.type == "count":
            return None
        if metric.type_prefix == "string" or metric.numbers:
            # A tuple's key is hashed as the text that a dimension would have.
            return self._add(metric.field, Kind.STRING, MultiValueHandling.ARRAY)
        if metric.sketch is not None:
            field = Field(metric.field, self.source_of(metric.field), Kind.SKETCH)
            return self._place(replace(field, sketch=metric.sketch, stored_input=metric.stored_input))
        return self._add(metric.field, _METRIC_KINDS[metric.type_prefix])

    def add_filter(self, item: Filter | None) -> tuple[tuple[str, int], ...]:
        """Where each column of a filter is: a dimension as it is declared, anything else as text."""
        names = sorted(columns_of(item) - {TIME_COLUMN} if item is not None else ())
        return tuple((name, self._filter_field(name)) for name in names)

    def _filter_field(self, name: str) -> int:
        declared = self._dimensions.get(name)
        return self._add(name, Kind.STRING, MultiValueHandling.ARRAY) if declared is None else declared

    def _add(self, name: str, kind: Kind, handling: MultiValueHandling = MultiValueHandling.SORTED_ARRAY) -> int:
        return self._place(Field(name, self.source_of(name), kind, handling))

    def _place(self, field: Field) -> int:
        if field not in self.found:
            self.found.append(field)
        return self.found.index(field)


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
