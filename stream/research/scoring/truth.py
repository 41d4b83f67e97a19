"""Reads the labels of a set: which page is a duplicate, which one is novel, and which one does not count.

    truth.tsv.gz = header, (id, kind, ...) a page, in stream order; the columns group and host may be there
    pairs.tsv.gz = header, (id_a, id_b, similarity, kind, ...) a pair of similar pages, id_a earlier in the stream

The files are gzipped UTF-8. Tabs separate the columns, the header names them, and nothing is quoted.
"""

import enum
import gzip
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from spotsieve.stream.base.errors import InputError

TRUTH_FILE = "truth.tsv.gz"
PAIRS_FILE = "pairs.tsv.gz"
POSITIVE = 0.6
"""Least similarity of a positive pair (../shared/data/*/README.md)."""
NEGATIVE = 0.2
"""Pairs below it are negative, as are all that are not listed. Pairs between the two bounds do not count."""


class Label(enum.IntEnum):
    """What a similarity makes of a pair; for a page that with its most similar earlier page counts. Never stored."""

    NOVEL = 0
    IGNORED = 1
    DUPLICATE = 2


@dataclass(frozen=True, slots=True)
class TruthPair:
    """A listed pair of pages; earlier and later are places in the stream."""

    earlier: int
    later: int
    similarity: float
    kind: str


@dataclass(frozen=True)
class Truth:
    """The labels of one set.

    ids: n page ids in stream order  kinds: n kinds of page  groups, hosts: n texts, "" where the set has none
    pairs: each at most once  positive, negative: bounds of similarity
    """

    ids: tuple[str, ...]
    kinds: tuple[str, ...]
    pairs: tuple[TruthPair, ...]
    groups: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    positive: float = POSITIVE
    negative: float = NEGATIVE

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Page id to its place in the stream."""
        return {page: place for place, page in enumerate(self.ids)}

    @cached_property
    def listed(self) -> Mapping[tuple[int, int], TruthPair]:
        """The pairs by their two places, earlier first."""
        return {(pair.earlier, pair.later): pair for pair in self.pairs}

    def label(self, similarity: float) -> Label:
        """What a similarity says."""
        if similarity >= self.positive:
            return Label.DUPLICATE
        return Label.NOVEL if similarity < self.negative else Label.IGNORED

    @cached_property
    def labels(self) -> tuple[tuple[Label, str], ...]:
        """For each page its label, and the kind under which it is counted.

        A duplicate counts under the kind of its pair with the most similar earlier page, the earliest of equally
        similar ones. Any other page counts under its own kind.
        """
        closest: list[TruthPair | None] = [None] * len(self.ids)
        for pair in self.pairs:
            best = closest[pair.later]
            if best is None or (pair.similarity, -pair.earlier) > (best.similarity, -best.earlier):
                closest[pair.later] = pair
        found = []
        for best, kind in zip(closest, self.kinds, strict=True):
            label = self.label(best.similarity if best else 0.0)
            paired = best.kind if best else ""  # with --positive 0 even a page that nothing is like is a duplicate
            found.append((label, paired if label is Label.DUPLICATE else kind))
        return tuple(found)

    def part(self, chosen: Sequence[int]) -> "Truth":
        """The labels of some pages, as if the stream held no others. chosen: ascending places"""
        new = {place: number for number, place in enumerate(chosen)}
        pairs = tuple(
            TruthPair(new[pair.earlier], new[pair.later], pair.similarity, pair.kind)
            for pair in self.pairs
            if pair.earlier in new and pair.later in new
        )

        def of(column: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(column[place] for place in chosen) if column else ()

        groups, hosts = of(self.groups), of(self.hosts)
        return Truth(of(self.ids), of(self.kinds), pairs, groups, hosts, self.positive, self.negative)


def load_truth(folder: Path, positive: float = POSITIVE, negative: float = NEGATIVE) -> Truth:
    """Read the labels of a set. Raises InputError if a file is missing, damaged or empty, or names an unknown page."""
    path = folder / TRUTH_FILE
    ids: list[str] = []
    kinds: list[str] = []
    groups: list[str] = []
    hosts: list[str] = []
    places: dict[str, int] = {}
    for number, row in _rows(path, ("id", "kind")):
        page = row["id"]
        if page in places:
            raise InputError(
                f"{path} line {number}", "must name each page once", page, "give every page an id of its own"
            )
        places[page] = len(ids)
        ids.append(page)
        kinds.append(row["kind"])
        groups.append(row.get("group", ""))
        hosts.append(row.get("host", ""))
    if not ids:
        raise InputError(str(path), "must label at least one page", None, "write a line for each page: its id and kind")
    pairs = tuple(_pairs(folder / PAIRS_FILE, places).values())
    return Truth(tuple(ids), tuple(kinds), pairs, tuple(groups), tuple(hosts), positive, negative)


def check_verdicts(truth: Truth, originals: Iterable[tuple[str, str | None]], name: str) -> tuple[int | None, ...]:
    """(page id, id of its original or None) in any order -> for each place the place of its original or None.

    name: of the set, for messages. Raises InputError for a page of the set without a verdict, an id without a label, a
    page that comes twice, or an original that is not earlier.
    """
    found: dict[int, int | None] = {}
    for page, original in originals:
        place = truth.places.get(page)
        if place is None:
            raise InputError(
                f"{name}: page id", f"must be one of {TRUTH_FILE}", page, "label it, or leave the page out"
            )
        if place in found:
            raise InputError(f"{name}: page id", "must stand for one page", page, "give every page an id of its own")
        earlier = None if original is None else truth.places.get(original)
        if original is not None and (earlier is None or earlier >= place):
            raise InputError(
                f"{name}: the original of {page!r}",
                "must be an earlier page of the set",
                original,
                f"pages and {TRUTH_FILE} must have one order",
            )
        found[place] = earlier
    missing = [page for page, place in truth.places.items() if place not in found]
    if missing:
        rule = f"must each have a page; {len(missing)} have none, the first is {missing[0]!r}"
        raise InputError(f"{name}: labels", rule, None, f"pages and {TRUTH_FILE} must name the same ids")
    return tuple(found[place] for place in range(len(truth.ids)))


def _pairs(path: Path, places: Mapping[str, int]) -> dict[tuple[int, int], TruthPair]:
    pairs: dict[tuple[int, int], TruthPair] = {}
    for number, row in _rows(path, ("id_a", "id_b", "similarity", "kind")):
        here = f"{path} line {number}"
        earlier, later = (_place(row[name], places, here) for name in ("id_a", "id_b"))
        if earlier >= later:
            pair = f"{row['id_a']}, {row['id_b']}"
            raise InputError(
                here, "must name the earlier page first", pair, "swap them, or correct the order of the pages"
            )
        try:
            similarity = float(row["similarity"])
        except ValueError:
            similarity = math.nan
        if not 0 <= similarity <= 1:
            raise InputError(
                here, "must have a number from 0 to 1 as similarity", row["similarity"], "correct the line"
            )
        pairs[earlier, later] = TruthPair(earlier, later, similarity, row["kind"])
    return pairs


def _place(page: str, places: Mapping[str, int], here: str) -> int:
    if page not in places:
        raise InputError(here, f"must name pages of {TRUTH_FILE}", page, "label the page, or leave the pair out")
    return places[page]


def _rows(path: Path, needed: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """(line number, column to text) of each row. Raises InputError."""
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="\n") as lines:
            header = next(lines, "").rstrip("\r\n").split("\t")
            absent = [name for name in needed if name not in header]
            if absent:
                raise InputError(str(path), f"must have the columns {', '.join(needed)}; {absent[0]} is missing")
            for number, line in enumerate(lines, 2):
                cells = line.rstrip("\r\n").split("\t")
                if cells == [""]:
                    continue
                if len(cells) != len(header):
                    rule = f"must have {len(header)} columns, has {len(cells)}"
                    raise InputError(f"{path} line {number}", rule, None, "look for a cut line")
                yield number, dict(zip(header, cells, strict=True))
    except (FileNotFoundError, NotADirectoryError):
        raise _no_set(path) from None
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(str(path), f"cannot be read: {reason}", None, "check the file: it must be gzip") from None


def _no_set(path: Path) -> InputError:
    if not path.parent.is_dir():
        return InputError(str(path.parent), "must be a folder", None, "name the folder of a labelled set")
    return InputError(
        str(path.parent),
        f"must hold pages.jsonl.xz, {PAIRS_FILE} and {TRUTH_FILE}; {path.name} is missing",
        None,
        "name the folder of a labelled set",
    )
