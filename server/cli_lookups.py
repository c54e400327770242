"""`siltstone lookups`: what queries name as lookups, posted, shown and taken away."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

import siltstone
from server import cli_output as out
from server.cli_options import DEFAULT_URL, Json, Url, Yes
from server.reading import document_in

lookups = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Post, show and remove lookups.")
Tier = Annotated[str, typer.Option("--tier", help="Druid's tier; query nodes of this version have one.")]
DEFAULT_TIER = "__default"
LOOK_S = 0.25


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
    wait: Annotated[int, typer.Option(min=0, help="Seconds to wait until query nodes have read it; 0 does not.")] = 5,
) -> None:
    """Create a lookup or replace it; other content needs a higher version. Tells why a query node cannot load it."""
    with out.failures():
        client = siltstone.Client(url)
        answer = client.put_lookup(name, document_in(file), tier)
        state, troubles = _loaded(client, name, tier, wait)
        for address, trouble in troubles.items():
            typer.secho(f"warning: the query node {address} cannot load it now: {trouble}", fg="yellow", err=True)
        later = "the query nodes go on trying" if troubles else "the query nodes have not all loaded it yet"
        done = "every query node has it" if state else f"{later}; `siltstone lookups list` tells when they have it"
        out.record({**answer, "loaded": state, "troubles": troubles}, as_json, f"stored {name}; {done}")


def _loaded(client: siltstone.Client, name: str, tier: str, wait_s: int) -> tuple[bool, dict[str, str]]:
    """Whether every query node has it, or why one cannot, as soon as that is known."""
    end = time.monotonic() + wait_s
    while True:
        told: dict[str, Any] = {}
        with suppress(siltstone.ApiError):  # it is stored all the same; a Druid knows of it a while later only
            told = client.lookup_troubles(name, tier)
        if told.get("loaded") or told.get("troubles") or time.monotonic() >= end:
            return bool(told.get("loaded")), told.get("troubles", {})
        time.sleep(LOOK_S)


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
