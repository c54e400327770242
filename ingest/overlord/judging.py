"""Decides whether a posted spec is accepted as a whole: Druid's spec and its Kafka client's properties together."""

from __future__ import annotations

from typing import Any

from ingest.errors import SpecError, SpecProblem
from ingest.spec import SupervisorSpec, parse_supervisor_spec
from ingest.stream.properties import ClientProperties, translate


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
        raise SpecError(_once([*error.problems, *client.problems])) from error
    if client.problems:
        raise SpecError(list(client.problems))
    return spec, (*warnings, *client.warnings)


def _client_of(posted: Any) -> ClientProperties:
    """What the properties mean, as far as they are there at all."""
    wrapped = isinstance(posted, dict) and isinstance(posted.get("spec"), dict)
    root, configs = ("$.spec", posted["spec"]) if wrapped else ("$", posted)
    config = configs.get("ioConfig") if isinstance(configs, dict) else None
    properties = config.get("consumerProperties") if isinstance(config, dict) else None
    if not isinstance(properties, dict):
        return ClientProperties({})
    return translate(properties, path=f"{root}.ioConfig.consumerProperties")


def _once(problems: list[SpecProblem]) -> list[SpecProblem]:
    """The first of each path: both readers miss the brokers."""
    return list({problem.path: problem for problem in reversed(problems)}.values())[::-1]
