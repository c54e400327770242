"""Settings come from a file and the environment; everything wrong is told at once, with the nearest known key."""

import os
from pathlib import Path

import pytest
import yaml

from server.config import S3Storage, SettingsError, known_keys, load

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def written(tmp_path: Path, content: object) -> Path:
    path = tmp_path / "siltstone.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("SILTSTONE_"):
            monkeypatch.delenv(name)


def test_defaults_run_everything_on_loopback() -> None:
    settings = load(None)
    assert settings.http.host == "127.0.0.1"
    assert settings.http.port == 8888
    assert settings.metadata_url.startswith("sqlite:///")
    assert settings.auto_migrate
    assert set(settings.roles) == {"overlord", "middle-manager", "query", "api"}


def test_the_environment_wins_over_the_file_and_the_command_line_over_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, {"http": {"port": 1000}, "worker": {"capacity": 2}, "log": {"level": "debug"}})
    monkeypatch.setenv("SILTSTONE_HTTP__PORT", "2000")
    monkeypatch.setenv("SILTSTONE_WORKER__CAPACITY", "7")
    settings = load(path, {"http": {"port": 3000}})
    assert (settings.http.port, settings.worker.capacity, settings.log.level) == (3000, 7, "debug")


def test_deep_storage_can_come_from_the_environment_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SILTSTONE_DEEP_STORAGE__TYPE", "s3")
    monkeypatch.setenv("SILTSTONE_DEEP_STORAGE__BUCKET", "segments")
    storage = load(None).deep_storage
    assert isinstance(storage, S3Storage)
    assert storage.bucket == "segments"


def test_roles_may_be_written_with_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load(None, {"roles": "query, api"}).roles == ("query", "api")


def test_all_faults_are_told_at_once_with_the_nearest_known_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SILTSTONE_WORKER__CAPACTIY", "3")
    path = written(tmp_path, {"htp": {"port": 1}, "http": {"prot": 1, "port": 99999}, "log": {"level": "loud"}})
    with pytest.raises(SettingsError) as caught:
        load(path)
    text = str(caught.value)
    assert "http.prot: unknown key; the nearest known one is http.port" in text
    assert "htp: unknown key" in text
    assert "SILTSTONE_WORKER__CAPACTIY: unknown key; the nearest known one is SILTSTONE_WORKER__CAPACITY" in text
    assert "http.port" in text and "99999" in text
    assert "log.level" in text and "loud" in text


def test_names_of_scripts_around_the_product_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SILTSTONE_CACHE", "somewhere")
    load(None)
    monkeypatch.setenv("SILTSTONE_DATADIR", "x")
    with pytest.raises(SettingsError, match="SILTSTONE_DATA_DIR"):
        load(None)


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.1", "db.internal", "::"])
def test_an_open_address_needs_the_explicit_word(host: str) -> None:
    with pytest.raises(SettingsError, match="allow_unauthenticated"):
        load(None, {"http": {"host": host}})
    assert load(None, {"http": {"host": host, "allow_unauthenticated": True}}).http.host == host


def test_a_middle_manager_alone_must_know_its_overlords() -> None:
    with pytest.raises(SettingsError, match=r"overlord\.urls"):
        load(None, {"roles": ["middle-manager"]})


@pytest.mark.parametrize("content", ["- a\n- b\n", "a: [", "just text"])
def test_a_file_that_is_no_mapping_is_refused_by_name(tmp_path: Path, content: str) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text(content)
    with pytest.raises(SettingsError, match=r"broken\.yaml"):
        load(path)


def test_bad_yaml_is_one_line_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text("http:\n  port: [1\nroles: x\n")
    with pytest.raises(SettingsError) as caught:
        load(path)
    [line] = str(caught.value).splitlines()
    assert line.startswith(f"{path}: not YAML at line 3, column 6: ")


def test_a_key_that_stands_twice_is_refused_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "twice.yaml"
    path.write_text("http:\n  port: 1\n  port: 2\n")
    with pytest.raises(SettingsError) as caught:
        load(path)
    assert str(caught.value) == f"{path}: not YAML at line 3, column 3: port stands twice"


def test_an_unknown_section_is_told_the_nearest_section(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        load(written(tmp_path, {"htpp": {"port": 1}}))
    assert str(caught.value) == "htpp: unknown key; the nearest known one is http"


def test_a_missing_file_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        load(tmp_path / "absent.yaml")


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.yaml")), ids=lambda path: path.name)
def test_the_examples_load(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SILTSTONE_SECRET", "shared by the machines")
    assert load(path).roles


def test_the_compose_file_names_known_keys_only() -> None:
    compose = yaml.safe_load((EXAMPLES.parent / "docker-compose.yml").read_text())
    known = {"SILTSTONE_" + key.upper().replace(".", "__") for key in known_keys()}
    named = {name for name in compose["services"]["siltstone"]["environment"] if name.startswith("SILTSTONE_")}
    assert named
    assert named <= known
