"""Ye, Wen, Ma, figures 2 to 4 and section 6: the effect of sampling by size of page, and the adaptive table."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from bench.papers.page import decimals, paragraphs, table
from bench.quality.ours import judge, settings_with, sign
from bench.quality.sets import load_set
from spotsieve.stream.base.settings.model import Settings
from spotsieve.stream.research.evaluation.trial import read_pages
from spotsieve.stream.research.models.sampling import SampledPages, SizeClass, Trials, choose_ratios, share_processed

SETS = ("docs", "news", "newsgroups")
SIZES = (500, 1000, 2000, 3000, 5000)
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95)
PRECISIONS = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.99)
LEVELS = 6
"""Number of sampling ratios, 1/1 to 1/32; the paper's end at 1/16."""
W, OTHER_W = 5, (3, 10)
TITLE = "Ye, Wen, Ma, large-scale duplicate document detection"
HEAD = """\
Theirs: 958,725 HTML documents of TREC .GOV, exact copies left out, in 11 groups by their number of words; MD5
shingles; for a ratio 1/n the average of all n remainders. Precision: of the pairs found with sampling those that are
found without; recall: of the pairs found without those found with it. The figures are plots: what the text says of
them stands beside ours. Ours: the pages of docs, news and newsgroups together, markup and exact copies left out, in 6
groups, w = 5 (the text does not name theirs), and pages of one sampled shingle are compared like any others.
"""
FIGURE_2 = "Figure 2. Precision at the ratio 1/{n}, by threshold and group (the words of its smallest page):"
BY_RATIO = "Precision by ratio, at the threshold .85:"
THEIRS_AT_16 = {"0": ".57", "all": ".70"}
FIGURE_2_SAYS = """\
Theirs besides: below .8 for the small pages at every threshold above .5, and below .1 for all groups under 3,000 words
above .95. As theirs, precision is the lower the smaller page and ratio are; small pages suffer most, and large ones
hardly at all. It falls less deep at high thresholds: a pair is taken for one by chance if its resemblance lies just
below the threshold, and of such pairs a government's sites may have more, pages of one form that differ in a number.
That cannot be checked without .GOV. Our large groups have few pairs.
"""
FIGURE_3 = "Figure 3. Recall at the ratio 1/16, by threshold and group:"
FIGURE_3_SAYS = """\
Theirs: above .6 everywhere, and little lower at higher thresholds. Ours are above .6 too. What is missing lies just
above the threshold, or has none of its few shingles in the sample.
"""
FIGURE_4 = """\
Figure 4. Share of all shingles that are sampled, in per cent, if every group has the smallest ratio of 1/2 to 1/16 that
reaches a precision, 1/1 if none does (6.25: 1/16 for all):
"""
SECTION_6 = "Section 6. The table for a precision and a threshold, and the shingles that are sampled with it:"
SECTION_6_SAYS = """\
The table is theirs for the example that they give in full, whatever w. The share of shingles is a matter of how many
are in small pages: 17 % theirs, {small} % ours. The 5.55 % is the abstract's, without the table that it belongs to;
at .85 our small pages need a larger ratio than 1/16, and the longer a shingle is the larger. `spotsieve calibrate`
makes such a table of a sample of one's own pages.
"""
STREAM = """\
In the stream: the scheme `adaptive-shingles` at t = .6, w = 5, with one ratio for all pages, and last with the table
above; pairs of one cluster, as labelled. Log: bytes of a page's record in the log, most of them its sampled shingles.
"""
STREAM_SAYS = """\
The adaptive table keeps the figures of 1/8 for all at little more than the log of 1/16 for all, which loses copies: of
a small page fewer than 4 shingles are in the sample, and it is not judged, or 4 are, and tell little. Newsgroups has 56
pairs, so a pair more or less, by the luck of the remainder, is a change of .018.
"""
EXAMPLES = (
    (0.8, 0.6, 16, "1/8, then 1/16", "8"),
    (0.8, 0.6, 32, "1/8, then 1/32", "4.72"),
    (0.85, 0.85, 32, "", "5.55"),
)
"""Precision, threshold, n of the smallest ratio, the paper's table and per cent of shingles (the last: abstract)."""


def sample_of(data: Path, w: int) -> SampledPages:
    """The pages of all sets."""
    sample = SampledPages(w)
    for name in SETS:
        sample.add([page for page in read_pages(data / name, Settings()) if page.judgeable and page.body])
    return sample


def together(classes: Sequence[SizeClass]) -> Trials:
    """The pairs of all classes. As in the paper, no pair spans two classes."""
    parts = [one.trials for one in classes]
    return Trials(
        sum(one.similar for one in parts),
        np.sum([one.found for one in parts], axis=0),
        np.sum([one.both for one in parts], axis=0),
        np.sum([one.sampled for one in parts], axis=0),
    )


def up_to(classes: Sequence[SizeClass], smallest: int) -> list[SizeClass]:
    """The classes without the ratios below 1/smallest."""
    levels = smallest.bit_length()
    return [SizeClass(one.words, one.pages, cut(one.trials, levels)) for one in classes]


def cut(trials: Trials, levels: int) -> Trials:
    """The trials of the first ratios only."""
    return Trials(trials.similar, trials.found[:levels], trials.both[:levels], trials.sampled[:levels])


def by_group(found: Mapping[float, Sequence[SizeClass]], figure: str, n: int) -> list[str]:
    """A figure by threshold and group. figure: precision or recall"""
    level = n.bit_length() - 1
    groups = next(iter(found.values()))
    whole = sum(one.trials.sampled[0] for one in groups)
    rows = []
    for place, group in enumerate(groups):
        row = [f">= {group.words}", f"{group.pages:,}", f"{100 * group.trials.sampled[0] / whole:.0f}"]
        rows.append(row + [decimals(getattr(one[place].trials, figure)(level), 2) for one in found.values()])
    totals = ["all", f"{sum(one.pages for one in groups):,}", "100"]
    rows.append(totals + [decimals(getattr(together(one), figure)(level), 2) for one in found.values()])
    return table(["words", "pages", "% of shingles", *map(str, found)], rows)


def by_ratio(classes: Sequence[SizeClass]) -> list[str]:
    """Precision of each group at the ratios below 1/1."""
    groups = [(str(one.words), one.trials) for one in classes]
    levels = range(1, LEVELS)
    rows = [
        [
            name if name == "all" else f">= {name}",
            THEIRS_AT_16.get(name, ""),
            *(decimals(trials.precision(level), 2) for level in levels),
        ]
        for name, trials in [*groups, ("all", together(classes))]
    ]
    return table(["words", "paper 1/16", *(f"1/{1 << level}" for level in levels)], rows)


def shares(found: Mapping[float, Sequence[SizeClass]]) -> list[str]:
    """Figure 4: by precision and threshold."""
    rows = []
    for precision in PRECISIONS:
        row = [str(precision)]
        for classes in found.values():
            bounded = up_to(classes, 16)
            row.append(f"{100 * share_processed(bounded, choose_ratios(bounded, precision)):.2f}")
        rows.append(row)
    return table(["precision", *map(str, found)], rows)


def ratios_text(classes: Sequence[SizeClass], ratios: Sequence[int]) -> str:
    """A text such as "1/8, then 1/16 from 500 words"."""
    parts = [f"1/{ratios[0]}"]
    for one, n, before in zip(classes[1:], ratios[1:], ratios, strict=False):
        if n != before:
            parts.append(f"1/{n} from {one.words}")
    return ", ".join(parts)


def examples(found: Mapping[int, Mapping[float, Sequence[SizeClass]]]) -> list[str]:
    """Section 6, for each w."""
    rows = []
    for precision, threshold, smallest, theirs, share in EXAMPLES:
        for w, classes in found.items():
            bounded = up_to(classes[threshold], smallest)
            ratios = choose_ratios(bounded, precision)
            processed = f"{100 * share_processed(bounded, ratios):.2f}"
            row = [precision, threshold, f"1/{smallest}", theirs, share, w, ratios_text(bounded, ratios), processed]
            rows.append(row)
    titles = ["precision", "threshold", "smallest", "their table", "%", "our w", "our table, ratio from words", "%"]
    return table(titles, rows)


def stream_table(data: Path) -> list[str]:
    """The scheme over labelled sets, by its ratios."""
    tables: dict[str, tuple[list[int], list[int]]] = {f"1/{n}": ([], [n]) for n in (1, 2, 4, 8, 16)}
    tables["1/8, 1/16 from 500"] = ([500], [8, 16])
    sets = [load_set(data / name) for name in ("docs", "newsgroups")]
    rows = []
    for name, (sizes, ratios) in tables.items():
        row = [name]
        for labelled in sets:
            given = {"scheme.name": "adaptive-shingles", "scheme.sizes": sizes, "scheme.ratios": ratios}
            settings = settings_with(given | {"scheme.most_shingles": 65_535})
            records = sign(labelled.pages, settings)
            retrieval = judge(records, labelled.truth, settings, labelled.name).scores.clusters.retrieval
            row += [decimals(value) for value in (retrieval.precision, retrieval.recall, retrieval.f1)]
            row.append(f"{sum(map(len, records)) / len(labelled.pages):,.0f}")
        rows.append(row)
    return table(["ratio", "docs P", "R", "F", "log", "newsgroups P", "R", "F", "log"], rows)


def section(data: Path) -> list[str]:
    """The section's lines of docs/measured/papers.md."""
    found: dict[int, dict[float, list[SizeClass]]] = {}
    for w in (W, *OTHER_W):
        sample = sample_of(data, w)
        wanted = THRESHOLDS if w == W else sorted({threshold for _, threshold, *_ in EXAMPLES})
        found[w] = {threshold: list(sample.classes(SIZES, threshold, 1, LEVELS)) for threshold in wanted}
    groups = found[W][THRESHOLDS[0]]
    small = 100 * groups[0].trials.sampled[0] / sum(one.trials.sampled[0] for one in groups)
    return paragraphs(
        HEAD.splitlines(),
        [FIGURE_2.format(n=4)],
        by_group(found[W], "precision", 4),
        [FIGURE_2.format(n=16)],
        by_group(found[W], "precision", 16),
        [BY_RATIO],
        by_ratio(found[W][0.85]),
        FIGURE_2_SAYS.splitlines(),
        [FIGURE_3],
        by_group(found[W], "recall", 16),
        FIGURE_3_SAYS.splitlines(),
        FIGURE_4.splitlines(),
        shares(found[W]),
        [SECTION_6],
        examples(found),
        SECTION_6_SAYS.format(small=f"{small:.0f}").splitlines(),
        STREAM.splitlines(),
        stream_table(data),
        STREAM_SAYS.splitlines(),
    )
