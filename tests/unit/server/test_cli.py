"""The command line: quick help without heavy imports, exit codes, and one clear line for a failure."""

from __future__ import annotations

import resource
import socket
import subprocess
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path

import pytest
from typer.testing import CliRunner

import siltstone
from server.__main__ import main
from server.cli import app
from server.cli_output import supervisor_status

HEAVY = (
    "pyarrow",
    "sqlalchemy",
    "boto3",
    "duckdb",
    "sqlglot",
    "fastapi",
    "uvicorn",
    "confluent_kafka",
    "pydantic",
    "rich",
)
NOBODY = "http://127.0.0.1:9"


def run(*words: str, code: int, **named: str) -> str:
    done = CliRunner().invoke(app, list(words), **named)  # type: ignore[arg-type]
    assert done.exit_code == code, done.output
    return done.output


def test_help_takes_little_time_and_loads_nothing_heavy() -> None:
    script = (
        "import sys; from server.cli import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: pass\n"
        f"sys.stderr.write(','.join(name for name in {HEAVY!r} if name in sys.modules))"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert "supervisor" in done.stdout and done.stderr == ""
    cpu_s = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    assert cpu_s < 0.25 * 2, f"{cpu_s:.2f} s; 0.25 s on a machine that does nothing else"


class _CtrlC(MetaPathFinder):
    """Somebody presses it while the command line is being loaded."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == "server.cli":
            raise KeyboardInterrupt


def test_ctrl_c_while_the_command_is_being_loaded_ends_with_130_and_no_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "server.cli")
    monkeypatch.setattr(sys, "meta_path", [_CtrlC(), *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130


def test_the_version_is_told() -> None:
    assert run("version", code=0) == f"siltstone {siltstone.__version__}\n"


def test_wrong_use_ends_with_2() -> None:
    run("supervisor", "fly", code=2)
    run("query", code=2)
    for words in (["--format", "bogus"], ["--json", "--csv"], ["--context", "timeout"], ["--url", "here"]):
        assert run("query", "SELECT 1", *words, code=2).startswith("error: ")
    run("quickstart", "--rate", "0", code=2)
    for kafka in ("broker", "broker:", ":9092", "a:1,b", "h:99999"):
        assert f"--kafka {kafka}: expected HOST:PORT, such as" in run("quickstart", "--kafka", kafka, code=2)
    run("query", "SELECT 1", "-f", "x.sql", code=2)
    assert "/nowhere.sql: cannot be read: No such file" in run("query", "-f", "/nowhere.sql", code=2)
    run("serve", "--port", "99999", code=2)


@pytest.mark.parametrize(
    "words",
    [
        ("query", "SELECT 1", "--url", NOBODY),
        ("supervisor", "list", "--url", NOBODY),
        ("supervisor", "suspend", "x", "--url", NOBODY),
        ("task", "list", "--url", NOBODY),
        ("segments", "list", "--url", NOBODY),
        ("verify", "x", "--url", NOBODY),
        ("worker", "drain", "--url", NOBODY),
    ],
)
def test_a_service_that_is_not_there_is_one_line_and_1(words: tuple[str, ...]) -> None:
    [line] = run(*words, code=1).splitlines()
    assert line.startswith("error: no answer from http://127.0.0.1:9: nobody listens there; is it running?")
    assert "siltstone serve" in line


def test_a_spec_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{")
    for words in (("supervisor", "submit"), ("supervisor", "plan"), ("lookups", "put", "names")):
        assert "absent.json: cannot be read" in run(*words, str(tmp_path / "absent.json"), code=2)
        assert "bad.json: not JSON" in run(*words, str(tmp_path / "bad.json"), code=2)


def test_wrong_settings_are_all_told(tmp_path: Path) -> None:
    config = tmp_path / "s.yaml"
    config.write_text("data_dirr: x\nhttp: {port: 99999}\n")
    output = run("serve", "--config", str(config), code=1)
    assert "data_dirr: unknown key; the nearest known one is data_dir" in output and "http.port" in output


def test_a_reset_asks_first() -> None:
    for answer in ("n\n", ""):
        text = run("supervisor", "reset", "x", "--url", NOBODY, code=1, input=answer)
        assert text.startswith("Reset the offsets of x") and text.endswith("error: nothing was reset\n")
        assert "Aborted" not in text


def test_equal_errors_of_a_supervisor_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    errors = [{"timestamp": f"2026-01-0{day}", "message": "no broker"} for day in (1, 2, 3)]
    errors.append({"timestamp": "2026-01-02", "message": "killed"})
    supervisor_status({"id": "x", "payload": {"recentErrors": errors}}, False)
    assert capsys.readouterr().out.splitlines()[2:] == ["  2026-01-03 no broker (3 times)", "  2026-01-02 killed"]


def test_a_database_is_migrated_and_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SILTSTONE_DATA_DIR", str(tmp_path / "data"))
    assert "it was empty" in run("migrate", code=0)
    assert "it was" not in run("migrate", code=0)


@pytest.mark.parametrize("url", ["nonsense", "http://h:99999", "http://", "http://h:0", "http://h:x", "ftp://h:1"])
def test_an_address_that_is_none_is_told_in_one_line(url: str) -> None:
    text = run("query", "SELECT 1", "--url", url, code=2)
    assert text == f"error: {url!r} is not the address of a service: it must look like http://127.0.0.1:8888\n"


def test_a_database_of_another_kind_is_refused_in_one_line_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SILTSTONE_METADATA__URL", "mysql://root:hunter2@db/siltstone")
    code, said = process("serve", "--data-dir", str(tmp_path / "data"))
    [line] = said.splitlines()
    assert code == 1 and "hunter2" not in line
    assert line == (
        "error: metadata.url: is mysql://...; metadata is kept in sqlite:///PATH or postgresql://USER@HOST/NAME"
    )
    assert not (tmp_path / "data").exists()


def test_the_quickstart_starts_nothing_on_a_port_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        text = run("quickstart", "--port", port, "--data-dir", str(tmp_path / "demo"), code=1)
    assert text == f"error: port {port} on 127.0.0.1 cannot be used: Address already in use; choose another by --port\n"
    assert not (tmp_path / "demo").exists()


def process(*words: str | bytes, stdout: int | None = subprocess.PIPE) -> tuple[int, str]:
    """The exit code and what was said on standard error by a process of its own."""
    done = subprocess.run([sys.executable, "-m", "server", *words], stdout=stdout, stderr=subprocess.PIPE, check=False)
    return done.returncode, done.stderr.decode()


def test_an_output_that_cannot_be_written_is_one_clear_line() -> None:
    with open("/dev/full", "w") as full:
        code, said = process("version", stdout=full.fileno())
    assert code == 1 and "the output cannot be written: No space left on device" in said and "Traceback" not in said


def test_words_that_are_no_text_are_wrong_use() -> None:
    code, said = process("verify", b"a\xff")
    assert code == 2 and "is not UTF-8" in said


@pytest.mark.parametrize(("words", "code"), [(("supervisor", "submit"), 2), (("serve", "--config"), 1)])
def test_a_file_nested_too_deeply_is_one_clear_line(tmp_path: Path, words: tuple[str, ...], code: int) -> None:
    file = tmp_path / "deep"
    file.write_text("[" * 20_000)
    said = run(*words, str(file), code=code)
    assert "nested too deeply" in said
