"""`siltstone lookups`: what queries name as lookups, posted, shown and taken away."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

import siltstone
from server import cli_output as out
from server.cli_options import DEFAULT_URL, Json, Url, Yes

lookups = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Post, show and remove lookups.")
Tier = Annotated[str, typer.Option("--tier", help="Druid's tier; query nodes of this version have one.")]
DEFAULT_TIER = "__default"


@lookups.command("list")
def lookups_list(url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """All lookups: tier, name, version, kind, and whether every query node has them."""
    with out.failures():
        client = siltstone.Client(url)
        found, loaded = client.lookups(), client.lookup_status()
        rows: list[dict[str, Any]] = [
            {
                "tier": tier,
                "name": name,
                "version": one.get("version"),
                "type": (one.get("lookupExtractorFactory") or {}).get("type"),
                "loaded": bool(loaded.get(tier, {}).get(name, {}).get("loaded")),
            }
            for tier, held in sorted(found.items())
            for name, one in sorted(held.items())
        ]
        out.rows(rows, as_json)


@lookups.command("show")
def lookups_show(name: str, url: Url = DEFAULT_URL, tier: Tier = DEFAULT_TIER) -> None:
    """One lookup as posted, in JSON, secrets masked."""
    with out.failures():
        typer.echo(json.dumps(siltstone.Client(url).lookup(name, tier), indent=2, ensure_ascii=False))


@lookups.command("put")
def lookups_put(
    name: str,
    file: Annotated[Path, typer.Argument(help="version and lookupExtractorFactory (JSON); - reads standard input.")],
    url: Url = DEFAULT_URL,
    as_json: Json = False,
    tier: Tier = DEFAULT_TIER,
) -> None:
    """Create a lookup or replace it; other content needs a higher version."""
    with out.failures():
        answer = siltstone.Client(url).put_lookup(name, out.read_json(file), tier)
        out.record(answer, as_json, f"stored {name}; `siltstone lookups list` tells when every query node has it")


@lookups.command("remove")
def lookups_remove(
    name: str, url: Url = DEFAULT_URL, as_json: Json = False, tier: Tier = DEFAULT_TIER, yes: Yes = False
) -> None:
    """Take a lookup away; queries that name it fail from then on."""
    with out.failures():
        if not yes:
            out.confirm(f"Remove lookup {name}", "nothing was removed")
        siltstone.Client(url).remove_lookup(name, tier)
        out.record({"tier": tier, "name": name}, as_json, f"removed {name}")
