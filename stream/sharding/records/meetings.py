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

from spotsieve.state.index import Attempt
from spotsieve.stream.bounds import bounds_of, sizes_of
from spotsieve.stream.sharding.meetings import ACCEPTED, Meetings, Sizes
from spotsieve.stream.sharding.records.columns import ColumnReader, ColumnWriter
from spotsieve.stream.sharding.records.entries import PackedEntries, ascending, write_entries
from spotsieve.stream.verdict import Reason

_KIND_BITS = 6
_MOST_KINDS = 2**_KIND_BITS - 1


def write_meetings(meetings: Meetings, first_number: int) -> bytes:
    """Write the body. first_number: of the round"""
    columns = ColumnWriter()
    decisive = meetings.proof != 0
    columns.count(len(meetings.postings))
    columns.numbers(meetings.postings)
    columns.numbers(sizes_of(meetings.bounds))
    columns.numbers(first_number - meetings.number)
    columns.numbers(meetings.kinds | meetings.said << np.uint8(_KIND_BITS))
    columns.bits(decisive)
    columns.numbers(meetings.proof[decisive])
    columns.numbers(meetings.distance[decisive])
    columns.reals(meetings.score[meetings.said == ACCEPTED])
    columns.numbers(meetings.length)
    columns.count(len(meetings.sizes.keys))
    columns.words(meetings.sizes.keys)
    columns.numbers(meetings.sizes.size)
    write_entries(columns, meetings.entries, first_number)
    pages, attempts = list(meetings.attempts), list(meetings.attempts.values())
    columns.count(len(pages))
    columns.numbers(np.array(pages, np.int64))
    columns.numbers(np.array([attempt.original + 1 for attempt in attempts], np.int64))
    columns.reals(np.array([attempt.score for attempt in attempts], np.float64))
    columns.numbers(np.array([attempt.reason for attempt in attempts], np.int64))
    columns.numbers(np.array([attempt.found_by for attempt in attempts], np.int64))
    return columns.body()


def read_meetings(columns: ColumnReader, first_number: int) -> Meetings:
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
    attempts = zip(original.tolist(), scores.tolist(), reason.tolist(), found_by.tolist(), strict=True)
    return Meetings(
        postings,
        bounds,
        number,
        proof,
        word & np.uint8(_MOST_KINDS),
        distance,
        said,
        score,
        length,
        Sizes(keys, size),
        entries.numbers,
        entries,
        None,
        dict(zip(rows.tolist(), (Attempt(*one) for one in attempts), strict=True)),
    )


def checked_bounds(sizes: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Where rows of these sizes begin and end: int64[n + 1]. Raises ValueError where they are more than so many."""
    bounds = bounds_of(sizes)
    if bounds[-1] > most:
        raise ValueError
    return bounds
