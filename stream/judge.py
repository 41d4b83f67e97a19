"""Owns judging: probe, resolve, and what is to be filed, for one record of the log over a view of the state.

The rules, so that a verdict depends on the log's order and on nothing else:
- The original of a page is the EARLIEST accepted filed page. Postings lie in their buckets in the order of filing, so
  the first accepted of each bucket and then the least entry number over the buckets decides.
- Only novel pages and unchecked ones are filed. An earlier page of the same record counts exactly as if it had been
  filed in a record before: only through a bucket that it was really filed in.
- A bucket takes `cap` postings and then no more; it is still probed. A page that fits no bucket is not filed and has no
  entry number. Full buckets stay full, so submitting such a page again changes nothing either.
- A page whose original is itself (same source, partition, offset) was judged before: it gets the verdict of its first
  attempt and is not filed again. Buckets only grow at their ends, so a page judged again meets the same earliest
  entry: the original it had, or itself.
"""

from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

from state.index import Buckets, Filing, StateView
from stream.schemes import Probes, Scheme
from stream.signature import Entry, Signatures, Status
from stream.verdict import Kind, Reason, Verdicts

NOBODY = -1

_REASON_OF_STATUS = np.array(
    [Reason.NO_MATCH, Reason.TOO_FEW_FEATURES, Reason.EMPTY, Reason.NOT_TEXT], np.uint8
)  # indexed by Status


@dataclass(frozen=True, slots=True)
class Resolution:
    """Who is whose original, before the originals are read.

    number: int64[n], entry number of a filed original, or NOBODY  page: int64[n], an original within this record, or
    NOBODY  distance: uint8[n]  candidates: int64[n]
    """

    number: NDArray[np.int64]
    page: NDArray[np.int64]
    distance: NDArray[np.uint8]
    candidates: NDArray[np.int64]


def judge(signatures: Signatures, scheme: Scheme, view: StateView, cap: int) -> tuple[Verdicts, Filing]:
    """Verdicts of a record's pages, and what filing them adds to the state. cap: most postings of a bucket."""
    probes = scheme.probe(signatures)
    keys, slot_bucket = np.unique(probes.keys, return_inverse=True)
    buckets = view.buckets(keys)
    resolution, filing = resolve(signatures, probes, keys, slot_bucket, buckets, view.entry_count, cap)
    return _verdicts(signatures, scheme, view, resolution), filing


def resolve(
    signatures: Signatures,
    probes: Probes,
    keys: NDArray[np.uint64],
    slot_bucket: NDArray[np.int64],
    buckets: Buckets,
    first_number: int,
    cap: int,
) -> tuple[Resolution, Filing]:
    """Walk the record in order.

    keys: uint64[u], the different keys  slot_bucket: int64[m], the place in keys of each of the probes' keys
    buckets: what is filed under keys  first_number: entry number of the next filed page
    """
    pages, slots = len(signatures), len(probes.keys)
    number, page = np.empty(pages, np.int64), np.empty(pages, np.int64)
    distance, candidates = np.zeros(pages, np.uint8), np.zeros(pages, np.int64)
    entry = np.full(pages, NOBODY, np.int64)
    head, tail, added = (np.full(len(keys), NOBODY, np.int64) for _ in range(3))
    added[:] = 0
    following, slot_page = np.full(slots, NOBODY, np.int64), np.empty(slots, np.int64)
    capped = _walk(
        probes.bounds,
        slot_bucket,
        probes.inline,
        probes.limit,
        buckets.bounds,
        buckets.numbers,
        buckets.inlines,
        first_number,
        cap,
        head,
        tail,
        added,
        following,
        slot_page,
        number,
        page,
        distance,
        candidates,
        entry,
    )
    grown = np.flatnonzero(added)
    sizes = buckets.bounds[grown + 1] - buckets.bounds[grown] + added[grown]
    bounds = np.zeros(len(grown) + 1, np.int64)
    np.cumsum(sizes, out=bounds[1:])
    contents = Buckets(bounds, np.empty(bounds[-1], np.uint64), np.empty(bounds[-1], np.uint64))
    _grow(
        grown,
        buckets.bounds,
        buckets.numbers,
        buckets.inlines,
        head,
        following,
        slot_page,
        entry,
        probes.inline,
        bounds,
        contents.numbers,
        contents.inlines,
    )
    to_file = np.flatnonzero(entry != NOBODY)
    resolution = Resolution(number, page, distance, candidates)
    return resolution, Filing(signatures, to_file, first_number, keys[grown], contents, capped)


def _verdicts(signatures: Signatures, scheme: Scheme, view: StateView, resolution: Resolution) -> Verdicts:
    """Read the originals and say what each page is."""
    fingerprinted = signatures.status == Status.FINGERPRINTED
    reason = _REASON_OF_STATUS[signatures.status]
    kind = np.where(fingerprinted, Kind.NOVEL, Kind.UNCHECKED).astype(np.uint8)
    score = np.full(len(signatures), np.nan)
    originals: list[Entry | None] = [None] * len(signatures)
    accepted, entries = _accepted(signatures, view, resolution)
    own = _are_themselves(signatures, accepted, entries)
    for index, entry, itself in zip(accepted.tolist(), entries, own.tolist(), strict=True):
        if not itself:
            originals[index] = entry
    copies, again = accepted[~own], accepted[own]
    kind[copies] = Kind.DUPLICATE
    reason[copies] = np.where(fingerprinted[copies], Reason.NEAR, Reason.EXACT)
    reason[again[fingerprinted[again]]] = Reason.FIRST_ATTEMPT
    score[copies] = scheme.score(resolution.distance[copies])
    return Verdicts(kind, reason, score, tuple(originals), resolution.candidates)


def _accepted(signatures: Signatures, view: StateView, resolution: Resolution) -> tuple[NDArray[np.int64], list[Entry]]:
    """The pages for which an original was accepted: int64[a], and their originals, filed or of this record."""
    from_state = np.flatnonzero(resolution.number != NOBODY)
    entries = view.entries(resolution.number[from_state].astype(np.uint64)) if len(from_state) else []
    within = np.flatnonzero(resolution.page != NOBODY)
    entries += [entry_of(signatures, page) for page in resolution.page[within].tolist()]
    return np.concatenate([from_state, within]), entries


def _are_themselves(signatures: Signatures, pages: NDArray[np.int64], entries: list[Entry]) -> NDArray[np.bool_]:
    """Whether each entry is the very page, by its page id: bool[a]."""
    ids = zip(
        signatures.offset[pages].tolist(),
        signatures.partition[pages].tolist(),
        signatures.source[pages].tolist(),
        entries,
        strict=True,
    )
    sources = signatures.sources
    same = (
        offset == entry.offset and partition == entry.partition and sources[source] == entry.source
        for offset, partition, source, entry in ids
    )
    return np.fromiter(same, np.bool_, len(entries))


def entry_of(signatures: Signatures, index: int) -> Entry:
    """A page of a record, as an entry."""
    return Entry(
        signatures.sources[signatures.source[index]],
        int(signatures.partition[index]),
        int(signatures.offset[index]),
        int(signatures.event_time_ms[index]),
        signatures.urls[index].decode("utf-8", "replace"),
        signatures.labels[index].decode("utf-8", "replace"),
    )


@numba.njit(nogil=True, cache=True)
def count_bits(word):  # type: ignore[no-untyped-def]
    """Set bits of a uint64; LLVM turns this into one popcnt."""
    # word: uint64  ->  uint64
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (word * np.uint64(0x0101010101010101)) >> np.uint64(56)


@numba.njit(nogil=True, cache=True)
def _walk(  # type: ignore[no-untyped-def]
    slot_bounds,
    slot_bucket,
    inline,
    limit,
    bucket_bounds,
    bucket_numbers,
    bucket_inlines,
    first_number,
    cap,
    head,
    tail,
    added,
    following,
    slot_page,
    number,
    page,
    distance,
    candidates,
    entry,
):
    # Pages i with slots slot_bounds[i]..; a slot leads to a bucket: filed postings, then a linked list of the slots
    # that this record filed there (head, tail, added: int64[u]; following, slot_page: int64[m]).
    # ->  number, page, entry: int64[n]  distance: uint8[n]  candidates: int64[n]; returns capped
    filed, capped = 0, 0
    for i in range(len(inline)):
        best, best_distance, tested = NOBODY, 0, 0
        for slot in range(slot_bounds[i], slot_bounds[i + 1]):
            bucket = slot_bucket[slot]
            first, last = bucket_bounds[bucket], bucket_bounds[bucket + 1]
            tested += last - first + added[bucket]
            for posting in range(first, last):
                differing = count_bits(bucket_inlines[posting] ^ inline[i])
                if differing <= limit[i]:
                    candidate = int(bucket_numbers[posting])
                    if best == NOBODY or candidate < best:
                        best, best_distance = candidate, int(differing)
                    break
        number[i], page[i], candidates[i] = best, NOBODY, tested
        if best == NOBODY:
            for slot in range(slot_bounds[i], slot_bounds[i + 1]):
                other = head[slot_bucket[slot]]
                while other != NOBODY:
                    differing = count_bits(inline[slot_page[other]] ^ inline[i])
                    if differing <= limit[i]:
                        if best == NOBODY or slot_page[other] < best:
                            best, best_distance = slot_page[other], int(differing)
                        break
                    other = following[other]
            page[i] = best
        distance[i] = np.uint8(best_distance)
        if best != NOBODY:
            continue
        fits = False
        for slot in range(slot_bounds[i], slot_bounds[i + 1]):
            bucket = slot_bucket[slot]
            if bucket_bounds[bucket + 1] - bucket_bounds[bucket] + added[bucket] >= cap:
                capped += 1
                continue
            slot_page[slot] = i
            if head[bucket] == NOBODY:
                head[bucket] = slot
            else:
                following[tail[bucket]] = slot
            tail[bucket] = slot
            added[bucket] += 1
            fits = True
        if fits:
            entry[i] = first_number + filed
            filed += 1
    return capped


@numba.njit(nogil=True, cache=True)
def _grow(  # type: ignore[no-untyped-def]
    grown,
    bucket_bounds,
    bucket_numbers,
    bucket_inlines,
    head,
    following,
    slot_page,
    entry,
    inline,
    bounds,
    numbers,
    inlines,
):
    # grown: int64[c], buckets that took postings  ->  their whole new contents: numbers, inlines: uint64[bounds[c]]
    for place in range(len(grown)):
        bucket, at = grown[place], bounds[place]
        for posting in range(bucket_bounds[bucket], bucket_bounds[bucket + 1]):
            numbers[at], inlines[at] = bucket_numbers[posting], bucket_inlines[posting]
            at += 1
        slot = head[bucket]
        while slot != NOBODY:
            numbers[at], inlines[at] = np.uint64(entry[slot_page[slot]]), inline[slot_page[slot]]
            at += 1
            slot = following[slot]
