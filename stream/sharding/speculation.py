"""Checks a speculation against the resolutions that used it (hosts.py), and corrects it."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import NOBODY
from spotsieve.stream.base.arrays import sizes_of
from spotsieve.stream.base.jit import inlined, kernel
from spotsieve.stream.base.page_text import IDENTITY_SHIFT, NUMBERS_SHIFT
from spotsieve.stream.judge.by_host.containment import find_shared, new_comparison
from spotsieve.stream.judge.by_host.distinctive_text import empty_entry_texts, texts_of
from spotsieve.stream.judge.by_host.learning import keep_texts
from spotsieve.stream.judge.rules import Limits
from spotsieve.stream.sharding.candidates import ShardCandidates, Speculation, flags_of_pages
from spotsieve.stream.sharding.hosts import HostResolutions, indexed_flags, sent_flags
from spotsieve.stream.sharding.keys import lay_out_keys
from spotsieve.stream.sharding.resolution import bucket_sizes
from spotsieve.stream.sharding.rounds import Round
from spotsieve.stream.sign.schemes import Scheme


class SpeculationCheck(NamedTuple):
    """The result of the check of a speculation.

    speculation: a better speculation if a page depends on a wrong assumption; None if none does
    postings: int64[n], postings in the buckets of each page that its resolution did not count
    """

    speculation: Speculation | None
    postings: NDArray[np.int64]


def check_speculation(
    round_: Round,
    scheme: Scheme,
    limits: Limits,
    shard_candidates: Sequence[ShardCandidates],
    resolutions: Sequence[HostResolutions],
    speculation: Speculation,
) -> SpeculationCheck:
    """Compare a speculation with the resolutions that used it. resolutions: the resolutions of all shards, in order"""
    signatures = round_.signatures
    pages = len(signatures)
    shard, is_indexed, search_end = np.zeros(pages, np.int64), np.zeros(pages, np.bool_), np.full(pages, pages)
    most_candidates: NDArray[np.int64] = np.sum([sizes_of(one.bounds) for one in shard_candidates], axis=0)
    for number, one in enumerate(resolutions):
        shard[one.rows], is_indexed[one.rows] = number, one.is_indexed
        original = np.where(one.within.number == NOBODY, pages, one.within.number)
        search_end[one.rows] = np.where(one.indexed.number == NOBODY, original, NOBODY)
        most_candidates[one.rows] += one.postings
    wrong, more = speculation.indexed != is_indexed, np.zeros(pages, np.int64)
    flags, shown = sent_flags(round_, shard_candidates, speculation)
    found = indexed_flags(round_, resolutions)
    differ = np.zeros(pages, np.bool_)
    differ[np.repeat(np.arange(pages), sizes_of(signatures.blocks_bounds))[found != flags]] = True
    differ &= shown & is_indexed
    if differ.any():
        flags = np.where(np.repeat(differ, sizes_of(signatures.blocks_bounds)), found, flags)
        differ[speculation.flags.rows] = True
        return SpeculationCheck(Speculation(is_indexed, flags_of_pages(signatures, flags, differ)), more)
    if not wrong.any() or scheme.host_thresholds is None:
        return SpeculationCheck(None, more)
    laid = lay_out_keys(signatures, scheme)
    slots = laid.slots
    page = np.repeat(np.arange(pages), sizes_of(slots.bounds))
    in_round = np.bincount(slots.bucket, minlength=len(laid.keys))
    np.add.at(most_candidates, page, in_round[slots.bucket])
    size = bucket_sizes(laid, [one.sizes for one in shard_candidates])[slots.bucket]
    room = np.minimum(slots.cap, limits.cap) - size
    has_wrong = np.zeros(len(laid.keys), np.bool_)
    has_wrong[slots.bucket[wrong[page]]] = True
    most_room = np.zeros(len(laid.keys), np.int64)
    np.maximum.at(most_room, slots.bucket, room)
    # A bucket that was full before the round gives no candidate of the round, whichever pages are indexed.
    some = np.flatnonzero((most_room[slots.bucket] > 0) & has_wrong[slots.bucket] & (in_round[slots.bucket] > 1))
    some = some[np.argsort(slots.bucket[some], kind="stable")]
    of_slots = slots.bucket[some], page[some], slots.decisive[some], room[some], most_room[slots.bucket[some]]
    of_pages = shard, speculation.indexed, is_indexed, most_candidates > limits.candidates, search_end
    # The resolver has no table of common text, on which only the blocks of an entry depend. So all blocks are compared.
    texts, within = texts_of(signatures, np.zeros(len(signatures.blocks), np.bool_)), empty_entry_texts(signatures)
    keep_texts(texts, flags, shown, within)
    of_texts = texts, within, _sorted_blocks(texts, shown), new_comparison()
    rests = _check_kernel(*of_slots, *of_pages, *of_texts, scheme.host_thresholds.one_host, more)
    return SpeculationCheck(Speculation(is_indexed, speculation.flags) if rests else None, more)


@kernel
def _sorted_blocks(texts, which):
    # texts: PageTexts  which: bool[n]  ->  uint64[b], text and numbers of each block, ascending within these pages
    keys = texts.blocks >> np.uint64(NUMBERS_SHIFT)
    for page in range(len(which)):
        if which[page]:
            first, end = texts.block_bounds[page], texts.block_bounds[page + 1]
            keys[first:end] = np.sort(keys[first:end])
    return keys


@inlined
def _share_block(keys, bounds, page, other):  # uint64[b], int64[n + 1], int64, int64 -> bool
    """Whether two pages have a block with the same text and the same numbers."""
    at, place = bounds[page], bounds[other]
    while at < bounds[page + 1] and place < bounds[other + 1]:
        if keys[at] == keys[place] and keys[at] >> np.uint64(IDENTITY_SHIFT - NUMBERS_SHIFT) != 0:
            return True
        if keys[at] <= keys[place]:
            at += 1
        else:
            place += 1
    return False


@kernel
def _check_kernel(
    bucket,
    page,
    decides,
    room,
    most_room,
    shard,
    speculation,
    is_indexed,
    crowded,
    search_end,
    texts,
    within,
    blocks,
    compared,
    one_host,
    more,
):
    # bucket, page: int64[s], of slots, sorted by bucket and page  decides: bool[s]
    # room: int64[s], the page enters the bucket if fewer pages of the round did before it; not above 0 for a page that
    # is only looked up  most_room: int64[s], the largest room in the bucket  shard: int64[n]
    # speculation, is_indexed, crowded: bool[n]  texts: PageTexts  within: EntryTexts, of the same pages
    # blocks: uint64[b] (_sorted_blocks)  compared: Comparison, overwritten  one_host: bool (HostThresholds)
    # search_end: int64[n], where the search of each page ends: at the row of its original, at n without an original,
    # and at NOBODY if the original was indexed before the round
    # ->  more: int64[n]; returns whether a page depends on a wrong assumption
    # The slots of the present bucket whose pages may enter it.
    entering, count = np.empty(len(bucket), np.int64), 0
    for at in range(len(bucket)):
        if at > 0 and bucket[at] != bucket[at - 1]:
            count = 0
        searching = page[at]
        resolution, right = 0, 0
        for before in entering[:count]:
            # A full bucket takes no more pages. Without this line 16,384 pages with one key take 0.9 s.
            if resolution >= most_room[at] and right >= most_room[at]:
                break
            other = page[before]
            same = shard[other] == shard[searching]
            was_candidate = (is_indexed[other] if same else speculation[other]) and resolution < room[before]
            is_candidate = is_indexed[other] and right < room[before]
            resolution += was_candidate
            right += is_candidate
            if was_candidate == is_candidate:
                continue
            if other <= search_end[searching]:
                if same or decides[at] or crowded[searching] or other == search_end[searching]:
                    return True
                if not one_host and (
                    _share_block(blocks, texts.block_bounds, searching, other)
                    or find_shared(texts, searching, within, other, compared)
                ):
                    return True
        more[searching] += right - resolution
        if room[at] > 0:
            entering[count] = at
            count += 1
    return False
