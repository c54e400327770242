"""Offsets as brokers tell them, and as they do not while they come and go."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from ingest.stream import kafka
from ingest.stream.kafka import KafkaSupplier
from ingest.stream.supplier import BrokerUnreachable


class Asked(KafkaSupplier):
    """Its broker's answers are scripted, the last one stays."""

    def __init__(self, *answers: dict[int, int]) -> None:
        super().__init__("edits", {"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
        self.answers = list(answers)

    def _list_offsets(self, partitions: Collection[int], spec: Any, isolation: Any) -> dict[int, int]:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def test_an_offset_that_is_none_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "_LEADER_WAIT_S", 0.0)
    supplier = Asked({0: -1001, 1: 7}, {0: 4, 1: -1}, {0: 4, 1: 7})
    assert supplier.earliest([0, 1]) == {0: 4, 1: 7}


def test_an_offset_that_stays_unknown_is_no_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "_LEADER_WAIT_S", 0.0)
    with pytest.raises(BrokerUnreachable, match="no offset is known of partition 1"):
        Asked({0: 4, 1: -1001}).latest([0, 1])
