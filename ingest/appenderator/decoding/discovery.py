"""Finds the undeclared fields of a batch of whole objects and reads them as dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ingest.appenderator.decoding.columns import ColumnReader
from ingest.appenderator.decoding.non_finite import holds_non_finite
from ingest.appenderator.decoding.plan import Field, Kind, Plan, Source, value_at
from ingest.spec.json_path_program import Failed
from ingest.spec.model import Discovery, MultiValueHandling
from segments.arrow_arrays import ArrowArray
from segments.schema import is_column_name

Discovered = dict[str, tuple[ArrowArray, ColumnReader]]
"""Found columns by name, each with the reader that knows its type."""


class Discoverer:
    """Remembers the fields it has seen, in order of appearance, and how wide each has become. For one thread."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._readers: dict[str, ColumnReader] = {}
        self._typed = plan.discovery is Discovery.TYPED
        self._non_finite = holds_non_finite(plan.schema.input_format)

    def read(self, documents: list[dict[str, Any]], hiding: Mapping[str, list[Any]]) -> Discovered:
        """Every discovered column, with its reader, looking at each object, never at a sample.

        Without types those that hold a value here, with types also null ones: values to come tell their type.
        ``hiding`` are values of transforms that take the place of a field of their name.
        """
        seen: dict[str, Source] = dict(self._plan.flattened)
        if self._plan.discover_roots:
            for name in dict.fromkeys(name for document in documents for name in document):
                if name not in seen and name not in self._plan.never_discovered and is_column_name(name):
                    seen[name] = Source(name)
        columns: Discovered = {}
        for name, source in seen.items():
            values = hiding[name] if name in hiding else [value_at(source, document) for document in documents]
            values = [None if isinstance(value, Failed) else value for value in values]
            if not self._typed:
                values = [value if _is_simple(value) else None for value in values]
            if self._typed or values.count(None) < len(values):
                columns[name] = self._column(name, source, values)
        return columns

    def _column(self, name: str, source: Source, values: list[Any]) -> tuple[ArrowArray, ColumnReader]:
        reader = self._readers.get(name)
        if reader is None:
            kind, handling = Kind.STRING, MultiValueHandling.SORTED_ARRAY
            if self._typed:
                kind, handling = Kind.AUTO, MultiValueHandling.ARRAY
            reader = self._readers[name] = ColumnReader(
                Field(name, source, kind, handling), non_finite=self._non_finite
            )
        # Every scalar has a text and every object its JSON: only a number beyond doubles is left out, as null.
        column = reader.read(values)[0]
        return (reader.build(column) if isinstance(column, list) else column), reader


def _is_simple(value: Any) -> bool:
    """What Druid's classic discovery takes: scalars and lists of scalars."""
    if isinstance(value, list):
        return not any(isinstance(item, dict | list) for item in value)
    return not isinstance(value, dict)
