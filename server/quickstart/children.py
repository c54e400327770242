"""Child processes of the demonstration: ended in order by their parent, and gone when it dies."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


def _follow_parent() -> None:
    """In the child, before its program: SIGTERM when the parent's thread ends, even by kill -9."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class Child:
    """One process with its output in a file. A Ctrl-C in the terminal does not reach it: its parent ends it."""

    def __init__(
        self, name: str, words: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
                preexec_fn=_follow_parent,
            )

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def last_words(self, lines: int = 5) -> str:
        """Why it ended, for people: its own error line where it said one, else the end of its output."""
        text = self.log.read_text(errors="replace").strip().splitlines()
        if text and text[-1].startswith("error: "):
            return text[-1].removeprefix("error: ")
        return "\n".join(text[-lines:])

    def end(self, timeout_s: float) -> bool:
        """Asks it to end and waits; kills it after the time. False when it had to be killed."""
        if not self.has_ended:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return False
        return True
