"""`siltstone supervisor`: declares, watches and steers supervisors, one by one or all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

import siltstone
from server import cli_output as out
from server import cli_told as told
from server.cli_options import DEFAULT_URL, Json, Url, Yes
from server.cli_plan import supervisor_plan
from server.reading import document_in, is_shallow

Discard = Annotated[bool, typer.Option("--discard", help="Give up what was read and is not published, at once.")]
Rows = Annotated[int, typer.Option("--limit", min=1, max=1_000, help="At most so many rows.")]
supervisor = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Declare, watch and steer supervisors.")


@supervisor.command("submit")
def supervisor_submit(
    file: Annotated[Path, typer.Argument(help="A Druid Kafka supervisor spec (JSON); - reads standard input.")],
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Create a supervisor, or change it at its next checkpoint. Exits 0 accepted, 1 refused, 2 not read."""
    with out.failures():
        document = document_in(file)
        if not is_shallow(document):
            raise typer.Exit(_judge(file, document, as_json))
        try:
            answer = siltstone.Client(url).submit(document)
        except siltstone.ApiError as error:
            report = out.refusal(error)
            if report is None:
                raise
            raise typer.Exit(out.validation(str(file), report, as_json)) from None
        out.warnings(answer)
        out.record(answer, as_json, "submitted {id}")


@supervisor.command("validate")
def supervisor_validate(
    file: Annotated[Path, typer.Argument(help="A Druid Kafka supervisor spec (JSON); - reads standard input.")],
    as_json: Json = False,
) -> None:
    """Judge a spec without a service: every fault and warning. Exits 0 accepted, 1 refused, 2 not read."""
    with out.failures():
        raise typer.Exit(_judge(file, document_in(file), as_json))


def _judge(file: Path, document: Any, as_json: bool) -> int:
    from server.validating import validate

    return out.validation(str(file), validate(document), as_json)


supervisor.command("plan")(supervisor_plan)


@supervisor.command("list")
def supervisor_list(url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """All supervisors with state and health."""
    with out.failures():
        rows = siltstone.Client(url).supervisors()
        out.rows(
            rows if as_json else out.columns(rows, "id", "state", "detailedState", "healthy", "suspended"), as_json
        )


@supervisor.command("status")
def supervisor_status(name: str, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """What a supervisor does, how far it is behind, and what went wrong lately."""
    with out.failures():
        out.supervisor_status(siltstone.Client(url).supervisor_status(name), as_json)


@supervisor.command("spec")
def supervisor_spec(name: str, url: Url = DEFAULT_URL) -> None:
    """The spec as posted, in JSON, secrets masked: edit it and submit it again, masks stand for what is stored."""
    with out.failures():
        typer.echo(json.dumps(siltstone.Client(url).supervisor_spec(name), indent=2, ensure_ascii=False))


@supervisor.command("history")
def supervisor_history(name: str, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """When its spec was posted or ended, newest first; the specs themselves with --json."""
    with out.failures():
        found = siltstone.Client(url).supervisor_history(name)
        out.rows(found if as_json else [told.version(each) for each in found], as_json)


@supervisor.command("audit")
def supervisor_audit(name: str, url: Url = DEFAULT_URL, as_json: Json = False, limit: Rows = 20) -> None:
    """What an operator or the service did to its course, newest first."""
    with out.failures():
        found = siltstone.Client(url).supervisor_audit(name, limit)
        out.rows(found if as_json else [{**each, "at": told.moment(each["at"])} for each in found], as_json)


@supervisor.command("ledger")
def supervisor_ledger(
    name: str,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
    limit: Rows = 20,
    after: Annotated[int, typer.Option(min=0, help="Only what was published after this table version.")] = 0,
) -> None:
    """Its published ranges with what became of their messages, oldest first."""
    with out.failures():
        found = siltstone.Client(url).supervisor_ledger(name, limit, after)
        shown = ("sequence", "published", "version", "ranges", "messages", "rowsIn", "rowsStored")
        told_rows = [{**row, "published": told.moment(row["published"])} for row in out.columns(found, *shown)]
        out.rows(found if as_json else told_rows, as_json)


@supervisor.command("stats")
def supervisor_stats(name: str, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """What became of the messages that its live tasks have read, a line for each task."""
    with out.failures():
        found = siltstone.Client(url).supervisor_stats(name)
        if as_json:
            typer.echo(json.dumps(found, ensure_ascii=False))
        else:
            out.rows(list(told.stats(found)), False)


@supervisor.command("errors")
def supervisor_errors(name: str, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Samples of records that its live tasks could not read whole, newest first; all: siltstone quarantine."""
    with out.failures():
        found = siltstone.Client(url).supervisor_parse_errors(name)
        out.rows(found if as_json else [told.parse_error(each) for each in found], as_json)


@supervisor.command("health")
def supervisor_health(name: str, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Whether a supervisor is healthy, and why not; exits 0 or 1, for scripts."""
    with out.failures():
        payload = siltstone.Client(url).supervisor_status(name)["payload"]
        raise typer.Exit(out.health(told.faults(name, payload), as_json))


def _action(name: str, action: str, url: str, as_json: bool, done: str) -> None:
    with out.failures():
        out.record(siltstone.Client(url).supervisor_action(name, action), as_json, done)


@supervisor.command("suspend")
def supervisor_suspend(name: str, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Publish what was read and stop reading."""
    _action(name, "suspend", url, as_json, f"suspended {name}")


@supervisor.command("resume")
def supervisor_resume(name: str, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Go on reading where a suspended supervisor stopped."""
    _action(name, "resume", url, as_json, f"resumed {name}")


@supervisor.command("terminate")
def supervisor_terminate(name: str, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Publish what was read and end the supervisor; its table stays."""
    _action(name, "terminate", url, as_json, f"terminated {name}")


@supervisor.command("reset")
def supervisor_reset(
    name: str,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
    yes: Yes = False,
    discard: Discard = False,
) -> None:
    """Forget the stored offsets: reading starts again by the spec's policy, so rows may be read twice or skipped."""
    if not yes:
        with out.failures():
            out.confirm(f"Reset the offsets of {name}? Rows may then be read twice or never", "nothing was reset")
    with out.failures():
        out.record(siltstone.Client(url).reset_supervisor(name, discard=discard), as_json, f"reset {name}")


@supervisor.command("reset-offsets")
def supervisor_reset_offsets(
    name: str,
    moves: Annotated[
        list[str], typer.Argument(metavar="PARTITION=OFFSET...", help="Of a topicPattern: TOPIC:PARTITION=OFFSET.")
    ],
    url: Url = DEFAULT_URL,
    as_json: Json = False,
    yes: Yes = False,
    discard: Discard = False,
) -> None:
    """Read these partitions on from other offsets; rows may be read twice or skipped, other partitions lose nothing."""
    with out.failures():
        wanted = out.moves(moves)
        if not yes:
            listed = ", ".join(f"{partition} to {offset}" for partition, offset in wanted.items())
            out.confirm(f"Move {listed} of {name}? Rows may then be read twice or never", "nothing was moved")
        answer = siltstone.Client(url).reset_offsets(name, wanted, discard=discard)
        out.record(answer, as_json, f"moved {len(wanted)} partitions of {name}")


@supervisor.command("reset-to-latest-and-backfill")
def supervisor_backfill(
    name: str,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
    yes: Yes = False,
    tasks: Annotated[
        int | None, typer.Option("--tasks", min=1, help="Task groups of the one that reads what is skipped.")
    ] = None,
) -> None:
    """Go on at the latest offsets at once; a second, bounded supervisor reads what is skipped, each record once."""
    with out.failures():
        if not yes:
            out.confirm(f"Let {name} go on at the latest offsets, and start another for the rest", "nothing was moved")
        answer = siltstone.Client(url).backfill_supervisor(name, tasks)
        sentence = f"{name} goes on at the latest offsets; {{backfillSupervisorId}} reads what is skipped"
        out.record(answer, as_json, sentence)


@supervisor.command("handoff")
def supervisor_hand_off(
    name: str,
    groups: Annotated[
        list[int], typer.Argument(metavar="GROUP...", help="Numbers of task groups, as `stats` shows them.")
    ],
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """End the open sequences of task groups early, so that their rows are published; reading goes on."""
    with out.failures():
        answer = siltstone.Client(url).hand_off(name, groups)
        unknown = set(answer.get("unknown", []))
        asked = [group for group in groups if group not in unknown]
        if asked or not unknown:
            listed = ", ".join(map(str, asked))
            out.record({"id": name, "taskGroupIds": asked}, as_json, f"asked groups {listed} of {name} to publish")
        if unknown:
            there = ", ".join(map(str, answer["groups"])) or "none"
            named = ", ".join(map(str, sorted(unknown)))
            raise out.Failure(f"{name} has no task group {named}; it has {there}")


def _all(action: str, url: str, as_json: bool, done: str) -> None:
    with out.failures():
        out.record(siltstone.Client(url).all_supervisors(action), as_json, done)


@supervisor.command("suspend-all")
def supervisor_suspend_all(url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Publish what was read and stop reading, of every supervisor."""
    _all("suspendAll", url, as_json, "suspended all")


@supervisor.command("resume-all")
def supervisor_resume_all(url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Go on reading, with every suspended supervisor."""
    _all("resumeAll", url, as_json, "resumed all")


@supervisor.command("terminate-all")
def supervisor_terminate_all(url: Url = DEFAULT_URL, as_json: Json = False, yes: Yes = False) -> None:
    """Publish what was read and end every supervisor; tables stay."""
    if not yes:
        with out.failures():
            out.confirm("End every supervisor", "nothing was ended")
    _all("terminateAll", url, as_json, "terminated all")
