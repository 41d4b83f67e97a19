"""Yuan et al. 2012, sec. 4.2 in a stream: does counting shared groups (c) keep full buckets from hiding copies?"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from spotsieve.state.log.record import encode
from spotsieve.state.store.memory import MemoryState
from spotsieve.stream.engine import Engine
from spotsieve.stream.schemes.onebit import OnebitScheme
from spotsieve.stream.settings.model import IndexSettings
from spotsieve.stream.settings.schemes import OnebitSettings
from spotsieve.stream.signature import Signatures
from spotsieve.stream.verdict import Kind
from tests.measure.papers.grouping import index_groups, pairs_by_group_merging
from tests.measure.papers.page import table
from tests.measure.quality.ours import in_batches
from tests.measure.quality.sets import load_set

K, R = 400, 0.7
COUNTS = (1, 2, 3, 5, 8)
MOST = 65_536
LIMITS = (
    ("defaults", IndexSettings()),
    ("no limit of candidates", IndexSettings(candidate_limit=MOST)),
    ("no cap of buckets", IndexSettings(bucket_cap=MOST)),
    ("neither", IndexSettings(bucket_cap=MOST, candidate_limit=MOST)),
)

SAYS = """\
Section 4.2 in a stream: the paper compares only what shares at least c of m = r_h + c groups. Could such a count stand
for the caps of our buckets, which at r = .7 hide most copies? Newsgroups ({pages:,} pages with a fingerprint, k = 400,
r = .7) in the order of the set, judged by `onebit`, whose c is 1; CPU time of judging alone.
"""
COUNT_SAYS = """\
The same pages, each compared with all before it that share at least c groups, without any cap: what is found is the
same for every c (that is the paper's theorem). Postings: what lies in a page's buckets, so what has to be read and
counted for a page, at the end of the set.
"""
CONCLUDES = """\
So the count would save comparisons, and these are what costs least: a comparison is 7 words, and the candidate limit
cuts nothing that a full bucket has not hidden before. What hides copies is the cap of buckets, and a count makes that
worse: to count what a page shares, every bucket has to hold every page, groups become shorter with each group that is
asked for, and a page reads and writes postings in proportion to all pages that there are: of {pages:,} pages
{share:.0%} of all as postings, for each page. At a million pages that is {million:,.0f} postings a page. The paper's
lists are merged in memory; ours are stored values that are written whole. So c stays 1. Below r = .8 `onebit` tells at
its start and in its summary that full buckets hide copies, and `index.bucket_cap` is the setting for sets that are
small enough.
"""


class Judged(NamedTuple):
    """found: copies that the stream dropped  cut: pages that met more candidates than the limit  cpu_us: a page"""

    found: int
    capped: int
    cut: int
    cpu_us: float


def judged(batches: Sequence[Signatures], limits: IndexSettings) -> Judged:
    """Judge a set in its order under these limits."""
    scheme, state, digest = OnebitScheme(OnebitSettings(k=K, r=R)), MemoryState(), bytes(16)
    engine = Engine(scheme, state, limits, digest, "measured")
    found = capped = cut = 0
    began = time.process_time()
    for number, batch in enumerate(batches):
        applied = engine.apply(encode(batch, digest, number, digest), number)
        found += int((applied.verdicts.kind == Kind.DUPLICATE).sum())
        capped += applied.capped
        cut += int(applied.verdicts.cut.sum())
    return Judged(found, capped, cut, (time.process_time() - began) * 1e6 / sum(map(len, batches)))


def counting(data: Path) -> list[list[str]]:
    """Its paragraphs. data: the folder of the labelled sets"""
    scheme = OnebitScheme(OnebitSettings(k=K, r=R))
    batches = [scheme.sign(batch) for batch in in_batches(load_set(data / "newsgroups").pages)]
    rows = []
    for name, limits in LIMITS:
        one = judged(batches, limits)
        rows.append([name, one.found, f"{one.capped:,}", f"{one.cut:,}", f"{one.cpu_us:,.0f}"])
    under = table(["limits", "copies dropped", "postings left out", "pages cut", "us a page"], rows)
    fingerprints = np.concatenate([batch.sketch[batch.status == 0] for batch in batches])
    pages, counted, per_page = len(fingerprints), [], 0.0
    for c in COUNTS:
        index = index_groups(fingerprints, K, scheme.r_h, c)
        near = pairs_by_group_merging(index, 0, pages)
        postings = float((np.diff(index.bounds).astype(np.float64) ** 2).sum()) / pages
        per_page = per_page or postings
        width = K / (scheme.r_h + c)
        counted.append(
            [c, scheme.r_h + c, f"{width:.2f}", f"{postings:,.0f}", f"{near.compared / pages:,.0f}", len(near.pairs)]
        )
    by_count = table(["c", "groups", "bits a group", "postings a page", "compared a page", "pairs found"], counted)
    share = per_page / pages
    return [
        SAYS.format(pages=pages).splitlines(),
        under,
        COUNT_SAYS.splitlines(),
        by_count,
        CONCLUDES.format(pages=pages, share=share, million=share * 1e6).splitlines(),
    ]
