"""Groups pages that are connected by verdicts, and chooses the canonical page of each cluster.

Only pages that others name, as an original or as replaced, are held in memory (some 400 bytes each): a copy that nobody
names hangs on its original. What is written of each page waits on disk until all is read, because the last line may
still join two clusters. Pages are told apart by 64 bits of their ids' BLAKE2b: of 100 million pages two are taken for
one in 1 of 3,700 runs.

The canonical page of a cluster is the first that was let through and that no other page replaces.

Remembers which pages were met: 8 bytes for each, and twice that for a moment.

Reads what a line says of a page: its verdict, and the pages that it is a copy of, or that it replaces.

line     = a verdict of `filter`, `query` or `replay` (stream/files/verdict_lines.py)
         | a report of the topic of duplicates: {"page": {"id", "url"}, "duplicate_of": {"page", "url"}}
"""

import hashlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from spotsieve.stream.base.signature import Entry
from spotsieve.stream.base.verdict import Kind, Verdicts


class NumberSet:
    """Numbers that were met, as sorted runs: a run is merged with the one before it as soon as it is as long."""

    def __init__(self) -> None:
        self._runs: list[NDArray[np.uint64]] = []

    def add(self, numbers: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Take in numbers: uint64[n] -> bool[n], whether each is met here for the first time."""
        kept, first = np.unique(numbers, return_index=True)
        new = np.ones(len(kept), np.bool_)
        for run in self._runs:
            at = np.searchsorted(run, kept)
            at[at == len(run)] = 0
            new &= run[at] != kept
        fresh = np.zeros(len(numbers), np.bool_)
        fresh[first[new]] = True
        if new.any():
            self._runs.append(kept[new])
        while len(self._runs) > 1 and len(self._runs[-2]) <= len(self._runs[-1]):
            last = self._runs.pop()
            self._runs[-1] = np.sort(np.concatenate([self._runs[-1], last]), kind="stable")
        return fresh


DUPLICATE = Kind.DUPLICATE.name.lower()
_VERDICTS = frozenset(kind.name.lower() for kind in Kind)


class OriginalRef(NamedTuple):
    """A page that another one is a copy of."""

    id: str
    url: str


class Statement(NamedTuple):
    """What is said of one page.

    verdict: novel, duplicate or unchecked  originals: the pages that it is a copy of, or that it replaces
    replaces: the id of the page that it replaces; "" for none
    """

    id: str
    url: str
    verdict: str
    originals: tuple[OriginalRef, ...] = ()
    replaces: str = ""


def read_statement(line: bytes) -> Statement | None:
    """What a line says; None for a line that is neither a verdict nor a report."""
    try:
        fields = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(fields, dict):
        return None
    return _report(fields) if isinstance(fields.get("page"), dict) else _verdict(fields)


def state_verdicts(pages: list[Entry], verdicts: Verdicts) -> Iterator[Statement]:
    """What verdicts say of these pages."""
    for row, page in enumerate(pages):
        named = (verdicts.originals[row], verdicts.replaces[row])
        originals = tuple(
            OriginalRef(entry.id, entry.url) for entry in named if entry is not None and entry.id != page.id
        )
        replaced = verdicts.replaces[row]
        verdict = Kind(verdicts.kind[row]).name.lower()
        yield Statement(page.id, page.url, verdict, originals, replaced.id if replaced is not None else "")


def _report(fields: dict[str, Any]) -> Statement | None:
    page, original = fields["page"], fields.get("duplicate_of")
    if not isinstance(original, dict) or not _text(page.get("id")) or not _text(original.get("page")):
        return None
    named = OriginalRef(_text(original["page"]), _text(original.get("url")))
    return Statement(_text(page["id"]), _text(page.get("url")), DUPLICATE, (named,))


def _verdict(fields: dict[str, Any]) -> Statement | None:
    own, verdict, replaces = _text(fields.get("id")), _text(fields.get("verdict")), _text(fields.get("replaces"))
    original = _text(fields.get("duplicate_of"))
    if not own or verdict not in _VERDICTS or (verdict == DUPLICATE and not original):
        return None
    matches = fields.get("matches")
    found = [(original, fields.get("original_url")), (replaces, fields.get("replaced_url"))]
    if isinstance(matches, list):
        found += [(_text(match.get("id")), match.get("url")) for match in matches if isinstance(match, dict)]
    originals = {name: _text(url) for name, url in found if name and name != own}
    return Statement(
        own, _text(fields.get("url")), verdict, tuple(map(OriginalRef, originals, originals.values())), replaces
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


_CHUNK = 16_384


class Member(NamedTuple):
    """A page and its cluster.

    verdict: None for a page that others name and of which nothing else is said  cluster: the id of the canonical page
    size: how many pages the cluster has
    """

    id: str
    url: str
    verdict: str | None
    cluster: str
    size: int

    @property
    def canonical(self) -> bool:
        """Whether it is the page that stands for its cluster."""
        return self.id == self.cluster


@dataclass(slots=True)
class Totals:
    """pages: different ones  repeated: statements about a page that was met before  named: pages without a statement
    clusters: those of more than one page  in_clusters: pages of these  largest: pages of the largest
    """

    pages: int = 0
    repeated: int = 0
    named: int = 0
    clusters: int = 0
    in_clusters: int = 0
    largest: int = 0


class _SpoolRow(NamedTuple):
    """What waits on disk. number: of the page  id: "" where the page was met before  verdict: None: it is only named
    originals: their numbers  replaced: the number of the page that this one replaces, or None
    """

    number: int
    id: str
    url: str
    verdict: str | None
    originals: list[int]
    replaced: int | None


class ClusterBuilder:
    """Give it all statements, then ask for the members."""

    def __init__(self, spool: BinaryIO) -> None:
        """spool: an empty temporary file"""
        self._spool = spool
        self._seen = NumberSet()
        self._waiting: list[Statement] = []
        self._places: dict[int, int] = {}
        self.totals = Totals()

    def add(self, statement: Statement) -> None:
        """Take in what is said of a page. Raises OSError if the disk is full."""
        self._waiting.append(statement)
        if len(self._waiting) >= _CHUNK:
            self._take_in()

    def members(self) -> Iterator[Member]:
        """Give every page once, in the order in which it was first stated or named. Raises OSError."""
        self._take_in()
        parents, stated, replaced = self._connect()
        sizes, canonical = self._choose(parents, stated, replaced)
        self._count(sizes)
        for page, own in self._pages(stated):
            top = _top(parents, self._top_of(page, own))
            if top is None:
                yield Member(page.id, page.url, page.verdict, page.id, 1)
            else:
                yield Member(page.id, page.url, page.verdict, canonical[top], sizes[top])

    def _take_in(self) -> None:
        """Write what waits to the spool. A page that is named for the first time gets a place and a line of its own."""
        waiting, self._waiting = self._waiting, []
        numbers = [_number(statement.id) for statement in waiting]
        fresh = self._seen.add(np.array(numbers, np.uint64)).tolist()
        lines = list[bytes]()
        for statement, number, new in zip(waiting, numbers, fresh, strict=True):
            originals = [_number(named.id) for named in statement.originals]
            for named, at in zip(statement.originals, originals, strict=True):
                if at not in self._places:
                    self._places[at] = len(self._places)
                    lines.append(_line(_SpoolRow(at, named.id, named.url, None, [], None)))
            if originals and not new:
                # Its first line may name none: then it hangs on no original, and needs a place to be joined by.
                self._places.setdefault(number, len(self._places))
            replaced = _number(statement.replaces) if statement.replaces else None
            own_id, url = (statement.id, statement.url) if new else ("", "")
            lines.append(_line(_SpoolRow(number, own_id, url, statement.verdict, originals, replaced)))
            self.totals.repeated += not new
        self._spool.write(b"".join(lines))

    def _connect(self) -> tuple["array[int]", bytearray, bytearray]:
        """-> of each place its parent, whether something is said of its page, and whether another page replaces it."""
        parents = array("q", range(len(self._places)))
        stated, replaced = bytearray(len(parents)), bytearray(len(parents))
        for page in self._spooled():
            own = self._places.get(page.number)
            if own is not None and page.verdict is not None:
                stated[own] = 1
            if page.replaced is not None:
                replaced[self._places[page.replaced]] = 1
            places = [self._places[number] for number in page.originals]
            for place in places if own is None else [own, *places]:
                _join(parents, places[0] if places else place, place)
        return parents, stated, replaced

    def _choose(
        self, parents: "array[int]", stated: bytearray, replaced: bytearray
    ) -> tuple["array[int]", dict[int, str]]:
        """-> how many pages each cluster has, and the id of its canonical page, by the place at the top."""
        sizes, canonical, other = array("q", bytes(8 * len(parents))), dict[int, str](), dict[int, str]()
        for page, own in self._pages(stated):
            top = _top(parents, self._top_of(page, own))
            if top is None:
                self.totals.pages += 1
                continue
            sizes[top] += 1
            stays = page.verdict != DUPLICATE and (own is None or not replaced[own])
            (canonical if stays else other).setdefault(top, page.id)
            self.totals.named += page.verdict is None
        return sizes, other | canonical

    def _count(self, sizes: "array[int]") -> None:
        of_many = [size for size in sizes if size > 1]
        self.totals.pages += sum(sizes)
        self.totals.clusters, self.totals.in_clusters = len(of_many), sum(of_many)
        self.totals.largest = max(of_many, default=min(self.totals.pages, 1))

    def _pages(self, stated: bytearray) -> Iterator[tuple[_SpoolRow, int | None]]:
        """Every page once, with its place if others name it."""
        for page in self._spooled():
            own = self._places.get(page.number)
            if page.id and not (page.verdict is None and own is not None and stated[own]):
                yield page, own

    def _top_of(self, page: _SpoolRow, own: int | None) -> int | None:
        """A place of the page's cluster; None for a page that has no copy."""
        if own is not None:
            return own
        return self._places[page.originals[0]] if page.originals else None

    def _spooled(self) -> Iterator[_SpoolRow]:
        self._spool.seek(0)
        for line in self._spool:
            yield _SpoolRow(*orjson.loads(line))


def _line(page: _SpoolRow) -> bytes:
    fields: list[Any] = list(page)
    return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)


def _number(page: str) -> int:
    """64 bits of a page's id."""
    return int.from_bytes(hashlib.blake2b(page.encode("utf-8", "replace"), digest_size=8).digest(), "little")


def _top(parents: "array[int]", place: int | None) -> int | None:
    """The top of the tree in which a place hangs; the way there is halved."""
    if place is None:
        return None
    while parents[place] != place:
        parents[place] = parents[parents[place]]
        place = parents[place]
    return place


def _join(parents: "array[int]", one: int, other: int) -> None:
    """Make one tree of two; the earlier place stays at the top."""
    first, second = _top(parents, one), _top(parents, other)
    if first is not None and second is not None and first != second:
        parents[max(first, second)] = min(first, second)
