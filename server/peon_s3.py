"""The entry point of tasks where deep storage is S3: their forkserver has loaded boto3 once for all of them."""

from __future__ import annotations

import segments.storage.s3  # noqa: F401  # half a second, before a task registers
from server.peon import run

__all__ = ["run"]
