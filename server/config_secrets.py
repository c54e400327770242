"""Masks secrets in documents that leave the process: anything under a key that names one."""

from __future__ import annotations

import re
from typing import Any

MASK = "******"
_SECRET = re.compile(
    r"password|passwd|secret|jaas|credential|private.?key|sasl\.oauthbearer|\btoken\b|\.pem$|key\.pem", re.I
)


def masked(document: Any, key: str = "") -> Any:
    """A copy with every secret's value replaced; providers that only say where a secret lies stay readable."""
    if isinstance(document, dict):
        return {name: masked(value, str(name)) for name, value in document.items()}
    if isinstance(document, list):
        return [masked(value, key) for value in document]
    if isinstance(document, str) and _SECRET.search(key):
        return MASK
    return document
