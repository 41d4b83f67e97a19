"""Fits stream/sign/features/scorecard.txt: from the labelled blocks of a set with main texts to the points of both
cards.

`python -m bench.quality.scorecard_fit` writes the file and its digest; with `--check` it compares. A block is
labelled as text of its page if at least 60 % of its 3-word runs occur in the main text that people marked. Each card is
a logistic regression over its classes; the first card's rounded points give the sums that the second is fitted on. All
pages are there a second time, with less weight, with link lists of other pages in the middle of their text.
"""

import argparse
import hashlib
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
from numpy.typing import NDArray

from bench.command import reports_errors
from bench.quality.cards import CHANCE, SCALE, Columns, Ints, Points, first_places, second_places
from bench.quality.edits import MarkedPage, draw_link_lists, inject, link_texts, mark, words_of
from bench.quality.sets import DATA, LabelledSet, load_set
from spotsieve.stream.base.errors import InputError
from spotsieve.stream.sign.features import scorecard
from spotsieve.stream.sign.features.scorecard import FIRST_CARD, SECOND_CARD
from spotsieve.stream.sign.features.sieve import blocks_of

FITTED_ON = "news"
LABEL_SHARE = 0.6
"""Share of a block's 3-word runs that the main text contains."""
REGULARISATION = 1.0
"""C of the regression, for weights in units of WEIGHT_UNIT words."""
COPY_SHARE = 0.2
"""Weight of a copy with injected link lists, relative to its page."""
LEAST_WORDS = 60
"""Lower bound of the main text of a page that gets injected link lists."""
LEAST_LINK_WORDS = 30
"""Lower bound of the words in the links of a page whose list is injected elsewhere."""
LIST_WORDS = (50, 100, 200, 300)
STOP_AT = 1e-4
"""Gradient at which the regression stops, after about 35 steps. Run to convergence, it gives rare classes 600 points
more, and a fit to news then misses half as many duplicates of docs again.
"""
MOST_WEIGHT, WEIGHT_UNIT = 300, 20
"""Upper bound of a block's weight in words: a page in one giant block must not outvote a hundred pages."""
TOLERANCE = 40
"""The most points by which a fit may differ. The tables are of a time when anchors without an address were links and
elements without an end tag stood around all that followed. A fit to the blocks of today differs by 35 points in one
cell, and with it the filter is worse: of catalogue it loses 2 pages (0) and misses 33 (30), of news it loses 2 by the
labels (1)."""
FEATURES = Path(scorecard.__file__).parent
ABOUT = "Fit both scorecards to the labelled blocks of a set: writes stream/sign/features/scorecard.txt and its digest."
HEADER = (
    "# The tables of the scorecards, fitted to the labelled blocks of shared/data/news "
    "(stream/sign/features/scorecard.py)."
)


@dataclass(frozen=True, slots=True)
class LabelledBlocks:
    """The blocks of a page, and which of them are text. is_text: bool[n]  share: of the page's weight in the fit"""

    columns: Columns
    is_text: NDArray[np.bool_]
    share: float = 1.0

    @property
    def weights(self) -> NDArray[np.float64]:
        """The weight of each block in the fit."""
        return np.minimum(self.columns.words, MOST_WEIGHT) / WEIGHT_UNIT * self.share


class Material:
    """The training data of a set: its labelled blocks, and those of copies with injected link lists of other pages.

    Without the copies, a list in the middle of an article ends it: the second card has seen no text go on behind one.
    """

    def __init__(self, labelled: LabelledSet) -> None:
        self._pages = [
            _FittedPage.of(page.label, html, labelled.main_texts.get(page.label, "")) if markup else None
            for page, (html, markup) in zip(labelled.pages, labelled.documents, strict=True)
        ]

    def of(self, places: Iterable[int] | None = None) -> list[LabelledBlocks]:
        """The blocks of these pages (None: of all), and of copies of them with lists of others of these."""
        every = self._pages if places is None else [self._pages[place] for place in places]
        pages = [page for page in every if page is not None]
        lists = [page.list_texts for page in pages if page.link_words >= LEAST_LINK_WORDS]
        copies = [page.with_list(lists) for page in pages] if lists else []
        return [page for page in (*(page.blocks for page in pages), *copies) if page is not None]


@dataclass(frozen=True, slots=True)
class _FittedPage:
    """marked: the place of its main text, None if it was not found  list_texts: of its links"""

    main_text: str
    blocks: LabelledBlocks | None
    marked: MarkedPage | None
    list_texts: tuple[str, ...]

    @classmethod
    def of(cls, label: str, html: str, main_text: str) -> "_FittedPage":
        marked = mark(label, html, main_text) if len(words_of(main_text)) >= LEAST_WORDS else None
        return cls(main_text, label_blocks(html.encode(), main_text), marked, tuple(link_texts(html)))

    @property
    def link_words(self) -> int:
        return sum(len(text.split()) for text in self.list_texts)

    def with_list(self, lists: Sequence[Sequence[str]]) -> LabelledBlocks | None:
        if self.marked is None:
            return None
        random = Random(f"fit-{self.marked.id}")
        drawn = draw_link_lists(lists, random.choice(LIST_WORDS), random)
        found = label_blocks(inject(self.marked, drawn, True, random).encode(), self.main_text)
        return found and replace(found, share=COPY_SHARE)


def label_blocks(html: bytes, main_text: str) -> LabelledBlocks | None:
    """One page. Blocks of fewer than three words are never labelled as text: they carry no evidence of their own."""
    blocks = blocks_of(html, True)
    text = [token for block in blocks_of(main_text.encode(), False) for token in block.tokens]
    if not blocks or not text:
        return None
    runs = set(zip(text, text[1:], text[2:], strict=False))
    is_text = [_share_in(block.tokens, runs) >= LABEL_SHARE for block in blocks]
    columns = (
        [len(block.tokens) for block in blocks],
        [block.links for block in blocks],
        [block.sections for block in blocks],
    )
    return LabelledBlocks(Columns(*(np.array(column, np.int64) for column in columns)), np.array(is_text, np.bool_))


class Fit:
    """Both cards' regressions over the same blocks, with all groups of classes or without some."""

    def __init__(self, pages: Sequence[LabelledBlocks]) -> None:
        """Raises InputError without pages."""
        if not pages:
            raise InputError(
                "set", "must have HTML pages with main texts to fit on", None, "name another one with --on"
            )
        self._columns = [page.columns for page in pages]
        self._is_text = np.concatenate([page.is_text for page in pages])
        self._weights = np.concatenate([page.weights for page in pages])
        self._ends = np.cumsum([len(page.is_text) for page in pages])[:-1]
        self._firsts = np.concatenate([first_places(page.columns) for page in pages])
        self._whole_first: tuple[dict[str, tuple[int, ...]], Ints] | None = None

    def points(self, without: Collection[str] = ()) -> dict[str, tuple[int, ...]]:
        """The points of both cards, by group, as scorecard.frozen_points gives them.

        without: groups of either card that get no points, as the sections that the cards do not use
        """
        if set(without) & set(FIRST_CARD):
            first, seconds = self._first(without)
        else:
            self._whole_first = self._whole_first or self._first(())
            first, seconds = self._whole_first
        return {**first, **self._regress(SECOND_CARD, seconds, without), "chance": CHANCE}

    def _first(self, without: Collection[str]) -> tuple[dict[str, tuple[int, ...]], Ints]:
        """The first card's points, and the places of all blocks in the second card."""
        points = self._regress(FIRST_CARD, self._firsts, without)
        flat = np.concatenate([np.asarray(points[group], np.int64) for group in FIRST_CARD])
        sums = np.split(flat[self._firsts].sum(axis=1) + points["first start"][0], self._ends)
        of_pages = zip(self._columns, sums, strict=True)
        return points, np.concatenate([second_places(columns, firsts) for columns, firsts in of_pages])

    def _regress(self, card: Mapping[str, int], places: Ints, without: Collection[str]) -> dict[str, tuple[int, ...]]:
        """The points of a card's groups. places: int64[blocks, columns], each column within one group"""
        from scipy.sparse import csr_matrix
        from sklearn.linear_model import LogisticRegression

        bounds = np.cumsum([0, *card.values()])
        names = [list(card)[group] for group in np.searchsorted(bounds, places[0], side="right") - 1]
        used = places[:, [name not in without for name in names]]
        ends = np.arange(0, used.size + 1, used.shape[1])
        classes = csr_matrix((np.ones(used.size), used.ravel(), ends), shape=(len(used), bounds[-1]))
        model = LogisticRegression(C=REGULARISATION, tol=STOP_AT).fit(
            classes, self._is_text, sample_weight=self._weights
        )
        points = np.round(SCALE * model.coef_[0]).astype(np.int64)
        start = round(SCALE * float(model.intercept_[0]))
        spans = zip(card, pairwise(bounds.tolist()), strict=True)
        return {group: tuple(points[first:last].tolist()) for group, (first, last) in spans} | {
            list(card)[-1]: (start,)
        }


@contextmanager
def points_replaced(points: Points) -> Iterator[None]:
    """Sign every page with these points while the block runs. For measurements; the product has no such setting."""
    frozen = scorecard.frozen_points
    scorecard.frozen_points = lambda: points  # type: ignore[assignment]
    try:
        yield
    finally:
        scorecard.frozen_points = frozen


def as_text(points: Points) -> bytes:
    """The text of scorecard.txt with these points."""
    lines = (f"{group}: {' '.join(map(str, points[group]))}\n" for group in (*FIRST_CARD, *SECOND_CARD, "chance"))
    return f"{HEADER}\n{''.join(lines)}".encode("ascii")


def greatest_difference(points: Points, frozen: Points) -> tuple[int, str]:
    """The largest difference in points, and its group."""
    pairs = ((group, zip(points[group], frozen[group], strict=True)) for group in frozen)
    return max((abs(one - other), group) for group, both in pairs for one, other in both)


@reports_errors
def main(arguments: Sequence[str] | None = None) -> int:
    """Fit, then write or compare. Returns 0 if done or within the tolerance, 1 for another fit, 3 without a set."""
    parser = argparse.ArgumentParser("python -m bench.quality.scorecard_fit", description=ABOUT)
    parser.add_argument("--check", action="store_true", help="write nothing, compare with the file")
    parser.add_argument("--on", type=Path, default=DATA / FITTED_ON, metavar="DIR", help=f"the set, {FITTED_ON}")
    options = parser.parse_args(arguments)
    points = Fit(Material(load_set(options.on)).of()).points()
    difference, group = greatest_difference(points, scorecard.frozen_points())
    print(f"greatest difference from stream/sign/features/scorecard.txt: {difference} points, in {group!r}")
    if options.check:
        return int(difference > TOLERANCE)
    write(points, FEATURES)
    return 0


def write(points: Points, folder: Path) -> None:
    """Write scorecard.txt, and its digest into the module beside it (stream/sign/features/scorecard.py)."""
    text, module = as_text(points), folder / "scorecard.py"
    (folder / "scorecard.txt").write_bytes(text)
    digest = f'DIGEST = "{hashlib.sha256(text).hexdigest()}"'
    module.write_text(re.sub(r'^DIGEST = "[0-9a-f]*"$', digest, module.read_text("utf-8"), flags=re.MULTILINE), "utf-8")


def _share_in(tokens: Sequence[str], runs: Collection[tuple[str, ...]]) -> float:
    own = list(zip(tokens, tokens[1:], tokens[2:], strict=False))
    return sum(run in runs for run in own) / len(own) if own else 0.0


if __name__ == "__main__":
    sys.exit(main())
