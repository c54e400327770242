"""Holds every recorded statement to its answer: those listed as unbuilt fail, all others pass."""

import json

import pytest

from tests.conformance.running import cases, fault
from tests.conformance.tables import HERE

FAMILIES = sorted({case["family"] for case in cases().values()})
UNBUILT: dict[str, str] = json.loads((HERE / "unbuilt.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("family", FAMILIES)
def test_statements_of_a_family_are_answered_as_recorded(family: str) -> None:
    faults = {name: fault(case) for name, case in cases().items() if case["family"] == family and name not in UNBUILT}
    wrong = {name: found for name, found in faults.items() if found is not None}
    assert not wrong, "\n".join(f"{name}: {found}" for name, found in wrong.items())


def test_the_list_of_unbuilt_cases_names_only_cases_that_fail() -> None:
    assert set(UNBUILT) <= set(cases()), "a listed case does not exist"
    passing = [name for name in UNBUILT if fault(cases()[name]) is None]
    assert not passing, f"take these off tests/conformance/unbuilt.json: {passing}"


def test_the_page_about_differences_names_every_case_that_has_another_answer() -> None:
    page = (HERE.parents[1] / "docs" / "reference" / "differences.md").read_text(encoding="utf-8")
    assert [name for name in UNBUILT if f"`{name}`" not in page] == []
    assert len(UNBUILT) <= 15
