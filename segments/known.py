"""What else there is, for an error that tells of a name which nothing has (pure)."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

SHOWN = 5


def there_are(name: str, known: Iterable[str]) -> str:
    """The names that there are, the nearest first and at most five, to end a sentence with: ``; there are 'a', 'b'``.

    For a few hundred thousand names at most: it looks at each.
    """
    names = sorted(set(known))
    if not names:
        return "; there is none"
    folded = {each.casefold(): each for each in names}
    near = [folded[each] for each in difflib.get_close_matches(name.casefold(), folded, n=SHOWN, cutoff=0.6)]
    shown = [*near, *(each for each in names if each not in near)][:SHOWN]
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return f"; there {'is' if len(names) == 1 else 'are'} {', '.join(map(repr, shown))}{more}"
