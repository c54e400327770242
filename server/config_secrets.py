"""Masks secrets in documents that leave the process: anything under a key that names one."""

from __future__ import annotations

import re
from typing import Any

MASK = "******"
_SECRET = re.compile(
    r"password|passwd|secret|jaas|credential(?!s\.source)|private.?key|\.key$|sasl\.oauthbearer|\btoken\b|\.pem$|key\.pem"
    r"|user\.info|authorization|cookie|api.?key",
    re.I,
)
_LOGIN = re.compile(r"(://[^\s:/@]*:)[^\s/@]*@")
"""User and password of an address, as database URLs carry them."""


def masked(document: Any, key: str = "") -> Any:
    """A copy with every secret's value replaced; providers that only say where a secret lies stay readable."""
    if isinstance(document, dict):
        if document.get("type") == "environment":
            return dict(document)
        if document.get("type") == "mapString" and isinstance(document.get("config"), dict):
            # Druid's provider for what is to stay hidden, whatever its entries are called.
            return {**document, "config": dict.fromkeys(document["config"], MASK)}
        return {name: masked(value, str(name)) for name, value in document.items()}
    if isinstance(document, list):
        return [masked(value, key) for value in document]
    if document is not None and not isinstance(document, bool) and _SECRET.search(key):
        return MASK
    return _LOGIN.sub(rf"\1{MASK}@", document) if isinstance(document, str) else document
