"""Foreign text reaches neither terminal nor log raw, whichever command prints it."""

import contextlib
import io
import json
import logging
import os
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from spotsieve.stream.base.progress import ProgressLine
from spotsieve.stream.base.settings.runtime import LogSettings
from spotsieve.stream.base.terminal import escape_control_characters, show
from spotsieve.stream.cli import main
from spotsieve.stream.observe.logs import configure_logs, logger

NAME = b"p\x1b[31m\nspotsieve: forged\xc2\x9b\xe2\x80\xa8\xe2\x80\xae\xff"
"""A file's name: an escape sequence, a forged line, its 8-bit form, a line separator, a turn of direction, no UTF-8."""
TEXT = os.fsdecode(NAME)
PAGE = "<p>" + " ".join(f"word{number}" for number in range(60))


def assert_harmless(shown: str) -> None:
    """Only line ends, and none before a forged line."""
    wrong = {
        f"U+{ord(character):04X}"
        for character in shown
        if character != "\n" and unicodedata.category(character) in {"Cc", "Zl", "Zp", "Cs"}
    }
    assert not wrong, shown
    assert "\u202e" not in shown
    assert not re.search(r"^spotsieve: forged", shown, re.MULTILINE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory of that name, with a file of that name that holds a page, a broken line and one with a hostile id."""
    made = tmp_path / TEXT
    made.mkdir()
    lines = [
        json.dumps({"url": "https://a.example/1", "body": PAGE}),
        "{broken",
        json.dumps({"url": "https://b.example/\x1b[2J\u2028", "id": TEXT.replace("\udcff", ""), "body": PAGE}),
    ]
    (made / f"{TEXT}.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    return made


@pytest.mark.guarantee("foreign text reaches no terminal raw", fault="escape sequences in file names, ids and values")
@pytest.mark.parametrize(
    "arguments",
    [
        ["filter", "{folder}/{name}.jsonl", "--state", "{folder}/new"],
        ["filter", "{folder}/{name}.jsonl", "--json", "--verdicts", "{folder}/verdicts", "--rejected", "{folder}/bad"],
        ["filter", "{folder}/none"],
        ["filter", "{folder}/{name}.jsonl", "--out", "{folder}/none/{name}"],
        ["filter", "--{name}"],
        ["filter", "-c", "{folder}/{name}.jsonl", "x"],
        ["{name}"],
        ["score", "{folder}"],
        ["score", "{folder}", "--positive", "{name}"],
        ["state", "info", "{folder}"],
        ["state", "verify", "{folder}"],
        ["state", "verify", "{folder}/none"],
        ["state", "restore", "{folder}", "--state", "{folder}/new"],
        ["state", "snapshot", "{folder}/new", "--state", "{folder}"],
        ["state", "forget", "--url", "{name}", "--state", "{folder}"],
        ["state", "forget", "--host", "{name}/", "--state", "{folder}"],
        ["state", "export", "--state", "{folder}/{name}"],
        ["state", "import", "{folder}/{name}.jsonl", "--state", "{folder}/new"],
        ["config", "check", "--set", "{name}"],
        ["config", "check", "--set", "kafka.group_id.{name}={name}"],
        ["config", "check", "--set", "service.mode={name}"],
        ["config", "check", "--set", "topics.input={name}"],
        ["topics", "check", "--bootstrap-servers", "{name}:1"],
        ["topics", "check", "--bootstrap-servers", "{name}"],
    ],
    ids=" ".join,
)
def test_no_command_prints_foreign_text_raw(
    arguments: list[str], folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with contextlib.suppress(SystemExit):  # argparse's own end
        main([argument.format(folder=folder, name=TEXT) for argument in arguments])
    shown = capfd.readouterr()
    assert shown.out + shown.err
    assert_harmless(shown.out)
    assert_harmless(shown.err)
    assert "Traceback" not in shown.err


def test_a_state_with_a_hostile_name_is_described_verified_copied_in_harmless_lines(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    # RocksDB's binding takes only UTF-8.
    source, folder = str(folder / f"{TEXT}.jsonl"), tmp_path / NAME[:-1].decode()
    state = str(folder / "state")
    assert main(["filter", source, "--state", state]) == 3
    for arguments in (
        ["info", state],
        ["verify", state],
        ["snapshot", str(folder / "copy"), "--state", state],
        ["restore", str(folder / "copy"), "--state", str(folder / "back")],
        ["export", "-o", str(folder / "export.jsonl"), "--state", state],
        ["import", str(folder / "export.jsonl"), "--state", str(folder / "again")],
        ["forget", "--url-prefix", "https://", "--yes", "--max-share", "1", "--state", state],
    ):
        assert main(["state", *arguments]) == 0, arguments
    shown = capfd.readouterr()
    assert_harmless(shown.out)
    assert_harmless(shown.err)


def test_a_defect_is_told_by_an_escaped_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: object) -> int:
        raise KeyError(TEXT, "\x1b[2J")

    monkeypatch.setattr("spotsieve.stream.cli.config.run", fail)
    assert main(["config", "example"]) == 1
    shown = capsys.readouterr().err
    assert "KeyError" in shown
    assert_harmless(shown)


def test_a_line_is_one_line_whatever_it_holds(capsys: pytest.CaptureFixture[str]) -> None:
    show("first", TEXT, "")
    shown = capsys.readouterr().out
    assert shown == f"first\n{escape_control_characters(TEXT)}\n\n"
    assert_harmless(shown)


def test_what_a_terminal_cannot_show_is_told_by_its_number() -> None:
    latin = io.TextIOWrapper(io.BytesIO(), encoding="latin-1", newline="")
    show("ü 漢", to=latin)
    latin.seek(0)
    assert latin.read() == "ü \\u6f22\n"


def test_a_progress_line_is_escaped() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    ProgressLine(terminal, None).say(f"copying {TEXT}")
    assert terminal.getvalue().startswith("\r")
    assert_harmless(terminal.getvalue()[1:])


@pytest.fixture
def restored_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)


@pytest.mark.usefixtures("restored_logging")
@pytest.mark.parametrize("style", ["json", "text"])
def test_no_log_line_holds_foreign_text_raw(style: str, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(LogSettings.model_validate({"format": style}))
    error = ValueError(f"library says {TEXT}\x1b[2J\n2026-01-01 [info] forged")
    logger().warning(TEXT, url=TEXT, inside=[{"url": TEXT}], raw=NAME, error=error)
    logging.getLogger("aiokafka").error("%s", TEXT, exc_info=error, stack_info=True)
    shown = capsys.readouterr().err
    assert_harmless(shown)
    assert not re.search("^2026-01-01", shown, re.MULTILINE), "a line of an error's text looks like a log line"
