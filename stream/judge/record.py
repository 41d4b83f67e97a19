"""Owns the walk through one record: originals among its own earlier pages, and which pages are filed where."""

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import Buckets
from spotsieve.stream.fingerprints.distance import count_bits
from spotsieve.stream.judge.filed import NEVER, NO_PAIRS, NOBODY, Found, Slots, nothing_found, outgrows
from spotsieve.stream.schemes import OTHER_HOST, Scheme
from spotsieve.stream.signature import Compared

CHUNK_PAGES = 64
"""Pages whose pairs are confirmed in one call. Which of them will be filed is not known before, so a chunk has up to
64 * 63 / 2 pairs, however alike its pages are; pages of earlier chunks count only where they were filed."""


class Chains(NamedTuple):
    """The postings that the record adds, as a linked list of slots a bucket, in the order of filing.

    head, tail: int64[u], slot or NOBODY  added: int64[u]  following: int64[m], slot or NOBODY  page: int64[m]
    before: int64[m], the tail before the slot came, so that a chunk can be taken back
    """

    head: NDArray[np.int64]
    tail: NDArray[np.int64]
    added: NDArray[np.int64]
    following: NDArray[np.int64]
    page: NDArray[np.int64]
    before: NDArray[np.int64]


class Walked(NamedTuple):
    """found: originals within the record, by page index  postings: int64[n], how many lay in the probed buckets
    entry: int64[n], the entry number of a filed page, or NOBODY  template: int64[n], of a filed page
    capped: filings left out because a bucket was full.
    """

    found: Found
    postings: NDArray[np.int64]
    entry: NDArray[np.int64]
    template: NDArray[np.int64]
    chains: Chains
    capped: int


def walk_record(
    slots: Slots,
    buckets: Buckets,
    filed: Found,
    scheme: Scheme,
    pages: Compared,
    first_number: int,
    cap: int,
    candidate_limit: int,
    longer_by: float,
) -> Walked:
    """Look for originals within the record and file, in order, every page that has none.

    filed: what was found among the filed pages  first_number: entry number of the next filed page
    """
    count, slot_count, sizes = len(pages), len(slots.bucket), np.diff(buckets.bounds)
    room = candidate_limit - filed.compared
    found = nothing_found(count)
    found.cut[:], found.shared[:], found.replaced_length[:] = filed.cut, filed.shared, filed.replaced_length
    postings, entry = np.zeros(count, np.int64), np.full(count, NOBODY, np.int64)
    head, tail = np.full(len(sizes), NOBODY, np.int64), np.full(len(sizes), NOBODY, np.int64)
    following, slot_page, before = (np.full(slot_count, NOBODY, np.int64) for _ in range(3))
    chains = Chains(head, tail, np.zeros(len(sizes), np.int64), following, slot_page, before)
    cursor, bounds = np.empty(slot_count, np.int64), np.zeros(count + 1, np.int64)
    confirming = not slots.decisive.all()
    presumed, most = scheme.template_limits(pages)
    template = np.zeros(count, np.int64)
    chunk = CHUNK_PAGES if confirming else max(count, 1)
    number, capped = first_number, 0
    for start in range(0, count, chunk):
        end = min(start + chunk, count)
        others, confirmed = np.empty(0, np.int64), NO_PAIRS
        if confirming:
            others = _candidate_pairs(
                slots,
                chains,
                sizes,
                cap,
                filed.number,
                room,
                start,
                end,
                pages.feature_count,
                longer_by,
                bounds,
                cursor,
            )
        if len(others):
            page = np.repeat(np.arange(start, end), np.diff(bounds[start : end + 1]))
            confirmed = scheme.confirm(pages.take(page), pages.take(others))
        number, left_out = _settle(
            slots, chains, filed.number, room, start, end, bounds, others, confirmed, presumed, most, sizes, cap,
            number, pages.feature_count, longer_by, cursor, found, postings, entry, template,
        )  # fmt: skip
        capped += left_out
    return Walked(found, postings, entry, template, chains, capped)


@numba.njit(nogil=True, cache=True)
def _candidate_pairs(  # type: ignore[no-untyped-def]
    slots, chains, sizes, cap, filed_number, room, start, end, lengths, longer_by, bounds, cursor
):
    # slots: Slots  chains: Chains  sizes: int64[u]  filed_number, room: int64[n]  lengths: uint32[n]
    # ->  others: int64[c], ascending within a page; page i's are others[bounds[i]:bounds[i + 1]]. Every page of the
    # chunk is taken to be filed in all its buckets that have room before the chunk, and all is taken back at the end.
    others = np.empty(64, np.int64)
    before = sizes + chains.added
    taken = 0
    for page in range(start, end):
        bounds[page] = taken
        if filed_number[page] == NOBODY:
            _begin(slots, chains, page, cursor)
            from_before = 0
            while True:
                least, proven = _advance(slots, chains, page, cursor, False)[:2]
                if least == NEVER or from_before >= room[page]:
                    break
                if least < start:
                    if proven and outgrows(lengths[page], lengths[least], proven, longer_by):
                        continue
                    if proven:
                        break
                    from_before += 1
                if taken == len(others):
                    others = np.append(others, np.empty(len(others), np.int64))
                others[taken] = least
                taken += 1
            for slot in range(slots.bounds[page], slots.bounds[page + 1]):
                if before[slots.bucket[slot]] < min(cap, slots.cap[slot]):
                    _append(slots, chains, page, slot)
    bounds[end] = taken
    for slot in range(slots.bounds[end] - 1, slots.bounds[start] - 1, -1):
        if chains.page[slot] != NOBODY:
            _take_back(slots, chains, slot)
    return others[:taken]


@numba.njit(nogil=True, cache=True)
def _settle(  # type: ignore[no-untyped-def]
    slots, chains, filed_number, room, start, end, bounds, others, confirmed, presumed, most, sizes, cap, entry_number,
    lengths, longer_by, cursor, found, postings, entry, template,
):  # fmt: skip
    # confirmed: Confirmed, of the pairs  presumed, most: int64[n], limits of templates  lengths: uint32[n]
    # sizes: int64[u], postings filed before the record  ->  found: Found  postings, entry, template: int64[n]
    # returns the next entry number, and how many filings found their bucket full
    capped = 0
    for page in range(start, end):
        first, last = slots.bounds[page], slots.bounds[page + 1]
        for slot in range(first, last):
            postings[page] += sizes[slots.bucket[slot]] + chains.added[slots.bucket[slot]]
        if filed_number[page] != NOBODY:
            continue
        _begin(slots, chains, page, cursor)
        pair = bounds[page]
        while True:
            least, proven, kind, near = _advance(slots, chains, page, cursor, found.cut[page])
            if least == NEVER:
                break
            score = np.nan
            if not proven:
                if found.compared[page] == room[page]:
                    found.cut[page] = True
                    continue
                found.compared[page] += 1
                while others[pair] != least:
                    pair += 1
                if template[least] > confirmed.most_template[pair]:
                    found.shared[page] = max(found.shared[page], confirmed.shared[pair])
                    continue
                score = confirmed.score[pair]
            length = int(lengths[least])
            if outgrows(lengths[page], length, proven, longer_by):
                if length > found.replaced_length[page]:
                    found.replaced[page], found.replaced_length[page] = least, length
                continue
            found.number[page], found.score[page], found.proof[page] = least, score, proven
            found.distance[page] = np.uint8(near) if proven else 0
            found.found_by[page] = kind
            break
        if found.number[page] != NOBODY:
            continue
        fits = False
        for slot in range(first, last):
            size = sizes[slots.bucket[slot]] + chains.added[slots.bucket[slot]]
            if size >= min(cap, slots.cap[slot]):
                capped += size >= cap and slots.cap[slot] > 0
                continue
            _append(slots, chains, page, slot)
            fits = True
        if fits:
            entry[page] = entry_number
            entry_number += 1
            template[page] = presumed[page] if found.shared[page] == OTHER_HOST else min(found.shared[page], most[page])
    return entry_number, capped


@numba.njit(nogil=True, cache=True)
def _begin(slots, chains, page, cursor):  # type: ignore[no-untyped-def]
    # Set the page's cursors to the first posting of each of its chains that passes.
    for slot in range(slots.bounds[page], slots.bounds[page + 1]):
        cursor[slot] = _next_passing(slots, chains, slot, chains.head[slots.bucket[slot]])


@numba.njit(nogil=True, cache=True)
def _advance(slots, chains, page, cursor, decisive_only):  # type: ignore[no-untyped-def]
    # Take the earliest page under the cursors. ->  that page or NEVER, kinds of the decisive keys that found it,
    # kinds of all keys that found it, fewest differing bits over the decisive ones
    least, kind, proven, near = NEVER, np.uint8(0), np.uint8(0), 255
    first, last = slots.bounds[page], slots.bounds[page + 1]
    for slot in range(first, last):
        if cursor[slot] != NOBODY and (slots.decisive[slot] or not decisive_only):
            least = min(least, chains.page[cursor[slot]])
    if least == NEVER:
        return least, proven, kind, near
    for slot in range(first, last):
        other = cursor[slot]
        if other == NOBODY or chains.page[other] != least or (decisive_only and not slots.decisive[slot]):
            continue
        kind |= slots.kind[slot]
        if slots.decisive[slot]:
            proven |= slots.kind[slot]
            near = min(near, int(count_bits(slots.inline[other] ^ slots.inline[slot])))
        cursor[slot] = _next_passing(slots, chains, slot, chains.following[other])
    return least, proven, kind, near


@numba.njit(nogil=True, cache=True)
def _next_passing(slots, chains, slot, other):  # type: ignore[no-untyped-def]
    # The first slot of a chain, from `other` on, whose posting passes for `slot`, or NOBODY.
    while other != NOBODY and count_bits(slots.inline[other] ^ slots.inline[slot]) > slots.limit[slot]:
        other = chains.following[other]
    return other


@numba.njit(nogil=True, cache=True)
def _append(slots, chains, page, slot):  # type: ignore[no-untyped-def]
    # File a page's slot at the end of its chain.
    bucket = slots.bucket[slot]
    chains.page[slot], chains.before[slot] = page, chains.tail[bucket]
    if chains.tail[bucket] == NOBODY:
        chains.head[bucket] = slot
    else:
        chains.following[chains.tail[bucket]] = slot
    chains.tail[bucket] = slot
    chains.added[bucket] += 1


@numba.njit(nogil=True, cache=True)
def _take_back(slots, chains, slot):  # type: ignore[no-untyped-def]
    # Undo the last _append to the slot's chain.
    bucket = slots.bucket[slot]
    chains.tail[bucket] = chains.before[slot]
    if chains.before[slot] == NOBODY:
        chains.head[bucket] = NOBODY
    else:
        chains.following[chains.before[slot]] = NOBODY
    chains.page[slot] = NOBODY
    chains.added[bucket] -= 1


def grown_buckets(slots: Slots, buckets: Buckets, walked: Walked) -> tuple[NDArray[np.int64], Buckets]:
    """-> which buckets took postings: int64[c], and the whole new contents of each."""
    chains = walked.chains
    grown = np.flatnonzero(chains.added)
    sizes = np.diff(buckets.bounds)[grown] + chains.added[grown]
    bounds = np.zeros(len(grown) + 1, np.int64)
    np.cumsum(sizes, out=bounds[1:])
    contents = Buckets(bounds, np.empty(bounds[-1], np.uint64), np.empty(bounds[-1], np.uint64))
    _grow(
        grown, buckets.bounds, buckets.numbers, buckets.inlines, chains, slots.inline, walked.entry, bounds,
        contents.numbers, contents.inlines,
    )  # fmt: skip
    return grown, contents


@numba.njit(nogil=True, cache=True)
def _grow(  # type: ignore[no-untyped-def]
    grown, bucket_bounds, bucket_numbers, bucket_inlines, chains, inline, entry, bounds, numbers, inlines
):
    # grown: int64[c], buckets that took postings  ->  their whole new contents: numbers, inlines: uint64[bounds[c]]
    for place in range(len(grown)):
        bucket, at = grown[place], bounds[place]
        for posting in range(bucket_bounds[bucket], bucket_bounds[bucket + 1]):
            numbers[at], inlines[at] = bucket_numbers[posting], bucket_inlines[posting]
            at += 1
        slot = chains.head[bucket]
        while slot != NOBODY:
            numbers[at], inlines[at] = np.uint64(entry[chains.page[slot]]), inline[slot]
            at += 1
            slot = chains.following[slot]
