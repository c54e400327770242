"""Puts secrets back into a spec that was got from here, where they were hidden, changed, and posted again (pure)."""

from __future__ import annotations

from typing import Any

from ingest.errors import SpecProblem
from ingest.stream.properties import MASK


def supervisor_of(posted: Any) -> str | None:
    """The supervisor that a posted spec is for, as far as it says so at all."""
    if not isinstance(posted, dict):
        return None
    configs = posted.get("spec") if isinstance(posted.get("spec"), dict) else posted
    schema = configs.get("dataSchema") if isinstance(configs, dict) else None
    name = posted.get("id") or (schema.get("dataSource") if isinstance(schema, dict) else None)
    return name if isinstance(name, str) else None


def is_hidden(document: Any) -> bool:
    """Whether the mask stands anywhere in it."""
    if isinstance(document, dict):
        return any(map(is_hidden, document.values()))
    return any(map(is_hidden, document)) if isinstance(document, list) else _is_mask(document)


def _is_mask(value: Any) -> bool:
    """The mask of a whole value, or of the password inside an address."""
    return isinstance(value, str) and (value == MASK or f":{MASK}@" in value)


def unhidden(posted: Any, stored: Any, path: str = "$") -> tuple[Any, list[SpecProblem]]:
    """The posted document with each mask replaced by what stands at the same place of the stored one.

    A mask that stands for nothing is a problem: nobody's password is six stars.
    """
    problems: list[SpecProblem] = []

    def restored(value: Any, old: Any, where: str) -> Any:
        if isinstance(value, dict):
            known = old if isinstance(old, dict) else {}
            return {name: restored(item, known.get(name), f"{where}.{name}") for name, item in value.items()}
        if isinstance(value, list):
            before = old if isinstance(old, list) and len(old) == len(value) else [None] * len(value)
            return [restored(item, before[at], f"{where}[{at}]") for at, item in enumerate(value)]
        if not _is_mask(value):
            return value
        head, _, tail = value.partition(MASK)
        if isinstance(old, str) and not _is_mask(old) and old.startswith(head) and old.endswith(tail):
            return old
        if isinstance(old, int | float) and not isinstance(old, bool) and value == MASK:
            return old
        rule = "is what is shown in place of a secret, and none is stored here"
        cure = 'post the secret itself, or where it lies: {"type": "environment", "variable": "NAME"}'
        problems.append(SpecProblem(where, value, rule, cure))
        return value

    return restored(posted, stored, path), problems
