"""The data directory of one process: a lock against a second one, its name, the installation's secret, and folders."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from segments.errors import ServiceError
from segments.storage.durable import replace_durably


class DataDirUnusable(ServiceError):
    """The data directory cannot be made or written, or another process uses it."""


@dataclass(frozen=True, slots=True)
class DataDir:
    """``root`` is absolute. The lock is held until ``close``, or until the process ends."""

    root: Path
    node: str
    secret: str
    lock: int

    @property
    def segments(self) -> Path:
        """Deep storage, when it is local and not elsewhere."""
        return self.root / "segments"

    @property
    def tasks(self) -> Path:
        """The middle manager's state root."""
        return self.root / "tasks"

    @property
    def cache(self) -> Path:
        return self.root / "cache"

    @property
    def mirror(self) -> Path:
        return self.root / "mirror"

    @property
    def scratch(self) -> Path:
        return self.root / "scratch"

    @property
    def seen(self) -> Path:
        """How far this process has seen the metadata database."""
        return self.root / "metadata-seen.json"

    def close(self) -> None:
        os.close(self.lock)


def open_data_dir(path: Path, secret: str | None) -> DataDir:
    """Makes the directory where missing and locks it.

    Raises:
        DataDirUnusable: see there; the message names the directory.
    """
    root = path.absolute()
    try:
        root.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise DataDirUnusable(f"data_dir {root} cannot be used: {error.strerror}") from error
    except ValueError as error:
        raise DataDirUnusable(f"data_dir {str(root)!r} cannot be used: {error}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
        os.close(descriptor)
        who = f" (process {holder})" if holder else ""
        raise DataDirUnusable(
            f"data_dir {root} is in use by another instance{who}; stop it, or choose another directory"
        ) from error
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        # Copies that audits and replays work on are theirs alone; whoever was killed over one left it.
        shutil.rmtree(root / "scratch", ignore_errors=True)
        (root / "scratch").mkdir(exist_ok=True)
        node = _kept(root / "node", lambda: f"node-{secrets.token_hex(6)}")
        return DataDir(root, node, secret or _kept(root / "secret", lambda: secrets.token_hex(32)), descriptor)
    except OSError as error:
        os.close(descriptor)
        raise DataDirUnusable(f"data_dir {root} cannot be written: {error.strerror}") from error


def _kept(path: Path, draw: Callable[[], str]) -> str:
    """The file's text; drawn and written once, readable by its owner alone."""
    if path.exists() and (text := path.read_text().strip()):
        return text
    text = draw()
    fresh = path.with_suffix(".new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    replace_durably(fresh, path)
    return text
