"""`spotsieve filter` in trouble: cut files, mistakes, signals, kills, full disks."""

import gzip
import json
import os
import signal
import threading
from pathlib import Path

import pytest

from spotsieve.stream.base.errors import EXIT_SUSPICIOUS
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.cli import main
from spotsieve.stream.files import check_inputs
from spotsieve.stream.files.file_format import content_number
from spotsieve.stream.local.batch_reader import BatchReader
from tests.fixtures.filter_crawl import (
    article,
    break_signing,
    filter_json,
    lines,
    page,
    read_json,
    refused,
    spotsieve,
    write_crawl,
)
from tests.fixtures.waiting import SECONDS, wait_until


@pytest.fixture
def crawl(tmp_path: Path) -> Path:
    path = tmp_path / "crawl.jsonl"
    write_crawl(path)
    return path


def test_a_cut_file_is_judged_up_to_the_cut_the_next_whole_and_the_exit_code_tells(
    crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = tmp_path / "cut.jsonl.gz"
    whole = gzip.compress(lines([page(number) for number in range(10, 40)]))
    cut.write_bytes(whole[: len(whole) // 2])
    summary = filter_json(capsys, cut, crawl, "--verdicts", tmp_path / "v.jsonl", code=3)
    found = [line["id"] for line in read_json(tmp_path / "v.jsonl")]
    assert found[:5] == ["p10", "p11", "p12", "p13", "p14"]
    assert found[-5:] == ["p1", "p2", "copy", "short", "short2"]
    assert summary["rejected_reasons"] == {"truncated": 1}
    assert "is damaged gzip: the file ends in the middle" in summary["errors"][0]
    assert refused(capsys, cut)[0] == 3


def test_a_file_cut_before_its_first_page_is_no_empty_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(gzip.compress(lines([page(1)]))[:12])
    assert "is damaged gzip: the file ends in the middle" in filter_json(capsys, cut, code=3)["errors"][0]


@pytest.mark.parametrize("others", [False, True])
def test_a_page_that_breaks_signing_is_unchecked_and_reported(
    others: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    file, verdicts_file, state = tmp_path / "in.jsonl", tmp_path / "v.jsonl", tmp_path / "state"
    file.write_bytes(lines([page(1), page(2), page(3), page(4), page(1, "again")]))
    (tmp_path / "other.jsonl").write_bytes(lines([page(3)]))
    filter_json(capsys, tmp_path / "other.jsonl", "--state", tmp_path / "other")
    options = ("--verdicts", verdicts_file, "--state", state, *(("--against", tmp_path / "other") if others else ()))
    break_signing(monkeypatch, article(2), article(3))
    summary = filter_json(capsys, file, *options, code=EXIT_SUSPICIOUS)
    found = [(line["id"], line["verdict"], line["reason"]) for line in read_json(verdicts_file)]
    assert found == [
        ("p1", "novel", "no_match"),
        ("p2", "unchecked", "internal_error"),
        ("p3", "unchecked", "internal_error"),
        ("p4", "novel", "no_match"),
        ("again", "duplicate", "exact"),
    ]
    assert "failed with an internal error for 2 of 5 pages" in summary["suspicion"]
    (line,) = {record.getMessage() for record in caplog.records}
    assert "(ZeroDivisionError: a page that breaks signing at filter_crawl.py:" in line
    assert "for p2, p3: each is emitted unchecked; please report the error" in line
    break_signing(monkeypatch, article(1))
    assert main(["query", str(file), "--state", str(state)]) == EXIT_SUSPICIOUS
    responses = [json.loads(response)["reason"] for response in capsys.readouterr().out.splitlines()]
    assert responses == [*["internal_error"] * 3, "first_attempt", "internal_error"]
    assert main(["query", str(file), "--state", str(state), "--all"]) == EXIT_SUSPICIOUS


def test_an_empty_file_is_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "empty.jsonl"
    path.touch()
    assert filter_json(capsys, path, "--out", tmp_path / "out")["records"] == 0
    assert (tmp_path / "out").read_bytes() == b""


def test_mistakes_are_told_in_one_line_before_any_work(
    crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    html = tmp_path / "page.html"
    html.write_text("<html>")
    for arguments, code, words in (
        ([crawl, tmp_path / "missing"], 3, "cannot be read: No such file or directory"),
        ([tmp_path], 3, "cannot be read: Is a directory; name its files, such as "),
        ([html], 3, "must be JSONL, WARC or Parquet"),
        ([crawl, "--out", crawl], 2, "must not go to the same place as"),
        ([crawl, "--out", "x", "--verdicts", "./x"], 2, "must not go to the same place as --out"),
        ([crawl, "--out", "x", "--verdicts", "x.partial"], 2, "must not go to the same place as --out"),
        ([crawl, "--out", "x.partial", "--verdicts", "x"], 2, "must not go to the same place as --out"),
        ([crawl, "--json", "--out", "-"], 2, "must not go to the same place as --json"),
        ([crawl, "--out", tmp_path / "no" / "dir"], 2, "cannot be written"),
        ([crawl, "--set", "scheme.name=manku", "--set", "scheme.tables=1"], 2, "tables"),
        ([crawl, "--config", tmp_path / "no.toml"], 2, "cannot be read"),
    ):
        found, error = refused(capsys, *arguments)
        assert (found, words in error) == (code, True), error


@pytest.mark.guarantee("no file of the user is removed", fault="an input has the name of an output's NAME.partial")
def test_an_input_that_an_interrupted_run_left_is_not_removed(
    crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left = crawl.rename(tmp_path / "novel.jsonl.partial")
    before = left.read_bytes()
    code, error = refused(capsys, left, "--out", tmp_path / "novel.jsonl", "--force")
    assert (code, "--out must not go to the same place as" in error) == (2, True)
    assert left.read_bytes() == before


def test_other_settings_on_the_same_state_are_refused_with_what_differs(
    crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    filter_json(capsys, crawl, "--state", state)
    code, error = refused(capsys, crawl, "--state", state, "--set", "scheme.min_containment=0.5")
    assert code == 4
    assert "scheme.min_containment is 0.6 in the state and 0.5 in the configuration" in error


def test_standard_input_is_judged_as_it_comes_and_a_signal_ends_the_run_in_order(tmp_path: Path) -> None:
    verdicts = tmp_path / "v.jsonl"
    with spotsieve("-", "--state", tmp_path / "state", "--verdicts", verdicts, "--out", "-") as process:
        assert process.stdin
        assert process.stdout
        given = json.dumps(page(1)).encode() + b"\n"
        process.stdin.write(given)
        process.stdin.flush()
        assert process.stdout.readline() == given, "the page passes though the batch is not full"
        process.send_signal(signal.SIGINT)
        assert process.wait(240) == 130
        assert process.stderr
        error = process.stderr.read().decode()
    assert "interrupted" in error
    assert "1 pages" in error or "1 page" in error
    assert not verdicts.exists(), "an interrupted run does not look complete"
    assert len(read_json(tmp_path / "v.jsonl.partial")) == 1


def test_an_error_of_the_reading_thread_behind_the_end_of_a_run_is_not_printed(
    crawl: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, printed = threading.Event(), list[object]()
    monkeypatch.setattr(threading, "excepthook", printed.append)

    def fail_later(_: object) -> None:
        left.wait(SECONDS)
        raise RuntimeError("the other states are closed")

    with BatchReader(check_inputs([str(crawl)]), Settings(), threading.Event(), fail_later):
        (thread,) = (one for one in threading.enumerate() if one.name == "reader")
    left.set()
    thread.join(SECONDS)
    assert not thread.is_alive()
    assert printed == []


def test_a_state_in_use_is_refused_and_named(crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = tmp_path / "state"
    with spotsieve("-", "--state", state, "--out", "-") as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(lines([page(1)]))
        process.stdin.flush()
        process.stdout.readline()
        code, error = refused(capsys, crawl, "--state", state)
        process.stdin.close()
        assert process.wait(240) == 0
    assert code == 4
    assert str(state) in error


def test_a_run_that_was_killed_is_continued_with_the_same_verdicts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = [page(number % 150, f"n{number}", str(number)) for number in range(400)]
    path, state, verdicts = tmp_path / "p.jsonl", tmp_path / "state", tmp_path / "v.jsonl"
    path.write_bytes(lines(pages))
    flags = ["--state", state, "--verdicts", verdicts, "--set", "service.batch_pages=10"]
    with spotsieve("-", "--stdin-name", path, "--out", os.devnull, *flags) as process:
        assert process.stdin
        process.stdin.write(lines(pages[:123]))
        process.stdin.flush()
        log = state / "log"
        wait_until(lambda: log.exists() and log.stat().st_size > 1000, SECONDS, "the log to have records")
        process.kill()
    assert not verdicts.exists()
    filter_json(capsys, path, *flags)
    found = {line["id"]: line["duplicate_of"] for line in read_json(verdicts)}
    assert found == {f"n{number}": None if number < 150 else f"n{number % 150}" for number in range(400)}


def test_a_full_disk_is_told_and_nothing_looks_complete(
    crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, error = refused(capsys, crawl, "--out", "/dev/full", "--verdicts", tmp_path / "v.jsonl")
    assert code == 4
    assert "No space left on device; free disk space, and run again: with the same --state, pages get the" in error
    assert not (tmp_path / "v.jsonl").exists()


def test_a_file_that_vanishes_before_it_is_read_is_named_and_the_others_are_judged(
    crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone.jsonl"
    gone.write_bytes(crawl.read_bytes())
    monkeypatch.setattr("spotsieve.stream.engine.warmup.compile_kernels", lambda *_: gone.unlink())
    summary = filter_json(capsys, gone, crawl, code=3)
    assert summary["pages"] == 5
    assert "gone.jsonl cannot be read: No such file or directory" in summary["errors"][0]


def test_a_log_that_was_cut_short_is_told_of_and_the_run_goes_on(
    crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    filter_json(capsys, crawl, "--state", state)
    with (state / "log").open("ab") as log:
        log.write(b"\x07")
    assert main(["filter", str(crawl), "--state", str(state)]) == 0
    error = capsys.readouterr().err
    # 0 is the configuration, 1 the pages
    assert "incomplete record 2" in error
    assert "5 pages of 1 file" in error


def test_another_log_of_the_same_length_is_not_gone_on_with(
    crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one", "other"):
        assert main(["filter", str(crawl), "--state", str(tmp_path / name)]) == 0
    (tmp_path / "other" / "log").replace(tmp_path / "one" / "log")
    capsys.readouterr()
    assert main(["filter", str(crawl), "--state", str(tmp_path / "one")]) == 4
    printed = capsys.readouterr().err
    assert "must follow the log that it was built from" in printed
    assert "or restore that log" in printed
    assert "delete" not in printed, "the log lies in that directory"


@pytest.mark.guarantee("no error advises deleting a whole state", fault="a filter's log is damaged, cut or lost")
@pytest.mark.parametrize("fault", ["flipped", "cut", "lost", "index too"])
def test_advice_for_a_damaged_log_keeps_the_index(
    crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], fault: str
) -> None:
    state = tmp_path / "state"
    assert main(["filter", str(crawl), "--state", str(state)]) == 0
    log = state / "log"
    damaged = bytearray(log.read_bytes())
    damaged[-20] ^= 255
    log.unlink() if fault == "lost" else log.write_bytes(damaged[:-200] if fault == "cut" else damaged)
    if fault == "index too":
        table = max((state / "index").glob("*.sst"), key=lambda path: path.stat().st_size)
        table.write_bytes(table.read_bytes()[::-1])
    capsys.readouterr()
    assert main(["state", "verify", str(state)]) == 4
    printed = capsys.readouterr().out
    assert "spotsieve state restore" in printed
    assert "delete" not in printed
    assert ("neither can rebuild the other" if fault == "index too" else f"Keep {state / 'index'}") in printed
    if fault == "lost":
        (state / "index" / "CURRENT").unlink()
        assert main(["state", "verify", str(state)]) == 4
        assert "only if the log is a topic that still holds all records" in capsys.readouterr().out
    elif fault != "index too":
        assert main(["filter", str(crawl), "--state", str(state)]) == 4
        assert "Keep the index" in capsys.readouterr().err


def test_a_file_name_that_is_no_utf8_is_read_and_written_with_escapes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path / "p") + b"\xff.jsonl"))
    path.write_bytes(lines([page(1) | {"id": None}]))
    filter_json(capsys, path, "--verdicts", tmp_path / "v.jsonl")
    assert read_json(tmp_path / "v.jsonl")[0]["id"] == (
        f"{tmp_path}/p\\xff.jsonl/{content_number(path.read_bytes().rstrip())}/0"
    )
