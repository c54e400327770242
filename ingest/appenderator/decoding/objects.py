"""The fast way for formats that are no JSON: whole messages to objects, whose fields are then read as columns."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from ingest.appenderator.decoding.formats.reader import DocumentReader
from ingest.appenderator.decoding.plan import Plan, Source, value_at
from ingest.spec.model import Discovery


class ObjectReader:
    """``FastReader``'s counterpart: rows are objects, and no field is known to be of its column's type."""

    def __init__(self, plan: Plan, documents: DocumentReader) -> None:
        self.reads_objects = plan.discovery is not Discovery.NONE
        self._documents = documents

    def read(self, messages: Sequence[Any]) -> tuple[list[Any], list[int]]:
        """The rows of the accepted messages, in order, and the positions of the others.

        Raises:
            SchemaRegistryUnreachable: nothing was decided; read the same messages again.
        """
        return self._documents.many(messages)

    def is_typed(self, source: Source) -> bool:
        return False

    def column(self, rows: list[Any], source: Source) -> list[Any]:
        """One field's value in every row; None where it is missing."""
        if source.root is None or source.rest:
            return [value_at(source, row) for row in rows]
        try:
            return list(map(itemgetter(source.root), rows))
        except KeyError:
            return [row.get(source.root) for row in rows]
