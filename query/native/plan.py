"""Names what the planning of a native query needs and gives: the catalogue's facts, the SQL and the answer's shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

import pyarrow as pa

from query.errors import InvalidQuery
from query.model import PlannedQuery, ResultColumn
from query.native.intervals import Interval
from query.native.request import Part
from query.sql.catalogue import Catalogue
from query.sql.frame import Session
from query.sql.scope import Output


@dataclass(frozen=True, slots=True)
class SegmentFact:
    """One published segment: its interval, and what its rows are like. ``bytes`` is the size of its file.

    ``aggregators`` are the combining ones by the names of their metrics; None where the segment does not tell them.
    """

    id: str
    interval: Interval
    rows: int
    bytes: int
    rollup: bool
    query_granularity: str
    aggregators: Mapping[str, dict[str, Any]] | None = None


class NativeCatalogue(Catalogue, Protocol):
    """The stored tables, with what native queries ask of them beside their columns."""

    def time_range(self, name: str) -> tuple[int, int] | None:
        """The times of a table's first and last row, both inclusive, in ms UTC; None when it has none."""
        ...

    def segments(self, name: str) -> Sequence[SegmentFact]:
        """Its published segments, in no order."""
        ...


class Shape(Protocol):
    """How the rows of a statement become Druid's answer."""

    def pieces(self, rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
        """The body, piece by piece; ``rows`` are its cells as JSON texts, in the order of the columns."""
        ...


@dataclass(frozen=True, slots=True)
class Draft:
    """A planned query: ``sql`` gives ``columns`` by their internal names, in their order.

    ``inner`` gives the query as the data source of another: its SQL and columns; None where it cannot be one.
    """

    sql: str
    columns: tuple[Output, ...]
    shape: Shape
    inner: Callable[[], tuple[str, tuple[Output, ...]]] | None = None

    @property
    def result_columns(self) -> tuple[ResultColumn, ...]:
        """The columns as every plan names them."""
        return tuple(ResultColumn(one.name, one.type.druid, one.type.name, one.type) for one in self.columns)


@dataclass(frozen=True, slots=True)
class NativePlan:
    """A native query ready to run: the statement, and how its rows are told."""

    planned: PlannedQuery
    shape: Shape

    def pieces(self, batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
        """The body of the answer as a stream whose memory is one batch; ends early when ``batches`` raises."""
        from query.results import json_cells, parts_of

        def rows() -> Iterator[tuple[str, ...]]:
            for part in chain.from_iterable(map(parts_of, batches)):
                cells = [
                    json_cells(part.column(at), column.type) for at, column in enumerate(self.planned.result_columns)
                ]
                yield from zip(*cells, strict=True)

        waiting: list[str] = []
        held = 0
        for piece in self.shape.pieces(rows()):
            waiting.append(piece)
            held += len(piece)
            if held >= _PIECE_CHARS:
                yield "".join(waiting).encode()
                waiting, held = [], 0
        yield "".join(waiting).encode()


_PIECE_CHARS = 64 * 1024


@dataclass(frozen=True, slots=True)
class Setting:
    """What a query type's planner works with: the query, the statement it becomes, and what the catalogue knows."""

    query: Part
    session: Session
    catalogue: NativeCatalogue
    subquery: Callable[[Session, Part], tuple[str, tuple[Output, ...]]]
    """Plans a query that is the data source of another."""

    @property
    def context(self) -> Part:
        """The query's context."""
        return self.query.part("context") if self.query.has("context") else Part({}, "context")


TypePlanner = Callable[[Setting], Draft]


def distinct_names(names: Sequence[str]) -> None:
    """Refuses an answer in which two things have one name.

    Raises:
        InvalidQuery: with the name.
    """
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InvalidQuery(f"two dimensions, aggregators or post-aggregators are called {name!r}")
        seen.add(name)
