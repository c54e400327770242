"""How a process proves that it holds an attempt's token without saying it."""

from __future__ import annotations

import hashlib
import hmac


def proof(token: str, nonce: str, pid: int) -> str:
    """The answer to a challenge: a keyed digest of the asker's nonce and of the answering process's pid."""
    return hmac.new(token.encode(), f"{nonce}:{pid}".encode(), hashlib.sha256).hexdigest()


def is_proof(answer: str, token: str, nonce: str, pid: int) -> bool:
    """Compares in constant time."""
    return hmac.compare_digest(answer.encode(), proof(token, nonce, pid).encode())
