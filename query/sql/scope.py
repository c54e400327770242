"""Decides which column a name means: the tables of one SELECT, by alias and exact name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from sqlglot import exp

from query.errors import InvalidQuery, UnknownName, position
from query.model import ColumnUse, TableUse
from query.sql.term import Term
from query.sql.types import TIMESTAMP, Family, SqlType


def where(node: exp.Expr) -> dict[str, str]:
    """Line and column of a node, as an error's context; empty when the parser did not keep them."""
    for part in node.walk():
        meta = part.meta if isinstance(part, exp.Identifier | exp.Column | exp.Anonymous | exp.Literal) else {}
        if "line" in meta:
            width = int(meta["end"]) - int(meta["start"]) + 1
            return position(int(meta["line"]), max(int(meta["col"]) - width + 1, 1), part.name, width)
    return {}


@dataclass(frozen=True, slots=True)
class Output:
    """One column that a subquery or table offers: its name and the internal one."""

    name: str
    internal: str
    type: SqlType


@dataclass(slots=True)
class OpenTable:
    """A use of a table while its statement is planned; collects the columns read and the time bounds."""

    schema: str
    name: str
    relation: str
    columns: tuple[Output, ...]
    used: dict[str, Output] = field(default_factory=dict)
    start_ms: int | None = None
    end_ms: int | None = None
    newest_first: bool = False
    within_bounds: bool = False

    def narrow(self, start_ms: int | None, end_ms: int | None) -> None:
        """Every row that matters lies in [start, end)."""
        if start_ms is not None:
            self.start_ms = start_ms if self.start_ms is None else max(self.start_ms, start_ms)
        if end_ms is not None:
            self.end_ms = end_ms if self.end_ms is None else min(self.end_ms, end_ms)

    def closed(self) -> TableUse:
        """The use as the engine needs it. A statement that reads no column still reads rows: it gets one column."""
        used = self.used or {self.columns[0].name: self.columns[0]}
        columns = tuple(
            ColumnUse(column.name, column.internal, column.type, _stored_type(self.schema, column.type))
            for column in used.values()
        )
        bounds = (self.start_ms, self.end_ms)
        return TableUse(
            self.schema, self.name, self.relation, columns, bounds, self.newest_first, not self.used, self.within_bounds
        )


def _stored_type(schema: str, type_: SqlType) -> str:
    return "TIMESTAMP WITH TIME ZONE" if type_ == TIMESTAMP and schema == "druid" else type_.duckdb


@dataclass(frozen=True, slots=True)
class Source:
    """One item of a FROM: ``alias`` as the statement knows it, ``internal`` as DuckDB does."""

    alias: str
    internal: str
    columns: tuple[Output, ...]
    table: OpenTable | None = None

    def is_called(self, name: str, schema: str) -> bool:
        """Whether a column may be named by this table, or by schema and table where that has no alias."""
        if not schema or self.table is None:
            return self.alias == name and not schema
        spelt = self.table.schema, f"druid.{self.table.schema}"
        return name == self.alias == self.table.name and schema in spelt

    def find(self, name: str) -> Output | None:
        """The column of that exact name."""
        return next((column for column in self.columns if column.name == name), None)

    def term(self, column: Output) -> Term:
        """The column as an operand."""
        sql = f"{self.internal}.{column.internal}"
        if self.table is not None:
            self.table.used.setdefault(column.name, column)
            if column.type == TIMESTAMP and self.table.schema == "druid":
                # Stored times are whole milliseconds; epoch_ms of a time with a zone costs forty times as much.
                return Term(f"(epoch_us({sql}) // 1000)", TIMESTAMP, time_column=sql, table=self.table)
        return Term(sql, column.type)


@dataclass(slots=True)
class Scope:
    """The sources of one SELECT; ``merged`` holds what USING joined into one column.

    ``outer`` translates columns of the query around this one, where this one is inside an expression.
    """

    sources: list[Source] = field(default_factory=list)
    merged: dict[str, Term] = field(default_factory=dict)
    outer: Callable[[exp.Column], Term] | None = None

    def column(self, node: exp.Column) -> Term:
        """The column a name means.

        Raises:
            UnknownName: no such column or table.
            InvalidQuery: more than one.
        """
        table, name = node.table, node.name
        if not table and name in self.merged:
            return self.merged[name]
        schema = ".".join(part.name for part in (node.args.get("catalog"), node.args.get("db")) if part is not None)
        sources = [source for source in self.sources if not table or source.is_called(table, schema)]
        if table and not sources:
            told = f"{schema}.{table}" if schema else table
            raise UnknownName("Table", told, (source.alias for source in self.sources), where(node.args["table"]))
        found = [(source, column) for source in sources if (column := source.find(name)) is not None]
        if not found:
            known = (column.name for source in sources for column in source.columns)
            is_quoted = node.this.args.get("quoted")
            cure = f"; a text stands in single quotes: '{name}'" if is_quoted and not table else ""
            raise UnknownName("Column", name, known, where(node), " in any table", cure)
        if len(found) > 1 and len({id(source) for source, _ in found}) > 1:
            raise InvalidQuery(f"Column {name!r} is ambiguous: name its table", where(node))
        return found[0][0].term(found[0][1])

    def around(self, node: exp.Column) -> Term | None:
        """The column of a query around this one that a name means; None when there is none. Its time prunes nothing."""
        if self.outer is None:
            return None
        try:
            found = self.outer(node)
        except UnknownName:
            return None
        return Term(found.sql, found.type, found.value, found.is_constant)

    def star(self, table: str = "") -> Iterator[tuple[str, Term]]:
        """All columns with their names, in order; of one source when ``table`` is given."""
        if not table:
            yield from self.merged.items()
        for source in self.sources:
            if table in ("", source.alias):
                for column in source.columns:
                    if table or column.name not in self.merged:
                        yield column.name, source.term(column)

    def has(self, name: str) -> bool:
        """True when some source has a column of that name."""
        return name in self.merged or any(source.find(name) for source in self.sources)

    def event_time(self) -> Term | None:
        """The first ``__time`` that there is, for EARLIEST and LATEST."""
        for source in self.sources:
            column = source.find("__time")
            if column is not None and column.type.family is Family.TIME:
                return source.term(column)
        return None
