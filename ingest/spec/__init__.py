"""Druid's Kafka supervisor specs: ``parse_supervisor_spec`` turns posted JSON into a ``SupervisorSpec``.

Importing this package is cheap; pydantic is loaded by the first parse.
"""

from __future__ import annotations

from typing import Any

from ingest.spec.model import (
    AutoScaling,
    DataSchema,
    Dimension,
    Discovery,
    IdleConfig,
    IOConfig,
    LagAggregate,
    Metric,
    Rejection,
    SupervisorSpec,
    TimestampSpec,
    TuningConfig,
    rows_differ,
)

__all__ = [
    "AutoScaling",
    "DataSchema",
    "Dimension",
    "Discovery",
    "IOConfig",
    "IdleConfig",
    "LagAggregate",
    "Metric",
    "Rejection",
    "SupervisorSpec",
    "TimestampSpec",
    "TuningConfig",
    "parse_supervisor_spec",
    "rows_differ",
]


def parse_supervisor_spec(posted: Any) -> tuple[SupervisorSpec, tuple[str, ...]]:
    """Reads a posted spec (parsed JSON); returns it with warnings for people.

    Warnings name unknown fields by JSON path (they are kept in ``posted``) and fields that have no
    effect here.

    Raises:
        SpecError: with every problem of the spec at once.
    """
    from ingest.spec.parsing import parse

    return parse(posted)
