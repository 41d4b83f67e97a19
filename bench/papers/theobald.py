"""Theobald et al. 2008: table 1, figures 5 and 6, the IDF range, and what Algorithm 1 saves (table 2), on our sets."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.papers.page import decimals, paragraphs, table
from bench.papers.theobald_matching import Collection, Matches, brute_force, collect, spotsigs
from bench.papers.theobald_stream import STREAM_SAYS, stream_table
from bench.quality.sets import LabelledSet, load_set
from spotsieve.stream.base.page import Page, lay_out
from spotsieve.stream.research.scoring import Label, Truth
from spotsieve.stream.sign.features.shingles import shingle_pages
from spotsieve.stream.sign.features.spots import DEFAULT_ANTECEDENTS, DEFAULT_STOP_WORDS, SpotSettings
from spotsieve.stream.sign.fingerprints.minhash import linear_hashes, minimum_hashes
from spotsieve.stream.sign.schemes.spotsigs import partition_boundaries
from spotsieve.stream.sign.schemes.terms import SpotTerms, TokenTerms
from spotsieve.stream.sign.text.tokens import extract_tokens

TITLE = "Theobald, Siddharth, Paepcke 2008"
SETS = ("news", "docs", "newsgroups")
LEAST_SPOTS = 5
RANGES = ((0.2, 0.85), (0.2, 1.0))
"""The paper's IDF range, and ours: our stories have two or three copies instead of 32, so their terms are rarer."""
TAUS = (0.2, 0.3, 0.4, 0.44, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
TABLE_1: Mapping[str, tuple[str, ...]] = {
    "SpotSigs": ("6,848", ".96", ".92", ".94"),
    "1-shingles": ("16,097", ".81", ".64", ".71"),
    "3-shingles": ("65,453", ".73", ".65", ".69"),
    "LSH-S": ("6,848", ".96", ".90", ".93"),
    "I-Match": ("9,473", "1.00", ".03", ".05"),
    "I-Match-S": ("4,575", ".96", ".23", ".37"),
}
"""Distinct terms, precision, recall and F1 of each method."""
FORMS = {"be": "am are be been being is was were", "have": "had has have having"}
ARTICLES = ("a", "an", "the")
BEST = "a, an, the, forms of be, can, will, have, do"
ANTECEDENTS: Mapping[str, tuple[str, ...]] = {
    "is": ("is",),
    "the": ("the",),
    "a, an, the": ARTICLES,
    "forms of be": tuple(FORMS["be"].split()),
    "a, an, the, forms of be and have": (*ARTICLES, *" ".join(FORMS.values()).split()),
    BEST: DEFAULT_ANTECEDENTS,
    "all stop-words": DEFAULT_STOP_WORDS,
}
IDF_RANGES = ((0.0, 1.0), (0.0, 0.85), (0.2, 0.85), (0.4, 0.75), (0.2, 1.0), (0.4, 1.0), (0.6, 1.0))
MATCHING_TAUS = (0.44, 0.7, 0.9)
PARTITIONS = {1.0: "501", 0.9: "41", 0.1: "3"}
"""Partitions of lengths up to 1,000, by tau."""

ABOUT = """\
Theirs: 2,160 news articles, 32 near duplicates of each on average, and all pairs of them looked at by people. Ours: all
pairs of each set's pages against its labels; a story of news has two or three copies in other sites' templates, docs
are manuals in several versions, newsgroups posts that were sent or quoted again. Pairs that are neither duplicates nor
different (similarity .2 to .6) count for nothing. Terms and their IDF are counted over each set, as theirs over their
corpus, and pages have at least 5. All pairs are compared, so what is here says how good the features are; what a stream
makes of them, where a page is compared with emitted pages only, is in docs/measured/schemes.md.

Table 1, each at the paper's threshold; IDF .2 to .85 and, as our stories are rarer, to 1 (I-Match: .4 to .75, to 1):
"""
TABLE_1_SAYS = """\
The paper's range of IDF leaves out what two or three of 2,000 pages have (an IDF of 1 is one page, .91 two of them):
that is what our copies share, and what pages of one template share stays. So only the rows up to an IDF of 1 bear
comparison. There, on pages in templates (news), the order is the paper's: SpotSigs, LSH-S behind it by recall, shingles
far below, I-Match brittle. On pages that are text and little else (docs, newsgroups) 3-shingles of the whole page are
better than spots. Nothing comes near the paper's .94 on news, where an article may be short and its template long.

Figure 5, F1 over tau (IDF .2 to 1); in the paper SpotSigs is best at .44 with .94, 3-shingles at .4 with .69:
"""
FIGURE_5_SAYS = """\
On news spots lie above shingles at every tau but the highest, as theirs, and .3 is best; on docs any tau up to .6 does.

Figure 6, F1 over the choice of antecedents, for tau = .44 and the best tau of figure 5's (IDF .2 to 1). The paper shows
the plot alone: articles with the forms of be, can, will, have and do are best, a full list of stop-words is worse but
above shingles; chains of 3 words and a distance of 2 gain about a point each:
"""
FIGURE_6_SAYS = """\
As theirs: on news articles with the verbs' forms are best among the antecedents, the full list is worse and still above
shingles, and the choice matters little as long as there are enough spots. Not as theirs: chains of one word are best on
news, as an edit breaks fewer of them, and docs, which have no templates to step over, are best with all stop-words.

The range of IDF, F1 at tau = .44; the paper took .2 to .85 for all competitors:
"""
RANGES_SAY = """\
No spot is common enough to be below .2; what is rare is needed here, and on news the rarer the better.

Table 2, the search: pairs whose vectors were compared and CPU time (sorting and matching, of this thread), with
partitions and pruning (SpotSigs), without partitions (NoPart), without both (NoPrune: all pairs that share a spot), and
all pairs. In the paper, on 1,171,960 pages of TREC WT10g at tau = .9: 17 s, 197 s, 10,090 s, and days. All find the
same pairs, and the stream's own index finds the earliest of them (tests/unit/schemes/test_spotsigs.py). IDF .2 to 1:
"""
TABLE_2_SAYS = """\
Of all pairs one in some hundred (news, .44) to some hundred thousand (newsgroups, .9) is compared. As theirs, pruning
saves most of what the lists of spots have left. Partitions spare nearly none beside it, as it bounds lengths too: they
make lists shorter, which saves time at tau = .7 and above; on some thousand pages that cannot be a factor of 11, as on
a million.

Partitions of lengths up to 1,000: by the recurrence as it is printed there are more of them than the paper counts.
"""
PARTITIONS_SAY = """\
Algorithm 1 meets two pages of one partition from both sides, here from the shorter one alone. Of a longer page its line
17 takes delta_1 + delta_2 for what is missing, though spots that a shorter page lacks are counted in both: a page that
lies whole in a longer one is found from its own side only.
"""


Hashes = tuple[NDArray[np.uint64], NDArray[np.int64]]
"""Hashed terms of pages: uint64[m], and bounds int64[n + 1] of the terms of each page."""


class Competitor(NamedTuple):
    """A method: the terms of its pages, its thresholds, and the similar pairs that it calls duplicates."""

    terms: Callable[[Sequence[Page]], Hashes]
    tau: float
    ranges: tuple[tuple[float, float], ...]
    search: Callable[[Collection, float], Matches]


class PairScores(NamedTuple):
    """Precision, recall and F1 over all pairs of a set."""

    precision: float | None
    recall: float | None
    f1: float | None


def section(data: Path) -> list[str]:
    """The section's lines of docs/measured/papers.md."""
    sets = [load_set(data / name) for name in SETS]
    return paragraphs(
        ABOUT.splitlines(),
        table_1(sets),
        TABLE_1_SAYS.splitlines(),
        figure_5(sets),
        FIGURE_5_SAYS.splitlines(),
        figure_6(sets),
        FIGURE_6_SAYS.splitlines(),
        idf_table(sets),
        RANGES_SAY.splitlines(),
        table_2(sets),
        TABLE_2_SAYS.splitlines(),
        partitions_table(),
        PARTITIONS_SAY.splitlines(),
        STREAM_SAYS.splitlines(),
        stream_table(),
    )


# ---- methods --------------------------------------------------------------------------------------------------------


def shingles(w: int, pages: Sequence[Page]) -> Hashes:
    """All shingles of w tokens."""
    batch = lay_out(pages)
    return shingle_pages(extract_tokens(batch.buffer, batch.bounds, batch.markup), w, w)


def banded(pages: Collection, tau: float, k: int = 6, l: int = 32) -> Matches:  # noqa: E741 - the paper's names
    """LSH-S: pairs with J >= tau that agree in one of l bands of k MinHash values."""
    found = spotsigs(pages, tau)
    minima = minimum_hashes(mixed(pages.features), pages.bounds, linear_hashes(k * l)).reshape(-1, l, k)
    one, other = found.pairs.T
    agree = (minima[one] == minima[other]).all(axis=2).any(axis=1)
    return found._replace(pairs=found.pairs[agree], jaccard=found.jaccard[agree])


def equal_sets(pages: Collection, _: float) -> Matches:
    """I-Match: pages with the same set of terms."""
    features = pages.features & ~np.uint64(0xFFFF)
    first = pages.features == features
    counts = np.concatenate([[0], np.cumsum(first)])
    return spotsigs(pages._replace(features=features[first], bounds=counts[pages.bounds]), 1.0)


def mixed(features: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Features as hashes: one-to-one."""
    words = features * np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ words >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    return words ^ words >> np.uint64(27)


def competitors() -> Mapping[str, Competitor]:
    """The competitors of table 1."""
    spots, tokens = SpotTerms(SpotSettings()).of, TokenTerms(DEFAULT_STOP_WORDS).of
    narrow = ((0.4, 0.75), (0.4, 1.0))
    return {
        "SpotSigs": Competitor(spots, 0.44, RANGES, spotsigs),
        "1-shingles": Competitor(partial(shingles, 1), 0.4, RANGES, spotsigs),
        "3-shingles": Competitor(partial(shingles, 3), 0.4, RANGES, spotsigs),
        "LSH-S": Competitor(spots, 0.44, RANGES, banded),
        "I-Match": Competitor(tokens, 1.0, narrow, equal_sets),
        "I-Match-S": Competitor(spots, 1.0, narrow, equal_sets),
    }


def collection(
    labelled: LabelledSet, terms: Callable[[Sequence[Page]], Hashes], idf: tuple[float, float]
) -> Collection:
    """A set's pages as multisets of terms in a range of IDF; pages with fewer than 5 terms have none."""
    return collect(*terms(labelled.pages), *idf).thinned(LEAST_SPOTS)


def figures_of(matched: Matches, truth: Truth, tau: float = 0.0) -> PairScores:
    """Precision, recall and F1 of the pairs that are called duplicates at tau, against the labels."""
    labels = {(pair.earlier, pair.later): truth.label(pair.similarity) for pair in truth.pairs}
    called = [tuple(pair) for pair in matched.pairs[matched.jaccard >= tau].tolist()]
    right = sum(labels.get(pair) is Label.DUPLICATE for pair in called)
    wrong = sum(labels.get(pair, Label.NOVEL) is Label.NOVEL for pair in called)
    there = sum(label is Label.DUPLICATE for label in labels.values())
    precision, recall = _share(right, right + wrong), _share(right, there)
    return PairScores(precision, recall, _share(2 * right, right + wrong + there))


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


# ---- tables ---------------------------------------------------------------------------------------------------------


def table_1(sets: Sequence[LabelledSet]) -> list[str]:
    """Precision, recall and F1 of each method, in both ranges."""
    rows = []
    for name, method in competitors().items():
        for number, idf in enumerate(method.ranges):
            row: list[object] = [name, f"{idf[0]:g} to {idf[1]:g}", *(TABLE_1[name][1:] if not number else [""] * 3)]
            for labelled in sets:
                matched = method.search(collection(labelled, method.terms, idf), method.tau)
                row += [decimals(value, 2) for value in figures_of(matched, labelled.truth)]
            rows.append(row)
    return table(["method", "IDF", "paper P", "R", "F1", *_titles(sets)], rows)


def figure_5(sets: Sequence[LabelledSet]) -> list[str]:
    """F1 over tau."""
    methods = competitors()
    names = ("SpotSigs", "1-shingles", "3-shingles")
    found = {
        (one.name, name): spotsigs(collection(one, methods[name].terms, RANGES[1]), TAUS[0])
        for one in sets[:2]
        for name in names
    }
    rows = [
        [tau, *(decimals(figures_of(found[one.name, name], one.truth, tau).f1) for one in sets[:2] for name in names)]
        for tau in TAUS
    ]
    return table(["tau", *(f"{one.name} {name}" for one in sets[:2] for name in names)], rows)


def figure_6(sets: Sequence[LabelledSet]) -> list[str]:
    """F1 over antecedents, distance and chain length."""
    chosen = {f"{name} (d = 2, c = 3)": SpotSettings(words) for name, words in ANTECEDENTS.items()}
    for d, c in ((1, 3), (3, 3), (2, 1), (2, 2), (2, 4)):
        chosen[f"{BEST} (d = {d}, c = {c})"] = SpotSettings(ANTECEDENTS[BEST], DEFAULT_STOP_WORDS, d, c)
    rows = [[name, *_at_and_best(sets[:2], SpotTerms(settings).of)] for name, settings in chosen.items()]
    return table(["antecedents", *(f"{one.name} {what}" for one in sets[:2] for what in ("at .44", "best"))], rows)


def _at_and_best(sets: Sequence[LabelledSet], terms: Callable[[Sequence[Page]], Hashes]) -> Iterator[str]:
    for labelled in sets:
        matched = spotsigs(collection(labelled, terms, RANGES[1]), TAUS[0])
        scores = {tau: figures_of(matched, labelled.truth, tau).f1 or 0.0 for tau in TAUS}
        best = max(scores, key=lambda tau: scores[tau])
        yield decimals(scores[0.44])
        yield f"{decimals(scores[best])} ({best:g})"


def idf_table(sets: Sequence[LabelledSet]) -> list[str]:
    """F1 over the range of IDF."""
    terms, rows = SpotTerms(SpotSettings()).of, []
    for idf in IDF_RANGES:
        row = [f"{idf[0]:g} to {idf[1]:g}"]
        for labelled in sets:
            pages = collection(labelled, terms, idf)
            f1 = figures_of(spotsigs(pages, 0.44), labelled.truth).f1
            row += [f"{pages.distinct:,}", decimals(f1)]
        rows.append(row)
    return table(["IDF", *(f"{one.name} {what}" for one in sets for what in ("spots", "F1"))], rows)


def table_2(sets: Sequence[LabelledSet]) -> list[str]:
    """Pairs compared and time of the search."""
    terms, rows = SpotTerms(SpotSettings()).of, []
    for labelled in sets:
        pages = collection(labelled, terms, RANGES[1])
        for tau in MATCHING_TAUS:
            runs = searches(pages, tau)
            if len({len(one.pairs) for one in runs}) > 1:
                raise AssertionError(f"searches of {labelled.name} at {tau} must find the same pairs")
            cells = (f"{one.comparisons:,} ({one.cpu_ms:,.0f} ms)" for one in runs)
            rows.append([f"{labelled.name}, {tau:g}", f"{len(runs[0].pairs):,}", *cells])
    return table(["set, tau", "pairs found", "SpotSigs", "NoPart", "NoPrune", "all pairs"], rows)


def searches(pages: Collection, tau: float) -> tuple[Matches, ...]:
    """SpotSigs, NoPart, NoPrune and brute force, each after a warm-up run that compiles it."""
    few = Collection(pages.features[:1], np.array([0, 1]), 1)
    found = []
    for run in (
        spotsigs,
        partial(spotsigs, partitions=False),
        partial(spotsigs, partitions=False, pruning=False),
        brute_force,
    ):
        run(few, tau)
        found.append(run(pages, tau))
    return tuple(found)


def partitions_table() -> list[str]:
    """The number of partitions of lengths up to 1,000."""
    rows = [[tau, paper, f"{len(partition_boundaries(tau, 1_000)) - 1:,}"] for tau, paper in PARTITIONS.items()]
    return table(["tau", "paper", "ours"], rows)


def _titles(sets: Sequence[LabelledSet]) -> Iterator[str]:
    for labelled in sets:
        yield f"{labelled.name} P"
        yield from ("R", "F1")
