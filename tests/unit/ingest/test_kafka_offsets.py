"""Offsets as brokers tell them, and as they do not while they come and go."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from ingest.protocol import Source
from ingest.stream import kafka_asker
from ingest.stream.kafka_asker import EARLIEST, KafkaAsker
from ingest.stream.supplier import BrokerUnreachable

BOTH = [("edits", 0), ("edits", 1)]


class Asked(KafkaAsker):
    """Its brokers' answers are scripted by partition, the last one stays."""

    def __init__(self, *answers: tuple[int, int]) -> None:
        super().__init__({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}, "edits")
        self.answers = list(answers)

    def _list_offsets(self, wanted: Iterable[Source], spec: Any, isolation: Any) -> dict[Source, int]:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return {source: answer[source[1]] for source in wanted}


def test_an_offset_that_is_none_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_asker, "_LEADER_WAIT_S", 0.0)
    asker = Asked((-1001, 7), (4, -1), (4, 7))
    assert asker.offsets(BOTH, EARLIEST) == dict(zip(BOTH, (4, 7), strict=True))


def test_an_offset_that_stays_unknown_is_no_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_asker, "_LEADER_WAIT_S", 0.0)
    with pytest.raises(BrokerUnreachable, match="no offset is known of partition 1"):
        Asked((4, -1001)).offsets(BOTH, EARLIEST)
