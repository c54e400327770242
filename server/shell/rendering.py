"""Writes rows for people and for programs: as a table, one value a line, CSV, JSON, or JSON lines."""

from __future__ import annotations

import csv
import datetime
import decimal
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from server.layout import GAP, widths

FORMATS = ("table", "vertical", "csv", "json", "lines")
Row = Sequence[Any]


def rendered(rows: Iterable[Row], names: Sequence[str], format_: str, width: int | None = None) -> Iterator[str]:
    """Pieces of text, each ending in a line's end. ``table`` needs all rows before its first line; the others
    write as rows come. ``width`` is the terminal's, None does not fold; a table that would break words there is
    written as ``vertical``."""
    if format_ == "table":
        held = list(rows)
        cells = [[shown(cell) for cell in row] for row in held]
        fitting = None if width is None else widths(names, cells, width)
        if width is not None and fitting is None:
            yield from _vertical(held, names)
        else:
            yield _table(held, names, fitting)
    elif format_ == "vertical":
        yield from _vertical(rows, names)
    elif format_ == "csv":
        yield from _csv(rows, names)
    elif format_ == "lines":
        yield from (_json(dict(zip(names, map(plain, row), strict=True))) + "\n" for row in rows)
    else:
        yield from _json_array(rows, names)


def plain(value: Any) -> Any:
    """A value as JSON has it: times as ISO text, sums beyond a double's digits as integers."""
    if isinstance(value, datetime.datetime):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, datetime.date):
        return value.isoformat()
    return int(value) if isinstance(value, decimal.Decimal) else value


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def shown(value: Any) -> str:
    """A cell for people."""
    value = plain(value)
    if value is None:
        return "null"
    return value if isinstance(value, str) else _json(value)


def _table(rows: list[Row], names: Sequence[str], fitting: Sequence[int] | None) -> str:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    wide = sum(fitting) + GAP * (len(fitting) - 1) if fitting else 10_000
    console = Console(width=wide, file=io.StringIO(), force_terminal=fitting is not None, no_color=fitting is None)
    table = Table(header_style="bold", box=None, pad_edge=False)
    for at, name in enumerate(names):
        first = next((row[at] for row in rows if row[at] is not None), None)
        numeric = isinstance(first, int | float | decimal.Decimal) and not isinstance(first, bool)
        table.add_column(
            Text(name), justify="right" if numeric else "left", overflow="fold", width=fitting[at] if fitting else None
        )
    for row in rows:
        table.add_row(*(Text(shown(cell), style="dim" if cell is None else "") for cell in row))
    with console.capture() as captured:
        console.print(table)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def _vertical(rows: Iterable[Row], names: Sequence[str]) -> Iterator[str]:
    widest = max(map(len, names), default=0)
    for number, row in enumerate(rows, 1):
        cells = zip(names, row, strict=True)
        yield f"-- row {number}\n" + "".join(f"{name.rjust(widest)}  {shown(cell)}\n" for name, cell in cells)


def _csv(rows: Iterable[Row], names: Sequence[str]) -> Iterator[str]:
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    for row in chain([names], rows):
        writer.writerow(["" if cell is None else cell if isinstance(cell, str) else shown(cell) for cell in row])
        yield sink.getvalue()
        sink.seek(0)
        sink.truncate()


def _json_array(rows: Iterable[Row], names: Sequence[str]) -> Iterator[str]:
    before = "["
    for row in rows:
        yield before + _json(dict(zip(names, map(plain, row), strict=True)))
        before = ",\n "
    yield "[]\n" if before == "[" else "]\n"
