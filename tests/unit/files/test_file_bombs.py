"""Files and records that unfold to far more than they are: bounded memory, a reason for each, and the run goes on."""

import bz2
import gzip
import io
import json
import lzma
import subprocess
import sys
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import cramjam
import pytest
import zstandard

from spotsieve.stream.base.errors import EXIT_SUSPICIOUS, PageError, RejectReason
from spotsieve.stream.files.compression import read_chunks
from spotsieve.stream.files.warc import split_warc
from spotsieve.stream.files.warc.http import MAX_CODINGS, MAX_HEADER_BYTES, field_lines, read_http
from tests.conftest import REPOSITORY
from tests.fixtures.cpu_time import assert_cpu_grows
from tests.fixtures.filter_crawl import lines, page, read_json, warc_record
from tests.fixtures.pages.warc_records import chunked, http, warc

MIB = 2**20
MOST_RESIDENT = 1200 * MIB
"""Bound of a filter's memory: 330 MiB of it are the interpreter, its libraries and the compiled kernels."""
MEASURED = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
raise SystemExit(code)
"""
"""Runs a command and tells its most memory, in KiB. A process starts with its parent's: this parent is small."""
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "xz": lzma.compress,
    "zst": zstandard.ZstdCompressor().compress,
    "bz2": bz2.compress,
}
CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": lambda data: bytes(cramjam.brotli.compress(data, 5)),
    "zstd": zstandard.ZstdCompressor().compress,
}


class Ran(NamedTuple):
    """A filter that has ended. resident: the most memory it had, in bytes."""

    summary: dict[str, Any]
    verdicts: list[dict[str, Any]]
    resident: int


def filter_alone(tmp_path: Path, *files: Path, code: int = 0) -> Ran:
    """`spotsieve filter` over files, in a process whose memory is measured."""
    verdicts = tmp_path / "verdicts.jsonl"
    command = [
        sys.executable,
        "-m",
        "spotsieve.stream",
        "filter",
        "--json",
        *map(str, files),
        "--verdicts",
        str(verdicts),
    ]
    ran = subprocess.run(
        [sys.executable, "-c", MEASURED, *command], check=False, cwd=REPOSITORY, capture_output=True, text=True
    )
    assert ran.returncode == code, ran.stderr
    *_, resident = ran.stderr.splitlines()
    return Ran(json.loads(ran.stdout), read_json(verdicts), int(resident) * 1024)


@pytest.mark.guarantee(
    "hostile input costs bounded time and memory, and the run continues",
    fault="small files that decompress to a line of 100 MB",
)
def test_a_line_of_100_mb_in_a_small_file_is_rejected_and_the_next_page_judged(tmp_path: Path) -> None:
    bomb = b'{"url": "https://a.example/", "body": "' + bytes(100 * MIB) + b'"}\n'
    files = []
    for number, (kind, compress) in enumerate(COMPRESS.items()):
        files.append(tmp_path / f"crawl.jsonl.{kind}")
        files[-1].write_bytes(compress(lines([page(2 * number)]) + bomb + lines([page(2 * number + 1)])))
        assert files[-1].stat().st_size < MIB
    ran = filter_alone(tmp_path, *files, code=3)
    assert [line["id"] for line in ran.verdicts] == [f"p{number}" for number in range(2 * len(COMPRESS))]
    assert ran.summary["rejected_reasons"] == {"too_large": len(COMPRESS)}
    assert ran.resident < MOST_RESIDENT


@pytest.mark.guarantee(
    "hostile input costs bounded time and memory, and the run continues",
    fault="records that decompress to a thousand times their size",
)
def test_records_that_unfold_beyond_the_limit_are_unchecked_and_the_next_is_judged(tmp_path: Path) -> None:
    # together 1.3 GB of pages: each is unfolded to one byte more than max_page_bytes, and so seen to be larger
    file = tmp_path / "crawl.warc"
    with file.open("wb") as out:
        for coding, fold in CODINGS.items():
            folded = fold(b"<p>the bomb" + bytes(17 * MIB))
            out.write(warc(http(folded, f"Content-Encoding: {coding}")) * 20)
        out.write(warc_record(1, "https://b.example/"))
    ran = filter_alone(tmp_path, file, code=EXIT_SUSPICIOUS)
    # their beginnings are byte-identical
    assert ran.summary["reasons"] == {"not_text": 1, "exact": 79, "no_match": 1}
    assert ran.verdicts[-1]["verdict"] == "novel"
    assert ran.resident < MOST_RESIDENT


def test_a_bomb_of_lines_is_divided_a_megabyte_at_a_time(tmp_path: Path) -> None:
    # as one chunk of 64 MB it was a list of 64 million lines
    file = tmp_path / "crawl.jsonl.zst"
    file.write_bytes(COMPRESS["zst"](lines([page(1)]) + b"\n" * (20 * MIB) + lines([page(2)])))
    with file.open("rb") as opened:
        assert max(map(len, read_chunks(opened, "bomb"))) <= MIB
    ran = filter_alone(tmp_path, file)
    assert [line["id"] for line in ran.verdicts] == ["p1", "p2"]
    assert ran.resident < MOST_RESIDENT


@pytest.mark.guarantee(
    "hostile input costs bounded time and memory, and the run continues",
    fault="a small file that decompresses to 200 MB of empty lines before its first record",
)
def test_white_space_before_the_first_record_is_not_gathered(tmp_path: Path) -> None:
    file = tmp_path / "crawl.jsonl.zst"
    file.write_bytes(COMPRESS["zst"](b"\n" * (200 * MIB) + lines([page(1)])))
    ran = filter_alone(tmp_path, file)
    assert [line["id"] for line in ran.verdicts] == ["p1"]
    assert ran.resident < 600 * MIB


def test_json_of_ten_million_brackets_is_rejected(tmp_path: Path) -> None:
    file = tmp_path / "crawl.jsonl"
    deep = b"[" * 10_000_000
    surrogates = b'{"url": "\\ud800", "body": ' + deep
    file.write_bytes(b"\n".join([b'{"a":' + deep, surrogates, b""]) + lines([page(1)]))
    ran = filter_alone(tmp_path, file, code=3)
    assert ran.summary["rejected_reasons"] == {"not_json": 2}
    assert [line["id"] for line in ran.verdicts] == ["p1"]
    assert ran.resident < MOST_RESIDENT


def test_a_file_within_a_file_is_not_unfolded(tmp_path: Path) -> None:
    file = tmp_path / "crawl.jsonl.gz"
    file.write_bytes(gzip.compress(gzip.compress(bytes(100 * MIB))))
    ran = filter_alone(tmp_path, file, code=3)
    assert ran.verdicts == []
    assert set(ran.summary["rejected_reasons"]) == {"not_json"}


@pytest.mark.parametrize("kind", COMPRESS)
def test_a_file_of_40_000_empty_members_is_read_in_linear_time(kind: str) -> None:
    member = b"\x50\x2a\x4d\x18" + bytes(4) if kind == "zst" else COMPRESS[kind](b"")  # a skippable frame of 8 bytes

    def read(count: int) -> None:
        assert b"".join(read_chunks(io.BytesIO(member * count), kind)) == b""

    assert_cpu_grows(read, 5_000, 40_000, most=20, extra=0.05)


def test_short_records_with_bare_line_feeds_are_divided_in_linear_time() -> None:
    record = b"WARC/1.0\nContent-Length: 0\n\n\n"

    def divide(count: int) -> None:
        assert sum(1 for _ in split_warc(iter([record * count]))) == count

    assert_cpu_grows(divide, 2_000, 40_000, most=60)  # 20 where linear, 400 where quadratic


def test_codings_within_codings_are_unfolded_five_deep_and_no_deeper() -> None:
    def nested(depth: int) -> bytes:
        body = b"<p>the text at the bottom"
        for _ in range(depth):
            body = gzip.compress(body)
        return http(body, f"Content-Encoding: {', '.join(['gzip'] * depth)}")

    assert read_http(nested(MAX_CODINGS), 1000).body == b"<p>the text at the bottom"
    with pytest.raises(
        PageError, match=r"Content-Encoding must name at most 5 codings, with those of Transfer-Encoding, got 6"
    ) as caught:
        read_http(nested(MAX_CODINGS + 1), 1000)
    assert caught.value.reason is RejectReason.BAD_WARC


def test_every_layer_of_a_nested_bomb_is_cut_at_the_page_limit() -> None:
    inner = gzip.compress(bytes(100 * MIB))
    assert len(read_http(http(gzip.compress(inner), "Content-Encoding: gzip, gzip"), MIB).body) == MIB + 1


@pytest.mark.parametrize("coding", ["gzip", "deflate", "zstd"])
def test_a_body_of_many_small_members_is_decoded_in_linear_time(coding: str) -> None:
    def read(members: int, last: bytes) -> None:
        block = http(CODINGS[coding](b"x") * members + last, f"Content-Encoding: {coding}")
        assert read_http(block, MIB).body == b"x" * members

    for last in (b"", b"garbage"):
        assert_cpu_grows(partial(read, last=last), 10_000, 80_000, most=24, extra=0.1)


def test_garbage_behind_a_bomb_of_zstd_lifts_no_limit() -> None:
    body = CODINGS["zstd"](bytes(100 * MIB)) * 2 + b"garbage"
    assert len(read_http(http(body, "Content-Encoding: zstd"), MIB).body) == MIB + 1
    small = CODINGS["zstd"](b"x") + body
    assert len(read_http(http(small, "Content-Encoding: zstd"), MIB).body) == MIB + 1


def test_a_response_header_of_megabytes_is_rejected() -> None:
    fits = b"HTTP/1.1 200 OK\r\nx: " + b"a" * (MAX_HEADER_BYTES - 24) + b"\r\n\r\nbody"
    assert read_http(fits, 1000).body == b"body"
    for head in (fits.replace(b"x:", b"xy:"), b"HTTP/1.1 200 OK\r\n" + b"a:\r\n" * 10**6 + b"\r\n\r\nbody"):
        with pytest.raises(PageError, match=f"a header of at most {MAX_HEADER_BYTES} bytes") as caught:
            read_http(head, 1000)
        assert caught.value.reason is RejectReason.BAD_WARC


def test_a_header_of_folded_lines_is_read_in_linear_time() -> None:
    def read(lines: int) -> None:
        assert field_lines("\nx: a\n" + " b\n" * lines) == [("x", "a" + " b" * lines)]

    assert_cpu_grows(read, 40_000, 400_000, most=24, extra=0.24)


def test_a_body_of_a_million_chunks_and_one_whose_chunk_says_that_it_is_endless() -> None:
    header = "Transfer-Encoding: chunked"
    assert len(read_http(http(chunked(b"ab" * 10**6, 2), header), 10 * MIB).body) == 2 * 10**6
    assert read_http(http(b"f" * 1000 + b"\r\nthe text", header), MIB).body == b"the text"
    folded = chunked(gzip.compress(bytes(100 * MIB)), 100)
    assert len(read_http(http(folded, header, "Content-Encoding: gzip"), MIB).body) == MIB + 1
