"""Yuan et al. 2012, figure 6: the similar pairs of a set, and the pairs that 1-bit fingerprints call similar."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.papers.page import decimals, paragraphs, table
from bench.papers.yuan_counting import counting
from bench.papers.yuan_search import figure_5, times
from spotsieve.stream.base.page import Page, lay_out
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.base.settings.schemes import OnebitSettings
from spotsieve.stream.base.signature import SignatureStatus
from spotsieve.stream.research.evaluation.trial import read_pages
from spotsieve.stream.sign.features.shingles import shingle_pages
from spotsieve.stream.sign.schemes.minwise import OnebitScheme
from spotsieve.stream.sign.text.tokens import extract_tokens

BITS = (64, 400)
RESEMBLANCES = (0.7, 0.8, 0.9)
PAPER = {(64, 0.7): (".16", ".74"), (64, 0.8): (".19", ".77"), (64, 0.9): (".42", ".93")}
TITLE = "Yuan, Long, Zhang, Gui 2012"
FIGURE_6 = """\
Figure 6. Of all pairs of pages: precision and recall of "1 - 2 D / k is at least r" for 1-bit fingerprints of k bits,
against the resemblance R of their 3-shingles as it is. The paper gives values for k = 64; k = 400 it calls very good.
"""
FIGURE_6_SAYS = """\
Precision is a matter of the pairs that lie just below r: with k = 64 the estimate has a standard error of .05 at r =
.9 and of .09 at .7 (Eq. 6). The paper's 300,000 applications of one fund have many such pairs, newsgroups some, docs
hardly any. As theirs, more bits mend both.
"""
AT_ONCE = 8_192
"""Shingles whose pages are multiplied at once: 900 pages take 30 MB."""


class Estimation(NamedTuple):
    """Counts of pairs: with a resemblance of r or more, called similar, and both."""

    k: int
    r: float
    similar: int
    called: int
    both: int


def estimations(folder: Path) -> Iterator[Estimation]:
    """Counts for each number of bits and resemblance, over all pairs of the set's pages that have a fingerprint."""
    pages = list(read_pages(folder, Settings()))
    settings = OnebitSettings()
    judged = OnebitScheme(settings).sign(pages).status == SignatureStatus.FINGERPRINTED
    kept = [page for page, one in zip(pages, judged.tolist(), strict=True) if one]
    pairs = np.triu_indices(len(kept), 1)
    resemblance = resemblances(shingle_sets(kept, settings.w))[pairs]
    for k in BITS:
        for r in RESEMBLANCES:
            scheme = OnebitScheme(OnebitSettings(k=k, r=r))
            called = distances(scheme.sign(kept).sketch)[pairs] <= scheme.r_h
            similar = resemblance >= r
            yield Estimation(k, r, int(similar.sum()), int(called.sum()), int((similar & called).sum()))


def shingle_sets(pages: Sequence[Page], w: int) -> list[NDArray[np.uint64]]:
    """The distinct shingles of each page: uint64[], ascending."""
    batch = lay_out(pages)
    tokens = extract_tokens(batch.buffer, batch.bounds, batch.markup)
    hashes, bounds = shingle_pages(tokens, w, w)
    return [np.unique(hashes[first:last]) for first, last in pairwise(bounds)]


def resemblances(sets: Sequence[NDArray[np.uint64]]) -> NDArray[np.float64]:
    """Resemblance of each pair of different pages: float64[n, n]; the diagonal is meaningless."""
    page = np.repeat(np.arange(len(sets)), [len(one) for one in sets])
    shingles, place, frequency = np.unique(np.concatenate(sets), return_inverse=True, return_counts=True)
    numbers = np.cumsum(frequency > 1) - 1
    several = frequency[place] > 1
    page, column = page[several], numbers[place[several]]
    shared = np.zeros((len(sets), len(sets)), np.float32)
    for first in range(0, int(numbers[-1]) + 1 if len(shingles) else 0, AT_ONCE):
        chosen = (column >= first) & (column < first + AT_ONCE)
        has = np.zeros((len(sets), AT_ONCE), np.float32)
        has[page[chosen], column[chosen] - first] = 1
        shared += has @ has.T
    sizes = np.array([len(one) for one in sets], np.float64)
    whole: NDArray[np.float64] = shared / (sizes[:, None] + sizes - shared)
    return whole


def distances(sketch: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Number of differing bits of each pair: int64[n, n]."""
    return np.array([np.bitwise_count(sketch ^ row).sum(axis=1, dtype=np.int64) for row in sketch])


def section(data: Path) -> list[str]:
    """The section's lines of docs/measured/papers.md."""
    found = {name: list(estimations(data / name)) for name in ("docs", "newsgroups")}
    rows = []
    for several in zip(*found.values(), strict=True):
        k, r = several[0].k, several[0].r
        row = [k, r, *PAPER.get((k, r), ("", ""))]
        for one in several:
            precision, recall = one.both / max(one.called, 1), one.both / max(one.similar, 1)
            row += [decimals(precision, 2), decimals(recall, 2), f"{one.similar:,}"]
        rows.append(row)
    titles = ["k", "r", "paper P", "R"]
    for name in found:
        titles += [f"{name} P", "R", "pairs with R >= r"]
    figure_6 = (FIGURE_6.splitlines(), table(titles, rows), FIGURE_6_SAYS.splitlines())
    return paragraphs(*figure_5(data), *figure_6, *times(), *counting(data))
