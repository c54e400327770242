"""Decides whether a posted spec is accepted as a whole: Druid's spec and its Kafka client's properties together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ingest.errors import SpecError, SpecProblem
from ingest.spec import SupervisorSpec, parse_supervisor_spec
from ingest.spec.formats import AvroFormat, KafkaFormat, ProtobufFormat, Registry
from ingest.spec.model import InputFormat
from ingest.stream.properties import ClientProperties, translate
from ingest.stream.registry_settings import registry_settings

RESERVED = frozenset({"history"})
"""Ids that a new spec cannot have."""


def judge_spec(posted: Any) -> tuple[SupervisorSpec, tuple[str, ...]]:
    """The spec with warnings for people. References to the environment are judged by their shape only:
    what they name is known where the clients are made.

    Raises:
        SpecError: with every problem of both at once; no secret is in any of them.
    """
    client = _client_of(posted)
    try:
        spec, warnings = parse_supervisor_spec(posted)
    except SpecError as error:
        problems = _once([*error.problems, *client.problems])
        raise SpecError(problems, (*error.warnings, *client.warnings)) from error
    registries = [
        registry_settings(registry, None, path)
        for path, registry in _registries(spec.data_schema.input_format, f"{_root(posted)}.ioConfig.inputFormat")
    ]
    problems = [
        *client.problems,
        *_of_name(spec.supervisor),
        *(problem for found in registries for problem in found.problems),
    ]
    told = (*warnings, *client.warnings, *(text for found in registries for text in found.warnings))
    if problems:
        raise SpecError(problems, told)
    return spec, told


def _of_name(supervisor: str) -> list[SpecProblem]:
    """As in Druid the one word below the supervisors' address that is no id hides the spec of a supervisor called so.
    What is stored already goes on."""
    if supervisor not in RESERVED:
        return []
    rule = "is taken: GET /druid/indexer/v1/supervisor/history tells the versions of all specs"
    return [SpecProblem("$.id", supervisor, rule, "choose another id")]


def _root(posted: Any) -> str:
    return "$.spec" if isinstance(posted, dict) and isinstance(posted.get("spec"), dict) else "$"


def _registries(form: InputFormat, path: str) -> Iterator[tuple[str, Registry]]:
    """The schema registries that a format names, each with its path."""
    match form:
        case KafkaFormat(value, key):
            yield from _registries(value, f"{path}.valueFormat")
            if key is not None:
                yield from _registries(key, f"{path}.keyFormat")
        case AvroFormat(Registry() as registry):
            yield f"{path}.avroBytesDecoder", registry
        case ProtobufFormat(Registry() as registry):
            yield f"{path}.protoBytesDecoder", registry


def _client_of(posted: Any) -> ClientProperties:
    """What the properties mean, as far as they are there at all."""
    root = _root(posted)
    configs = posted["spec"] if root == "$.spec" else posted
    config = configs.get("ioConfig") if isinstance(configs, dict) else None
    properties = config.get("consumerProperties") if isinstance(config, dict) else None
    if not isinstance(properties, dict):
        return ClientProperties({})
    return translate(properties, path=f"{root}.ioConfig.consumerProperties")


def _once(problems: list[SpecProblem]) -> list[SpecProblem]:
    """The first of each path: both readers miss the brokers."""
    return list({problem.path: problem for problem in reversed(problems)}.values())[::-1]
