"""The command line as a person meets it: help, exit codes, and one line for a mistake."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from spotsieve.stream.base import errors
from spotsieve.stream.base.errors import EXIT_INPUT
from spotsieve.stream.cli import EXIT_BROKEN_PIPE, main
from tests.conftest import REPOSITORY
from tests.fixtures.filter_crawl import lines, page


def spotsieve(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "spotsieve.stream", *arguments],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
        env=environment,
    )


def test_without_a_command_the_help_is_shown_and_the_exit_code_is_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    shown = capsys.readouterr().out
    for command in ("run", "filter", "demo", "topics", "config", "state"):
        assert command in shown
    assert "exit codes" in shown


@pytest.mark.parametrize("command", ["run", "filter", "demo", "topics", "calibrate", "config", "state"])
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert f"spotsieve {command}" in capsys.readouterr().out


def test_a_command_that_is_none_is_refused_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["fliter"])
    assert ended.value.code == 2
    assert "filter" in capsys.readouterr().err


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("spotsieve 0.")


def test_the_example_can_be_checked_as_it_is_printed(tmp_path: Path) -> None:
    example = spotsieve("config", "example")
    assert example.returncode == 0
    path = tmp_path / "spotsieve.toml"
    path.write_text(example.stdout, "utf-8")
    checked = spotsieve("config", "check", "-c", str(path))
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "the settings are valid\n", "")


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        (["config", "check", "--set", "kafka.group"], 2, "--set must be NAME=VALUE"),
        (["config", "check", "--set", "kafka.groupid=a"], 2, "did you mean kafka.group_id?"),
        (["config", "check", "--set", "service.mode=both"], 2, "service.mode"),
        (["config", "check", "-c", "nowhere.toml"], 2, "nowhere.toml cannot be read"),
        (["config", "check", "--set", "scheme.name=manku", "--set", "scheme.tables=5"], 2, "tables"),
        (["config", "check", "--set", "input.preset=norconex", "--set", "input.format=html"], 2, "input.preset"),
        (
            [
                "run",
                "--set",
                "log.format=text",
                "--set",
                "kafka.ssl_cafile=/nowhere.pem",
                "--set",
                "kafka.security_protocol=SSL",
                "--set",
                "metrics.port=0",
            ],
            2,
            "kafka.ssl",
        ),
        (["topics", "check", "--set", "kafka.security_protocol=SASL_SSL"], 2, "kafka.sasl_username must be set"),
        (
            ["topics", "check", "--set", "kafka.security_protocol=SASL_SSL", "--set", "kafka.sasl_username=crawl"],
            2,
            "kafka.sasl_password must be set",
        ),
        (
            ["topics", "check", "--set", "kafka.security_protocol=SSL", "--set", "kafka.ssl_keyfile=client.key"],
            2,
            "kafka.ssl_certfile must be set",
        ),
        (["state", "info", "nowhere"], 4, "nowhere"),
    ],
)
def test_a_mistake_is_one_line_and_its_exit_code(
    arguments: list[str],
    code: int,
    named: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == code
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("spotsieve: ")]
    assert len(lines) == 1
    assert named in lines[0]


@pytest.mark.parametrize("more", [[], ["--set", "kafka.group_id="], ["--set", "kafka.sasl_pasword=canary"]])
def test_config_shows_no_secret(
    more: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    login = {"SASL_USERNAME": "me", "SASL_PASSWORD": "canary", "SECURITY_PROTOCOL": "SASL_SSL"}
    for name, value in login.items():
        monkeypatch.setenv(f"SPOTSIEVE_KAFKA__{name}", value)
    assert main(["config", "example"]) == 0
    assert main(["config", "check", *more]) == (2 if more else 0)
    shown = capsys.readouterr()
    assert "canary" not in shown.out + shown.err


def test_a_list_can_be_given_as_a_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "check", "--set", "scheme.name=chain", "--set", 'scheme.antecedents=["the", "a"]']) == 0
    assert "valid" in capsys.readouterr().out


def test_control_characters_of_a_value_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "check", "--set", "a\x1b[2J\nb.c=d"]) == 2
    shown = capsys.readouterr().err
    assert "\x1b" not in shown
    assert shown.count("\n") == 1


def test_a_closed_pipe_is_no_traceback() -> None:
    done = subprocess.run(
        f"{sys.executable} -m spotsieve.stream config example | head -n 1",
        cwd=REPOSITORY,
        shell=True,
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert done.stdout.startswith("# Spotsieve settings")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("config example >&-", 141),
        ("clusters verdicts >&-", 141),
        ("filter pages >&-", 141),
        ("config check 2>&- >&-", 141),
    ],
)
def test_a_closed_standard_output_is_a_reader_that_is_gone(command: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "pages").write_bytes(lines([page(1)]))
    (tmp_path / "verdicts").write_text('{"id": "a", "verdict": "novel", "duplicate_of": null}\n')
    done = _in_shell(command, tmp_path)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False)


def test_a_closed_standard_error_leaves_nothing_of_it_in_standard_output(tmp_path: Path) -> None:
    (tmp_path / "pages").write_bytes(lines([page(1)]))
    done = _in_shell("filter pages --verdicts - 2>&-", tmp_path)
    assert done.returncode == 0
    assert [json.loads(line)["verdict"] for line in done.stdout.splitlines()] == ["novel"]


def test_a_closed_standard_input_cannot_be_read(tmp_path: Path) -> None:
    done = _in_shell("filter - --state seen <&-", tmp_path)
    assert done.returncode == EXIT_INPUT
    assert "cannot be read: Bad file descriptor; pipe pages into standard input, or name files" in done.stderr


def _in_shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    line = f"{sys.executable} -m spotsieve.stream {command}"
    return subprocess.run(line, cwd=folder, shell=True, capture_output=True, text=True, check=False, timeout=400)


def test_help_imports_neither_kernels_nor_a_kafka_client() -> None:
    code = (
        "import sys, spotsieve.stream.cli\n"
        "try: spotsieve.stream.cli.main(['run', '--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'numba', 'aiokafka', 'rocksdict'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_help_and_the_document_list_every_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    codes = {value for name, value in vars(errors).items() if name.startswith("EXIT_")} | {EXIT_BROKEN_PIPE}
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = " ".join(capsys.readouterr().out.rpartition("exit codes: ")[2].split())
    assert [int(part.split()[0]) for part in shown.split("; ")] == sorted(codes)
    document = (REPOSITORY / "docs" / "operations.md").read_text("utf-8")
    table = document.partition("\n## Exit codes\n")[2].partition("\n## ")[0]
    assert [int(row) for row in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)] == sorted(codes)
    for command in ("filter", "backfill"):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        assert "Exit code 8: done, but" in " ".join(capsys.readouterr().out.split())
