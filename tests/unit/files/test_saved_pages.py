"""A file that a browser saved (MHTML, SingleFile) is one page with its own URL and fetch time."""

import gzip
from functools import partial
from pathlib import Path

import pytest

from spotsieve.stream.base.errors import PageError, RejectReason
from spotsieve.stream.base.page import Page
from spotsieve.stream.files.saved_pages import SINGLE_FILE
from tests.fixtures.cpu_time import assert_cpu_below
from tests.fixtures.filter_crawl import filter_json, page, read_json, read_records, refused
from tests.fixtures.pages.saved_pages import mhtml, part, saved_by_single_file

SAVED_MS = 1_709_251_210_000
"""2024-03-01 00:00:10 in UTC."""


def html_of(seed: int) -> str:
    return str(page(seed)["body"])


def mhtml_of(seed: int, url: str, date: str = "Fri, 1 Mar 2024 00:00:10 -0000", charset: str = "utf-8") -> bytes:
    saved = mhtml(part(html_of(seed).encode(charset), media_type=f"text/html; charset={charset}"))
    head = f"Snapshot-Content-Location: {url}\r\nDate: {date}"
    return saved.replace(b"Snapshot-Content-Location: https://example.com/a", head.encode(), 1)


def result_of(path: Path, content: bytes) -> Page | PageError | None:
    path.write_bytes(content)
    (outcome,) = read_records(path)
    return outcome.result


def read_page(path: Path, content: bytes) -> Page:
    found = result_of(path, content)
    assert isinstance(found, Page)
    return found


@pytest.mark.parametrize("name", ["a.mhtml", "a.mht", "page"])
@pytest.mark.parametrize("line_end", [b"\r\n", b"\n"])
def test_an_mhtml_file_is_one_page(name: str, line_end: bytes, tmp_path: Path) -> None:
    found = read_page(tmp_path / name, mhtml_of(1, "https://e.com/1").replace(b"\r\n", line_end))
    assert (found.url, found.event_time_ms, found.encoded) == ("https://e.com/1", SAVED_MS, None)
    assert found.body.decode().split() == html_of(1).split()


def test_the_url_of_an_mhtml_file_may_stand_at_its_html(tmp_path: Path) -> None:
    document = part(html_of(1).encode(), Content_Location="https://e.com/part")
    image = part(b"x", "base64", "image/png", Content_Location="https://e.com/image")
    saved = mhtml(image, document).replace(b"Snapshot-Content-Location: https://example.com/a\r\n", b"")
    assert read_page(tmp_path / "a.mht", saved).url == "https://e.com/part"
    outer = saved.replace(b"MIME-Version", b"Content-Location: https://e.com/outer\r\nMIME-Version", 1)
    assert read_page(tmp_path / "b.mht", outer).url == "https://e.com/outer"


def test_a_single_file_page_has_the_url_and_the_date_of_its_comment(tmp_path: Path) -> None:
    for number, start in enumerate(("", "\ufeff", "\n\n ")):
        saved = start + saved_by_single_file("https://e.com/ü?a=1&b=2", html_of(1))
        found = read_page(tmp_path / f"{number}.html", saved.encode())
        assert (found.url, found.event_time_ms) == ("https://e.com/ü?a=1&b=2", SAVED_MS)
        assert html_of(1) in found.body.decode()


@pytest.mark.parametrize(
    "date",
    [
        *("", "yesterday", "Fri, 99 Mar 2024 00:00:10 -0000", "Fri, 31 Dec 9999 23:59:59 -2359"),
        *("Mon, 01 Jan 1601 00:00:00 GMT", "Mon Jan 01 1601 00:00:00 GMT+0000", "Fri, 1 Mar 0999 00:00:10 -0000"),
    ],
)
def test_a_page_without_a_readable_date_has_the_time_of_its_file(date: str, tmp_path: Path) -> None:
    path = tmp_path / "a.mhtml"
    for content in (mhtml_of(1, "https://e.com/1", date), saved_by_single_file("https://e.com/1", "x", date).encode()):
        found = read_page(path, content)
        assert found.event_time_ms == int(path.stat().st_mtime * 1000)


def test_a_saved_page_without_a_url_is_rejected(tmp_path: Path) -> None:
    contents = {
        "a.mhtml": mhtml_of(1, " "),
        "b.mht": b"no message at all",
        "c.html": saved_by_single_file("", html_of(1)).encode(),
    }
    for name, content in contents.items():
        found = result_of(tmp_path / name, content)
        assert isinstance(found, PageError)
        assert found.reason is RejectReason.NO_URL


def test_a_url_of_any_length_that_is_read_can_be_read_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url, out = "https://e.com/" + 8000 * "ü", tmp_path / "out.warc"
    contents = {"a.html": saved_by_single_file(url, html_of(1)).encode(), "b.mht": mhtml_of(2, url)}
    for name, content in contents.items():
        path = tmp_path / name
        for written, found in (
            (content, url),
            (content.replace("ü".encode(), b"\xfc\xfc"), url.replace("ü", 2 * "\ufffd")),
        ):
            path.write_bytes(written)
            filter_json(capsys, path, "--out", out, "--force")
            assert read_page(out, out.read_bytes()).url == found
    too_long = tmp_path / "c.html"
    too_long.write_bytes(saved_by_single_file(2 * url, html_of(1)).encode())
    assert "looks like HTML or XML" in refused(capsys, too_long)[1]


@pytest.mark.parametrize("end", [b"", b"\r", b"\n"])
def test_a_hostile_comment_of_single_file_takes_linear_time(end: bytes) -> None:
    for piece in (b" ", b"\t \t", b"url: ", b"x"):
        saved = b"<html><!-- Page saved with SingleFile\n url:" + piece * (4_000_000 // len(piece)) + end
        assert not SINGLE_FILE.recognizes(saved)
        assert_cpu_below(1, partial(SINGLE_FILE.recognizes, saved))


def test_html_without_the_comment_of_single_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.html"
    path.write_text(html_of(1))
    assert "looks like HTML or XML" in refused(capsys, path)[1]


def test_saved_pages_in_one_output_stay_apart_and_a_copy_is_dropped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    contents = {
        "1.mhtml": mhtml_of(1, "https://e.com/1"),
        "2.mhtml.gz": gzip.compress(mhtml_of(2, "https://e.com/2", charset="windows-1252")),
        "copy.html": saved_by_single_file("https://f.com/copy", html_of(1)).encode(),
        "3.html": saved_by_single_file("https://e.com/3", html_of(3)).encode(),
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    out, verdicts_file = tmp_path / "out.warc.gz", tmp_path / "v.jsonl"
    files = [tmp_path / name for name in contents]
    summary = filter_json(capsys, *files, "--out", out, "--verdicts", verdicts_file)
    assert (summary["novel"], summary["duplicate"]) == (3, 1)
    assert [line["verdict"] for line in read_json(verdicts_file)] == ["novel", "novel", "duplicate", "novel"]
    pages = [one.result for one in read_records(out) if isinstance(one.result, Page)]
    assert [one.url for one in pages] == ["https://e.com/1", "https://e.com/2", "https://e.com/3"]
    assert [one.body.decode().split() for one in pages[:2]] == [html_of(seed).split() for seed in (1, 2)]
    again = filter_json(capsys, *files, "--out", tmp_path / "again.warc.gz")
    assert again["novel"] == 3
    assert (tmp_path / "again.warc.gz").read_bytes() == out.read_bytes(), "names of records are the same in each run"
    assert filter_json(capsys, out)["novel"] == 3
