"""The last error of a service is a line of its log: one JSON object where the log is JSON, else one line of text."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spotsieve.stream.base.errors import EXIT_BROKER, EXIT_DEFECT, EXIT_SETTING, EXIT_STATE
from spotsieve.stream.cli import main
from spotsieve.stream.cli.options import SERVICES
from tests.conftest import REPOSITORY

WRONG: list[tuple[list[str], int, str]] = [
    (["run", "--set", "kafka.group=a"], EXIT_SETTING, "did you mean kafka.group_id?"),
    (["run", "--set", "kafka.group"], EXIT_SETTING, "--set must be NAME=VALUE"),
    (["run", "-c", "nowhere.toml"], EXIT_SETTING, "nowhere.toml cannot be read"),
    (["run", "-c", "broken.toml"], EXIT_SETTING, "broken.toml must be TOML"),
    (["run", "--role", "shard"], EXIT_SETTING, "--role needs cluster.shards"),
    (["run", "--set", "log.format=xml"], EXIT_SETTING, "log.format"),
    (["serve", "--state", "nowhere", "--set", "serve.port=0"], EXIT_STATE, "--state must hold a state, got 'nowhere'"),
    (["serve", "--state", "nowhere", "--set", "serve.tokn=a"], EXIT_SETTING, "did you mean serve.token?"),
]


def test_every_command_with_a_log_is_tried() -> None:
    assert {arguments[0] for arguments, _, _ in WRONG} == SERVICES


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.toml").write_text("[kafka\n", "utf-8")


@pytest.mark.parametrize(("arguments", "code", "named"), WRONG, ids=[named for _, _, named in WRONG])
def test_an_error_is_one_json_line_with_the_exit_code(
    arguments: list[str], code: int, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == code
    (line,) = lines_of(capsys.readouterr().err)
    assert named in line["event"]
    assert (line["level"], line["exit_code"]) == ("error", code)
    assert line["timestamp"].endswith("Z")


@pytest.mark.parametrize(("arguments", "code", "named"), WRONG[:5], ids=[named for _, _, named in WRONG[:5]])
def test_an_error_is_text_where_the_log_is_text(
    arguments: list[str], code: int, named: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPOTSIEVE_LOG__FORMAT", "text")
    assert main(arguments) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("spotsieve: ")
    assert named in line


@pytest.mark.parametrize(
    ("in_file", "variable", "flag", "is_json"),
    [
        ("json", None, None, True),
        ("text", None, None, False),
        ("auto", None, None, True),  # standard error is no terminal here
        ("text", "json", None, True),
        ("json", "json", "text", False),
        ("text", "text", "json", True),
    ],
)
def test_the_format_is_that_of_the_strongest_source(
    in_file: str,
    variable: str | None,
    flag: str | None,
    is_json: bool,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path("own.toml").write_text(f'[log]\nformat = "{in_file}"\n[kafka]\ngroup = "a"\n', "utf-8")
    if variable:
        monkeypatch.setenv("SPOTSIEVE_LOG__FORMAT", variable)
    given = ["--set", f"log.format={flag}"] if flag else []
    assert main(["run", "-c", "own.toml", *given]) == EXIT_SETTING
    assert capsys.readouterr().err.startswith("{") is is_json


def test_a_warning_about_settings_is_a_line_of_the_log(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spotsieve.stream.cli.options._warned", set())
    monkeypatch.setenv("SPOTSIEVE_KAFKA_GROUP_ID", "a")
    assert main(["run", "--role", "shard"]) == EXIT_SETTING
    warning, error = lines_of(capsys.readouterr().err)
    assert (warning["level"], error["level"]) == ("warning", "error")
    assert "SPOTSIEVE_KAFKA__GROUP_ID" in warning["event"]


def test_a_defect_is_one_line_with_its_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> int:
        raise KeyError("a\nforged")

    monkeypatch.setattr("spotsieve.stream.cli.run.run", fail)
    assert main(["run"]) == EXIT_DEFECT
    (line,) = lines_of(capsys.readouterr().err)
    assert line["exit_code"] == EXIT_DEFECT
    assert "KeyError" in line["exception"]


def test_commands_without_a_log_print_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", "check", "--set", "log.format=json", "--set", "kafka.group=a"]) == EXIT_SETTING
    assert capsys.readouterr().err.startswith("spotsieve: kafka.group ")


def test_a_service_without_a_broker_writes_nothing_but_json(tmp_path: Path) -> None:
    given = ["kafka.bootstrap_servers=127.0.0.1:1", "metrics.port=0", f"index.directory={tmp_path / 'state'}"]
    command = [sys.executable, "-m", "spotsieve.stream", "run", *(word for one in given for word in ("--set", one))]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPOTSIEVE_")}
    ran = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (EXIT_BROKER, "")
    *_, last = lines_of(ran.stderr)
    assert last["exit_code"] == EXIT_BROKER
    assert last["event"].startswith("kafka.bootstrap_servers leads to no broker that responds")
