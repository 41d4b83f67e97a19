"""Foreign text reaches neither terminal nor log raw, whichever command prints it."""

import ast
import contextlib
import io
import json
import logging
import os
import pty
import re
import subprocess
import unicodedata
from pathlib import Path

import pytest

from spotsieve.stream.base.progress import ProgressLine
from spotsieve.stream.base.settings.runtime import LogSettings
from spotsieve.stream.base.terminal import escape_control_characters, escape_json, json_text, show
from spotsieve.stream.cli import COMMANDS, main
from spotsieve.stream.observe.logs import configure_logs, logger
from tests.conftest import REPOSITORY
from tests.fixtures.filter_crawl import article
from tests.fixtures.services.forking import forked_command

NAME = b"p\x1b[31m\nspotsieve: forged\xc2\x9b\xe2\x80\xa8\xe2\x80\xae\xff"
"""A file's name: an escape sequence, a forged line, its 8-bit form, a line separator, a turn of direction, no UTF-8."""
TEXT = os.fsdecode(NAME)
PAGE = "<p>" + " ".join(f"word{number}" for number in range(60))


CURSOR = re.compile(r"\r|\x1b\[(?:\?25[lh]|2K|1A)")
"""How the progress line rewrites itself: to the beginning of the line, hide and show the cursor, erase a line, one line
up."""


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


@pytest.mark.guarantee(
    "control characters of foreign text never reach a terminal", fault="escape sequences in file names, ids and values"
)
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
    assert_harmless(CURSOR.sub("", terminal.getvalue()))


@pytest.mark.parametrize("style", ["json", "text"])
def test_no_log_line_holds_foreign_text_raw(style: str, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(LogSettings.model_validate({"format": style}))
    error = ValueError(f"library says {TEXT}\x1b[2J\n2026-01-01 [info] forged")
    logger().warning(TEXT, url=TEXT, inside=[{"url": TEXT}], raw=NAME, error=error)
    logging.getLogger("aiokafka").error("%s", TEXT, exc_info=error, stack_info=True)
    shown = capsys.readouterr().err
    assert_harmless(shown)
    assert not re.search("^2026-01-01", shown, re.MULTILINE), "a line of an error's text looks like a log line"


CONTROLS = "".join(map(chr, (*range(0x20), *range(0x7F, 0xA0), 0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F))))
CONTROLS += "".join(map(chr, range(0x2066, 0x206A)))
"""C0, DEL, C1, line separators, and the controls of direction."""
PRINTED_JSON = {
    "filter": (
        ["filter", "{pages}", "--json"],
        ["filter", "{pages}", "--out", "-"],
        ["filter", "{pages}", "--verdicts", "-"],
        ["filter", "{pages}", "--duplicates", "-"],
        ["filter", "{pages}", "--rejected", "-"],
    ),
    "query": (
        ["query", "{pages}", "--state", "{state}"],
        ["query", "{pages}", "--state", "{state}", "--all"],
        ["query", "{pages}", "--state", "{state}", "--json"],
        ["query", "{pages}", "--state", "{state}", "--rejected", "-", "--verdicts", "{folder}/v"],
    ),
    "explain": (["explain", "{id}", "--state", "{state}", "--pages", "{good}", "--json"],),
    "clusters": (
        ["clusters", "--state", "{state}", "--json", "--out", "{folder}/c"],
        ["clusters", "--state", "{state}"],
    ),
    "state": (["state", "export", "--state", "{state}", "-o", "-"],),
    "score": (["score", "{pages}", "--json"],),
    "calibrate": (["calibrate", "{pages}", "--json", "--scheme", "adaptive-shingles", "--precision", "0.5"],),
}
"""Commands that print JSON with texts of pages, without a broker."""
PRINTS_OTHERWISE = {
    "filter": (["filter", "{pages}"],),
    "explain": (["explain", "{id}", "--state", "{state}", "--pages", "{good}"],),
    "state": (["state", "info", "{state}"],),
    "score": (["score", "{pages}"],),
    "review": (["review", "{pages}", "-o", "{folder}/review.html"],),
    "sample": (["sample", "{pages}", "-o", "{folder}/sample"],),
    "backfill": (["backfill", "{pages}", "--state", "{folder}/made", "--out", "{folder}/backfill"],),
    "model": (["model", "build", "{pages}", "-o", "{folder}/model", "--scheme", "chain"],),
}
"""Commands that print text about pages, without a broker."""
PRINTS_NO_PAGE = {"run", "serve", "replay", "migrate", "top", "shards", "demo", "topics", "config", "completion"}
"""Commands that need a broker, a worker or a request, or print no text of pages. The tests of modules cover them."""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A crawl whose ids, URLs and bodies hold all control characters, raw where JSON allows it, and its state."""
    folder = tmp_path_factory.mktemp("hostile")
    pages = [
        {"id": f"p{CONTROLS}{name}", "url": f"https://a.example/{CONTROLS}{name}", "body": f"<p>{CONTROLS}{text}</p>"}
        for name, text in (("1", article(1)), ("2", article(2)), ("copy", article(1)))
    ]
    lines = [json.dumps(page, ensure_ascii=False) for page in pages]
    broken = json.dumps({"id": f"broken{CONTROLS}", "url": "https://b.example/"}, ensure_ascii=False)
    (folder / "pages.jsonl").write_text("\n".join([*lines, broken, ""]), "utf-8", newline="")
    (folder / "good.jsonl").write_text("\n".join([*lines, ""]), "utf-8", newline="")
    named = {
        "good": str(folder / "good.jsonl"),
        "folder": str(folder),
        "pages": str(folder / "pages.jsonl"),
        "state": str(folder / "state"),
    }
    assert main(["filter", named["pages"], "--state", named["state"]]) == 3
    return {**named, "id": str(pages[2]["id"])}


def assert_no_control(shown: bytes) -> None:
    """No control character but line feeds."""
    text = shown.decode()
    assert text
    assert not {f"U+{ord(one):04X}" for one in text if one in CONTROLS and one != "\n"}


@pytest.mark.guarantee(
    "control characters of foreign text never reach a terminal", fault="control characters in printed JSON"
)
@pytest.mark.parametrize("arguments", [one for some in PRINTED_JSON.values() for one in some], ids=" ".join)
def test_printed_json_has_no_control_character_and_the_values_of_a_file(
    arguments: list[str], hostile: dict[str, str], capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    given = [argument.format(**hostile | {"folder": str(tmp_path)}) for argument in arguments]
    code = main(given)
    printed = capfdbinary.readouterr()
    assert code in {0, 3}, printed.err
    assert_no_control(printed.out)
    assert_no_control(printed.err or b"\n")
    values = json.loads(b"[%b]" % printed.out) if "--json" in given else list(map(json.loads, printed.out.splitlines()))
    assert values
    if "-" in given:
        to_file = [str(tmp_path / "file") if argument == "-" else argument for argument in given]
        main([*to_file, *(["--force"] if given[0] == "query" else [])])
        assert values == list(map(json.loads, (tmp_path / "file").read_bytes().split(b"\n")[:-1]))


@pytest.mark.parametrize("arguments", [one for some in PRINTS_OTHERWISE.values() for one in some], ids=" ".join)
def test_printed_text_has_no_control_character(
    arguments: list[str], hostile: dict[str, str], capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    main([argument.format(**hostile | {"folder": str(tmp_path)}) for argument in arguments])
    printed = capfdbinary.readouterr()
    assert_no_control(printed.out + printed.err)


def test_every_command_is_named_with_what_it_prints() -> None:
    assert sorted(COMMANDS) == sorted({*PRINTED_JSON, *PRINTS_OTHERWISE, *PRINTS_NO_PAGE})


def test_no_module_that_prints_writes_json_by_another_function() -> None:
    """A module that calls show() makes JSON by json_text() alone, and no module writes to standard output itself."""
    wrong = []
    for path in sorted((REPOSITORY / "stream").rglob("*.py")):
        calls = {ast.unparse(one.func) for one in ast.walk(ast.parse(path.read_text())) if isinstance(one, ast.Call)}
        name = str(path.relative_to(REPOSITORY / "stream"))
        if calls & {"show", "show_styled"} and calls & {"json.dumps", "orjson.dumps"} and name not in WRITES_PAGES:
            wrong.append(name)
        if any(call.startswith(("sys.stdout.write", "sys.stdout.buffer", "print")) for call in calls):
            wrong.append(name)
    assert not wrong


WRITES_PAGES = {"warm.py"}
"""Modules whose JSON is a page that they judge themselves."""


@pytest.mark.parametrize("indent", [None, 2])
def test_json_keeps_its_values_and_has_only_line_feeds(indent: int | None) -> None:
    value = {CONTROLS: [CONTROLS, "漢 😀", 1.5, None]}
    printed = json_text(value, indent=indent)
    assert json.loads(printed) == value
    assert_no_control(printed.encode())


def test_escaped_lines_keep_their_values_and_other_text_its_bytes() -> None:
    value = {"text": CONTROLS + "é ’ — \u2065 漢 😀 ¢ ؛", "list": [1]}
    raw = json.dumps(value, ensure_ascii=False, indent="\t").replace("\n", "\r\n").encode()
    assert json.loads(escape_json(raw)) == value
    assert_no_control(escape_json(raw))
    harmless = json.dumps({"text": "é ’ — 漢 😀 ¢ ؛"}, ensure_ascii=False).encode()
    assert escape_json(harmless) is not raw
    assert escape_json(harmless) == harmless


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["clusters", "--state", "{state}", "--csv"], b"p\\x00\\x01"),
        (["filter", "{warc}", "--out", "-"], b"is a terminal"),
        (["filter", "{pages}", "--out", "/dev/stdout"], b"\\u009b"),
    ],
    ids=["CSV", "WARC", "a device"],
)
def test_a_terminal_gets_no_control_character_of_other_formats(
    arguments: list[str], says: bytes, hostile: dict[str, str], tmp_path: Path
) -> None:
    warc = tmp_path / "page.warc"
    body = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>{article(5)}\x9b</p>".encode()
    head = (
        "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: https://w.example/\r\nWARC-Date: 2024-01-01T00:00:00Z\r\n"
    )
    head += "WARC-Record-ID: <urn:uuid:00000000-0000-0000-0000-000000000001>\r\n"
    head += f"Content-Type: application/http; msgtype=response\r\nContent-Length: {len(body)}\r\n\r\n"
    warc.write_bytes(head.encode() + body + b"\r\n\r\n")
    given = [argument.format(**hostile, warc=warc) for argument in arguments]
    ours, theirs = pty.openpty()
    with subprocess.Popen([forked_command(REPOSITORY), *given], stdout=theirs, stderr=theirs, cwd=REPOSITORY):
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # Linux ends a terminal without a writer by an error.
            while part := os.read(ours, 65_536):
                shown += part
    os.close(ours)
    assert says in shown
    # The terminal itself adds carriage returns.
    assert_no_control(CURSOR.sub("", shown.decode()).encode())
