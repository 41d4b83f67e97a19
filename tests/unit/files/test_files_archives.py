"""WACZ and ARC are read as the WARC records that they hold, in bounded memory; any other file is reported."""

import bz2
import gzip
import io
import lzma
import struct
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zstandard
from warcio.archiveiterator import ArchiveIterator

from spotsieve.stream.base.errors import InputError, RejectReason
from spotsieve.stream.base.page import Page
from spotsieve.stream.files.file_format import Record
from spotsieve.stream.files.warc import formats
from spotsieve.stream.files.warc.arc import split_arc
from spotsieve.stream.files.warc.records import capture_of
from tests.fixtures.filter_crawl import filter_json, page, read_records, refused, warc_record
from tests.fixtures.pages.warc_records import STATUS_LINES, http

ABOUT = b"1 0 InternetArchive\nURL IP-address Archive-date Content-type Archive-length\n"


def arc(*captures: tuple[str, bytes]) -> bytes:
    """An ARC file of version 1. captures: an address and what the server sent"""
    head = f"filedesc://crawl.arc 0.0.0.0 20240301000000 text/plain {len(ABOUT)}\n".encode() + ABOUT
    records = [f"{url} 10.0.0.1 20240301000010 text/html {len(sent)}\n".encode() + sent for url, sent in captures]
    return b"\n".join([head, *records, b""])


def crawl() -> bytes:
    seeds = (("https://e.com/1", 1), ("https://e.com/a b", 2), ("https://e.com/copy", 1))
    return arc(
        *((url, http(page(seed)["body"].encode())) for url, seed in seeds), ("dns:e.com", b"20240301 10.0.0.1\n")
    )


def write_wacz(path: Path, method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("datapackage.json", b"{}")
        for name, seeds in (("a", (1, 2)), ("b", (1, 3))):
            records = [gzip.compress(warc_record(seed, f"https://e.com/{name}/{seed}")) for seed in seeds]
            archive.writestr(f"archive/{name}.warc.gz", b"".join(records))
        archive.writestr("indexes/index.cdx.gz", gzip.compress(b"com,e)/ 20240301000010 {}\n"))
    return path


def split(data: bytes, step: int = 1000, most: int = 100_000) -> list[Record]:
    return list(split_arc(iter([data[start : start + step] for start in range(0, len(data), step)]), "a.arc", most))


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_wacz_is_its_warc_files_one_after_the_other(
    tmp_path: Path, method: int, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = write_wacz(tmp_path / "crawl.wacz", method), tmp_path / "novel.warc.gz"
    summary = filter_json(capsys, path, "--out", out)
    assert (summary["pages"], summary["novel"], summary["duplicate"]) == (4, 3, 1)
    assert summary["bytes_read"] >= 0.5 * path.stat().st_size
    found = [outcome.result for outcome in read_records(path)]
    assert [(one.offset, one.url) for one in found if isinstance(one, Page)] == [
        (0, "https://e.com/a/1"),
        (1, "https://e.com/a/2"),
        (2, "https://e.com/b/1"),
        (3, "https://e.com/b/3"),
    ]
    with out.open("rb") as file:
        assert len(list(ArchiveIterator(file))) == 3


def test_arc_is_read_as_warc_with_the_same_names_every_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "crawl.arc.gz", tmp_path / "novel.warc.gz"
    path.write_bytes(gzip.compress(crawl()))
    summary = filter_json(capsys, path, "--out", out, "--revisits")
    assert (summary["pages"], summary["novel"], summary["duplicate"]) == (4, 2, 1)
    assert summary["unchecked"] == 1, "a DNS record is text that is too short"
    assert [record.raw for record in split(crawl(), 7)] == [record.raw for record in split(crawl(), 10**6)]
    page_of = {one.result.url: one.result for one in read_records(path) if isinstance(one.result, Page)}
    assert page_of["https://e.com/a b"].body == page(2)["body"].encode()
    assert page_of["https://e.com/1"].event_time_ms == 1_709_251_210_000
    with out.open("rb") as file:
        found = [(one.rec_type, one.rec_headers.get_header("WARC-Target-URI")) for one in ArchiveIterator(file)]
    assert [kind for kind, _ in found] == ["warcinfo", "response", "response", "revisit", "resource"]


@pytest.mark.parametrize("line", STATUS_LINES)
def test_captures_of_arc_with_any_status_line_are_responses(line: str) -> None:
    block = http(page(1)["body"].encode()).replace(b"HTTP/1.1 200 OK", line.encode())
    (found,) = [capture_of(record.raw, 10**6, 0) for record in split(arc(("https://e.com/1", block)))[1:]]
    assert found is not None
    assert (found.body, found.status) == (page(1)["body"].encode(), 200)


def test_records_of_arc_that_are_none_are_rejected_alone() -> None:
    wrong_date = arc(("https://e.com/", b"x")).replace(b"20240301000010", b"yesterday")
    assert [record.fault and record.fault[0] for record in split(wrong_date)] == [None, RejectReason.BAD_WARC]
    assert [record.fault and record.fault[0] for record in split(crawl(), most=300)][1] is RejectReason.TOO_LARGE
    cut = split(crawl()[:-400])
    assert [record.fault and record.fault[0] for record in cut] == [None, None, None, RejectReason.TRUNCATED]
    with pytest.raises(InputError, match=r"is damaged ARC: Invalid ARC record"):
        split(arc(("https://e.com/", b"x")) + b"no header\n")


@pytest.mark.guarantee("memory is bounded, whatever an archive holds", fault="an endless ARC header")
def test_a_header_that_never_ends_is_not_read_into_memory() -> None:
    given = 0

    def chunks() -> Iterator[bytes]:
        nonlocal given
        yield arc(("https://e.com/", b"x"))
        for _ in range(1000):
            given += 2**20
            yield b"x" * 2**20

    with pytest.raises(InputError, match="the header of a record is longer than 65536 bytes"):
        list(split_arc(chunks(), "a.arc", 2**20))
    assert given < 2**23


def test_a_deflated_bomb_in_a_wacz_is_read_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "bomb.wacz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/a.warc", b"WARC/1.1\r\nContent-Length: 100000000\r\n\r\n" + bytes(10**8))
    (outcome,) = read_records(path)
    assert outcome.record.fault is not None
    assert outcome.record.fault[0] is RejectReason.TOO_LARGE


def zipped(*files: tuple[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", method) as archive:
        for name, content in files:
            archive.writestr(name, content)
    return data.getvalue()


def encrypted() -> bytes:
    """The flag of a password in both headers of the file."""
    data = zipped(("archive/a.warc", b"x"))
    for magic, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = data.index(magic) + place
        data = data[:at] + struct.pack("<H", 1) + data[at + 2 :]
    return data


def test_no_warc_file_in_a_wacz_is_left_out_for_its_compression(tmp_path: Path) -> None:
    pack: dict[str, Callable[[bytes], bytes]] = {
        "": bytes,
        ".gz": gzip.compress,
        ".xz": lzma.compress,
        ".bz2": bz2.compress,
        ".zst": zstandard.compress,
    }
    files = [(f"archive/{i}.WARC{end}", form(warc_record(i, f"u{i}"))) for i, (end, form) in enumerate(pack.items())]
    path = tmp_path / "crawl.wacz"
    path.write_bytes(zipped(*files))
    assert [outcome.record.number for outcome in read_records(path)] == [0, 1, 2, 3, 4]


WRONG: dict[str, tuple[Callable[[], bytes], str]] = {
    "no WARC in it": (lambda: zipped(("pages.jsonl", b"{}")), "is a zip without WARC files in archive/"),
    "cut": (lambda: zipped(("archive/a.warc", b"x"))[:-30], "is a damaged zip: it has no end record"),
    "another method": (lambda: zipped(("archive/a.warc", b"x"), method=zipfile.ZIP_BZIP2), "stored or deflated"),
    "a password": (encrypted, "stored or deflated, without a password"),
    "in gzip": (lambda: gzip.compress(zipped(("archive/a.warc", b"x"))), "a zip archive compressed with gzip"),
    "a damaged file": (
        lambda: zipped(("archive/a.warc", warc_record(1, "u"))).replace(b"200 OK", b"299 OK", 1),
        "is a damaged zip: Bad CRC-32",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_zip_that_cannot_be_read_is_one_line(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make, words = WRONG[case]
    path = tmp_path / "crawl.wacz"
    path.write_bytes(make())
    code, error = refused(capsys, path)
    assert (code, words in error) == (3, True), error


def test_a_long_list_of_files_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_wacz(tmp_path / "crawl.wacz")
    monkeypatch.setattr(formats, "MOST_DIRECTORY_BYTES", 100)
    with pytest.raises(InputError, match="must have a list of files of at most 100 bytes, got 2"):
        read_records(path)


def test_without_warcio_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "crawl.arc"
    path.write_bytes(crawl())
    monkeypatch.setitem(sys.modules, "warcio", None)
    with pytest.raises(
        InputError, match=r"is ARC.*warcio, which reads it, is not installed; pip install 'spotsieve\[archives\]'"
    ):
        read_records(path)
