"""Williams, Giles 2013: figure 1 (precision and recall over k, w and R), table 2 (kinds of near duplicates found)."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.papers.page import decimals, paragraphs, table
from bench.quality.ours import JudgedSet, in_batches, judge, settings_with, sign
from bench.quality.sets import LabelledSet, load_set
from spotsieve.stream.base.signature import SignatureStatus
from spotsieve.stream.research.scoring import Label, Truth
from spotsieve.stream.sign.schemes.minwise import unpack_minima
from spotsieve.stream.sign.schemes.registry import scheme_of

TITLE = "Williams, Giles, CiteSeerX 2013"
K = range(11)
W = (5, 8, 10)
R = (0.5, 0.6, 0.7, 0.8, 0.9)
SIMHASH = {
    0: ("1", "", ""),
    3: (".94", ".88", ".91"),
    4: ("", "> .9", ""),
    5: ("~ .65", "> .9", ""),
    6: ("", "> .9", ""),
    7: ("", "> .9", ""),
    8: ("< .2", "> .9", ""),
    9: ("< .2", "> .9", ""),
    10: ("< .2", "> .9", ""),
}
"""Precision, recall and F by k, from the text of the paper."""
KINDS = ("exact", "preprint", "content or version")
TABLE_2 = {"simhash": (12, 3, 4), "shingles": (9, 5, 6)}
LAYOUT_ONLY = ("copy", "typography", "headline")
"""Pairs of the set news whose text differs only in typography, headline, byline and dateline."""

ABOUT = """\
Theirs: 95,558 academic papers; precision of 20 sampled pairs for each setting, recall of the 360 pairs that any
setting had right. The text gives some of the figure's values, the others can only be seen in the plot. Ours: all
labelled pairs, those of one cluster; docs are manuals in several versions, the nearest to theirs, newsgroups short
posts. The same by `spotsieve score SET --scheme subhash --sweep scheme.k=0..10`.

`subhash`, unweighted token simhash (fig. 1a):
"""
SIMHASH_SAYS = """\
As theirs, the F-score of docs is highest at k = 3, at .91, precision falls steeply beyond k = 5, and recall does not
reach 1. On short posts the same few words make fingerprints near: the method needs long texts, as they suspected of
mathematical notation (sec. 4.2).

`minhash` (figs. 1b and 1c; theirs: precision at least .95 everywhere; best at w = 5 and R = 50 %: P 1, R .98, F .99):
"""
SHINGLES_SAY = """\
As theirs, neither the shingles' length nor R costs precision; recall falls with both.
"""
TABLE_2_SAYS = """\
Table 2: the kinds of what each method found at its best (k = 3; w = 5, R = 50 %). Theirs: 19 and 20 true pairs of 20
sampled ones, looked at by people. Ours: all labelled duplicates, found where the two fingerprints themselves are that
near, as in their two passes, without clusters. Exact: the main texts have the same 3-grams. Preprint (other
formatting, notices, page numbers): news, pairs that differ in typography, headline, byline or dateline alone; docs
has none. Content or version: all others, such as two releases of a manual, or an article cut, extended or edited.
"""
TABLE_2_SHOWS = """\
As theirs, shingles find more of every kind, and most in versions. On news both read the whole page, so an article in
another site's template is mostly new words: neither method was made for that.
"""


def section(data: Path) -> list[str]:
    """The section's lines of docs/measured/papers.md."""
    sets = {name: load_set(data / name) for name in ("docs", "newsgroups", "news")}
    figure = (sets["docs"], sets["newsgroups"])
    parts = (
        ABOUT.splitlines(),
        simhash_table(figure),
        SIMHASH_SAYS.splitlines(),
        shingles_table(figure),
        SHINGLES_SAY.splitlines(),
        TABLE_2_SAYS.splitlines(),
        kinds_table((sets["docs"], sets["news"])),
        TABLE_2_SHOWS.splitlines(),
    )
    return paragraphs(*parts)


def simhash_table(sets: tuple[LabelledSet, LabelledSet]) -> list[str]:
    """Figure 1 (a)."""
    docs, posts = (list(swept(one, [{"scheme.name": "subhash", "scheme.k": k} for k in K])) for one in sets)
    rows = [
        [k, *SIMHASH.get(k, ("", "", "")), *pairs_of(one), decimals(one.f1), *pairs_of(other)]
        for k, one, other in zip(K, docs, posts, strict=True)
    ]
    ours = ["docs pairs P", "R", "F", "docs pages F", "newsgroups pairs P", "R", "F"]
    return table(["k", "paper P", "R", "F", *ours], rows)


def shingles_table(sets: tuple[LabelledSet, LabelledSet]) -> list[str]:
    """Figures 1 (b) and (c)."""
    rows = []
    for w in W:
        variants = [{"scheme.name": "minhash", "scheme.w": w, "scheme.resemblance": r} for r in R]
        docs, posts = (list(swept(one, variants)) for one in sets)
        for r, one, other in zip(R, docs, posts, strict=True):
            rows.append([w, f"{r * 100:.0f} %", *pairs_of(one), *pairs_of(other)])
    return table(["w", "R", "docs pairs P", "R", "F", "newsgroups pairs P", "R", "F"], rows)


def swept(labelled: LabelledSet, variants: list[dict[str, object]]) -> Iterator[JudgedSet]:
    """The set under each of these settings, signed once: the settings change only the judging."""
    records = sign(labelled.pages, settings_with(variants[0]))
    for one in variants:
        yield judge(records, labelled.truth, settings_with(one), labelled.name)


def pairs_of(judged: JudgedSet) -> list[str]:
    """Precision, recall and F over pairs of one cluster."""
    figures = judged.scores.clusters.retrieval
    return [decimals(value) for value in (figures.precision, figures.recall, figures.f1)]


def kinds_table(sets: tuple[LabelledSet, LabelledSet]) -> list[str]:
    """Table 2."""
    rows: list[list[object]] = [[f"{method}, paper", *counts] for method, counts in TABLE_2.items()]
    for labelled in sets:
        kinds = kinds_of(labelled.truth)
        for method, found in found_pairs(labelled, list(kinds)).items():
            row: list[object] = [f"{method}, {labelled.name}: found of all"]
            for kind in KINDS:
                has = np.array([one == kind for one in kinds.values()])
                row.append(f"{int((has & found).sum()):,} of {int(has.sum()):,}" if has.any() else "none")
            rows.append(row)
    return table(["method", *KINDS], rows)


def kinds_of(truth: Truth) -> Mapping[tuple[int, int], str]:
    """Places of two duplicate pages -> one of KINDS."""
    return {
        (pair.earlier, pair.later): KINDS[0] if pair.similarity == 1 else KINDS[1 if pair.kind in LAYOUT_ONLY else 2]
        for pair in truth.pairs
        if truth.label(pair.similarity) is Label.DUPLICATE
    }


def found_pairs(labelled: LabelledSet, pairs: list[tuple[int, int]]) -> dict[str, NDArray[np.bool_]]:
    """The pairs that each method calls near duplicates, with the best settings of the paper: bool[pairs]."""
    earlier, later = np.array(pairs).T
    found = {}
    for method, name in (("simhash", "subhash"), ("shingles", "minhash")):
        scheme = scheme_of(settings_with({"scheme.name": name}).scheme)
        signed = [scheme.sign(batch) for batch in in_batches(labelled.pages)]
        judged = np.concatenate([one.status for one in signed]) == SignatureStatus.FINGERPRINTED
        if method == "simhash":
            fingerprint = np.concatenate([one.fingerprint for one in signed])
            near = np.bitwise_count(fingerprint[earlier] ^ fingerprint[later]) <= 3
        else:
            minima = unpack_minima(np.concatenate([one.sketch for one in signed]))
            near = (minima[earlier] == minima[later]).mean(axis=1) >= 0.5
        found[method] = near & judged[earlier] & judged[later]
    return found
