"""Samples of real topics: the first records, or the last ones, within a time."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.clock import SystemClock
from ingest.overlord.sampler import sample
from server.sampling import TopicSamples
from tests.servers.kfake import Kfake
from tests.servers.topics import create_topic, produce

pytestmark = pytest.mark.integration


def asked(kfake: Kfake, topic: str, earliest: bool, rows: int) -> Any:
    io = {
        "topic": topic, "inputFormat": {"type": "json"}, "useEarliestOffset": earliest,
        "consumerProperties": {"bootstrap.servers": kfake.bootstrap},
    }  # fmt: skip
    schema = {
        "dataSource": "s", "timestampSpec": {"column": "t", "format": "iso"},
        "dimensionsSpec": {"dimensions": [{"type": "long", "name": "n"}]},
    }  # fmt: skip
    posted = {"type": "kafka", "spec": {"dataSchema": schema, "ioConfig": io}, "samplerConfig": {"numRows": rows}}
    answer = sample(posted, TopicSamples(SystemClock()), 1_700_000_000_000)
    return [row["parsed"]["n"] for row in answer["data"]]


def test_the_first_or_the_last_records_are_sampled(kfake: Kfake) -> None:
    topic = create_topic(kfake.bootstrap, 1)
    produce(kfake.bootstrap, topic, [b'{"t": "2024-01-01", "n": %d}' % n for n in range(50)])
    assert asked(kfake, topic, earliest=True, rows=5) == [0, 1, 2, 3, 4]
    assert asked(kfake, topic, earliest=False, rows=5) == [45, 46, 47, 48, 49]
    assert asked(kfake, topic, earliest=True, rows=500) == list(range(50))
