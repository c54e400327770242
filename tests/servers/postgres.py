"""A throw-away PostgreSQL cluster of the system's server, run as its own user when we are root."""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.servers.process import Server, free_ports, running


def postgres_binaries() -> Path | None:
    """The newest installed server's `bin`, or None."""
    found = list(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        return None
    return max((p.parent for p in found), key=lambda p: int(p.parent.name))


class Postgres(Server):
    """One cluster on its own port; ``durable`` keeps fsync on, for tests that crash it."""

    def __init__(self, home: Path | None = None, *, durable: bool = False) -> None:
        # not below a folder that only root may enter, such as pytest's tmp_path
        super().__init__(home or Path(tempfile.mkdtemp(prefix="siltstone-pg-")))
        [self.port] = free_ports(1)
        self.durable = durable
        binaries = postgres_binaries()
        assert binaries is not None, "no PostgreSQL server: apt-get install -y postgresql"
        self.bin = binaries
        if os.getuid() == 0:  # the server refuses root
            known = {e.pw_name: e.pw_uid for e in pwd.getpwall()}
            self.user = known.get("postgres", known["nobody"])
            os.chown(self.home, self.user, -1)
        self.home.chmod(0o700)

    def url(self, database: str = "postgres") -> str:
        """SQLAlchemy's URL of one database."""
        return f"postgresql+psycopg2://app@127.0.0.1:{self.port}/{database}"

    def dsn(self, database: str = "postgres") -> str:
        """libpq's URL of one database."""
        return f"postgresql://app@127.0.0.1:{self.port}/{database}"

    def command(self) -> Sequence[str | Path]:
        settings = {
            "unix_socket_directories": "",
            "listen_addresses": "127.0.0.1",
            "shared_buffers": "32MB",
            "max_connections": "60",
        }
        if not self.durable:
            settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        out: list[str | Path] = [self.bin / "postgres", "-D", self.home / "data"]
        out += ["-p", str(self.port)]
        for key, value in settings.items():
            out += ["-c", f"{key}={value}"]
        return out

    def spawn(self) -> None:
        if not (self.home / "data" / "PG_VERSION").exists():
            groups: list[str | int] | None = [] if self.user is not None else None
            make = [str(self.bin / "initdb"), "-D", str(self.home / "data"), "-U", "app", "-A", "trust"]
            make += ["-E", "UTF8", "--no-locale", "--no-sync"]
            subprocess.run(
                make,
                check=True,
                capture_output=True,
                cwd=self.home,
                user=self.user,
                group=self.user,
                extra_groups=groups,
            )
        super().spawn()

    def ready(self) -> bool:
        probe = [str(self.bin / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(probe, check=False).returncode == 0

    def stop(self, how: signal.Signals = signal.SIGINT, patience_s: float = 15) -> None:
        """SIGINT is a fast stop, SIGQUIT an immediate one (as after a crash)."""
        super().stop(how, patience_s)

    def kill(self) -> None:
        """kill -9 of the whole server: a child that outlives it would hold the data folder."""
        assert self.proc is not None, "not started"
        pid = self.proc.pid
        listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        children = [int(child) for child in listed]
        super().kill()
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        while any(running(child) for child in children):
            time.sleep(0.005)
