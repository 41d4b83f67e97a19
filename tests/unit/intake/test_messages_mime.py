"""An e-mail or a post is judged by its decoded text, whatever the encodings of its parts, and a hostile one is bounded.

Python's package email writes the messages, so the reader is tested with another program's MIME.
"""

import base64
import tracemalloc
from collections.abc import Callable, Sequence
from email.message import EmailMessage, MIMEPart
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotsieve import Deduplicator
from spotsieve.stream.base.page import Markup, Page
from spotsieve.stream.sign.features.shown_text import paragraphs_in, read_text, words_of
from spotsieve.stream.sign.features.sieve import selected_blocks
from spotsieve.stream.sign.intake.mime import MAX_PARTS, read_message, read_mhtml
from tests.fixtures.cpu_time import assert_cpu_below
from tests.fixtures.pages.bodies import page_of_body
from tests.fixtures.pages.page_tokens import tokens_of
from tests.fixtures.pages.spotsieve_pages import STORIES

ENGLISH = "\n\n".join(STORIES["English", 1])
OTHER = "\n\n".join(STORIES["English", 2])
GERMAN = "Der Bürgermeister sprach über höhere Häuser, und der Rat = die Mehrheit stimmte zu.\n\n" * 3
RUSSIAN = "Сегодня в столице прошло заседание правительства по вопросам экономики.\n\n" * 3
HINT = "This message is HTML. Show it in a browser."
LIST_FOOTER = "_______________\nlamps mailing list\nhttps://list.example/lamps\n"
ENCODINGS = ("7bit", "8bit", "quoted-printable", "base64")
FIELDS = {"From": "Ann Ö <ann@news.example>", "Subject": "Grüße an alle", "Message-ID": "<a1@news.example>"}


def addressed(message: EmailMessage | MIMEMultipart | MIMEText, **fields: str) -> bytes:
    for name, value in (FIELDS | fields).items():
        message[name] = value
    return message.as_bytes()


def mail(text: str, encoding: str = "quoted-printable", charset: str = "utf-8", subtype: str = "plain") -> EmailMessage:
    message = EmailMessage()
    message.set_content(text, subtype=subtype, charset=charset, cte=encoding)
    return message


def html_of(text: str) -> str:
    shown = "".join(f"<p>{paragraph}</p>" for paragraph in text.strip().split("\n\n"))
    return f"<html><head><style>p {{ color: red }}</style></head><body>{shown}</body></html>"


def words(page: Page) -> list[str]:
    """The words by which a page is judged. The views of explain and of --text must show the same."""
    found = [word for block in tokens_of(page.body, page.markup) for word in block]
    assert [word.form for word in words_of(read_text(page.body, page.markup).text)] == found
    selected = selected_blocks(page.body, page.markup)
    paragraphs = paragraphs_in(page.body, page.markup, selected, [True] * len(selected.ends))
    assert [word.form for paragraph in paragraphs for word in words_of(paragraph)] == found
    return found


def words_in(*texts: str) -> list[str]:
    return [word.form for text in texts for word in words_of(text)]


def with_alternative(html: str) -> Callable[[EmailMessage], None]:
    return lambda message: message.add_alternative(html, subtype="html")


def with_attachment(message: EmailMessage) -> None:
    message.add_attachment(OTHER.encode(), maintype="application", subtype="pdf", filename="a.pdf")
    message.add_attachment(OTHER, filename="a.txt")
    message.add_attachment(f"BEGIN:VCALENDAR\n{OTHER}", subtype="calendar", disposition="inline")


def signed(*parts: EmailMessage | MIMEMultipart | MIMEText | MIMEPart, kind: str = "signed") -> MIMEMultipart:
    message = MIMEMultipart(kind)
    for part in parts:
        message.attach(part)
    return message


def changed(message: EmailMessage, *changes: Callable[[EmailMessage], None]) -> EmailMessage:
    for change in changes:
        change(message)
    return message


def nested(text: str, depth: int, kind: str = "mixed") -> MIMEMultipart:
    message = signed(MIMEText(text, "plain", "utf-8"), kind=kind)
    for _ in range(depth - 1):
        message = signed(message, kind=kind)
    return message


KEY = MIMEPart()
KEY["Content-Type"] = "application/pgp-signature"
KEY.set_payload("iQEzBAABCAAdFiEE " * 20)
FOOTER = MIMEText(LIST_FOOTER, "plain", "us-ascii")
MESSAGES: dict[str, tuple[bytes, Sequence[str]]] = {
    "plain and HTML": (addressed(changed(mail(GERMAN), with_alternative(html_of(OTHER)))), [GERMAN]),
    "a hint and HTML": (addressed(changed(mail(HINT), with_alternative(html_of(GERMAN)))), [GERMAN]),
    "nothing and HTML": (addressed(changed(mail("\n"), with_alternative(html_of(GERMAN)))), [GERMAN]),
    "HTML": (addressed(mail(html_of(GERMAN), subtype="html")), [GERMAN]),
    "HTML in base64": (addressed(mail(html_of(GERMAN), "base64", "iso-8859-1", "html")), [GERMAN]),
    "attachments": (addressed(changed(mail(GERMAN), with_attachment)), [GERMAN]),
    "both, and attachments": (
        addressed(changed(mail(GERMAN), with_alternative(html_of(OTHER)), with_attachment)),
        [GERMAN],
    ),
    "a signed message": (addressed(signed(mail(GERMAN, "base64"), KEY)), [GERMAN]),
    "a footer of a list": (addressed(signed(mail(GERMAN), FOOTER, kind="mixed")), [GERMAN, LIST_FOOTER]),
    "HTML and a footer": (
        addressed(signed(mail(html_of(GERMAN), subtype="html"), FOOTER, kind="mixed")),
        [GERMAN, LIST_FOOTER],
    ),
    "two texts in two charsets": (
        addressed(signed(mail(GERMAN, "base64", "iso-8859-1"), mail(RUSSIAN, "base64", "koi8-r"), kind="mixed")),
        [GERMAN, RUSSIAN],
    ),
    "five multiparts within each other": (addressed(nested(GERMAN, 5)), [GERMAN]),
    "an unknown charset": (
        addressed(mail(GERMAN, "base64")).replace(b'charset="utf-8"', b'charset="x-unknown"'),
        [GERMAN],
    ),
    "base64 that was decoded": (
        addressed(mail(ENGLISH, "8bit")).replace(b"Encoding: 8bit", b"Encoding: base64"),
        [ENGLISH],
    ),
    "a multipart without parts": (
        addressed(mail(ENGLISH, "8bit")).replace(b"text/plain", b"multipart/mixed; boundary=b"),
        [ENGLISH],
    ),
    "a boundary within a line": (
        addressed(mail(f"See --b-- here\n\n{ENGLISH}", "8bit")).replace(b"text/plain", b"multipart/mixed; boundary=b"),
        ["See --b-- here", ENGLISH],
    ),
}


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize(
    ("charset", "text"), [("utf-8", GERMAN), ("iso-8859-1", GERMAN), ("koi8-r", RUSSIAN), ("us-ascii", ENGLISH)]
)
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_every_encoding_and_charset_gives_the_words(encoding: str, charset: str, text: str, line_end: bytes) -> None:
    if encoding == "7bit" and not text.isascii():
        encoding = "8bit"
    body = addressed(mail(text, encoding, charset)).replace(b"\n", line_end)
    page = page_of_body(body)
    assert words(page) == words_in(text)
    assert (page.markup, page.judgeable, page.encoded) == (Markup.NONE, True, None)


@pytest.mark.parametrize("content_type", [None, "text/plain", "message/rfc822", "text/plain; charset=utf-8"])
@pytest.mark.parametrize("name", MESSAGES)
def test_the_text_of_a_message_is_that_of_its_readable_parts(name: str, content_type: str | None) -> None:
    body, texts = MESSAGES[name]
    assert words(page_of_body(body, content_type)) == words_in(*texts)
    if name != "an unknown charset":
        assert words(page_of_body(body.decode(), content_type)) == words_in(*texts), "a body in JSON is text"


def test_a_digest_has_the_texts_of_its_messages() -> None:
    messages = (f"--d\n\nFrom: bob\nSubject: {number}\n\n{text}\n" for number, text in enumerate((ENGLISH, OTHER)))
    head = "From: list\nSubject: digest\nContent-Type: multipart/digest; boundary=d\n\n"
    assert words(page_of_body(f"{head}{''.join(messages)}--d--\n")) == words_in(ENGLISH, OTHER)
    forwarded = f"--d\nContent-Type: message/rfc822\n\nFrom: bob\nSubject: x\n\n{OTHER}\n--d--\n"
    head = head.replace("digest;", "mixed;")
    assert words(page_of_body(f"{head}--d\n\n{ENGLISH}\n{forwarded}")) == words_in(ENGLISH, OTHER)


def test_a_sender_with_an_address_makes_no_tag_of_it() -> None:
    for content_type in (None, "message/rfc822", "text/plain", "application/mbox"):
        page = page_of_body(f"From: Ann <ann@news.example>\nSubject: lamps\n\n{ENGLISH}", content_type)
        assert page.markup == Markup.NONE
        assert words(page) == words_in(ENGLISH)


def test_html_that_mentions_a_sender_stays_html() -> None:
    body = f"From: ann\nSubject: lamps\nContent-Transfer-Encoding: base64\n\n{html_of(ENGLISH)}"
    for content_type in ("text/html", "application/xhtml+xml"):
        assert page_of_body(body, content_type).body == body.encode()
    assert words(page_of_body(body.replace("Content-Transfer-Encoding: base64\n", ""))) == words_in(ENGLISH)


def test_a_message_is_a_copy_in_every_form_and_others_are_none() -> None:
    forms = {
        "plain": f"From: ann\nSubject: lamps\n\n{ENGLISH}".encode(),
        "base64": addressed(mail(ENGLISH, "base64")),
        "quoted": addressed(mail(ENGLISH), To="bob@news.example"),
        "alternative": addressed(changed(mail(ENGLISH), with_alternative(html_of(ENGLISH)))),
        "html": addressed(mail(html_of(ENGLISH), "base64", subtype="html")),
        "attached": addressed(changed(mail(ENGLISH), with_attachment)),
        "other": addressed(mail(OTHER, "base64")),
    }
    with Deduplicator() as crawl:
        kinds = {
            name: crawl.add(name, f"https://list.example/{name}", body, content_type="message/rfc822").kind
            for name, body in forms.items()
        }
    assert {name for name, kind in kinds.items() if kind == "novel"} == {"plain", "other"}


@pytest.mark.parametrize(("outer", "inner"), [("B1", "B12"), ("B12", "B1"), ("B", "B=_--"), ("=_1", "=_1-=_2")])
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b" \t\r\n"])
def test_a_boundary_that_begins_another_one_divides_only_its_own_parts(outer: str, inner: str, line_end: bytes) -> None:
    alternatives = MIMEMultipart("alternative", inner, [MIMEText(ENGLISH), MIMEText(html_of(OTHER), "html")])
    message = MIMEMultipart("mixed", outer, [alternatives, MIMEText(f"--{outer}x\n" + GERMAN, _charset="utf-8")])
    lines = [line + line_end if line.startswith(b"--") else line + b"\n" for line in addressed(message).split(b"\n")]
    page = page_of_body(b"".join(lines))
    assert words(page) == words_in(ENGLISH, f"{outer}x", GERMAN)
    assert page.encoded is None


def test_a_message_of_attachments_only_is_unchecked_and_compared_by_its_bytes() -> None:
    message = EmailMessage()
    message.add_attachment(OTHER.encode(), maintype="application", subtype="pdf", filename="a.pdf")
    body = addressed(message)
    page = page_of_body(body)
    assert (page.judgeable, page.body) == (False, body)
    with Deduplicator() as crawl:
        found = [crawl.add(f"{number}", f"https://list.example/{number}", body) for number in range(2)]
    assert [verdict.kind for verdict in found] == ["unchecked", "duplicate"]


def test_a_message_without_its_last_boundary_is_partial() -> None:
    body = addressed(changed(mail(ENGLISH), with_alternative(html_of(OTHER))))
    cut = body[: body.rindex(b"--")]
    page = page_of_body(cut)
    assert (words(page), page.encoded) == (words_in(ENGLISH), cut)
    assert page_of_body(body).encoded is None


def test_an_mbox_is_the_texts_of_its_messages_without_headers_and_signatures() -> None:
    plain = f"From: bob\nReceived: by mail.example\nSubject: x\n\n{ENGLISH}\n-- \nBob\nLondon\n"
    messages = (plain.encode(), addressed(mail(GERMAN, "base64")), addressed(mail(RUSSIAN, charset="koi8-r")))
    mbox = b"\n".join(b"From bob@x.example Mon Jan  1 10:00:00 2024\n" + message for message in messages)
    assert words(page_of_body(mbox)) == words_in(ENGLISH, GERMAN, RUSSIAN)
    with_html = mbox + b"\nFrom c@x Mon\n" + addressed(mail(html_of(OTHER), subtype="html"))
    assert words(page_of_body(with_html)) == words_in(ENGLISH, GERMAN, RUSSIAN, OTHER)


def test_a_line_of_text_that_begins_with_from_divides_nothing() -> None:
    text = "From here on\nNote: the lamps\n\nFrom bob on\nFrom: bob\n\nagain"
    assert words(page_of_body(f"From a@x Mon\nFrom: a\nSubject: b\n\n{text}")) == words_in(text)


HEAD = b"From: ann\nSubject: lamps\nMIME-Version: 1.0\n"
MIXED = HEAD + b"Content-Type: multipart/mixed; boundary=b\n\n"
IN_BASE64 = HEAD + b"Content-Transfer-Encoding: base64\n\n"
SIXTEEN_MB = 2**24
HOSTILE: dict[str, bytes] = {
    "10,000 nested parts": HEAD
    + b"".join(b"Content-Type: multipart/mixed; boundary=%d\n\n--%d\n" % (level, level) for level in range(10_000)),
    "16 MB of nested parts of one boundary": MIXED + b"--b\nContent-Type: multipart/mixed; boundary=b\n\n" * 380_000,
    "16 MB of parts": MIXED + b"--b\n\na\n" * (SIXTEEN_MB // 7),
    "16 MB of other boundaries": MIXED + b"--bc\n" * (SIXTEEN_MB // 5),
    "16 MB of blanks behind boundaries": MIXED + (b"--b" + b" " * 1000 + b"c\n") * (SIXTEEN_MB // 1005),
    "16 MB of base64": IN_BASE64 + base64.encodebytes(ENGLISH.encode() * (SIXTEEN_MB * 3 // 4 // len(ENGLISH))),
    "16 MB of line ends": HEAD + b"Content-Transfer-Encoding: quoted-printable\n\n" + b"=\n" * (SIXTEEN_MB // 2),
    "a header of 16 MB": HEAD + b"X-A: b\n" * (SIXTEEN_MB // 7),
    "a folded header of 16 MB": HEAD + b"Content-Type: multipart/mixed;\n" + b" a=b;\n" * (SIXTEEN_MB // 6),
    "a boundary that never ends": HEAD + b"Content-Type: multipart/mixed; boundary=" + b"b" * SIXTEEN_MB,
    "16 MB of styles": HEAD
    + b"Content-Type: multipart/alternative; boundary=b\n\n--b\n\na\n--b\nContent-Type: text/html\n\n"
    + b"<style>" * (SIXTEEN_MB // 7),
    "16 MB of open tags": HEAD
    + b"Content-Type: multipart/alternative; boundary=b\n\n--b\n\na\n--b\nContent-Type: text/html\n\n"
    + b"<a " * (SIXTEEN_MB // 3),
    "an mbox of 16 MB": b"From a\nFrom: a\nSubject: b\n\nc\n" * (SIXTEEN_MB // 30),
    "an mbox without headers": b"From a\nFrom: a\nSubject: b\n\n" + b"From a\nX:\n" * (SIXTEEN_MB // 10),
}
SECONDS = 1
"""Of CPU. Reading 16 MB takes less than a quarter."""


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_messages_take_linear_time_and_are_pages(name: str) -> None:
    read_message(HEAD + b"\n")  # loads the kernel
    assert page_of_body(HOSTILE[name], max_page_bytes=2**25).body.decode() is not None
    assert_cpu_below(SECONDS, lambda: page_of_body(HOSTILE[name], max_page_bytes=2**25))


def test_a_message_within_multiparts_takes_at_most_ten_copies_of_it() -> None:
    levels = b"".join(b"Content-Type: multipart/mixed; boundary=l%d\n\n--l%d\n" % (level, level) for level in range(50))
    body = HEAD + levels + b"Content-Transfer-Encoding: base64\n\n" + base64.encodebytes(bytes(SIXTEEN_MB // 4))
    read_message(body)
    tracemalloc.start()
    read_message(body)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 10 * len(body)


def test_the_parts_of_a_message_are_bounded_in_all() -> None:
    inner = b"--i\n\nword\n" * MAX_PARTS + b"--i--\n"
    body = MIXED + (b"--b\nContent-Type: multipart/mixed; boundary=i\n\n" + inner) * 3 + b"--b--\n"
    assert words(page_of_body(body)).count("word") <= MAX_PARTS


@pytest.mark.parametrize("cut", [1, 2, 3, 5, 20])
def test_broken_base64_gives_what_is_there(cut: int) -> None:
    encoded = base64.encodebytes(ENGLISH.encode())
    for broken in (encoded[:-cut], encoded[:200] + b"!?\xff" * cut + encoded[200:]):
        assert words(page_of_body(IN_BASE64 + broken))[:20] == words_in(ENGLISH)[:20]


PIECES = st.sampled_from(
    (
        *(b"From: a\n", b"Subject: b\n", b"\n", b"--b\n", b"--c\n", b"--b--\n", b"From a\n", b"text \xff\n", b"=C3=\n"),
        *(f"Content-Type: {one}\n".encode() for one in ("text/html", "text/plain; charset=x", "message/rfc822")),
        *(f"Content-Type: multipart/{one}; boundary={one[0]}\n".encode() for one in ("bees", "c", "alternative")),
        *(f"Content-Transfer-Encoding: {one}\n".encode() for one in ("base64", "quoted-printable", "x")),
        b"<style><p>a</p>\n",
        b"UsO8Y2tibGljaw==\n",
        b"Content-Disposition: attachment\n",
    )
)


@given(st.lists(PIECES, max_size=30).map(b"".join))
def test_any_mixture_of_headers_and_parts_is_a_page(body: bytes) -> None:
    for given_body in (body, HEAD + body, MIXED + body):
        page = page_of_body(given_body)
        assert len(page.body) <= 9 * len(given_body) + 64
        if page.judgeable:
            assert page.body.decode() is not None
            words(page)
        else:
            assert page.body == given_body


@pytest.mark.parametrize("field", ["To: ben@b.example", "Message-ID: <1@a.example>", "Received: from a.example"])
def test_a_sent_multipart_related_is_a_message_and_its_html_attachment_is_no_page(field: str) -> None:
    head = f"From: Ann <ann@a.example>\n{field}\nSubject: Report\nContent-Type: multipart/related; boundary=b\n"
    own, attached = "Content-Type: text/plain\n\nThe text.\n", "Content-Type: text/html\n"
    parts = f"\n--b\n{own}--b\n{attached}Content-Disposition: attachment\n\n<p>Terms.\n--b--\n"
    assert read_mhtml((head + parts).encode(), "message/rfc822") is None
    saved = f"{head}Snapshot-Content-Location: https://a.example/\n{parts}"
    found = read_mhtml(saved.encode(), "message/rfc822")
    assert found is not None
    assert found.is_html
