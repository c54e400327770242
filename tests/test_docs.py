"""Keeps the documents true: every link leads somewhere and every make target they name exists."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
MAKE = re.compile(r"(?:^ *|`|\$ )make ([a-z][a-z-]*)", re.MULTILINE)
TARGET = re.compile(r"^([a-z][a-z-]*):", re.MULTILINE)


def documents() -> list[Path]:
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])


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
    assert not broken, "\n" + "\n".join(broken)


def test_make_targets_in_documents_exist() -> None:
    targets = set(TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8")))
    named = [
        (document, target) for document in documents() for target in MAKE.findall(document.read_text(encoding="utf-8"))
    ]
    missing = [f"{document.relative_to(ROOT)}: make {target}" for document, target in named if target not in targets]
    print(f"{len(named)} make targets named, {len(targets)} defined")
    assert named, "the documents name no make target at all"
    assert not missing, "\n" + "\n".join(missing)
