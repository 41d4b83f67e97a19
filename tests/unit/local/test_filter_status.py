"""An error page, a redirect or another media type is emitted unchecked and never becomes an original."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from spotsieve.stream.base.page import FilterReason, Page
from spotsieve.stream.base.signature import has_keys
from spotsieve.stream.cli import main
from spotsieve.stream.sign.schemes.identity import status_of
from tests.fixtures.filter_crawl import filter_json, lines, page, read_json
from tests.fixtures.pages.warc_records import http, warc


def verdicts(path: Path) -> list[tuple[str, str, str | None]]:
    return [(line["verdict"], line["reason"], line["duplicate_of"]) for line in read_json(path)]


@pytest.mark.guarantee("an error page is never an original", fault="an earlier error page has the body of the page")
def test_the_body_of_a_404_is_passed_on_and_the_200_page_after_it_is_novel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out, verdicts_file, state = (tmp_path / name for name in ("p.jsonl", "out.jsonl", "v.jsonl", "state"))
    responses = [("gone", 404), ("moved", "301"), ("page", 200), ("copy", 200), ("gone again", 404)]
    path.write_bytes(lines([page(1, name) | {"status": status} for name, status in responses]))
    flags = ("--out", out, "--verdicts", verdicts_file, "--state", state)
    expected = [
        ("unchecked", "http_status", None),
        ("unchecked", "redirect", None),
        ("novel", "no_match", None),
        ("duplicate", "exact", "page"),
        ("unchecked", "http_status", None),
    ]
    summary = filter_json(capsys, path, *flags)
    assert verdicts(verdicts_file) == expected
    assert [line["id"] for line in read_json(out)] == ["gone", "moved", "page", "gone again"]
    assert (summary["reasons"]["http_status"], summary["reasons"]["redirect"]) == (2, 1)
    assert summary["state_entries"] == 1
    filter_json(capsys, path, *flags, "--force")
    assert [line[0] for line in verdicts(verdicts_file)] == [line[0] for line in expected], "each has its verdict again"


def test_warc_has_the_status_in_the_response_and_a_revisit_is_counted_and_no_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out, verdicts_file = tmp_path / "p.warc", tmp_path / "out.warc", tmp_path / "v.jsonl"
    good = warc(http(page(1)["body"].encode()))
    gone = warc(http(page(1)["body"].encode()).replace(b"200 OK", b"404 Not Found"))
    revisit = warc(http(b"").replace(b"200 OK", b"304 Not Modified"), "revisit")
    path.write_bytes(gone + revisit + good)
    summary = filter_json(capsys, path, "--out", out, "--verdicts", verdicts_file)
    assert verdicts(verdicts_file) == [("unchecked", "http_status", None), ("novel", "no_match", None)]
    assert (summary["other_records"], summary["revisits"]) == (1, 1)
    assert out.read_bytes() == gone + good


def test_other_media_types_can_be_kept_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, verdicts_file = tmp_path / "p.jsonl", tmp_path / "v.jsonl"
    path.write_bytes(lines([page(1, "feed") | {"content_type": "application/rss+xml"}, page(1, "page")]))
    filter_json(capsys, path, "--verdicts", verdicts_file, "--set", 'input.accepted_types=["text/html"]')
    assert verdicts(verdicts_file) == [("unchecked", "media_type", None), ("novel", "no_match", None)]


def test_filtered_pages_have_no_keys_under_any_scheme() -> None:
    pages = [Page("t", 0, 0, "", b"x", False, 0, judgeable=False, filtered=why) for why in FilterReason]
    status = status_of(pages, np.ones(len(pages), np.bool_))
    assert has_keys(status).tolist() == [why is FilterReason.NOT for why in FilterReason]
    assert has_keys(status).tolist() == [True] + [False] * (len(FilterReason) - 1)


def cut(body: bytes, size: int) -> bytes:
    """A response whose gzip body ends before its end."""
    return warc(http(gzip.compress(body, mtime=0)[:size], "Content-Encoding: gzip"))


@pytest.mark.guarantee("a partial page is never an original", fault="it arrives before the whole page")
@pytest.mark.parametrize("scheme", ["spotsieve", "manku", "minhash", "adaptive-shingles"])
def test_a_payload_that_cannot_be_decoded_whole_is_judged_and_never_an_original(
    scheme: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, verdicts_file, state = tmp_path / "p.warc", tmp_path / "v.jsonl", tmp_path / "state"
    first, second, third = (page(seed)["body"].encode() for seed in (1, 2, 3))
    packed = gzip.compress(first, mtime=0)
    truncated = warc(http(third), WARC_Truncated="length")
    path.write_bytes(
        cut(first, len(packed) - 9)
        + warc(http(first))
        + warc(http(packed[:-8] + bytes(8), "Content-Encoding: gzip"))
        + cut(first, len(packed) - 9)
        + cut(first, len(packed) - 8)
        + warc(http(second))
        + cut(second, 40)
        + truncated
        + truncated.replace(b"000001>", b"000002>")
        + warc(http(third), WARC_Segment_Number="1")
        + warc(http(third))
    )
    flags = ("--verdicts", verdicts_file, "--state", state, "--set", f"scheme.name={scheme}")
    summary = filter_json(capsys, path, *flags)
    found = [line[:2] for line in verdicts(verdicts_file)]
    assert found[4][0] == "duplicate"
    assert found[:4] + found[5:] == [
        ("unchecked", "incomplete"),
        ("novel", "no_match"),
        ("duplicate", "exact" if scheme != "manku" else "near"),
        ("duplicate", "exact"),
        ("novel", "no_match"),
        ("unchecked", "incomplete"),
        ("unchecked", "incomplete"),
        ("duplicate", "exact"),
        ("duplicate", "exact"),
        ("novel", "no_match"),
    ]
    assert summary["reasons"]["incomplete"] == 3
    filter_json(capsys, path, *flags, "--force")
    assert [line[0] for line in verdicts(verdicts_file)] == [kind for kind, _ in [*found[:4], found[4], *found[5:]]]


def test_explain_says_that_only_a_part_of_a_page_arrived(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, body = tmp_path / "p.warc", page(1)["body"].encode()
    for fields, reason in (({"WARC_Truncated": "length"}, "incomplete"), ({}, "no_match")):
        path.write_bytes(warc(http(body), WARC_Target_URI="https://e.com/part", **fields))
        assert main(["explain", "--json", "https://e.com/part", "--pages", str(path)]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["reason"] == reason
        assert any("Only a part of the page's payload" in note for note in found["notes"]) == bool(fields)


def test_a_payload_cut_at_any_byte_is_never_a_duplicate_of_something_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start = b"<html><style>" + b"p{margin:0}" * 40 + b"</style><p>" + page(3)["body"].encode()
    bodies = [gzip.compress(start, mtime=0) + gzip.compress(page(seed)["body"].encode(), mtime=0) for seed in (1, 2)]
    path, verdicts_file = tmp_path / "p.warc", tmp_path / "v.jsonl"
    ends = range(0, min(map(len, bodies)) - 1, 7)
    fields = [("Content-Encoding: gzip", f"Content-Length: {len(body)}") for body in bodies]
    path.write_bytes(
        b"".join(warc(http(body[:end], *named)) for end in ends for body, named in zip(bodies, fields, strict=True))
    )
    filter_json(capsys, path, "--verdicts", verdicts_file)
    found = [(line["verdict"], line["reason"], line["duplicate_of"]) for line in read_json(verdicts_file)]
    assert len(found) == 2 * len(ends)
    for place, (kind, reason, original) in enumerate(found):
        body, first = bodies[place % 2], bodies[0]
        end = ends[place // 2]
        if place % 2 and body[:end] == first[:end] and kind == "duplicate":
            assert reason == "exact"
        else:
            assert (kind, reason, original) in {("unchecked", "incomplete", None), ("unchecked", "empty", None)}


def test_pages_with_repaired_utf8_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.warc"
    text = page(1)["body"].encode()
    stray = text.replace(b"</body>", "é".encode() * 30 + b"\xa9</body>")
    path.write_bytes(warc(http(text)) + warc(http(stray)))
    assert filter_json(capsys, path)["repaired_utf8"] == 1
    assert main(["filter", str(path)]) == 0
    assert "1  pages with invalid UTF-8, replaced by U+FFFD" in "".join(capsys.readouterr())
