"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Url = Annotated[str, typer.Option("--url", envvar="SILTSTONE_URL", help="Address of the service.")]
Json = Annotated[bool, typer.Option("--json", help="JSON for scripts instead of tables for people.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
Config = Annotated[Path | None, typer.Option("--config", help="Settings file (YAML); the environment wins over it.")]
DEFAULT_URL = "http://127.0.0.1:8888"
