"""The supervisor specs of ``specs/``: what is posted, the records that come, and the rows that must be answered.

A file holds ``spec`` as a team would post it, ``records`` in order, ``counts`` (how the messages end) and
``queries`` with their rows, worked out by hand. ``{BOOTSTRAP}``, ``{REGISTRY}`` and ``{DESCRIPTOR}`` stand for what
a run alone knows.
A record is its text, null for a tombstone, or an object: ``value``, ``hex``, ``avro`` or ``avroFile`` (by a schema of
``schemas``) or ``protobuf``; ``framed`` puts a schema id before it; ``key``, ``headers`` and ``at`` stand beside it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.unit.ingest.appenderator.binary_messages import (
    avro,
    avro_file,
    compiled,
    descriptor_set,
    framed,
    message_class,
)

HERE: Final = Path(__file__).parent / "specs"
AT_MS: Final = 1_772_323_200_000
"""Kafka's time of records that say none: 2026-03-01."""
LOGIN: Final = "ann:very-secret"
ENVIRONMENT: Final = {"SPECS_REGISTRY_LOGIN": LOGIN}
COUNTERS: Final = {
    "processed": "good",
    "processedWithError": "partly_good",
    "unparseable": "unparseable",
    "thrownAwayByReason.filtered": "filtered",
    "thrownAwayByReason.null": "tombstones",
    "thrownAwayByReason.afterMax": "early",
    "thrownAwayByReason.beforeMin": "late",
}


@dataclass(frozen=True, slots=True)
class Record:
    """One record as a producer sends it."""

    value: bytes | None
    key: bytes | None
    headers: list[tuple[str, bytes | None]]
    at_ms: int


@dataclass(frozen=True, slots=True)
class Case:
    """One spec with its records and answers. ``counts`` names only what is not 0."""

    name: str
    content: dict[str, Any]

    def posted(self, bootstrap: str, registry: str) -> dict[str, Any]:
        """The spec for one run's servers."""
        text = json.dumps(self.content["spec"])
        descriptor = base64.b64encode(descriptor_set()).decode()
        for mark, value in (("{BOOTSTRAP}", bootstrap), ("{REGISTRY}", registry), ("{DESCRIPTOR}", descriptor)):
            text = text.replace(mark, value)
        made: dict[str, Any] = json.loads(text)
        return made

    @property
    def counts(self) -> dict[str, int]:
        found: dict[str, int] = self.content["counts"]
        return found

    @property
    def quarantined(self) -> int:
        """Messages that are kept: the unparseable ones, and those that are good but for one of their documents."""
        return int(self.content.get("quarantined", self.counts.get("unparseable", 0)))

    @property
    def segments(self) -> list[str] | None:
        """The intervals of the published segments, where the case is about them."""
        return self.content.get("segments")

    @property
    def hidden(self) -> list[str]:
        """Texts that nobody may ever be shown."""
        return list(self.content.get("hidden", ()))

    def records(self) -> list[Record]:
        return [self._record(each) for each in self.content["records"]]

    def queries(self, published: bool) -> list[tuple[str, list[list[Any]]]]:
        """Statements with the rows to be answered; some hold for published rows only."""
        asked = [each for each in self.content["queries"] if published or each.get("when") != "published"]
        return [(each["sql"], each["rows"]) for each in asked]

    def _record(self, each: Any) -> Record:
        told: dict[str, Any] = each if isinstance(each, dict) else {"value": each}
        value = self._value(told)
        if "framed" in told:
            assert value is not None
            value = framed(told["framed"], (b"\x00" if "protobuf" in told else b"") + value)
        key = told.get("key")
        headers: list[tuple[str, bytes | None]] = [(name, text.encode()) for name, text in told.get("headers", ())]
        return Record(value, None if key is None else key.encode(), headers, told.get("at", AT_MS))

    def _value(self, told: dict[str, Any]) -> bytes | None:
        if "hex" in told:
            return bytes.fromhex(told["hex"])
        if "protobuf" in told:
            return _protobuf(told["protobuf"])
        if "avro" in told or "avroFile" in told:
            schema = self.content["schemas"][told.get("schema", "own")]
            if "avroFile" in told:
                return avro_file(schema, told["avroFile"])
            return avro(schema, _with_bytes(schema, told["avro"]))
        text = told["value"]
        return None if text is None else text.encode()


def _with_bytes(schema: dict[str, Any], record: dict[str, Any]) -> dict[str, Any]:
    raw = {field["name"] for field in schema["fields"] if field["type"] == "bytes"}
    return {name: value.encode() if name in raw else value for name, value in record.items()}


def _protobuf(fields: Mapping[str, Any]) -> bytes:
    message = message_class()(**{name: value for name, value in fields.items() if name != "at"})
    if "at" in fields:
        message.at.seconds = fields["at"]
    made: bytes = message.SerializeToString()
    return made


@cache
def cases() -> dict[str, Case]:
    """All of them by name, which is also their table and topic."""
    found = {path.stem: Case(path.stem, json.loads(path.read_text(encoding="utf-8"))) for path in HERE.glob("*.json")}
    for name, case in found.items():
        assert set(case.counts) <= set(COUNTERS.values()), name
        assert sum(case.counts.values()) == len(case.content["records"]), f"{name}: each record ends in one counter"
    return dict(sorted(found.items()))


def registered() -> dict[int, tuple[str, str]]:
    """Kind and text of what the schema registry of the cases holds, by id."""
    schemas = cases()["avro_registry"].content["schemas"]
    return {1: ("AVRO", json.dumps(schemas["1"])), 2: ("AVRO", json.dumps(schemas["2"])), 3: ("PROTOBUF", compiled())}
