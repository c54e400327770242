"""`siltstone quarantine`: the files of records that could not be read, and what lies in them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

import siltstone
from server import cli_output as out
from server import cli_told as told
from server.cli_options import DEFAULT_URL, Json, Url

quarantine = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Look at records that could not be read.")
Table = Annotated[str, typer.Argument(help="The table.")]
File = Annotated[str | None, typer.Option("--file", help="Only this file, by its path; all by default.")]
VALUE_CHARS = 200


@quarantine.command("list")
def quarantine_list(
    table: Table,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
    limit: Annotated[int, typer.Option(min=1, help="At most so many files, the newest.")] = 100,
) -> None:
    """Quarantine files of a table, newest first."""
    with out.failures():
        files = siltstone.Client(url).quarantine(table)
        rows = list(islice(files, limit))
        out.rows(
            rows if as_json else out.columns(rows, "sequence", "rows", "bytes", "created", "state", "path"), as_json
        )


@quarantine.command("show")
def quarantine_show(
    table: Table,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
    file: File = None,
    limit: Annotated[int, typer.Option("--rows", min=1, help="At most so many records.")] = 20,
) -> None:
    """Records of a table's quarantine: place, time, reason and the raw value; the newest file's first."""
    with out.failures():
        client = siltstone.Client(url)
        found: list[dict[str, Any]] = []
        for path in _paths(client, table, file):
            found += client.quarantine_records(table, path, limit - len(found))
            if len(found) >= limit:
                break
        out.rows(found if as_json else [_shown(record) for record in found], as_json)


@quarantine.command("export")
def quarantine_export(
    table: Table,
    to: Annotated[Path, typer.Option("--to", help="Folder for the files; made if it is not there.")],
    url: Url = DEFAULT_URL,
    as_json: Json = False,
    file: File = None,
) -> None:
    """Copy quarantine files as they are, Parquet with raw values; those already there whole are not copied again."""
    with out.failures():
        client = siltstone.Client(url)
        done = []
        for row in client.quarantine(table):
            if (file is None or row["path"] == file) and row["state"] != "expired":
                done.append({"file": str(_copied(client, table, row, to)), "rows": row["rows"], "bytes": row["bytes"]})
        if file is not None and not done:
            raise out.Failure(f"table {table!r} has no quarantine file {file!r}")
        out.rows(done, as_json)


@quarantine.command("replay")
def quarantine_replay(
    table: Table,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
    file: File = None,
) -> None:
    """After the spec is mended: read the records again by it, oldest file first, each record exactly once."""
    with out.failures():
        client = siltstone.Client(url)
        waiting = [row["path"] for row in client.quarantine(table) if row["state"] == "kept"][::-1]
        done: list[dict[str, Any]] = []
        for path in [file] if file is not None else waiting:
            done.append(client.replay_quarantine(table, path))
        if as_json:
            out.rows(done, as_json)
            return
        columns = [{name: each.get(name) for name in ("records", "rows", "quarantined", "path")} for each in done]
        out.rows(columns, as_json)


def _paths(client: siltstone.Client, table: str, file: str | None) -> Iterator[str]:
    if file is not None:
        yield file
        return
    for row in client.quarantine(table):
        if row["state"] != "expired":
            yield row["path"]


def _copied(client: siltstone.Client, table: str, row: dict[str, Any], folder: Path) -> Path:
    # The last part of the path is unique to the attempt that wrote the file; the sequence is for people.
    target = folder / f"{quote(row['sequence'], safe='')[-120:]}.{row['path'].rpartition('/')[2]}"
    partial = target.with_name(target.name + ".part")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.stat().st_size != row["bytes"]:
            with partial.open("wb") as sink:
                client.quarantine_file(table, row["path"], sink)
            partial.replace(target)
    except OSError as error:
        raise out.Failure(f"{target}: cannot be written: {error.strerror or error}") from error
    return target


def _shown(record: dict[str, Any]) -> dict[str, Any]:
    """A record in one line of a terminal that obeys nothing in it."""
    value = record["value"] if record["value"] is not None else f"base64 {record.get('valueBase64', '')}"
    cut = value if len(value) <= VALUE_CHARS else value[:VALUE_CHARS] + "…"
    clean = {name: told.plain(text) for name, text in (("reason", record["reason"]), ("value", cut))}
    return {**out.columns([record], "topic", "partition", "offset", "timestamp")[0], **clean}
