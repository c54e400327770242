"""Deep storage in a dictionary, with failures on demand."""

import threading
from collections import defaultdict, deque
from collections.abc import Iterator
from pathlib import Path

from segments.data_segment import LoadSpec
from segments.errors import KeyTaken, SegmentNotFound
from segments.storage.base import StoredFile, require_type
from segments.storage.durable import disk_error, make_directories, replace_durably, sync_file, temporary_beside
from segments.storage.layout import check_key


class MemoryDeepStorage:
    """The port's twin for tests: keeps the whole contract except surviving its process.

    ``fail_next(method, error)`` makes the next call of a method raise before it does anything;
    ``lose_next_answer(error)`` lets the next push land and then raise.
    """

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}
        self._failures: dict[str, deque[Exception]] = defaultdict(deque)
        self._lock = threading.Lock()

    def fail_next(self, method: str, error: Exception, times: int = 1) -> None:
        assert hasattr(self, method), f"no method {method}"
        with self._lock:
            self._failures[method].extend([error] * times)

    def heal(self) -> None:
        """Forgets the failures that are still to come."""
        with self._lock:
            self._failures.clear()

    def lose_next_answer(self, error: Exception) -> None:
        with self._lock:
            self._failures["push answer"].append(error)

    def load_spec(self, key: str) -> LoadSpec:
        return {"type": "memory", "key": check_key(key)}

    def push(self, local: Path, key: str) -> LoadSpec:
        self._maybe_fail("push")
        load_spec = self.load_spec(key)
        content = local.read_bytes()
        with self._lock:
            if self._files.setdefault(key, content) != content:
                raise KeyTaken(f"key {key} holds other bytes already")
        self._maybe_fail("push answer")
        return load_spec

    def pull(self, load_spec: LoadSpec, dest: Path) -> None:
        self._maybe_fail("pull")
        content = self._content(load_spec)
        if content is None:
            raise SegmentNotFound(f"no file at {load_spec}")
        try:
            make_directories(dest.parent)
            with temporary_beside(dest) as (file, temporary):
                file.write(content)
                sync_file(file)
                replace_durably(temporary, dest)
        except OSError as error:
            raise disk_error(error, dest, "writing") from error

    def delete(self, load_spec: LoadSpec) -> None:
        self._maybe_fail("delete")
        (key,) = require_type(load_spec, "memory", "key")
        with self._lock:
            self._files.pop(key, None)

    def exists(self, load_spec: LoadSpec) -> bool:
        self._maybe_fail("exists")
        return self._content(load_spec) is not None

    def list(self, prefix: str = "") -> Iterator[StoredFile]:
        self._maybe_fail("list")
        with self._lock:
            found = sorted((key, len(content)) for key, content in self._files.items() if key.startswith(prefix))
        return iter([StoredFile(key, size, self.load_spec(key)) for key, size in found])

    def check(self) -> None:
        self._maybe_fail("check")

    def corrupt(self, load_spec: LoadSpec, content: bytes) -> None:
        """Replaces a file's bytes, as a failing disk might."""
        with self._lock:
            self._files[str(load_spec["key"])] = content

    def _content(self, load_spec: LoadSpec) -> bytes | None:
        (key,) = require_type(load_spec, "memory", "key")
        with self._lock:
            return self._files.get(key)

    def _maybe_fail(self, method: str) -> None:
        with self._lock:
            failures = self._failures[method]
            error = failures.popleft() if failures else None
        if error is not None:
            raise error
