"""Builds the deep storage that the settings name."""

from __future__ import annotations

import threading
from pathlib import Path

from ingest.clock import Clock
from segments.storage.base import DeepStorage
from segments.storage.local import LocalDeepStorage
from server.config import LocalStorage, S3Storage


def build_deep_storage(settings: LocalStorage | S3Storage, default_path: Path, clock: Clock) -> DeepStorage:
    """``default_path`` is used for local storage without a path. Contacts nobody."""
    if isinstance(settings, LocalStorage):
        return LocalDeepStorage(settings.path or default_path)
    from segments.storage.s3 import S3DeepStorage, S3Settings  # boto3 takes long to import

    pause = threading.Event()

    def wait(wait_ms: int) -> None:
        pause.wait(wait_ms / 1_000)

    return S3DeepStorage(
        S3Settings(
            bucket=settings.bucket,
            prefix=settings.prefix,
            endpoint_url=settings.endpoint_url,
            region=settings.region,
            call_deadline_ms=settings.upload_deadline_s * 1_000,
        ),
        clock.monotonic_ms,
        wait,
    )
