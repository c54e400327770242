"""A file system of its own for a folder, small enough to be filled. Mounting needs root."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

BALLAST = ".ballast"
_CHUNK = bytes(1 << 20)


def may_mount() -> bool:
    """Whether this user can have file systems of its own here."""
    return os.geteuid() == 0 and Path("/bin/mount").exists()


class SmallDisk:
    """A tmpfs of ``size`` bytes on ``path``, which is made. Main thread."""

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self._size = size

    def __enter__(self) -> Self:
        self.path.mkdir(parents=True, exist_ok=True)
        subprocess.run(["/bin/mount", "-t", "tmpfs", "-o", f"size={self._size}", "tmpfs", self.path], check=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        # Lazily: a process that is just being killed may still hold a file there.
        subprocess.run(["/bin/umount", "--lazy", self.path], check=True)

    def fill(self, leave: int = 0) -> None:
        """Takes what room there is, but for ``leave`` bytes."""
        free = os.statvfs(self.path)
        wanted = free.f_bavail * free.f_frsize - leave
        with suppress(OSError), (self.path / BALLAST).open("ab", buffering=0) as file:
            while wanted > 0:
                wanted -= file.write(_CHUNK[:wanted])
            if not leave:
                while True:  # others may have freed some meanwhile
                    file.write(_CHUNK[:4096])

    def clear(self) -> None:
        """Gives the room back."""
        (self.path / BALLAST).unlink(missing_ok=True)
