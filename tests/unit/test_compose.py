"""The compose file and the Dockerfile, judged without an engine: what they promise and what linters say."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.servers.fixtures import missing

ROOT = Path(__file__).resolve().parents[2]
COMPOSE = ROOT / "docker-compose.yml"
DOCKERFILE = ROOT / "Dockerfile"
SERVICES = {"kafka", "postgres", "storage", "migrate", "siltstone"}
ONE_SHOT = {"migrate"}


def services() -> dict[str, dict[str, Any]]:
    document = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))
    found: dict[str, dict[str, Any]] = document["services"]
    return found


def test_every_part_of_the_system_is_a_service() -> None:
    assert set(services()) == SERVICES


def test_the_file_has_no_name_of_its_own() -> None:
    # Older compose refuses the key, and the folder's name is what people expect.
    assert "name" not in yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_ports_are_published_on_loopback_only(name: str) -> None:
    for port in services()[name].get("ports", []):
        assert re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port), f"{name} publishes {port}"


@pytest.mark.parametrize("name", sorted(SERVICES - ONE_SHOT))
def test_every_lasting_service_says_when_it_is_healthy_and_keeps_its_data(name: str) -> None:
    service = services()[name]
    assert service["healthcheck"]["test"][0] in {"CMD", "CMD-SHELL"}
    named = set(yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["volumes"])
    mounted = {volume.split(":")[0] for volume in service["volumes"]}
    assert mounted and mounted <= named


def test_siltstone_waits_for_what_it_needs() -> None:
    waits = {name: entry["condition"] for name, entry in services()["siltstone"]["depends_on"].items()}
    assert waits == {
        "kafka": "service_healthy",
        "postgres": "service_healthy",
        "storage": "service_healthy",
        "migrate": "service_completed_successfully",
    }


def test_images_are_pinned() -> None:
    for name, service in services().items():
        if "build" not in service:
            tag = service["image"].partition(":")[2]
            assert re.match(r"\d", tag), f"{name} runs {service['image']}"


def test_settings_of_the_environment_are_spelt_as_settings() -> None:
    environment = services()["siltstone"]["environment"]
    ours = {key for key in environment if key.startswith("SILTSTONE_")}
    assert environment["SILTSTONE_HTTP__ALLOW_UNAUTHENTICATED"] == "true"
    assert all(re.fullmatch(r"SILTSTONE_[A-Z0-9]+(_[A-Z0-9]+)*(__[A-Z0-9]+(_[A-Z0-9]+)*)*", key) for key in ours)


def test_the_image_runs_as_an_ordinary_user_with_a_health_check_and_a_volume() -> None:
    last_stage = DOCKERFILE.read_text(encoding="utf-8").rpartition("\nFROM ")[2]
    instructions = dict(re.findall(r"^([A-Z]+) (.*)$", last_stage, re.MULTILINE))
    assert instructions["USER"].split(":")[0] not in {"root", "0"}
    assert "HEALTHCHECK" in instructions
    assert instructions["VOLUME"] == services()["siltstone"]["volumes"][0].split(":")[1]


def test_what_the_image_copies_is_sent_to_the_builder() -> None:
    sent = [line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line[:1] == "!"]
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE.read_text(encoding="utf-8"), re.MULTILINE)
    for source in " ".join(copied).split():
        assert (ROOT / source).exists(), f"{source} is not there"
        assert any(Path(source).match(pattern) for pattern in sent), f"{source} is not sent"


def test_dockerfile_passes_its_linter() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    if not hadolint.exists():
        missing("hadolint", "make install")
    done = subprocess.run([hadolint, DOCKERFILE], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_compose_itself_accepts_the_file() -> None:
    # It needs no engine to read a file. Bare machines have no compose, so its absence is no failure anywhere.
    plugin = [["docker", "compose"], ["docker-compose"]]
    command = next((words for words in plugin if shutil.which(words[0]) and works(words)), None)
    if command is None:
        pytest.skip("compose is missing: apt-get install docker-compose")
    done = subprocess.run([*command, "-f", str(COMPOSE), "config", "-q"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def works(command: list[str]) -> bool:
    return subprocess.run([*command, "version"], capture_output=True, timeout=30, check=False).returncode == 0
