"""Measures what a feature of the spec costs beside the plain path, in one run: CPU from decoding to merged segments.

Run by ``make bench``, or alone: ``python -m tests.benchmarks.features --feature flatten``. Messages come
from memory. Plain and feature take turns, so that a busy machine slows both.
"""

from __future__ import annotations

import argparse
import copy
import gc
import json
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from ingest.spec import SupervisorSpec, parse_supervisor_spec
from tests.benchmarks.events import AD_DIMENSIONS, ad_events, data_schema
from tests.benchmarks.rowpath import from_memory, whole

NESTED = ("user_id", "page_id", "ad_id", "ad_type", "event_type")
FILTER = {"type": "not", "field": {"type": "selector", "dimension": "event_type", "value": "never"}}


def nested_events(events: list[bytes]) -> list[bytes]:
    """The same fields, five of them two objects deep."""
    made = []
    for event in events:
        fields = json.loads(event)
        inner = {name: fields.pop(name) for name in NESTED}
        made.append(json.dumps({"a": {"b": inner}, **fields}, separators=(",", ":")).encode())
    return made


def transform(name: str, expression: str) -> dict[str, Any]:
    return {"transforms": [{"type": "expression", "name": name, "expression": expression}]}


def spec_of(schema: dict[str, Any], input_format: dict[str, Any] | None = None) -> SupervisorSpec:
    io = {"topic": "t", "inputFormat": {"type": "json", **(input_format or {})}}
    io["consumerProperties"] = {"bootstrap.servers": "none"}
    return parse_supervisor_spec({"type": "kafka", "spec": {"dataSchema": schema, "ioConfig": io}})[0]


def feature_of(name: str, events: list[bytes]) -> tuple[SupervisorSpec, SupervisorSpec, list[bytes]]:
    """The plain spec, the spec with the feature, and the feature's messages."""
    rollup = name in ROLLED_UP
    plain = data_schema("ad", rollup)
    schema, messages, input_format = copy.deepcopy(plain), events, None
    if name == "flatten":
        fields = [{"type": "path", "name": field, "expr": f"$.a.b.{field}"} for field in NESTED]
        messages, input_format = nested_events(events), {"flattenSpec": {"fields": fields}}
    elif name == "filter":
        schema["transformSpec"] = {"filter": FILTER}
    elif name == "filter expression":
        schema["transformSpec"] = {"filter": {"type": "expression", "expression": "event_type != 'never'"}}
    elif name in EXPRESSIONS:
        # The computed field takes the place of a plain one, so that equally many columns are stored.
        schema["transformSpec"] = transform("ad_type", EXPRESSIONS[name])
    elif name == "multi-value":
        several = [event.replace(b'"ad_type":"', b'"ad_type":["x","') for event in events]
        messages = [event.replace(b'","event_type"', b'"],"event_type"') for event in several]
    else:
        schema["metricsSpec"] += [METRICS[name]]
    assert set(AD_DIMENSIONS) >= set(NESTED)
    return spec_of(plain), spec_of(schema, input_format), messages


EXPRESSIONS = {
    "expression": "concat(ad_type, '-', event_type)",
    "expression by row": "regexp_extract(ad_type, '^[a-z]+')",
}
METRICS: dict[str, dict[str, Any]] = {
    "HLL": {"type": "HLLSketchBuild", "name": "users", "fieldName": "user_id"},
    "theta": {"type": "thetaSketch", "name": "users", "fieldName": "user_id"},
    "quantiles": {"type": "quantilesDoublesSketch", "name": "times", "fieldName": "event_time"},
}
ROLLED_UP = frozenset(METRICS)
MARKS = {"flatten": 1.6, "filter": 1.1, "expression": 1.15, "HLL": 2.0}
FEATURES = ("flatten", "filter", "filter expression", *EXPRESSIONS, "multi-value", *METRICS)


def measure(name: str, count: int, rounds: int) -> dict[str, Any]:
    """The median of feature over plain, in rounds in which both take turns."""
    events = ad_events(count)
    plain, featured, messages = feature_of(name, events)
    ratios, costs = [], []
    for _ in range(rounds):
        taken = []
        for spec, source in ((plain, from_memory(events)), (featured, from_memory(messages))):
            gc.collect()
            gc.freeze()
            with tempfile.TemporaryDirectory() as folder:
                taken.append(whole(spec, source, Path(folder), count)[0])
        ratios.append(taken[1] / taken[0])
        costs.append(taken[1])
    return {"feature": name, "ratio": round(median(ratios), 3), "us_per_event": round(median(costs) / count * 1e6, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--feature", choices=FEATURES, action="append")
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    for name in args.feature or FEATURES:
        print(json.dumps(measure(name, args.events, args.rounds)), flush=True)


if __name__ == "__main__":
    main()
