"""Posted specs by version, so that a checkpoint reads none again. A stored version never changes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any, Final, Protocol

VERSIONS_MAX: Final = 256


class SpecStore(Protocol):
    """What it reads from."""

    def spec(self, supervisor: str, version: int) -> dict[str, Any]:
        """The spec as it was posted; raises what the store raises."""
        ...


class SpecCache:
    """The versions asked for last, ``VERSIONS_MAX`` of them; safe from any thread."""

    def __init__(self, store: SpecStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._specs: OrderedDict[tuple[str, int], dict[str, Any]] = OrderedDict()

    def of(self, supervisor: str, version: int) -> dict[str, Any]:
        """The spec of a version; asks the store the first time, and raises what it raises."""
        key = (supervisor, version)
        with self._lock:
            if key in self._specs:
                self._specs.move_to_end(key)
                return self._specs[key]
        found = self._store.spec(supervisor, version)
        with self._lock:
            self._specs[key] = found
            if len(self._specs) > VERSIONS_MAX:
                self._specs.popitem(last=False)
        return found

    def __len__(self) -> int:
        with self._lock:
            return len(self._specs)
