"""A page that was saved as MHTML is judged by its HTML, whatever the encodings of its parts."""

from functools import partial

import pytest

from spotsieve.stream.base.page import FilterReason, Markup
from spotsieve.stream.sign.intake.mime import MAX_PARTS, read_mhtml
from tests.fixtures.cpu_time import assert_cpu_below
from tests.fixtures.pages.bodies import page_of_body
from tests.fixtures.pages.saved_pages import mhtml, part

TEXT = "Der Bürgermeister sprach über größere Häuser, und der Rat = die Mehrheit stimmte zu. " * 3
RUSSIAN = "Сегодня в столице прошло заседание правительства по вопросам экономики. " * 3


def html(text: str, charset: str = "") -> str:
    meta = f"<meta charset={charset}>" if charset else ""
    return f"<!DOCTYPE html><html><head>{meta}<title>x</title></head><body>\n<p>{text}</p>\n</body></html>"


IMAGE = part(b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "base64", "image/png", Content_Location="https://example.com/i")
STYLE = part(b"p { color: red }", "quoted-printable", "text/css")


@pytest.mark.parametrize("encoding", ["quoted-printable", "base64", "8bit", "binary", "7bit"])
@pytest.mark.parametrize(("charset", "text"), [("utf-8", TEXT), ("windows-1252", TEXT), ("koi8-r", RUSSIAN)])
@pytest.mark.parametrize("declared", ["header", "markup"])
def test_every_encoding_and_charset_gives_the_page(encoding: str, charset: str, text: str, declared: str) -> None:
    page = html(text, charset if declared == "markup" else "")
    media_type = f'text/html; charset="{charset}"' if declared == "header" else "text/html"
    saved = mhtml(part(page.encode(charset), encoding, media_type), IMAGE, STYLE)
    found = read_mhtml(saved)
    assert found is not None
    assert found.whole
    assert (found.text or b"").decode().split() == page.split()


def test_bytes_that_are_not_base64_are_ignored_in_it() -> None:
    saved = mhtml(part(html(TEXT).encode(), "base64", "text/html; charset=utf-8"))
    place = saved.index(b"\r\n\r\n", saved.index(b"base64")) + 4
    for other in (b".", b"\xff", b"!\r\n"):
        assert TEXT in text_of(saved[:place] + other + saved[place:])


def test_frames_follow_the_page_and_each_has_a_charset_of_its_own() -> None:
    root = part(html("root <iframe src='cid:f@mhtml.blink'></iframe>").encode(), Content_ID="<r@mhtml.blink>")
    frame = part(RUSSIAN.encode("cp1251"), "base64", "text/html; charset=windows-1251", Content_ID="<f@mhtml.blink>")
    for saved in (mhtml(root, IMAGE, frame), mhtml(frame, root, head=' start="<r@mhtml.blink>";')):
        found = text_of(saved)
        assert found.index("root") < found.index(RUSSIAN)


def test_a_multipart_within_the_multipart_is_read() -> None:
    inner = b'Content-Type: multipart/alternative; boundary="i"\r\n\r\n--i\r\n'
    inner += part(b"plain", "7bit", "text/plain") + b"\r\n--i\r\n" + part(html(TEXT).encode()) + b"\r\n--i--\r\n"
    assert TEXT.split() == text_of(mhtml(inner, IMAGE)).partition("<p>")[2].partition("</p>")[0].split()


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("boundary", ["b", "----=_NextPart_000_0000", "a'()+_,-./:=?"])
def test_line_ends_and_boundaries_of_other_programs_are_read(line_end: bytes, boundary: str) -> None:
    saved = mhtml(part(html(TEXT).encode(), "base64"), IMAGE, boundary=boundary).replace(b"\r\n", line_end)
    assert TEXT in text_of(saved)


def test_a_header_that_was_sent_as_the_header_of_http_is_not_needed() -> None:
    saved = mhtml(part(html(TEXT).encode(), "base64"), IMAGE).partition(b"\r\n\r\n")[2]
    assert TEXT in text_of(saved, "multipart/related")
    assert read_mhtml(saved) is None


@pytest.mark.parametrize(
    "body",
    [
        html(TEXT).encode(),
        b"",
        b"From: a\r\n\r\nContent-Type: multipart/related; boundary=x",
        b"Content-Type: text/html\r\n\r\n<p>x",
        b"Content-Type: multipart/related\r\n\r\n--x\r\n",
        b"Note: an article\n\nabout multipart/related; boundary=x",
        mhtml(part(b"text", "7bit", "text/plain"), kind="mixed"),
        mhtml(IMAGE, STYLE),
        mhtml(),
    ],
)
def test_other_bodies_are_not_mhtml(body: bytes) -> None:
    assert read_mhtml(body) is None


def text_of(body: bytes, media_type: str = "") -> str:
    found = read_mhtml(body, media_type)
    return (found.text or b"").decode() if found else ""


@pytest.mark.parametrize("content_type", [None, "multipart/related", "message/rfc822", "text/plain", "text/html"])
def test_bytes_and_text_become_the_page_under_any_type(content_type: str | None) -> None:
    page = html(TEXT).encode()
    saved = mhtml(part(page, "base64", "text/html; charset=utf-8"), IMAGE)
    for body in (saved, saved.decode()):
        found = page_of_body(body, content_type)
        assert (found.body, found.markup, found.judgeable) == (page, Markup.HTML, True)


def test_the_limit_of_a_page_counts_for_its_html_and_not_for_its_images() -> None:
    image = part(bytes(200_000), "base64", "image/png")
    saved = mhtml(image, part(html(TEXT).encode()))
    assert page_of_body(saved, max_page_bytes=10_000).judgeable
    assert not page_of_body(mhtml(part(html(TEXT * 100).encode())), max_page_bytes=10_000).judgeable


@pytest.mark.parametrize("encoding", ["quoted-printable", "base64", "8bit"])
def test_a_page_that_is_cut_anywhere_is_not_whole(encoding: str) -> None:
    saved = mhtml(part(html(TEXT).encode(), encoding, "text/html; charset=utf-8"), IMAGE)
    end = saved.rindex(b"--\r\n") + 2
    for cut in range(len(saved)):
        found = read_mhtml(saved[:cut])
        assert found is None or found.whole == (cut >= end)
    assert page_of_body(saved).filtered == FilterReason.NOT
    assert page_of_body(saved[: end - 1]).encoded == saved[: end - 1]
    assert page_of_body(saved).encoded is None
    assert page_of_body(saved[: end - 1], filtered=FilterReason.REDIRECT).filtered == FilterReason.REDIRECT


@pytest.mark.parametrize(
    "piece",
    [
        b"\r\n--b\r\n",
        b"\r\n--b\r\nContent-Type: multipart/related; boundary=b\r\n\r\n",
        b"\n--",
        b"a:b\n",
        b"\n ",
        b"=\r\n",
    ],
)
def test_hostile_messages_take_linear_time(piece: bytes) -> None:
    head = b"Content-Type: multipart/related; boundary=b\r\n\r\n"
    for start in (head, b"", b"--b\r\n"):
        message = start + piece * (4_000_000 // len(piece))
        assert_cpu_below(1, partial(read_mhtml, message, "multipart/related"))
    assert MAX_PARTS < 10_000
