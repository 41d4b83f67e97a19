"""`spotsieve filter`: files in, novel pages out, with the same engine as the service and no broker."""

import base64
import gzip
import json
import lzma
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from spotsieve.stream.files.file_format import content_number
from tests.fixtures.filter_crawl import (
    DATA,
    filter_json,
    lines,
    page,
    read,
    read_json,
    refused,
    warc_record,
    write_crawl,
)


@pytest.fixture
def crawl(tmp_path: Path) -> Path:
    path = tmp_path / "crawl.jsonl"
    write_crawl(path)
    return path


def test_novel_and_unchecked_pages_go_out_unchanged_and_every_page_has_a_verdict(
    crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, verdicts, duplicates = tmp_path / "novel.jsonl", tmp_path / "v.jsonl", tmp_path / "d.jsonl"
    summary = filter_json(capsys, crawl, "--out", out, "--verdicts", verdicts, "--duplicates", duplicates)
    given = crawl.read_bytes().splitlines(keepends=True)
    assert out.read_bytes() == given[0] + given[1] + given[3]
    found = read_json(verdicts)
    assert [(line["id"], line["verdict"], line["duplicate_of"], line["reason"]) for line in found] == [
        ("p1", "novel", None, "no_match"),
        ("p2", "novel", None, "no_match"),
        ("copy", "duplicate", "p1", "contained"),
        ("short", "unchecked", None, "too_few_features"),
        ("short2", "duplicate", "short", "exact"),
    ]
    assert found[2] == {
        "id": "copy",
        "verdict": "duplicate",
        "duplicate_of": "p1",
        "score": found[2]["score"],
        "scheme": "spotsieve",
        "reason": "contained",
        "url": "https://example.com/copy",
        "original_url": "https://example.com/1",
    }
    assert 0.9 < found[2]["score"] < 1
    assert found[4]["score"] == 1
    assert found[0]["score"] is None
    assert read_json(duplicates) == [found[2], found[4]]
    counts = {"files": 1, "records": 5, "pages": 5, "novel": 2, "duplicate": 2, "unchecked": 1, "rejected": 0}
    assert {name: summary[name] for name in counts} == counts
    assert summary["bytes_read"] == crawl.stat().st_size
    assert summary["state_entries"] == 3


def test_the_same_file_again_gives_the_same_verdicts_and_new_files_go_on_from_there(
    crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    runs = []
    for number in range(2):
        verdicts = tmp_path / f"v{number}.jsonl"
        summary = filter_json(capsys, crawl, "--state", state, "--verdicts", verdicts)
        assert summary["state_entries"] == 3
        runs.append((summary, [line | {"reason": None} for line in read_json(verdicts)]))
    assert runs[0][1] == runs[1][1]
    summary = runs[1][0]
    assert summary["reasons"]["first_attempt"] == 2
    later = tmp_path / "later.jsonl.gz"
    later.write_bytes(gzip.compress(lines([page(2, "again"), page(3)])))
    verdicts = tmp_path / "later-verdicts.jsonl"
    filter_json(capsys, later, "--state", state, "--verdicts", verdicts)
    assert [(line["id"], line["duplicate_of"]) for line in read_json(verdicts)] == [("again", "p2"), ("p3", None)]


def test_without_a_state_nothing_is_remembered_and_nothing_left_behind(
    crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    for _ in range(2):
        assert filter_json(capsys, crawl)["reasons"]["no_match"] == 2
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.parametrize("batch_pages", [1, 2, 1000])
def test_verdicts_do_not_depend_on_the_batches(
    crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], batch_pages: int
) -> None:
    verdicts = tmp_path / "v.jsonl"
    filter_json(capsys, crawl, "--verdicts", verdicts, "--set", f"service.batch_pages={batch_pages}")
    assert [line["duplicate_of"] for line in read_json(verdicts)] == [None, None, "p1", None, "short"]


@pytest.mark.parametrize("ending", [".gz", ".xz", ".zst"])
def test_files_and_outputs_may_be_compressed(
    crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], ending: str
) -> None:
    compress: dict[str, Callable[[bytes], bytes]] = {
        ".gz": gzip.compress,
        ".xz": lzma.compress,
        ".zst": zstandard.compress,
    }
    given = tmp_path / "named-without-an-ending"
    given.write_bytes(compress[ending](crawl.read_bytes()))
    out = tmp_path / f"novel.jsonl{ending}"
    filter_json(capsys, given, "--out", out)
    assert len(read_json(out)) == 3


def test_what_is_no_page_is_rejected_with_its_reason_and_the_rest_is_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = [
        b'{"url": "u", "body": "half a',
        b"[1]",
        b'{"url": "u"}',
        b'{"url": "u", "body": "\xff"}',
        b'{"url": "u", "body": 5}',
        b'{"body": "x"}',
        b'{"url": "u", "body": "x", "fetched_at": "never"}',
    ]
    path = tmp_path / "pages.jsonl"
    path.write_bytes(b"\n".join([json.dumps(page(1)).encode(), *bad, json.dumps(page(2)).encode()]))
    out, rejected = tmp_path / "o.jsonl", tmp_path / "r.jsonl"
    summary = filter_json(capsys, path, "--rejected", rejected, "--out", out, code=3)
    found = read_json(rejected)
    assert [line["reason"] for line in found] == [
        "not_json",
        "not_json",
        "no_body",
        "not_json",
        "field_type",
        "no_url",
        "bad_time",
    ]
    assert [
        base64.b64decode(line["record_base64"]) if "record" not in line else line["record"].encode() for line in found
    ] == bad
    assert found[0]["id"] == f"{path}/0/1"
    assert "must be JSON" in found[0]["error"]
    assert [line["id"] for line in read_json(out)] == ["p1", "p2"]
    assert (summary["pages"], summary["rejected"], summary["records"]) == (2, 7, 9)


def test_pages_without_a_name_are_known_by_file_and_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, verdicts = tmp_path / "pages.jsonl", tmp_path / "v.jsonl"
    nameless = [{name: value for name, value in page(1).items() if name != "id"}] * 2
    path.write_bytes(b"broken\n\n" + lines(nameless))
    number = content_number(json.dumps(nameless[0]).encode())
    filter_json(capsys, path, "--verdicts", verdicts, code=3)
    assert [(line["id"], line["duplicate_of"]) for line in read_json(verdicts)] == [
        (f"{path}/{number}/1", None),
        (f"{path}/{number}/2", f"{path}/{number}/1"),
    ]


def test_warc_records_go_out_byte_for_byte_each_in_its_own_gzip_member(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = [
        warc_record(9, "http://a/info", "warcinfo"),
        warc_record(1, "http://a/1"),
        warc_record(1, "http://a/copy"),
        warc_record(2, "http://a/2"),
    ]
    path, out, verdicts = tmp_path / "crawl.warc.gz", tmp_path / "novel.warc.gz", tmp_path / "v.jsonl"
    path.write_bytes(b"".join(gzip.compress(record) for record in records))
    summary = filter_json(capsys, path, "--out", out, "--verdicts", verdicts)
    assert read(out) == records[0] + records[1] + records[3]
    assert out.read_bytes().count(b"\x1f\x8b\x08") >= 3
    assert [(line["url"], line["original_url"]) for line in read_json(verdicts)] == [
        ("http://a/1", None),
        ("http://a/copy", "http://a/1"),
        ("http://a/2", None),
    ]
    assert (summary["records"], summary["pages"], summary["other_records"]) == (4, 3, 1)
    jsonl = tmp_path / "p.jsonl"
    jsonl.write_bytes(lines([page(5)]))
    code, error = refused(capsys, path, jsonl, "--out", tmp_path / "both")
    assert code == 2
    assert "cannot contain records of two formats" in error
    assert (tmp_path / "both.partial").exists()


@pytest.mark.parametrize("name", ["news", "docs", "newsgroups"])
def test_a_labelled_set_can_be_scored_from_the_verdicts(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = DATA / name / "pages.jsonl.xz"
    if not pages.exists():
        pytest.skip(f"needs the labelled data in {DATA}")
    verdicts = tmp_path / "v.jsonl"
    summary = filter_json(capsys, pages, "--verdicts", verdicts)
    assert summary["pages"] > 500
    assert summary["rejected"] == 0
    score = subprocess.run(
        [sys.executable, str(DATA / "score.py"), str(DATA / name), str(verdicts)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert score.returncode == 0, score.stderr
    assert "precision" in score.stdout
