"""Our development broker as a server of the test run."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.servers.kfake import kafka_answers
from tests.servers.process import Server, free_ports

ROOT = Path(__file__).resolve().parents[2]


class DevBroker(Server):
    """`python -m server.devbroker` on its own port and folder."""

    def __init__(self, home: Path, flags: Sequence[str] = ()) -> None:
        super().__init__(home)
        [self.port] = free_ports(1)
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.flags = list(flags)

    def environment(self) -> Mapping[str, str]:
        return {**os.environ, "PYTHONPATH": str(ROOT)}

    def command(self) -> Sequence[str | Path]:
        start = [sys.executable, "-m", "server.devbroker", "--dir", str(self.home / "data")]
        return [*start, "--port", str(self.port), *self.flags]

    def ready(self) -> bool:
        return kafka_answers(self.port)
