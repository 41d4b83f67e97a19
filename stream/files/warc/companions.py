"""Tells which records that are no pages go with a page that is let through: its request and metadata, and warcinfo.

They name each other by WARC-Concurrent-To and WARC-Refers-To, in either direction; some writers name nothing, and put
them side by side with the page. A record may come before its page, which is not judged then: it waits.
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
"""Pages whose verdict is remembered for records that come later. Crawlers write them within a few hundred."""
_KINDS = frozenset({"request", "metadata"})
_LINKS = ("warc-concurrent-to", "warc-refers-to")


@dataclass(frozen=True, slots=True)
class _Names:
    """What a record's header says of it. links: the records that it names"""

    kind: str
    own: str
    links: frozenset[str]
    url: str


class Companions:
    """The records of one run that are no pages. Every method gives the records to write now, in their order."""

    def __init__(self) -> None:
        self._source = ""
        self._info: Record | None = None
        self._waiting: deque[tuple[Record, _Names]] = deque()
        self._waiting_bytes = 0
        self._kept: OrderedDict[str, bool] = OrderedDict()
        self._last: tuple[str, bool] = ("", False)

    def add(self, record: Record, source: str) -> Iterator[Record]:
        """Take a record that is no page. source: of the file that it stands in"""
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
        """Take a page, before it is written itself. kept: whether it is, or another record in its place"""
        yield from self._enter(source)
        names = _names_of(record)
        if kept and self._info is not None:
            yield self._info
            self._info = None
        waiting, self._waiting, self._waiting_bytes = self._waiting, deque(), 0
        for companion, its in waiting:
            if its.own in names.links or names.own in its.links or (not its.links and its.url == names.url):
                if kept:
                    yield companion
            elif its.links or its.url != self._last[0]:
                self._wait(companion, its)
            elif self._last[1]:
                yield companion
        self._last = (names.url, kept)
        for name in (names.own, *names.links):
            self._kept[name] = kept
        while len(self._kept) > MOST_REMEMBERED:
            self._kept.popitem(last=False)

    def end(self) -> Iterator[Record]:
        """A file has ended: the records without links that waited for a next page, and belong to the one before.

        No page of it is remembered: the next file may hold the same records again, and its pages are judged anew.
        """
        for companion, its in self._waiting:
            if not its.links and self._last == (its.url, True):
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
