"""A small sample of each form, cut at every byte, is never a duplicate of another page."""

import base64
import gzip
import html
import io
import json
import random
import zlib
from collections.abc import Callable, Iterator
from functools import cache

import cramjam
import pytest
import zstandard

from spotsieve import Deduplicator
from spotsieve.stream.base.errors import InputError, PageError
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.model import InputSettings
from spotsieve.stream.files.compression import GzipMembers, read_chunks
from spotsieve.stream.files.file_format import FileContent, Intake
from spotsieve.stream.files.formats import format_of
from spotsieve.stream.local.library import CrawledPage
from tests.fixtures.pages.saved_pages import mhtml, part
from tests.fixtures.pages.warc_records import chunked, http, warc

WORDS = (
    "mill river council bridge harvest winter market baker garden stone letter window doctor engine forest island "
    "painter school theatre village captain farmer lawyer museum orchard railway station teacher tunnel valley"
).split()
NAV = "<nav><ul>" + "".join(f"<li><a href='/{word}'>{word} news</a></li>" for word in WORDS[:6]) + "</ul></nav>"
FOOTER = "<footer><p>All rights reserved by the publisher of this paper, and its owners.</p></footer>"


def prose(seed: int, sentences: int) -> str:
    draw = random.Random(seed)
    nouns = ([*draw.sample(WORDS, 3), draw.randrange(999)] for _ in range(sentences))
    return " ".join(
        f"The {one} was in the {other} and it had a {third}{number}." for one, other, third, number in nouns
    )


def article(seed: int) -> str:
    text = "".join(f"<p>{prose(10 * seed + number, 4)}</p>" for number in range(2))
    head = f"<!DOCTYPE html><html><head><title>{prose(seed, 1)}</title></head><body>"
    return f"{head}{NAV}<h1>{prose(seed, 1)}</h1>{text}{FOOTER}"


PAGE = article(1)
RENDERED = (
    f'<html><head><title>x</title></head><body><div id=__next></div><script id="__NEXT_DATA__" type="application/json">'
    f"{json.dumps({'props': {'body': prose(5, 9)}})}</script></body></html>"
)
ATOM = (
    f"<?xml version='1.0'?><feed xmlns='http://www.w3.org/2005/Atom'><title>x</title><entry><title>y</title>"
    f"<content type='html'>{html.escape('<p>' + prose(6, 9))}</content></entry></feed>"
)
SAVED = mhtml(part(PAGE.encode(), "quoted-printable", "text/html; charset=utf-8"), part(b"p {}", "base64", "text/css"))
DICTIONARY = zstandard.ZstdCompressionDict(
    b"WARC/1.1\r\nWARC-Type: response" * 40, dict_type=zstandard.DICT_TYPE_RAWCONTENT
)


def message(body: str | bytes, **fields: str) -> bytes:
    if isinstance(body, bytes):
        body, fields = base64.b64encode(body).decode(), {"body_encoding": "base64", **fields}
    return json.dumps({"url": "https://paper.example/cut", "body": body, **fields}).encode()


def each_cut(whole: bytes) -> Iterator[bytes]:
    return (whole[:end] for end in range(len(whole)))


def cut_payloads(payload: bytes, *headers: str) -> Iterator[bytes]:
    return (warc(http(cut, *headers), WARC_Target_URI="https://paper.example/cut") for cut in each_cut(payload))


def with_dictionary(records: bytes) -> bytes:
    frame = (
        (0x184D2A5D).to_bytes(4, "little") + len(DICTIONARY.as_bytes()).to_bytes(4, "little") + DICTIONARY.as_bytes()
    )
    return frame + zstandard.ZstdCompressor(dict_data=DICTIONARY).compress(records)


RECORD = warc(http(PAGE.encode()), WARC_Target_URI="https://paper.example/cut")
GZIP = gzip.compress(PAGE.encode(), mtime=0)
FORMS: dict[str, Callable[[], Iterator[bytes]]] = {
    "JSON line": lambda: each_cut(message(PAGE)),
    "HTML in a message": lambda: (message(PAGE[:end]) for end in range(len(PAGE))),
    "base64 in a message": lambda: map(message, each_cut(PAGE.encode("utf-16"))),
    "page rendered by scripts": lambda: (message(RENDERED[:end]) for end in range(len(RENDERED))),
    "feed": lambda: (message(ATOM[:end], content_type="application/atom+xml") for end in range(len(ATOM))),
    "MHTML in a message": lambda: map(message, each_cut(SAVED)),
    "MHTML in a WARC record": lambda: (
        warc(cut, "resource", Content_Type="multipart/related") for cut in each_cut(SAVED)
    ),
    "WARC": lambda: each_cut(RECORD),
    "WARC in gzip": lambda: each_cut(gzip.compress(RECORD, mtime=0)),
    "WARC in zstd with a dictionary": lambda: each_cut(with_dictionary(RECORD)),
    "gzip payload": lambda: cut_payloads(GZIP, "Content-Encoding: gzip"),
    "two gzip members": lambda: cut_payloads(GZIP[:-8] + GZIP[-8:] + GZIP, "Content-Encoding: gzip"),
    "deflate payload": lambda: cut_payloads(zlib.compress(PAGE.encode()), "Content-Encoding: deflate"),
    "zstd payload": lambda: cut_payloads(zstandard.compress(PAGE.encode()), "Content-Encoding: zstd"),
    "Brotli payload": lambda: cut_payloads(bytes(cramjam.brotli.compress(PAGE.encode())), "Content-Encoding: br"),
    "gzip in chunks": lambda: cut_payloads(chunked(GZIP, 200), "Transfer-Encoding: gzip, chunked"),
    "zstd within gzip": lambda: cut_payloads(
        gzip.compress(zstandard.compress(PAGE.encode())), "Content-Encoding: zstd, gzip"
    ),
}


@cache
def others() -> Deduplicator:
    """Other pages of the site, and a page that has their navigation alone."""
    seen = Deduplicator()
    pages = [article(seed) for seed in range(2, 9)]
    pages += [RENDERED.replace(prose(5, 9), prose(55, 9)), ATOM.replace(prose(6, 9), prose(66, 9))]
    for number, page in enumerate(pages):
        assert not seen.add(number, f"https://paper.example/{number}", page).is_duplicate
    return seen


def read(data: bytes) -> Iterator[Page]:
    """The pages of a file, up to a rejected record."""
    members = GzipMembers()
    chunks = read_chunks(io.BytesIO(data), "cut", members)
    try:
        beginning = next(chunks, b"")
        format_ = format_of("cut.warc", beginning).written_as
        rest = (chunk for part_of in ([beginning], chunks) for chunk in part_of)
        intake = Intake("cut", InputSettings())
        for file_record in format_.read(FileContent("cut", rest, members, lambda _: io.BytesIO(data), "body", 10**6)):
            if file_record.record.fault is None:
                page = format_.decode(file_record, intake)
                if page is not None:
                    yield page
            else:
                assert file_record.record.fault[1]
    except (PageError, InputError):
        return


@pytest.mark.parametrize("form", FORMS)
def test_a_cut_input_is_no_duplicate_of_another_page(form: str) -> None:
    judged = [page for cut in FORMS[form]() for page in read(cut) if not page.filtered]
    queries = [
        CrawledPage(
            number,
            page.url,
            page.body.decode() if page.judgeable else page.body,
            ("text/plain", "text/html", "text/xml")[page.markup],
        )
        for number, page in enumerate(judged)
    ]
    verdicts = list(others().query_many(queries))
    assert len(verdicts) == len(judged)
    assert {(verdict.kind, verdict.reason) for verdict in verdicts if verdict.is_duplicate} == set()


def test_the_whole_samples_are_read() -> None:
    whole = (message(PAGE), message(RENDERED), message(ATOM), message(SAVED), RECORD, with_dictionary(RECORD))
    assert [len(list(read(data))) for data in whole] == [1] * len(whole)
    assert others().query("a", "https://paper.example/cut", PAGE).kind == "novel"
