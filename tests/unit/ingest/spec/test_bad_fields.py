"""Each field of a spec with a value that it cannot have: an error with path, value, rule and cure; all at once."""

from __future__ import annotations

import copy
import importlib
from functools import cache
from typing import Any, get_args

import pytest
from pydantic import BaseModel, StrictStr

from ingest.errors import SpecError, SpecProblem
from ingest.spec import edge, edge_formats, parse_supervisor_spec, rules_index
from ingest.spec.edge import PeriodMs
from tests.unit.ingest.spec.test_supervisor_spec import MINIMAL, problems

Place = tuple[str | int, ...]
SCHEMA, IO, TUNING = ("spec", "dataSchema"), ("spec", "ioConfig"), ("spec", "tuningConfig")
FORM = (*IO, "inputFormat")
REGISTRY = {"type": "schema_registry", "url": "http://r:8081"}
AVRO = {"type": "record", "name": "r", "fields": []}
S, T, F = "spec.dataSchema", "spec.tuningConfig", "spec.ioConfig"
SCALER = {"enableTaskAutoScaler": True, "taskCountMin": 1, "taskCountMax": 2}


def avro(decoder: dict[str, Any]) -> dict[str, Any]:
    return {"type": "avro_stream", "avroBytesDecoder": decoder}


def protobuf(decoder: dict[str, Any]) -> dict[str, Any]:
    return {"type": "protobuf", "protoBytesDecoder": decoder}


KAFKA_FORM = {"type": "kafka", "valueFormat": {"type": "json"}}
HOSTS: dict[type[BaseModel], tuple[Place, Any]] = {
    edge.EnvelopeEdge: ((), {}),
    edge.DataSchemaEdge: (SCHEMA, {}),
    edge.TimestampEdge: ((*SCHEMA, "timestampSpec"), {}),
    edge.DimensionsEdge: ((*SCHEMA, "dimensionsSpec"), {}),
    edge.DimensionEdge: ((*SCHEMA, "dimensionsSpec", "dimensions", 0), {"name": "d"}),
    edge.MetricEdge: ((*SCHEMA, "metricsSpec", 0), {"type": "longSum", "name": "m", "fieldName": "f"}),
    edge.GranularityEdge: ((*SCHEMA, "granularitySpec"), {}),
    edge.TransformEdge: ((*SCHEMA, "transformSpec"), {}),
    edge.IOConfigEdge: (IO, {}),
    edge.IdleEdge: ((*IO, "idleConfig"), {}),
    edge.BoundedEdge: ((*IO, "boundedStreamConfig"), {}),
    edge.AutoScalerEdge: ((*IO, "autoScalerConfig"), SCALER),
    edge.TuningEdge: (TUNING, {"type": "kafka"}),
    edge.FlattenEdge: ((*FORM, "flattenSpec"), {}),
    edge.FlattenFieldEdge: ((*FORM, "flattenSpec", "fields", 0), {"type": "path", "name": "x", "expr": "$.a"}),
    rules_index.IndexEdge: ((*TUNING, "indexSpec"), {}),
    edge_formats.FormatEdge: (FORM, {"type": "lines"}),
    edge_formats.JsonEdge: (FORM, {"type": "json"}),
    edge_formats.DelimitedEdge: (FORM, {"type": "tsv", "columns": ["a"]}),
    edge_formats.CsvEdge: (FORM, {"type": "csv", "columns": ["a"]}),
    edge_formats.RegexEdge: (FORM, {"type": "regex", "pattern": "(a)", "columns": ["a"]}),
    edge_formats.AvroEdge: (FORM, avro({"type": "schema_inline", "schema": AVRO})),
    edge_formats.AvroFileEdge: (FORM, {"type": "avro_ocf"}),
    edge_formats.ProtobufEdge: (FORM, protobuf(REGISTRY)),
    edge_formats.KafkaEdge: (FORM, KAFKA_FORM),
    edge_formats.HeaderFormatEdge: ((*FORM, "headerFormat"), {"type": "string"}),
    edge_formats.RegistryEdge: ((*FORM, "avroBytesDecoder"), REGISTRY),
    edge_formats.InlineSchemaEdge: ((*FORM, "avroBytesDecoder"), {"type": "schema_inline", "schema": AVRO}),
    edge_formats.InlineSchemasEdge: ((*FORM, "avroBytesDecoder"), {"type": "multiple_schemas_inline"}),
    edge_formats.DescriptorFileEdge: ((*FORM, "protoBytesDecoder"), {"type": "file", "descriptor": "/x"}),
    edge_formats.DescriptorInlineEdge: ((*FORM, "protoBytesDecoder"), {"type": "inline", "descriptorString": "eA=="}),
    edge_formats.HeaderFilterEdge: (
        (*IO, "headerBasedFilterConfig"),
        {"filter": {"type": "in", "dimension": "env", "values": ["a"]}},
    ),
}
PARENTS: dict[type[BaseModel], dict[str, Any]] = {
    edge_formats.HeaderFormatEdge: KAFKA_FORM,
    edge_formats.RegistryEdge: avro({}),
    edge_formats.InlineSchemaEdge: avro({}),
    edge_formats.InlineSchemasEdge: avro({}),
    edge_formats.DescriptorFileEdge: protobuf({}),
    edge_formats.DescriptorInlineEdge: protobuf({}),
}


def with_block(posted: dict[str, Any], place: Place, block: dict[str, Any]) -> dict[str, Any]:
    """``posted`` with the block's fields at the place, which is made where it is not there."""
    at: Any = posted
    for step, following in zip(place, (*place[1:], None), strict=False):
        fresh: Any = [] if isinstance(following, int) else {}
        if isinstance(step, int):
            at[:] = at if at and isinstance(at[0], dict) else [fresh]
            at = at[step]
        else:
            at = at.setdefault(step, fresh)
    if "type" in block and place == FORM:
        at.clear()
    at |= copy.deepcopy(block)
    return posted


def spelt(place: Place) -> str:
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)


def wrong_values(annotation: Any) -> list[Any]:
    """Values of other types than the field's."""
    kinds = [kind for kind in (get_args(annotation) or (annotation,)) if kind is not type(None)]
    text = repr(annotation)
    if text.startswith(("list", "typing.Optional[list", "(list")) or "list[" in text:
        return [5, "x", {"a": 1}]
    if annotation is PeriodMs or PeriodMs in get_args(annotation) or "_period_ms" in repr(annotation):
        return ["30s", 5, [], "P1W2", "-PT1H"]
    if annotation is StrictStr or StrictStr in get_args(annotation) or "Strict(strict=True)" in repr(annotation)[:80]:
        return [5, [], {"a": 1}, True]
    if bool in kinds:
        return ["maybe", 7, [], {}]
    if int in kinds:
        return ["x", 1.5, [], {"a": 1}, "1e400"]
    if float in kinds:
        return ["x", [], {"a": 1}]
    return [5, "x", [1]] if "dict[" in text or "Edge" in text else []


@cache
def table() -> dict[str, tuple[type[BaseModel], str, tuple[Any, ...]]]:
    """Every field of every block by its path, with values of a wrong type."""
    found: dict[str, tuple[type[BaseModel], str, tuple[Any, ...]]] = {}
    for host in HOSTS:
        for name, info in host.model_fields.items():
            alias = info.alias or name
            annotation: Any = info.annotation if not info.metadata else (info.annotation, *info.metadata)
            values = wrong_values(annotation)
            if alias == "featureSpec":
                values = [5, "x", [1]]  # an object's unknown names are told one by one
            if values:
                found[f"{host.__name__}.{alias}"] = (host, alias, tuple(values))
    return found


def posted_with(host: type[BaseModel], fields: dict[str, Any]) -> dict[str, Any]:
    place, base = HOSTS[host]
    posted = copy.deepcopy(MINIMAL)
    if host in PARENTS:
        with_block(posted, FORM, PARENTS[host])
    return with_block(posted, place, {**base, **fields})


def is_told(found: list[SpecProblem], path: str, value: Any) -> bool:
    shown = "[...]" if isinstance(value, list) and value else "{...}" if isinstance(value, dict) and value else value
    return any(p.path == path and (p.value == shown or p.value == "******") and p.rule and p.cure for p in found)


@pytest.mark.parametrize("name", list(table()))
def test_a_value_of_another_type_is_told_where_it_stands(name: str) -> None:
    host, alias, values = table()[name]
    path = spelt((*HOSTS[host][0], alias))
    for value in values:
        found = problems(posted_with(host, {alias: value}))
        assert is_told(found, path, value), f"{value!r}: {[str(problem) for problem in found]}"


def numbers() -> dict[str, tuple[type[BaseModel], str, list[Any]]]:
    """Every field that is a number or a period, with values that no such field can have, or only some."""
    found: dict[str, tuple[type[BaseModel], str, list[Any]]] = {}
    for host in HOSTS:
        for name, info in host.model_fields.items():
            alias, kinds = info.alias or name, set(get_args(info.annotation) or (info.annotation,))
            told = repr((info.annotation, info.metadata))
            if "_period_ms" in told:
                found[f"{host.__name__}.{alias}"] = (host, alias, ["P2147483648D", "-PT1H", "PT1H/PT2H"])
            elif kinds & {int, float}:
                beyond = [float("inf"), float("nan")] if float in kinds else [2**63, -(2**63) - 1, 10**30, str(2**64)]
                found[f"{host.__name__}.{alias}"] = (host, alias, beyond)
    return found


def test_a_number_or_period_beyond_what_its_field_can_hold_is_told_where_it_stands() -> None:
    assert len(numbers()) > 55
    for name, (host, alias, values) in numbers().items():
        for value in values:
            found = problems(posted_with(host, {alias: value}))
            path = spelt((*HOSTS[host][0], alias))
            assert any(p.path == path and p.rule and p.cure for p in found), f"{name} {value}: {found}"


BELOW_ZERO: dict[str, str] = {
    "maxParseExceptions": "no limit, as in Druid",
    "maxSavedParseExceptions": "none, as in Druid",
    "formatVersion": "how Druid writes a column; ours have one way",
    "stringDecodingCacheSize": "a cache of Druid's",
    **dict.fromkeys(
        (
            "maxStringBytes",
            "lgK",
            "size",
            "k",
            "nominalEntries",
            "numberOfValues",
            "maxStreamLength",
            "errorBoundsStdDev",
        ),
        "of another metric than the one of the table",
    ),
}


def test_a_number_below_zero_is_told_or_warned_of_unless_it_has_a_meaning() -> None:
    silent: set[str] = set()
    for host, alias, values in numbers().values():
        if isinstance(values[0], str):
            continue
        posted = posted_with(host, {alias: -5})
        try:
            _, warnings = parse_supervisor_spec(posted)
        except SpecError as error:
            path = spelt((*HOSTS[host][0], alias))
            assert any(p.path == path and p.value == -5 and p.rule and p.cure for p in error.problems), path
            continue
        if not any(alias in warning for warning in warnings):
            silent.add(alias)
    assert silent == set(BELOW_ZERO)


SKETCHES = {
    "HLLSketchBuild": {"lgK": [3, 22]},
    "thetaSketch": {"size": [-1, 3, 2**30]},
    "quantilesDoublesSketch": {"k": [1, 3, 65_536]},
    "arrayOfDoublesSketch": {"nominalEntries": [3, 2**30], "numberOfValues": [0, 256]},
    "stringFirst": {"maxStringBytes": [-1]},
}


def test_a_sketch_of_a_size_that_cannot_be_is_told() -> None:
    for kind, fields in SKETCHES.items():
        for field, values in fields.items():
            for value in values:
                found = problems(posted_with(edge.MetricEdge, {"type": kind, field: value}))
                [problem] = [p for p in found if p.path == f"$.{S}.metricsSpec[0].{field}"]
                assert problem.value == value and problem.rule and problem.cure, (kind, field, value)


def test_every_block_of_a_spec_is_in_the_table() -> None:
    blocks = {
        block
        for module in ("edge", "edge_formats", "rules_index")
        for block in vars(importlib.import_module(f"ingest.spec.{module}")).values()
        if isinstance(block, type) and issubclass(block, BaseModel)
    }
    assert blocks - set(HOSTS) <= {BaseModel, edge.Edge, edge.SpecEdge}


WRONG: dict[str, tuple[type[BaseModel], dict[str, Any]]] = {
    # out of range
    f"{F}.taskCount": (edge.IOConfigEdge, {"taskCount": 0}),
    f"{F}.replicas": (edge.IOConfigEdge, {"replicas": 101}),
    f"{T}.maxRowsInMemory": (edge.TuningEdge, {"maxRowsInMemory": -5}),
    f"{T}.maxRowsPerSegment": (edge.TuningEdge, {"maxRowsPerSegment": 0}),
    f"{T}.maxTotalRows": (edge.TuningEdge, {"maxTotalRows": 0}),
    f"{F}.autoScalerConfig.taskCountMax": (edge.AutoScalerEdge, {"taskCountMin": 3, "taskCountMax": 2}),
    f"{S}.dataSource": (edge.DataSchemaEdge, {"dataSource": "x" * 256}),
    # unknown
    "type": (edge.EnvelopeEdge, {"type": "kinesis"}),
    f"{T}.onBadValue": (edge.TuningEdge, {"onBadValue": "explode"}),
    f"{S}.timestampSpec.format": (edge.TimestampEdge, {"format": "qq"}),
    f"{S}.granularitySpec.segmentGranularity": (edge.GranularityEdge, {"segmentGranularity": "fortnight"}),
    f"{S}.metricsSpec[0].type": (edge.MetricEdge, {"type": "longest"}),
    f"{F}.autoScalerConfig.lagAggregate": (edge.AutoScalerEdge, {"lagAggregate": "MEDIAN"}),
    f"{T}.indexSpec.dimensionCompression": (rules_index.IndexEdge, {"dimensionCompression": "rar"}),
    f"{F}.inputFormat.type": (edge_formats.FormatEdge, {"type": "xml"}),
    f"{F}.inputFormat.flattenSpec.fields[0].type": (edge.FlattenFieldEdge, {"type": "xpath"}),
    f"{F}.headerBasedFilterConfig.encoding": (edge_formats.HeaderFilterEdge, {"encoding": "UTF-99"}),
    # contradictions
    f"{S}.granularitySpec.queryGranularity": (
        edge.GranularityEdge,
        {"segmentGranularity": "HOUR", "queryGranularity": "DAY"},
    ),
    f"{F}.topicPattern": (edge.IOConfigEdge, {"topic": "a", "topicPattern": "a.*"}),
}


@pytest.mark.parametrize("path", list(WRONG))
def test_a_value_that_cannot_be_is_told_with_its_rule_and_cure(path: str) -> None:
    host, fields = WRONG[path]
    found = problems(posted_with(host, fields))
    [problem] = [problem for problem in found if problem.path == f"$.{path}"]
    assert problem.rule and problem.cure
    assert problem.value in fields.values()


def test_all_of_them_are_told_at_once() -> None:
    posted: dict[str, Any] = copy.deepcopy(MINIMAL)
    chosen = {path: wrong for path, wrong in WRONG.items() if wrong[0] is not edge_formats.FormatEdge}
    for host, _ in chosen.values():
        with_block(posted, *HOSTS[host])
    for host, fields in chosen.values():
        with_block(posted, HOSTS[host][0], fields)
    found = {problem.path for problem in problems(posted)}
    # What an unknown format or granularity holds, or is compared with, is not judged.
    told = {f"$.{path}" for path in chosen} - {f"$.{S}.granularitySpec.segmentGranularity"}
    assert told <= found, told - found
