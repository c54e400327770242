"""Keeps the documents true: links lead somewhere; targets, settings, routes, metrics, commands and rules are told."""

import ast
import importlib
import importlib.util
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "reference"
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
MAKE = re.compile(r"(?:^ *|`|\$ )make ([a-z][a-z-]*)", re.MULTILINE)
TARGET = re.compile(r"^([a-z][a-z-]*):", re.MULTILINE)
METRIC = re.compile(r"""["'](siltstone_[a-z0-9_]+)["']""")
INVARIANT = re.compile(r"""["']([A-Z]{2}-\d+)["']""")
DEFINED = re.compile(r"^ *def (test_\w+)", re.MULTILINE)
NAMED_TEST = re.compile(r"`(test_\w+(?:\.py)?)`")
INSTALLS = re.compile(r"\bpip install (?!--)([^\n]+)")
ROUTE_CALLS = {
    "get",
    "post",
    "put",
    "delete",
    "patch",
    "head",
    "route",
    "api_route",
    "add_api_route",
    "Route",
    "websocket",
}


def documents() -> list[Path]:
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def told(page: Path, names: set[str], what: str) -> None:
    """Fails when a name does not stand on the page between backticks (alone, or first in a longer phrase)."""
    text = text_of(page)
    absent = sorted(name for name in names if not re.search(rf"`([A-Z, ]+ )?{re.escape(name)}[`?\s]", text))
    print(f"{what}: {len(names)} known, {len(absent)} absent from {page.relative_to(ROOT)}")
    assert not absent, f"{page.relative_to(ROOT)} does not tell these ({what}): " + ", ".join(absent)


def test_relative_links_lead_to_files() -> None:
    broken, seen = [], 0
    for document in documents():
        for link in LINK.findall(document.read_text(encoding="utf-8")):
            target = link.split("#")[0]
            if not target or "://" in target or target.startswith("mailto:"):
                continue
            seen += 1
            if not (document.parent / target).exists():
                broken.append(f"{document.relative_to(ROOT)}: {link}")
    print(f"{seen} relative links in {len(documents())} documents")
    assert seen, "the documents link to nothing"
    assert not broken, "\n" + "\n".join(broken)


def test_each_decision_has_a_number_of_its_own() -> None:
    numbers = [path.name[:4] for path in (ROOT / "docs" / "decisions").glob("*.md")]
    assert sorted(numbers) == sorted(set(numbers)), "take the next free number"


def test_make_targets_in_documents_exist() -> None:
    targets = set(TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8")))
    named = [(page, target) for page in documents() for target in MAKE.findall(page.read_text(encoding="utf-8"))]
    absent = [f"{page.relative_to(ROOT)}: make {target}" for page, target in named if target not in targets]
    print(f"{len(named)} make targets named, {len(targets)} defined")
    assert named, "the documents name no make target at all"
    assert not absent, "\n" + "\n".join(absent)


def test_lines_that_install_work_without_a_package_index_that_knows_us() -> None:
    """Siltstone is in none: it comes from a checkout or a wheel of this version, and only what is installed already is
    named, to add an extra to it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = "|".join(map(re.escape, project["optional-dependencies"]))
    wheel = rf"(?:\./)?(?:dist/)?siltstone-{re.escape(project['version'])}-py3-none-any\.whl"
    works = re.compile(rf"'?(?:siltstone\[(?:{extras})\]|{wheel}(?:\[(?:{extras})\])?|\.)'?(?=[`\s)]|$)")
    assert not works.match("siltstone") and works.match("'siltstone[shell]'`") and not works.match("'siltstone[no]'")
    lines = [(page.name, asked) for page in documents() for asked in INSTALLS.findall(text_of(page))]
    assert len(lines) > 8 and [line for line in lines if not works.match(line[1])] == []


def test_every_setting_is_told() -> None:
    if importlib.util.find_spec("server.config") is None:
        print("no server.config: no settings to tell")
        return
    settings = importlib.import_module("server.config").Settings
    told(REFERENCE / "settings.md", set(setting_keys(settings)), "settings")


def setting_keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """The dotted keys of a settings model; a section that is a model is walked, a union of models in each branch."""
    for name, field in model.model_fields.items():
        sections = list(models_in(field.annotation))
        if not sections:
            yield prefix + name
        for section in sections:
            yield from setting_keys(section, f"{prefix}{name}.")


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in getattr(annotation, "__args__", ()):
        yield from models_in(argument)


def test_every_route_is_told() -> None:
    found = {route for path in (ROOT / "server").rglob("*.py") for route in routes(ast.parse(text_of(path)))}
    told(REFERENCE / "http.md", found, "routes")


def routes(tree: ast.Module) -> Iterator[str]:
    """The paths that a module routes, with its router's prefix before them; internal ones and templates left out."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    prefix = next((text for call in calls if name_of(call) == "APIRouter" and (text := prefix_of(call))), "")
    for call in calls:
        if name_of(call) not in ROUTE_CALLS or not call.args or not isinstance(call.args[0], ast.Constant):
            continue
        path = call.args[0].value
        if isinstance(path, str) and path.startswith("/"):
            yield prefix + path.replace(":path}", "}")


def name_of(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def prefix_of(call: ast.Call) -> str:
    values = [word.value for word in call.keywords if word.arg == "prefix"]
    return next((str(value.value) for value in values if isinstance(value, ast.Constant)), "")


def test_every_metric_is_told() -> None:
    found = {name for path in (ROOT / "server").rglob("*.py") for name in METRIC.findall(text_of(path))}
    told(REFERENCE / "metrics.md", found, "metrics")


def test_every_command_is_told() -> None:
    typer_main = importlib.import_module("typer.main")
    command = typer_main.get_command(importlib.import_module("server.cli").app)
    found = {"siltstone " + words for words in commands(command)}
    assert found, "the command line has no command"
    told(REFERENCE / "cli.md", found, "commands")


def commands(command: Any, prefix: str = "") -> Iterator[str]:
    for name, child in getattr(command, "commands", {}).items():
        if getattr(child, "commands", None):
            yield from commands(child, f"{prefix}{name} ")
        elif not child.hidden:
            yield prefix + name


def test_every_invariant_is_told() -> None:
    found = {name for path in (ROOT / "ingest").rglob("invariants.py") for name in INVARIANT.findall(text_of(path))}
    print(f"{len(found)} invariants in code")
    absent = sorted(name for name in found if not re.search(rf"\b{name}\b", text_of(ROOT / "docs" / "protocol.md")))
    assert not absent, "docs/protocol.md does not tell: " + ", ".join(absent)


def test_tests_that_documents_name_exist() -> None:
    there = {name for path in (ROOT / "tests").rglob("*.py") for name in DEFINED.findall(text_of(path))}
    there |= {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    there |= {path.stem for path in (ROOT / "tests").rglob("test_*.py")}
    named = {name for document in documents() for name in NAMED_TEST.findall(text_of(document))}
    print(f"{len(named)} tests named in documents")
    absent = sorted(named - there)
    assert not absent, "documents name tests that there are not: " + ", ".join(absent)


def test_every_field_of_a_spec_is_told_with_a_test_that_exists() -> None:
    page = text_of(REFERENCE / "spec-fields.md")
    told_of = set(re.findall(r"[A-Za-z]\w*", " ".join(re.findall(r"`([^`]*)`", page))))
    fields = {
        info.alias or name
        for module in ("ingest.spec.edge", "ingest.spec.edge_formats", "ingest.spec.rules_index")
        for block in vars(importlib.import_module(module)).values()
        if isinstance(block, type) and issubclass(block, BaseModel) and block.__name__ != "SpecEdge"
        for name, info in block.model_fields.items()
    }
    assert not fields - told_of, "spec-fields.md does not tell these fields: " + ", ".join(sorted(fields - told_of))
    tests = set(re.findall(r"`(test_\w+)`", page))
    defined = {
        name for path in (ROOT / "tests").rglob("test_*.py") for name in re.findall(r"def (test_\w+)", text_of(path))
    }
    assert tests and not tests - defined, "no such tests: " + ", ".join(sorted(tests - defined))


def test_the_scanners_see_what_they_look_for() -> None:
    class Section(BaseModel):
        port: int

    class Whole(BaseModel):
        data_dir: str
        http: Section | None

    assert set(setting_keys(Whole)) == {"data_dir", "http.port"}
    source = 'r = APIRouter(prefix="/a")\n@r.get("/b/{id}")\ndef f() -> None: ...\n'
    assert list(routes(ast.parse(source))) == ["/a/b/{id}"]
    assert METRIC.findall('Counter("siltstone_rows_total", "rows")') == ["siltstone_rows_total"]
    assert INVARIANT.findall('yield "CK-1", ...') == ["CK-1"]
