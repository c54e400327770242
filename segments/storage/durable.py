"""Makes single files appear on a local disk whole and durable, or not at all."""

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from segments.errors import ServiceError, StorageFull, StorageMisconfigured, StorageUnavailable

# Begins the name of every unfinished file, so that scans can tell them from whole ones.
TEMPORARY_PREFIX = ".tmp-"
_NAME_KEPT = 200
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_REFUSED = (errno.EACCES, errno.EEXIST, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP)


def disk_error(error: OSError, path: Path, doing: str) -> ServiceError:
    """The service error that tells what the operating system's error means for whoever runs the service."""
    reason = f"{doing} {path}: {error.strerror or error}"
    if error.errno in _FULL:
        return StorageFull(f"{reason}; free some space on this disk")
    if error.errno in _REFUSED:
        return StorageMisconfigured(f"{reason}; give the service's user the right to it, or configure another path")
    return StorageUnavailable(reason)


def sync_directory(directory: Path) -> None:
    """Makes names created in or moved into a directory survive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directories(directory: Path) -> None:
    """Creates a directory and its parents, each durable in its parent. Others may create them meanwhile."""
    missing = []
    while not directory.is_dir():
        missing.append(directory)
        directory = directory.parent
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        sync_directory(path.parent)


@contextlib.contextmanager
def temporary_beside(final: Path) -> Iterator[tuple[BinaryIO, Path]]:
    """An open file beside the final path, synced when the block ends well; the caller then moves it in place.

    Removed if it is still there at the end, whatever happened.
    """
    descriptor, name = tempfile.mkstemp(prefix=_temporary_prefix(final), dir=final.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            # mkstemp makes files for their owner alone; segments are for whoever may read the folder.
            os.fchmod(descriptor, 0o644)
            yield file, temporary
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()


def remove_unfinished(final: Path) -> None:
    """Removes what writers of the final path left half-written when they were killed. Only for a path that
    nobody may write any more: a writer under way would lose its file and fail."""
    prefix = _temporary_prefix(final)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for name in os.listdir(final.parent):
            # What follows is drawn without hyphens: more of them would be another, longer name.
            if name.startswith(prefix) and "-" not in name.removeprefix(prefix):
                (final.parent / name).unlink(missing_ok=True)


def _temporary_prefix(final: Path) -> str:
    """Names whose file it is to be, as far as a name's length allows."""
    return f"{TEMPORARY_PREFIX}{final.name[:_NAME_KEPT]}-"


def sync_file(file: BinaryIO) -> None:
    """Makes what was written to an open file survive a power cut."""
    file.flush()
    os.fsync(file.fileno())


def replace_durably(temporary: Path, final: Path) -> None:
    """Moves a synced file over its final name."""
    os.replace(temporary, final)
    sync_directory(final.parent)


def create_durably(temporary: Path, final: Path) -> bool:
    """Gives a synced file its final name unless that name exists; returns whether it did.

    A hard link is the only move that never overwrites.
    """
    try:
        os.link(temporary, final)
    except FileExistsError:
        return False
    sync_directory(final.parent)
    return True
