"""Owns the fit of stream/features/scorecard.txt: labelled blocks of a set with main texts -> both cards' points.

`python -m tests.quality.scorecard_fit` writes the file and its digest, with `--check` it compares. A block is labelled
as text of its page if at least 60 % of its 3-word runs occur in the main text that people marked. Each card is a
logistic regression over its classes; the first card's rounded points give the sums that the second is fitted on.
"""

import argparse
import hashlib
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stream.errors import InputError, SpotsieveError
from stream.features import scorecard
from stream.features.scorecard import FIRST_CARD, SECOND_CARD
from stream.features.sieve import blocks_of
from tests.quality.cards import (
    CHANCE,
    SCALE,
    Columns,
    Ints,
    Points,
    first_places,
    first_sums,
    second_places,
    size_of,
)
from tests.quality.sets import DATA, LabelledSet, load_set

FITTED_ON = "news"
LABEL_SHARE = 0.6
"""Of a block's 3-word runs, in the main text."""
RUN_WORDS = 3
REGULARISATION = 0.3
"""C of the regression, for weights in units of WEIGHT_UNIT words."""
STOP_AT = 1e-4
"""Gradient at which the regression stops, after about 35 steps. To its end it gives rare classes 600 points more, and
and what is fitted to news then misses half as many duplicates of docs again."""
MOST_WEIGHT, WEIGHT_UNIT = 300, 20
"""Words that a block weighs at most: a page in one giant block must not outvote a hundred pages."""
TOLERANCE = 2
"""Points by which another release of the regression may differ."""
FEATURES = Path(scorecard.__file__).parent
ABOUT = "Fit both scorecards to the labelled blocks of a set: writes stream/features/scorecard.txt and its digest."
HEADER = (
    "# The tables of the scorecards, fitted to the labelled blocks of shared/data/news (stream/features/scorecard.py)."
)


@dataclass(frozen=True, slots=True)
class LabelledBlocks:
    """The blocks of a page and which of them are text of the page. is_text: bool[n]"""

    columns: Columns
    is_text: NDArray[np.bool_]

    @property
    def weights(self) -> NDArray[np.float64]:
        """What each block counts in the fit."""
        return np.minimum(self.columns.words, MOST_WEIGHT) / WEIGHT_UNIT


def label_pages(labelled: LabelledSet, share: float = LABEL_SHARE) -> list[LabelledBlocks | None]:
    """The labelled blocks of each page of a set; None for plain text, for pages without blocks or main text."""
    return [
        label_blocks(page.body, labelled.main_texts.get(page.label, ""), share) if page.markup else None
        for page in labelled.pages
    ]


def label_blocks(html: bytes, main_text: str, share: float = LABEL_SHARE) -> LabelledBlocks | None:
    """One page. Blocks of fewer than three words are never labelled as text: alone they tell nothing."""
    blocks = blocks_of(html, True)
    text = [token for block in blocks_of(main_text.encode(), False) for token in block.tokens]
    if not blocks or not text:
        return None
    runs = set(zip(text, text[1:], text[2:], strict=False))
    is_text = [_share_in(block.tokens, runs) >= share for block in blocks]
    columns = ([len(block.tokens) for block in blocks], [block.links for block in blocks],
               [block.sections for block in blocks])  # fmt: skip
    return LabelledBlocks(Columns(*(np.array(column, np.int64) for column in columns)), np.array(is_text, np.bool_))


def fit(
    pages: Iterable[LabelledBlocks | None], without: Collection[str] = (), regularisation: float = REGULARISATION
) -> dict[str, tuple[int, ...]]:
    """The points of both cards, by group, as scorecard.frozen_points gives them.

    without: groups of either card that get no points, as the sections that the cards do not use
    """
    known = [page for page in pages if page is not None]
    if not known:
        raise InputError("set", "must have HTML pages with main texts to fit on", None, "name another one with --on")
    is_text = np.concatenate([page.is_text for page in known])
    weights = np.concatenate([page.weights for page in known])
    places = np.concatenate([first_places(page.columns, without) for page in known])
    points = _tables(FIRST_CARD, *_regress(places, size_of(FIRST_CARD), is_text, weights, regularisation))
    places = np.concatenate([second_places(page.columns, first_sums(page.columns, points), without) for page in known])
    points |= _tables(SECOND_CARD, *_regress(places, size_of(SECOND_CARD), is_text, weights, regularisation))
    return points | {"chance": CHANCE}


@contextmanager
def points_replaced(points: Points) -> Iterator[None]:
    """Within, every page is signed with these points: for measurements, the product has no such setting."""
    frozen = scorecard.frozen_points
    scorecard.frozen_points = lambda: points  # type: ignore[assignment]
    try:
        yield
    finally:
        scorecard.frozen_points = frozen


def as_text(points: Points) -> bytes:
    """scorecard.txt with these points."""
    lines = (f"{group}: {' '.join(map(str, points[group]))}\n" for group in (*FIRST_CARD, *SECOND_CARD, "chance"))
    return f"{HEADER}\n{''.join(lines)}".encode("ascii")


def greatest_difference(points: Points, frozen: Points) -> tuple[int, str]:
    """By how many points the two differ most, and in which group."""
    pairs = ((group, zip(points[group], frozen[group], strict=True)) for group in frozen)
    return max((abs(one - other), group) for group, both in pairs for one, other in both)


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit and write, or compare. 0 done, or no difference to speak of; 1 another fit than the file's; 3 no set."""
    parser = argparse.ArgumentParser("python -m tests.quality.scorecard_fit", description=ABOUT)
    parser.add_argument("--check", action="store_true", help="write nothing, compare with the file")
    parser.add_argument("--on", type=Path, default=DATA / FITTED_ON, metavar="DIR", help=f"the set, {FITTED_ON}")
    options = parser.parse_args(arguments)
    try:
        points = fit(label_pages(load_set(options.on)))
    except SpotsieveError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    difference, group = greatest_difference(points, scorecard.frozen_points())
    print(f"greatest difference from stream/features/scorecard.txt: {difference} points, in {group!r}")
    if options.check:
        return int(difference > TOLERANCE)
    write(points, FEATURES)
    return 0


def write(points: Points, folder: Path) -> None:
    """Write scorecard.txt and its digest in scorecard.py."""
    text, module = as_text(points), folder / "scorecard.py"
    (folder / "scorecard.txt").write_bytes(text)
    digest = f'DIGEST = "{hashlib.sha256(text).hexdigest()}"'
    module.write_text(re.sub(r'^DIGEST = "[0-9a-f]*"$', digest, module.read_text("utf-8"), flags=re.MULTILINE), "utf-8")


def _share_in(tokens: Sequence[str], runs: Collection[tuple[str, ...]]) -> float:
    own = list(zip(tokens, tokens[1:], tokens[2:], strict=False))
    return sum(run in runs for run in own) / len(own) if own else 0.0


def _regress(
    places: Ints, size: int, is_text: NDArray[np.bool_], weights: NDArray[np.float64], regularisation: float
) -> tuple[Ints, int]:
    """Points of every place, int64[size], and the start's."""
    from scipy.sparse import csr_matrix
    from sklearn.linear_model import LogisticRegression

    blocks, groups = places.shape
    ends = np.arange(0, places.size + 1, groups)
    classes = csr_matrix((np.ones(places.size), places.ravel(), ends), shape=(blocks, size))
    model = LogisticRegression(C=regularisation, tol=STOP_AT).fit(classes, is_text, sample_weight=weights)
    rounded = np.round(SCALE * np.append(model.coef_[0], model.intercept_[0])).astype(np.int64)
    return rounded[:-1], int(rounded[-1])


def _tables(card: dict[str, int], points: Ints, start: int) -> dict[str, tuple[int, ...]]:
    ends = np.cumsum([0, *card.values()]).tolist()
    spans = zip(card, pairwise(ends), strict=True)
    return {group: tuple(points[first:last].tolist()) for group, (first, last) in spans} | {list(card)[-1]: (start,)}


if __name__ == "__main__":
    sys.exit(main())
