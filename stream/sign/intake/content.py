"""Makes a Page from a body, its Content-Type and its place: the last step of intake.

The Content-Type, or else the bytes of the body, tell HTML, XML, plain text and other content apart.

Feeds have HTML as the text of elements, escaped or in CDATA sections: <description> and <content:encoded> of RSS, and
elements of Atom with type="html". The page of a feed has this HTML as markup. Each piece stays within its element:
comments, scripts and tags without an end reach no further, and end tags close nothing around it. CDATA sections in
other XML, such as the source code in XHTML, are text.

JSON is read with its escapes decoded: otherwise each escaped letter would be a word, and each line end the letter n.
"""

import codecs
import enum
import functools
import re
from collections import Counter

from spotsieve.stream.base.page import FilterReason, Markup, Page
from spotsieve.stream.sign.intake.charset import find_codec, skip_blanks, to_utf8, undo_double_encoding
from spotsieve.stream.sign.intake.mime import read_message, read_mhtml
from spotsieve.stream.sign.text.html.elements import BLOCK, BREAK, ELEMENTS, SECTIONS
from spotsieve.stream.sign.text.prose import MARKUP, unescape_html, unescape_script

SNIFF_BYTES = 1024
_LONGEST_CONTENT_TYPE = 512
_MAX_NUL_SHARE = 1 / 32


class Content(enum.Enum):
    """The kind of content that a Content-Type names."""

    HTML = "html"
    XML = "xml"
    PLAIN = "plain"
    NOT_TEXT = "not_text"
    UNKNOWN = "unknown"


_TAG = re.compile(rb"<(?:[a-zA-Z!?/])")
# What may precede the root element of XML: processing instructions, comments and a document type.
_PROLOG = rb"(?:\s++|<\?[^>]*+>|<!--(?:(?!-->).)*+-->|<!DOCTYPE[^<>\[]*+(?:\[[^\]]*+\]\s*+)?>)*+"
_XML_DECLARATION = re.compile(rb"<\?xml\s")
_FEED = re.compile(_PROLOG + rb"<(?:[\w.-]++:)?(?:rss|feed|RDF|urlset|sitemapindex)[\s/>]", re.DOTALL)
_HTML_ELEMENT = re.compile(
    r"<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)"
    r"|<(?P<name>(?:[\w.-]++:)?(?:description|encoded|content|info|rights|subtitle|summary|tagline|title))"
    r"(?P<attributes>\s[^<>]*+)?(?<!/)>",
    re.DOTALL,
)
"""A comment or CDATA section, or the start tag of an element of a feed whose text may be HTML."""
_CDATA, _CDATA_END = "<![CDATA[", "]]>"
_COMMENT, _COMMENT_END = "<!--", "-->"
_TEXT_TYPE = re.compile(r"""\stype\s*=\s*["']([^"']*)["']""", re.IGNORECASE)
_HTML_TYPES = ("html", "text/html")
_ALWAYS_HTML = re.compile(r"(?:.*:)?(?:description|encoded)|itunes:summary")
_UNFINISHED = re.compile(r"<[a-z!?/][^<]*+\Z", re.IGNORECASE)
# The values of a header that commas join. A comma in a quoted string separates nothing.
_VALUE = re.compile(r'(?:"(?:[^"\\]|\\.)*+(?:"|\\?$)|[^,"])++', re.DOTALL)
_CHARSET = re.compile(
    r"""[^a-z0-9*/]?charset\s*+[=:]\s*+(?:"((?:[^"\\]|\\.)++)"|[\s"'(]*([^\s"';,()]*))""", re.IGNORECASE | re.DOTALL
)
_QUOTED_PAIR = re.compile(r"\\(.)", re.DOTALL)
# Chrome and Firefox end the type at a blank or a bracket too, not only at a semicolon.
_ESSENCE = re.compile(r"(?<![a-z0-9.+_-])[a-z0-9][a-z0-9.+_-]*+/[a-z0-9](?:[a-z0-9.+_-]*[a-z0-9])?", re.IGNORECASE)

_PLAIN_APPLICATIONS = frozenset(
    f"application/{name}" for name in ("json", "javascript", "x-javascript", "ecmascript", "x-ndjson", "yaml", "toml")
)
_BINARY_APPLICATIONS = (
    "application/pdf",
    "application/zip",
    "application/gzip",
    "application/x-gzip",
    "application/x-tar",
    "application/x-7z",
    "application/x-rar",
    "application/vnd.rar",
    "application/java-archive",
    "application/msword",
    "application/vnd.ms-",
    "application/vnd.openxmlformats",
    "application/vnd.oasis",
    "application/epub+zip",
    "application/x-shockwave-flash",
    "application/wasm",
    "application/vnd.android.package-archive",
    "application/font",
    "application/x-font",
    "application/postscript",
    "application/ogg",
    "application/x-bzip",
)
_MAGIC = (
    b"%PDF-",
    b"PK\x03\x04",
    b"PK\x05\x06",
    b"\x1f\x8b",
    b"\x89PNG\r\n",
    b"\xff\xd8\xff",
    b"\xfd7zXZ\x00",
    b"\x28\xb5\x2f\xfd",
    b"7z\xbc\xaf\x27\x1c",
    b"Rar!\x1a",
    b"\x7fELF",
    b"\xd0\xcf\x11\xe0",
    b"\x00asm",
    b"\x00\x01\x00\x00\x00",
    b"II*\x00",
    b"MM\x00*",
    b"\x00\x00\x01\x00",
)
# A text could begin with these too ("ID3 tags explained"), so they count only if the first KB contains a NUL.
_WORDLIKE_MAGIC = (b"GIF87a", b"GIF89a", b"RIFF", b"BZh", b"OggS", b"ID3", b"fLaC", b"wOFF", b"wOF2")


def read_content_type(value: str | None) -> tuple[Content, str | None]:
    """The kind of content that a Content-Type header names, and its charset label as written, or None."""
    return _read_content_type(value[:_LONGEST_CONTENT_TYPE]) if value else (Content.UNKNOWN, None)


def find_media_type(value: str) -> str:
    """The media type in a Content-Type header: type/subtype in lower case; empty if it has none."""
    return _parse_content_type(value[:_LONGEST_CONTENT_TYPE])[0]


@functools.lru_cache(maxsize=1024)
def _read_content_type(value: str) -> tuple[Content, str | None]:
    # A crawl has a few dozen Content-Types, and parsing one costs as much as the rest of a message.
    media_type, label = _parse_content_type(value)
    return _kind(media_type), label


@functools.lru_cache(maxsize=1024)
def _parse_content_type(value: str) -> tuple[str, str | None]:
    """Media type and charset label by "extract a MIME type" of the Fetch standard: the last value with a type counts.

    Unlike the standard, any separator is accepted between the type and the charset, as in "text/html charset=utf-8".
    """
    media_type, label = "", None
    for part in _VALUE.findall(value):
        found = _ESSENCE.search(_CHARSET.sub(" ", part))
        essence = found.group().lower() if found else media_type
        labels = [_QUOTED_PAIR.sub(r"\1", quoted) or plain for quoted, plain in _CHARSET.findall(part)]
        known = (one for one in labels if find_codec(one))
        label = next(known, next(filter(None, labels), label if media_type in ("", essence) else None))
        media_type = essence
    return media_type, label


def _kind(mime: str) -> Content:
    if mime.endswith(("/html", "/xhtml")):
        return Content.HTML
    if mime.endswith(("+xml", "/xml")):
        return Content.XML
    major = mime.partition("/")[0]
    if major == "text" or mime in _PLAIN_APPLICATIONS or mime.endswith("+json"):
        return Content.PLAIN
    if major in ("image", "audio", "video", "font", "model") or mime.startswith(_BINARY_APPLICATIONS):
        return Content.NOT_TEXT
    return Content.UNKNOWN


def looks_binary(body: bytes) -> bool:
    """Whether the body has a known binary signature, or more NULs in the first KB than text has.

    UTF-16 text has many NULs, so the caller must exclude it first.
    """
    if body.startswith(_MAGIC):
        return True
    nuls = body.count(0, 0, SNIFF_BYTES)
    if nuls == 0:
        return False
    return body.startswith(_WORDLIKE_MAGIC) or nuls > min(len(body), SNIFF_BYTES) * _MAX_NUL_SHARE


def looks_like_markup(body: bytes) -> bool:
    """Whether the first KB after leading white space contains the beginning of a tag."""
    start = skip_blanks(body)
    return _TAG.search(body, start, start + SNIFF_BYTES) is not None


def find_markup(content: Content, body: bytes) -> Markup:
    """The language of a body of UTF-8, by the Content-Type if it names one, and otherwise by the first bytes.

    Servers send feeds as text/html, so the MIME Sniffing standard (7.3) tells them by their root element. XHTML that is
    sent as text/html is HTML to browsers.
    """
    if content is Content.XML:
        return Markup.XML
    if content is Content.PLAIN or content is Content.NOT_TEXT:
        return Markup.NONE
    if _is_feed(body):
        return Markup.XML
    if content is Content.HTML:
        return Markup.HTML
    if _XML_DECLARATION.match(body, skip_blanks(body)):
        return Markup.XML
    return Markup.HTML if looks_like_markup(body) else Markup.NONE


def _is_feed(body: bytes) -> bool:
    start = skip_blanks(body)
    return _FEED.match(body, start, start + SNIFF_BYTES) is not None


def unfold_feed(body: bytes) -> bytes:
    """A feed with the HTML in its elements as markup. Linear in the size of the body.

    The start tags of these elements lose their type: an unfolded feed is not unfolded again. Other bytes stay as they
    are.
    """
    feed = body.decode("utf-8", "surrogateescape")
    parts, behind, place = list[str](), 0, 0
    while (found := _HTML_ELEMENT.search(feed, place)) is not None:
        start, name = found.end(), found["name"]
        if name is None:
            place = start
            continue
        content, place = _text_of_element(feed, start)
        attributes = found["attributes"] or ""
        text_type = _TEXT_TYPE.search(attributes)
        is_html = text_type[1].strip().lower() in _HTML_TYPES if text_type else _ALWAYS_HTML.fullmatch(name) is not None
        if is_html and (place == len(feed) or feed.startswith(f"</{name}", place)):
            tag = f"<{name}{_TEXT_TYPE.sub('', attributes)}>"
            parts += feed[behind : found.start()], tag, _as_markup(content, name.endswith("title"))
            behind = place
    return "".join([*parts, feed[behind:]]).encode("utf-8", "surrogateescape") if parts else body


def _text_of_element(feed: str, place: int) -> tuple[str, int]:
    """The text from a place up to the next tag, and the place of the tag. CDATA sections are text, comments are not."""
    pieces = list[str]()
    while place < len(feed):
        if feed.startswith(_CDATA, place):
            start, end = place + len(_CDATA), feed.find(_CDATA_END, place)
            pieces.append(feed[start : len(feed) if end < 0 else end])
            place = len(feed) if end < 0 else end + len(_CDATA_END)
            continue
        if feed.startswith(_COMMENT, place):
            end = feed.find(_COMMENT_END, place + len(_COMMENT))
            place = len(feed) if end < 0 else end + len(_COMMENT_END)
            continue
        end = feed.find("<", place)
        end = len(feed) if end < 0 else end
        if end == place:
            break
        pieces.append(unescape_html(feed[place:end]))
        place = end
    return "".join(pieces), place


_BLOCKS, _BREAKS = frozenset(ELEMENTS[BLOCK]), frozenset(ELEMENTS[BREAK])
_PEERS = {name: names for names in SECTIONS for name in names}
"""The elements of a section, by the name of each: the end tag of one closes another one."""


def _as_markup(html: str, is_title: bool) -> str:
    """HTML as markup that may stand in any element: every tag is closed, and nothing is hidden.

    is_title: whether only its text may stand there
    """
    pieces, start, opened, is_link = list[str](), 0, Counter[str](), False
    for tag in MARKUP.finditer(html):
        pieces.append(html[start : tag.start()].replace("<", "&lt;"))
        start, name, is_end = tag.end(), (tag["tag"] or "").lower(), bool(tag["end"])
        if is_title:
            pieces.append(" " if name in _BLOCKS or name in _BREAKS else "")
        elif name in _BLOCKS and is_end:
            closed = next((one for one in (name, *_PEERS.get(name, ())) if opened[one]), "")
            opened[closed] -= closed != ""
            pieces.append(f"</{closed or 'p'}>")
        elif name in _BLOCKS:
            opened[name] += 1
            pieces.append(f"<{name}>")
        elif name in _BREAKS:
            pieces.append("<br/>")
        elif name == "a" and is_end == is_link and (is_end or "href" in tag[0].lower()):
            is_link = not is_end
            pieces.append("<a href=''>" if is_link else "</a>")
    pieces.append(_UNFINISHED.sub("", html[start:]).replace("<", "&lt;"))
    if is_title:
        return "".join(pieces)
    ends = "".join(f"</{name}>" * count for name, count in opened.items())
    return f"<div>{''.join(pieces)}{'</a>' * is_link}{ends}</div>"


_UTF16_STARTS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, b"<\0", b"\0<")


def make_page(
    body: bytes | str,
    *,
    source: str,
    partition: int,
    offset: int,
    url: str,
    event_time_ms: int,
    latest_ms: int,
    max_page_bytes: int,
    content_type: str | None = None,
    charset: str | None = None,
    label: str = "",
    filtered: FilterReason = FilterReason.NOT,
    rank: float | None = None,
    converted: bool = False,
    encoded: bytes | None = None,
) -> Page:
    """Make a page from a body. Text is used unchanged; bytes are converted to UTF-8 (charset.py in this folder).

    content_type: the value of the Content-Type header; its charset outranks `charset`
    latest_ms: the time of the message or file itself
    filtered: why the settings exempt the page from judging; its bytes then stay unchanged
    rank: the rank that policy.keep = highest or lowest compares; None without one
    converted: whether the bytes are UTF-8 made from text, and are used unchanged, too

    encoded: the payload as sent, if `body` is the part of it that could be decoded; None for a whole page

    The body of a saved page (MHTML) is its HTML, and that of a message its text.

    A body that is not text, or is longer than max_page_bytes, gives a page that cannot be judged, with unchanged bytes.
    A time after latest_ms is replaced by latest_ms: otherwise one page from the year 2100 would move the deduplication
    window past all indexed pages. This happens here, before the log is written, so that the log alone decides.
    """
    content, header_label = read_content_type(content_type)
    decoded = converted or isinstance(body, str)
    raw = body.encode("utf-8", "replace") if isinstance(body, str) else body
    label_of_set = header_label or charset
    found = None if filtered else read_mhtml(raw, find_media_type(content_type or ""), max_page_bytes)
    if found is None and not filtered and content in (Content.PLAIN, Content.UNKNOWN):
        found = read_message(raw, label_of_set, max_page_bytes, is_plain=content is Content.PLAIN)
    if found is not None:
        if found.text is None:
            content = Content.NOT_TEXT
        else:
            encoded = raw if encoded is None and not found.whole else encoded
            content = Content.HTML if found.is_html else Content.PLAIN
            decoded = decoded or found.text is not raw
            raw = found.text
    judgeable = (
        not filtered
        and content is not Content.NOT_TEXT
        and len(raw) <= max_page_bytes
        and not (looks_binary(raw) and not _may_be_utf16(raw, decoded, label_of_set))
    )
    repaired = False
    if judgeable and not decoded:
        raw, repaired = to_utf8(raw, label_of_set)
    if judgeable:
        raw = undo_double_encoding(raw)
    markup = find_markup(content, raw)
    if judgeable and markup is Markup.XML and _is_feed(raw):
        unfolded = unfold_feed(raw)
        raw = unfolded if len(unfolded) <= max_page_bytes else raw
    if judgeable and markup is Markup.NONE and b"\\" in raw and find_media_type(content_type or "").endswith("json"):
        raw = unescape_script(raw.decode("utf-8", "replace")).encode()
    return Page(
        source=source,
        partition=partition,
        offset=offset,
        url=_writable(url),
        body=raw,
        markup=markup,
        event_time_ms=min(event_time_ms, latest_ms),
        future_time=event_time_ms > latest_ms,
        label=_writable(label),
        judgeable=judgeable,
        filtered=filtered,
        repaired=repaired,
        rank=rank,
        encoded=encoded,
    )


def _may_be_utf16(raw: bytes, decoded: bool, label: str | None) -> bool:
    return not decoded and (raw.startswith(_UTF16_STARTS) or find_codec(label) in ("utf-16-le", "utf-16-be"))


def _writable(text: str) -> str:
    """The text, writable as UTF-8: half a surrogate pair, which is legal in JSON, becomes a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
