"""Holds a shard's response to a round, and merges the responses of all shards.

The merged candidates equal those that one process finds. The earliest candidates of all are among the earliest of each
shard. So S lists, each truncated after the candidate limit, are merged by entry number and truncated again. An entry
that several shards found under their own keys becomes one pair under all of these keys, and the pair is decisive if any
of the keys is. Where several kinds of keys decide and a page may be superseded, a candidate of one shard may be
decisive in another shard and would then not count towards the limit; shards do not truncate their lists there
(responses.py).
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import PendingVerdict
from spotsieve.stream.base.arrays import sizes_of
from spotsieve.stream.base.jit import kernel
from spotsieve.stream.base.signature import DistinctiveText, Entry, Signatures
from spotsieve.stream.judge.by_host.distinctive_text import IS_DISTINCTIVE, IS_TEMPLATE
from spotsieve.stream.judge.candidates import NEVER, CandidatePairs
from spotsieve.stream.judge.indexed import PairFacts
from spotsieve.stream.sign.schemes import Confirmations

_FEW = 64
"""Up to this number of pairs, a page's pairs are sorted by insertion: the pairs of each shard are in order already."""
REFUSED, ACCEPTED, OF_HOST, OPEN = range(4)
"""Results of a shard's test of a candidate: REFUSED, no copy; ACCEPTED, a copy. With a memory of hosts: OF_HOST, the
same host, so that the shard of that host has the text; OPEN, another host, and the response contains the text."""


class BucketSizes(NamedTuple):
    """Number of postings, before a round, in the buckets that the round may fill. keys: uint64[b], ascending
    size: int64[b]
    """

    keys: NDArray[np.uint64]
    size: NDArray[np.int64]


class SentTexts(NamedTuple):
    """Texts of e entries, for the comparison with pages of other hosts.

    host: uint64[e]  length: uint32[e], number of features
    own: the distinctive text of entries that may be copied; empty for the others
    """

    host: NDArray[np.uint64]
    length: NDArray[np.uint32]
    own: DistinctiveText


class SentFlags(NamedTuple):
    """The template text of some pages of a round, which only the shard of their host knows.

    With it, every process has the texts that the entries of these pages store: the rest follows from the log.

    rows: int64[k], ascending
    flags: uint8[c], of the blocks of these pages: IS_TEMPLATE, and IS_DISTINCTIVE of distinctive blocks that are
    template text too (judge/by_host/distinctive_text.py)
    """

    rows: NDArray[np.int64]
    flags: NDArray[np.uint8]


def no_flags() -> SentFlags:
    """The flags of no pages."""
    return SentFlags(np.empty(0, np.int64), np.empty(0, np.uint8))


def flags_of_pages(signatures: Signatures, flags: NDArray[np.uint8], which: NDArray[np.bool_]) -> SentFlags:
    """The flags of some pages, in the form that is sent. flags: uint8[b], of all blocks  which: bool[n]"""
    chosen = flags[np.repeat(which, sizes_of(signatures.blocks_bounds))]
    return SentFlags(
        np.flatnonzero(which), np.where(chosen & IS_TEMPLATE, chosen & (IS_TEMPLATE | IS_DISTINCTIVE), np.uint8(0))
    )


def fits_blocks(signatures: Signatures, sent: SentFlags) -> bool:
    """Whether sent flags are those of pages of this round: one for each block."""
    if len(sent.rows) and sent.rows[-1] >= len(signatures):
        return False
    return int(sizes_of(signatures.blocks_bounds)[sent.rows].sum()) == len(sent.flags)


def put_flags(signatures: Signatures, sent: SentFlags, flags: NDArray[np.uint8], marked: NDArray[np.bool_]) -> None:
    """Write sent flags to those of all blocks: flags, uint8[b], and mark their pages in known, bool[n].

    Raises ValueError if they belong to another round.
    """
    if not fits_blocks(signatures, sent):
        raise ValueError("the flags must belong to the blocks of pages of the round")
    which = np.zeros(len(signatures), np.bool_)
    which[sent.rows] = True
    blocks = np.repeat(which, sizes_of(signatures.blocks_bounds))
    flags[blocks], marked[which] = sent.flags, True


class Speculation(NamedTuple):
    """An assumption about the pages of a round, under which shards resolve the pages of their hosts.

    indexed: bool[n], the pages that become indexed
    flags: flags that replace those of the confirmations; nearly always none
    """

    indexed: NDArray[np.bool_]
    flags: SentFlags

    def without(self, excluded: Sequence[int]) -> "Speculation":
        """The same without the excluded pages of a round, which are not indexed. excluded: rows"""
        indexed = self.indexed.copy()
        indexed[list(excluded)] = False
        return self._replace(indexed=indexed)

    def equals(self, other: "Speculation") -> bool:
        """Whether another speculation assumes the same."""
        return (
            np.array_equal(self.indexed, other.indexed)
            and np.array_equal(self.flags.rows, other.flags.rows)
            and np.array_equal(self.flags.flags, other.flags.flags)
        )


class ShardCandidates(NamedTuple):
    """Candidates of n pages in the buckets of one shard: m pairs, in the order in which the entries were indexed.

    postings: int64[n], number of postings in the buckets of each page
    bounds: int64[n + 1], the pairs of each page
    number: int64[m], entry numbers
    proof, kinds: uint8[m], kinds of keys (KeyKind) that decide, and of all keys that found the pair
    distance: uint8[m], the smallest distance under a decisive key
    result: uint8[m], REFUSED, ACCEPTED, OF_HOST or OPEN, for pairs that are only candidates
    score: float64[m]
    length: int64[m], number of features of the entry; 0 where it cannot matter
    sizes: sizes of the shard's own buckets
    numbers: int64[e], ascending, the entries that may be originals
    entries: these entries, by number
    texts: texts of these entries, where the shard of a host has to compare them
    pending_verdicts: the pending verdicts that count, by page
    copies: bool[n], pages that are probably copies of entries of this shard; None until they are confirmed
    flags: flags of pages of the shard's hosts that other shards may compare; None until they are confirmed
    """

    postings: NDArray[np.int64]
    bounds: NDArray[np.int64]
    number: NDArray[np.int64]
    proof: NDArray[np.uint8]
    kinds: NDArray[np.uint8]
    distance: NDArray[np.uint8]
    result: NDArray[np.uint8]
    score: NDArray[np.float64]
    length: NDArray[np.int64]
    sizes: BucketSizes
    numbers: NDArray[np.int64]
    entries: Mapping[int, Entry]
    texts: SentTexts | None
    pending_verdicts: Mapping[int, PendingVerdict]
    copies: NDArray[np.bool_] | None = None
    flags: SentFlags | None = None


class MergedCandidates(NamedTuple):
    """Candidates of n pages in all shards. pairs, facts: the same as in one process
    result: uint8[m], REFUSED, ACCEPTED, OF_HOST or OPEN
    """

    pairs: CandidatePairs
    facts: PairFacts
    result: NDArray[np.uint8]


class _Pairs(NamedTuple):
    """p pairs of all shards, sorted by page and number; other columns: see ShardCandidates. page: int64[p]"""

    page: NDArray[np.int64]
    number: NDArray[np.int64]
    proof: NDArray[np.uint8]
    kinds: NDArray[np.uint8]
    distance: NDArray[np.uint8]
    result: NDArray[np.uint8]
    score: NDArray[np.float64]
    length: NDArray[np.int64]


def merge_candidates(
    shard_candidates: Sequence[ShardCandidates],
    candidate_limit: int,
    final: np.uint8,
    which: NDArray[np.bool_] | None = None,
) -> MergedCandidates:
    """Merge the candidates of the pages under all keys. Each shard responds for the same pages.

    candidate_limit: most candidates of a page  final: kinds of decisive keys (KeyKind) at which its search ends
    which: bool[n], the pages to merge; None: all
    """
    pages, bounds = len(shard_candidates[0].postings), np.stack([one.bounds for one in shard_candidates])
    which_pages = np.ones(pages, np.bool_) if which is None else which
    number = np.concatenate([one.number for one in shard_candidates])
    page, order = _order_kernel(bounds, number, which_pages)

    def column(name: str) -> NDArray[Any]:
        found: NDArray[Any] = np.concatenate([getattr(one, name) for one in shard_candidates])[order]
        return found

    others = map(column, ("proof", "kinds", "distance", "result", "score", "length"))
    merged = _merge_kernel(_Pairs(page, number[order], *others), pages, candidate_limit, final)
    bounds, number, proof, kinds, distance, cut_at, result, score, length = merged
    facts = PairFacts(length.astype(np.float64), np.arange(len(number)), Confirmations(result == ACCEPTED, score))
    return MergedCandidates(CandidatePairs(bounds, number, proof, kinds, distance, cut_at), facts, result)


@kernel
def _order_kernel(bounds, number, which):
    # bounds: int64[S, n + 1], of the pairs of each shard  number: int64[m], of all pairs, shard by shard
    # which: bool[n], pages  ->  page, place: int64[k], of the pairs of these pages, sorted by page and number
    shards, pages = bounds.shape[0], len(which)
    first, some = np.zeros(shards, np.int64), 0
    for shard in range(1, shards):
        first[shard] = first[shard - 1] + bounds[shard - 1, pages]
    page_of, place = np.empty(len(number), np.int64), np.empty(len(number), np.int64)
    for page in range(pages):
        if not which[page]:
            continue
        begin = some
        for shard in range(shards):
            for at in range(first[shard] + bounds[shard, page], first[shard] + bounds[shard, page + 1]):
                page_of[some], place[some] = page, at
                some += 1
        if some - begin > _FEW:
            found = place[begin:some].copy()
            place[begin:some] = found[np.argsort(number[found], kind="mergesort")]
            continue
        for at in range(begin + 1, some):
            moved, to = place[at], at
            while to > begin and number[place[to - 1]] > number[moved]:
                place[to] = place[to - 1]
                to -= 1
            place[to] = moved
    return page_of[:some], place[:some]


@kernel
def _merge_kernel(pairs, pages, candidate_limit, final):
    # pairs: _Pairs  pages: int64, number of pages  candidate_limit: int64  final: uint8
    # ->  the columns of CandidatePairs, then said, score, length
    page_of, number_of, proofs, found_by, distances, results, scores, lengths = pairs
    some = len(number_of)
    bounds, cut_at = np.zeros(pages + 1, np.int64), np.full(pages, NEVER)
    numbers, proof, kinds = np.empty(some, np.int64), np.empty(some, np.uint8), np.empty(some, np.uint8)
    distance, result, score = np.empty(some, np.uint8), np.empty(some, np.uint8), np.empty(some, np.float64)
    length = np.empty(some, np.int64)
    at, count = 0, 0
    for page in range(pages):
        bounds[page] = count
        compared, ended = 0, False
        while at < some and page_of[at] == page:
            number = number_of[at]
            all_proof, all_kinds, least, best = np.uint8(0), np.uint8(0), np.uint8(255), np.uint8(0)
            likeness, features = np.nan, np.int64(0)
            while at < some and page_of[at] == page and number_of[at] == number:
                all_proof |= proofs[at]
                all_kinds |= found_by[at]
                least = min(least, distances[at])
                features = max(features, lengths[at])
                if not proofs[at]:
                    best, likeness = max(best, results[at]), scores[at]
                at += 1
            if ended:
                continue
            if not all_proof and cut_at[page] == NEVER and compared == candidate_limit:
                cut_at[page] = count
            if cut_at[page] != NEVER:
                if not all_proof:
                    continue
                all_kinds = all_proof
            compared += not all_proof
            numbers[count], proof[count], kinds[count] = number, all_proof, all_kinds
            distance[count], result[count], score[count], length[count] = least, best, likeness, features
            count += 1
            ended = all_proof & final != 0
    bounds[pages] = count
    return (
        bounds,
        numbers[:count],
        proof[:count],
        kinds[:count],
        distance[:count],
        cut_at,
        result[:count],
        score[:count],
        length[:count],
    )
