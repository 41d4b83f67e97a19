"""Measures how much of a page an indexed page contains: the share of its shingles, and its fresh words.

    containment   the share of the page's shingles that the other page has (Broder 1997)
    fresh words   the words of the page in runs of FRESH_RUN words and more that touch no shingle of the other page; an
                  edited word makes a run of at most 5, so edits are not fresh text

Both are measured over a part of the page: its main text, all its distinctive text, or all its text. The other page is
known by a sample of its shingles, and by its heaviest blocks. A block of the page that the other page has too counts
whole. Other shingles are compared if their hashes are below the limits of both samples; each stands for as many
shingles as its sample leaves out (Horvitz and Thompson 1952).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.jit import inlined
from spotsieve.stream.base.page_text import (
    MAIN_SAMPLES,
    MOST_BLOCKS,
    NUMBERS_SHIFT,
    REST_SAMPLES,
    hash_of,
    is_kept,
    place_of,
    position_of,
    scaled_hash,
    width_of,
    words_of,
    words_outside_links,
)
from spotsieve.stream.judge.by_host.distinctive_text import (
    IS_OWN,
    IS_TEMPLATE,
    OrderedSample,
    hash_at,
    new_ordered_sample,
    order_sample,
    place_at,
    scale_sample,
)

FRESH_RUN = 10
FRESH_BLOCK = 1 / 3
"""A block is fresh if a smaller share of its compared shingles is found. One shingle alone says too little."""
LINK_BLOCK = 0.4
"""A block with a smaller share of its words outside links is a block of links: its words are never fresh."""
_FRESH_SLACK = 2.0
"""Words beside the missing shingles of a run, whose number is estimated."""
_FEW_SHINGLES = 16
"""An estimate from fewer shingles represents too little of the text, and counts as containment 0."""
MAIN_TEXT, ALL_TEXT, TEMPLATE_TEXT, WHOLE_MAIN_TEXT = range(4)
"""The parts of a page: distinctive main text; all distinctive text; its main text with template text, or all text if it
has no main text; main text with common text but without template text of the host."""
PARTS = 4
CONTAINMENT, FRESH = range(2)
_OUTSIDE, _LINKS = np.int64(-1), np.int64(-2)
_UNKNOWN, _FOUND, _MISSING = np.uint8(0), np.uint8(1), np.uint8(2)
_ALL = 4294967296.0


class PairComparison(NamedTuple):
    """A page in comparison with one indexed page, for kernels. It serves the pages of one PageTexts.

    found: uint8[MAIN_SAMPLES + REST_SAMPLES], of each sampled shingle: whether the other page has it
    whole: bool[MOST_BLOCKS], blocks that the other page has too
    start, before: int64[MOST_BLOCKS], words of the part and of the page before each block; start is _OUTSIDE or _LINKS
    for a block outside the part and for a block of links
    figures: float64[PARTS, 2], by CONTAINMENT, ...; of the parts that were measured
    by_block: float64[MOST_BLOCKS, 2], compared shingles and found shingles of each block
    density: float64[2], the shares of the shingles that are compared: of main text, and of other text
    ordered: the sample of the page
    """

    found: NDArray[np.uint8]
    whole: NDArray[np.bool_]
    start: NDArray[np.int64]
    before: NDArray[np.int64]
    figures: NDArray[np.float64]
    by_block: NDArray[np.float64]
    density: NDArray[np.float64]
    ordered: OrderedSample


def new_comparison() -> PairComparison:
    """Room for one comparison."""
    return PairComparison(
        np.zeros(MAIN_SAMPLES + REST_SAMPLES, np.uint8),
        np.zeros(MOST_BLOCKS, np.bool_),
        np.zeros(MOST_BLOCKS, np.int64),
        np.zeros(MOST_BLOCKS, np.int64),
        np.zeros((PARTS, 2)),
        np.zeros((MOST_BLOCKS, 2)),
        np.zeros(2),
        new_ordered_sample(),
    )


@inlined
def find_shared(pages, page, others, other, compared):
    """Find the blocks and the sampled shingles of a page that an indexed page has.

    PageTexts, int64, EntryTexts, int64  ->  compared: PairComparison; returns whether there is any: bool
    """
    first, end = pages.block_bounds[page], pages.block_bounds[page + 1]
    shared = False
    for place in range(first, end):
        whole = _has_block(others, other, pages.blocks[place])
        compared.whole[place - first] = whole
        shared |= whole
    ordered, limit, begin = compared.ordered, np.int64(others.limit[other]), pages.sample_bounds[page]
    order_sample(pages, page, ordered)
    scale_sample(ordered, limit)
    for at in range(begin, pages.sample_bounds[page + 1]):
        found = _MISSING if hash_of(pages.samples[at]) <= limit else _UNKNOWN
        compared.found[at - begin] = _FOUND if compared.whole[place_of(pages.samples[at])] else found
    for at in range(others.sample_first[other], others.sample_end[other]):
        wanted = np.int64(others.sample[at])
        if ordered.scaled[wanted >> 6] >> np.uint64(wanted & 63) & np.uint64(1):
            shared = True
            for rank in range(_rank_of(ordered, wanted), ordered.below[0]):
                if scaled_hash(hash_at(ordered, rank), limit) != wanted:
                    break
                compared.found[place_at(ordered, rank)] = _FOUND
    compared.density[0] = (min(ordered.limits[0], limit) + 1.0) / _ALL
    compared.density[1] = (min(ordered.limits[1], limit) + 1.0) / _ALL
    return shared


@inlined
def _rank_of(ordered, wanted):  # OrderedSample, int64 -> int64
    """The rank of the first hash that is not smaller than a hash. wanted: in 16 bits relative to below[1]"""
    low, high = np.int64(0), ordered.below[0]
    while low < high:
        middle = (low + high) >> 1
        if scaled_hash(hash_at(ordered, middle), ordered.below[1]) < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def _has_block(others, other, block):  # EntryTexts, int64, uint64 -> bool
    """Whether an entry has a block with the same text and the same numbers."""
    key = block >> np.uint64(NUMBERS_SHIFT)
    low, high = others.block_first[other], others.block_end[other]
    while low < high:
        middle = (low + high) >> 1
        if others.blocks[middle] >> np.uint64(NUMBERS_SHIFT) < key:
            low = middle + 1
        else:
            high = middle
    at_end = low >= others.block_end[other]
    return not at_end and others.blocks[low] >> np.uint64(NUMBERS_SHIFT) == key and key >> np.uint64(8) != 0


@inlined
def is_in_part(part, flag, block, no_main):  # int64, uint8, uint64, bool -> bool
    """Whether a block belongs to a part of its page. flag: of PageView  no_main: the page has no main text"""
    if part == MAIN_TEXT:
        return flag & IS_OWN != 0 and is_kept(block)
    if part == ALL_TEXT:
        return flag & IS_OWN != 0
    if part == TEMPLATE_TEXT:
        return is_kept(block) or no_main
    return is_kept(block) and flag & IS_TEMPLATE == 0


@inlined
def measure_part(part, pages, page, flags, compared):
    """Measure one part of a page, after find_shared.

    int64, PageTexts, int64, flags: uint8[MOST_BLOCKS] of PageView  ->  compared.figures[part]
    """
    first, count = pages.block_bounds[page], pages.block_bounds[page + 1] - pages.block_bounds[page]
    exact = compared.density[0] == 1.0 and compared.density[1] == 1.0
    main_shingles, rest_shingles = 1.0 / compared.density[0], 1.0 / compared.density[1]
    no_main = True
    for place in range(count):
        no_main &= not is_kept(pages.blocks[first + place])
    words, before, shared, every = np.int64(0), np.int64(0), 0.0, 0.0
    size_of_whole, size_of_part, compared_shingles = np.int64(0), np.int64(0), np.int64(0)
    for place in range(count):
        block = pages.blocks[first + place]
        size = words_of(block)
        compared.by_block[place, 0], compared.by_block[place, 1] = 0.0, 0.0
        if not is_in_part(part, flags[place], block, no_main):
            compared.start[place] = _OUTSIDE
        elif words_outside_links(block) < LINK_BLOCK * size:
            compared.start[place] = _LINKS
        else:
            compared.start[place] = words
            words += size
        compared.before[place] = before
        if compared.start[place] != _OUTSIDE:
            size_of_part += size
        if compared.start[place] != _OUTSIDE and compared.whole[place]:
            size_of_whole += size
            shingles = max(1.0, size - 2.0)
            shared += shingles
            every += shingles
        before += size
    fresh, missing, missing_words, last = 0.0, np.int64(0), 0.0, np.int64(0)
    begin = pages.sample_bounds[page]
    for at in range(begin, pages.sample_bounds[page + 1]):
        sample, found = pages.samples[at], compared.found[at - begin]
        place = place_of(sample)
        part_start, whole = compared.start[place], compared.whole[place]
        if part_start == _OUTSIDE or found == _UNKNOWN:
            continue
        stands_for = main_shingles if is_kept(pages.blocks[first + place]) else rest_shingles
        compared.by_block[place, 0] += 1.0
        compared.by_block[place, 1] += found == _FOUND
        if not whole:
            compared_shingles += 1
            every += stands_for
            shared += stands_for if found == _FOUND else 0.0
        if part_start == _LINKS:
            continue
        if found == _MISSING:
            missing += 1
            missing_words += stands_for
            continue
        # A position beyond 65,535 is that of its block: it is not known.
        start = part_start + max(position_of(sample) - compared.before[place], 0)
        end = start + width_of(sample)
        if whole:
            start, end = part_start, part_start + words_of(pages.blocks[first + place])
        fresh += _fresh_words(start - last, missing, missing_words, stands_for == 1.0)
        last = max(last, end)
        missing, missing_words = np.int64(0), 0.0
    fresh += _fresh_words(words - last, missing, missing_words, exact)
    if compared_shingles < _FEW_SHINGLES and not exact and 2 * size_of_whole < size_of_part:
        shared = 0.0
    compared.figures[part, CONTAINMENT], compared.figures[part, FRESH] = shared / max(every, 1.0), fresh


@inlined
def share_in_fresh_blocks(pages, page, compared):  # PageTexts, int64, PairComparison -> float64
    """The share of the compared shingles of the part measured last that lie in fresh blocks.

    A block is fresh if the other page has less than FRESH_BLOCK of its shingles. Edited words leave most of a
    paragraph; the values that tell two filled forms apart leave nothing of their blocks.
    """
    every, fresh = 0.0, 0.0
    for place in range(pages.block_bounds[page + 1] - pages.block_bounds[page]):
        of_block, found = compared.by_block[place, 0], compared.by_block[place, 1]
        every += of_block
        fresh += of_block if of_block > 1.0 and found < FRESH_BLOCK * of_block else 0.0
    return fresh / max(every, 1.0)


@inlined
def _fresh_words(run, missing, missing_words, exact):  # int64, int64, float64, bool -> float64
    """The fresh words of a run of words between two shared shingles.

    missing, missing_words: compared shingles in it, and the number of shingles that they stand for  exact: no shingle
    of the run was left out by a sample
    """
    if run < FRESH_RUN or missing == 0:
        return 0.0
    if exact:
        return np.float64(run)
    return min(np.float64(run), missing_words + _FRESH_SLACK) if missing > 1 else 0.0


@inlined
def shared_template_words(pages, page, flags, compared):
    """The words of template text that an indexed page has too, after find_shared: (all, of main text), float64 each.

    PageTexts, int64, flags: uint8[MOST_BLOCKS] of PageView, PairComparison
    """
    first, every, main = pages.block_bounds[page], 0.0, 0.0
    begin = pages.sample_bounds[page]
    for at in range(begin, pages.sample_bounds[page + 1]):
        place = place_of(pages.samples[at])
        # Common text did not count when the other page was indexed.
        if compared.found[at - begin] == _FOUND and flags[place] == IS_TEMPLATE and not compared.whole[place]:
            kept = is_kept(pages.blocks[first + place])
            words = 1.0 / compared.density[0 if kept else 1]
            every += words
            main += words if kept else 0.0
    return every, main
