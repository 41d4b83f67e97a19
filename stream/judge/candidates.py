"""Merges postings: the earlier pages that share keys with a page, in indexing order.

The same merge serves the postings in the state, the postings that a record adds, and the search for all matches.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import Buckets
from spotsieve.stream.base.jit import inlined, kernel
from spotsieve.stream.judge.rules import Candidate
from spotsieve.stream.judge.slots import Postings, Slots
from spotsieve.stream.sign.fingerprints.simhash import count_bits

NEVER = np.iinfo(np.int64).max


class CandidatePairs(NamedTuple):
    """The candidates of n pages among the indexed pages, in indexing order: m pairs of a page and an indexed page.

    bounds: int64[n + 1], the pairs of page i are bounds[i]..bounds[i + 1] - 1
    number: int64[m], entry numbers
    proof, kinds, distance: uint8[m], the fields of Candidate
    cut_at: int64[n], the first pair beyond the candidate limit, or NEVER
    """

    bounds: NDArray[np.int64]
    number: NDArray[np.int64]
    proof: NDArray[np.uint8]
    kinds: NDArray[np.uint8]
    distance: NDArray[np.uint8]
    cut_at: NDArray[np.int64]


class Cursors(NamedTuple):
    """The positions of m slots in their buckets.

    at: int64[m], the next posting that passes
    number: int64[m], the page that this posting belongs to; NEVER if no posting remains
    """

    at: NDArray[np.int64]
    number: NDArray[np.int64]


def new_cursors(slots: Slots) -> Cursors:
    """Cursors that are not set yet."""
    return Cursors(np.empty(len(slots.bucket), np.int64), np.empty(len(slots.bucket), np.int64))


def find_candidates(slots: Slots, buckets: Buckets, candidate_limit: int, final: np.uint8) -> CandidatePairs:
    """The candidates of pages, from the buckets of their keys.

    candidate_limit: maximum number of candidates per page; decisive keys have no limit
    final: kinds of decisive keys (KeyKind) that end the search of a page
    """
    columns = buckets.bounds, buckets.numbers, buckets.inlines
    return CandidatePairs(*_merge_kernel((*slots,), *columns, candidate_limit, final))


@inlined
def _most_pairs(slots, postings, candidate_limit, final):  # Slots, Postings, int64, uint8 -> int64
    """Upper bound for the number of pairs: one per posting.

    If every decisive key ends the search of its page, the bound is also candidate_limit + 1 per page.
    """
    most, pages, any_ends = np.int64(0), np.int64(len(slots.bounds) - 1), True
    for slot in range(len(slots.bucket)):
        most += postings.end[slots.bucket[slot]] - postings.first[slots.bucket[slot]]
        any_ends &= not slots.decisive[slot] or slots.kind[slot] & final != 0
    return min(most, pages * (candidate_limit + 1)) if any_ends and candidate_limit < most else most


@inlined
def set_cursors(slots, postings, page, cursors):  # Slots, Postings, int64  ->  cursors: Cursors, of the page's slots
    """Set each cursor of a page to the first posting of its bucket that passes."""
    for slot in range(slots.bounds[page], slots.bounds[page + 1]):
        _set_cursor(slots, postings, slot, postings.first[slots.bucket[slot]], cursors)


@inlined
def next_candidate(slots, postings, page, cursors):  # Slots, Postings, int64, Cursors -> Candidate
    """Take the earliest page under the cursors and advance them; its number is NEVER if none remains.

    Skips pages that share fewer keys than `least_shared` and no decisive key.
    """
    first, last = slots.bounds[page], slots.bounds[page + 1]
    while True:
        least = np.int64(NEVER)
        for slot in range(first, last):
            least = min(least, cursors.number[slot])
        proof, kinds, distance, shared = np.uint8(0), np.uint8(0), np.int64(255), 0
        if least != NEVER:
            for slot in range(first, last):
                if cursors.number[slot] == least:
                    at = cursors.at[slot]
                    kinds |= slots.kind[slot]
                    shared += 1
                    if slots.decisive[slot]:
                        proof |= slots.kind[slot]
                        distance = min(distance, np.int64(count_bits(postings.inline[at] ^ slots.inline[slot])))
                    _set_cursor(slots, postings, slot, at + 1, cursors)
        if least == NEVER or proof or shared >= slots.least_shared:
            break
    return Candidate(least, np.uint8(proof), np.uint8(kinds), np.uint8(distance))


@inlined
def drop_candidates(slots, page, cursors):  # Slots, int64  ->  cursors: Cursors
    """Continue the search of the page under its decisive keys only."""
    for slot in range(slots.bounds[page], slots.bounds[page + 1]):
        if not slots.decisive[slot]:
            cursors.number[slot] = NEVER


@inlined
def _set_cursor(slots, postings, slot, at, cursors):  # Slots, Postings, int64, int64  ->  cursors: Cursors
    """Set the cursor of the slot to the first posting of its bucket, from `at` on, that passes."""
    end, inline, limit = postings.end[slots.bucket[slot]], slots.inline[slot], slots.limit[slot]
    while at < end and count_bits(postings.inline[at] ^ inline) > limit:
        at += 1
    cursors.at[slot] = at
    cursors.number[slot] = np.int64(postings.number[at]) if at < end else NEVER


@kernel
def _merge_kernel(slots, bucket_bounds, entries, inlines, candidate_limit, final):
    # slots: the fields of Slots  bucket_bounds, entries, inlines: the fields of Buckets  candidate_limit: int64,
    # final: uint8, as in find_candidates  -> the fields of CandidatePairs
    slots, postings = Slots(*slots), Postings(bucket_bounds[:-1], bucket_bounds[1:], entries, inlines)
    pages, most = len(slots.bounds) - 1, _most_pairs(slots, postings, candidate_limit, final)
    cursors = Cursors(np.empty(len(slots.bucket), np.int64), np.empty(len(slots.bucket), np.int64))
    bounds, cut_at = np.zeros(pages + 1, np.int64), np.full(pages, NEVER)
    numbers, proof = np.empty(most, np.int64), np.empty(most, np.uint8)
    kinds, distance = np.empty(most, np.uint8), np.empty(most, np.uint8)
    count = 0
    for page in range(pages):
        bounds[page] = count
        set_cursors(slots, postings, page, cursors)
        compared = 0
        while True:
            pair = next_candidate(slots, postings, page, cursors)
            if pair.number == NEVER:
                break
            if not pair.proof and compared == candidate_limit:
                cut_at[page] = count
                drop_candidates(slots, page, cursors)
                continue
            compared += not pair.proof
            numbers[count], proof[count] = pair.number, pair.proof
            kinds[count], distance[count] = pair.kinds, pair.distance
            count += 1
            if pair.proof & final:
                break
    bounds[pages] = count
    return bounds, numbers[:count], proof[:count], kinds[:count], distance[:count], cut_at
