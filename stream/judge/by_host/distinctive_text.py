"""Finds the distinctive text of a page, and lays out the columns by which pages are compared.

Distinctive text is the part of a page that is neither template text of its host (memory.py) nor common text of many
hosts (common_text.py). `PageTexts` holds the columns of a record's pages, `EntryTexts` those of indexed pages.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.jit import inlined
from spotsieve.stream.base.page_text import (
    ENTRY_BLOCKS,
    ENTRY_SAMPLES,
    EVERY_HASH,
    HASH_SHIFT,
    MAIN_SAMPLES,
    MOST_BLOCKS,
    REST_SAMPLES,
    hash_of,
    identity_of,
    is_kept,
    place_of,
    scaled_hash,
    words_of,
    words_outside_links,
)
from spotsieve.stream.base.signature import (
    FINGERPRINTED,
    DistinctiveText,
    Signatures,
    SignatureStatus,
    no_distinctive_texts,
)
from spotsieve.stream.base.verdict import TemplateMarks
from spotsieve.stream.judge.by_host.common_text import NO_COMMON_TEXT, NOTICE
from spotsieve.stream.judge.by_host.memory import (
    BLOCK_TO_ITEM,
    common_limit,
    pages_of_host,
    pages_with,
    template_limit,
)
from spotsieve.stream.sign.features.sorting import RADIX, sort_items
from spotsieve.stream.sign.text.words import MOST_TITLE_WORDS

PAGES, LIMIT, COMMON_LIMIT, RARE = range(4)
"""Places in the figures of PageView: pages of the host, the number of pages from which a block is template text, the
most pages of a title word that is not common, and the number of the page's rare title words."""
MAIN, OUTSIDE, WHOLE, WHOLE_COMMON, OWN, EVERY, PROSE = range(4, 11)
"""Sizes in words: of the distinctive main text; of other distinctive text, outside links; of the main text without
template text of the host, and of its part that is common text; of all distinctive text; of all text without template
text, where links do not count outside the main text; of prose outside the main text."""
FIGURES = 11
_PARTIAL = np.uint8(SignatureStatus.PARTIAL)
IS_DISTINCTIVE, IS_TEMPLATE, IS_COMMON = np.uint8(1), np.uint8(2), np.uint8(4)
"""Flags of a block: distinctive, template text of its host or a notice, common text."""
LEAST_OWN = 8
"""A page with fewer distinctive words takes a block as template text only if the host's share of pages has it."""
OWN_SHARE = 0.05
"""The notices of a page are distinctive if at least LEAST_MAIN words of them are main text, and the page has fewer
other distinctive words than this share of those, and than LEAST_MAIN. Such a page is an article that many hosts print
under their own headlines."""
NO_TITLE = -1.0
PROSE_WORDS, PROSE_SHARE = 100, 0.9
"""A distinctive block is prose from PROSE_WORDS words on, if PROSE_SHARE of them are outside links."""
_HEADS = 4096
LEAST_MAIN = 20
"""The least words of main text by which pages of two hosts are compared."""


class PageTexts(NamedTuple):
    """The columns by which the n pages of a record are compared, in the layouts of stream/base/page_text.py.

    host: uint64[n]  site: uint16[n], equal for hosts of one site; 0 if unknown
    blocks: uint64[b], block_bounds: int64[n + 1]  samples: uint64[s], sample_bounds: int64[n + 1]
    titles: uint16[t], title_bounds: int64[n + 1]
    how_common: uint8[b] (stream/judge/by_host/common_text.py)
    """

    host: NDArray[np.uint64]
    site: NDArray[np.uint16]
    blocks: NDArray[np.uint64]
    block_bounds: NDArray[np.int64]
    samples: NDArray[np.uint64]
    sample_bounds: NDArray[np.int64]
    titles: NDArray[np.uint16]
    title_bounds: NDArray[np.int64]
    how_common: NDArray[np.uint8]


class EntryTexts(NamedTuple):
    """The columns by which c indexed pages are compared. The fields are those of DistinctiveText, with spans for
    bounds.

    host: uint64[c]  the others: as in DistinctiveText; the sample of page i is sample[sample_first[i]:sample_end[i]]
    """

    host: NDArray[np.uint64]
    site: NDArray[np.uint16]
    main: NDArray[np.uint8]
    whole: NDArray[np.uint8]
    every: NDArray[np.uint8]
    limit: NDArray[np.uint32]
    sample: NDArray[np.uint16]
    sample_first: NDArray[np.int64]
    sample_end: NDArray[np.int64]
    blocks: NDArray[np.uint64]
    block_first: NDArray[np.int64]
    block_end: NDArray[np.int64]
    titles: NDArray[np.uint16]
    title_first: NDArray[np.int64]
    title_end: NDArray[np.int64]


def texts_of(signatures: Signatures, how_common: NDArray[np.uint8]) -> PageTexts:
    """The columns of a record's pages. how_common: uint8[b], of the blocks"""
    return PageTexts(
        np.ascontiguousarray(signatures.host, np.uint64),
        np.ascontiguousarray(signatures.site, np.uint16),
        np.ascontiguousarray(signatures.blocks, np.uint64),
        np.ascontiguousarray(signatures.blocks_bounds, np.int64),
        np.ascontiguousarray(signatures.samples, np.uint64),
        np.ascontiguousarray(signatures.samples_bounds, np.int64),
        np.ascontiguousarray(signatures.titles, np.uint16),
        np.ascontiguousarray(signatures.titles_bounds, np.int64),
        how_common,
    )


def texts_of_entries(host: NDArray[np.uint64], own: DistinctiveText) -> EntryTexts:
    """The columns of indexed pages. host: uint64[c]"""
    parts = ((own.sample, own.sample_bounds), (own.blocks, own.block_bounds), (own.titles, own.title_bounds))
    columns = [one for values, bounds in parts for one in (values, bounds[:-1], bounds[1:])]
    return EntryTexts._make([np.ascontiguousarray(host, np.uint64), *own[:5], *columns])


@cache
def no_texts() -> EntryTexts:
    """The columns of no indexed pages."""
    return texts_of_entries(np.empty(0, np.uint64), no_distinctive_texts())


def empty_entry_texts(signatures: Signatures) -> EntryTexts:
    """Room for the distinctive texts of n pages (keep_distinctive_text). A partial page keeps not even its title."""
    count, bounds = len(signatures), np.ascontiguousarray(signatures.titles_bounds, np.int64)
    sample_first = np.arange(0, count * ENTRY_SAMPLES, ENTRY_SAMPLES)
    block_first = np.arange(0, count * ENTRY_BLOCKS, ENTRY_BLOCKS)
    title_end = bounds[1:].copy()
    np.copyto(title_end, bounds[:-1], where=signatures.status == _PARTIAL)
    # Kernels write all columns but host, site, titles and title_first, which belong to the signatures.
    return EntryTexts(
        np.ascontiguousarray(signatures.host, np.uint64),
        np.ascontiguousarray(signatures.site, np.uint16),
        np.zeros(count, np.uint8),
        np.zeros(count, np.uint8),
        np.zeros(count, np.uint8),
        np.zeros(count, np.uint32),
        np.zeros(count * ENTRY_SAMPLES, np.uint16),
        sample_first,
        sample_first.copy(),
        np.zeros(count * ENTRY_BLOCKS, np.uint64),
        block_first,
        block_first.copy(),
        np.ascontiguousarray(signatures.titles, np.uint16),
        bounds[:-1],
        title_end,
    )


class OrderedSample(NamedTuple):
    """The sampled hashes of the page that was ordered last, in ascending order, and its blocks.

    It serves the pages of one PageTexts.

    An entry's hashes have 16 bits relative to its limit. They are looked up in a table of bits: few are found.

    hashes: uint64[MAIN_SAMPLES + REST_SAMPLES], hash << 32 | place in the page's sample
    size: int64[1], the number of hashes
    page: int64[1], the number of the page, or -1
    limits: int64[2], the hashes up to which the samples of main text and of other text are complete
    scaled: uint64[1024], a bit for each hash up to a limit, in 16 bits relative to it
    first: int64[1024], the rank of the first hash with a bit in each of these words that is not 0
    below: int64[2], the number of hashes up to this limit, and the limit; 0 and -1 of a page that was not compared
    heads: int16[_HEADS], the place of the first block of the page with these low bits of its identity, -1: none
    following: int16[MOST_BLOCKS], the next place of a block with the same low bits, -1: none
    spare, starts: scratch space of sort_items
    """

    hashes: NDArray[np.uint64]
    size: NDArray[np.int64]
    page: NDArray[np.int64]
    limits: NDArray[np.int64]
    scaled: NDArray[np.uint64]
    first: NDArray[np.int64]
    below: NDArray[np.int64]
    heads: NDArray[np.int16]
    following: NDArray[np.int16]
    spare: NDArray[np.uint64]
    starts: NDArray[np.uint64]


def new_ordered_sample() -> OrderedSample:
    """Room for the sample of one page."""
    return OrderedSample(
        np.zeros(MAIN_SAMPLES + REST_SAMPLES, np.uint64),
        np.zeros(1, np.int64),
        np.full(1, -1),
        np.zeros(2, np.int64),
        np.zeros(1024, np.uint64),
        np.zeros(1024, np.int64),
        np.array([0, -1]),
        np.full(_HEADS, -1, np.int16),
        np.full(MOST_BLOCKS, -1, np.int16),
        np.zeros(MAIN_SAMPLES + REST_SAMPLES, np.uint64),
        np.zeros(RADIX + 1, np.uint64),
    )


class PageView(NamedTuple):
    """The page that is being judged, by the memory of its host and the table of common text.

    figures: float64[FIGURES], by PAGES, LIMIT, ...
    flags: uint8[MOST_BLOCKS] (IS_DISTINCTIVE, ...), of its blocks
    rare: bool[MOST_TITLE_WORDS], whether each title word is not common on the host
    look_ups: int64[1], the number of pages that were looked up or restored
    """

    figures: NDArray[np.float64]
    flags: NDArray[np.uint8]
    rare: NDArray[np.bool_]
    look_ups: NDArray[np.int64]


def new_view() -> PageView:
    """An empty view."""
    flags, rare = np.zeros(MOST_BLOCKS, np.uint8), np.zeros(MOST_TITLE_WORDS, np.bool_)
    return PageView(np.zeros(FIGURES), flags, rare, np.zeros(1, np.int64))


class HostFigures(NamedTuple):
    """A page by its host memory, in figures for people.

    pages: number of pages of the host
    limit: the number of pages from which a block is template text
    own_words: words of the page's distinctive text
    main_words: words of its distinctive main text
    rare_title_words: number of title words that are not common on the host
    """

    pages: int
    limit: float
    own_words: int
    main_words: int
    rare_title_words: int


def host_figures(view: PageView) -> HostFigures:
    """The figures of the page that was looked up last."""
    figures = view.figures.tolist()
    return HostFigures(
        round(figures[PAGES]), figures[LIMIT], round(figures[OWN]), round(figures[MAIN]), int(figures[RARE])
    )


def is_template(flags: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Whether blocks with these flags are template text and not distinctive: uint8[b] -> bool[b]."""
    return np.asarray(flags & (IS_DISTINCTIVE | IS_TEMPLATE) == IS_TEMPLATE)


def marks_of(signatures: Signatures, flags: NDArray[np.uint8], judged: NDArray[np.bool_]) -> TemplateMarks:
    """The template text in judged pages that have text. flags: uint8[b], of all blocks  judged: bool[n]"""
    return TemplateMarks(is_template(flags), signatures.blocks_bounds, judged & (signatures.status == FINGERPRINTED))


@inlined
def look_up(pages, page, memory, row, share, view):  # PageTexts, int64, Memory, int64, float64  ->  view: PageView
    """Look up which text of a page is distinctive. share: HostThresholds.template_share"""
    figures, flags = view.figures, view.flags
    view.look_ups[0] += 1
    for place in range(FIGURES):
        figures[place] = 0.0
    known = pages_of_host(memory, row)
    limit = template_limit(known, share)
    figures[PAGES], figures[LIMIT], figures[COMMON_LIMIT] = known, limit, common_limit(known)
    first, end, notice_words = pages.block_bounds[page], pages.block_bounds[page + 1], 0.0
    for place in range(first, end):
        block = pages.blocks[place]
        shown = pages_with(memory.blocks, row, np.int64(identity_of(block)) >> BLOCK_TO_ITEM)
        flag = IS_TEMPLATE if shown >= limit else np.uint8(0)
        if pages.how_common[place] != NO_COMMON_TEXT:
            flag |= IS_COMMON
        if pages.how_common[place] == NOTICE:
            notice_words += words_of(block) if is_kept(block) and flag == IS_COMMON else 0
            flag |= IS_TEMPLATE
        if flag == 0:
            flag = IS_DISTINCTIVE
            figures[OWN] += words_of(block)
        flags[place - first] = flag
    if notice_words >= LEAST_MAIN and figures[OWN] < min(OWN_SHARE * notice_words, LEAST_MAIN):
        _relax(pages, first, end, memory, row, limit, True, view)
    elif figures[OWN] < LEAST_OWN:
        _relax(pages, first, end, memory, row, max(limit, share * known), False, view)
    _add_up(pages, first, end, view)
    for place in range(pages.title_bounds[page], pages.title_bounds[page + 1]):
        rare = pages_with(memory.words, row, np.int64(pages.titles[place])) <= figures[COMMON_LIMIT]
        view.rare[place - pages.title_bounds[page]] = rare
        figures[RARE] += rare


@inlined
def _add_up(pages, first, end, view):  # PageTexts, int64, int64  ->  view.figures, from view.flags
    """Add up the sizes of the parts of a page."""
    figures = view.figures
    for place in range(first, end):
        block, flag = pages.blocks[place], view.flags[place - first]
        words, outside = words_of(block), words_outside_links(block)
        if flag & IS_DISTINCTIVE:
            figures[MAIN] += words if is_kept(block) else 0
            figures[OUTSIDE] += 0.0 if is_kept(block) else outside
            is_prose = not is_kept(block) and words >= PROSE_WORDS and outside >= PROSE_SHARE * words
            figures[PROSE] += words if is_prose else 0
        if flag & IS_TEMPLATE == 0:
            figures[WHOLE] += words if is_kept(block) else 0
            figures[WHOLE_COMMON] += words if is_kept(block) and flag & IS_COMMON else 0
            figures[EVERY] += words if is_kept(block) else outside


@inlined
def restore_view(pages, page, flags, view):  # PageTexts, int64, uint8[b]  ->  view: PageView
    """Restore the view of a page from the template flags of its blocks: all but its title words and its host's figures.

    flags: at least IS_TEMPLATE, and IS_DISTINCTIVE of blocks that are template text too
    """
    first, end = pages.block_bounds[page], pages.block_bounds[page + 1]
    view.look_ups[0] += 1
    for place in range(FIGURES):
        view.figures[place] = 0.0
    for place in range(first, end):
        flag = flags[place]
        if pages.how_common[place] != NO_COMMON_TEXT:
            flag |= IS_COMMON
        if flag == 0:
            flag = IS_DISTINCTIVE
        view.flags[place - first] = flag
        if flag & IS_DISTINCTIVE:
            view.figures[OWN] += words_of(pages.blocks[place])
    _add_up(pages, first, end, view)


@inlined
def _relax(pages, first, end, memory, row, limit, takes_notices, view):
    """Take template text of fewer pages as distinctive: notices, or text that is not common.

    PageTexts, int64, int64, Memory, int64, float64, bool  ->  view: PageView
    """
    view.figures[OWN] = 0.0
    for place in range(first, end):
        block, flag = pages.blocks[place], view.flags[place - first]
        shown = pages_with(memory.blocks, row, np.int64(identity_of(block)) >> BLOCK_TO_ITEM)
        may_be_own = pages.how_common[place] == NOTICE if takes_notices else not flag & IS_COMMON
        if flag & IS_TEMPLATE and may_be_own and shown < limit:
            view.flags[place - first] = IS_TEMPLATE | IS_DISTINCTIVE
        if view.flags[place - first] & IS_DISTINCTIVE:
            view.figures[OWN] += words_of(block)


@inlined
def order_sample(pages, page, ordered):  # PageTexts, int64  ->  ordered: OrderedSample
    """Order the sampled hashes of a page, and chain its blocks, unless it was ordered last."""
    if ordered.page[0] == page:
        return
    ordered.page[0], ordered.below[0], ordered.below[1] = page, 0, -1
    first, begin = pages.block_bounds[page], pages.sample_bounds[page]
    ordered.size[0] = pages.sample_bounds[page + 1] - begin
    main, rest, largest_main, largest_rest = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    for at in range(ordered.size[0]):
        value = hash_of(pages.samples[begin + at])
        ordered.hashes[at] = np.uint64(value) << np.uint64(HASH_SHIFT) | np.uint64(at)
        if is_kept(pages.blocks[first + place_of(pages.samples[begin + at])]):
            main, largest_main = main + 1, max(largest_main, value)
        else:
            rest, largest_rest = rest + 1, max(largest_rest, value)
    ordered.limits[0] = sample_limit(main, largest_main, MAIN_SAMPLES)
    ordered.limits[1] = sample_limit(rest, largest_rest, REST_SAMPLES)
    bound = np.uint64(max(largest_main, largest_rest) + 1)
    sort_items(ordered.hashes, ordered.spare, ordered.starts, ordered.size[0], bound)
    ordered.heads[:] = -1
    # The last block first, so that each chain is ascending.
    for place in range(pages.block_bounds[page + 1] - first - 1, -1, -1):
        head = head_of(pages.blocks[first + place])
        ordered.following[place], ordered.heads[head] = ordered.heads[head], place


@inlined
def head_of(block):  # uint64 -> int64
    """The place in OrderedSample.heads of blocks with this identity. Identities are hashes already."""
    return np.int64(identity_of(block)) & (_HEADS - 1)


@inlined
def hash_at(ordered, rank):  # OrderedSample, int64 -> int64
    """The hash with this rank."""
    return np.int64(ordered.hashes[rank] >> np.uint64(HASH_SHIFT))


@inlined
def place_at(ordered, rank):  # OrderedSample, int64 -> int64
    """The place in a page's sample of the hash with this rank."""
    return np.int64(ordered.hashes[rank] & np.uint64(0xFFFFFFFF))


@inlined
def scale_sample(ordered, limit):  # OrderedSample, int64  ->  ordered.scaled, ordered.below
    """Set the bits of a page's hashes up to a limit, in 16 bits relative to it, unless they were set last."""
    if ordered.below[1] == limit:
        return
    # Clearing all words is faster than finding those that are not 0.
    ordered.scaled[:] = np.uint64(0)
    rank = np.int64(0)
    while rank < ordered.size[0] and hash_at(ordered, rank) <= limit:
        value = scaled_hash(hash_at(ordered, rank), limit)
        word = value >> 6
        if ordered.scaled[word] == 0:
            ordered.first[word] = rank
        ordered.scaled[word] |= np.uint64(1) << np.uint64(value & 63)
        rank += 1
    ordered.below[0], ordered.below[1] = rank, limit


@inlined
def hashes_up_to(ordered, limit):  # OrderedSample, int64 -> int64
    """The number of hashes of a page up to a limit that is not above below[1]."""
    low, high = np.int64(0), ordered.below[0]
    while low < high:
        middle = (low + high) >> 1
        if hash_at(ordered, middle) <= limit:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def sample_limit(count, largest, most):  # int64, int64, int64 -> int64
    """The hash up to which a sample of a text is complete. largest: of its hashes  most: the size of a full sample"""
    return largest if count >= most else np.int64(EVERY_HASH)
