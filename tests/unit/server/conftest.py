"""The command line is put together once for all tests that call it, not by each call."""

from functools import cache

import typer.testing
from typer.main import get_command

# By its name in the module, which no test may import.
vars(typer.testing)["_get_command"] = cache(get_command)
