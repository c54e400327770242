"""Deep storage in a folder: every file appears by one hard link of a synced temporary file, or not at all.

A crash at any moment leaves either no file under the key or the whole one, and at most a temporary file that
listings skip.
"""

import contextlib
import filecmp
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from segments.data_segment import LoadSpec
from segments.errors import KeyTaken, SegmentNotFound, StorageMisconfigured, StorageUnavailable
from segments.storage.base import StoredFile, require_type
from segments.storage.durable import (
    TEMPORARY_PREFIX,
    create_durably,
    disk_error,
    make_directories,
    remove_unfinished,
    replace_durably,
    sync_directory,
    sync_file,
    temporary_beside,
)
from segments.storage.layout import check_key

_PROBE_PREFIX = ".probe-"
_COPY_BYTES = 1 << 20
_MAKE_FOLDER_ATTEMPTS = 5


class LocalDeepStorage:
    """A folder on a disk that all processes of the service see; load specs hold keys, so it can be moved.

    The file system must have hard links. Files are readable by everybody who may enter the folder.
    """

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()

    def load_spec(self, key: str) -> LoadSpec:
        return {"type": "local", "key": check_key(key)}

    def push(self, local: Path, key: str) -> LoadSpec:
        load_spec = self.load_spec(key)
        final = self._root / key
        try:
            with local.open("rb") as source, self._temporary_beside(final) as (file, temporary):
                shutil.copyfileobj(source, file, _COPY_BYTES)
                sync_file(file)
                if not create_durably(temporary, final) and not filecmp.cmp(temporary, final, shallow=False):
                    raise KeyTaken(f"{final} holds other bytes already")
        except OSError as error:
            raise disk_error(error, final, "pushing to") from error
        return load_spec

    def pull(self, load_spec: LoadSpec, dest: Path) -> None:
        path = self._path(load_spec)
        try:
            make_directories(dest.parent)
            with self._open(path) as source, temporary_beside(dest) as (file, temporary):
                shutil.copyfileobj(source, file, _COPY_BYTES)
                sync_file(file)
                replace_durably(temporary, dest)
        except OSError as error:
            raise disk_error(error, dest, f"pulling {path} to") from error

    def delete(self, load_spec: LoadSpec) -> None:
        path = self._path(load_spec)
        try:
            path.unlink(missing_ok=True)
            remove_unfinished(path)
            if path.parent.is_dir():
                sync_directory(path.parent)
            self._remove_empty_parents(path)
        except NotADirectoryError:
            return
        except OSError as error:
            raise disk_error(error, path, "deleting") from error

    def exists(self, load_spec: LoadSpec) -> bool:
        path = self._path(load_spec)
        try:
            return path.is_file()
        except OSError as error:
            raise disk_error(error, path, "looking for") from error

    def list(self, prefix: str = "") -> Iterator[StoredFile]:
        self._require_root()
        # Only the folder that the prefix names whole has to be walked.
        folder = prefix.rpartition("/")[0]
        for key, size_bytes in self._walk(self._root / folder):
            if key.startswith(prefix):
                yield StoredFile(key, size_bytes, self.load_spec(key))

    def check(self) -> None:
        """Creates the folder if need be, and writes, reads and removes a probe; see the port."""
        probe = self._root / f"{_PROBE_PREFIX}{secrets.token_hex(8)}"
        try:
            make_directories(self._root)
            with temporary_beside(probe) as (file, temporary):
                file.write(b"probe")
                sync_file(file)
                if not create_durably(temporary, probe) or create_durably(temporary, probe):
                    raise StorageMisconfigured(f"deep_storage.path {self._root}: hard links do not work on this disk")
            if probe.read_bytes() != b"probe":
                raise StorageUnavailable(
                    f"deep_storage.path {self._root}: a file read back differs from what was written"
                )
        except OSError as error:
            raise disk_error(error, self._root, "deep_storage.path: writing to") from error
        finally:
            with contextlib.suppress(OSError):
                probe.unlink(missing_ok=True)

    def _path(self, load_spec: LoadSpec) -> Path:
        (key,) = require_type(load_spec, "local", "key")
        return self._root / check_key(key)

    @contextlib.contextmanager
    def _temporary_beside(self, final: Path) -> Iterator[tuple[BinaryIO, Path]]:
        with contextlib.ExitStack() as stack:
            for attempt in range(_MAKE_FOLDER_ATTEMPTS):
                make_directories(final.parent)
                try:
                    opened = stack.enter_context(temporary_beside(final))
                    break
                except FileNotFoundError:
                    # A deletion may have removed the folder while it was still empty.
                    if attempt == _MAKE_FOLDER_ATTEMPTS - 1:
                        raise
            yield opened

    def _open(self, path: Path) -> BinaryIO:
        try:
            return path.open("rb")
        except (FileNotFoundError, NotADirectoryError) as error:
            # A disk that is not mounted must not read as files that were never there.
            self._require_root()
            raise SegmentNotFound(f"no file at {path}") from error

    def _require_root(self) -> None:
        if not self._root.is_dir():
            raise StorageMisconfigured(f"deep_storage.path {self._root} is not there; mount or create it")

    def _walk(self, folder: Path) -> Iterator[tuple[str, int]]:
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name + ("/" if entry.is_dir() else ""))
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise disk_error(error, folder, "listing") from error
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from self._walk(Path(entry.path))
            elif not entry.name.startswith((TEMPORARY_PREFIX, _PROBE_PREFIX)):
                with contextlib.suppress(FileNotFoundError):
                    yield Path(entry.path).relative_to(self._root).as_posix(), entry.stat().st_size

    def _remove_empty_parents(self, path: Path) -> None:
        for parent in path.parents:
            if parent == self._root:
                return
            try:
                parent.rmdir()
            except OSError:
                return
