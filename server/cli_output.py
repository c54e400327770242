"""What the command line prints: tables for people, JSON for scripts, one clear line for a failure."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from pathlib import Path

    from siltstone.client import ApiError


class Failure(Exception):
    """Ends a command with exit code 1 and this line."""


class WrongUse(Exception):
    """Ends a command with exit code 2 and this line: its own words are wrong."""


@contextmanager
def failures() -> Iterator[None]:
    """Turns every failure that is no bug into its message on standard error and exit code 1, or 2 for wrong use."""
    from segments.errors import ServiceError
    from server.reading import Unreadable
    from siltstone.client import ApiError, ClientError, InvalidAddress

    try:
        yield
    except (WrongUse, InvalidAddress, Unreadable) as error:
        raise typer.Exit(wrong_use(str(error))) from None
    except ApiError as error:
        problems = error.body.get("problems", []) if isinstance(error.body, dict) else []
        lines = [str(problem) for problem in problems] or [str(error)]
        _end(lines)
    except (ClientError, ServiceError, Failure) as error:
        _end(str(error).splitlines())
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def _end(lines: list[str]) -> None:
    for line in lines:
        typer.secho(f"error: {line}", fg="red", err=True)
    raise typer.Exit(1)


def stand_in_for_closed_streams() -> None:
    """Started with a closed stream, Python has None in its place."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (it stays open as long as the process)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115


def wrong_use(text: str) -> int:
    """Says what is wrong with the words of a command; the exit code."""
    typer.secho(f"error: {text}", fg="red", err=True)
    return 2


def unwritable(error: OSError) -> int:
    """Says that the output cannot be written; the exit code. What is still buffered is let go."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    typer.secho(f"error: the output cannot be written: {error.strerror or error}", fg="red", err=True)
    return 1


def refusal(error: ApiError) -> dict[str, Any] | None:
    """What a service said is wrong with a spec, in the form of ``validate``; None when it said something else."""
    body = error.body if isinstance(error.body, dict) else {}
    texts, details = body.get("problems"), body.get("details")
    if not isinstance(texts, list) or not isinstance(details, list):
        return None
    problems = [{**detail, "text": text} for text, detail in zip(texts, details, strict=False)]
    return {"valid": False, "problems": problems, "warnings": body.get("warnings", [])}


def text_in(file: Path) -> str:
    """A file's text; a WrongUse when it cannot be read."""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUse(f"{file}: cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8'}") from error


def check_brokers(kafka: str | None) -> None:
    """A WrongUse unless it is HOST:PORT, or several by commas: a port that nobody named would be waited for."""
    for place in [] if kafka is None else kafka.split(","):
        host, _, port = place.strip().rpartition(":")
        if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65_536:
            raise WrongUse(f"--kafka {kafka}: expected HOST:PORT, such as {host or port or 'broker'}:9092")


@contextmanager
def of_a_worker(url: str) -> Iterator[None]:
    """For requests that only a middle manager answers."""
    from siltstone.client import ApiError

    try:
        yield
    except ApiError as error:
        if error.status != 404:
            raise
        cure = "name the address of one by --url, as `siltstone worker list` shows them"
        raise Failure(f"the process at {url} has no middle manager; {cure}") from error


def asked_format(as_json: bool, as_csv: bool, named: str | None) -> str:
    """The one format that the options ask for; a WrongUse when they differ or name none."""
    chosen = {name for name, is_asked in (("json", as_json), ("csv", as_csv)) if is_asked} | (
        {named} if named else set()
    )
    if len(chosen) > 1:
        raise WrongUse(f"--json, --csv and --format ask for different formats: {', '.join(sorted(chosen))}")
    found = chosen.pop() if chosen else "table"
    known = ("table", "vertical", "csv", "json", "lines")
    if found not in known:
        raise WrongUse(f"--format {found}: it is none of {', '.join(known)}")
    return found


def pairs(words: list[str]) -> dict[str, str]:
    """``KEY=VALUE`` words by key; a WrongUse for another."""
    split = [word.partition("=") for word in words]
    wrong = [word for word, (key, sign, _) in zip(words, split, strict=True) if not key or not sign]
    if wrong:
        raise WrongUse(f"--context {wrong[0]}: expected KEY=VALUE")
    return {key: value for key, _, value in split}


def moves(words: list[str]) -> dict[str, int]:
    """``PARTITION=OFFSET`` words by partition; a WrongUse for another."""
    found: dict[str, int] = {}
    for word in words:
        partition, sign, offset = word.rpartition("=")
        if not partition or not sign or not (offset.isascii() and offset.isdigit()):
            raise WrongUse(f"{word}: expected PARTITION=OFFSET, of a topicPattern TOPIC:PARTITION=OFFSET")
        found[partition] = int(offset)
    return found


def columns(rows: list[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    return [{name: row.get(name) for name in names} for row in rows]


def rows(found: list[dict[str, Any]], as_json: bool) -> None:
    """Prints rows as a table, a value a line where the terminal is too narrow for one, or as one JSON array."""
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))
        return
    if not found:
        typer.secho("no rows", dim=True)
        return
    from server.shell.rendering import rendered

    # What goes into a file or a pipe is not folded to the width of some terminal.
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for piece in rendered([list(row.values()) for row in found], list(found[0]), "table", width):
        typer.echo(piece, nl=False)
    typer.secho(f"{len(found)} row{'s' if len(found) != 1 else ''}", dim=True)


def record(value: dict[str, Any], as_json: bool, sentence: str) -> None:
    """Prints one answer: the sentence filled from it, or the JSON itself."""
    typer.echo(json.dumps(value, ensure_ascii=False) if as_json else sentence.format_map(value))


def csv(answer: bytes) -> None:
    """Prints rows as CSV. The answer's end mark, an empty line, is for whoever reads the API, not a file."""
    typer.echo(answer.decode().removesuffix("\n"), nl=False)


def confirm(question: str, otherwise: str) -> None:
    """Goes on only by a yes; anything else, or nobody to ask, is a Failure."""
    try:
        agreed = typer.confirm(question)
    except typer.Abort:
        typer.echo()
        agreed = False
    if not agreed:
        raise Failure(otherwise)


def until_empty(ask: Callable[[], list[str]], seconds: int) -> list[str]:
    """Asks twice a second until the answer is empty or the time is over; the last answer."""
    end = time.monotonic() + seconds
    while (found := ask()) and time.monotonic() < end:
        time.sleep(0.5)
    return found


def warnings(answer: dict[str, Any]) -> None:
    """Tells on standard error what an answer warns of."""
    for warning in answer.get("warnings", []):
        typer.secho(f"warning: {warning}", fg="yellow", err=True)


def validation(name: str, report: dict[str, Any], as_json: bool) -> int:
    """Prints what is wrong with a spec; 0 when a service would accept it, 1 otherwise."""
    if as_json:
        typer.echo(json.dumps({"file": name, **report}, ensure_ascii=False))
        return 0 if report["valid"] else 1
    for problem in report["problems"]:
        typer.secho(f"error: {problem['text']}", fg="red", err=True)
    warnings(report)
    if not report["valid"]:
        count = len(report["problems"])
        typer.echo(f"{name}: refused, {count} problem{'s' if count != 1 else ''}")
        return 1
    typer.echo(f"{name}: supervisor {report['supervisor']} reads topic {report['topic']} into {report['dataSource']}")
    return 0


def health(faults: dict[str, str], as_json: bool) -> int:
    """Prints what is wrong by name; 0 when nothing is."""
    if as_json:
        typer.echo(json.dumps({"healthy": not faults, "faults": faults}, ensure_ascii=False))
    elif not faults:
        typer.secho("healthy", fg="green")
    else:
        for concern, fault in faults.items():
            typer.secho(f"{concern}: {fault}", fg="red")
    return 1 if faults else 0


def supervisor_status(status: dict[str, Any], as_json: bool) -> None:
    """A supervisor's report: state, lag per partition, tasks and recent errors."""
    if as_json:
        typer.echo(json.dumps(status, ensure_ascii=False))
        return
    payload = status.get("payload", {})
    healthy = payload.get("healthy", False)
    typer.secho(
        f"{status.get('id')}: {payload.get('detailedState', payload.get('state'))}", fg="green" if healthy else "red"
    )
    behind = payload.get("aggregateLag") if payload.get("minimumLag") else "not known"
    if payload.get("waitingFor") or not healthy:  # what was true when the broker last answered
        behind = f"{behind} at {payload.get('offsetsLastUpdated') or 'no time yet'}"
    typer.echo(f"topic {payload.get('stream')}, {payload.get('partitions')} partitions, lag {behind}")
    for kind in ("activeTasks", "publishingTasks"):
        for entry in payload.get(kind, []):
            places = ", ".join(f"{partition}:{at}" for partition, at in (entry.get("currentOffsets") or {}).items())
            typer.echo(f"  {entry.get('type', kind).lower()} {entry.get('id')} at {places or 'no offset yet'}")
    if payload.get("stateReason"):
        typer.secho(f"  stopped: {payload['stateReason']}", fg="red")
    for line in dict.fromkeys(payload.get("waitingFor", [])):
        typer.secho(f"  waits: {line}", fg="yellow")
    for line in _folded(payload.get("recentErrors", [])):
        typer.secho(f"  {line}", fg="yellow")


def _folded(errors: list[dict[str, Any]]) -> list[str]:
    """A line for each different message: when it came last, and how often."""
    last: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for error in errors:
        message, at = str(error.get("message", error)), str(error.get("timestamp", ""))
        last[message] = max(at, last.get(message, ""))
        counts[message] += 1
    times = {message: f" ({count} times)" if count > 1 else "" for message, count in counts.items()}
    return [f"{at} {message}{times[message]}" for message, at in last.items()]


def verification(report: dict[str, Any], as_json: bool) -> int:
    """Prints an audit; 0 when the table is proved, 1 with a list of faults otherwise."""
    faults = report.get("faults", [])
    if as_json:
        typer.echo(json.dumps(report, ensure_ascii=False))
    elif faults:
        for fault in faults:
            typer.secho(f"fault: {fault}", fg="red")
        typer.echo(f"{report.get('table')}: {len(faults)} faults")
    else:
        proved = ", ".join(f"{count:,} {what}" for what, count in report.get("checked", {}).items())
        typer.secho(f"{report.get('table')}: exact ({proved})", fg="green")
    return 1 if faults else 0
