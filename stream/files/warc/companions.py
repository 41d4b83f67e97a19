"""Finds the companions of emitted pages: WARC records without a page that belong to one (request, metadata, warcinfo).

Page and companion refer to each other with WARC-Concurrent-To and WARC-Refers-To, in either direction. Some writers set
no such link and write the companion next to its page. A companion may precede its page; then it waits for the verdict.

A record that a crawler writes about a page, such as its text or a screenshot, also names the page's URL in its own URI:
urn:text:https://example.org/. Such a record is not part of another capture, so it is written even if its page is not in
the file.
"""

import re
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

import xxhash

from spotsieve.stream.files.file_format import Record
from spotsieve.stream.files.warc.http import field_lines, first_values, header_end
from spotsieve.stream.files.warc.records import is_about_page, uri_of

MOST_WAITING = 256
MOST_WAITING_BYTES = 16 * 2**20
MOST_REMEMBERED = 65_536
"""Pages whose verdict is stored for later companions. Crawlers write a companion within a few hundred records."""
_KINDS = frozenset({"request", "metadata"})
_LINKS = ("warc-concurrent-to", "warc-refers-to")
_SCHEMES = re.compile(r"(?:[a-z][a-z0-9+.-]*+:(?!//))*+(?:[a-z][a-z0-9+.-]*+://)*+", re.IGNORECASE)
"""The schemes before the host of a URL, or of a URI that contains a URL."""


@dataclass(frozen=True, slots=True)
class _Names:
    """The identifying fields of a record's header.

    links: the ids of the records that it refers to
    place: the digest of the URL without its scheme and fragment, or of the URL in the URI of a record about a page
    about_page: whether a crawler wrote the record about a page
    """

    kind: str
    own: str
    links: frozenset[str]
    url: str
    place: int
    about_page: bool


class Companions:
    """The companions of one run. Every method returns the records to write now, in order.

    alone: number of written records about pages whose page is not in their file
    """

    def __init__(self, companion_uris: Sequence[str] = ()) -> None:
        """companion_uris: patterns of the URIs of records about pages"""
        self._companion_uris = companion_uris
        self.alone = 0
        self._source = ""
        self._info: Record | None = None
        self._waiting: deque[tuple[Record, _Names]] = deque()
        self._waiting_bytes = 0
        self._kept: OrderedDict[str, bool] = OrderedDict()
        self._kept_places: OrderedDict[int, bool] = OrderedDict()
        self._last: tuple[str, bool] = ("", False)

    def add(self, record: Record, source: str) -> Iterator[Record]:
        """Add a record without a page. source: the source of its file"""
        yield from self._enter(source)
        names = self._names_of(record)
        if names.kind == "warcinfo":
            self._info = record
        elif names.about_page or names.kind in _KINDS:
            known = [self._kept[link] for link in names.links if link in self._kept]
            if not known and names.about_page and names.place in self._kept_places:
                known = [self._kept_places[names.place]]
            if not known:
                yield from self._wait(record, names)
            elif any(known):
                yield record

    def page(self, record: Record, source: str, kept: bool) -> Iterator[Record]:
        """Add a page before it is written. kept: whether it, or a revisit record in its place, is written"""
        yield from self._enter(source)
        names = self._names_of(record)
        if kept:
            yield from self._take_info()
        waiting, self._waiting, self._waiting_bytes = self._waiting, deque(), 0
        for companion, header in waiting:
            if _belongs(header, names):
                if kept:
                    yield companion
            elif header.about_page or header.links or header.url != self._last[0]:
                yield from self._wait(companion, header)
            elif self._last[1]:
                yield companion
        self._last = (names.url, kept)
        for name in (names.own, *names.links):
            self._kept[name] = kept
        # A URL may be fetched several times. A record about it is written if one of these pages is.
        self._kept_places[names.place] = kept or self._kept_places.get(names.place, False)
        while len(self._kept) > MOST_REMEMBERED:
            self._kept.popitem(last=False)
        while len(self._kept_places) > MOST_REMEMBERED:
            self._kept_places.popitem(last=False)

    def end(self) -> Iterator[Record]:
        """End a file. Returns the waiting records about pages, and those without links that belong to the last page.

        The verdicts of its pages are discarded: the next file may contain the same records, and its pages get verdicts
        of their own.
        """
        for companion, header in self._waiting:
            if header.about_page:
                yield from self._write_alone(companion)
            elif not header.links and self._last == (header.url, True):
                yield companion
        self._info, self._last, self._waiting_bytes = None, ("", False), 0
        self._waiting.clear()
        self._kept.clear()
        self._kept_places.clear()

    def _enter(self, source: str) -> Iterator[Record]:
        if source != self._source:
            yield from self.end()
            self._source = source

    def _wait(self, record: Record, names: _Names) -> Iterator[Record]:
        """Let a record wait for its page. Returns the records that cannot wait any longer and are written."""
        self._waiting.append((record, names))
        self._waiting_bytes += len(record.raw)
        while len(self._waiting) > MOST_WAITING or self._waiting_bytes > MOST_WAITING_BYTES:
            first, header = self._waiting.popleft()
            self._waiting_bytes -= len(first.raw)
            if header.about_page:
                yield from self._write_alone(first)

    def _write_alone(self, record: Record) -> Iterator[Record]:
        yield from self._take_info()
        self.alone += 1
        yield record

    def _take_info(self) -> Iterator[Record]:
        if self._info is not None:
            yield self._info
            self._info = None

    def _names_of(self, record: Record) -> _Names:
        fields = field_lines(record.raw[: header_end(record.raw)].decode("utf-8", "replace"))
        first = first_values(fields)
        url = uri_of(first)
        return _Names(
            kind=first.get("warc-type", "").lower(),
            own=first.get("warc-record-id", ""),
            links=frozenset(value for name, value in fields if name.lower() in _LINKS),
            url=url,
            place=_place_of(url),
            about_page=is_about_page(first, self._companion_uris),
        )


def _belongs(companion: _Names, page: _Names) -> bool:
    if companion.own in page.links or page.own in companion.links:
        return True
    if companion.about_page:
        return companion.place == page.place
    return not companion.links and companion.url == page.url


def _place_of(uri: str) -> int:
    if "://" not in uri and "%3a" in uri.lower():
        uri = unquote(uri)
    return xxhash.xxh3_64_intdigest(_SCHEMES.sub("", uri, count=1).partition("#")[0].encode("utf-8", "replace"))
