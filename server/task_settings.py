"""What every task of a middle manager needs of the settings: a file in the state root, left by the middle manager."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from ingest.clock import Clock
from ingest.task.directory import write_atomically
from ingest.task.uploads import AT_ONCE
from ingest.wire import dumps, loads
from segments.storage.base import DeepStorage
from segments.storage.durable import disk_error
from server.config import LocalStorage, S3Storage
from server.storage import build_deep_storage

FILE: Final = "task-settings.json"
_STORAGE: Final[TypeAdapter[LocalStorage | S3Storage]] = TypeAdapter(LocalStorage | S3Storage)


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """``deep_storage`` is the settings' section with an absolute path; it holds no secret.

    ``advertise_host`` is the name under which overlords and query nodes reach what listens on ``bind_host``.
    """

    overlord_urls: tuple[str, ...]
    bind_host: str
    advertise_host: str
    deep_storage: dict[str, Any]
    held_bytes_max: int
    uploads_max: int = AT_ONCE
    log_level: str = "info"
    log_format: str = "console"

    def write(self, root: Path) -> None:
        """Leaves the settings for tasks started from now on.

        Raises:
            ServiceError: the disk takes no file.
        """
        try:
            root.mkdir(parents=True, exist_ok=True)
            write_atomically(root / FILE, dumps(self))
        except OSError as error:
            raise disk_error(error, root / FILE, "writing") from error

    @staticmethod
    def read(root: Path) -> TaskSettings:
        """Raises OSError or WireError: the state root is not a middle manager's."""
        return loads(TaskSettings, (root / FILE).read_bytes())

    def storage(self, clock: Clock) -> DeepStorage:
        """The deep storage as a task uses it."""
        section = _STORAGE.validate_python(self.deep_storage)
        assert isinstance(section, S3Storage) or section.path is not None
        return build_deep_storage(section, Path(), clock)


def storage_section(settings: LocalStorage | S3Storage, default_path: Path) -> dict[str, Any]:
    """``TaskSettings.deep_storage`` of a settings section."""
    section: dict[str, Any] = settings.model_dump(mode="json")
    if isinstance(settings, LocalStorage):
        section["path"] = str((settings.path or default_path).absolute())
    return section
