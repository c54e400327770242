"""The wheel holds the service and nothing else, and its requirements agree with the pinned ones."""

import re
import tomllib
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("segments", "ingest", "query", "server", "siltstone", "migrations")
# Names a registry's host, not a project's: nothing in the tree depends on where packages come from.
INDEX = re.compile(r"--(extra-)?index-url|--find-links|https?://")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    target = tmp_path_factory.mktemp("wheel")
    [built] = list(WheelBuilder(str(ROOT)).build(directory=str(target), versions=["standard"]))
    return zipfile.ZipFile(built)


def test_wheel_holds_every_file_of_the_packages_and_no_test(wheel: zipfile.ZipFile) -> None:
    inside = {name for name in wheel.namelist() if ".dist-info/" not in name}
    expected = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert inside == expected
    assert {f"{package}/py.typed" for package in PACKAGES} <= inside


def test_wheel_names_its_command_and_licence(wheel: zipfile.ZipFile) -> None:
    [entry_points] = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
    assert "siltstone = server.__main__:main" in wheel.read(entry_points).decode()
    assert [name for name in wheel.namelist() if name.endswith("licenses/LICENSE")]


def test_project_and_requirements_ask_for_the_same_things() -> None:
    tables = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    project = tables["dependencies"]
    extras = {line for name in ("avro", "protobuf", "jq", "registry") for line in tables["optional-dependencies"][name]}
    assert extras == set(asked("formats.in"))
    assert sorted(project) == sorted(asked("core.in") + asked("runtime.in"))
    assert {line.replace("psycopg2-binary", "psycopg2") for line in asked("runtime.in")} == set(asked("image.in"))


@pytest.mark.parametrize("name", ["bootstrap", "build", "dev", "image", "runtime"])
def test_requirements_are_hashed_and_name_no_index(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    assert not INDEX.search(text)
    pins = re.findall(r"^[A-Za-z0-9].*?(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    assert pins and all("==" in pin and "--hash=sha256:" in pin for pin in pins)


def asked(name: str) -> list[str]:
    lines = (ROOT / "requirements" / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and line[0] not in "#-"]
