"""Tells which aggregators unite the metrics of segments, and what they are for several segments (pure)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from query.errors import InvalidQuery
from query.native.plan import SegmentFact
from query.native.request import Part
from segments.schema import SegmentSchema

STRATEGIES = ("strict", "lenient", "earliest", "latest")
Aggregators = Mapping[str, dict[str, Any]]


def aggregators_of(schema: SegmentSchema) -> Aggregators | None:
    """The combining aggregator of each metric by its name; None where a segment is from before they were told."""
    metrics = [column for column in schema.columns if column.kind == "metric"]
    if any(not column.aggregator for column in metrics):
        return None
    return {metric.name: _named(metric.name, json.loads(metric.aggregator)) for metric in metrics}


def _named(name: str, aggregator: dict[str, Any]) -> dict[str, Any]:
    return {"type": aggregator["type"], "name": name, "fieldName": name} | aggregator


def strategy_of(query: Part) -> str:
    """How aggregators of segments that differ are put together.

    Raises:
        InvalidQuery: there is no such way, or it is told twice.
    """
    given = query.text_or("", "aggregatorMergeStrategy").lower()
    if given and query.has("lenientAggregatorMerge"):
        raise InvalidQuery("aggregatorMergeStrategy and lenientAggregatorMerge cannot be told both")
    if given and given not in STRATEGIES:
        raise InvalidQuery(f"aggregatorMergeStrategy: {given!r} is none of {', '.join(STRATEGIES)}")
    return given or ("lenient" if query.flag("lenientAggregatorMerge") else "strict")


def merged(facts: Sequence[SegmentFact], strategy: str) -> dict[str, Any] | None:
    """The aggregators of all segments. ``strict``: None where any differs or is not told; ``lenient``: null for each
    metric in which they differ; ``earliest`` and ``latest``: of segments that tell theirs, what the first or last says
    of each metric."""
    told = [
        fact.aggregators
        for fact in sorted(facts, key=lambda fact: (fact.interval, fact.id))
        if fact.aggregators is not None
    ]
    if strategy == "strict" and (len(told) < len(facts) or any(one != told[0] for one in told)):
        return None
    if not told:
        return None
    if strategy == "lenient":
        return _lenient(told)
    found: dict[str, Any] = {}
    for one in reversed(told) if strategy == "earliest" else told:
        found |= one
    return found


def _lenient(told: Iterable[Aggregators]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in told:
        for name, aggregator in one.items():
            found[name] = aggregator if found.get(name, aggregator) == aggregator else None
    return found
