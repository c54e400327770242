"""Offers what may come next in a statement: keywords, functions, tables, and the columns of the tables it names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

KEYWORDS = (
    "SELECT",
    "DISTINCT",
    "FROM",
    "WHERE",
    "GROUP",
    "BY",
    "HAVING",
    "ORDER",
    "LIMIT",
    "OFFSET",
    "JOIN",
    "LEFT",
    "RIGHT",
    "FULL",
    "INNER",
    "CROSS",
    "ON",
    "AS",
    "WITH",
    "UNION",
    "ALL",
    "AND",
    "OR",
    "NOT",
    "IN",
    "IS",
    "NULL",
    "LIKE",
    "BETWEEN",
    "EXISTS",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "CAST",
    "FILTER",
    "OVER",
    "PARTITION",
    "ASC",
    "DESC",
    "NULLS",
    "FIRST",
    "LAST",
    "INTERVAL",
    "TIMESTAMP",
    "DATE",
    "VALUES",
    "UNNEST",
    "TABLE",
    "EXPLAIN",
    "PLAN",
    "FOR",
    "SET",
    "TRUE",
    "FALSE",
)
_WORD = re.compile(r"[\w$]*$|\"[^\"]*$|\\\w*$")
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*", re.IGNORECASE)
_AFTER_TABLE = re.compile(r"\b(?:FROM|JOIN|TABLE|EXPLAIN\s+\w+\s+FOR)\s+\S*$", re.IGNORECASE)
_NAMED = re.compile(r"\b(?:FROM|JOIN)\s+(?:\"?\w+\"?\.)?(\"[^\"]+\"|\w+)", re.IGNORECASE)
_QUALIFIED = re.compile(r"(\w+)\.\w*$")


@dataclass(slots=True)
class Names:
    """What the service knows; ``columns`` by table."""

    tables: list[str] = field(default_factory=list)
    columns: dict[str, list[str]] = field(default_factory=dict)
    functions: list[str] = field(default_factory=list)


class Candidates:
    """Looks words up; the names are asked for when they are first needed."""

    def __init__(self, ask: Callable[[], Names], commands: Iterable[str]) -> None:
        self._ask = ask
        self._commands = list(commands)
        self._names: Names | None = None

    def forget(self) -> None:
        """Asks again next time."""
        self._names = None

    @property
    def names(self) -> Names:
        """The names, asked for once."""
        if self._names is None:
            self._names = self._ask()
        return self._names

    def of(self, before: str, whole: str = "") -> tuple[str, list[str]]:
        """The word under way at the end of ``before``, and what it may become; ``whole`` is all that was typed."""
        found = _WORD.search(before)
        word = found[0] if found else ""
        if word.startswith("\\") or (not word and before.endswith("\\")):
            return word, [command for command in self._commands if command.startswith(word)]
        if word.startswith('"'):
            names = [f'"{name}"' for name in (*self._columns(whole or before), *self.names.tables)]
            return word, _starting(word, names)
        if _AFTER_TABLE.search(before):
            schemas = (
                "INFORMATION_SCHEMA.TABLES",
                "INFORMATION_SCHEMA.COLUMNS",
                "sys.quarantine",
                "sys.segments",
                "sys.tasks",
                "sys.servers",
            )
            return word, _starting(word, [*map(quoted, self.names.tables), *schemas])
        if not word and not _QUALIFIED.search(before):
            return word, []
        columns = [quoted(name) for name in self._columns(whole or before)]
        return word, _starting(word, [*columns, *self.names.functions, *KEYWORDS])

    def _columns(self, typed: str) -> Iterator[str]:
        named = {name.strip('"') for name in _NAMED.findall(typed)}
        chosen = [table for table in self.names.tables if table in named] or self.names.tables
        yield from dict.fromkeys(column for table in chosen for column in self.names.columns.get(table, ()))


def quoted(name: str) -> str:
    """A name as a statement spells it."""
    return name if _PLAIN.fullmatch(name) and name.upper() not in KEYWORDS else '"' + name.replace('"', '""') + '"'


def _starting(word: str, names: Iterable[str]) -> list[str]:
    folded = word.casefold()
    return list(dict.fromkeys(name for name in names if name.casefold().startswith(folded)))
