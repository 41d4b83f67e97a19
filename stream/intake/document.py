"""Makes a Page of a body, its Content-Type and its place: the last step of intake."""

import codecs

from spotsieve.stream.intake.charset import find_codec, to_utf8
from spotsieve.stream.intake.content import Content, looks_binary, looks_like_markup, read_content_type
from spotsieve.stream.page import FilterReason, Page

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
) -> Page:
    """Make a page of a body. Text is taken as it is, bytes are converted to UTF-8 (spotsieve.stream.intake.charset).

    content_type: the value of the Content-Type header, whose charset outranks `charset`
    latest_ms: the time of the message or file itself
    filtered: why the settings keep it out of judging; its bytes then stay as they are
    rank: as of Page

    A body that is not text, or longer than max_page_bytes, gives a page that cannot be judged, with unchanged bytes. A
    time after latest_ms is set back to it: otherwise one page from the year 2100 would put everything remembered beyond
    the horizon. This happens here, before the log is written, so that the log alone decides.
    """
    content, header_label = read_content_type(content_type)
    decoded = isinstance(body, str)
    raw = body.encode("utf-8", "replace") if isinstance(body, str) else body
    label_of_set = header_label or charset
    judgeable = (
        not filtered
        and content is not Content.NOT_TEXT
        and len(raw) <= max_page_bytes
        and not (looks_binary(raw) and not _may_be_utf16(raw, decoded, label_of_set))
    )
    if judgeable and not decoded:
        raw = to_utf8(raw, label_of_set)
    return Page(
        source=source,
        partition=partition,
        offset=offset,
        url=_writable(url),
        body=raw,
        markup=content is Content.HTML or (content is Content.UNKNOWN and looks_like_markup(raw)),
        event_time_ms=min(event_time_ms, latest_ms),
        future_time=event_time_ms > latest_ms,
        label=_writable(label),
        judgeable=judgeable,
        filtered=filtered,
        rank=rank,
    )


def _may_be_utf16(raw: bytes, decoded: bool, label: str | None) -> bool:
    return not decoded and (raw.startswith(_UTF16_STARTS) or find_codec(label) in ("utf-16-le", "utf-16-be"))


def _writable(text: str) -> str:
    """Make text writable as UTF-8: half a surrogate pair, which is legal in JSON, becomes a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
