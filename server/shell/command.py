"""Runs ``siltstone query``: one statement, all of standard input, or a session at the terminal."""

from __future__ import annotations

import sys

from server.shell import statements, terminal
from server.shell.session import ROWS_SHOWN, Session
from siltstone.client import Client


def run(client: Client, sql: str | None, format_: str, timing: bool, context: dict[str, str]) -> int:
    """The exit code: 1 when a statement had no answer; those after it are not asked.

    ``sql`` None asks at the terminal, ``-`` reads statements from standard input, each ended by a semicolon or
    the last by the end.
    """
    out = terminal.Terminal()
    is_asked_here = sql is None
    limit = ROWS_SHOWN if is_asked_here else 0
    session = Session(client, out, format_, limit, timing or is_asked_here, dict(context))
    if sql is None:
        return terminal.run(session, out)
    typed = sys.stdin.read() if sql == "-" else sql
    asked = statements.placed(typed)
    if not asked:
        out.tell("error: there is no statement", is_error=True)
        return 1
    for statement in asked:
        with terminal.Waiting(out):
            is_answered = session.run(statement)
        if not is_answered:
            return 1
    return 0
