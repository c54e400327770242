"""Reads one message at a time by the rules that decide: which rows it holds, which fields are bad, and why."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from ingest.appenderator.decoding.columns import ColumnReader
from ingest.appenderator.decoding.failing import value_of
from ingest.appenderator.decoding.formats import DocumentReader
from ingest.appenderator.decoding.plan import Plan, value_at
from ingest.appenderator.decoding.transforms import Transforms
from ingest.appenderator.decoding.unreadable import Unreadable
from ingest.spec.json_path_program import Failed
from ingest.spec.model import Discovery
from ingest.stream.supplier import OpenDocuments
from segments.coercion import BadValue, Truncated, shown
from segments.errors import InvalidInterval
from segments.expression.values import ExpressionFailed
from segments.time_format import time_parser


@dataclass(slots=True)
class SlowRow:
    """One good row: canonical values by field position; ``errors`` name fields that became null."""

    time_ms: int
    values: list[Any]
    document: dict[str, Any]
    errors: list[str]


@dataclass(slots=True)
class SlowMessage:
    """What one message holds. ``blank``: nothing at all. ``reasons``: why documents of it are unparseable.

    ``bad`` are the positions of those documents among all ``of``; 0 where they could not be told apart.
    """

    blank: bool = False
    rows: list[SlowRow] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    bad: list[int] = field(default_factory=list)
    of: int = 0
    truncated: list[str] = field(default_factory=list)


class SlowReader:
    """For one thread. ``readers`` are those of the fast way, one per field of the plan."""

    def __init__(
        self, plan: Plan, readers: list[ColumnReader], transforms: Transforms, documents: DocumentReader
    ) -> None:
        self._plan = plan
        self._documents = documents
        self._readers = readers
        self._transforms = transforms
        self._parse_time = time_parser(plan.schema.timestamp.format)
        self._reject = plan.schema.reject_bad_values

    def read(self, message: Any, wanted: OpenDocuments | None = None) -> SlowMessage:
        """Never raises for anything a message can hold. ``wanted``: only these documents, the others are rows
        already; where the format now finds another number of them, which are which cannot be told."""
        found = SlowMessage()
        try:
            documents = self._documents.documents(message)
        except Unreadable as error:
            return _as_before(found, str(error), wanted)
        if documents is None:
            if wanted is not None:
                return _as_before(found, "the message is blank to this format, but documents of it are rows", wanted)
            found.blank = True
            return found
        found.of = len(documents)
        if wanted is not None and wanted.of != len(documents):
            told = f"{len(documents)} documents, {wanted.of} when it was first read: which are rows cannot be told"
            return _as_before(found, told, wanted)
        for at, document in enumerate(documents):
            if wanted is not None and at not in wanted.positions:
                continue
            before = len(found.reasons)
            self._read_document(document, found)
            if len(found.reasons) > before:
                found.bad.append(at)
        return found

    def _read_document(self, document: Any, found: SlowMessage) -> None:
        if isinstance(document, Unreadable):
            found.reasons.append(str(document))
            return
        if not isinstance(document, dict):
            found.reasons.append(f"{shown(document)} is not an object")
            return
        if self._plan.discovery is not Discovery.NONE and not _storable(document):
            found.reasons.append("a text holds half of a surrogate pair")
            return
        try:
            time_ms = self._time_ms(value_of(self._plan.time, document))
            time_ms, computed = self._transforms.of_row(lambda source: value_of(source, document), time_ms)
        except (InvalidInterval, ExpressionFailed) as error:
            found.reasons.append(str(error))
            return
        self._read_fields(document, time_ms, computed, found)

    def _time_ms(self, value: Any) -> int:
        timestamp = self._plan.schema.timestamp
        if value is None:
            if timestamp.missing_ms is not None:
                return timestamp.missing_ms
            raise InvalidInterval(f"no time in field {timestamp.column!r}")
        return self._parse_time(value)

    def _read_fields(self, document: dict[str, Any], time_ms: int, computed: list[Any], found: SlowMessage) -> None:
        values: list[Any] = []
        errors: list[str] = []
        truncated: list[str] = []
        for reader in self._readers:
            label, place = reader.field.label, reader.field.computed
            try:
                value = value_at(reader.field.source, document) if place is None else computed[place]
                if isinstance(value, Failed):
                    raise BadValue(value.reason)
                values.append(reader.coerce(value))
            except Truncated as cut:
                values.append(cut.value)
                truncated.append(label)
            except BadValue as error:
                if "surrogate" in str(error):
                    found.reasons.append(f"field {label!r}: {error}")
                    return
                values.append(None)
                errors.append(f"field {label!r}: {error}")
        for name, source in self._plan.programs:
            value = value_at(source, document)
            if isinstance(value, Failed):
                errors.append(f"field {name!r}: {value.reason}")
        if self._reject and (errors or truncated):
            found.reasons += errors + [f"field {label!r}: the fraction would be cut off" for label in truncated]
            return
        found.truncated += truncated
        found.rows.append(SlowRow(time_ms, values, document, errors))


def _as_before(found: SlowMessage, reason: str, wanted: OpenDocuments | None) -> SlowMessage:
    """Nothing was read of it: what was open stays open."""
    found.reasons.append(reason)
    if wanted is not None:
        found.bad, found.of = list(wanted.positions), wanted.of
    return found


def _storable(document: dict[str, Any]) -> bool:
    try:
        json.dumps(document, ensure_ascii=False).encode()
    except (UnicodeEncodeError, ValueError, RecursionError):
        return False
    return True
