"""The `siltstone` command: reads arguments, calls the part that does the work, and sets the exit code.

Heavy libraries are imported inside the commands that need them, so that ``--help`` stays quick.
Exit codes: 0 done, 1 failed, 2 wrong use.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import siltstone
from segments.known import there_are
from server import cli_output as out
from server import cli_told as told
from server.cli_lookups import lookups
from server.cli_options import DEFAULT_URL, Config, Json, Url, Yes
from server.cli_quarantine import quarantine
from server.cli_supervisor import supervisor

app = typer.Typer(
    name="siltstone",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Kafka topics as exact tables.",
)
task = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Look at indexing tasks.")
segments = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Look at published segments.")
worker = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Steer middle managers.")
app.add_typer(supervisor, name="supervisor")
SegmentIds = Annotated[list[str] | None, typer.Argument(metavar="[SEGMENT...]", help="Ids, as `list` shows them.")]
InInterval = Annotated[str | None, typer.Option("--interval", help="All whose time chunks lie within START/END.")]
app.add_typer(task, name="task")
app.add_typer(segments, name="segments")
app.add_typer(worker, name="worker")
app.add_typer(lookups, name="lookups")
app.add_typer(quarantine, name="quarantine")


@app.callback()
def options() -> None:
    """Turns Kafka topics into exactly-once, immediately queryable tables."""


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(f"siltstone {siltstone.__version__}")


@app.command()
def serve(
    config: Config = None,
    roles: Annotated[
        str | None, typer.Option(help="Some of overlord,middle-manager,query,api; all by default.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65_535, help="Port to listen on; 0 takes a free one.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where everything on disk lies.")] = None,
) -> None:
    """Run the service until Ctrl-C; its tasks outlive it and are adopted by the next start."""
    overrides: dict[str, Any] = {}
    if roles is not None:
        overrides["roles"] = roles
    if data_dir is not None:
        overrides["data_dir"] = data_dir
    http = {key: value for key, value in (("host", host), ("port", port)) if value is not None}
    if http:
        overrides["http"] = http
    with out.failures():
        from server.process import serve_until_stopped

        raise typer.Exit(serve_until_stopped(config, overrides))


@app.command()
def migrate(config: Config = None) -> None:
    """Bring the metadata database's schema up to date."""
    with out.failures():
        from ingest.metadata.schema import migrate as migrate_database
        from server.config import load

        settings = load(config)
        settings.data_dir.mkdir(parents=True, exist_ok=True)
        before, now = migrate_database(settings.metadata_url)
        typer.echo(f"the schema is at {now}" + ("" if before == now else f", it was {before or 'empty'}"))


@app.command("accept-database")
def accept_database(
    config: Config = None,
    yes: Yes = False,
) -> None:
    """Let this machine use an older copy of a metadata database that is lost: on each machine, the service stopped."""
    with out.failures():
        from server.accepting import forget_newer_database
        from server.config import load

        settings = load(config)
        if not yes:
            question = "End the tasks of this machine and remove the rows that they have not published"
            out.confirm(f"{question}? They are read again from the stream", "nothing was removed")
        done = forget_newer_database(settings)
        typer.echo(f"{done.attempts} task attempts removed; start the service when this was done on every machine")


@app.command()
def query(
    sql: Annotated[
        str | None, typer.Argument(help="One SELECT; - reads statements from standard input; none: a prompt.")
    ] = None,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
    csv: Annotated[bool, typer.Option("--csv", help="CSV with a header line.")] = False,
    format_: Annotated[
        str | None, typer.Option("--format", help="table, vertical, csv, json or lines (one JSON object a row).")
    ] = None,
    timing: Annotated[bool, typer.Option("--timing", help="Tell how long it took, on standard error.")] = False,
    context: Annotated[
        list[str] | None, typer.Option("--context", help="KEY=VALUE of Druid's query context; may be repeated.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Statements in this file; errors tell its lines.")
    ] = None,
) -> None:
    """Ask in SQL and print the rows; without a statement, a prompt with history and completion."""
    if sql is not None and file is not None:
        raise typer.BadParameter("a statement and a file of statements cannot both be asked", param_hint="SQL")
    if sql is None and file is None and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise typer.BadParameter("a statement is needed where there is no terminal to ask at", param_hint="SQL")
    with out.failures():
        asked = out.asked_format(as_json, csv, format_)
        pairs = out.pairs(context or [])
        client = siltstone.Client(url)
        if sql is not None and asked in ("table", "json", "csv") and not timing and not pairs and sql != "-":
            if asked == "csv":
                out.csv(client.sql_text(sql, "csv"))
            else:
                out.rows(client.sql(sql), asked == "json")
            return
        from server.shell.command import run

        typed = sql if file is None else out.text_in(file)
        raise typer.Exit(run(client, typed, asked, timing, pairs))


@app.command()
def health(url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """What is wrong with the process at this address, a line each; exits 0 while nothing is, else 1."""
    with out.failures():
        raise typer.Exit(out.health(siltstone.Client(url).faults(), as_json))


@app.command()
def verify(
    table: Annotated[str, typer.Argument(help="The table to audit.")],
    config: Config = None,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Prove that a table holds every record exactly once; with --config without the service running."""
    with out.failures():
        if config is None:
            report = siltstone.Client(url).verify(table)
        else:
            from server.wiring import verify_offline

            report = verify_offline(config, table)
        raise typer.Exit(out.verification(report, as_json))


@app.command()
def quickstart(
    data_dir: Annotated[Path, typer.Option(help="Where the demonstration keeps its data.")] = Path("siltstone-data"),
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port of the service; 0 takes a free one.")] = 8888,
    rate: Annotated[int, typer.Option(min=1, max=20_000, help="Events produced per second.")] = 200,
    kafka: Annotated[
        str | None, typer.Option(help="HOST:PORT of a real broker instead of the small built-in one.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Delete what an earlier start left in the data directory.")
    ] = False,
    seconds: Annotated[int | None, typer.Option(min=1, help="End by itself after so long.")] = None,
    once: Annotated[
        bool, typer.Option("--once", help="End after the first answers over live and published rows.")
    ] = False,
) -> None:
    """Start everything on embedded defaults, stream a day of Wikipedia edits, and query them while they arrive."""
    with out.failures():
        from server.quickstart.command import QuickstartOptions, run

        out.check_brokers(kafka)
        chosen = QuickstartOptions(
            data_dir=data_dir, port=port, rate=rate, kafka=kafka, fresh=fresh, seconds=seconds, once=once
        )
        raise typer.Exit(run(chosen))


@task.command("list")
def task_list(url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Tasks, newest first."""
    with out.failures():
        rows = siltstone.Client(url).tasks()
        out.rows(rows if as_json else [told.task(each) for each in rows], as_json)


@task.command("log")
def task_log(
    name: str,
    url: Url = DEFAULT_URL,
    tail: Annotated[int | None, typer.Option(min=1, help="Only the last so many bytes.")] = None,
) -> None:
    """Print a task's log."""
    with out.failures():
        typer.echo(siltstone.Client(url).task_log(name, -tail if tail else 0), nl=False)


@task.command("status")
def task_status(name: str, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """What became of a task."""
    with out.failures():
        found = siltstone.Client(url).task_status(name)
        out.record(found, as_json, "{id}: {status}, since {createdTime}")
        if found.get("errorMsg") and not as_json:
            typer.echo(found["errorMsg"])


@task.command("shutdown")
def task_shutdown(name: str, url: Url = DEFAULT_URL, as_json: Json = False, yes: Yes = False) -> None:
    """End a task's process; its group gets another, which reads again what only this one held."""
    with out.failures():
        if not yes:
            out.confirm(f"End {name}? Its group gets another", "nothing was ended")
        out.record(siltstone.Client(url).shut_down_task(name), as_json, f"ended {name}")


@worker.command("list")
def worker_list(url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Middle managers as last heard: address, capacity, tasks, whether they take new ones."""
    with out.failures():
        found = siltstone.Client(url).workers()
        out.rows(found if as_json else [told.worker(each) for each in found], as_json)


@worker.command("drain")
def worker_drain(
    url: Url = DEFAULT_URL,
    as_json: Json = False,
    wait: Annotated[int, typer.Option(min=0, help="Seconds to wait for its tasks to end; 0 does not wait.")] = 300,
) -> None:
    """The middle manager at this address takes no new tasks; those it has publish what they read and end."""
    with out.failures():
        client = siltstone.Client(url)
        with out.of_a_worker(url):
            answer = client.disable_worker()
        left = out.until_empty(client.worker_tasks, wait) if wait else []
        if left:
            raise out.Failure(f"after {wait} s there still run: {', '.join(left)}; they go on ending: ask again")
        done = "its tasks have ended" if wait else "its tasks are ending"
        done = f"the worker at {url} takes no new tasks, {done}; `siltstone worker enable` undoes it"
        out.record(answer, as_json, done)


@worker.command("enable")
def worker_enable(url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """The middle manager at this address takes tasks again."""
    with out.failures():
        with out.of_a_worker(url):
            answer = siltstone.Client(url).enable_worker()
        out.record(answer, as_json, f"the worker at {url} takes tasks")


@segments.command("list")
def segments_list(
    table: Annotated[str | None, typer.Argument(help="Only this table's.")] = None,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Published segments."""
    with out.failures():
        client = siltstone.Client(url)
        rows = client.segments(table)
        if table is not None and not rows and table not in client.datasources():
            raise out.Failure(f"no table is named {table!r}{there_are(table, client.datasources())}")
        out.rows(rows if as_json else out.columns(rows, "identifier", "num_rows", "size"), as_json)


def _which(ids: list[str] | None, interval: str | None) -> str:
    """The segments that are meant, for people; a WrongUse for none, or both ways at once."""
    if bool(ids) == (interval is not None):
        raise out.WrongUse("name segments, as `siltstone segments list` shows them, or give --interval; one of them")
    return f"{len(ids)} of them" if ids else f"those within {interval}"


def _mark(used: bool, table: str, ids: list[str], interval: str | None, url: str, as_json: bool) -> None:
    changed = siltstone.Client(url).mark_segments(table, used, ids or None, interval)
    state = "used" if used else "unused"
    out.record(changed, as_json, f"{{numChangedSegments}} segments of {table} are {state} now that were not")
    if changed.get("unknown"):
        named = ", ".join(changed["unknown"])
        raise out.Failure(f"table {table!r} has no segment {named}; `siltstone segments list {table}` shows them")


@segments.command("mark-unused")
def segments_mark_unused(
    table: str,
    ids: SegmentIds = None,
    interval: InInterval = None,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
    yes: Yes = False,
) -> None:
    """Hide segments from queries, by id or by time; their files stay, and mark-used takes it back."""
    with out.failures():
        which = _which(ids, interval)
        if not yes:
            out.confirm(f"Hide segments of {table} from queries: {which}", "nothing was hidden")
        _mark(False, table, ids or [], interval, url, as_json)


@segments.command("mark-used")
def segments_mark_used(
    table: str, ids: SegmentIds = None, interval: InInterval = None, url: Url = DEFAULT_URL, as_json: Json = False
) -> None:
    """Show segments to queries again that were marked unused."""
    with out.failures():
        _which(ids, interval)
        _mark(True, table, ids or [], interval, url, as_json)


@app.command()
def queries(url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """What runs or waits on the query node at this address."""
    with out.failures():
        found = siltstone.Client(url).queries()
        out.rows(found if as_json else [told.query(each) for each in found], as_json)


@app.command()
def cancel(
    query_id: Annotated[str, typer.Argument(help="As `siltstone queries` shows it.")],
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """End the queries of one id."""
    with out.failures():
        if not siltstone.Client(url).cancel(query_id):
            raise out.Failure(f"no query has the id {query_id!r} now; `siltstone queries` shows those that run")
        out.record({"id": query_id}, as_json, f"cancelled {query_id}")


def main() -> None:
    """Runs the command line; exits 0, 1 (failed) or 2 (wrong use)."""
    out.stand_in_for_closed_streams()
    for word in sys.argv[1:]:
        if not word.isascii() and word.encode(errors="replace") != word.encode(errors="surrogateescape"):
            sys.exit(out.wrong_use(f"{word.encode(errors='surrogateescape')!r} is not UTF-8"))
    try:
        app()
    except OSError as error:
        # Every command tells its own failures; what is left is an output that cannot be written.
        sys.exit(out.unwritable(error))
