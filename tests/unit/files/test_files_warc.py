"""WARC is divided into records with all their bytes; responses become pages as a browser would see them."""

import gzip
import itertools
import random
import zlib
from collections.abc import Callable, Iterator

import cramjam
import pytest
import zstandard

from spotsieve.stream.base.errors import InputError, PageError, RejectReason
from spotsieve.stream.base.settings.model import InputSettings
from spotsieve.stream.files.file_format import Capture, Record
from spotsieve.stream.files.warc import capture_of, closed, split_warc
from spotsieve.stream.files.warc.formats import WARC
from spotsieve.stream.sign.intake.content import Content, read_content_type
from tests.fixtures.pages.warc_records import HTML, STATUS_LINES, chunked, http, warc

TIME_MS = 1_709_251_210_000


def split(data: bytes, step: int = 1000, most: int = 100_000) -> list[Record]:
    return list(split_warc(iter([data[start : start + step] for start in range(0, len(data), step)]), most))


def capture(raw: bytes, most: int = 10_000) -> Capture:
    found = capture_of(raw, most, 5)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("values", "kind", "charset"),
    [
        # The examples of the Fetch standard, "extract a MIME type".
        (["text/plain;charset=gbk", "text/html"], Content.HTML, None),
        (["text/html;charset=gbk;a=b", "text/html;x=y"], Content.HTML, "gbk"),
        (["text/html;charset=gbk;a=b", "text/html"], Content.HTML, "gbk"),
        (["text/html;charset=gbk", "x/x", "text/html;x=y"], Content.HTML, None),
        (["text/html", "cannot-parse"], Content.HTML, None),
        (["text/html", "", "text/plain; charset=koi8-r"], Content.PLAIN, "koi8-r"),
        (["", ""], Content.UNKNOWN, None),
    ],
)
def test_of_several_content_type_lines_the_last_valid_one_counts(
    values: list[str], kind: Content, charset: str | None
) -> None:
    lines = "".join(f"content-TYPE: {value}\r\n" for value in values)
    found = capture(warc(f"HTTP/1.1 200 OK\r\n{lines}\r\n<p>text".encode()))
    assert read_content_type(found.content_type) == (kind, charset)


@pytest.mark.parametrize("step", [1, 7, 1000, 10**6])
def test_records_have_all_their_bytes_and_put_together_are_the_file(step: int) -> None:
    records = [
        warc(b"software: x\r\n", "warcinfo"),
        warc(http()),
        warc(HTML, "resource"),
        warc(http(b"\r\n\r\nWARC/1.0\r\n")),
    ]
    found = split(b"".join(records), step)
    assert [record.raw for record in found] == records
    assert [record.number for record in found] == [0, 1, 2, 3]
    assert not any(record.fault for record in found)


def test_a_response_is_a_page_with_the_servers_content_type() -> None:
    assert capture(warc(http())) == Capture("https://example.com/a", "text/html; charset=utf-8", HTML, TIME_MS, 200)


def test_resource_and_conversion_records_are_pages_with_the_records_content_type() -> None:
    for kind in ("resource", "conversion"):
        found = capture(warc(b"plain text", kind, Content_Type="text/plain"))
        assert (found.content_type, found.body) == ("text/plain", b"plain text")


def test_line_feeds_alone_and_angle_brackets_of_old_tools_are_read() -> None:
    raw = warc(http(), WARC_Target_URI="<https://example.com/b>").replace(b"\r\n", b"\n")
    (record,) = split(raw)
    found = capture(record.raw.replace(f"Content-Length: {len(http())}".encode(), b"Content-Length: 114"))
    assert found.url == "https://example.com/b"
    assert HTML in found.body


@pytest.mark.parametrize("ends", [*itertools.product((b"\n", b"\r\n", b"\r\r\n"), repeat=2)])
def test_a_header_ends_at_its_first_empty_line_whatever_its_line_ends(ends: tuple[bytes, bytes]) -> None:
    line, empty = ends
    block = b"HTTP/1.1 200 OK" + line + b"Content-Type: text/html" + line + empty + b"<p>\n\nA\r\n\r\nB"
    found = capture(warc(block))
    assert (found.content_type, found.body) == ("text/html", b"<p>\n\nA\r\n\r\nB")


@pytest.mark.parametrize(
    ("kind", "content_type"),
    [
        ("warcinfo", "application/warc-fields"),
        ("request", "application/http; msgtype=request"),
        ("metadata", "application/warc-fields"),
        ("revisit", "application/http; msgtype=response"),
        ("response", "text/dns"),
        ("unheard-of", "text/html"),
    ],
)
def test_other_records_are_no_pages(kind: str, content_type: str) -> None:
    assert capture_of(warc(b"x: y\r\n", kind, Content_Type=content_type), 1000, 0) is None


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (chunked(HTML), ["Transfer-Encoding: chunked"]),
        (gzip.compress(HTML, mtime=0), ["Content-Encoding: gzip"]),
        (chunked(gzip.compress(HTML, mtime=0)), ["content-encoding: GZIP", "transfer-encoding: chunked"]),
        (zlib.compress(HTML), ["Content-Encoding: deflate"]),
        (zlib.compress(HTML, wbits=-15), ["Content-Encoding: deflate"]),
        (bytes(cramjam.brotli.compress(HTML)), ["Content-Encoding: br"]),
        (zstandard.compress(HTML), ["Content-Encoding: zstd"]),
        (zlib.compress(gzip.compress(HTML, mtime=0)), ["Content-Encoding: gzip, deflate"]),
        (HTML, ["Content-Encoding: gzip"]),
        (HTML, ["Content-Encoding: br"]),
        (HTML, ["Content-Encoding: zstd"]),
        (HTML, ["Content-Encoding: deflate"]),
        (HTML, ["Content-Encoding: identity"]),
        (HTML, ["Transfer-Encoding: chunked"]),
        (HTML, ["Content-Length: 99999"]),
    ],
)
def test_bodies_are_unfolded_and_those_only_said_to_be_folded_are_taken_as_they_are(
    body: bytes, headers: list[str]
) -> None:
    assert capture(warc(http(body, *headers))).body == HTML


STALE = {
    "deflate": [
        b"Section:pages. " + b"Each of the pages has a text of its own, and some of them have a title. " * 40,
        b"[Quick come own `make his story` and go on with many other words, as in any text. " * 40,
    ],
    "br": [
        b"3 of the pages have a text of their own, and some of them have a title. " * 40,
        b"3272 from flood import public, and other words as in any text of some length. " * 40,
        b"1) learns words without and go on with many other words, as in any text. " * 40,
    ],
}


@pytest.mark.parametrize(("coding", "text"), [(coding, text) for coding in STALE for text in STALE[coding]])
def test_plain_text_that_begins_like_its_stale_coding_is_taken_as_it_is(coding: str, text: bytes) -> None:
    for body in (text, text[:400], text + b"x"):
        found = capture(warc(http(body, f"Content-Encoding: {coding}")))
        assert (found.body, found.whole) == (body, True)


@pytest.mark.parametrize("size", [0, 1, 10, 1000, 200_000])
@pytest.mark.parametrize("behind", [b"", b"\r\n", b"12345678"])
def test_bodies_that_no_coding_shrinks_are_decoded(size: int, behind: bytes) -> None:
    text = random.Random(7).randbytes(size)
    deflate = zlib.compressobj(wbits=-15)
    level_0 = zlib.compressobj(0, wbits=-15)
    for body in (deflate.compress(text) + deflate.flush(), level_0.compress(text) + level_0.flush()):
        assert read_body("deflate", body + behind) == text
    assert read_body("br", bytes(cramjam.brotli.compress(text)) + behind) == text


ENCODE: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: gzip.compress(data, mtime=0),
    "deflate": zlib.compress,
    "zstd": zstandard.compress,
}
PARTS = [b"<p>one " * 3000, b"", b"<p>two " * 2, HTML]


def encoded(coding: str) -> tuple[bytes, bytes]:
    """A body of several members or frames, and its text."""
    return b"".join(map(ENCODE[coding], PARTS)), b"".join(PARTS)


def read_body(coding: str, body: bytes, most: int = 10**6) -> bytes:
    return capture(warc(http(body, f"Content-Encoding: {coding}")), most).body


@pytest.mark.parametrize("coding", ENCODE)
def test_every_member_of_a_body_is_decoded_up_to_the_limit(coding: str) -> None:
    body, text = encoded(coding)
    assert read_body(coding, body) == text
    for most in (1, len(PARTS[0]) - 1, len(PARTS[0]), len(PARTS[0]) + 1, len(text) - 1):
        assert read_body(coding, body, most) == text[: most + 1]
    assert read_body(f"{coding}, {coding}", ENCODE[coding](body) + ENCODE[coding](b"")) == text


@pytest.mark.parametrize("garbage", [b"x", b"\r\n", bytes(600), b"<!-- cached -->", b"PK\x03\x04" * 1000])
@pytest.mark.parametrize("coding", ENCODE)
def test_bytes_behind_the_last_member_that_begin_no_member_are_ignored(coding: str, garbage: bytes) -> None:
    body, text = encoded(coding)
    assert read_body(coding, body + garbage) == text
    assert read_body(coding, body + garbage, 4999) == text[:5000]
    assert read_body(coding, body + garbage + body) == text


def test_skippable_frames_of_zstd_have_no_text() -> None:
    skippable = b"\x5a\x2a\x4d\x18\x04\x00\x00\x00note"
    body = skippable + skippable.join(map(zstandard.compress, PARTS)) + skippable
    assert read_body("zstd", body) == b"".join(PARTS)
    assert read_body("zstd", body + b"garbage") == b"".join(PARTS)


@pytest.mark.parametrize("coding", ENCODE)
def test_a_body_cut_anywhere_gives_the_beginning_of_its_text(coding: str) -> None:
    body, text = encoded(coding)
    last = len(body) - len(ENCODE[coding](PARTS[-1]))
    for end in range(last, len(body)):
        found = read_body(coding, body[:end])
        assert text.startswith(found)
        assert len(found) >= len(text) - len(PARTS[-1])


@pytest.mark.parametrize("coding", ENCODE)
def test_a_body_with_a_damaged_member_gives_the_text_before_it(coding: str) -> None:
    body, text = encoded(coding)
    start = len(b"".join(map(ENCODE[coding], PARTS[:-1])))
    head = 10 if coding == "gzip" else 2 if coding == "deflate" else 4
    damaged = body[: start + head] + b"\xff" * 40 + body[start + head + 40 :]
    found = capture(warc(http(damaged, f"Content-Encoding: {coding}")), 10**6)
    assert text.startswith(found.body)
    assert coding == "zstd" or len(found.body) >= len(PARTS[0]) + len(PARTS[2])
    assert not found.whole


@pytest.mark.parametrize("coding", ENCODE)
def test_a_cut_body_is_never_whole_and_an_uncut_one_is(coding: str) -> None:
    body, text = encoded(coding)
    fields = f"Content-Encoding: {coding}", f"Content-Length: {len(body)}"
    whole = capture(warc(http(body, *fields)), 10**6)
    assert (whole.body, whole.whole) == (text, True)
    for end in range(8, len(body)):
        cut = capture(warc(http(body[:end], *fields)), 10**6)
        assert text.startswith(cut.body)
        assert not cut.whole
    ends = {len(b"".join(map(ENCODE[coding], PARTS[:count]))) for count in range(1, len(PARTS) + 1)}
    ends |= {end + 1 for end in ends if coding == "deflate"}  # One byte is no header.
    without_length = [end for end in range(8, len(body)) if capture(warc(http(body[:end], fields[0])), 10**6).whole]
    assert set(without_length) <= ends, "only between members"


@pytest.mark.parametrize("damage", [b"\0\0\0\0\1\1\1\1", b"\xff" * 8])
def test_a_wrong_checksum_behind_the_text_of_a_member_is_ignored(damage: bytes) -> None:
    for coding, trailer in (("gzip", 8), ("deflate", 4)):
        part = ENCODE[coding](PARTS[0])
        found = capture(warc(http(part[:-trailer] + damage[:trailer], f"Content-Encoding: {coding}")), 10**6)
        assert (found.body, found.whole) == (PARTS[0], True)
        found = capture(warc(http(part[:-trailer] + damage[:trailer] + part, f"Content-Encoding: {coding}")), 10**6)
        assert (found.body, found.whole) == (PARTS[0] * 2, True)


def test_every_optional_field_of_a_gzip_header_is_read() -> None:
    stream, fields = gzip.compress(HTML, mtime=0)[10:], {4: b"\5\0extra", 8: b"page.html\0", 16: b"a note\0", 2: b"xx"}
    for flags in range(0, 32, 2):
        header = b"\x1f\x8b\x08" + bytes([flags]) + bytes(6)
        header += b"".join(content for flag, content in fields.items() if flags & flag)
        assert read_body("gzip", header + stream) == HTML
        for end in range(3, len(header)):
            assert read_body("gzip", header[:end]) == b""


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        (zlib.compress(gzip.compress(HTML, mtime=0)), ["Content-Encoding: gzip", "content-encoding: deflate"]),
        (gzip.compress(HTML, mtime=0), ["Content-Encoding: gzip", "Content-Encoding: gzip"]),
        (gzip.compress(HTML, mtime=0), ["Content-Encoding:\r\n gzip"]),
        (zlib.compress(gzip.compress(HTML, mtime=0)), ["Content-Encoding: gzip,\r\n\tdeflate"]),
        (gzip.compress(HTML, mtime=0), ["X-Note: a\r\n  b: c", "Content-Encoding: identity, gzip"]),
        (chunked(gzip.compress(HTML, mtime=0)), ["Transfer-Encoding: gzip, chunked"]),
        (chunked(gzip.compress(HTML, mtime=0)), ["Transfer-Encoding: gzip", "Transfer-Encoding: chunked"]),
        (chunked(zlib.compress(gzip.compress(HTML, mtime=0))), ["Transfer-Encoding: deflate, chunked",
                                                               "Content-Encoding: gzip"]),
        (gzip.compress(HTML, mtime=0), ["Transfer-Encoding: gzip, chunked"]),
        (HTML, ["Transfer-Encoding: gzip, chunked"]),
    ],
)  # fmt: skip
def test_codings_in_several_lines_folded_lines_and_transfer_encoding_are_decoded(body: bytes, lines: list[str]) -> None:
    found = capture(warc(http(body, *lines)))
    assert (found.body, found.whole) == (HTML, True)


def test_a_field_whose_value_begins_on_a_folded_line_is_read() -> None:
    raw = warc(http())
    for name in (b"Content-Length", b"WARC-Target-URI", b"WARC-Type", b"WARC-Date"):
        for blanks in (b"\r\n ", b" \r\n\t", b"\r\n  \r\n "):
            (record,) = split(raw.replace(name + b": ", name + b":" + blanks))
            assert record.fault is None
            assert capture(record.raw) == capture(raw)


@pytest.mark.parametrize("line", STATUS_LINES)
@pytest.mark.parametrize("content_type", ["application/http; msgtype=response", "text/html", "unknown", ""])
def test_status_lines_that_servers_write_are_read(line: str, content_type: str) -> None:
    block = http().replace(b"HTTP/1.1 200 OK", line.encode())
    found = capture(warc(block, Content_Type=content_type))
    assert (found.body, found.status, found.content_type) == (HTML, 200, "text/html; charset=utf-8")


@pytest.mark.parametrize(
    "text", ["HTTP is a protocol.", "ICY roads are closed.", "https://example.com/ 200", "ICY 2026"]
)
def test_text_that_begins_like_a_status_line_is_no_http_message(text: str) -> None:
    assert capture_of(warc(text.encode(), Content_Type="text/plain"), 1000, 0) is None


INTERIM = [
    b"HTTP/1.1 100 Continue",
    b"HTTP/2 103 Early Hints\r\nLink: </a>",
    b"HTTP/1.0 200 Connection established\r\nA: b",
]


@pytest.mark.parametrize("before", [*([head] for head in INTERIM), INTERIM, INTERIM[:1] * 5])
def test_the_page_is_the_final_response_behind_interim_ones(before: list[bytes]) -> None:
    final = http(gzip.compress(HTML), "Content-Encoding: gzip")
    found = capture(warc(b"".join(head + b"\r\n\r\n" for head in before) + final))
    assert (found.status, found.body, found.whole) == (200, HTML, True)
    cut = capture(warc(b"".join(head + b"\n\n" for head in before) + final[:-20]))
    assert HTML.startswith(cut.body)
    assert cut.encoded == final[final.index(b"\r\n\r\n") + 4 : -20]


@pytest.mark.parametrize(
    ("body", "status"), [(b"", 100), (b"<p>HTTP/1.1 200 OK", 100), (b"HTTP/1.1 404 No\r\n\r\n", 200)]
)
def test_other_responses_are_no_interim_ones(body: bytes, status: int) -> None:
    found = capture(warc(f"HTTP/1.1 {status} OK\r\n\r\n".encode() + body))
    assert (found.status, found.body) == (status, body)


def test_of_a_cut_body_what_can_be_unfolded_is_kept() -> None:
    text = b"".join(b"word %d " % number for number in range(2000))
    found = capture(warc(http(gzip.compress(text, mtime=0)[:-200], "Content-Encoding: gzip")), 10**6)
    assert text.startswith(found.body)
    assert len(found.body) > 5000
    for cut_off in (1, 200):
        brotli = bytes(cramjam.brotli.compress(text))[:-cut_off]
        found = capture(warc(http(brotli, "Content-Encoding: br")), 10**6)
        assert text.startswith(found.body)
        assert len(found.body) > 5000
        assert capture(warc(http(brotli, "Content-Encoding: br")), 999).body == text[:1000]
    cut = chunked(HTML, 20)[:50]  # two chunk heads of 10 bytes, a line end of 2
    assert capture(warc(http(cut, "Transfer-Encoding: chunked"))).body == HTML[:28]


NUMBERED = [
    b"1\n00:00:01,000 --> 00:00:04,000\nThe mayor spoke.\n",
    b"1\r\n00:00:01,000 --> 00:00:04,000\r\nThe mayor spoke.\r\n",
    b"2024\nAnnual report of the mayor\n",
    b"0\nNothing was spent.\n",
    b"0\r\nDegrees: none\r\nas was expected\r\n",
    b"1_0\r\nabcdefghijklmnop",
    b"+3\r\nabc\r\n0\r\n\r\n",
    b"0x3\r\nabc\r\n0\r\n\r\n",
]
"""Texts whose first line looks like the size of a chunk."""


@pytest.mark.parametrize(
    ("body", "text", "whole"),
    [
        (b"3\r\nabc\r\n0\r\n\r\n", b"abc", True),
        (b"3\r\nabc\r\n0", b"abc", False),
        (b"3\r\nabc\r\n", b"abc", False),
        (b"3\r\nabc\r\n-3\r\nxyz\r\n0\r\n\r\n", b"abc", False),
        (b"3\r\nabc\r\nno size\r\nxyz", b"abc", False),
        (b"-5\r\n degrees are expected", b"-5\r\n degrees are expected", True),
        (b"5 degrees\r\nare expected", b"5 degrees\r\nare expected", True),
        (b"0\r\nExpires: 0\r\n\r\n", b"", True),
        (b"000\n", b"", True),
        (b"3  \r\nabc\r\n 2;a=b\nde\n0\nX-A: b", b"abcde", True),
        (b"10\r\nabc", b"abc", False),
        (b"f" * 99 + b"\r\nabc", b"abc", False),
        (b"3\r\nabc\r\n0_0\r\n\r\n", b"abc", False),
        *((text, text, True) for text in NUMBERED),
    ],
)
def test_a_body_is_whole_if_its_chunks_have_an_end_or_it_has_none(body: bytes, text: bytes, whole: bool) -> None:
    found = capture(warc(http(body, "Transfer-Encoding: chunked")))
    assert (found.body, found.whole) == (text, whole)


@pytest.mark.parametrize(
    ("encoding", "fold"), [("gzip", gzip.compress), ("zstd", zstandard.compress), ("br", cramjam.brotli.compress)]
)
def test_a_bomb_in_a_body_is_unfolded_to_just_over_the_limit(encoding: str, fold: Callable[[bytes], bytes]) -> None:
    found = capture(warc(http(bytes(fold(bytes(50_000_000))), f"Content-Encoding: {encoding}")), 10_000)
    assert len(found.body) == 10_001


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (warc(b"no status line"), RejectReason.BAD_WARC),
        (warc(b""), RejectReason.BAD_WARC),
        (warc(http(), WARC_Target_URI=""), RejectReason.BAD_WARC),
        (warc(http(), WARC_Date="some day"), RejectReason.BAD_TIME),
    ],
)
def test_a_response_without_what_a_page_needs_is_rejected(raw: bytes, reason: RejectReason) -> None:
    with pytest.raises(PageError) as caught:
        capture_of(raw, 1000, 0)
    assert caught.value.reason is reason
    assert caught.value.next_step


@pytest.mark.parametrize(
    ("date", "time_ms"),
    [
        ("2016", 1_451_606_400_000),
        ("2016-02", 1_454_284_800_000),
        ("20160111232425", 1_452_554_665_000),
        ("2024-03-01T00:00:10", TIME_MS),
        ("2024-03-01T00:00:10.250Z", TIME_MS + 250),
        ("2024-03-01T00:00:10.123456789Z", TIME_MS + 123),
        ("2024-03-01t00:00:10z", TIME_MS),
        ("2024-3-1T0:0:10Z", TIME_MS),
        ("2024-03-01T01:00:10+01:00", TIME_MS),
        ("2024-02-29T23:59:60Z", TIME_MS - 10_000),
        ("2024-02-29T23:59:60.5Z", TIME_MS - 9500),
        ("2024-02-29T24:00:00Z", TIME_MS - 10_000),
        ("Fri, 01 Mar 2024 00:00:10 GMT", TIME_MS),
        ("Friday, 01-Mar-24 00:00:10 GMT", TIME_MS),
        ("Fri Mar  1 00:00:10 2024", TIME_MS),
        ("Thu, 29 Feb 2024 23:59:60 GMT", TIME_MS - 10_000),
    ],
)
def test_a_date_is_read_in_every_form_of_iso_8601_http_and_cdx(date: str, time_ms: int) -> None:
    assert capture(warc(http(), WARC_Date=date)).time_ms == time_ms


@pytest.mark.parametrize("date", ["2024-02-30T00:00:00Z", "2024-03-01T25:00:00Z", "Fri, 01 Mar", "1:59:60", "GMT" * 50])
def test_a_date_that_does_not_exist_is_rejected(date: str) -> None:
    with pytest.raises(PageError) as caught:
        capture_of(warc(http(), WARC_Date=date), 1000, 0)
    assert caught.value.reason is RejectReason.BAD_TIME


@pytest.mark.parametrize("content_type", ["message/http", "Message/HTTP; msgtype=response", "", "text/html", "unknown"])
def test_a_response_is_http_by_its_first_bytes_whatever_its_content_type(content_type: str) -> None:
    assert capture(warc(http(), Content_Type=content_type)) == capture(warc(http()))


def test_a_response_without_content_type_needs_an_http_header_unless_it_is_of_dns() -> None:
    with pytest.raises(PageError) as caught:
        capture_of(warc(HTML, Content_Type=""), 1000, 0)
    assert caught.value.reason is RejectReason.BAD_WARC
    assert capture_of(warc(b"20240301\n", Content_Type="", WARC_Target_URI="dns:example.com"), 1000, 0) is None


@pytest.mark.parametrize("version", [b"warc/1.0", b"Warc/1.1", b"WARC/0.18"])
@pytest.mark.parametrize("step", [1, 9, 10**6])
def test_the_version_of_a_record_may_be_in_lower_case(version: bytes, step: int) -> None:
    record = warc(http()).replace(b"WARC/1.1", version)
    first, bad, last = split(record + b"garbage\r\n" + record, step)
    assert (first.raw, last.raw) == (record, record)
    assert bad.fault
    assert capture(first.raw) == capture(warc(http()))
    assert WARC.recognizes(record)


PATTERNS = InputSettings().companion_uris


@pytest.mark.parametrize("kind", ["resource", "conversion"])
@pytest.mark.parametrize(
    "uri",
    [
        "urn:pageinfo:https://e.com/",
        "urn:text:https://e.com/",
        "urn:textFinal:http://e.com/",
        "URN:View:https://e.com/",
        "urn:fullPage:https%3A%2F%2Fe.com%2F",
        "urn:thumbnail:e.com",
        "<urn:fulltext:https://e.com/>",
        "metadata://gnu.org/software/wget/warc/MANIFEST.txt",
        "screenshot:https://e.com/",
        "screenshot://e.com/",
    ],
)
def test_records_that_a_crawler_writes_about_a_page_are_no_pages(kind: str, uri: str) -> None:
    for date in ("2024-03-01T00:00:10Z", "some day"):
        raw = warc(b"text", kind, WARC_Target_URI=uri, Content_Type="text/plain", WARC_Date=date)
        assert capture_of(raw, 1000, 0, PATTERNS) is None
    raw = warc(b"text", kind, WARC_Target_URI=uri, Content_Type="text/plain")
    assert capture(raw).body == b"text", "the setting is empty"


@pytest.mark.parametrize("uri", ["https://e.com/urn:text:https://e.com/", "urn:isbn:0451450523", "file:///a.html"])
def test_records_with_other_uris_are_pages(uri: str) -> None:
    raw = warc(b"text", "resource", WARC_Target_URI=uri, Content_Type="text/plain")
    assert capture_of(raw, 1000, 0, PATTERNS) is not None
    assert capture_of(warc(http(), WARC_Target_URI=uri), 1000, 0, PATTERNS) is not None


def test_a_pattern_of_companions_is_literal_except_for_the_star() -> None:
    raw = warc(b"text", "resource", WARC_Target_URI="note[1]?of:x", Content_Type="text/plain")
    assert capture_of(raw, 1000, 0, ("note[1]?of:*",)) is None
    assert capture_of(raw, 1000, 0, ("note?1*",)) is not None


def test_a_missing_date_is_replaced_by_the_files() -> None:
    assert capture(warc(http(), WARC_Date="")).time_ms == 5


@pytest.mark.parametrize(
    "broken",
    [
        warc(http(), Content_Length=""),
        warc(http(), Content_Length="many"),
        warc(http(), Content_Length="-5"),
        warc(http(), Content_Length="1" * 30),
        b"garbage\r\n",
        b"WARC/1.1\r\nX: " + b"x" * 70_000 + b"\r\n\r\n",
    ],
)
@pytest.mark.parametrize("step", [13, 10**6])
def test_a_broken_record_is_rejected_and_the_next_is_found(broken: bytes, step: int) -> None:
    first, bad, last = split(warc(http()) + broken + b"\r\n" + warc(HTML, "resource"), step)
    assert first.raw == warc(http())
    assert bad.fault
    assert bad.fault[0] is RejectReason.BAD_WARC
    assert (last.number, last.raw) == (2, warc(HTML, "resource"))


def test_a_record_over_the_limit_is_passed_over_without_being_held() -> None:
    big, last = split(warc(http(b"x" * 200_000)) + warc(http()))
    assert big.fault
    assert big.fault[0] is RejectReason.TOO_LARGE
    assert len(big.raw) <= 1024
    assert last.raw == warc(http())


@pytest.mark.parametrize("keep", [20, 150, 280, 300])
def test_a_file_that_ends_within_a_record_has_a_truncated_record(keep: int) -> None:
    first, cut = split(warc(http()) + warc(http())[:keep])
    assert first.fault is None
    assert cut.fault
    assert cut.fault[0] is RejectReason.TRUNCATED


def test_the_damage_of_a_file_is_raised_after_its_last_record() -> None:
    def chunks() -> Iterator[bytes]:
        yield warc(http()) + warc(http())[:200]
        raise InputError("f", "must be whole gzip")

    records = split_warc(chunks())
    assert next(records).fault is None
    cut = next(records)
    assert cut.fault
    assert cut.fault[0] is RejectReason.TRUNCATED
    with pytest.raises(InputError, match="whole gzip"):
        next(records)


@pytest.mark.parametrize("block", [http(), b"GET / HTTP/1.1\r\n\r\n"])
def test_a_record_is_closed_with_the_line_ends_that_it_lacks(block: bytes) -> None:
    whole = warc(block)
    assert [closed(whole.removesuffix(b"\r\n\r\n"[kept:]) if kept < 4 else whole) for kept in range(5)] == [whole] * 5
    for as_it_came in (whole[:-4] + b"\n\n", b"WARC/1.1", b"WARC/1.1\r\n\r\n"):
        assert closed(as_it_came) == as_it_came


@pytest.mark.parametrize("step", [1, 2, 1000])
def test_byte_order_marks_before_records_are_skipped(step: int) -> None:
    raw = warc(http())
    records = split("\ufeff".encode() + raw + "\r\n\ufeff".encode() + raw, step)
    assert [(record.raw, record.fault) for record in records] == [(raw, None), (raw, None)]
    assert split("\ufeff".encode(), step) == []


def test_an_empty_file_has_no_records() -> None:
    assert split(b"") == []
    assert split(b"\r\n\r\n") == []
