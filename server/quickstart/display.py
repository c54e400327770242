"""The three questions of the demonstration, and how their answers are shown: a live screen, or plain lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from siltstone import Client

TOTALS = """SELECT COUNT(*) AS edits, SUM(added) AS characters_added,
  COUNT(DISTINCT "user") AS editors FROM wikipedia"""
CHANNELS = """SELECT channel, COUNT(*) AS edits, SUM(added) AS characters_added
FROM wikipedia GROUP BY channel ORDER BY edits DESC LIMIT 5"""
RECENT = """SELECT TIME_FLOOR(__time, 'PT10S') AS ten_seconds, COUNT(*) AS edits
FROM wikipedia WHERE __time > CURRENT_TIMESTAMP - INTERVAL '1' MINUTE
GROUP BY 1 ORDER BY 1 DESC LIMIT 5"""
ROWS_SHOWN = 5
LINE_S = 5.0
PICTURE_S = 10.0
PUBLISHED = "SELECT SUM(num_rows) AS n FROM sys.segments WHERE datasource = 'wikipedia'"


@dataclass(frozen=True, slots=True)
class Picture:
    """Answers of one moment. ``published`` is read first, so that the live rest is never negative."""

    published: int
    totals: list[dict[str, Any]]
    channels: list[dict[str, Any]]
    recent: list[dict[str, Any]]
    produced: int

    @property
    def rows(self) -> int:
        """Rows that a query sees."""
        return int(self.totals[0]["edits"]) if self.totals else 0

    @property
    def live(self) -> int:
        """Rows that no segment holds yet."""
        return max(0, self.rows - self.published)


def look(client: Client, produced: Callable[[int], int]) -> Picture:
    """Asks everything once; what was produced last of all, given the rows seen. Raises ClientError."""
    published = client.sql(PUBLISHED)[0]["n"] or 0
    totals, channels, recent = client.sql(TOTALS), client.sql(CHANNELS), client.sql(RECENT)
    return Picture(int(published), totals, channels, recent, produced(int(totals[0]["edits"]) if totals else 0))


def as_text(picture: Picture, rows_shown: int = ROWS_SHOWN, spaced: bool = True) -> RenderableType:
    """The whole picture for a screen or a page; of the answers at most so many rows."""
    head = Text(_counts(picture), style="bold green")
    parts: list[RenderableType] = [head, Text(f"{picture.produced:,} events produced", style="dim")]
    for question, rows in ((TOTALS, picture.totals), (CHANNELS, picture.channels), (RECENT, picture.recent)):
        parts += [*([Text()] if spaced else []), Text(question, style="cyan"), _table(rows[:rows_shown])]
    return Group(*parts)


def fitted(picture: Picture, console: Console) -> RenderableType:
    """As much of the picture as the screen has room for: first the empty lines go, then the last rows of answers.

    One line is left for the cursor: a screen that is full to its last line is scrolled.
    """
    for rows_shown, spaced in [(ROWS_SHOWN, True), *((rows, False) for rows in range(ROWS_SHOWN, 0, -1))]:
        found = as_text(picture, rows_shown, spaced)
        if len(console.render_lines(found, pad=False)) < console.height:
            break
    return found


def _counts(picture: Picture) -> str:
    return f"{picture.rows:,} rows: {picture.published:,} published, {picture.live:,} live"


def _table(rows: list[dict[str, Any]]) -> RenderableType:
    if not rows:
        return Text("no rows yet", style="dim")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, value in rows[0].items():
        table.add_column(name, justify="right" if isinstance(value, int) else "left")
    for row in rows:
        table.add_row(*(f"{value:,}" if isinstance(value, int) else str(value) for value in row.values()))
    return table


class Screen:
    """Refreshed in place on a terminal; elsewhere a line every five seconds and the whole picture every ten."""

    def __init__(self) -> None:
        self._console = Console()
        self._live = Live(console=self._console, auto_refresh=False) if sys.stdout.isatty() else None
        self._line_due_s = self._picture_due_s = 0.0
        self._last: Picture | None = None
        self._printed: Picture | None = None

    def __enter__(self) -> Screen:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *ended_by: object) -> None:
        if self._live is not None:
            self._live.stop()
        elif self._last is not None and self._last is not self._printed:
            self._console.print(as_text(self._last))

    def say(self, line: str) -> None:
        """One line that stays."""
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def show(self, picture: Picture) -> None:
        self._last = picture
        if self._live is not None:
            self._live.update(fitted(picture, self._console), refresh=True)
            return
        now_s = time.monotonic()
        if now_s >= self._picture_due_s:
            self._picture_due_s = now_s + PICTURE_S
            self._line_due_s = now_s + LINE_S
            self._console.print(as_text(picture))
            self._printed = picture
        elif now_s >= self._line_due_s:
            self._line_due_s = now_s + LINE_S
            self.say(_counts(picture))
