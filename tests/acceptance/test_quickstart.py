"""`siltstone quickstart` as a new user runs it: rows within seconds, an orderly end, a second start that goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.acceptance.service import ROOT
from tests.servers.process import free_ports

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


def start(data_dir: Path, *words: str) -> subprocess.Popen[str]:
    [port] = free_ports(1)
    return subprocess.Popen(
        [sys.executable, "-m", "server", "quickstart", "--data-dir", str(data_dir), "--port", str(port), *words],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def audited(tmp_path: Path, data_dir: Path) -> dict[str, int]:
    """Proves the table from outside, after the end."""
    config = tmp_path / "audit.yaml"
    config.write_text(json.dumps({"data_dir": str(data_dir)}))
    done = subprocess.run(
        [sys.executable, "-m", "server", "verify", "wikipedia", "--config", str(config), "--json"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    checked: dict[str, int] = json.loads(done.stdout)["checked"]
    return checked


def rows_shown(process: subprocess.Popen[str]) -> int:
    """Waits for the first line that shows rows."""
    assert process.stdout is not None
    for line in process.stdout:
        if "rows:" in line:
            return int(line.split()[0].replace(",", ""))
    raise AssertionError(f"it ended with {process.wait()} before it showed a row")


def test_answers_come_by_themselves_and_a_second_start_goes_on(tmp_path: Path) -> None:
    data_dir = tmp_path / "demo"
    begun = time.monotonic()
    with start(data_dir, "--once") as first:
        rows_shown(first)
        print(f"first rows shown after {time.monotonic() - begun:.1f} s")
        rest, _ = first.communicate(timeout=200)
    assert first.returncode == 0, rest
    assert "SELECT channel" in rest and "#en.wikipedia" in rest
    produced = json.loads((data_dir / "producer.json").read_text())["messages"]
    assert audited(tmp_path, data_dir)["rows"] > 0

    with start(data_dir) as second:
        # What was read before the first end is there at once.
        assert rows_shown(second) >= produced * 0.9
        second.send_signal(signal.SIGINT)
        second.communicate(timeout=200)
    assert second.returncode == 0
    assert json.loads((data_dir / "producer.json").read_text())["messages"] > produced
    audited(tmp_path, data_dir)


def test_a_directory_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    with start(tmp_path, "--fresh", "--once") as refused:
        output, _ = refused.communicate(timeout=120)
    assert refused.returncode == 1 and "not a directory of the quickstart" in output
    assert (tmp_path / "precious").read_text() == "mine"
