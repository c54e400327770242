"""The port of deep storage: what pushing, pulling and deleting segment files promises on every implementation."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from segments.data_segment import LoadSpec
from segments.errors import StorageMisconfigured


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file found in deep storage; ``key`` is what it was pushed under."""

    key: str
    size_bytes: int
    load_spec: LoadSpec


class DeepStorage(Protocol):
    """Files that are written once, read many times and deleted at last. Safe to use from several threads.

    Keys are relative paths (``segments.storage.layout``), unique per attempt. Methods other than ``list``
    and ``load_spec`` may block for as long as their network or disk does.
    """

    def load_spec(self, key: str) -> LoadSpec:
        """Where a file pushed under this key will lie; does no I/O, so that it can be recorded before the push."""
        ...

    def push(self, local: Path, key: str) -> LoadSpec:
        """Copies a local file to the key, wholly or not at all; durable and readable when it returns.

        Never overwrites: the same bytes under the key already is success, so that a push may be repeated
        after a lost answer.

        Raises:
            KeyTaken: the key holds other bytes.
            StorageFull, StorageUnavailable, StorageMisconfigured: nothing became visible under the key.
            UploadUncertain: the deadline passed; the file may still appear under the key.
        """
        ...

    def pull(self, load_spec: LoadSpec, dest: Path) -> None:
        """Copies a stored file to a local path, whole and synced, or not at all. Replaces what is there.

        Raises:
            SegmentNotFound: there is no such file.
            StorageUnavailable, StorageMisconfigured, StorageFull.
        """
        ...

    def delete(self, load_spec: LoadSpec) -> None:
        """Removes a file for good; one that is not there counts as removed.

        Raises:
            StorageUnavailable, StorageMisconfigured.
        """
        ...

    def exists(self, load_spec: LoadSpec) -> bool:
        """True if the file can be pulled now.

        Raises:
            StorageUnavailable, StorageMisconfigured.
        """
        ...

    def list(self, prefix: str = "") -> Iterator[StoredFile]:
        """Every whole file whose key starts with the prefix, once each, in no promised order, read page by page.

        Files that come or go meanwhile may or may not be seen; leftovers of failed pushes never are.

        Raises:
            StorageUnavailable, StorageMisconfigured.
        """
        ...

    def check(self) -> None:
        """Proves at start-up that files can be created once, read and deleted.

        Raises:
            StorageMisconfigured: names the setting and the cure.
            StorageFull, StorageUnavailable: may heal.
        """
        ...


def require_type(load_spec: LoadSpec, expected: str, *names: str) -> tuple[str, ...]:
    """Returns the named text fields of a load spec of the expected type.

    Raises:
        StorageMisconfigured: the segment was stored by another kind of deep storage than is configured.
    """
    fields = tuple(load_spec.get(name) for name in names)
    if load_spec.get("type") != expected or not all(isinstance(value, str) for value in fields):
        raise StorageMisconfigured(
            f"segment lies at {load_spec!r}, but deep_storage.type is {expected!r}; "
            "configure the storage it was pushed to"
        )
    return tuple(str(value) for value in fields)
