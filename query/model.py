"""Names what a query is, from the request to a planned statement that an engine can run (pure data)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from query.splits import Split
from query.sql.types import SqlType


class ResultFormat(Enum):
    """How rows are written, by Druid's names; ``arrow``, an Arrow IPC stream, is ours."""

    OBJECT = "object"
    ARRAY = "array"
    OBJECT_LINES = "objectLines"
    ARRAY_LINES = "arrayLines"
    CSV = "csv"
    ARROW = "arrow"


@dataclass(frozen=True, slots=True)
class SqlParameter:
    """One dynamic parameter: ``type`` is an SQL type name, ``value`` what JSON holds."""

    type: str
    value: object


@dataclass(frozen=True, slots=True)
class SqlRequest:
    """The body of ``POST /druid/v2/sql``, with Druid's defaults. ``context`` keys nobody knows are kept and ignored."""

    query: str
    context: dict[str, object] = field(default_factory=dict)
    parameters: tuple[SqlParameter, ...] = ()
    result_format: ResultFormat = ResultFormat.OBJECT
    header: bool = False
    types_header: bool = False
    sql_types_header: bool = False


@dataclass(frozen=True, slots=True)
class ColumnUse:
    """One column a statement reads: ``name`` as stored (exact case), ``internal`` as the statement calls it.

    ``duckdb_type`` is what the relation must offer, by an explicit cast of whatever a file or chunk holds:
    ``TIMESTAMP WITH TIME ZONE`` for times, ``VARCHAR[]`` for strings that are multi-value anywhere in the table.
    A column that a segment lacks is null there.
    """

    name: str
    internal: str
    type: SqlType
    duckdb_type: str


@dataclass(frozen=True, slots=True)
class TableUse:
    """One place where a statement reads a table; the engine provides ``relation`` with exactly ``columns``.

    ``time_bounds`` are [start, end) in ms UTC, None where open: rows outside cannot matter, so segments
    outside need not be read (the statement filters by itself as well). ``newest_first``: it keeps the newest rows
    only, so that an engine that reads those first can skip the others. ``counts_only``: it looks at no value, so the
    one column may hold anything. ``within_bounds``: it asks of a row only whether its time lies in ``time_bounds``.
    ``schema`` is ``druid`` for stored
    tables and ``lookup`` for lookups; rows of ``INFORMATION_SCHEMA`` and ``sys`` come from
    ``query.sql.metadata.inline_rows``.
    """

    schema: str
    datasource: str
    relation: str
    columns: tuple[ColumnUse, ...]
    time_bounds: tuple[int | None, int | None] = (None, None)
    newest_first: bool = False
    counts_only: bool = False
    within_bounds: bool = False

    @property
    def is_stored(self) -> bool:
        """True when its rows are segments and live chunks."""
        return self.schema == "druid"

    @property
    def is_lookup(self) -> bool:
        """True when its rows are the pairs of a lookup."""
        return self.schema == "lookup"


@dataclass(frozen=True, slots=True)
class FunctionUse:
    """A function that a statement calls and the engine must provide under ``name``.

    ``lookup`` names the lookup whose value of a key it gives; empty: ``name`` is one of ``query.kernels``.
    """

    name: str
    lookup: str = ""


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """One column of the answer; ``druid_type`` and ``sql_type`` as Druid's header rows spell them."""

    name: str
    druid_type: str
    sql_type: str
    type: SqlType


@dataclass(frozen=True, slots=True)
class PlannedQuery:
    """A statement ready to run: one DuckDB SELECT over the relations of ``tables``, without parameters or settings.

    Times leave it as int64 milliseconds, sums of longs as 128-bit integers, multi-value strings as lists;
    ``query.results`` renders them by ``result_columns``. ``timeout_ms`` is 0 when the request sets no limit.
    A higher ``priority`` gets a worker first; ``is_low``: it can wait while others run.
    ``use_cache``: an answer that was given to the same question over the same rows will do.
    ``populate_cache``: what it computes may be kept for others.
    ``is_timeless``: planned at another time it would say the same. ``is_small``: the answer has few rows for certain.
    ``split``: the same of the groups of parts of its table, where that is the same to the last bit.
    """

    tables: tuple[TableUse, ...]
    duckdb_sql: str
    result_columns: tuple[ResultColumn, ...]
    query_id: str | None
    time_zone: str
    timeout_ms: int
    stringify_arrays: bool
    functions: tuple[FunctionUse, ...] = ()
    priority: int = 0
    is_low: bool = False
    use_cache: bool = True
    is_timeless: bool = True
    is_small: bool = False
    split: Split | None = None
    populate_cache: bool = True
