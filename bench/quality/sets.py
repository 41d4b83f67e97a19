"""Reads labelled sets into memory: their pages, labels and main texts."""

import json
import lzma
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from urllib.parse import urlsplit

from spotsieve.stream.base.errors import InputError
from spotsieve.stream.base.page import Page
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.research.evaluation.trial import PAGES_FILE, read_pages
from spotsieve.stream.research.scoring import Truth, load_truth
from spotsieve.stream.research.scoring.fresh_text import FreshText, PageGrams, measure, words_of
from spotsieve.stream.research.scoring.measures import join
from spotsieve.stream.research.scoring.truth import TruthPair

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
TEXTS_FILE = "texts.jsonl.xz"


@dataclass(frozen=True)
class LabelledSet:
    """One set. pages are in stream order, one for each label."""

    name: str
    folder: Path
    pages: tuple[Page, ...]
    truth: Truth

    @cached_property
    def megabytes(self) -> float:
        """Bytes of all bodies as UTF-8, in 10^6."""
        return sum(len(page.body) for page in self.pages) / 1e6

    @cached_property
    def documents(self) -> tuple[tuple[str, bool], ...]:
        """Each page as text, and whether it is HTML: the input of other programs."""
        return tuple((page.body.decode("utf-8", "replace"), bool(page.markup)) for page in self.pages)

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """The host of each page: the label's, else the URL's."""
        given = self.truth.hosts or ("",) * len(self.pages)
        return tuple(host or urlsplit(page.url).netloc for host, page in zip(given, self.pages, strict=True))

    @cached_property
    def clusters(self) -> tuple[int, ...]:
        """The cluster of each page, joined transitively by listed pairs that are not negative and by equal groups."""
        first: dict[str, int] = {}
        groups = enumerate(self.truth.groups)
        same = [(first.setdefault(group, place), place) for place, group in groups if group]
        near = [(pair.earlier, pair.later) for pair in self.truth.pairs if pair.similarity >= self.truth.negative]
        return tuple(join(len(self.pages), [*same, *near]))

    @property
    def main_texts(self) -> Mapping[str, str]:
        """Page id -> main text as people marked it; empty if the set has none."""
        return _main_texts(self.folder)

    def fresh_text(self, originals: Sequence[int | None]) -> FreshText | None:
        """The measures of verdicts by fresh text; None without main texts.

        originals: for each page the place of its original, or None if it was emitted
        """
        grams = _main_text_grams(self.folder)
        return measure([grams[name] for name in self.truth.ids], originals) if grams else None

    def part(self, places: Sequence[int]) -> "LabelledSet":
        """Some of its pages, as if there were no others. places: ascending"""
        pages = tuple(self.pages[place] for place in places)
        return LabelledSet(self.name, self.folder, pages, self.truth.part(places))

    def in_order(self, places: Sequence[int]) -> "LabelledSet":
        """Its pages in another order, with the labels of this order. places: each once"""
        new = {place: number for number, place in enumerate(places)}
        truth = self.truth
        ends = (sorted((new[pair.earlier], new[pair.later])) for pair in truth.pairs)
        pairs = tuple(
            TruthPair(earlier, later, pair.similarity, pair.kind)
            for (earlier, later), pair in zip(ends, truth.pairs, strict=True)
        )

        def of(column: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(column[place] for place in places) if column else ()

        groups, hosts = of(truth.groups), of(truth.hosts)
        ordered = Truth(of(truth.ids), of(truth.kinds), pairs, groups, hosts, truth.positive, truth.negative)
        return LabelledSet(self.name, self.folder, tuple(self.pages[place] for place in places), ordered)


@cache
def _main_texts(folder: Path) -> Mapping[str, str]:
    path = folder / TEXTS_FILE
    if not path.exists():
        return {}
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        return {record["id"]: record["text"] for record in map(json.loads, lines)}


@cache
def _main_text_grams(folder: Path) -> Mapping[str, PageGrams]:
    return {name: PageGrams.of(words_of(text)) for name, text in _main_texts(folder).items()}


def find_sets(extra: Iterable[Path] = ()) -> list[Path]:
    """Folders of the sets beside the repository, then the extra ones."""
    beside = sorted(path.parent for path in DATA.glob(f"*/{PAGES_FILE}"))
    return [*beside, *extra]


def load_set(folder: Path, most_pages: int | None = None) -> LabelledSet:
    """Read a set, or the beginning of its stream. Raises InputError if pages and labels do not fit together."""
    truth = load_truth(folder)
    pages = tuple(read_pages(folder, Settings()))
    if tuple(page.label for page in pages) != truth.ids:
        raise InputError(str(folder), "must have its labels in the order of its pages", None, "sort truth.tsv.gz")
    loaded = LabelledSet(folder.name, folder, pages, truth)
    return loaded if most_pages is None else loaded.part(range(min(most_pages, len(pages))))
