"""Yuan et al. 2012, sec. 4.2 in a stream: the effect of counting shared groups (c) on the scheme `onebit`."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench.papers.grouping import index_groups, pairs_by_group_merging
from bench.papers.page import table
from bench.quality.ours import in_batches
from bench.quality.sets import load_set
from spotsieve.state.log.record import encode
from spotsieve.state.store.memory import memory_state
from spotsieve.stream.base.settings.model import IndexSettings
from spotsieve.stream.base.settings.schemes import OnebitSettings
from spotsieve.stream.base.signature import Signatures
from spotsieve.stream.base.verdict import Kind
from spotsieve.stream.engine import Engine
from spotsieve.stream.sign.schemes.minwise import OnebitScheme

K, R = 400, 0.7
COUNTS = (1, 2, 3, 6, 8)
MOST = 65_536
CASES = (
    (1, "defaults", IndexSettings()),
    (1, "no candidate limit", IndexSettings(candidate_limit=MOST)),
    (1, "no bucket cap", IndexSettings(bucket_cap=MOST)),
    (0, "defaults", IndexSettings()),
    (0, "neither", IndexSettings(bucket_cap=MOST, candidate_limit=MOST)),
)

SAYS = """\
Section 4.2 in a stream. The paper compares only what shares at least c of m = r_h + c groups. Newsgroups ({pages:,}
pages with a fingerprint, k = 400, r = .7) in the order of the set, judged by `onebit` with `scheme.c`, under the
limits of the index (`index.bucket_cap`, `index.candidate_limit`). Cut: pages that met more candidates than the
limit. CPU time of judging alone.
"""
COUNT_SAYS = """\
With c = 1 strangers use up the candidate limit before a page's copies come. The same pages, each compared with all
before it that share at least c groups, without any limit: what is found is the same for every c, which is the
paper's theorem. Postings: what lies in a page's buckets at the end of the set.
"""
CONCLUDES = """\
So below r = .8 `onebit` takes the least c that at most one stranger in a thousand reaches by chance: {c} here. What
stays is that a page's buckets hold as many postings as {share:.0%} of all pages: they are full after some
{full:,.0f} pages at the default cap, and pages that are not indexed are not found. `onebit` says so at its start and in
its summary. `spotsigs` counts shared spots in the same way (Theobald et al., above).
"""


class CountingResult(NamedTuple):
    """found: copies dropped  capped: postings left out  cut: pages that reached the candidate limit"""

    found: int
    capped: int
    cut: int
    cpu_us: float


def judged(batches: Sequence[Signatures], c: int, limits: IndexSettings) -> CountingResult:
    """Judge a set in its order under these limits."""
    scheme, state, digest = OnebitScheme(OnebitSettings(k=K, r=R, c=c)), memory_state(), bytes(16)
    engine = Engine(scheme, state, limits, digest, "measured")
    found = capped = cut = 0
    began = time.process_time()
    for number, batch in enumerate(batches):
        applied = engine.apply(encode(batch, digest, number, digest), number)
        found += int((applied.verdicts.kind == Kind.DUPLICATE).sum())
        capped += applied.capped
        cut += int(applied.verdicts.cut.sum())
    return CountingResult(found, capped, cut, (time.process_time() - began) * 1e6 / sum(map(len, batches)))


def counting(data: Path) -> list[list[str]]:
    """The section's paragraphs. data: the folder of the labelled sets"""
    scheme = OnebitScheme(OnebitSettings(k=K, r=R))
    batches = [scheme.sign(batch) for batch in in_batches(load_set(data / "newsgroups").pages)]
    judged(batches[:1], 1, IndexSettings())  # Compiles the kernels.
    rows = []
    for given, name, limits in CASES:
        one, c = judged(batches, given, limits), given or scheme.c
        rows.append([c, name, one.found, f"{one.capped:,}", f"{one.cut:,}", f"{one.cpu_us:,.0f}"])
    under = table(["c", "limits", "copies dropped", "postings left out", "pages cut", "us a page"], rows)
    fingerprints = np.concatenate([batch.sketch[batch.status == 0] for batch in batches])
    pages, counted, share = len(fingerprints), [], 0.0
    for c in COUNTS:
        index = index_groups(fingerprints, K, scheme.r_h, c)
        near = pairs_by_group_merging(index, 0, pages)
        postings = float((np.diff(index.bounds).astype(np.float64) ** 2).sum()) / pages
        share = postings / pages if c == scheme.c else share
        width = K / (scheme.r_h + c)
        compared = f"{near.compared / pages:,.1f}"
        counted.append([c, scheme.r_h + c, f"{width:.2f}", f"{postings:,.0f}", compared, len(near.pairs)])
    by_count = table(["c", "groups", "bits a group", "postings a page", "compared a page", "pairs found"], counted)
    full = round(IndexSettings().bucket_cap * 2 ** (K / (scheme.r_h + scheme.c)), -3)
    return [
        SAYS.format(pages=pages).splitlines(),
        under,
        COUNT_SAYS.splitlines(),
        by_count,
        CONCLUDES.format(c=scheme.c, share=share, full=full).splitlines(),
    ]
