"""`siltstone supervisor plan`: what posting a spec would do, without posting it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

import siltstone
from server import cli_output as out
from server.cli_options import DEFAULT_URL, Json, Url
from server.reading import document_in

ACCEPTED, REFUSED, LOSES = 0, 1, 3


def supervisor_plan(
    file: Annotated[Path, typer.Argument(help="A Druid Kafka supervisor spec (JSON); - reads standard input.")],
    url: Url = DEFAULT_URL,
    as_json: Json = False,
    records: Annotated[
        int, typer.Option(min=0, max=5_000, help="Dry run over so many of the topic's last records; 0 reads none.")
    ] = 100,
) -> None:
    """Tell what posting a spec would change, from which offsets, and what the last records would become.

    Exits 0 accepted (also if nothing changes), 1 refused or not reached, 3 accepted, but records of the dry run that
    are rows now would go to the quarantine.
    """
    with out.failures():
        report = siltstone.Client(url).plan(document_in(file), records)
        if as_json:
            typer.echo(json.dumps(report, ensure_ascii=False))
        else:
            _print(str(file), report)
        raise typer.Exit(_code(report))


def _code(report: dict[str, Any]) -> int:
    if report["action"] == "refused" or report.get("unreached"):
        return REFUSED
    return LOSES if (report["sample"] or {}).get("loses") else ACCEPTED


def _print(file: str, report: dict[str, Any]) -> None:
    if report["action"] == "refused":
        out.validation(file, {**report, "valid": False}, False)
    else:
        out.warnings(report)
    if "supervisor" not in report:
        return
    typer.echo(f"{report['supervisor']}: {_headline(report)}")
    changes = [
        {"field": c["path"], "now": c["old"], "planned": c["new"], "concerns": c["concerns"]} for c in report["changes"]
    ]
    if changes:
        out.rows(changes, False)
    if report["how"]:
        typer.echo(report["how"])
    if report["from"] is not None:
        typer.echo(f"from offsets {_pairs(report['from'])}, committed {_pairs(report['committed'] or {}) or 'none'}")
    _print_sample(report["sample"])
    if report.get("unreached"):
        typer.secho(f"error: the stream cannot be asked: {report['unreached']}", fg="red", err=True)


def _headline(report: dict[str, Any]) -> str:
    changes = len(report["changes"])
    return {
        "create": f"new, reads topic {report['topic']} into {report['dataSource']}",
        "change": f"{changes} field{'s' if changes != 1 else ''} would change",
        "none": "nothing would change",
        "refused": "refused",
    }[report["action"]]


def _pairs(offsets: dict[str, int]) -> str:
    return ", ".join(f"{partition}: {offset}" for partition, offset in offsets.items())


def _print_sample(sample: dict[str, Any] | None) -> None:
    if sample is None or "error" in sample:
        return
    spans = ", ".join(f"{p}: {first} to {end}" for p, (first, end) in sample["ranges"].items())
    typer.echo(f"dry run over the last {sample['records']} records ({spans or 'the topic is empty'})")
    names = [name for name in ("rows", "good", "partly", "unparseable", "filtered", "tombstone", "early", "late")]
    kinds = (("now", sample["present"]), ("planned", sample["planned"]))
    counted = [{"spec": kind, **{name: found.get(name, 0) for name in names}} for kind, found in kinds if found]
    if sample["records"]:
        out.rows(counted, False)
    for move in sample["moves"]:
        typer.secho(f"{move['records']} records: {move['from']} now, {move['to']} by the plan", fg="yellow")
    if sample["rows"]:
        typer.echo("rows by the plan, the first ones:")
        out.rows(sample["rows"], False)
    if sample["rejects"]:
        typer.echo("rejects by the plan, the first ones:")
        out.rows(sample["rejects"], False)
