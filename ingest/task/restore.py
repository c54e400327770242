"""Finds the ended attempts on this host whose rows a new attempt of the same group may link in (PR-26)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ingest.protocol import TaskSpec
from ingest.task.directory import AttemptDirectory
from ingest.wire import WireError


def restorable(attempts: Path, spec: TaskSpec, has_rows: Callable[[Path], bool]) -> list[AttemptDirectory]:
    """Directories under ``attempts`` of the same supervisor and group, proved ended, newest rows first.

    ``has_rows`` looks at a ``work`` directory. Unreadable directories are passed over.
    """
    found: list[tuple[int, AttemptDirectory]] = []
    for path in attempts.iterdir():
        directory = AttemptDirectory(path)
        if not directory.work.is_dir() or not has_rows(directory.work):
            continue
        try:
            other = directory.spec()
        except WireError:
            continue
        same_group = (other.supervisor, other.group) == (spec.supervisor, spec.group)
        if same_group and other.token != spec.token and directory.has_ended():
            found.append((directory.work.stat().st_mtime_ns, directory))
    return [directory for _, directory in sorted(found, key=lambda entry: -entry[0])]
