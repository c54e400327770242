"""A server as a child process of the test run: start, kill, freeze, restart, die with its parent.

Every server is bound to loopback, keeps its data in one folder and ends when the process that
started it ends. The same object can be killed and started again on the same ports and data.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def cache_folder() -> Path:
    """The folder that outlives a test run; it may be deleted at any time."""
    chosen = os.environ.get("SILTSTONE_CACHE")
    if chosen:
        return Path(chosen)
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "siltstone"


def die_with_parent() -> None:
    """Runs in the child before exec: the kernel kills it when the thread that started it ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


# Below what the kernel gives to outgoing connections (32768 and up on Linux), which would take a port between its
# choice and its server's start, or while its server is down.
_PLAIN = range(2_000, 12_000)
_DOUBLE = range(12_000, 22_000)
_BLOCK = 50
_left: dict[range, list[int]] = {}


def free_ports(count: int, double: bool = False) -> list[int]:
    """Ports that are free now and that no other test of this machine is given while this process lives.

    With ``double`` each PORT + 10000 is free as well.
    """
    wanted = _DOUBLE if double else _PLAIN
    out: list[int] = []
    while len(out) < count:
        left = _left.setdefault(wanted, [])
        if not left:
            left.extend(_leased(wanted))
        port = left.pop()
        if _is_free(port) and (not double or _is_free(port + 10_000)):
            out.append(port)
    return out


def _leased(wanted: range) -> range:
    """A block of ports that is this process's until it ends: the kernel knows whose by the name of a socket."""
    blocks = [wanted[at : at + _BLOCK] for at in range(0, len(wanted), _BLOCK)]
    first = os.getpid() % len(blocks)
    for block in blocks[first:] + blocks[:first]:
        lease = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            lease.bind(f"\0siltstone-test-ports-{block.start}")
        except OSError:
            lease.close()
            continue
        lease.detach()  # open as long as the process
        return block
    raise RuntimeError(f"other tests hold all ports from {wanted.start} to {wanted.stop - 1}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def running(pid: int) -> bool:
    """Whether the process exists and is not a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rsplit(")", 1)[1].split()[0] not in "ZX"


class Server:
    """One child process with a log file; subclasses give the command and the probe."""

    user: int | None = None
    patience_s = 180.0  # a start takes seconds, on a machine with forty other things to do minutes

    def __init__(self, home: Path) -> None:
        self.home = home
        self.home.mkdir(parents=True, exist_ok=True)
        self.log = self.home / "server.log"
        self.proc: subprocess.Popen[bytes] | None = None

    def command(self) -> Sequence[str | Path]:
        """The command line."""
        raise NotImplementedError

    def ready(self) -> bool:
        """Whether the server answers its own protocol."""
        raise NotImplementedError

    def environment(self) -> Mapping[str, str] | None:
        """The child's environment; None inherits ours."""
        return None

    def spawn(self) -> None:
        """Starts the process without waiting for it. Main thread only: see `die_with_parent`."""
        assert threading.current_thread() is threading.main_thread(), (
            "a server dies with the thread that started it: start it from the main thread"
        )
        groups: list[str | int] | None = [] if self.user is not None else None
        with self.log.open("ab") as log:
            self.proc = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.home,
                env=self.environment(),
                preexec_fn=die_with_parent,
                start_new_session=True,
                user=self.user,
                group=self.user,
                extra_groups=groups,
            )

    def start(self) -> Self:
        """Returns when the server answers; starts it first where it does not run."""
        if self.proc is None or self.proc.poll() is not None:
            self.spawn()
        assert self.proc is not None
        end = time.monotonic() + self.patience_s
        while time.monotonic() < end:
            if self.proc.poll() is not None:
                raise RuntimeError(f"{self} ended with {self.proc.returncode}\n{self.tail()}")
            if self.ready():
                return self
            time.sleep(0.02)
        raise TimeoutError(f"{self} does not answer\n{self.tail()}")

    def tail(self, lines: int = 30) -> str:
        """The last lines of the server's log."""
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    @property
    def alive(self) -> bool:
        """Whether the process was started and has not ended."""
        return self.proc is not None and self.proc.poll() is None

    def kill(self) -> None:
        """kill -9; returns when the process is gone."""
        assert self.proc is not None, "not started"
        self.proc.send_signal(signal.SIGCONT)
        self.proc.kill()
        self.proc.wait()

    def stop(self, how: signal.Signals = signal.SIGTERM, patience_s: float = 15) -> None:
        """A polite stop, after ``patience_s`` a kill."""
        if self.proc is not None and self.proc.poll() is None:
            self.proc.send_signal(how)
            try:
                self.proc.wait(patience_s)
            except subprocess.TimeoutExpired:
                self.kill()

    def freeze(self) -> None:
        """SIGSTOP: the sockets stay open, nothing answers."""
        assert self.proc is not None, "not started"
        self.proc.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT after `freeze`."""
        assert self.proc is not None, "not started"
        self.proc.send_signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if kind:
            self.kill()
        else:
            self.stop()
