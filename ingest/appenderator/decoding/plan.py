"""Decides which fields of each object are read, and into which typed columns, for one data schema (pure)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from ingest.spec.json_path import Matching, Reduce, Step, follow, is_program
from ingest.spec.model import DataSchema, Dimension, Discovery, Metric, MultiValueHandling
from segments.expression.tree import Binary, Expression
from segments.expression.tree import Constant as ExpressionConstant
from segments.expression.tree import columns_of as columns_read
from segments.filter.model import Filter, columns_of, expressions_of
from segments.schema import TIME_COLUMN
from segments.sketch.shape import SketchShape


class Kind(Enum):
    """How an input field is read."""

    STRING = "string"
    LONG = "long"
    DOUBLE = "double"
    FLOAT = "float"
    AUTO = "auto"
    JSON = "json"
    LONG_ARRAY = "long array"
    DOUBLE_ARRAY = "double array"
    STRING_ARRAY = "string array"
    METRIC_LONG = "metric long"
    METRIC_DOUBLE = "metric double"
    METRIC_FLOAT = "metric float"
    SKETCH = "sketch"
    RAW = "raw"


@dataclass(frozen=True, slots=True)
class Source:
    """Where a field stands: the name of the root key and the steps below it. Without a root the steps begin at the
    whole object; without either it is always null."""

    root: str | None
    rest: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class Field:
    """One column to be read from every object. ``label`` names it in error messages; ``computed`` is the position of
    the transform that gives its values in place of ``source``."""

    label: str
    source: Source
    kind: Kind
    multi_value: MultiValueHandling = MultiValueHandling.SORTED_ARRAY
    sketch: SketchShape | None = None
    stored_input: bool = False
    computed: int | None = None


@dataclass(frozen=True, slots=True)
class PlannedTransform:
    """An expression and where its inputs come from: ``fields`` of the object, ``earlier`` transforms by position.

    Only a filter's expressions read earlier ones. ``label`` names it in error messages.
    """

    label: str
    expression: Expression
    fields: tuple[tuple[str, Source], ...]
    earlier: tuple[tuple[str, int], ...] = ()


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
    """``fields`` are all columns to read. ``dimensions`` and ``metrics`` point into them by position, ``filter_fields``
    by the name that the filter uses. ``transforms`` are those that something reads; ``time_transform`` is the
    position of the one that replaces the time, ``shadowed`` are fields that hide a discovered one, by its name."""

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
    transforms: tuple[PlannedTransform, ...] = ()
    time_transform: int | None = None
    shadowed: tuple[tuple[str, int], ...] = ()
    programs: tuple[tuple[str, Source], ...] = ()
    """Of ``flattened`` what programs compute and discovery makes a column of."""


_DIMENSION_KINDS = {
    "string": Kind.STRING,
    "long": Kind.LONG,
    "float": Kind.FLOAT,
    "double": Kind.DOUBLE,
    "json": Kind.JSON,
}
_CAST_KINDS = {
    "STRING": Kind.STRING,
    "LONG": Kind.LONG,
    "DOUBLE": Kind.DOUBLE,
    "ARRAY<LONG>": Kind.LONG_ARRAY,
    "ARRAY<DOUBLE>": Kind.DOUBLE_ARRAY,
    "ARRAY<STRING>": Kind.STRING_ARRAY,
}
_METRIC_KINDS = {"long": Kind.METRIC_LONG, "double": Kind.METRIC_DOUBLE, "float": Kind.METRIC_FLOAT}


def compile_plan(schema: DataSchema) -> Plan:
    """The plan of a schema that the spec's rules accepted."""
    flattened = {field.name: _source(field.steps) for field in schema.input_format.flatten}
    fields = _Fields(flattened, {transform.name: transform.expression for transform in schema.transforms})
    time_transform = fields.transform(TIME_COLUMN)
    dimensions = tuple((dimension, fields.add_dimension(dimension)) for dimension in schema.dimensions)
    metrics = tuple(fields.add_metric(metric) for metric in schema.metrics)
    filter_fields = fields.add_filter(schema.filter)
    taken = {schema.timestamp.column, TIME_COLUMN, ""} | schema.exclusions
    taken |= {dimension.name for dimension in schema.dimensions}
    taken |= {name for metric in schema.metrics for name in (metric.name, *metric.fields)}
    shadowed: tuple[tuple[str, int], ...] = ()
    if schema.discovery is not Discovery.NONE:
        hidden = [t.name for t in schema.transforms if t.name not in taken]
        shadowed = tuple((name, fields.add_raw(name)) for name in hidden)
    return Plan(
        schema=schema,
        time=fields.input_of(schema.timestamp.column),
        fields=tuple(fields.found),
        dimensions=dimensions,
        metrics=metrics,
        filter_fields=filter_fields,
        discovery=schema.discovery,
        never_discovered=frozenset(taken),
        flattened=tuple((name, source) for name, source in flattened.items() if name not in taken),
        discover_roots=schema.input_format.discover_fields,
        transforms=tuple(fields.transforms),
        time_transform=time_transform,
        shadowed=shadowed,
        programs=_programs(flattened, taken) if schema.discovery is not Discovery.NONE else (),
    )


def _programs(flattened: Mapping[str, Source], taken: Collection[str]) -> tuple[tuple[str, Source], ...]:
    return tuple((name, source) for name, source in flattened.items() if name not in taken and is_program(source.rest))


class _Fields:
    """Collects the fields to read and the transforms they need; what two readers want alike is read once."""

    def __init__(self, flattened: Mapping[str, Source], expressions: Mapping[str, Expression]) -> None:
        self.found: list[Field] = []
        self.transforms: list[PlannedTransform] = []
        self._flattened = flattened
        self._expressions = expressions
        self._dimensions: dict[str, int] = {}
        self._planned: dict[str, int] = {}

    def input_of(self, name: str) -> Source:
        """Where a field of the object stands, whatever transform hides it."""
        # As in Druid a named field is found at the root also where undeclared ones are not discovered.
        return self._flattened.get(name, Source(name))

    def transform(self, name: str) -> int | None:
        """The position of the transform of this name, if there is one."""
        if name not in self._planned and name in self._expressions:
            tree = self._expressions[name]
            names = [column for column in dict.fromkeys(columns_read(tree)) if column != TIME_COLUMN]
            self._planned[name] = len(self.transforms)
            inputs = tuple((column, self.input_of(column)) for column in names)
            self.transforms.append(PlannedTransform(f"transform {name!r}", tree, inputs))
        return self._planned.get(name)

    def _field(self, name: str, kind: Kind, handling: MultiValueHandling = MultiValueHandling.SORTED_ARRAY) -> Field:
        return Field(name, self.input_of(name), kind, handling, computed=self.transform(name))

    def add_dimension(self, dimension: Dimension) -> int:
        name = dimension.name
        self._dimensions[name] = at = len(self.found)
        self.found.append(self._field(name, _kind_of(dimension), _handling(dimension)))
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
        if metric.expression is not None:
            return self._add_expression(f"metric {metric.name!r}", metric.expression, _METRIC_KINDS[metric.type_prefix])
        if metric.type_prefix == "string" or metric.numbers:
            # A tuple's key is hashed as the text that a dimension would have.
            return self._add(metric.field, Kind.STRING, MultiValueHandling.ARRAY)
        if metric.sketch is not None:
            field = self._field(metric.field, Kind.SKETCH)
            return self._place(replace(field, sketch=metric.sketch, stored_input=metric.stored_input))
        return self._add(metric.field, _METRIC_KINDS[metric.type_prefix])

    def add_filter(self, item: Filter | None) -> tuple[tuple[str, int], ...]:
        """Where each column of a filter is: a dimension as it is declared, anything else as text."""
        if item is None:
            return ()
        expressions = {found.column: found.expression for found in expressions_of(item)}
        names = sorted(columns_of(item) - {TIME_COLUMN} - expressions.keys())
        plain = tuple((name, self._filter_field(name)) for name in names)
        return plain + tuple((name, self._filter_expression(tree)) for name, tree in expressions.items())

    def _filter_expression(self, tree: Expression) -> int:
        """The field of an expression's truth."""
        return self._add_expression("filter expression", Binary("&&", tree, ExpressionConstant(1)), Kind.LONG)

    def _add_expression(self, label: str, tree: Expression, kind: Kind) -> int:
        """The field of an expression that sees transforms in place of what they hide."""
        names = [column for column in dict.fromkeys(columns_read(tree)) if column != TIME_COLUMN]
        earlier = {name: at for name in names if (at := self.transform(name)) is not None}
        inputs = tuple((name, self.input_of(name)) for name in names if name not in earlier)
        self.transforms.append(PlannedTransform(label, tree, inputs, tuple(earlier.items())))
        return self._place(Field(label, Source(None), kind, computed=len(self.transforms) - 1))

    def _filter_field(self, name: str) -> int:
        declared = self._dimensions.get(name)
        return self._add(name, Kind.STRING, MultiValueHandling.ARRAY) if declared is None else declared

    def _add(self, name: str, kind: Kind, handling: MultiValueHandling = MultiValueHandling.SORTED_ARRAY) -> int:
        return self._place(self._field(name, kind, handling))

    def add_raw(self, name: str) -> int:
        """A field whose values stay what they are."""
        return self._add(name, Kind.RAW)

    def _place(self, field: Field) -> int:
        if field not in self.found:
            self.found.append(field)
        return self.found.index(field)


def value_at(source: Source, document: dict[str, Any]) -> Any:
    """A field's value in one object; None where it is missing."""
    if source.root is None:
        return follow(source.rest, document) if source.rest else None
    value = document.get(source.root)
    return follow(source.rest, value) if source.rest else value


def _source(steps: tuple[Step, ...]) -> Source:
    if not steps or not isinstance(steps[0], str) or _reads_root(steps):
        return Source(None, steps)
    return Source(steps[0], steps[1:])


def _reads_root(steps: tuple[Step, ...]) -> bool:
    """Whether a filter or an argument on the way may look at the whole object."""
    return any(isinstance(step, Matching) or (isinstance(step, Reduce) and step.arguments) for step in steps)


def _kind_of(dimension: Dimension) -> Kind:
    if dimension.cast_to is not None:
        return _CAST_KINDS[dimension.cast_to]
    return _DIMENSION_KINDS.get(dimension.type, Kind.AUTO)


def _handling(dimension: Dimension) -> MultiValueHandling:
    # An auto column is Druid's array, whose order means something.
    return MultiValueHandling.ARRAY if dimension.type == "auto" else dimension.multi_value
