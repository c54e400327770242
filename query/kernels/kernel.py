"""What a kernel is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Kernel:
    """A function of whole Arrow arrays with the engine's names of its types."""

    function: Callable[..., Any]
    parameters: tuple[str, ...]
    result: str
