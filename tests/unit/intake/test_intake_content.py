"""Intake tells HTML, plain text and other content apart."""

from typing import Any

import pytest

from spotsieve.stream.sign.intake import make_page

PLACE: dict[str, Any] = {"source": "s", "partition": 0, "offset": 0, "url": "u", "event_time_ms": 0, "latest_ms": 0}


def kind(body: bytes | str, content_type: str | None = None, max_page_bytes: int = 2**20) -> str:
    page = make_page(body, content_type=content_type, max_page_bytes=max_page_bytes, **PLACE)
    if not page.judgeable:
        assert page.body == (body.encode() if isinstance(body, str) else body), "its bytes stay untouched"
        return "not judged"
    return "html" if page.markup else "plain"


@pytest.mark.parametrize(
    ("body", "content_type", "expected"),
    [
        (b"no tags at all", "text/html", "html"),
        (b"no tags at all", "Text/HTML ; charset=utf-8", "html"),
        (b"no tags", "application/xhtml+xml", "html"),
        (b"no tags", "application/rss+xml", "html"),
        (b"no tags", "text/xml", "html"),
        (b"<p>a tag", "text/plain", "plain"),
        (b'{"a": "<p>"}', "application/json", "plain"),
        (b"<p>hello", None, "html"),
        (b"<p>hello", "application/octet-stream", "html"),
        (b"<!doctype html>", "", "html"),
        (b"</div>", None, "html"),
        (b"1 < 2 and 3 <4", None, "plain"),
        (b" " * 2000 + b"<p>", None, "plain"),
        (b"hello", "nonsense", "plain"),
        (b"", None, "plain"),
        (b"whatever", "image/png", "not judged"),
        (b"whatever", "application/pdf; charset=utf-8", "not judged"),
        (b"whatever", "video/mp4", "not judged"),
        (b"%PDF-1.4 text", "text/html", "not judged"),
        (b"PK\x03\x04....", None, "not judged"),
        (b"\x1f\x8b\x08\x00", "text/html", "not judged"),
        (b"\x89PNG\r\n\x1a\n", None, "not judged"),
        (b"ID3 tags explained", None, "plain"),
        (b"ID3\x04\x00\x00", None, "not judged"),
        (b"\x00\x01\x02\x03" * 100, "text/html", "not judged"),
        (b"one NUL\x00 in a long text is no reason " * 5, None, "plain"),
        (b"x" * 992 + bytes(32), None, "plain"),
        (b"x" * 991 + bytes(33), None, "not judged"),
        (b"x" * 1024 + bytes(1000), None, "plain"),
        ("%PDF-1.4 \ufffd\ufffd", "text/html", "not judged"),
        ("<p>text", "text/html", "html"),
        ("<p>ä".encode("utf-16"), None, "html"),
        ("plain text".encode("utf-16"), None, "plain"),
        ("<p>ä".encode("utf-16-le"), "text/html; charset=utf-16le", "html"),
    ],
)
def test_the_kind_of_content(body: bytes | str, content_type: str | None, expected: str) -> None:
    assert kind(body, content_type) == expected


def test_a_body_over_the_limit_is_not_judged_and_one_at_the_limit_is() -> None:
    assert kind(b"x" * 1024, "text/html", 1024) == "html"
    assert kind(b"x" * 1025, "text/html", 1024) == "not judged"
    assert kind("ä" * 513, "text/html", 1024) == "not judged", "the limit counts bytes, not characters"
