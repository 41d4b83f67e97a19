"""Reads the labels of a set: which pages are duplicates, which are novel, and which do not count.

    truth.tsv.gz = header, (id, kind, ...) per page, in stream order; the columns group and host are optional
    pairs.tsv.gz = header, (id_a, id_b, similarity, kind, ...) per pair of similar pages, id_a earlier in the stream

The files are gzipped UTF-8. Tabs separate the columns, the header names them, and values are not quoted.
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
"""The least similarity of a positive pair (../shared/data/*/README.md)."""
NEGATIVE = 0.2
"""Pairs below this similarity and pairs that are not listed are negative. Pairs between the two bounds do not count."""


class Label(enum.IntEnum):
    """The label of a pair by its similarity; of a page by its pair with the most similar earlier page. Not stored."""

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
    """The labels of one set of n pages.

    ids: n page ids in stream order
    kinds: n kinds of page
    pairs: the listed pairs, without repetitions
    groups, hosts: n texts, "" if the set has none
    positive, negative: the bounds of similarity
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
        """The place in the stream by page id."""
        return {page: place for place, page in enumerate(self.ids)}

    @cached_property
    def listed(self) -> Mapping[tuple[int, int], TruthPair]:
        """The pairs by their two places, earlier first."""
        return {(pair.earlier, pair.later): pair for pair in self.pairs}

    def label(self, similarity: float) -> Label:
        """The label of a pair with this similarity."""
        if similarity >= self.positive:
            return Label.DUPLICATE
        return Label.NOVEL if similarity < self.negative else Label.IGNORED

    @cached_property
    def labels(self) -> tuple[tuple[Label, str], ...]:
        """The label of each page, and the kind under which it is counted.

        A duplicate counts under the kind of its pair with the most similar earlier page (the earliest of several). Any
        other page counts under its own kind.
        """
        closest: list[TruthPair | None] = [None] * len(self.ids)
        for pair in self.pairs:
            best = closest[pair.later]
            if best is None or (pair.similarity, -pair.earlier) > (best.similarity, -best.earlier):
                closest[pair.later] = pair
        labels = []
        for best, kind in zip(closest, self.kinds, strict=True):
            label = self.label(best.similarity if best else 0.0)
            pair_kind = best.kind if best else ""  # with --positive 0 a page without any pair is a duplicate
            labels.append((label, pair_kind if label is Label.DUPLICATE else kind))
        return tuple(labels)

    def part(self, chosen: Sequence[int]) -> "Truth":
        """The labels of some pages, as if the stream had only these. chosen: places, ascending"""
        new = {place: number for number, place in enumerate(chosen)}
        pairs = tuple(
            TruthPair(new[pair.earlier], new[pair.later], pair.similarity, pair.kind)
            for pair in self.pairs
            if pair.earlier in new and pair.later in new
        )

        def select(column: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(column[place] for place in chosen) if column else ()

        groups, hosts = select(self.groups), select(self.hosts)
        return Truth(select(self.ids), select(self.kinds), pairs, groups, hosts, self.positive, self.negative)


def load_truth(folder: Path, positive: float = POSITIVE, negative: float = NEGATIVE) -> Truth:
    """The labels of a set. Raises InputError if a file is missing, damaged or empty, or names an unknown page."""
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
                f"{path} line {number}", "must not repeat a page id", page, "give every page a different id"
            )
        places[page] = len(ids)
        ids.append(page)
        kinds.append(row["kind"])
        groups.append(row.get("group", ""))
        hosts.append(row.get("host", ""))
    if not ids:
        raise InputError(str(path), "has no labels", None, "write a line with id and kind for each page")
    pairs = tuple(_pairs(folder / PAIRS_FILE, places).values())
    return Truth(tuple(ids), tuple(kinds), pairs, tuple(groups), tuple(hosts), positive, negative)


def check_verdicts(truth: Truth, originals: Iterable[tuple[str, str | None]], name: str) -> tuple[int | None, ...]:
    """For each place of the stream the place of its original, or None.

    originals: (page id, id of its original or None), in any order
    name: the name of the set, for messages
    Raises InputError for a page without a verdict, a page id without a label, a repeated page id, and an original that
    is not an earlier page.
    """
    places: dict[int, int | None] = {}
    for page, original in originals:
        place = truth.places.get(page)
        if place is None:
            raise InputError(f"{name}: page id", f"must be in {TRUTH_FILE}", page, "label the page, or remove it")
        if place in places:
            raise InputError(f"{name}: page id", "must be unique", page, "give every page a different id")
        earlier = None if original is None else truth.places.get(original)
        if original is not None and (earlier is None or earlier >= place):
            raise InputError(
                f"{name}: the original of {page!r}",
                "must be an earlier page of the set",
                original,
                f"pages and {TRUTH_FILE} must have the same order",
            )
        places[place] = earlier
    missing = [page for page, place in truth.places.items() if place not in places]
    if missing:
        rule = f"must each have a page; {len(missing)} labels have none, such as {missing[0]!r}"
        raise InputError(f"{name}: labels", rule, None, f"pages and {TRUTH_FILE} must contain the same ids")
    return tuple(places[place] for place in range(len(truth.ids)))


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
            raise InputError(here, "must have a similarity from 0 to 1", row["similarity"], "correct the line")
        pairs[earlier, later] = TruthPair(earlier, later, similarity, row["kind"])
    return pairs


def _place(page: str, places: Mapping[str, int], here: str) -> int:
    if page not in places:
        raise InputError(here, f"must name pages of {TRUTH_FILE}", page, "label the page, or remove the pair")
    return places[page]


def _rows(path: Path, needed: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """The line number of each row, and its texts by column. Raises InputError."""
    try:
        with gzip.open(path, "rt", encoding="utf-8-sig", newline="\n") as lines:
            header = next(lines, "").rstrip("\r\n").split("\t")
            absent = [name for name in needed if name not in header]
            if absent:
                rule = f"must have the columns {', '.join(needed)}, and {absent[0]} is missing"
                raise InputError(str(path), rule, None, "add the column to the header and to every row")
            for number, line in enumerate(lines, 2):
                cells = line.rstrip("\r\n").split("\t")
                if cells == [""]:
                    continue
                if len(cells) != len(header):
                    rule = f"must have {len(header)} columns, has {len(cells)}"
                    raise InputError(f"{path} line {number}", rule, None, "check whether the line is truncated")
                yield number, dict(zip(header, cells, strict=True))
    except (FileNotFoundError, NotADirectoryError):
        raise _no_set(path) from None
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(str(path), f"cannot be read: {reason}", None, "check that it is a gzip file") from None


def _no_set(path: Path) -> InputError:
    if not path.parent.is_dir():
        rule = "must be a folder with a labelled set, or a file of pages"
        return InputError(str(path.parent), rule, None, "check the name; a pipe must be saved as a file")
    return InputError(
        str(path.parent),
        f"must contain pages.jsonl.xz, {PAIRS_FILE} and {TRUTH_FILE}, and {path.name} is missing",
        None,
        "name the folder of a labelled set",
    )
