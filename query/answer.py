"""Answers on their way from a query node: Arrow batches of a statement, or the JSON of a native query."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from query.bound import BoundQuery
from query.errors import QueryError
from query.model import PlannedQuery
from query.native.plan import NativePlan
from query.read_ahead import AheadSettings, ReadAhead
from query.result_cache import KeptRun, ResultCache
from query.runs import Run
from query.sharing import Turn


class Keep:
    """Where an answer goes that was read to its end, if it is small; nowhere without a key. ``turn``: others wait."""

    def __init__(self, cache: ResultCache, key: bytes | None, turn: Turn | None = None) -> None:
        self._cache = cache
        self._key = key
        self._turn = turn
        self.most_bytes = -1 if key is None else cache.answer_bytes

    def whole(self, schema: pa.Schema, batches: list[pa.RecordBatch]) -> None:
        """Keeps it."""
        if self._key is not None:
            self._cache.put(self._key, schema, batches)

    def over(self) -> None:
        """It is kept, or never will be."""
        if self._turn is not None:
            self._turn.over()


class QueryResult:
    """An answer on its way: its plan, its schema and its batches. ``close`` it unless the batches were read out.

    ``versions`` are the versions of the tables it was bound to, ``seen`` is what a reader of it has seen.
    """

    def __init__(
        self, planned: PlannedQuery, run: Run | KeptRun, query: BoundQuery, waiting: AheadSettings, keep: Keep
    ) -> None:
        self.planned = planned
        self._ahead = ReadAhead(run, waiting)
        self.versions = query.versions
        self.seen = query.seen
        self._run = run
        self._keep = keep
        self._told = query.told

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of every batch."""
        return self._run.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The batches, once, for one thread; while it is slow, they wait on disk and the worker is another's.

        Raises:
            QueryError: the answer ended before its end.
        """
        seen: list[pa.RecordBatch] | None = []
        size = 0
        try:
            for batch in self._ahead.batches():
                size += batch.nbytes
                if seen is not None and size <= self._keep.most_bytes:
                    seen.append(batch)
                elif seen is not None:
                    seen = None
                    self._keep.over()
                yield batch
            if seen is not None:
                self._keep.whole(self._run.schema, seen)
        except QueryError as error:
            raise self._told(error) from error
        finally:
            self._keep.over()

    @property
    def is_over(self) -> bool:
        """Whether the engine has said all it will say, and all of it was taken."""
        return self._ahead.is_over

    def cancel(self) -> None:
        """Ends the query; whoever reads its batches gets QueryCancelled. From any thread."""
        self._keep.over()
        self._run.cancel()

    def close(self) -> None:
        """Ends the query wherever it stands; not while another thread reads its batches."""
        self._keep.over()
        self._ahead.close()


class NativeResult:
    """The answer to a native query on its way. ``close`` it unless the pieces were read out."""

    def __init__(self, result: QueryResult, plan: NativePlan) -> None:
        self.seen = result.seen
        self._result = result
        self._plan = plan

    def pieces(self) -> Iterator[bytes]:
        """The body as JSON, once, for one thread; raises as ``QueryResult.batches``."""
        try:
            yield from self._plan.pieces(self._result.batches())
        finally:
            # A shape may know enough before the last batch.
            self._result.close()

    @property
    def is_over(self) -> bool:
        """Whether the engine has said all it will say."""
        return self._result.is_over

    def cancel(self) -> None:
        """Ends the query; whoever reads its pieces gets QueryCancelled. From any thread."""
        self._result.cancel()

    def close(self) -> None:
        """Ends the query wherever it stands; not while another thread reads its pieces."""
        self._result.close()
