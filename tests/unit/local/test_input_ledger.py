"""A file that was filtered is not filtered again under other input settings: its pages would keep their verdicts."""

import gzip
import json
from pathlib import Path

import pytest

from spotsieve.state.directory import INPUTS_FILE
from spotsieve.stream.base.errors import EXIT_INPUT, EXIT_OK, EXIT_SETTING, EXIT_STATE, EXIT_SUSPICIOUS, SettingError
from spotsieve.stream.base.settings.model import FieldPaths, InputSettings
from spotsieve.stream.cli import main
from spotsieve.stream.local.input_ledger import check_and_note_inputs
from tests.fixtures.filter_crawl import article, refused, spotsieve

PAGES = 60
BY_TITLE, BY_TEXT = InputSettings(fields=FieldPaths(body="title")), InputSettings(fields=FieldPaths(body="text"))


@pytest.fixture
def crawl(tmp_path: Path) -> Path:
    """Different articles under one title."""
    file = tmp_path / "crawl.jsonl"
    title = "All the news of the day from the town and from the whole of the county"
    rows = [{"url": f"https://a.example/{n}", "title": title, "text": article(n)} for n in range(PAGES)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return file


def judged(command: str, crawl: Path, field: str, *more: str) -> int:
    """The exit code of a run that reads pages from this field."""
    state = str(crawl.parent / "state")
    return main([command, str(crawl), "--state", state, "--set", f"input.fields.body={field}", *more])


@pytest.mark.parametrize("command", ["filter", "backfill"])
@pytest.mark.parametrize("then", ["filter", "backfill"])
def test_the_pages_of_a_file_are_not_read_from_another_field(
    command: str, then: str, crawl: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert judged(command, crawl, "title") == EXIT_SUSPICIOUS
    assert f"of {PAGES} pages, {PAGES - 1} are exact copies of" in capsys.readouterr().err
    out = ("--out", str(crawl.parent / "out")) if then == "backfill" else ()
    assert judged(then, crawl, "text", *out) == EXIT_SETTING
    error = capsys.readouterr().err
    assert 'input.fields.body was "title"' in error
    assert error.count("\n") == 1
    new = crawl.rename(crawl.parent / "new.jsonl")
    assert judged(then, new, "text", *out) == EXIT_OK


def test_a_complete_backfill_is_not_the_run_of_other_input_settings(
    crawl: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ("--out", str(crawl.parent / "out"))
    assert judged("backfill", crawl, "title", *out) == EXIT_SUSPICIOUS
    assert judged("backfill", crawl, "title", *out) == EXIT_SUSPICIOUS
    assert "this run is already complete" in capsys.readouterr().err
    assert judged("backfill", crawl, "text", *out, "--force") == EXIT_SETTING
    assert 'input.fields.body was "title"' in capsys.readouterr().err


def test_a_backfill_with_a_damaged_input_is_not_complete(
    crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = gzip.compress(crawl.read_bytes())
    damaged, out = tmp_path / "cut.jsonl.gz", ("--out", str(tmp_path / "out"), "--json")
    damaged.write_bytes(whole[: len(whole) // 2])
    assert judged("backfill", damaged, "text", *out) == EXIT_INPUT
    first = json.loads(capsys.readouterr().out)
    assert 0 < first["novel"] < PAGES
    # The same command reads the damaged file again, and a mended one to its end.
    assert judged("backfill", damaged, "text", *out) == EXIT_INPUT
    again = capsys.readouterr()
    assert "already complete" not in again.err
    assert json.loads(again.out)["novel"] == first["novel"]
    damaged.write_bytes(whole)
    assert judged("backfill", damaged, "text", *out) == EXIT_OK
    assert json.loads(capsys.readouterr().out)["novel"] == PAGES
    assert judged("backfill", damaged, "text", *out) == EXIT_OK
    assert "this run is already complete" in capsys.readouterr().err


def test_other_records_on_standard_input_may_be_read_by_any_settings(crawl: Path, tmp_path: Path) -> None:
    by_title, by_text = crawl.read_bytes(), crawl.read_bytes().replace(b"a.example", b"b.example")
    for field, given, code in (("title", by_title, EXIT_SUSPICIOUS), ("text", by_text, EXIT_OK)):
        with spotsieve("-", "--state", tmp_path / "state", "--set", f"input.fields.body={field}") as process:
            process.communicate(given)
        assert process.returncode == code


def test_the_same_records_on_standard_input_are_not_read_by_other_settings(crawl: Path, tmp_path: Path) -> None:
    for field, code in (("title", EXIT_SUSPICIOUS), ("title", EXIT_SUSPICIOUS), ("text", EXIT_SETTING)):
        with spotsieve("-", "--state", tmp_path / "state", "--set", f"input.fields.body={field}") as process:
            _, error = process.communicate(crawl.read_bytes())
        assert process.returncode == code
    assert b"has pages of - with the first record" in error
    assert b'input.fields.body was "title"' in error


@pytest.mark.parametrize("way", ["snapshot", "migrate"])
def test_a_copy_of_a_state_knows_how_its_files_were_read(
    way: str, crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert judged("filter", crawl, "title") == EXIT_SUSPICIOUS
    old, copy = str(tmp_path / "state"), str(tmp_path / "copy")
    more = ["--set", "scheme.min_containment=0.9"] if way == "migrate" else []
    if way == "snapshot":
        assert main(["state", "snapshot", str(tmp_path / "snapshot"), "--state", old]) == EXIT_OK
        assert main(["state", "restore", str(tmp_path / "snapshot"), "--state", copy]) == EXIT_OK
    else:
        assert main(["migrate", "--from-state", old, "--state", copy, *more]) == EXIT_OK
    given = ("--state", copy, "--set", "input.fields.body=text", *more)
    assert main(["filter", str(crawl), *given]) == EXIT_SETTING
    assert 'input.fields.body was "title"' in capsys.readouterr().err


def test_only_known_files_are_checked_and_a_torn_line_is_passed_over(tmp_path: Path) -> None:
    check_and_note_inputs(tmp_path, BY_TITLE, ["a", "b"], lambda _: False)
    with (tmp_path / INPUTS_FILE).open("ab") as file:
        file.write(b'{"input": {"fields.bo')
    check_and_note_inputs(tmp_path, BY_TEXT, ["b"], lambda _: False)
    with pytest.raises(SettingError, match=r'pages of a that were read .*: input.fields.body was "title"'):
        check_and_note_inputs(tmp_path, BY_TEXT, ["b", "a"], lambda _: True)
    check_and_note_inputs(tmp_path, BY_TEXT, ["b", "c"], lambda _: True)
    with pytest.raises(SettingError, match=r'pages of c .*: input.fields.body was "text"'):
        check_and_note_inputs(tmp_path, BY_TITLE, ["a", "c"], lambda _: True)
    noted = [json.loads(line)["sources"] for line in (tmp_path / INPUTS_FILE).read_bytes().split(b"\n") if b"}" in line]
    assert noted == [["a", "b"], ["b"], ["c"]]


def test_few_pages_are_never_suspicious(crawl: Path) -> None:
    crawl.write_bytes(b"".join(crawl.read_bytes().splitlines(keepends=True)[:49]))
    assert judged("filter", crawl, "title") == EXIT_OK


def test_pages_without_text_are_suspicious(crawl: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, error = refused(capsys, crawl, "--set", "input.fields.body=url")
    assert code == EXIT_SUSPICIOUS
    assert f"of {PAGES} pages, {PAGES} have too little text to be checked" in error


@pytest.mark.parametrize("line", ['{"id": "p1", "verdict": "novel"}', "[1]", '{"input": {}, "sources": null}', "7"])
def test_a_line_without_its_fields_is_named(line: str, crawl: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert judged("filter", crawl, "text") == EXIT_OK
    ledger = crawl.parent / "state" / INPUTS_FILE
    ledger.write_text(line + "\n", "utf-8")
    capsys.readouterr()
    assert judged("filter", crawl, "text") == EXIT_STATE
    assert f"{ledger} has a line without the fields that it needs; remove that line" in capsys.readouterr().err
