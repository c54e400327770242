"""What a line typed at ``siltstone query`` does: a statement is asked, a command changes how; knows no terminal."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from server.shell import rendering, statements
from server.shell.completion import Candidates, Names, quoted
from siltstone.answer import Answer
from siltstone.client import Client
from siltstone.values import ApiError, ClientError

ROWS_SHOWN = 1_000
COLUMN_CHARS = 8
HELP = """\\d           tables                    \\d TABLE   columns of a table
\\f FORMAT    table, vertical, csv, json, lines
\\set KEY VALUE   query context (sqlTimeZone, timeout, ...); without a value it is taken back
\\limit N     rows that a table shows, 0 for all     \\timing   tell how long each answer took
\\e STATEMENT    how it is planned      \\refresh   look again for names to complete
\\q           leave                     a statement ends with a semicolon; Ctrl-C stops it
"""
COMMANDS = ("\\d", "\\e", "\\f", "\\h", "\\limit", "\\q", "\\refresh", "\\set", "\\timing")


class Output(Protocol):
    """Where text goes."""

    width: int | None

    def write(self, text: str) -> None:
        """An answer."""
        ...

    def tell(self, text: str, is_error: bool = False) -> None:
        """A line about it, beside the answer."""
        ...

    def progress(self, text: str) -> None:
        """Replaces the progress line; empty text removes it."""
        ...


@dataclass(slots=True)
class Session:
    """One person's session with one service; for one thread."""

    client: Client
    out: Output
    format: str = "table"
    limit: int = ROWS_SHOWN
    is_timed: bool = True
    context: dict[str, Any] = field(default_factory=dict)
    clock: Callable[[], float] = time.monotonic
    _typed: str = ""
    _shown: int = 0
    names: Candidates = field(init=False)

    def __post_init__(self) -> None:
        self.names = Candidates(self._ask_names, COMMANDS)

    @property
    def is_waiting(self) -> bool:
        """Whether a statement was begun and not ended."""
        return not statements.is_blank(self._typed)

    def forget(self) -> None:
        """Drops what was begun."""
        self._typed = ""

    def take(self, line: str) -> bool:
        """Does what the line says; False when it says to leave."""
        if not self.is_waiting:
            command = line.strip()
            if command.startswith("\\"):
                return self._command(command)
            if command.lower() in ("quit", "exit", "quit;", "exit;"):
                return False
        whole, self._typed = statements.split(self._typed + line + "\n")
        for statement in whole:
            self.run(statements.Placed(statement))
        return True

    def run(self, statement: statements.Placed) -> bool:
        """Asks one statement and writes the answer; False when it has none."""
        begun = self.clock()
        try:
            with self.client.stream(statement.text, (), self.context) as answer:
                count, is_cut = self._write(answer)
        except ApiError as error:
            self.out.progress("")
            self.out.tell(_told(error, statement), is_error=True)
            return False
        except ClientError as error:
            self.out.progress("")
            self.out.tell(f"error: {error}", is_error=True)
            return False
        except KeyboardInterrupt:
            # Leaving the answer has ended the query.
            self.out.progress("")
            self.out.tell("stopped", is_error=True)
            return False
        self._shown = count
        rows = f"{'first ' if is_cut else ''}{count:,} row{'' if count == 1 else 's'}"
        more = "; \\limit 0 shows all" if is_cut else ""
        took = f" in {_duration(self.clock() - begun)}" if self.is_timed else ""
        if self.format in ("table", "vertical"):
            self.out.tell(f"{rows}{took}{more}")
        elif self.is_timed:
            self.out.tell(f"{rows}{took}")
        return True

    def _write(self, answer: Answer) -> tuple[int, bool]:
        names = answer.schema.names
        bound = self.limit if self.format in ("table", "vertical") and self.limit else None
        counted = _Counted(answer.rows(), bound, self.out, self.clock)
        for piece in rendering.rendered(counted, names, self._format_of(len(names)), self.out.width):
            self.out.progress("")
            self.out.write(piece)
        self.out.progress("")
        return counted.count, counted.is_cut

    def _format_of(self, columns: int) -> str:
        """A table whose columns would be a few letters wide each is told a value a line."""
        width = self.out.width
        is_narrow = width is not None and self.format == "table" and width < columns * COLUMN_CHARS
        return "vertical" if is_narrow else self.format

    def _command(self, line: str) -> bool:
        word, _, rest = line.partition(" ")
        rest = rest.strip().rstrip(";")
        if word == "\\q":
            return False
        if word == "\\d":
            self._describe(rest)
        elif word == "\\e" and rest:
            self.run(statements.Placed(f"EXPLAIN PLAN FOR {rest}"))
        elif word == "\\f":
            self._choose_format(rest)
        elif word == "\\limit":
            self._choose_limit(rest)
        elif word == "\\timing":
            self.is_timed = not self.is_timed
            self.out.tell(f"timing is {'on' if self.is_timed else 'off'}")
        elif word == "\\set":
            self._set(rest)
        elif word == "\\refresh":
            self.names.forget()
        elif word in ("\\?", "\\h", "\\help"):
            self.out.tell(HELP.rstrip())
        else:
            missing = f"{word} needs a statement" if word == "\\e" else f"there is no command {word}"
            self.out.tell(f"{missing}; these are there:\n{HELP.rstrip()}", is_error=True)
        return True

    def _choose_format(self, name: str) -> None:
        if name and name not in rendering.FORMATS:
            self.out.tell(f"there is no format {name!r}; choose of {', '.join(rendering.FORMATS)}", is_error=True)
            return
        self.format = name or self.format
        self.out.tell(f"the format is {self.format}")

    def _choose_limit(self, text: str) -> None:
        if text.isdigit():
            self.limit = int(text)
            self.out.tell(f"{self.limit:,} rows are shown" if self.limit else "all rows are shown")
        else:
            self.out.tell(f"\\limit needs a number of rows (0 for all), not {text!r}", is_error=True)

    def _set(self, rest: str) -> None:
        key, _, value = rest.partition(" ")
        if value:
            self.context[key] = value.strip()
        elif key:
            self.context.pop(key, None)
        for name, kept in self.context.items():
            self.out.tell(f"{name} = {kept}")

    def _describe(self, table: str) -> None:
        if not table:
            sql = "SELECT TABLE_NAME, TABLE_TYPE FROM INFORMATION_SCHEMA.TABLES WHERE TABLE_SCHEMA = 'druid' ORDER BY 1"
        else:
            schema, _, name = table.replace('"', "").rpartition(".")
            where = f"TABLE_SCHEMA = {_text(schema or 'druid')} AND TABLE_NAME = {_text(name)}"
            sql = (
                "SELECT COLUMN_NAME, DATA_TYPE, IS_NULLABLE FROM INFORMATION_SCHEMA.COLUMNS "
                f"WHERE {where} ORDER BY ORDINAL_POSITION"
            )
        if self.run(statements.Placed(sql)) and table and not self._shown:
            self.out.tell(f"there is no table {table}; \\d lists them", is_error=True)

    def _ask_names(self) -> Names:
        try:
            columns = self.client.sql(
                "SELECT TABLE_NAME, COLUMN_NAME FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_SCHEMA = 'druid' "
                "ORDER BY TABLE_NAME, ORDINAL_POSITION"
            )
            functions = self.client.sql("SELECT ROUTINE_NAME FROM INFORMATION_SCHEMA.ROUTINES")
        except ClientError:
            # Who types may not be stopped by a service that is away.
            return Names()
        by_table: dict[str, list[str]] = {}
        for row in columns:
            by_table.setdefault(str(row["TABLE_NAME"]), []).append(str(row["COLUMN_NAME"]))
        return Names(list(by_table), by_table, [str(row["ROUTINE_NAME"]) for row in functions])


class _Counted:
    """Rows as they come, counted, at most ``bound``; tells how far it is."""

    def __init__(
        self, rows: Iterator[tuple[Any, ...]], bound: int | None, out: Output, clock: Callable[[], float]
    ) -> None:
        self._rows = rows
        self._bound = bound
        self._out = out
        self._clock = clock
        self.count = 0
        self.is_cut = False

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        begun = told = self._clock()
        for row in self._rows if self._bound is None else itertools.islice(self._rows, self._bound):
            self.count += 1
            if not self.count & 1023 and self._clock() - told > 0.2:
                told = self._clock()
                self._out.progress(f"{self.count:,} rows, {told - begun:.1f} s")
            yield row
        self.is_cut = self._bound == self.count and next(self._rows, None) is not None


def _told(error: ApiError, statement: statements.Placed) -> str:
    """A refusal, with a mark where the text is wrong that the statement is of, if the service said where."""
    where = error.body.get("context") if isinstance(error.body, dict) else None
    place = ""
    if isinstance(where, dict) and "line" in where and "column" in where:
        with contextlib.suppress(ValueError):
            line, column = statement.place(int(where["line"]), int(where["column"]))
            place = f" (line {line}, column {column})"
    told = statement.told(str(error))
    # A text that names its place has it in brackets, as Druid's has.
    return f"error: {told}{'' if place in told or '(line [' in told else place}"


def _duration(seconds: float) -> str:
    return f"{seconds * 1_000:.0f} ms" if seconds < 1 else f"{seconds:.2f} s"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


__all__ = ["COMMANDS", "HELP", "Output", "Session", "quoted"]
