"""Yuan et al. 2012, figure 5 (fingerprints that share a group) and table 1 (the costs of alg.G and alg.H)."""

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.papers.grouping import (
    GroupIndex,
    NearPairs,
    index_groups,
    pairs_by_group_merging,
    pairs_by_grouping,
    search_by_group_merging,
    search_by_grouping,
)
from bench.papers.page import table
from bench.quality.ours import in_batches
from bench.quality.sets import load_set
from spotsieve.stream.base.settings.schemes import OnebitSettings
from spotsieve.stream.base.signature import SignatureStatus
from spotsieve.stream.sign.schemes.minwise import OnebitScheme

N, R, C = 300_000, 0.7, 3
QUERIES = {64: 1000, 100: 1000, 200: 1000, 400: 1000, 600: 200, 1000: 50}
"""Queries of alg.G, by k; alg.H always has 1,000, as in the paper."""
PAPER = {64: ("40 s", "15 s"), 400: ("1,921 s", "273 s")}
ALL_PAIRS = (10_000, 30_000, 100_000)
BLOCK = 4_096
COPIES = 100
"""One in this many fingerprints is a copy of another with up to r_h changed bits."""

FIGURE_5 = """\
Figure 5. How many of n fingerprints share a group of 8 bits with a random number: by Eq. 14 n_g = n / 2^8. They found
1,170 with n = 300,000. The mean over all 256 numbers is n / 256 whatever the documents are, so the spread tells more:
of all groups of 8 bits of 400, the least and most frequent values, and how many pages a page of its own meets.
"""
FIGURE_5_SAYS = """\
The last column is what a query pays. Documents whose bits are not quite independent meet a little more than n_g; sets
with many copies meet these too.
"""
TABLE_1 = """\
Table 1. CPU time of alg.G and alg.H for r = .7 and c = 3, n = 300,000. Their fingerprints came from applications to a
fund, in an Oracle database; ours are random bits (their figure 5 shows theirs to be uniform), one in a hundred with up
to r_h bits of another one changed, in memory, in compiled kernels, one thread. The text gives two rows of theirs,
averages of 1,000 random queries. Ours: CPU milliseconds a query, 1,000 random rows as queries, of alg.G fewer where it
says so; both found the same in every run. Compared: fingerprints that a query is compared with bit by bit, the same for
both.
"""
TABLE_1_SAYS = """\
Only the ratio can be compared: theirs is {theirs:.1f} at k = 400, ours {ours:.1f}. Our alg.G is no plain sequence of
C(m, c) queries: what agrees on the first groups of a choice is worked out once for all choices that begin so, lists are
intersected by bit sets, and a choice on which nothing agrees is not gone on with. It grows with C(m, c) all the same.
"""
ALL_PAIRS_SAYS = """\
All pairs of n such fingerprints with k = 400, r = .7, each pair met once, from its earlier side: seconds of CPU. With
n = 300,000 alg.G would take about {whole:,.0f} s by its queries above, and was not run.
"""


def figure_5(data: Path) -> list[list[str]]:
    """The section's paragraphs. data: the folder of the labelled sets"""
    rows: list[list[object]] = [["paper, fund applications", "300,000", "1,172", "~ 1,170", "", ""]]
    sets = {name: real_fingerprints(data / name) for name in ("docs", "news", "newsgroups")}
    for name, fingerprints in (*sets.items(), ("random bits", synthetic(N, 400, 0, seed=5))):
        sizes = group_sizes(fingerprints, 400)
        least, most = np.quantile(sizes, [0.05, 0.95])
        own = (sizes.astype(np.float64) ** 2).sum() / sizes.sum()
        n = len(fingerprints)
        rows.append(
            [name, f"{n:,}", f"{n / 256:,.1f}", f"{sizes.mean():,.1f}", f"{least:,.0f} to {most:,.0f}", f"{own:,.1f}"]
        )
    titles = ["fingerprints", "n", "n / 2^8", "mean of a random number", "90 % of values", "mean of a page's own"]
    return [FIGURE_5.splitlines(), table(titles, rows), FIGURE_5_SAYS.splitlines()]


def real_fingerprints(folder: Path) -> NDArray[np.uint64]:
    """Fingerprints of 400 bits of a set's pages: uint64[n, 7]."""
    scheme = OnebitScheme(OnebitSettings(k=400, r=R))
    signed = [scheme.sign(batch) for batch in in_batches(load_set(folder).pages)]
    return np.concatenate([one.sketch[one.status == SignatureStatus.FINGERPRINTED] for one in signed])


def group_sizes(fingerprints: NDArray[np.uint64], k: int) -> NDArray[np.int64]:
    """The number of fingerprints with each of the 256 values of each group of 8 bits: int64[256 * k / 8]."""
    values = fingerprints.astype("<u8").view(np.uint8)[:, : k // 8]
    return np.concatenate([np.bincount(group, minlength=256) for group in values.T])


def synthetic(n: int, k: int, r_h: int, seed: int) -> NDArray[np.uint64]:
    """Random fingerprints, one in COPIES with 0..r_h bits of an earlier one changed: uint64[n, (k + 63) // 64]."""
    random = np.random.default_rng(seed)
    fingerprints = random.integers(0, 2**64, (n, -(-k // 64)), np.uint64)
    if k % 64:
        fingerprints[:, -1] &= np.uint64((1 << k % 64) - 1)
    for row in range(COPIES, n, COPIES):
        fingerprints[row] = fingerprints[random.integers(0, row)]
        for bit in random.choice(k, random.integers(0, r_h + 1), replace=False).tolist():
            fingerprints[row, bit // 64] ^= np.uint64(1 << bit % 64)
    return fingerprints


class SearchCost(NamedTuple):
    """The result of one search. cpu_s: of the process  near: the pairs found"""

    cpu_s: float
    near: NearPairs


def cost_of(search: Callable[[GroupIndex, NDArray[np.uint64]], NearPairs], index: GroupIndex, count: int) -> SearchCost:
    """Search for rows of the index, chosen by a fixed seed."""
    chosen = np.random.default_rng(count).choice(len(index), count, replace=False)
    search(index, index.fingerprints[chosen[:1]])  # Compiles the kernels.
    began = time.process_time()
    near = search(index, index.fingerprints[chosen])
    return SearchCost(time.process_time() - began, near)


def times() -> list[list[str]]:
    """The paragraphs of table 1."""
    rows: list[list[object]] = []
    ratio, ms = 0.0, 0.0
    for k, count in QUERIES.items():
        r_h = OnebitScheme(OnebitSettings(k=k, r=R)).r_h
        index = index_groups(synthetic(N, k, r_h, seed=k), k, r_h, C)
        grouping, merging = cost_of(search_by_grouping, index, count), cost_of(search_by_group_merging, index, 1000)
        again = merging if count == 1000 else cost_of(search_by_group_merging, index, count)
        if not np.array_equal(grouping.near.pairs, again.near.pairs):
            raise AssertionError(f"alg.G and alg.H differ at k = {k}")
        g, h = grouping.cpu_s / count * 1e3, merging.cpu_s
        if k == 400:
            ratio, ms = g / h, g
        m = r_h + C
        shown = f"{g:,.2f}" if count == 1000 else f"{g:,.2f} ({count} queries)"
        row: list[object] = [k, r_h, m, f"{N / 2 ** (k / m):,.0f}", f"{math.comb(m, C):,}"]
        row += [f"{merging.near.compared / 1000:,.0f}", *PAPER.get(k, ("", "")), shown, f"{h:,.2f}", f"{g / h:.1f}"]
        rows.append(row)
    titles = ["k", "r_h", "m", "n_g", "C(m, 3)", "compared", "paper alg.G", "alg.H", "alg.G ms", "alg.H ms", "ratio"]
    says = TABLE_1_SAYS.format(theirs=1921 / 273, ours=ratio).splitlines()
    # Each pair is compared from one side only: half of the cost of the queries.
    whole = ALL_PAIRS_SAYS.format(whole=ms / 1e3 * N / 2).splitlines()
    return [TABLE_1.splitlines(), table(titles, rows), says, whole, all_pairs_table()]


def all_pairs_table() -> list[str]:
    """All pairs at several n."""
    rows: list[list[object]] = []
    for n in (*ALL_PAIRS, N):
        index = index_groups(synthetic(n, 400, 60, seed=n), 400, 60, C)
        merging, pairs = all_pairs(pairs_by_group_merging, index)
        row: list[object] = [f"{n:,}", f"{pairs:,}"]
        if n == N:
            row += ["", f"{merging:,.1f}", ""]
        else:
            grouping, same = all_pairs(pairs_by_grouping, index)
            if same != pairs:
                raise AssertionError(f"alg.G and alg.H differ at n = {n}")
            row += [f"{grouping:,.1f}", f"{merging:,.1f}", f"{grouping / merging:.1f}"]
        rows.append(row)
    return table(["n", "pairs", "alg.G s", "alg.H s", "ratio"], rows)


def all_pairs(find: Callable[[GroupIndex, int, int], NearPairs], index: GroupIndex) -> tuple[float, int]:
    """Seconds of CPU and pairs found, block by block."""
    find(index, 0, 1)  # Compiles the kernels.
    began, pairs = time.process_time(), 0
    for first in range(0, len(index), BLOCK):
        pairs += len(find(index, first, min(first + BLOCK, len(index))).pairs)
    return time.process_time() - began, pairs
