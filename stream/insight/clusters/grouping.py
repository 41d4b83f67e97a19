"""Groups pages that verdicts connect, and chooses the canonical page of each cluster.

A statement is the verdict on one page, with its originals and the page that it supersedes. It comes from a line:

    line = a verdict of `filter`, `query` or `replay` (stream/files/verdict_lines.py)
         | a report in the topic of duplicates: {"page": {"id", "url"}, "duplicate_of": {"page", "url"}}

The canonical page of a cluster is its first page that is not a duplicate and that no other page supersedes.

Only pages that other pages name are in memory, about 400 bytes each. A duplicate that no page names is reached through
its original. The output rows wait on disk until all statements are read, because the last one may still join two
clusters. A set of the ids takes 8 bytes per page, and twice that while it merges. Ids are compared by 64 bits of
BLAKE2b: with 100 million pages, two ids collide in 1 of 3,700 runs.
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

DUPLICATE = Kind.DUPLICATE.label
_VERDICTS = frozenset(kind.label for kind in Kind)
_CHUNK = 16_384
"""Statements that are written to the spool together."""


class NumberSet:
    """A set of numbers in sorted runs. A run is merged with the previous one as soon as it is as long."""

    def __init__(self) -> None:
        self._runs: list[NDArray[np.uint64]] = []

    def add(self, numbers: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Add numbers: uint64[n] -> bool[n], whether each of them is new."""
        distinct, first = np.unique(numbers, return_index=True)
        new = np.ones(len(distinct), np.bool_)
        for run in self._runs:
            at = np.searchsorted(run, distinct)
            at[at == len(run)] = 0
            new &= run[at] != distinct
        fresh = np.zeros(len(numbers), np.bool_)
        fresh[first[new]] = True
        if new.any():
            self._runs.append(distinct[new])
        while len(self._runs) > 1 and len(self._runs[-2]) <= len(self._runs[-1]):
            last = self._runs.pop()
            self._runs[-1] = np.sort(np.concatenate([self._runs[-1], last]), kind="stable")
        return fresh


class OriginalRef(NamedTuple):
    """The original of another page."""

    id: str
    url: str


class Statement(NamedTuple):
    """The verdict on one page.

    verdict: novel, duplicate or unchecked  originals: its originals, or the page that it supersedes
    replaces: the id of the page that it supersedes; "" for none
    """

    id: str
    url: str
    verdict: str
    originals: tuple[OriginalRef, ...] = ()
    replaces: str = ""


def read_statement(line: bytes) -> Statement | None:
    """The statement in a line; None for a line that is neither a verdict nor a report."""
    try:
        fields = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return statement_of(fields) if isinstance(fields, dict) else None


def statement_of(fields: dict[str, Any]) -> Statement | None:
    """The statement in the fields of a line or row; None if they are neither a verdict nor a report."""
    return _report(fields) if isinstance(fields.get("page"), dict) else _verdict(fields)


def state_verdicts(pages: list[Entry], verdicts: Verdicts) -> Iterator[Statement]:
    """The statements for pages and their verdicts, row by row."""
    for row, page in enumerate(pages):
        entries = (verdicts.originals[row], verdicts.replaces[row])
        originals = tuple(
            OriginalRef(entry.id, entry.url) for entry in entries if entry is not None and entry.id != page.id
        )
        replaced = verdicts.replaces[row]
        verdict = Kind(verdicts.kind[row]).label
        yield Statement(page.id, page.url, verdict, originals, replaced.id if replaced is not None else "")


def _report(fields: dict[str, Any]) -> Statement | None:
    page, original = fields["page"], fields.get("duplicate_of")
    if not isinstance(original, dict) or not _text(page.get("id")) or not _text(original.get("page")):
        return None
    reference = OriginalRef(_text(original["page"]), _text(original.get("url")))
    return Statement(_text(page["id"]), _text(page.get("url")), DUPLICATE, (reference,))


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


class Member(NamedTuple):
    """A page and its cluster.

    verdict: None for a page without a statement of its own  cluster: id of the canonical page
    size: number of pages in the cluster
    """

    id: str
    url: str
    verdict: str | None
    cluster: str
    size: int

    @property
    def canonical(self) -> bool:
        """Whether it is the canonical page of its cluster."""
        return self.id == self.cluster


@dataclass(slots=True)
class Totals:
    """Counts of a grouping.

    pages: distinct pages  repeated: further statements about a page  named: pages without a statement of their own
    clusters: clusters of two or more pages  in_clusters: pages in them  largest: pages in the largest one
    """

    pages: int = 0
    repeated: int = 0
    named: int = 0
    clusters: int = 0
    in_clusters: int = 0
    largest: int = 0


class _SpoolRow(NamedTuple):
    """A row on disk. number: of the page (_number)  id: "" for a further statement about a page

    verdict: None for a page that is only named  originals: their numbers  replaced: number of the superseded page
    """

    number: int
    id: str
    url: str
    verdict: str | None
    originals: list[int]
    replaced: int | None


class ClusterBuilder:
    """Collects all statements, then yields the members of the clusters."""

    def __init__(self, spool: BinaryIO) -> None:
        """spool: an empty temporary file"""
        self._spool = spool
        self._seen = NumberSet()
        self._waiting: list[Statement] = []
        self._places: dict[int, int] = {}
        self.totals = Totals()

    def add(self, statement: Statement) -> None:
        """Add a statement. Raises OSError if the disk is full."""
        self._waiting.append(statement)
        if len(self._waiting) >= _CHUNK:
            self._spool_waiting()

    def members(self) -> Iterator[Member]:
        """Every page once, in the order in which statements first mentioned it. Raises OSError."""
        self._spool_waiting()
        parents, stated, replaced = self._connect()
        sizes, canonical = self._choose(parents, stated, replaced)
        self._count(sizes)
        for page, own in self._pages(stated):
            root = _root(parents, self._place_of(page, own))
            if root is None:
                yield Member(page.id, page.url, page.verdict, page.id, 1)
            else:
                yield Member(page.id, page.url, page.verdict, canonical[root], sizes[root])

    def _spool_waiting(self) -> None:
        """Write the waiting statements to the spool. A page named for the first time gets a place and its own row."""
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
                # Its first statement may name no original. Then the page needs a place to join the cluster.
                self._places.setdefault(number, len(self._places))
            replaced = _number(statement.replaces) if statement.replaces else None
            own_id, url = (statement.id, statement.url) if new else ("", "")
            lines.append(_line(_SpoolRow(number, own_id, url, statement.verdict, originals, replaced)))
            self.totals.repeated += not new
        self._spool.write(b"".join(lines))

    def _connect(self) -> tuple["array[int]", bytearray, bytearray]:
        """-> for each place: its parent, whether its page has a statement, and whether another page supersedes it."""
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
        """-> the size of each cluster, and the id of its canonical page, by the place of its root."""
        sizes, canonical, other = array("q", bytes(8 * len(parents))), dict[int, str](), dict[int, str]()
        for page, own in self._pages(stated):
            root = _root(parents, self._place_of(page, own))
            if root is None:
                self.totals.pages += 1
                continue
            sizes[root] += 1
            stands = page.verdict != DUPLICATE and (own is None or not replaced[own])
            (canonical if stands else other).setdefault(root, page.id)
            self.totals.named += page.verdict is None
        return sizes, other | canonical

    def _count(self, sizes: "array[int]") -> None:
        of_many = [size for size in sizes if size > 1]
        self.totals.pages += sum(sizes)
        self.totals.clusters, self.totals.in_clusters = len(of_many), sum(of_many)
        self.totals.largest = max(of_many, default=min(self.totals.pages, 1))

    def _pages(self, stated: bytearray) -> Iterator[tuple[_SpoolRow, int | None]]:
        """Every page once, with its place if other pages name it."""
        for page in self._spooled():
            own = self._places.get(page.number)
            if page.id and not (page.verdict is None and own is not None and stated[own]):
                yield page, own

    def _place_of(self, page: _SpoolRow, own: int | None) -> int | None:
        """A place in the page's cluster; None for a page without copies."""
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
    """64 bits of BLAKE2b of a page's id."""
    return int.from_bytes(hashlib.blake2b(page.encode("utf-8", "replace"), digest_size=8).digest(), "little")


def _root(parents: "array[int]", place: int | None) -> int | None:
    """The root of a place's tree, with path halving."""
    if place is None:
        return None
    while parents[place] != place:
        parents[place] = parents[parents[place]]
        place = parents[place]
    return place


def _join(parents: "array[int]", one: int, other: int) -> None:
    """Join two trees; the earlier place becomes the root."""
    first, second = _root(parents, one), _root(parents, other)
    if first is not None and second is not None and first != second:
        parents[max(first, second)] = min(first, second)
