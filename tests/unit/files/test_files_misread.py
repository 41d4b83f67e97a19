"""An input that is read the wrong way does not look like success: exit code 3, what it is, and what to change."""

import gzip
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from spotsieve.stream.cli import main
from tests.fixtures.filter_crawl import filter_json, lines, page, refused, warc_record, write_crawl

ROWS = [f"https://example.com/{number},2024-03-01,<p>some text {number}</p>" for number in range(40)]


def renamed(**names: str) -> bytes:
    """Pages whose fields have other names."""
    return lines([{names.get(name, name): value for name, value in page(seed).items()} for seed in range(12)])


TEXT = "The mayor spoke about the budget of the next year."


def documents(**fields: object) -> bytes:
    return json.dumps(fields).encode() + b"\n"


def nested() -> bytes:
    return lines([{"url": page(1)["url"], "response": {"status": 200, "html": page(1)["body"]}}])


def in_tar() -> bytes:
    data, content = io.BytesIO(), lines([page(1), page(2)])
    with tarfile.open(fileobj=data, mode="w") as archive:
        member = tarfile.TarInfo("pages.jsonl")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return data.getvalue()


MISREAD: dict[str, tuple[Callable[[], bytes], str, str]] = {
    "body elsewhere": (lambda: renamed(body="html"), "content_type, html", "--set input.fields.body=html"),
    "body in an object": (nested, "response.status, response.html", "--set input.fields.body=response.html"),
    "datatrove": (
        lambda: documents(id="1", text=TEXT, metadata={"url": "https://e.com/", "date": "2024-03-01"}),
        "fields id, text, metadata.url, metadata.date",
        "--set input.preset=datatrove",
    ),
    "huggingface": (lambda: documents(text=TEXT, meta={"url": "https://e.com/"}), "", "--set input.preset=huggingface"),
    "nutch": (
        lambda: documents(url="u", content=TEXT, tstamp="2024-03-01T00:00:10Z", boost=1.0),
        "",
        "--set input.preset=nutch",
    ),
    "cc_net": (lambda: documents(url="u", raw_content=TEXT, nlines=3), "", "--set input.preset=commoncrawl-wet"),
    "scrapy-cluster without a body": (lambda: documents(response_url="u"), "", "set input.fields.body"),
    "address elsewhere": (lambda: renamed(url="link"), "fields id, link, ", "--set input.fields.url=link"),
    "csv": (lambda: "\n".join(["url,date,body", *ROWS]).encode(), "CSV with the columns url,date,body", "JSON object"),
    "cdx": (lambda: b" CDX N b a m s k\ncom,example)/ 20240301000010 x\n", "CDX", "filter the WARC files"),
    "cdxj": (lambda: b'com,example)/a 20240301000010 {"url": "u"}\n' * 3, "CDX", "filter the WARC files"),
    "binary": (
        lambda: b"\x7f" + Random(1).randbytes(20_000),
        "The file looks like binary data",
        "name a file of pages",
    ),
    "binary under gzip": (
        lambda: gzip.compress(b"\x7f" + Random(1).randbytes(20_000)),
        "The file looks like binary data",
        "name a file of pages",
    ),
    "tar": (in_tar, "a tar archive", "unpack it"),
    "json array": (lambda: json.dumps([page(1), page(2)]).encode(), "a JSON array", "jq -c '.[]'"),
    "json over lines": (lambda: json.dumps(page(1), indent=1).encode(), "over several lines", "jq -c ."),
    "utf-16": (lambda: lines([page(1)]).decode().encode("utf-16"), "UTF-16", "iconv -f UTF-16"),
    "utf-16 without mark": (lambda: lines([page(1)]).decode().encode("utf-16-be"), "UTF-16", "iconv -f UTF-16"),
    "base64 that is none": (
        lambda: lines([page(1) | {"body_encoding": 1, "body": 7}]),
        "The first error is: ",
        "correct the message or the path in [input.fields]; `spotsieve",
    ),
    "requests alone": (
        lambda: warc_record(1, "https://e.com/", "request") * 3,
        "none of its 3 WARC records",
        "responses",
    ),
}


@pytest.mark.guarantee("a misread input is reported, with the setting to change", fault="nothing in it is a page")
@pytest.mark.parametrize("case", MISREAD)
def test_an_input_without_pages_ends_with_3_says_what_it_is_and_what_to_change(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make, found, then = MISREAD[case]
    path = tmp_path / "input"
    path.write_bytes(make())
    code, error = refused(capsys, path, "--out", tmp_path / "out")
    assert code == 3
    reported = next(line for line in error.splitlines() if str(path) in line)
    assert found in reported
    assert then in reported


def test_more_than_a_tenth_is_too_much_and_a_tenth_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "pages.jsonl", tmp_path / "out"
    pages = lines([page(seed) for seed in range(9)])
    path.write_bytes(pages + b"no json\n")
    assert filter_json(capsys, path)["errors"] == []
    path.write_bytes(pages + b"no json\n{}\n")
    summary = filter_json(capsys, path, "--out", out, code=3)
    assert "2 of 11 records were rejected (not_json 1, no_body 1)" in summary["errors"][0]
    assert out.read_bytes() == pages, "what is a page passes all the same"


def test_each_input_counts_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    good.write_bytes(lines([page(seed) for seed in range(40)]))
    bad.write_bytes(renamed(body="html"))
    summary = filter_json(capsys, good, bad, code=3)
    assert summary["pages"] == 40
    assert [str(bad) in error for error in summary["errors"]] == [True]


def test_query_and_score_tell_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    crawl, bad = tmp_path / "crawl.jsonl", tmp_path / "pages.jsonl.xz"
    write_crawl(crawl)
    bad.write_bytes(renamed(body="html"))
    state = tmp_path / "state"
    filter_json(capsys, crawl, "--state", state)
    assert main(["query", str(bad), "--state", str(state), "--verdicts", str(tmp_path / "v")]) == 3
    assert "--set input.fields.body=html" in capsys.readouterr().err
    labels = {"pairs.tsv.gz": "id_a\tid_b\tsimilarity\tkind\n", "truth.tsv.gz": "id\tkind\np0\tnovel\n"}
    for name, text in labels.items():
        (tmp_path / name).write_bytes(gzip.compress(text.encode()))
    assert main(["score", str(tmp_path)]) == 3
    assert "--set input.fields.body=html" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [
        ["sample", "-o", "mine"],
        ["review", "-o", "review.html"],
        ["model", "build", "--scheme", "imatch", "-o", "terms.idf"],
        ["model", "build", "--scheme", "concept", "-o", "concepts"],
        ["calibrate", "--scheme", "adaptive-shingles", "--precision", ".9"],
    ],
    ids=" ".join,
)
def test_commands_over_a_sample_name_the_field_of_a_misread_input_too(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pages.jsonl").write_bytes(renamed(body="html"))
    assert main([*command, "pages.jsonl"]) == 3
    assert "set input.fields.body, such as --set input.fields.body=html" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["crawl.warc.jsonl", "crawl.warc", "crawl.warc.gz"])
def test_json_lines_are_read_as_such_under_the_name_of_a_warc(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    path = tmp_path / name
    path.write_bytes(lines([page(1), page(2)]))
    assert filter_json(capsys, path)["novel"] == 2


def test_a_warc_whose_first_record_is_damaged_is_known_by_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "crawl.warc"
    path.write_bytes(b"text of a page\n" + warc_record(1, "https://e.com/") + warc_record(2, "https://e.com/2"))
    assert filter_json(capsys, path, code=3)["novel"] == 2, "one of three records is none"
