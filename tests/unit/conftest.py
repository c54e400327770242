"""What several files of these tests make and must end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.quarantine_table import Table


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Callable[..., Table]]:
    """Makes tables that were read by a spec; their systems end with the test."""
    tables: list[Table] = []

    def make(posted: dict[str, Any], records: list[Any], **beside: Any) -> Table:
        tables.append(Table(tmp_path, posted, records, **beside))
        return tables[-1]

    yield make
    for table in tables:
        table.system.stop()
