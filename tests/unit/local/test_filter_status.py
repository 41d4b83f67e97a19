"""An error page, a redirect or another media type is emitted unchecked and never becomes an original."""

from pathlib import Path

import numpy as np
import pytest

from spotsieve.stream.base.page import FilterReason, Page
from spotsieve.stream.base.signature import has_keys
from spotsieve.stream.sign.schemes.identity import status_of
from tests.fixtures.filter_crawl import filter_json, lines, page, read_json
from tests.fixtures.pages.warc_records import http, warc


def verdicts(path: Path) -> list[tuple[str, str, str | None]]:
    return [(line["verdict"], line["reason"], line["duplicate_of"]) for line in read_json(path)]


@pytest.mark.guarantee(
    "an error page is never the original of a page", fault="its body is that of the page, and earlier"
)
def test_the_body_of_a_404_is_passed_on_and_the_200_page_after_it_is_novel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out, said, state = (tmp_path / name for name in ("p.jsonl", "out.jsonl", "v.jsonl", "state"))
    answers = [("gone", 404), ("moved", "301"), ("page", 200), ("copy", 200), ("gone again", 404)]
    path.write_bytes(lines([page(1, name) | {"status": status} for name, status in answers]))
    flags = ("--out", out, "--verdicts", said, "--state", state)
    expected = [
        ("unchecked", "http_status", None),
        ("unchecked", "redirect", None),
        ("novel", "no_match", None),
        ("duplicate", "exact", "page"),
        ("unchecked", "http_status", None),
    ]
    summary = filter_json(capsys, path, *flags)
    assert verdicts(said) == expected
    assert [line["id"] for line in read_json(out)] == ["gone", "moved", "page", "gone again"]
    assert (summary["reasons"]["http_status"], summary["reasons"]["redirect"]) == (2, 1)
    assert summary["state_entries"] == 1
    filter_json(capsys, path, *flags, "--force")
    assert [line[0] for line in verdicts(said)] == [line[0] for line in expected], "each has its verdict again"


def test_warc_has_the_status_in_the_response_and_a_revisit_is_counted_and_no_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out, said = tmp_path / "p.warc", tmp_path / "out.warc", tmp_path / "v.jsonl"
    good = warc(http(page(1)["body"].encode()))
    gone = warc(http(page(1)["body"].encode()).replace(b"200 OK", b"404 Not Found"))
    revisit = warc(http(b"").replace(b"200 OK", b"304 Not Modified"), "revisit")
    path.write_bytes(gone + revisit + good)
    summary = filter_json(capsys, path, "--out", out, "--verdicts", said)
    assert verdicts(said) == [("unchecked", "http_status", None), ("novel", "no_match", None)]
    assert (summary["other_records"], summary["revisits"]) == (1, 1)
    assert out.read_bytes() == gone + good


def test_other_media_types_can_be_kept_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, said = tmp_path / "p.jsonl", tmp_path / "v.jsonl"
    path.write_bytes(lines([page(1, "feed") | {"content_type": "application/rss+xml"}, page(1, "page")]))
    filter_json(capsys, path, "--verdicts", said, "--set", 'input.accepted_types=["text/html"]')
    assert verdicts(said) == [("unchecked", "media_type", None), ("novel", "no_match", None)]


def test_filtered_pages_have_no_keys_under_any_scheme() -> None:
    pages = [Page("t", 0, 0, "", b"x", False, 0, judgeable=False, filtered=why) for why in FilterReason]
    status = status_of(pages, np.ones(len(pages), np.bool_))
    assert has_keys(status).tolist() == [why is FilterReason.NOT for why in FilterReason]
