"""The page of routes, and that every route is described with what it answers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.api import described
from tests.unit.server.test_api import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    yield found
    found.system.stop()


def test_the_page_of_routes_needs_nothing_from_elsewhere(world: World) -> None:
    page = world.http.get("/docs")
    assert page.status_code == 200 and page.headers["content-type"].startswith("text/html")
    assert not re.findall(r"""(?:src|href)=["'](?:https?:)?//""", page.text) and "openapi.json" in page.text


def test_every_route_is_described_with_its_answers(world: World) -> None:
    paths = world.get("/openapi.json")["paths"]
    assert len(paths) > 40
    for path, methods in paths.items():
        for method, route in methods.items():
            answers = route["responses"]
            assert {"200", "202"} & set(answers) and "422" not in answers, (method, path)
            assert all(answer["description"] not in ("", "Successful Response") for answer in answers.values())
            if "200" in answers:
                assert answers["200"]["content"], (method, path)
    unknown = [name for name in described.ANSWERS if name.split()[1] not in paths]
    assert all("/worker/" in name for name in unknown), f"described, but not there: {unknown}"
