"""How wide the columns of a table for people are, so that no word of it is broken (pure)."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

GAP = 2
"""Blanks between two columns."""


def widths(names: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[int] | None:
    """A width for each column, in cells of the terminal: each holds its longest word, and what is left goes to the
    columns that need it, the least needy first. None when the longest words alone do not fit."""
    columns = [[name, *(row[at] for row in rows)] for at, name in enumerate(names)]
    least = [max((cell_len(word) for text in column for word in text.split()), default=0) for column in columns]
    whole = [max(cell_len(line) for text in column for line in text.split("\n")) for column in columns]
    left = width - sum(least) - GAP * (len(names) - 1)
    if left < 0:
        return None
    found = list(least)
    needy = sorted(range(len(names)), key=lambda at: whole[at] - least[at])
    for number, at in enumerate(needy):
        more = min(whole[at] - least[at], left // (len(needy) - number))
        found[at] += more
        left -= more
    return found
