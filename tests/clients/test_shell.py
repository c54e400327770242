"""``siltstone query`` as people have it: at a real terminal, and in scripts."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.world import CLICKS, NUMBERS, World, until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]
ROOT = Path(__file__).resolve().parents[2]
ENDLESS = "SELECT COUNT(*) FROM numbers a CROSS JOIN numbers b CROSS JOIN numbers c"
MOVES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[>=]|\r")


class Shell:
    """A shell in a terminal of its own; ``expect`` reads until a text appears."""

    def __init__(self, world: World, home: Path) -> None:
        self._ours, theirs = pty.openpty()
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "XDG_STATE_HOME": str(home),
            "TERM": "xterm",
            "COLUMNS": "120",
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "server", "query", "--url", world.url],
            stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        self._seen = ""

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def expect(self, text: str, seconds: float = 40.0) -> str:
        """What was shown until then, without the terminal's control sequences."""
        end = time.monotonic() + seconds
        while text not in MOVES.sub("", self._seen):
            left = end - time.monotonic()
            assert left > 0, f"no {text!r} in {MOVES.sub('', self._seen)!r}"
            if select.select([self._ours], [], [], min(left, 0.2))[0]:
                self._seen += os.read(self._ours, 65_536).decode(errors="replace")
        shown, self._seen = MOVES.sub("", self._seen), ""
        return shown

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._ours)


@pytest.fixture
def shell(world: World, tmp_path: Path) -> Iterator[Shell]:
    found = Shell(world, tmp_path)
    yield found
    found.close()


def test_a_session_at_a_terminal(shell: Shell, world: World, tmp_path: Path) -> None:
    shell.expect("siltstone>")
    shell.type("SELECT COUNT(*) AS clicks,\r")
    shell.expect("->")
    shell.type(" SUM(added) AS added FROM clicks;\r")
    assert str(CLICKS) in shell.expect("1 row in")
    shell.type("SELECT nope FROM clicks;\r")
    assert "nope" in shell.expect("not found")
    shell.type("\\d clicks\r")
    assert "TIMESTAMP" in shell.expect("6 rows in")
    shell.type("\\d clicsk\r")
    shell.expect("there is no table clicsk")
    for wrong, told in (("\\f xml", "no format 'xml'"), ("\\limit x", "number of rows"), ("\\dt", "Ctrl-C stops it")):
        shell.type(f"{wrong}\r")
        shell.expect(told)
    shell.type("SELECT wor\t")
    shell.expect("d")  # the only one that the word lacks
    shell.type(" FROM numbers LIMIT 3;\r")
    shell.expect("3 rows in")
    shell.type("SELECT n FROM numbers;\r")
    shell.expect("first 1,000 rows in")
    shell.type(f"{ENDLESS};\r")
    until(lambda: world.queries_running > 0, "it runs")
    shell.expect("waiting")
    shell.process.send_signal(signal.SIGINT)
    shell.expect("stopped")
    until(lambda: world.queries_running == 0, "the worker is free")
    shell.type("\\q\r")
    assert shell.process.wait(20) == 0
    assert "FROM numbers LIMIT 3" in (tmp_path / "siltstone" / "history").read_text()


def asked(world: World, *words: str, typed: str = "", code: int = 0) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "server", "query", *words, "--url", world.url],
        input=typed, capture_output=True, text=True, timeout=60, check=False, env=environment,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


def test_scripts_get_formats_contexts_and_several_statements(world: World) -> None:
    lines = asked(world, "SELECT n FROM numbers", "--format", "lines").splitlines()
    assert len(lines) == NUMBERS and json.loads(lines[-1]) == {"n": NUMBERS - 1}
    zone = asked(world, "SELECT __time FROM clicks LIMIT 1", "--format", "csv", "--context", "sqlTimeZone=Asia/Tokyo")
    assert zone == "__time\n2024-01-01T09:00:00.000+09:00\n"
    two = asked(world, "-", "--format", "json", typed="SELECT 1 AS a; -- one\nSELECT 2 AS b")
    assert [json.loads(each) for each in two.splitlines()] == [[{"a": 1}], [{"b": 2}]]
    assert "not found" in asked(world, "-", typed="SELECT nope FROM clicks; SELECT 1", code=1)
