"""The first lines of the ``siltstone`` command, and of ``python -m server``.

They load nothing themselves: on a busy machine the rest takes seconds, and Ctrl-C must not show a traceback then.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Loads and runs the command line; exits 130 where Ctrl-C comes before a command could begin."""
    try:
        from server.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
