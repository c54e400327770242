"""Judges a supervisor spec without a service: the same rules as a submission, every fault and warning at once."""

from __future__ import annotations

from typing import Any

from ingest.errors import SpecError, SpecProblem
from ingest.overlord.hidden import is_hidden
from ingest.overlord.judging import judge_spec
from server.reading import LEVELS_MAX, is_shallow

_SHOWN_CHARS = 500


def validate(document: Any) -> dict[str, Any]:
    """What a submission of ``document`` would be told: ``valid``, ``problems`` and ``warnings``.

    What only a running service knows is not judged: whether the topic exists, whether a variable of the
    environment is set, and which stored secret a hidden one stands for.
    """
    try:
        if not is_shallow(document):
            cure = "flatten it"
            raise SpecError([SpecProblem("$", None, f"has more than {LEVELS_MAX} levels, which nobody reads", cure)])
        spec, warnings = judge_spec(document)
    except SpecError as error:
        problems = [told(problem) for problem in error.problems]
        return {"valid": False, "problems": problems, "warnings": list(error.warnings)}
    hidden = "the spec holds hidden secrets: posted, they mean those that the service has stored for this supervisor"
    notes = [*warnings, *([hidden] if is_hidden(document) else [])]
    names = {"supervisor": spec.supervisor, "dataSource": spec.datasource, "topic": spec.io.stream}
    return {"valid": True, **names, "problems": [], "warnings": notes}


def told(problem: SpecProblem) -> dict[str, Any]:
    """A problem as JSON, its value cut to a few hundred characters."""
    value = problem.value
    if isinstance(value, str) and len(value) > _SHOWN_CHARS:
        value = value[:_SHOWN_CHARS] + "…"
    return {
        "path": problem.path,
        "value": value if value is None or isinstance(value, str | int | float) else repr(value)[:_SHOWN_CHARS],
        "rule": problem.rule,
        "cure": problem.cure,
        "text": str(problem),
    }
