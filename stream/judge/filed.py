"""Owns what a record's pages meet among the filed ones: postings that decide, and candidates to be confirmed."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import Buckets, FiledPages, StateView
from spotsieve.stream.fingerprints.distance import count_bits
from spotsieve.stream.fingerprints.tables import DIGEST_TAG, HOST_TAG, KEY_BITS, MINIMA_TAG, TEXT_TAG
from spotsieve.stream.schemes import OTHER_HOST, Confirmed, Probes, Scheme
from spotsieve.stream.signature import Compared, Entry
from spotsieve.stream.verdict import FoundBy

NOBODY = -1
NEVER = np.iinfo(np.int64).max
KEEP_FIRST = math.inf
"""The `longer_by` with which no page replaces another: the first is kept."""
NO_PAIRS = Confirmed(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
_NO_TEMPLATES = np.empty(0, np.uint32)
_BODY = np.uint8(FoundBy.BODY)


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


class Found(NamedTuple):
    """Who is whose original, as far as it was looked for; n pages.

    number: int64[n], entry number of the original, or NOBODY  distance: uint8[n], inline bits that differ, where a
    decisive key found it  score: float64[n], where it was confirmed  proof: uint8[n], the kinds of the decisive keys
    that found it (FoundBy), 0 where it was confirmed  found_by: uint8[n], the kinds of all keys that found it
    compared: int64[n], candidates met  cut: bool[n], there were more than the limit
    shared: int64[n], the most features that the page shares with a candidate of its host that it is no copy of;
    OTHER_HOST: it met none
    replaced: int64[n], entry number of the longest accepted page that the page outgrows, or NOBODY
    replaced_length: int64[n], features of that page, or -1
    """

    number: NDArray[np.int64]
    distance: NDArray[np.uint8]
    score: NDArray[np.float64]
    proof: NDArray[np.uint8]
    found_by: NDArray[np.uint8]
    compared: NDArray[np.int64]
    cut: NDArray[np.bool_]
    shared: NDArray[np.int64]
    replaced: NDArray[np.int64]
    replaced_length: NDArray[np.int64]


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
        np.full(pages, NOBODY, np.int64),
        np.full(pages, -1, np.int64),
    )


class _Met(NamedTuple):
    """What n pages meet among the filed ones, in the order of filing: m pairs of a page and a filed page.

    bounds: int64[n + 1]  number: int64[m], entry numbers  kinds: uint8[m], of the keys that found it (FoundBy)
    proof: uint8[m], of the decisive ones among them; 0: it is a candidate  distance: uint8[m], fewest inline bits that
    differ over the decisive ones  cut_at: int64[n], the first pair that lies beyond the candidate limit, or NEVER
    """

    bounds: NDArray[np.int64]
    number: NDArray[np.int64]
    kinds: NDArray[np.uint8]
    proof: NDArray[np.uint8]
    distance: NDArray[np.uint8]
    cut_at: NDArray[np.int64]


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
    slots: Slots,
    buckets: Buckets,
    view: StateView,
    scheme: Scheme,
    pages: Compared,
    candidate_limit: int,
    longer_by: float,
) -> FiledOriginals:
    """The original of each page among the filed ones. All entries of a record are read and confirmed at once."""
    keeps_first = longer_by == KEEP_FIRST
    met = _meet_filed(
        slots, buckets.bounds, buckets.numbers, buckets.inlines, candidate_limit, keeps_first,
        _most_met(slots, buckets, candidate_limit, keeps_first),
    )  # fmt: skip
    found = nothing_found(len(slots.bounds) - 1)
    wanted = np.unique(met.number).astype(np.uint64)
    if not len(wanted):
        return FiledOriginals(found, wanted, None)
    filed = view.filed(wanted)
    pair = np.flatnonzero(met.proof == 0)
    lengths, template, confirmed = np.zeros(len(met.number), np.uint32), _NO_TEMPLATES, NO_PAIRS
    if len(pair) or not keeps_first:
        entries = filed.compared(scheme.compares_features and len(pair) > 0)
        place = np.searchsorted(wanted, met.number.astype(np.uint64))
        lengths = entries.feature_count[place]
    if len(pair):
        page = np.repeat(np.arange(len(found.number)), np.diff(met.bounds))
        candidates = entries.take(place[pair])
        template, confirmed = candidates.template, scheme.confirm(pages.take(page[pair]), candidates)
    _choose(met, confirmed, template, pages.feature_count, lengths, longer_by, found)
    return FiledOriginals(found, wanted, filed)


def _most_met(slots: Slots, buckets: Buckets, candidate_limit: int, keeps_first: bool) -> int:
    """Pairs that there can be: one a posting, and where the first decisive key ends the search, no more than that."""
    postings = int(np.diff(buckets.bounds)[slots.bucket].sum())
    return min(postings, (len(slots.bounds) - 1) * (candidate_limit + 1)) if keeps_first else postings


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
def outgrows(length, other, proven, longer_by):  # type: ignore[no-untyped-def]
    """Whether a page of that many features replaces a copy of `other` features, which it was found a copy of.

    The same bytes are the same page, however they were read. With longer_by = KEEP_FIRST no page outgrows any.
    """
    # length, other: integers  proven: uint8, kinds of the decisive keys  longer_by: float64  ->  bool
    return proven & _BODY == 0 and length > longer_by * other


@numba.njit(nogil=True, cache=True)
def _meet_filed(  # type: ignore[no-untyped-def]
    slots, bucket_bounds, bucket_numbers, bucket_inlines, candidate_limit, keeps_first, most
):
    # slots: Slots  buckets: as in spotsieve.state.index.Buckets  most: pairs that there is room for  ->  _Met
    # The postings of a page's buckets are merged in the order of entry numbers until a decisive key accepts one that
    # the page cannot outgrow.
    pages = len(slots.bounds) - 1
    bounds, cut_at = np.zeros(pages + 1, np.int64), np.full(pages, NEVER)
    numbers, kinds = np.empty(most, np.int64), np.empty(most, np.uint8)
    proof, distance = np.empty(most, np.uint8), np.empty(most, np.uint8)
    cursor = np.empty(len(slots.bucket), np.int64)
    taken = 0
    for page in range(pages):
        bounds[page] = taken
        first, last = slots.bounds[page], slots.bounds[page + 1]
        for slot in range(first, last):
            bucket = slots.bucket[slot]
            cursor[slot] = _next_passing(
                bucket_bounds[bucket], bucket_bounds[bucket + 1], bucket_inlines, slots.inline[slot], slots.limit[slot]
            )
        compared, cut = 0, False
        while True:
            least = NEVER
            for slot in range(first, last):
                if cursor[slot] < bucket_bounds[slots.bucket[slot] + 1] and (slots.decisive[slot] or not cut):
                    least = min(least, int(bucket_numbers[cursor[slot]]))
            if least == NEVER:
                break
            kind, proven, near = np.uint8(0), np.uint8(0), 255
            for slot in range(first, last):
                end = bucket_bounds[slots.bucket[slot] + 1]
                if cursor[slot] == end or int(bucket_numbers[cursor[slot]]) != least:
                    continue
                if cut and not slots.decisive[slot]:
                    continue
                kind |= slots.kind[slot]
                if slots.decisive[slot]:
                    proven |= slots.kind[slot]
                    near = min(near, int(count_bits(bucket_inlines[cursor[slot]] ^ slots.inline[slot])))
                cursor[slot] = _next_passing(
                    cursor[slot] + 1, end, bucket_inlines, slots.inline[slot], slots.limit[slot]
                )
            if not proven and compared == candidate_limit:
                cut, cut_at[page] = True, taken
                continue
            compared += not proven
            numbers[taken], kinds[taken], proof[taken], distance[taken] = least, kind, proven, np.uint8(near)
            taken += 1
            if proven and (keeps_first or proven & _BODY):
                break
    bounds[pages] = taken
    return _Met(bounds, numbers[:taken], kinds[:taken], proof[:taken], distance[:taken], cut_at)


@numba.njit(nogil=True, cache=True)
def _choose(met, confirmed, template, lengths, met_lengths, longer_by, found):  # type: ignore[no-untyped-def]
    # met: _Met  confirmed: Confirmed, of the candidates among the pairs  template: uint32, theirs
    # lengths: uint32[n]  met_lengths: uint32[m]  ->  found: Found
    # Of each page's accepted pairs, which ascend, the first that the page does not outgrow.
    candidate = 0
    for page in range(len(lengths)):
        found.cut[page] = met.cut_at[page] != NEVER
        for pair in range(met.bounds[page], met.bounds[page + 1]):
            proven, score = met.proof[pair], np.nan
            if not proven:
                score = confirmed.score[candidate]
                accepted = template[candidate] <= confirmed.most_template[candidate]
                if not accepted:
                    found.shared[page] = max(found.shared[page], confirmed.shared[candidate])
                candidate += 1
                found.compared[page] += 1
                if not accepted:
                    continue
            if found.number[page] != NOBODY:
                continue
            length = int(met_lengths[pair])
            if outgrows(lengths[page], length, proven, longer_by):
                if length > found.replaced_length[page]:
                    found.replaced[page], found.replaced_length[page] = met.number[pair], length
                continue
            found.number[page], found.score[page], found.proof[page] = met.number[pair], score, proven
            found.distance[page] = met.distance[pair] if proven else 0
            found.found_by[page] = met.kinds[pair]
            found.cut[page] = pair >= met.cut_at[page]
