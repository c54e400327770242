"""The terminal of ``siltstone query``: a prompt with history, completion and colours, and a progress line."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from server.shell.session import Session

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import CompleteEvent, Completion
    from prompt_toolkit.document import Document

WAIT_S = 0.5
"""An answer that comes sooner needs no progress line."""


class Terminal:
    """``Output`` on the standard streams; the progress line is on the error stream, if that is a terminal."""

    def __init__(self) -> None:
        self.width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        self._line = ""
        self._can_move = sys.stderr.isatty()

    def write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    def tell(self, text: str, is_error: bool = False) -> None:
        sys.stdout.flush()
        colour = "\x1b[31m" if is_error else "\x1b[2m"
        sys.stderr.write(f"{colour}{text}\x1b[0m\n" if self._can_move else f"{text}\n")
        sys.stderr.flush()

    def progress(self, text: str) -> None:
        if not self._can_move or text == self._line:
            return
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()
        self._line = text


class Waiting:
    """Shows how long an answer lets itself be waited for, until its first row; a context."""

    def __init__(self, out: Terminal) -> None:
        self._out = out
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._show, name="shell-waiting", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *ended_by: Any) -> None:
        self._is_over.set()
        self._thread.join()

    def _show(self) -> None:
        begun = time.monotonic()
        while not self._is_over.wait(WAIT_S):
            if " rows, " not in self._out._line:
                self._out.progress(f"waiting, {time.monotonic() - begun:.0f} s; Ctrl-C stops it")


def run(session: Session, out: Terminal) -> int:
    """Reads lines until the end; the exit code."""
    # At a prompt Ctrl-C is ours, whatever the starter did with it: a script's background job ignores it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    out.tell(f"{session.client.url}; a statement ends with a semicolon, \\h helps, \\q leaves")
    read = _prompt(session) or _plain_prompt
    while True:
        try:
            line = read("      -> " if session.is_waiting else "siltstone> ")
        except KeyboardInterrupt:
            session.forget()
            continue
        except EOFError:
            return 0
        with Waiting(out):
            goes_on = session.take(line)
        out.progress("")
        if not goes_on:
            return 0


def history_file() -> Path:
    """Where typed lines are kept, for this user alone."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "siltstone" / "history"


def _plain_prompt(text: str) -> str:
    return input(text)


def _prompt(session: Session) -> Any:
    """The prompt of prompt_toolkit, or None without it: then lines have no history and no completion."""
    try:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import Completer, Completion
        from prompt_toolkit.history import FileHistory, History, InMemoryHistory
        from prompt_toolkit.lexers import PygmentsLexer
        from pygments.lexers.sql import SqlLexer
    except ImportError:
        sys.stderr.write("without history and completion: pip install 'siltstone[shell]'\n")
        return None

    class Names(Completer):
        def get_completions(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
            word, found = session.names.of(document.text_before_cursor, document.text)
            return [Completion(name, -len(word)) for name in found]

    kept: History
    try:
        path = history_file()
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        kept = FileHistory(str(path))
    except OSError:
        kept = InMemoryHistory()
    prompt: PromptSession[str] = PromptSession(
        history=kept,
        completer=Names(),
        complete_in_thread=True,
        complete_while_typing=False,
        lexer=PygmentsLexer(SqlLexer),
    )
    return prompt.prompt
