"""Teaches hosts from pages, and selects what an entry stores of a page.

This happens while pages are judged, and again without judging (learn_again). It depends on no verdict.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import NOBODY
from spotsieve.stream.base.arrays import byte_texts
from spotsieve.stream.base.jit import inlined, kernel, part
from spotsieve.stream.base.page_text import (
    ENTRY_BLOCKS,
    ENTRY_SAMPLES,
    hash_of,
    identity_of,
    is_kept,
    main_limit,
    pack_limits,
    place_of,
    scaled_hash,
    size_code,
    words_of,
)
from spotsieve.stream.base.signature import FINGERPRINTED, DistinctiveText, Signatures, no_distinctive_texts
from spotsieve.stream.base.urls import url_without_visit
from spotsieve.stream.judge.by_host.distinctive_text import (
    IS_DISTINCTIVE,
    IS_TEMPLATE,
    LEAST_MAIN,
    MAIN,
    OWN,
    WHOLE,
    EntryTexts,
    PageTexts,
    empty_entry_texts,
    hash_at,
    look_up,
    new_ordered_sample,
    new_view,
    order_sample,
    place_at,
    restore_view,
)
from spotsieve.stream.judge.by_host.memory import (
    BLOCK_TO_ITEM,
    MOST_REPLACED,
    Memory,
    count_page,
    room_of,
    sketch_bit,
    slot_of,
)

_MIX = np.uint64(0x9E3779B97F4A7C15)


def page_hashes(signatures: Signatures) -> NDArray[np.uint64]:
    """Hashes of each page's URL and of its text, by which its host counts it: uint64[n, 2].

    A page that is fetched again under another session id has the same URL here.
    """
    urls = byte_texts([url_without_visit(url) for url in signatures.urls])
    raw = np.frombuffer(urls.raw, np.uint8)
    hashes: NDArray[np.uint64] = _hash_pages(raw, urls.bounds, signatures.samples, signatures.samples_bounds)
    return hashes


@kernel
def _hash_pages(raw, bounds, samples, sample_bounds):
    # raw: uint8[...], all URLs  bounds: int64[n + 1]  samples: uint64[s]  sample_bounds: int64[n + 1]  ->  uint64[n, 2]
    hashes = np.zeros((len(bounds) - 1, 2), np.uint64)
    for page in range(len(hashes)):
        url = np.uint64(0xCBF29CE484222325)
        for at in range(bounds[page], bounds[page + 1]):
            url = (url ^ np.uint64(raw[at])) * np.uint64(0x100000001B3)
        text = np.uint64(0)
        for at in range(sample_bounds[page], sample_bounds[page + 1]):
            text += np.uint64(hash_of(samples[at]) + 1) * _MIX
        hashes[page, 0], hashes[page, 1] = _mixed(url), _mixed(text)
    return hashes


@inlined
def _mixed(value):  # uint64 -> uint64
    value = (value ^ value >> np.uint64(32)) * _MIX
    return value ^ value >> np.uint64(29)


@inlined
def teach_page(pages, page, hashes, memory, row, number):
    """Count a page for its host, for its blocks and for its title words.

    PageTexts, int64, hashes: uint64[n, 2], number: int64, the next entry number  ->  memory: Memory
    """
    url, text = hashes[page, 0], hashes[page, 1]
    memory.urls[row] |= np.uint64(1) << sketch_bit(url)
    memory.texts[row] |= np.uint64(1) << sketch_bit(text)
    count_blocks(pages, page, memory.blocks, row, url, text)
    for place in range(pages.title_bounds[page], pages.title_bounds[page + 1]):
        count_page(memory.words, row, np.int64(pages.titles[place]), url, text)
    memory.changed[row], memory.last[row] = True, number


@inlined
def count_blocks(pages, page, counts, row, url, text):  # PageTexts, int64, Counts, int64, uint64, uint64  ->  counts
    """Count a page for the blocks that are remembered, and for new ones: those that fit, at least MOST_REPLACED.

    The new ones that are counted follow one another on the page. Its text decides where they begin.
    """
    first, end = pages.block_bounds[page], pages.block_bounds[page + 1]
    chosen = max(room_of(counts, row) - counts.used[row], np.int64(MOST_REPLACED))
    new = np.int64(0)
    if end - first > chosen:
        for place in range(first, end):
            new += _is_new(counts, row, pages.blocks[place])
    turn = new - np.int64(text % np.uint64(new)) if new > chosen else np.int64(0)
    for place in range(first, end):
        block = pages.blocks[place]
        if identity_of(block) == 0:
            continue
        if new > chosen and _is_new(counts, row, block):
            turn += 1
            if (turn - 1) % new >= chosen:
                continue
        count_page(counts, row, np.int64(identity_of(block)) >> BLOCK_TO_ITEM, url, text)


@inlined
def _is_new(counts, row, block):  # Counts, int64, uint64 -> bool
    """Whether a block is not remembered."""
    identity = np.int64(identity_of(block))
    return identity != 0 and slot_of(counts, row, identity >> BLOCK_TO_ITEM) < 0


class LearnedPages(NamedTuple):
    """The pages of a record, as their hosts know them before each page.

    within: the texts of the kept pages, as their entries store them  flags: uint8[b], of their blocks (PageView)
    """

    within: EntryTexts
    flags: NDArray[np.uint8]


def learn_again(
    signatures: Signatures,
    pages: PageTexts,
    row: NDArray[np.int64],
    memory: Memory,
    learns: NDArray[np.bool_],
    kept: NDArray[np.bool_],
    template_share: float,
    entry: NDArray[np.int64],
    first_number: int,
) -> LearnedPages:
    """Teach the hosts what the pages of a record teach them, without judging  ->  memory.

    row: int64[n], the row of each page's host in memory; NOBODY if another shard remembers the host
    learns: bool[n], pages that were not judged before
    kept: bool[n], pages whose texts are needed
    entry: int64[n], entry numbers of indexed pages, or NOBODY
    first_number: entry number of the first page that is indexed
    """
    learned = LearnedPages(empty_entry_texts(signatures), np.zeros(len(signatures.blocks), np.uint8))
    judged = signatures.status == FINGERPRINTED
    _learn_kernel(
        *(pages, row, judged, page_hashes(signatures), learns, kept, entry != NOBODY, learned, memory, template_share),
        *(first_number, new_view(), new_ordered_sample()),
    )
    return learned


@kernel
def _learn_kernel(pages, row, judged, hashes, learns, kept, indexed, learned, memory, share, number, view, ordered):
    # pages: PageTexts  row: int64[n]  judged, learns, kept, indexed: bool[n]  hashes: uint64[n, 2]  share: float64
    # number: int64  view, ordered: overwritten
    # -> learned: LearnedPages, memory
    for page in range(len(row)):
        number += indexed[page]
        if row[page] == NOBODY or not judged[page]:
            continue
        if kept[page]:
            look_up(pages, page, memory, row[page], share, view)
            keep_distinctive_text(pages, page, view, learned.within, ordered)
            for place in range(pages.block_bounds[page], pages.block_bounds[page + 1]):
                learned.flags[place] = view.flags[place - pages.block_bounds[page]]
        if learns[page]:
            teach_page(pages, page, hashes, memory, row[page], number)


@inlined
def keep_distinctive_text(pages, page, view, own, ordered):
    """Store the text of a page that is indexed, as later pages are compared with it.

    PageTexts, int64, PageView  ->  own: EntryTexts;  ordered: OrderedSample, overwritten
    """
    figures, flags, first = view.figures, view.flags, pages.block_bounds[page]
    count = pages.block_bounds[page + 1] - first
    main = figures[MAIN] if figures[MAIN] >= LEAST_MAIN else figures[OWN]
    whole = figures[WHOLE] if figures[WHOLE] >= LEAST_MAIN else figures[OWN]
    own.main[page] = size_code(np.int64(main))
    own.whole[page] = size_code(np.int64(whole))
    own.every[page] = size_code(np.int64(figures[OWN]))
    has_own = False
    for place in range(count):
        has_own |= _is_compared(flags[place])
    _keep_sample(pages, page, flags, has_own, own, ordered)
    held, begin = np.int64(0), own.block_first[page]
    for place in range(count):
        block = pages.blocks[first + place]
        if not flags[place] & IS_DISTINCTIVE or identity_of(block) == 0:
            continue
        # The lightest kept block stands last until all are chosen; of equal ones the earlier stays.
        at = held
        while at > 0 and words_of(block) > words_of(own.blocks[begin + at - 1]):
            at -= 1
        if at < ENTRY_BLOCKS:
            held = min(held + 1, np.int64(ENTRY_BLOCKS))
            for later in range(held - 1, at, -1):
                own.blocks[begin + later] = own.blocks[begin + later - 1]
            own.blocks[begin + at] = block
    _sort(own.blocks, begin, held)
    # Blocks with other numbers are equal now and then: the digest of numbers has 8 bits.
    written = begin
    for place in range(begin, begin + held):
        if place == begin or own.blocks[place] != own.blocks[written - 1]:
            own.blocks[written] = own.blocks[place]
            written += 1
    own.block_end[page] = written


@inlined
def _is_compared(flag):  # uint8 -> bool
    """Whether a block counts in a comparison: it is not template text, or distinctive nevertheless (_relax)."""
    return flag & IS_TEMPLATE == 0 or flag & IS_DISTINCTIVE != 0


@inlined
def _keep_sample(pages, page, flags, has_own, own, ordered):
    """Keep the smallest hashes of the text of a page that counts in comparisons, or of all its text."""
    order_sample(pages, page, ordered)
    first, begin = pages.block_bounds[page], pages.sample_bounds[page]
    found, has_main, largest = np.int64(0), False, np.int64(0)
    for rank in range(pages.sample_bounds[page + 1] - begin):
        place = place_of(pages.samples[begin + place_at(ordered, rank)])
        if not has_own or _is_compared(flags[place]):
            found += 1
            has_main |= is_kept(pages.blocks[first + place])
            if found == ENTRY_SAMPLES + 1:
                largest = hash_at(ordered, rank) - 1
    # The sample of a page is complete only below the largest hash of a full stratum; main text comes first.
    limit = ordered.limits[0 if has_main else 1]
    if found > ENTRY_SAMPLES:
        limit = min(limit, largest)
    limits = pack_limits(limit, ordered.limits[1])
    limit = main_limit(limits)
    written = own.sample_first[page]
    end = written + ENTRY_SAMPLES
    for rank in range(pages.sample_bounds[page + 1] - begin):
        value = hash_at(ordered, rank)
        if value > limit or written == end:
            break
        place = place_of(pages.samples[begin + place_at(ordered, rank)])
        if not has_own or _is_compared(flags[place]):
            own.sample[written] = np.uint16(scaled_hash(value, limit))
            written += 1
    own.sample_end[page] = written
    own.limit[page] = np.uint32(limits)


@inlined
def _sort(values, first, count):  # uint64[], int64, int64
    """Sort values[first:first + count] in place, by insertion: they are few."""
    for end in range(first + 1, first + count):
        value, at = values[end], end
        while at > first and values[at - 1] > value:
            values[at] = values[at - 1]
            at -= 1
        values[at] = value


def keep_texts(pages: PageTexts, flags: NDArray[np.uint8], which: NDArray[np.bool_], within: EntryTexts) -> None:
    """Write the texts of some pages to `within`, as their entries store them.

    flags: uint8[b], of their blocks (restore_view)  which: bool[n]
    """
    _keep_kernel(pages, flags, which, within, new_view(), new_ordered_sample())


@kernel
def _keep_kernel(pages, flags, which, within, view, ordered):
    # pages: PageTexts  flags: uint8[b]  which: bool[n]  view, ordered: overwritten  ->  within: EntryTexts
    for page in range(len(which)):
        if which[page]:
            restore_view(pages, page, flags, view)
            keep_distinctive_text(pages, page, view, within, ordered)


def owned_texts(within: EntryTexts, pages: NDArray[np.int64]) -> DistinctiveText:
    """The distinctive text that the entries of these pages store.

    within: the pages as their entries store them  pages: int64[f], rows
    """
    return DistinctiveText(*_distinctive_texts((*within,), pages)) if len(pages) else no_distinctive_texts()


@kernel
def _distinctive_texts(within, pages):  # the fields of EntryTexts, int64[f] -> the fields of DistinctiveText
    within = EntryTexts(*within)
    sample, sample_bounds = _runs(within.sample, within.sample_first, within.sample_end, pages)
    blocks, block_bounds = _runs(within.blocks, within.block_first, within.block_end, pages)
    titles, title_bounds = _runs(within.titles, within.title_first, within.title_end, pages)
    return (
        within.site[pages],
        within.main[pages],
        within.whole[pages],
        within.every[pages],
        within.limit[pages],
        sample,
        sample_bounds,
        blocks,
        block_bounds,
        titles,
        title_bounds,
    )


@part
def _runs(column, first, end, rows):
    # column: [c]  first, end: int64[n]  rows: int64[r]
    # -> column[first[i]:end[i]] of these rows i, one after the other, and the bounds of each run: int64[r + 1]
    bounds = np.zeros(len(rows) + 1, np.int64)
    for at in range(len(rows)):
        bounds[at + 1] = bounds[at] + end[rows[at]] - first[rows[at]]
    taken = np.empty(bounds[-1], column.dtype)
    for at in range(len(rows)):
        begin = first[rows[at]]
        for place in range(bounds[at], bounds[at + 1]):
            taken[place] = column[begin + place - bounds[at]]
    return taken, bounds
