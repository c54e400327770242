"""What an HTTP front can reach in its own process: the services of its roles, and where the others are."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ingest.clock import Clock
from ingest.metadata.store import MetadataStore
from ingest.overlord.overlord import Overlord
from ingest.worker.middle_manager import MiddleManager
from query.source import SegmentCatalog
from segments.storage.base import DeepStorage
from server.api.native import QueryServices
from server.avatica.connections import Connections
from server.config import Settings
from server.directory import Directory
from server.health import Health
from server.metrics import Metrics


@dataclass(frozen=True, slots=True)
class Parts:
    """One process. Services of roles it does not have are None; ``store`` and ``catalog`` are None for a
    middle manager alone. ``address`` (``host:port``) is where others reach this process."""

    settings: Settings
    node: str
    address: str
    clock: Clock
    secret: str
    health: Health
    metrics: Metrics
    storage: DeepStorage
    scratch: Path
    directory: Directory = field(default_factory=Directory)
    store: MetadataStore | None = None
    catalog: SegmentCatalog | None = None
    overlord: Overlord | None = None
    middle_manager: MiddleManager | None = None
    queries: QueryServices | None = None
    jdbc: Connections | None = None
