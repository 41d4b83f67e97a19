"""Theobald et al. 2008 in a stream: the copies that `spotsigs` misses among many pages, with and without counting (c).

The pages are synthetic: no available set is large enough. A page has 30 to 149 spots by Zipf's law over two million;
the model counts the first 30,000 pages. A copy keeps as many spots of an earlier page as its Jaccard, tau to 1, needs.
The index is filled as if every page were novel. A copy is missed if fewer than c postings lead to its original, or if
the candidate limit is reached by earlier pages.
"""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.papers.page import table
from spotsieve.state.log.record import NO_PAGES
from spotsieve.stream.base.settings.model import IndexSettings
from spotsieve.stream.base.settings.schemes import SpotsigsSettings
from spotsieve.stream.base.signature import CandidateColumns, Signatures, candidate_columns, unused_columns
from spotsieve.stream.sign.schemes import NOT_INDEXED
from spotsieve.stream.sign.schemes.spotsigs import REPEAT_BITS, SpotsigsScheme
from spotsieve.stream.sign.schemes.terms import IdfModel, digest_of, encode_model, terms_of

CASES = (
    *((30_000, 1, 256), (30_000, 1, 4_096), (100_000, 1, 4_096), (300_000, 1, 4_096)),
    *((100_000, 3, 4_096), (300_000, 3, 4_096), (600_000, 3, 4_096), (1_200_000, 3, 4_096)),
)
"""Pages, c, index.candidate_limit."""
COPIES, VOCABULARY, SAMPLE, AT_ONCE = 500, 2_000_000, 30_000, 50_000
LEAST_SPOTS, MOST_SPOTS = 30, 150
STREAM_SAYS = """\
Algorithm 1 in a stream, at the default tau of .44: copies missed among made-up pages (bench/papers/
theobald_stream.py; spots by Zipf's law, an IDF of .2 to .85), at the default index.bucket_cap of 256. With c = 1, as in
the paper, a page shares a rare spot with one stranger in 40, and these use up index.candidate_limit before its original
comes: 256 candidates miss half of the copies among 30,000 pages, 4,096 more than a third among 300,000. At a tau of .5
or less `spotsigs` takes c = 3: c - 1 more spots of a page are keys, two copies share c of them, and hardly a stranger
does. What stays are full buckets: they hide one copy in 36 among 1,200,000 pages, and hardly one among 600,000.
"""


class MissCounts(NamedTuple):
    """Counts of missed copies: because postings were left out, or because strangers used up the candidate limit.

    capped: the share of postings left out  met: mean number of candidates of a copy
    """

    copies: int
    left_out: int
    cut: int
    capped: float
    met: float


class SpotPostings(NamedTuple):
    """The content of the index. keys: uint64[p], ascending  pages: int64[p]  capped: the share of postings left out"""

    keys: NDArray[np.uint64]
    pages: NDArray[np.int64]
    capped: float


def stream_table() -> list[str]:
    """The table of all cases."""
    rows = []
    for pages, c, limit in CASES:
        found = missed(pages, c, IndexSettings(candidate_limit=limit))
        strangers = (f"{limit:,}", f"{found.met:,.0f}", f"{found.capped:.1%}")
        rows.append([f"{pages:,}", f"{c}", *strangers, *map(str, found[1:3]), str(found[0])])
    head = ["pages", "c", "limit", "candidates a page", "left out", "missed: left out", "missed: cut", "of copies"]
    return table(head, rows)


def missed(pages: int, c: int, limits: IndexSettings | None = None, seed: int = 1) -> MissCounts:
    """Fill an index with `pages` pages, and search copies of some of them."""
    dice, limits = np.random.default_rng(seed), limits or IndexSettings()
    common = np.cumsum(1 / np.arange(1, VOCABULARY + 1))
    common /= common[-1]
    lengths = dice.integers(LEAST_SPOTS, MOST_SPOTS, pages)
    spots = np.searchsorted(common, dice.random(int(lengths.sum())))
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    scheme = scheme_of(c)
    rank = ranks(spots[: bounds[min(pages, SAMPLE)]], lengths[:SAMPLE], scheme.settings)
    of = dice.integers(0, pages, COPIES)
    copies = []
    for original, jaccard in zip(of.tolist(), dice.uniform(scheme.settings.tau, 1, COPIES).tolist(), strict=True):
        copied = spots[bounds[original] : bounds[original + 1]].copy()
        changed = dice.random(len(copied)) > 2 * jaccard / (1 + jaccard)
        copied[changed] = np.searchsorted(common, dice.random(int(changed.sum())))
        copies.append(copied)
    stream, queries = with_spots(spots, lengths, rank), with_spots(np.concatenate(copies), lengths[of], rank)
    index = indexed(scheme, stream, limits.bucket_cap)
    originals = with_spots(np.concatenate([spots[bounds[page] : bounds[page + 1]] for page in of]), lengths[of], rank)
    near = scheme.confirm(rows_of(originals), rows_of(queries)).accepted & (originals.status + queries.status == 0)
    probes = scheme.probe(queries)
    found = MissCounts(int(near.sum()), 0, 0, index.capped, 0.0)
    for copy in np.flatnonzero(near).tolist():
        keys = probes.keys[probes.bounds[copy] + 1 : probes.bounds[copy + 1]]
        starts, ends = np.searchsorted(index.keys, keys, "left"), np.searchsorted(index.keys, keys, "right")
        met = [index.pages[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        candidates, shared = np.unique(np.concatenate(met), return_counts=True)
        candidates = candidates[shared >= c]
        before, there = int((candidates < of[copy]).sum()), bool((candidates == of[copy]).any())
        found = found._replace(
            left_out=found.left_out + (not there),
            cut=found.cut + (there and before >= (limits.candidate_limit or scheme.candidate_limit)),
            met=found.met + len(candidates) / found.copies,
        )
    return found


def scheme_of(c: int) -> SpotsigsScheme:
    """The scheme over an unused model: the spots are given by their ranks."""
    wished = SpotsigsSettings(c=c)
    model = encode_model(IdfModel(terms_of(wished).about, 4, np.array([1], np.uint64), np.array([2], np.uint32)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "spots.idf"
        path.write_bytes(model)
        given = {"idf_model": str(path), "idf_digest": digest_of(model)}
        return SpotsigsScheme(wished.model_copy(update=given))


def ranks(spots: NDArray[np.int64], lengths: NDArray[np.int64], settings: SpotsigsSettings) -> NDArray[np.int64]:
    """The rank of each spot in the IDF range over these pages, the rarest first; -1 outside of the range."""
    pages = np.repeat(np.arange(len(lengths)), lengths)
    frequency = np.bincount(np.unique(pages * VOCABULARY + spots) % VOCABULARY, minlength=VOCABULARY)
    idf = np.log(len(lengths) / np.maximum(frequency, 1)) / np.log(len(lengths))
    known = np.flatnonzero((frequency > 0) & (idf >= settings.idf_min) & (idf <= settings.idf_max))
    rank = np.full(VOCABULARY, -1, np.int64)
    rank[known[np.argsort(frequency[known], kind="stable")]] = np.arange(len(known))
    return rank


def with_spots(spots: NDArray[np.int64], lengths: NDArray[np.int64], rank: NDArray[np.int64]) -> Signatures:
    """Signatures of pages with these spots. Spots outside of the range are left out; equal ones are numbered."""
    count = len(lengths)
    pages, of = np.repeat(np.arange(count), lengths), rank[spots]
    pages, of = pages[of >= 0], of[of >= 0]
    order = np.lexsort((of, pages))
    pages, of = pages[order], of[order]
    again = np.concatenate([[False], (pages[1:] == pages[:-1]) & (of[1:] == of[:-1])])
    turn = np.arange(len(of)) - np.maximum.accumulate(np.where(again, 0, np.arange(len(of))))
    bounds = np.searchsorted(pages, np.arange(count + 1)).astype(np.int64)
    fixed = unused_columns(count) | {
        "features": of.astype(np.uint64) << np.uint64(REPEAT_BITS) | turn.astype(np.uint64),
        "features_bounds": bounds,
    }
    columns = {
        name: np.zeros((count, *getattr(NO_PAGES, name).shape[1:]), getattr(NO_PAGES, name).dtype)
        for name in ("source", "partition", "offset", "event_time_ms", "digest", "fingerprint", "feature_count")
    }
    # With too few spots in the range, the scheme would compare such a page by its digest alone.
    status = (np.diff(bounds) < SpotsigsSettings().min_spots).astype(np.uint8)
    named: dict[str, Any] = {
        "sources": ("made up",),
        "urls": (b"",) * count,
        "labels": (b"",) * count,
        "status": status,
    }
    return replace(NO_PAGES, **(named | columns | fixed))


def indexed(scheme: SpotsigsScheme, pages: Signatures, cap: int) -> SpotPostings:
    """The content of the index after indexing all these pages in order."""
    keys, owners = list[NDArray[np.uint64]](), list[NDArray[np.int64]]()
    for first in range(0, len(pages), AT_ONCE):
        probes = scheme.probe(pages.part(first, min(first + AT_ONCE, len(pages))))
        own = ~probes.decisive & (probes.cap != NOT_INDEXED)
        keys.append(probes.keys[own])
        owners.append(first + np.repeat(np.arange(len(probes.bounds) - 1), np.diff(probes.bounds))[own])
    every, owner = np.concatenate(keys), np.concatenate(owners)
    order = np.argsort(every, kind="stable")
    every, owner = every[order], owner[order]
    begins = np.concatenate([[True], every[1:] != every[:-1]])
    place = np.arange(len(every)) - np.maximum.accumulate(np.where(begins, np.arange(len(every)), 0))
    room = place < cap
    return SpotPostings(every[room], owner[room], 1 - float(room.mean()))


def rows_of(pages: Signatures) -> CandidateColumns:
    """The columns by which the scheme compares pages."""
    return candidate_columns(pages, with_features=True)
