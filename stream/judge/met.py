"""Merges postings: which earlier pages a page meets under all its keys, in the order of filing.

One merge serves the postings in the state, those that a record adds, and the search for all matches of a page.
"""

# mypy: disable-error-code="no-untyped-def"
# numba compiles the kernels from their argument types; the comment of each says what these are.

from functools import cache
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from spotsieve.state.index import Buckets
from spotsieve.stream.fingerprints.distance import count_bits
from spotsieve.stream.judge.rules import Pair, judge_sources
from spotsieve.stream.judge.slots import Slots, filed_postings
from spotsieve.stream.text.sources import part

NEVER = np.iinfo(np.int64).max


class Met(NamedTuple):
    """What n pages meet among the filed ones, in the order of filing: m pairs of a page and a filed page.

    bounds: int64[n + 1]  number: int64[m], entry numbers  proof, kinds, distance: uint8[m], as of Pair
    cut_at: int64[n], the first pair that lies beyond the candidate limit, or NEVER
    """

    bounds: NDArray[np.int64]
    number: NDArray[np.int64]
    proof: NDArray[np.uint8]
    kinds: NDArray[np.uint8]
    distance: NDArray[np.uint8]
    cut_at: NDArray[np.int64]


def meet_filed(slots: Slots, buckets: Buckets, candidate_limit: int, final: np.uint8) -> Met:
    """What pages meet in the buckets of their keys.

    candidate_limit: most candidates of a page  final: kinds of decisive keys (FoundBy) at which its search ends
    """
    room = _most_met(slots, buckets, candidate_limit, final)
    met: Met = _meet_kernel()(slots, filed_postings(buckets), candidate_limit, final, room)
    return met


def _most_met(slots: Slots, buckets: Buckets, candidate_limit: int, final: np.uint8) -> int:
    """Pairs that there can be: one a posting, and where any decisive key ends the search, no more than that."""
    postings = int(np.diff(buckets.bounds)[slots.bucket].sum())
    any_ends = (slots.kind[slots.decisive] & final).all()
    return min(postings, (len(slots.bounds) - 1) * (candidate_limit + 1)) if any_ends else postings


@part
def begin(slots, postings, page, cursor):  # Slots, Postings, int64  ->  cursor: int64[m], of the page's slots
    """Set each cursor of a page to the first posting of its bucket that passes."""
    for slot in range(slots.bounds[page], slots.bounds[page + 1]):
        bucket = slots.bucket[slot]
        cursor[slot] = _passing(postings, postings.first[bucket], slots, slot)


@part
def next_met(slots, postings, page, cursor, decisive_only):  # Slots, Postings, int64, int64[m], bool -> Pair
    """Take the earliest page under the cursors and move these on; its number is NEVER where there is none.

    decisive_only: postings under other keys are passed over
    """
    least = np.int64(NEVER)
    first, last = slots.bounds[page], slots.bounds[page + 1]
    for slot in range(first, last):
        at = cursor[slot]
        if at < postings.end[slots.bucket[slot]] and (slots.decisive[slot] or not decisive_only):
            least = min(least, np.int64(postings.number[at]))
    proof, kinds, distance = np.uint8(0), np.uint8(0), np.int64(255)
    if least == NEVER:
        return Pair(least, np.uint8(proof), np.uint8(kinds), np.uint8(distance))
    for slot in range(first, last):
        at = cursor[slot]
        if at == postings.end[slots.bucket[slot]] or np.int64(postings.number[at]) != least:
            continue
        if decisive_only and not slots.decisive[slot]:
            continue
        kinds |= slots.kind[slot]
        if slots.decisive[slot]:
            proof |= slots.kind[slot]
            distance = min(distance, np.int64(count_bits(postings.inline[at] ^ slots.inline[slot])))
        cursor[slot] = _passing(postings, at + 1, slots, slot)
    return Pair(least, np.uint8(proof), np.uint8(kinds), np.uint8(distance))


@part
def _passing(postings, at, slots, slot):  # Postings, int64, Slots, int64 -> int64
    """The first posting of the slot's bucket from `at` on that passes, or the bucket's end."""
    end, inline, limit = postings.end[slots.bucket[slot]], slots.inline[slot], slots.limit[slot]
    while at < end and count_bits(postings.inline[at] ^ inline) > limit:
        at += 1
    return at


@cache
def _meet_kernel():
    sources = judge_sources()

    @njit(nogil=True, cache=True)
    def meet(slots, postings, candidate_limit, final, most):
        # slots: Slots  postings: Postings  candidate_limit: int64  final: uint8  most: pairs that there is room for
        # ->  Met
        pages = len(slots.bounds) - 1 if sources >= 0 else 0
        bounds, cut_at = np.zeros(pages + 1, np.int64), np.full(pages, NEVER)
        numbers, proof = np.empty(most, np.int64), np.empty(most, np.uint8)
        kinds, distance = np.empty(most, np.uint8), np.empty(most, np.uint8)
        cursor = np.empty(len(slots.bucket), np.int64)
        taken = 0
        for page in range(pages):
            bounds[page] = taken
            begin(slots, postings, page, cursor)
            compared, cut = 0, False
            while True:
                pair = next_met(slots, postings, page, cursor, cut)
                if pair.number == NEVER:
                    break
                if not pair.proof and compared == candidate_limit:
                    cut, cut_at[page] = True, taken
                    continue
                compared += not pair.proof
                numbers[taken], proof[taken] = pair.number, pair.proof
                kinds[taken], distance[taken] = pair.kinds, pair.distance
                taken += 1
                if pair.proof & final:
                    break
        bounds[pages] = taken
        return Met(bounds, numbers[:taken], proof[:taken], kinds[:taken], distance[:taken], cut_at)

    return meet
