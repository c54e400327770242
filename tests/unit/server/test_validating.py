"""``siltstone supervisor validate``: every fault with its path, warnings, exit codes, and no service."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from server.cli import app
from tests.in_process import spec


def judged(document: Any, *words: str) -> Result:
    text = document if isinstance(document, str) else json.dumps(document)
    return CliRunner().invoke(app, ["supervisor", "validate", "-", *words], input=text)


def test_an_accepted_spec_is_0_and_says_what_it_would_do() -> None:
    done = judged(spec())
    assert (done.exit_code, done.stdout) == (0, "-: supervisor clicks reads topic clicks into clicks\n")
    report = json.loads(judged(spec(), "--json").stdout)
    assert report == {
        "file": "-",
        "valid": True,
        "supervisor": "clicks",
        "dataSource": "clicks",
        "topic": "clicks",
        "problems": [],
        "warnings": [],
    }


def test_all_faults_are_told_at_once_with_path_rule_and_cure() -> None:
    posted = spec(maxRowsPerSegment="many")
    del posted["spec"]["ioConfig"]["topic"]
    posted["spec"]["dataSchema"]["granularitySpec"]["segmentGranularity"] = "FORTNIGHT"
    posted["spec"]["ioConfig"]["consumerProperties"]["acks.of.nobody"] = {"a": 1}
    done = judged(posted, "--json")
    report = json.loads(done.stdout)
    assert done.exit_code == 1 and report["valid"] is False
    assert {problem["path"] for problem in report["problems"]} >= {
        "$.spec.ioConfig.topic",
        "$.spec.tuningConfig.maxRowsPerSegment",
        "$.spec.dataSchema.granularitySpec.segmentGranularity",
    }
    assert all(problem["rule"] and problem["cure"] for problem in report["problems"])
    told = judged(posted)
    assert told.exit_code == 1
    assert told.stderr.count("error: $.") == len(report["problems"])
    assert told.stdout == f"-: refused, {len(report['problems'])} problems\n"


def test_warnings_are_told_with_their_path_and_do_not_count() -> None:
    posted = spec(maxRowsPerSegmnet=5)
    done = judged(posted)
    assert done.exit_code == 0
    assert "warning: $.spec.tuningConfig.maxRowsPerSegmnet is not known" in done.stderr
    [warning] = json.loads(judged(posted, "--json").stdout)["warnings"]
    assert "did you mean maxRowsPerSegment" in warning


def test_hidden_secrets_are_a_warning_and_no_secret_is_printed() -> None:
    posted = spec()
    posted["spec"]["ioConfig"]["consumerProperties"]["sasl.password"] = "******"
    done = judged(posted)
    assert done.exit_code == 0 and "hidden secrets" in done.stderr
    posted["spec"]["ioConfig"]["consumerProperties"] = ["hunter2"]
    refused = judged(posted, "--json")
    assert refused.exit_code == 1 and "hunter2" not in refused.output


@pytest.mark.parametrize("text", ["", "{", "NaN", '{"a": 1}}', "[" * 5_000])
def test_what_is_not_json_is_2(text: str) -> None:
    done = judged(text)
    assert done.exit_code == 2 and done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith("error: -: not JSON")


def test_a_file_is_named_and_an_absent_one_is_2(tmp_path: Path) -> None:
    file = tmp_path / "spec.json"
    words = ["supervisor", "validate", str(file)]
    absent = CliRunner().invoke(app, words)
    assert absent.exit_code == 2 and "spec.json: cannot be read" in absent.stderr
    file.write_text(json.dumps(spec()), encoding="utf-8")
    assert CliRunner().invoke(app, words).stdout.startswith(f"{file}: supervisor clicks")


@pytest.mark.parametrize("document", [[], 5, None, {}, {"type": "kafka"}, {"type": "kinesis", "spec": {}}])
def test_json_that_is_no_spec_is_1_with_a_path(document: Any) -> None:
    done = judged(document, "--json")
    assert done.exit_code == 1
    assert all(problem["path"].startswith("$") for problem in json.loads(done.stdout)["problems"])


def test_too_many_levels_are_a_fault_and_no_traceback() -> None:
    document: Any = {}
    for _ in range(400):
        document = {"a": document}
    done = judged({"type": "kafka", "spec": document}, "--json")
    assert done.exit_code == 1 and json.loads(done.stdout)["problems"][0]["path"] == "$"


def test_what_is_refused_is_warned_of_as_well() -> None:
    posted = spec(maxRowsPerSegmnet=5, maxRowsPerSegment=0)
    posted["spec"]["ioConfig"]["consumerProperties"]["enable.auto.commit"] = "true"
    done = judged(posted)
    assert done.exit_code == 1 and "error: $.spec.tuningConfig.maxRowsPerSegment:" in done.stderr
    assert "warning: $.spec.tuningConfig.maxRowsPerSegmnet is not known" in done.stderr
    assert "enable.auto.commit" in done.stderr
    assert len(json.loads(judged(posted, "--json").stdout)["warnings"]) == 2
