"""Sequential resolution of a record: finds originals among its own earlier pages, and indexes pages that have none."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import NOBODY, Buckets
from spotsieve.stream.base.arrays import filled, sizes_of
from spotsieve.stream.base.jit import inlined, kernel
from spotsieve.stream.base.signature import CandidateColumns
from spotsieve.stream.judge.candidates import NEVER, drop_candidates, new_cursors, next_candidate, set_cursors
from spotsieve.stream.judge.indexed import IndexedOriginals
from spotsieve.stream.judge.policy import APART, PagePreferences, UrlRelations, relation_within
from spotsieve.stream.judge.rules import (
    NO_PAIRS,
    Limits,
    OriginalSearch,
    empty_search,
    is_refused,
    passes_recrawled,
    supersedes,
    weigh,
)
from spotsieve.stream.judge.slots import Postings, Slots, no_postings
from spotsieve.stream.sign.schemes import Confirmations, Scheme

CHUNK_PAGES = 64
"""The number of pages whose pairs are confirmed in one call. The pages that will be indexed are not known before the
call, so a chunk has up to 64 * 63 / 2 pairs, even if all its pages are alike. Pages of earlier chunks are candidates
only if they were indexed."""


class Resolution(NamedTuple):
    """The result of resolving a record of n pages.

    found: originals within the record, by page index
    postings: int64[n], number of postings in the probed buckets of each page
    entry: int64[n], the entry number of an indexed page, or NOBODY
    added: the postings that the record adds, by page index
    capped: number of postings left out because a bucket was full
    """

    found: OriginalSearch
    postings: NDArray[np.int64]
    entry: NDArray[np.int64]
    added: Postings
    capped: int


class AddedPostings(NamedTuple):
    """The result of indexing pages whose entry numbers are given.

    added: the added postings, by page index
    capped: number of postings left out because a bucket was full
    fits: bool[n], at least one bucket of the page had room
    """

    added: Postings
    capped: int
    fits: NDArray[np.bool_]


class _Record(NamedTuple):
    """A record of n pages with its u buckets, before the resolution.

    sizes: int64[u], number of postings indexed before the record
    indexed: int64[n], the original among the indexed pages, or NOBODY
    room: int64[n], number of candidates that may still be compared
    urls: URL relations of the pages
    """

    slots: Slots
    sizes: NDArray[np.int64]
    preferences: PagePreferences
    indexed: NDArray[np.int64]
    room: NDArray[np.int64]
    urls: UrlRelations


class _ChunkPairs(NamedTuple):
    """The pairs of a chunk that may need a confirmation, and the confirmations by the scheme.

    bounds: int64[n + 1], the pairs of page i are other[bounds[i]:bounds[i + 1]]
    other: int64[c], ascending within a page
    """

    bounds: NDArray[np.int64]
    other: NDArray[np.int64]
    confirmed: Confirmations


def resolve_record(
    slots: Slots,
    sizes: NDArray[np.int64],
    indexed: IndexedOriginals,
    scheme: Scheme,
    pages: CandidateColumns,
    preferences: PagePreferences,
    first_number: int,
    limits: Limits,
) -> Resolution:
    """Find originals within the record, and index, in order, every page that has none.

    sizes: int64[u], number of postings in each bucket
    indexed: originals among the indexed pages
    first_number: entry number of the next page that is indexed
    """
    count, found = len(pages), indexed.found
    room = limits.candidates - found.compared
    record = _Record(slots, sizes, preferences, found.number, room, indexed.urls)
    resolution = empty_resolution(slots, count, len(sizes))
    resolution.found.cut[:], resolution.found.replaced_preference[:] = found.cut, found.replaced_preference
    resolution.found.recrawl[:] = found.recrawl
    cursors, bounds = new_cursors(slots), np.zeros(count + 1, np.int64)
    confirming = not slots.decisive.all()
    chunk = CHUNK_PAGES if confirming else max(count, 1)
    number, capped = first_number, 0
    for start in range(0, count, chunk):
        end = min(start + chunk, count)
        others, confirmed = np.empty(0, np.int64), NO_PAIRS
        if confirming:
            others = _candidates_kernel(record, resolution.added, start, end, limits, bounds, cursors)
        if len(others):
            page = np.repeat(np.arange(start, end), sizes_of(bounds[start : end + 1]))
            confirmed = scheme.confirm(pages.take(page), pages.take(others))
        candidates = _ChunkPairs(bounds, others, confirmed)
        number, left_out = _settle_kernel(record, start, end, candidates, limits, number, cursors, resolution)
        capped += left_out
    return resolution._replace(capped=capped)


def empty_resolution(slots: Slots, pages: int, buckets: int) -> Resolution:
    """The resolution of a record before its first page."""
    postings, entry = np.zeros(pages, np.int64), filled(pages, NOBODY, np.int64)
    return Resolution(empty_search(pages), postings, entry, no_postings(slots.bucket, buckets), 0)


@inlined
def _size(sizes, added, bucket):  # int64[u], Postings, int64 -> int64
    """The current number of postings in a bucket. sizes: before the record"""
    return sizes[bucket] + added.end[bucket] - added.first[bucket]


@inlined
def _add(added, slots, slot, page):  # Postings, Slots, int64, int64
    """Append a posting of a page to the bucket of this slot."""
    bucket = slots.bucket[slot]
    at = added.end[bucket]
    added.number[at], added.inline[at] = page, slots.inline[slot]
    added.end[bucket] = at + 1


@inlined
def _suppose_indexed(record, page, before, cap, added):  # _Record, int64, int64[u], int64  ->  added: Postings
    """Index a page in all its buckets that had room when they ended at `before`."""
    slots = record.slots
    for slot in range(slots.bounds[page], slots.bounds[page + 1]):
        bucket = slots.bucket[slot]
        if record.sizes[bucket] + before[bucket] - added.first[bucket] < min(cap, slots.cap[slot]):
            _add(added, slots, slot, page)


@kernel
def _candidates_kernel(record, added, start, end, limits, bounds, cursors):
    # record: _Record  added: Postings  limits: Limits  cursors: Cursors, overwritten  bounds: int64[n + 1], overwritten
    # (the bounds of _ChunkPairs)
    # -> others: int64[c]. It assumes that every page of the chunk is indexed in all its buckets that have room before
    # the chunk. At the end it removes these postings again.
    slots, others = record.slots, np.empty(64, np.int64)
    before = added.end.copy()
    count = 0
    for page in range(start, end):
        bounds[page] = count
        if record.indexed[page] == NOBODY:
            set_cursors(slots, added, page, cursors)
            from_before = 0
            while True:
                pair = next_candidate(slots, added, page, cursors)
                other = pair.number
                if other == NEVER or from_before >= record.room[page]:
                    break
                if other < start:
                    if pair.proof:
                        relation = relation_within(record.urls, page, other)
                        preference, other_preference = (
                            record.preferences.own[page],
                            record.preferences.as_candidate[other],
                        )
                        if (
                            relation == APART
                            or passes_recrawled(pair.proof, relation, limits)
                            or supersedes(preference, other_preference, pair.proof, relation, limits)
                        ):
                            continue
                        break
                    from_before += 1
                if count == len(others):
                    others = np.append(others, np.empty(len(others), np.int64))
                others[count] = other
                count += 1
            _suppose_indexed(record, page, before, limits.cap, added)
    bounds[end] = count
    added.end[:] = before
    return others[:count]


@kernel
def _settle_kernel(record, start, end, candidates, limits, entry_number, cursors, resolution):
    # record: _Record  candidates: _ChunkPairs  limits: Limits  cursors: Cursors, overwritten
    # -> resolution: Resolution
    # returns the next entry number, and the number of postings left out because a bucket was full
    capped = 0
    for page in range(start, end):
        count_postings(record.slots, record.sizes, page, resolution)
        if record.indexed[page] != NOBODY:
            continue
        _find_original(record, page, candidates, limits, cursors, resolution)
        if resolution.found.number[page] != NOBODY:
            continue
        fits, full = index_page(record.slots, record.sizes, page, limits.cap, resolution.added)
        capped += full
        if fits:
            resolution.entry[page] = entry_number
            entry_number += 1
    return entry_number, capped


@inlined
def count_postings(slots, sizes, page, resolution):  # Slots, int64[u], int64  ->  resolution: Resolution
    """Count the postings in the buckets of a page. sizes: int64[u], indexed before the record"""
    added = resolution.added
    for slot in range(slots.bounds[page], slots.bounds[page + 1]):
        resolution.postings[page] += _size(sizes, added, slots.bucket[slot])


@inlined
def _find_original(record, page, candidates, limits, cursors, resolution):
    """Apply the rule to the earlier pages of the record that share keys with a page.

    _Record, int64, _ChunkPairs, Limits, Cursors  ->  resolution: Resolution
    """
    found, row = resolution.found, candidates.bounds[page]
    set_cursors(record.slots, resolution.added, page, cursors)
    if found.cut[page]:
        drop_candidates(record.slots, page, cursors)
    while True:
        pair = next_candidate(record.slots, resolution.added, page, cursors)
        other = pair.number
        if other == NEVER:
            break
        if not pair.proof:
            if found.compared[page] == record.room[page]:
                found.cut[page] = True
                drop_candidates(record.slots, page, cursors)
                continue
            while candidates.other[row] != other:
                row += 1
        if is_refused(found, page, pair, candidates.confirmed, row):
            continue
        preference, other_preference = record.preferences.own[page], record.preferences.as_candidate[other]
        relation = relation_within(record.urls, page, other)
        if weigh(found, page, pair, candidates.confirmed, row, preference, other_preference, relation, limits):
            break


@inlined
def index_page(slots, sizes, page, cap, added):  # Slots, int64[u], int64, int64  ->  added: Postings
    """Index a page under its keys; -> whether a bucket had room: bool, and the number of full buckets: int64.

    sizes: int64[u], number of postings indexed before the record
    """
    fits, capped = False, 0
    for slot in range(slots.bounds[page], slots.bounds[page + 1]):
        size = _size(sizes, added, slots.bucket[slot])
        if size >= min(cap, slots.cap[slot]):
            capped += size >= cap and slots.cap[slot] > 0
            continue
        _add(added, slots, slot, page)
        fits = True
    return fits, capped


def index_assigned(slots: Slots, sizes: NDArray[np.int64], entry: NDArray[np.int64], cap: int) -> AddedPostings:
    """Index the pages that have an entry number under these slots.

    sizes: int64[u], number of postings in each bucket
    entry: int64[n], entry numbers, or NOBODY
    """
    added, fits = no_postings(slots.bucket, len(sizes)), np.zeros(len(entry), np.bool_)
    capped = _index_kernel(slots, sizes, entry, cap, added, fits)
    return AddedPostings(added, capped, fits)


@kernel
def _index_kernel(slots, sizes, entry, cap, added, fits):
    # slots: Slots  sizes: int64[u]  entry: int64[n]  cap: int64
    # -> added: Postings, fits: bool[n]
    # returns the number of postings left out because a bucket was full
    capped = 0
    for page in range(len(entry)):
        if entry[page] != NOBODY:
            fits[page], full = index_page(slots, sizes, page, cap, added)
            capped += full
    return capped


def grown_buckets(buckets: Buckets, postings: Postings, entry: NDArray[np.int64]) -> tuple[NDArray[np.int64], Buckets]:
    """The buckets that received postings (int64[c]), and the complete new contents of each.

    postings: the added postings, by page index
    entry: int64[n], the entry number of each page
    """
    grown, *contents = _grow_kernel(buckets.bounds, buckets.numbers, buckets.inlines, (*postings,), entry)
    return grown, Buckets(*contents)


@kernel
def _grow_kernel(bucket_bounds, entries, entry_inlines, added, entry):
    # bucket_bounds, entries, entry_inlines: the fields of Buckets, before the record  added: the fields of Postings
    # entry: int64[n]  -> int64[c], buckets that received postings, and the fields of Buckets
    indexed, added = Postings(bucket_bounds[:-1], bucket_bounds[1:], entries, entry_inlines), Postings(*added)
    grown, count, most = np.empty(len(added.first), np.int64), 0, 0
    for bucket in range(len(added.first)):
        if added.end[bucket] > added.first[bucket]:
            grown[count] = bucket
            count += 1
            most += indexed.end[bucket] - indexed.first[bucket] + added.end[bucket] - added.first[bucket]
    bounds, numbers, inlines = np.zeros(count + 1, np.int64), np.empty(most, np.uint64), np.empty(most, np.uint64)
    at = 0
    for place in range(count):
        bucket = grown[place]
        for posting in range(indexed.first[bucket], indexed.end[bucket]):
            numbers[at], inlines[at] = indexed.number[posting], indexed.inline[posting]
            at += 1
        for posting in range(added.first[bucket], added.end[bucket]):
            numbers[at] = np.uint64(entry[np.int64(added.number[posting])])
            inlines[at] = added.inline[posting]
            at += 1
        bounds[place + 1] = at
    return grown[:count].copy(), bounds, numbers, inlines
