"""Packs what the keys of a shard lead to: the body of a record of kind 1.

    body     = pages u32 (n), postings[n], pairs[n] (numbers: m in all), age[m] (numbers), word[m] (numbers),
               decisive[m] (bits), proof, distance (numbers, of decisive pairs), score (reals, of accepted ones),
               length[m] (numbers), sizes, entries, attempts
    word     = kinds of keys | said << 6
    sizes    = count u32 (b), key (words), size (numbers)
    attempts = count u32 (a), page[a], original + 1 [a] (numbers), score (reals), reason[a], found_by[a] (numbers)

An age is the first number of the round less the entry's own number.
"""

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import PendingVerdict
from spotsieve.stream.bounds import bounds_of, sizes_of
from spotsieve.stream.sharding.meetings import ACCEPTED, BucketSizes, ShardCandidates
from spotsieve.stream.sharding.records.columns import ColumnReader, ColumnWriter
from spotsieve.stream.sharding.records.entries import PackedEntries, ascending, write_entries
from spotsieve.stream.verdict import Reason

_KIND_BITS = 6
_MOST_KINDS = 2**_KIND_BITS - 1


def write_candidates(shard_candidates: ShardCandidates, first_number: int) -> bytes:
    """Write the body. first_number: of the round"""
    columns = ColumnWriter()
    decisive = shard_candidates.proof != 0
    columns.count(len(shard_candidates.postings))
    columns.numbers(shard_candidates.postings)
    columns.numbers(sizes_of(shard_candidates.bounds))
    columns.numbers(first_number - shard_candidates.number)
    columns.numbers(shard_candidates.kinds | shard_candidates.said << np.uint8(_KIND_BITS))
    columns.bits(decisive)
    columns.numbers(shard_candidates.proof[decisive])
    columns.numbers(shard_candidates.distance[decisive])
    columns.reals(shard_candidates.score[shard_candidates.said == ACCEPTED])
    columns.numbers(shard_candidates.length)
    columns.count(len(shard_candidates.sizes.keys))
    columns.words(shard_candidates.sizes.keys)
    columns.numbers(shard_candidates.sizes.size)
    write_entries(columns, shard_candidates.entries, first_number)
    pages, pending_verdicts = list(shard_candidates.pending_verdicts), list(shard_candidates.pending_verdicts.values())
    columns.count(len(pages))
    columns.numbers(np.array(pages, np.int64))
    columns.numbers(np.array([attempt.original + 1 for attempt in pending_verdicts], np.int64))
    columns.reals(np.array([attempt.score for attempt in pending_verdicts], np.float64))
    columns.numbers(np.array([attempt.reason for attempt in pending_verdicts], np.int64))
    columns.numbers(np.array([attempt.found_by for attempt in pending_verdicts], np.int64))
    return columns.body()


def read_candidates(columns: ColumnReader, first_number: int) -> ShardCandidates:
    """Read the body. Raises ValueError."""
    pages = columns.pages()
    postings = columns.numbers(pages)
    sizes = columns.numbers(pages, 8 * columns.left)
    bounds = checked_bounds(sizes, 8 * columns.left)
    pairs = int(bounds[-1])
    number = first_number - columns.numbers(pairs, first_number)
    word, decisive = columns.numbers(pairs, 255).astype(np.uint8), columns.bits(pairs)
    said = word >> np.uint8(_KIND_BITS)
    proof, distance = np.zeros(pairs, np.uint8), np.full(pairs, 255, np.uint8)
    proof[decisive] = columns.numbers(int(decisive.sum()), _MOST_KINDS)
    distance[decisive] = columns.numbers(int(decisive.sum()), 255)
    score = np.full(pairs, np.nan)
    score[said == ACCEPTED] = columns.reals(int((said == ACCEPTED).sum()))
    length = columns.numbers(pairs)
    buckets = columns.count_of_words()
    keys, size = columns.words(buckets), columns.numbers(buckets)
    entries = PackedEntries(columns, first_number)
    some = columns.count(pages)
    rows = ascending(columns.numbers(some, max(pages - 1, 0)))
    original, scores = columns.numbers(some) - 1, columns.reals(some)
    reason, found_by = columns.numbers(some, max(Reason)), columns.numbers(some, 255)
    pending_verdicts = zip(original.tolist(), scores.tolist(), reason.tolist(), found_by.tolist(), strict=True)
    return ShardCandidates(
        postings,
        bounds,
        number,
        proof,
        word & np.uint8(_MOST_KINDS),
        distance,
        said,
        score,
        length,
        BucketSizes(keys, size),
        entries.numbers,
        entries,
        None,
        dict(zip(rows.tolist(), (PendingVerdict(*one) for one in pending_verdicts), strict=True)),
    )


def checked_bounds(sizes: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Where rows of these sizes begin and end: int64[n + 1]. Raises ValueError where they are more than so many."""
    bounds = bounds_of(sizes)
    if bounds[-1] > most:
        raise ValueError
    return bounds
