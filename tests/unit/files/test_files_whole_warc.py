"""A WARC that is filtered stays whole: requests and metadata go with their pages, revisits stand for dropped ones."""

import base64
import gc
import gzip
import hashlib
import io
import random
import zlib
from pathlib import Path
from typing import Any

import pytest
from warcio.archiveiterator import ArchiveIterator
from warcio.cli import main as warcio
from warcio.warcwriter import WARCWriter

from spotsieve.stream.base.settings.model import InputSettings
from spotsieve.stream.base.signature import Entry
from spotsieve.stream.cli import main
from spotsieve.stream.files.compression import GzipMembers, read_chunks
from spotsieve.stream.files.file_format import Record
from spotsieve.stream.files.warc import companions, split_warc
from spotsieve.stream.files.warc.companions import Companions
from spotsieve.stream.files.warc.revisits import NEAR_PROFILE, Originals, revisit_of
from tests.fixtures.filter_crawl import filter_json, lines, page, refused
from tests.fixtures.pages.warc_records import http, warc

IDENTICAL = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"


def name_of(number: int) -> str:
    return f"<urn:uuid:00000000-0000-4000-8000-{number:012}>"


def record(kind: str, number: int, url: str = "", block: bytes = b"", **fields: str) -> bytes:
    content_type = {"response": "application/http; msgtype=response", "request": "application/http; msgtype=request"}
    named = {
        "WARC_Record_ID": name_of(number),
        "WARC_Target_URI": url,
        "Content_Type": content_type.get(kind, "text/plain"),
    }
    return warc(block, kind, **named | fields)


def response(number: int, seed: int, note: str = "", **fields: str) -> bytes:
    return record("response", number, f"https://e.com/{number}", http(page(seed, note=note)["body"].encode()), **fields)


def request(number: int, of: int, **fields: str) -> bytes:
    return record("request", number, f"https://e.com/{of}", b"GET / HTTP/1.1\r\nHost: e.com\r\n\r\n", **fields)


def crawl() -> list[bytes]:
    """A page, its exact copy and a near copy, with records that belong to them, in the orders of several crawlers."""
    return [
        record("warcinfo", 1, block=b"software: of a test\r\n"),
        request(11, 10),
        response(10, 1, WARC_Concurrent_To=name_of(11)),
        record("metadata", 12, "https://e.com/10", b"fetchTimeMs: 5\r\n", WARC_Concurrent_To=name_of(10)),
        response(20, 1),
        response(30, 1, "a note of the editor"),
        request(21, 20, WARC_Concurrent_To=name_of(20)),
        request(31, 30, WARC_Concurrent_To=name_of(30)),
        record("revisit", 40, "https://e.com/10"),
        record("metadata", 41, "https://e.com/else", b"via: x\r\n"),
        response(50, 2),
    ]


def write(path: Path, records: list[bytes]) -> Path:
    path.write_bytes(b"".join(gzip.compress(raw) for raw in records))
    return path


def read(path: Path) -> list[Any]:
    """The records by warcio: type, name and fields."""
    with path.open("rb") as file:
        return [
            (one.rec_type, int(one.rec_headers.get_header("WARC-Record-ID")[-13:-1]), dict(one.rec_headers.headers))
            for one in ArchiveIterator(file)
        ]


def ours(path: Path) -> list[bytes]:
    with path.open("rb") as file:
        return [one.raw for one in split_warc(read_chunks(file, str(path)))]


def members(path: Path) -> list[bytes]:
    found, rest = list[bytes](), path.read_bytes()
    while rest:
        member = zlib.decompressobj(wbits=31)
        found.append(member.decompress(rest))
        rest = member.unused_data
    return found


def warcio_check(path: Path) -> object:
    with pytest.raises(SystemExit) as ended:
        warcio(["check", str(path)])
    return ended.value.code


@pytest.mark.parametrize("batch_pages", [1, 3, 1000])
def test_what_goes_with_a_kept_page_is_kept_and_what_goes_with_a_dropped_one_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], batch_pages: int
) -> None:
    path, out = write(tmp_path / "crawl.warc.gz", crawl()), tmp_path / "novel.warc.gz"
    summary = filter_json(capsys, path, "--out", out, "--set", f"service.batch_pages={batch_pages}")
    assert [(kind, number) for kind, number, _ in read(out)] == [
        ("warcinfo", 1),
        ("request", 11),
        ("response", 10),
        ("metadata", 12),
        ("response", 50),
    ]
    given = crawl()
    assert ours(out) == [given[0], given[1], given[2], given[3], given[10]], "byte for byte"
    assert (summary["companions"], summary["revisits_written"], summary["other_records"]) == (3, 0, 7)


def test_members_that_are_records_are_kept_as_they_came(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given, path = crawl(), tmp_path / "crawl.warc.gz"
    came = [gzip.compress(raw, level % 10, mtime=level) for level, raw in enumerate(given)]
    path.write_bytes(b"\0\0".join(came))
    filter_json(capsys, path, "--out", tmp_path / "novel.warc.gz")
    assert (tmp_path / "novel.warc.gz").read_bytes() == b"".join(came[place] for place in (0, 1, 2, 3, 10))
    filter_json(capsys, path, "--out", tmp_path / "novel.warc", "--revisits")
    assert ours(tmp_path / "novel.warc")[:4] == given[:4]


def test_each_record_has_its_member_wherever_it_lies_in_the_file() -> None:
    dice = random.Random(5)
    given = [record("resource", number, block=dice.randbytes(dice.randrange(2000))) for number in range(8000)]
    came, found, between = [gzip.compress(raw) for raw in given], GzipMembers(), 20 * gzip.compress(b"")
    chunks = read_chunks(io.BytesIO(between.join(came)), "crawl.warc.gz", found)
    assert [one.packed for one in split_warc(chunks, members=found)] == came


@pytest.mark.parametrize("size", [1, 700, 2**30])
def test_records_that_are_no_members_are_compressed_one_by_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], size: int
) -> None:
    given, path, out = crawl(), tmp_path / "crawl.warc.gz", tmp_path / "novel.warc.gz"
    whole = b"".join(given)
    path.write_bytes(b"".join(gzip.compress(whole[at : at + size]) for at in range(0, len(whole), size)))
    filter_json(capsys, path, "--out", out)
    kept = [given[place] for place in (0, 1, 2, 3, 10)]
    assert members(out) == kept
    assert out.read_bytes() == b"".join(gzip.compress(raw, 6, mtime=0) for raw in kept)


def test_warcio_reads_every_record_where_a_file_ends_without_line_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "novel.warc"
    for number in (1, 2):
        (tmp_path / f"{number}.warc").write_bytes(response(number, number).removesuffix(b"\r\n\r\n"))
    filter_json(capsys, tmp_path / "1.warc", tmp_path / "2.warc", "--out", out)
    assert [number for _, number, _ in read(out)] == [1, 2]
    assert out.read_bytes() == response(1, 1) + response(2, 2)


def test_revisits_stand_for_dropped_pages_and_warcio_accepts_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = write(tmp_path / "crawl.warc.gz", crawl()), tmp_path / "novel.warc.gz"
    summary = filter_json(capsys, path, "--out", out, "--revisits")
    assert (summary["revisits_written"], summary["duplicate"], summary["revisits"]) == (2, 2, 1)
    found = read(out)
    assert [number for _, number, _ in found] == [1, 11, 10, 12, 20, 30, 21, 31, 40, 50]
    exact, near = found[4][2], found[5][2]
    assert {exact["WARC-Type"], near["WARC-Type"]} == {"revisit"}
    assert (exact["WARC-Profile"], near["WARC-Profile"]) == (IDENTICAL, NEAR_PROFILE)
    for fields in (exact, near):
        assert fields["WARC-Refers-To"] == name_of(10)
        assert fields["WARC-Refers-To-Target-URI"] == "https://e.com/10"
        assert fields["WARC-Refers-To-Date"] == "2024-03-01T00:00:10Z"
        assert fields["WARC-Truncated"] == "length"
    assert (near["Spotsieve-Reason"], near["WARC-Target-URI"]) == ("contained", "https://e.com/30")
    assert ours(out)[4].endswith(b"\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n\r\n\r\n")
    assert warcio_check(out) == 0, capsys.readouterr().out
    block = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"
    assert exact["WARC-Block-Digest"] == "sha1:" + base64.b32encode(hashlib.sha1(block).digest()).decode()
    assert members(out) == ours(out), "a gzip member for each record"
    again = filter_json(capsys, out, "--out", tmp_path / "again.warc", "--revisits")
    assert (again["pages"], again["novel"], again["revisits"]) == (2, 2, 3)
    assert ours(tmp_path / "again.warc") == ours(out)


def test_a_revisit_of_an_original_of_an_earlier_run_has_its_address_and_date(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state, first, out = tmp_path / "state", tmp_path / "a.jsonl", tmp_path / "novel.warc"
    first.write_bytes(lines([page(1) | {"fetched_at": 1_709_251_210_250, "url": "https://e.com/a b\n"}]))
    filter_json(capsys, first, "--state", state)
    old = response(20, 1).replace(b"WARC/1.1", b"WARC/1.0")
    filter_json(
        capsys, write(tmp_path / "b.warc.gz", [response(10, 1), old]), "--state", state, "--out", out, "--revisits"
    )
    fields, of_old = (fields for _, _, fields in read(out))
    assert fields["WARC-Refers-To-Target-URI"] == "https://e.com/a%20b%0A"
    assert fields["WARC-Refers-To-Date"] == "2024-03-01T00:00:10.250Z"
    assert "WARC-Refers-To" not in fields
    assert fields["WARC-Profile"] == IDENTICAL
    assert of_old["WARC-Profile"] == IDENTICAL.replace("1.1", "1.0")
    assert of_old["WARC-Refers-To-Date"] == "2024-03-01T00:00:10Z", "WARC 1.0 has whole seconds"


def test_a_resource_and_another_encoding_of_the_same_body_make_revisits_too() -> None:
    originals, original = Originals(), Entry("a.warc", 1, 0, 0, "https://e.com/10", "")
    originals.add(("a.warc", 1, 0), response(10, 1))
    resource = revisit_of(record("resource", 20, "u", b"text"), original, originals, "exact", 1, exact=True).decode()
    assert resource.endswith("Content-Length: 0\r\n\r\n\r\n\r\n")
    assert "Content-Type" not in resource
    assert NEAR_PROFILE in resource, "the body is the same, the payload of the record is not"
    digest = base64.b32encode(hashlib.sha1(b"text").digest()).decode()
    assert f"WARC-Payload-Digest: sha1:{digest}\r\n" in resource


def test_the_revisit_of_a_page_behind_an_interim_response_has_the_final_header() -> None:
    block = b"HTTP/1.1 200 OK\r\nServer: a\r\n\r\ntext"
    written = []
    for before in (b"", b"HTTP/1.1 100 Continue\r\n\r\n"):
        raw = record("response", 20, "u", before + block)
        original = Entry("a.warc", 1, 0, 0, "https://e.com/10", "")
        written.append(revisit_of(raw, original, Originals(), "exact", 1, exact=True))
    assert written[0] == written[1]
    assert b"200 OK\r\nServer: a\r\n\r\n\r\n\r\n" in written[0]


def test_revisits_need_an_output_and_warc(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(lines([page(1)]))
    code, error = refused(capsys, path, "--revisits", "--json")
    assert (code, "--revisits needs --out FILE" in error) == (2, True)
    code, error = refused(capsys, path, "--revisits", "--out", tmp_path / "o.jsonl")
    assert (code, "works for WARC files only" in error) == (2, True)


def about(number: int, uri: str, **fields: str) -> bytes:
    return record("resource", number, uri, b"text of the page", **fields)


def kept(records: list[tuple[bytes, bool | None]], files: int = 1) -> list[int]:
    """The numbers of the companions that are written. records: a page's with its verdict, or another with None"""
    companions, found = Companions(InputSettings().companion_uris), list[Record]()
    for number, (raw, verdict) in enumerate(records):
        source = str(number * files // len(records))
        one = Record(number, raw)
        found += companions.add(one, source) if verdict is None else companions.page(one, source, verdict)
    return [one.number for one in [*found, *companions.end()]]


def test_records_that_name_nothing_go_with_the_page_beside_them() -> None:
    first, second = response(10, 1), response(20, 2)
    beside = [request(11, 10), request(21, 20)]
    assert kept([(beside[0], None), (first, True), (beside[1], None), (second, False)]) == [0]
    assert kept([(first, True), (beside[0], None), (second, False), (beside[1], None)]) == [1]
    assert kept([(beside[0], None), (beside[1], None), (first, False), (second, True)]) == [1]
    assert kept([(first, True), (second, False), (beside[1], None), (beside[0], None)]) == []
    assert kept([(first, True), (beside[0], None)]) == [1], "the last of a file"
    assert kept([(first, True), (beside[0], None)], files=2) == [], "another file"


@pytest.mark.parametrize("uri", ["urn:text:https://e.com/10", "screenshot:https://e.com/10", "screenshot://e.com/10",
                                 "urn:view:https%3A%2F%2Fe.com%2F10", "urn:pageinfo:https://e.com/10#top"])  # fmt: skip
def test_a_record_about_a_page_goes_with_the_page_of_its_uri(uri: str) -> None:
    page, other, text = response(10, 1), response(20, 2), about(11, uri)
    assert kept([(text, None), (other, True), (page, True)]) == [0]
    assert kept([(text, None), (other, True), (page, False)]) == []
    assert kept([(page, True), (other, False), (text, None)]) == [2]
    assert kept([(page, False), (other, True), (text, None)]) == []
    assert kept([(page, True), (page, False), (text, None)]) == [2], "one of two captures of the URL is kept"


def test_a_record_about_a_page_goes_with_the_page_that_it_names() -> None:
    text = about(11, "urn:x-crocoite:dom-snapshot", WARC_Concurrent_To=name_of(10))
    assert kept([(text, None), (response(10, 1), True)]) == [0]
    assert kept([(response(10, 1), False), (text, None)]) == []


def test_a_record_about_a_page_that_is_not_in_the_file_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [(about(100 + number, f"urn:text:https://e.com/{number}"), None) for number in range(5)]
    info = (record("warcinfo", 1), None)
    assert kept([info, *texts]) == [0, 1, 2, 3, 4, 5]
    assert kept([*texts, (response(3, 1), False)]) == [0, 1, 2, 4]
    monkeypatch.setattr(companions, "MOST_WAITING", 2)
    assert kept([*texts, (response(0, 1), False), (response(4, 2), False)]) == [0, 1, 2, 3]
    assert kept([(response(0, 1), False), *texts], files=6) == [1, 2, 3, 4, 5], "other files"


def test_records_about_pages_are_counted_and_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [
        about(11, "urn:text:https://e.com/10"),
        response(10, 1),
        about(21, "urn:text:https://e.com/20"),
        response(20, 1),
        about(31, "urn:pageinfo:https://elsewhere.com/"),
    ]
    path, out = write(tmp_path / "crawl.warc.gz", given), tmp_path / "novel.warc.gz"
    summary = filter_json(capsys, path, "--out", out)
    assert ours(out) == [given[0], given[1], given[4]]
    found = [summary[name] for name in ("pages", "records_about_pages", "companions", "companions_alone")]
    assert found == [2, 3, 2, 1]
    assert main(["filter", str(path), "--out", str(tmp_path / "again.warc")]) == 0
    text = "".join(capsys.readouterr())
    assert "3  of these were written by a crawler about pages (input.companion_uris), 1 kept whose page is not" in text
    summary = filter_json(capsys, path, "--out", tmp_path / "all.warc", "--set", "input.companion_uris=[]")
    assert (summary["pages"], summary["records_about_pages"]) == (5, 0)


def test_a_file_of_records_about_pages_is_kept_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [about(11, "urn:text:https://e.com/10"), about(12, "metadata://gnu.org/software/wget/warc/MANIFEST.txt")]
    path, out = write(tmp_path / "text.warc.gz", given), tmp_path / "out.warc"
    summary = filter_json(capsys, path, "--out", out)
    assert (summary["pages"], summary["errors"], ours(out)) == (0, [], given)


def test_a_request_in_another_file_does_not_go_with_a_page_of_the_file_before() -> None:
    first = [(request(11, 10, WARC_Concurrent_To=name_of(10)), None), (response(10, 1), True)]
    again = [(request(11, 10, WARC_Concurrent_To=name_of(10)), None), (response(10, 1), False)]
    assert kept([*first, *again], files=2) == [0]


def test_what_waits_for_its_page_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(companions, "MOST_WAITING", 3)
    monkeypatch.setattr(companions, "MOST_REMEMBERED", 2)
    waiting = [(request(100 + number, 10, WARC_Concurrent_To=name_of(10)), None) for number in range(5)]
    assert kept([*waiting, (response(10, 1), True)]) == [2, 3, 4]
    pages = [(response(number, 1), True) for number in (10, 20, 30)]
    assert kept([*pages, (request(11, 0, WARC_Concurrent_To=name_of(10)), None)]) == []


@pytest.mark.filterwarnings("ignore:Exception ignored in.*SpooledTemporaryFile")  # warcio does not close its own
def test_what_warcio_itself_writes_stays_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "crawl.warc.gz", tmp_path / "novel.warc.gz"
    with path.open("wb") as file:
        writer = WARCWriter(file, gzip=True)
        writer.write_record(writer.create_warcinfo_record("crawl.warc.gz", {"software": "warcio"}))
        for number, seed in enumerate((1, 1, 2)):
            url, body = f"https://e.com/{number}", io.BytesIO(http(page(seed)["body"].encode()))
            sent = writer.create_warc_record(
                url, "request", payload=io.BytesIO(b"GET / HTTP/1.1\r\nHost: e.com\r\n\r\n")
            )
            writer.write_request_response_pair(sent, writer.create_warc_record(url, "response", payload=body))
    del sent, writer
    gc.collect()
    filter_json(capsys, path, "--out", out, "--revisits")
    with out.open("rb") as file:
        assert [one.rec_type for one in ArchiveIterator(file, check_digests=True)] == [
            "warcinfo", "response", "request", "revisit", "request", "response", "request"
        ]  # fmt: skip
    assert warcio_check(out) == 0
