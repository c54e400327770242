"""The fast way for formats that are no JSON: whole messages to objects, whose fields are then read as columns."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from ingest.appenderator.decoding.formats.reader import ColumnRows, DocumentReader
from ingest.appenderator.decoding.plan import Plan, Source, value_at
from ingest.spec.model import Discovery
from segments.arrow_arrays import ArrowArray


class ObjectReader:
    """``FastReader``'s counterpart: rows are objects, and no field is known to be of its column's type."""

    def __init__(self, plan: Plan, documents: DocumentReader) -> None:
        self.reads_objects = plan.discovery is not Discovery.NONE
        self._documents = documents
        read = [plan.time, *(field.source for field in plan.fields if field.computed is None)]
        read += [source for transform in plan.transforms for _, source in transform.fields]
        read += [source for _, source in plan.programs]
        # Only names at the root: a path may go through the whole object.
        self._by_column = not self.reads_objects and all(s.root is not None and not s.rest for s in read)

    def read(self, messages: Sequence[Any]) -> tuple[Any, list[int]]:
        """The rows of the accepted messages, in order, and the positions of the others.

        Raises:
            SchemaRegistryUnreachable: nothing was decided; read the same messages again.
        """
        found = self._documents.by_column(messages) if self._by_column else None
        return self._documents.many(messages) if found is None else (found, [])

    def is_typed(self, source: Source) -> bool:
        return False

    def arrow(self, rows: list[Any] | ColumnRows, source: Source) -> ArrowArray | None:
        """One field's column, where rows are columns."""
        return None if isinstance(rows, list) or source.root is None else rows.arrow(source.root)

    def column(self, rows: list[Any] | ColumnRows, source: Source) -> list[Any]:
        """One field's value in every row; None where it is missing."""
        if not isinstance(rows, list):
            assert source.root is not None
            return rows.values(source.root)
        if source.root is None or source.rest:
            return [value_at(source, row) for row in rows]
        try:
            return list(map(itemgetter(source.root), rows))
        except KeyError:
            return [row.get(source.root) for row in rows]
