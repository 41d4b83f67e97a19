"""Owns what a record's pages meet among the filed ones: postings that decide, and candidates to be confirmed."""

from dataclasses import dataclass
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from state.index import Buckets, FiledPages, StateView
from stream.fingerprints.distance import count_bits
from stream.fingerprints.tables import DIGEST_TAG, HOST_TAG, KEY_BITS, MINIMA_TAG, TEXT_TAG
from stream.schemes import OTHER_HOST, Probes, Scheme
from stream.signature import Compared, Entry
from stream.verdict import FoundBy

NOBODY = -1
NEVER = np.iinfo(np.int64).max


class Slots(NamedTuple):
    """The keys of n pages as the kernels see them: a slot is one key of one page.

    bounds: int64[n + 1]  bucket: int64[m], the place of the slot's key among the different ones  inline: uint64[m]
    limit: uint8[m]  decisive: bool[m]  cap: int64[m]  kind: uint8[m] (FoundBy)
    """

    bounds: NDArray[np.int64]
    bucket: NDArray[np.int64]
    inline: NDArray[np.uint64]
    limit: NDArray[np.uint8]
    decisive: NDArray[np.bool_]
    cap: NDArray[np.int64]
    kind: NDArray[np.uint8]


def slots_of(probes: Probes) -> tuple[NDArray[np.uint64], Slots]:
    """-> the different keys: uint64[u], ascending, and the slots that lead to them."""
    keys, bucket = np.unique(probes.keys, return_inverse=True)
    kind = kinds_of(probes.keys)
    return keys, Slots(probes.bounds, bucket, probes.inline, probes.limit, probes.decisive, probes.cap, kind)


def kinds_of(keys: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """keys: uint64[m] -> which kind of key each is: uint8[m] (FoundBy)."""
    return _KIND_OF_TAG[(keys >> np.uint64(KEY_BITS)).astype(np.uint8)]


@dataclass(frozen=True, slots=True)
class Found:
    """Who is whose original, as far as it was looked for; n pages.

    number: int64[n], entry number of the original, or NOBODY  distance: uint8[n], inline bits that differ, where a
    decisive key found it  score: float64[n], where it was confirmed  proof: uint8[n], the kinds of the decisive keys
    that found it (FoundBy), 0 where it was confirmed  found_by: uint8[n], the kinds of all keys that found it
    compared: int64[n], candidates met  cut: bool[n], there were more than the limit
    shared: int64[n], the most features that the page shares with a candidate of its host; OTHER_HOST: it met none
    """

    number: NDArray[np.int64]
    distance: NDArray[np.uint8]
    score: NDArray[np.float64]
    proof: NDArray[np.uint8]
    found_by: NDArray[np.uint8]
    compared: NDArray[np.int64]
    cut: NDArray[np.bool_]
    shared: NDArray[np.int64]


def nothing_found(pages: int) -> Found:
    """Of pages that have not looked yet."""
    return Found(
        np.full(pages, NOBODY, np.int64),
        np.zeros(pages, np.uint8),
        np.full(pages, np.nan),
        np.zeros(pages, np.uint8),
        np.zeros(pages, np.uint8),
        np.zeros(pages, np.int64),
        np.zeros(pages, np.bool_),
        np.full(pages, OTHER_HOST, np.int64),
    )


@dataclass(frozen=True, slots=True)
class FiledOriginals:
    """What is found among the filed pages.

    found: of all pages  numbers: uint64[e], ascending, the entries that were read  filed: the same, as read
    """

    found: Found
    numbers: NDArray[np.uint64]
    filed: FiledPages | None

    def entries(self, numbers: NDArray[np.int64]) -> list[Entry]:
        """numbers: int64[a], of entries that were read -> the filed pages."""
        if self.filed is None:
            return []
        return self.filed.entries(np.searchsorted(self.numbers, numbers.astype(np.uint64)))


def find_filed(
    slots: Slots, buckets: Buckets, view: StateView, scheme: Scheme, pages: Compared, candidate_limit: int
) -> FiledOriginals:
    """The earliest accepted filed page of each page. All entries of a record are read and confirmed at once."""
    found = nothing_found(len(slots.bounds) - 1)
    sizes = np.diff(buckets.bounds)
    most = min(int(sizes[slots.bucket].sum()), len(found.number) * candidate_limit)
    bounds = np.zeros(len(found.number) + 1, np.int64)
    numbers, kinds = np.empty(most, np.int64), np.empty(most, np.uint8)
    _meet_filed(
        slots, buckets.bounds, buckets.numbers, buckets.inlines, candidate_limit,
        bounds, numbers, kinds, found.number, found.distance, found.proof, found.found_by, found.cut,
    )  # fmt: skip
    numbers, kinds = numbers[: bounds[-1]], kinds[: bounds[-1]]
    found.compared[:] = np.diff(bounds)
    wanted = np.unique(np.concatenate([numbers, found.number[found.number != NOBODY]])).astype(np.uint64)
    if not len(wanted):
        return FiledOriginals(found, wanted, None)
    filed = view.filed(wanted)
    if len(numbers):
        page = np.repeat(np.arange(len(found.number)), found.compared)
        place = np.searchsorted(wanted, numbers.astype(np.uint64))
        candidates = filed.compared(scheme.compares_features).take(place)
        confirmed = scheme.confirm(pages.take(page), candidates)
        accepted = np.flatnonzero(candidates.template <= confirmed.most_template)
        _accept_first(accepted, page, numbers, kinds, confirmed.score, found)
        np.maximum.at(found.shared, page, confirmed.shared)
    return FiledOriginals(found, wanted, filed)


def _accept_first(
    accepted: NDArray[np.int64],
    page: NDArray[np.int64],
    numbers: NDArray[np.int64],
    kinds: NDArray[np.uint8],
    score: NDArray[np.float64],
    found: Found,
) -> None:
    """Of each page's accepted candidates, which ascend, the first: it was filed before what a decisive key found."""
    pages, first = np.unique(page[accepted], return_index=True)
    chosen = accepted[first]
    found.number[pages] = numbers[chosen]
    found.score[pages] = score[chosen]
    found.proof[pages] = 0
    found.found_by[pages] = kinds[chosen]
    found.cut[pages] = False


def _kinds_of_tags() -> NDArray[np.uint8]:
    kinds = np.full(256, FoundBy.TABLES, np.uint8)
    kinds[[DIGEST_TAG, TEXT_TAG]] = FoundBy.BODY, FoundBy.TEXT
    kinds[MINIMA_TAG], kinds[HOST_TAG] = FoundBy.MINIMA, FoundBy.HOST
    return kinds


_KIND_OF_TAG = _kinds_of_tags()


@numba.njit(nogil=True, cache=True)
def _next_passing(at, end, bucket_inlines, inline, limit):  # type: ignore[no-untyped-def]
    # The first posting from `at` on that passes, or end.
    while at < end and count_bits(bucket_inlines[at] ^ inline) > limit:
        at += 1
    return at


@numba.njit(nogil=True, cache=True)
def _meet_filed(  # type: ignore[no-untyped-def]
    slots, bucket_bounds, bucket_numbers, bucket_inlines, candidate_limit,
    bounds, candidates, kinds, number, distance, proof, found_by, cut,
):  # fmt: skip
    # slots: Slots  buckets: as in state.index.Buckets  ->  candidates, kinds: [bounds[n]], ascending within a page
    # number, distance, proof, found_by, cut: [n]
    # The postings of a page's buckets are merged in the order of entry numbers until a decisive key accepts one.
    cursor = np.empty(len(slots.bucket), np.int64)
    taken = 0
    for page in range(len(number)):
        bounds[page] = taken
        first, last = slots.bounds[page], slots.bounds[page + 1]
        for slot in range(first, last):
            bucket = slots.bucket[slot]
            cursor[slot] = _next_passing(
                bucket_bounds[bucket], bucket_bounds[bucket + 1], bucket_inlines, slots.inline[slot], slots.limit[slot]
            )
        while True:
            full = taken - bounds[page] == candidate_limit
            least = NEVER
            for slot in range(first, last):
                if cursor[slot] < bucket_bounds[slots.bucket[slot] + 1] and (slots.decisive[slot] or not cut[page]):
                    least = min(least, int(bucket_numbers[cursor[slot]]))
            if least == NEVER:
                break
            kind, proven, near = np.uint8(0), np.uint8(0), 255
            for slot in range(first, last):
                end = bucket_bounds[slots.bucket[slot] + 1]
                if cursor[slot] == end or int(bucket_numbers[cursor[slot]]) != least:
                    continue
                if cut[page] and not slots.decisive[slot]:
                    continue
                kind |= slots.kind[slot]
                if slots.decisive[slot]:
                    proven |= slots.kind[slot]
                    near = min(near, int(count_bits(bucket_inlines[cursor[slot]] ^ slots.inline[slot])))
                cursor[slot] = _next_passing(
                    cursor[slot] + 1, end, bucket_inlines, slots.inline[slot], slots.limit[slot]
                )
            if proven:
                number[page], distance[page], proof[page], found_by[page] = least, np.uint8(near), proven, kind
                break
            if full:
                cut[page] = True
            else:
                candidates[taken], kinds[taken] = least, kind
                taken += 1
    bounds[len(number)] = taken
