"""Keeps files and functions small, modules explained, names telling and loose ends numbered."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("segments", "ingest", "query", "server", "siltstone", "migrations", "tests")
FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
BANNED_NAMES = {"utils", "util", "common", "helpers", "helper", "misc", "manager", "impl"}
# Spelt in pieces so that this file does not find itself.
LOOSE_END = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK")) + r")\b(?!\(#\d+\))")
# Modules of these names decide and do nothing else.
PURE_NAMES = {
    *("machine", "messages", "agreement", "assignment", "invariants", "lifecycle"),
    *("offsets", "protocol", "sequence", "timeline"),
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def sources() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def functions(block: ast.AST) -> Iterator[Function]:
    """All functions of a module, nested ones too. Statements hold functions and expressions hold none."""
    for statement in ast.iter_child_nodes(block):
        if isinstance(statement, Function):
            yield statement
        if isinstance(statement, ast.stmt | ast.excepthandler | ast.match_case):
            yield from functions(statement)


def problems(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    lines = text.count("\n")
    if lines > FILE_LINES_MAX:
        yield f"{lines} lines, at most {FILE_LINES_MAX}: give one of its jobs a file of its own"
    if not ast.get_docstring(tree):
        yield "no module docstring: say in one sentence what it decides or does"
    if path.stem in BANNED_NAMES or path.parent.name in BANNED_NAMES:
        yield "its name says nothing: name the noun that it defines"
    for function in functions(tree):
        length = (function.end_lineno or function.lineno) - function.lineno + 1
        if length > FUNCTION_LINES_MAX:
            yield f"{function.name} at line {function.lineno} has {length} lines, at most {FUNCTION_LINES_MAX}"
    for found in LOOSE_END.finditer(text):
        number = text.count("\n", 0, found.start()) + 1
        yield f"line {number}: a loose end carries its number, as in NAME(#12)"


def test_every_package_is_walked() -> None:
    for package in PACKAGES:
        assert list((ROOT / package).rglob("*.py")), f"nothing found in {package}"


def test_sources_are_tidy() -> None:
    found = [f"{path.relative_to(ROOT)}: {problem}" for path in sources() for problem in problems(path)]
    assert not found, "\n" + "\n".join(found)


def test_every_pure_module_is_under_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    [listed] = [contract["source_modules"] for contract in contracts if contract["id"] == "pure"]
    covered = re.compile("|".join(re.escape(module).replace(r"\*", r"[^.]+") for module in listed))
    deciding = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for package in ("segments", "ingest")
        for path in (ROOT / package).rglob("*.py")
        if path.stem in PURE_NAMES
    ]
    absent = sorted(module for module in deciding if not covered.fullmatch(module))
    assert not absent, f'add to source_modules of the contract "pure" in pyproject.toml: {absent}'


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("long.py", '"""Doc."""\n' + "x = 1\n" * FILE_LINES_MAX, "lines, at most"),
        ("bare.py", "x = 1\n", "no module docstring"),
        ("utils.py", '"""Doc."""\n', "its name says nothing"),
        ("deep.py", '"""Doc."""\ndef f() -> None:\n' + "    x = 1\n" * FUNCTION_LINES_MAX, "f at line 2"),
        ("loose.py", '"""Doc."""\n# TO' + "DO: later\n", "a loose end"),
    ],
)
def test_each_rule_sees_its_offender(tmp_path: Path, name: str, text: str, expected: str) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    assert [problem for problem in problems(path) if expected in problem]
