"""Finds the companions of emitted pages: WARC records without a page that belong to one (request, metadata, warcinfo).

Page and companion refer to each other with WARC-Concurrent-To and WARC-Refers-To, in either direction. Some writers set
no such link and write the companion next to its page. A companion may precede its page; then it waits for the verdict.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass

from spotsieve.stream.files.records import Record
from spotsieve.stream.files.warc.http import header_end
from spotsieve.stream.files.warc.records import field_lines

MOST_WAITING = 256
MOST_WAITING_BYTES = 16 * 2**20
MOST_REMEMBERED = 65_536
"""Pages whose verdict is stored for later companions. Crawlers write a companion within a few hundred records."""
_KINDS = frozenset({"request", "metadata"})
_LINKS = ("warc-concurrent-to", "warc-refers-to")


@dataclass(frozen=True, slots=True)
class _Names:
    """The identifying fields of a record's header. links: the ids of the records that it refers to"""

    kind: str
    own: str
    links: frozenset[str]
    url: str


class Companions:
    """The companions of one run. Every method returns the records to write now, in order."""

    def __init__(self) -> None:
        self._source = ""
        self._info: Record | None = None
        self._waiting: deque[tuple[Record, _Names]] = deque()
        self._waiting_bytes = 0
        self._kept: OrderedDict[str, bool] = OrderedDict()
        self._last: tuple[str, bool] = ("", False)

    def add(self, record: Record, source: str) -> Iterator[Record]:
        """Add a record without a page. source: the source of its file"""
        yield from self._enter(source)
        names = _names_of(record)
        if names.kind == "warcinfo":
            self._info = record
        elif names.kind in _KINDS:
            known = [self._kept[link] for link in names.links if link in self._kept]
            if not known:
                self._wait(record, names)
            elif any(known):
                yield record

    def page(self, record: Record, source: str, kept: bool) -> Iterator[Record]:
        """Add a page before it is written. kept: whether it, or a revisit record in its place, is written"""
        yield from self._enter(source)
        names = _names_of(record)
        if kept and self._info is not None:
            yield self._info
            self._info = None
        waiting, self._waiting, self._waiting_bytes = self._waiting, deque(), 0
        for companion, header in waiting:
            if header.own in names.links or names.own in header.links or (not header.links and header.url == names.url):
                if kept:
                    yield companion
            elif header.links or header.url != self._last[0]:
                self._wait(companion, header)
            elif self._last[1]:
                yield companion
        self._last = (names.url, kept)
        for name in (names.own, *names.links):
            self._kept[name] = kept
        while len(self._kept) > MOST_REMEMBERED:
            self._kept.popitem(last=False)

    def end(self) -> Iterator[Record]:
        """End a file. Returns the waiting records without links that belong to the last page.

        The verdicts of its pages are discarded: the next file may contain the same records, and its pages get verdicts
        of their own.
        """
        for companion, header in self._waiting:
            if not header.links and self._last == (header.url, True):
                yield companion
        self._info, self._last, self._waiting_bytes = None, ("", False), 0
        self._waiting.clear()
        self._kept.clear()

    def _enter(self, source: str) -> Iterator[Record]:
        if source != self._source:
            yield from self.end()
            self._source = source

    def _wait(self, record: Record, names: _Names) -> None:
        self._waiting.append((record, names))
        self._waiting_bytes += len(record.raw)
        while len(self._waiting) > MOST_WAITING or self._waiting_bytes > MOST_WAITING_BYTES:
            self._waiting_bytes -= len(self._waiting.popleft()[0].raw)


def _names_of(record: Record) -> _Names:
    fields = field_lines(record.raw[: header_end(record.raw)].decode("utf-8", "replace"))
    first = {name.lower(): value for name, value in reversed(fields)}
    return _Names(
        first.get("warc-type", "").lower(),
        first.get("warc-record-id", ""),
        frozenset(value for name, value in fields if name.lower() in _LINKS),
        first.get("warc-target-uri", "").strip("<>"),
    )
