"""What else there is, for an error that tells of a name which nothing has (pure)."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

SHOWN = 5


def nearest(name: str, known: Iterable[str], most: int) -> list[str]:
    """The names that look like it in whatever case, the nearest first."""
    folded: dict[str, str] = {}
    for each in known:
        folded.setdefault(each.casefold(), each)
    return [folded[each] for each in difflib.get_close_matches(name.casefold(), folded, n=most, cutoff=0.6)]


def there_are(name: str, known: Iterable[str]) -> str:
    """The names that there are, the nearest first and at most five, to end a sentence with: ``; there are 'a', 'b'``.

    For a few hundred thousand names at most: it looks at each.
    """
    names = sorted(set(known))
    if not names:
        return "; there is none"
    near = nearest(name, names, SHOWN)
    shown = [*near, *(each for each in names if each not in near)][:SHOWN]
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return f"; there {'is' if len(names) == 1 else 'are'} {', '.join(map(repr, shown))}{more}"
