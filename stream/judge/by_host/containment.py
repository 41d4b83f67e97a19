"""Measures how much of a page an indexed page contains: the share of its shingles, and its fresh words.

    containment   the share of the page's shingles that the other page has (Broder 1997), in words: each of the n - 2
                  shingles of a block of n words stands for n / (n - 2) words
    fresh words   the words of the page in runs of FRESH_RUN words and more that touch no shingle of the other page; an
                  edited word makes a run of at most 5, so edits are not fresh text

Both are measured over a part of the page: its main text, all its distinctive text, or all its text. The other page is
known by a sample of its shingles, and by its heaviest blocks. A block of the page that the other page has too counts
whole. Other shingles are compared if their hashes are below the limits of both samples; each stands also for those that
its sample leaves out (Horvitz and Thompson 1952). The samples of main text and of other text have limits of
their own. Shingles of the other text of a page are nearly always in the other text of the other page, if at all, and
are compared up to that limit.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.jit import inlined
from spotsieve.stream.base.page_text import (
    ENTRY_BLOCKS,
    MAIN_SAMPLES,
    MOST_BLOCKS,
    NUMBERS_SHIFT,
    NUMERIC,
    REST_SAMPLES,
    hash_of,
    identity_of,
    is_kept,
    main_limit,
    place_of,
    position_of,
    rest_limit,
    scaled_hash,
    width_of,
    words_of,
    words_outside_links,
)
from spotsieve.stream.judge.by_host.distinctive_text import (
    IS_DISTINCTIVE,
    IS_TEMPLATE,
    OrderedSample,
    hash_at,
    hashes_up_to,
    head_of,
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
LEAST_TEXT = 6
"""A shingle of a block of fewer words, and of a block of links, stands for one word: many pages have the same ones."""
_FRESH_SLACK = 2.0
"""Words beside those of the missing shingles of a run, which are estimated."""
_FEW_SHINGLES = 16
"""An estimate from fewer shingles represents too little of the text to decide."""
MAIN_TEXT, ALL_TEXT, TEMPLATE_TEXT, WHOLE_MAIN_TEXT = range(4)
"""The parts of a page: distinctive main text; all distinctive text; its main text with template text, or all text if it
has no main text; main text with common text but without template text of the host."""
PARTS = 4
CONTAINMENT, FRESH = range(2)
_OUTSIDE, _LINKS = np.int64(-1), np.int64(-2)
_ALL = 4294967296.0


class PartLayout(NamedTuple):
    """The parts of the page that is being judged, as far as they were measured (_lay_out).

    of: int64[PARTS], the look-up of PageView by which a part was laid out
    start: int64[PARTS, MOST_BLOCKS], words of the part before each block; _OUTSIDE or _LINKS for a block outside the
    part and for a block of links
    before: int64[MOST_BLOCKS], words of the page before each block
    weight: float64[MOST_BLOCKS], the words that a shingle of each block stands for
    words: int64[PARTS, 2], of the part: of blocks that are no blocks of links, and of all
    sampled: int64[MOST_BLOCKS], the number of sampled shingles of each block
    smaller: float64[PARTS, 2, MAIN_SAMPLES + REST_SAMPLES + 1], the words of main shingles and of other shingles of the
    part among the smallest hashes, by their number
    """

    of: NDArray[np.int64]
    start: NDArray[np.int64]
    before: NDArray[np.int64]
    weight: NDArray[np.float64]
    words: NDArray[np.int64]
    sampled: NDArray[np.int64]
    smaller: NDArray[np.float64]


class PairComparison(NamedTuple):
    """A page in comparison with one indexed page, for kernels. It serves the pages of one PageTexts.

    found: bool[MAIN_SAMPLES + REST_SAMPLES], of each sampled shingle: whether the other page's sample has it
    hits: int64[MAIN_SAMPLES + REST_SAMPLES], the places of these shingles in the sample
    whole: bool[MOST_BLOCKS], blocks that the other page has too  wholes: int64[MOST_BLOCKS], their places
    counts: int64[3], the number of hits, of wholes, and of the page's hashes up to limits[1]
    says_little: bool[PARTS], whether too few shingles of a part were compared (_FEW_SHINGLES); of the measured parts
    figures: float64[PARTS, 2], by CONTAINMENT, ...; of the parts that were measured
    by_block: float64[MOST_BLOCKS, 2], compared shingles and found shingles of each block
    limits: int64[2], the hashes up to which the other page's sample tells about main text, and about other text
    density: float64[2], the shares of the shingles that are compared: of main text, and of other text
    ordered: the sample of the page
    layout: the parts of the page
    """

    found: NDArray[np.bool_]
    hits: NDArray[np.int64]
    whole: NDArray[np.bool_]
    wholes: NDArray[np.int64]
    counts: NDArray[np.int64]
    says_little: NDArray[np.bool_]
    figures: NDArray[np.float64]
    by_block: NDArray[np.float64]
    limits: NDArray[np.int64]
    density: NDArray[np.float64]
    ordered: OrderedSample
    layout: PartLayout


def new_comparison() -> PairComparison:
    """Room for one comparison."""
    samples = MAIN_SAMPLES + REST_SAMPLES
    return PairComparison(
        np.zeros(samples, np.bool_),
        np.zeros(samples, np.int64),
        np.zeros(MOST_BLOCKS, np.bool_),
        np.zeros(MOST_BLOCKS, np.int64),
        np.zeros(3, np.int64),
        np.zeros(PARTS, np.bool_),
        np.zeros((PARTS, 2)),
        np.zeros((MOST_BLOCKS, 2)),
        np.zeros(2, np.int64),
        np.zeros(2),
        new_ordered_sample(),
        PartLayout(
            np.full(PARTS, -1),
            np.zeros((PARTS, MOST_BLOCKS), np.int64),
            np.zeros(MOST_BLOCKS, np.int64),
            np.zeros(MOST_BLOCKS),
            np.zeros((PARTS, 2), np.int64),
            np.zeros(MOST_BLOCKS, np.int64),
            np.zeros((PARTS, 2, samples + 1)),
        ),
    )


@inlined
def find_shared(pages, page, others, other, compared):
    """Find the blocks and the sampled shingles of a page that an indexed page has.

    PageTexts, int64, EntryTexts, int64  ->  compared: PairComparison; returns whether there is any: bool
    """
    ordered, limits = compared.ordered, np.int64(others.limit[other])
    limit, limit_of_rest = main_limit(limits), rest_limit(limits)
    order_sample(pages, page, ordered)
    scale_sample(ordered, limit)
    for hit in range(compared.counts[0]):
        compared.found[compared.hits[hit]] = False
    for at in range(compared.counts[1]):
        compared.whole[compared.wholes[at]] = False
    first, hits = pages.block_bounds[page], np.int64(0)
    begin = pages.sample_bounds[page]
    for at in range(others.sample_first[other], others.sample_end[other]):
        wanted = np.int64(others.sample[at])
        if ordered.scaled[wanted >> 6] >> np.uint64(wanted & 63) & np.uint64(1):
            for rank in range(_rank_of(ordered, wanted), ordered.below[0]):
                if scaled_hash(hash_at(ordered, rank), limit) != wanted:
                    break
                place = place_at(ordered, rank)
                # Two hashes of the other page may be the same in 16 bits.
                if compared.found[place]:
                    continue
                if hash_at(ordered, rank) <= limit_of_rest or is_kept(
                    pages.blocks[first + place_of(pages.samples[begin + place])]
                ):
                    compared.found[place], compared.hits[hits] = True, place
                    hits += 1
    compared.counts[0], compared.counts[1] = hits, _find_blocks(pages, page, others, other, compared)
    compared.counts[2] = hashes_up_to(ordered, limit_of_rest)
    compared.limits[0], compared.limits[1] = limit, limit_of_rest
    compared.density[0] = (min(ordered.limits[0], limit) + 1.0) / _ALL
    compared.density[1] = (min(ordered.limits[1], limit_of_rest) + 1.0) / _ALL
    return compared.counts[0] + compared.counts[1] > 0


@inlined
def _find_blocks(pages, page, others, other, compared):  # PageTexts, int64, EntryTexts, int64 -> int64
    """Find the blocks of a page whose text and numbers an entry has too  ->  their number; whole, wholes."""
    first, found = pages.block_bounds[page], np.int64(0)
    for at in range(others.block_first[other], others.block_end[other]):
        block = others.blocks[at]
        place = np.int64(-1) if identity_of(block) == 0 else np.int64(compared.ordered.heads[head_of(block)])
        while place >= 0:
            same = pages.blocks[first + place] >> np.uint64(NUMBERS_SHIFT) == block >> np.uint64(NUMBERS_SHIFT)
            if same and not compared.whole[place]:
                compared.whole[place], compared.wholes[found] = True, place
                found += 1
            place = np.int64(compared.ordered.following[place])
    return found


@inlined
def _rank_of(ordered, wanted):  # OrderedSample, int64 -> int64
    """The rank of the first hash that equals a hash whose bit is set. wanted: in 16 bits relative to below[1]"""
    rank = ordered.first[wanted >> 6]
    while scaled_hash(hash_at(ordered, rank), ordered.below[1]) < wanted:
        rank += 1
    return rank


@inlined
def is_in_part(part, flag, block, no_main):  # int64, uint8, uint64, bool -> bool
    """Whether a block belongs to a part of its page. flag: of PageView  no_main: the page has no main text"""
    if part == MAIN_TEXT:
        return flag & IS_DISTINCTIVE != 0 and is_kept(block)
    if part == ALL_TEXT:
        return flag & IS_DISTINCTIVE != 0
    if part == TEMPLATE_TEXT:
        return is_kept(block) or no_main
    return is_kept(block) and flag & IS_TEMPLATE == 0


@inlined
def _lay_out(part, pages, page, view, compared):
    """Lay out a part of a page, unless that was done since its last look-up.

    int64, PageTexts, int64, PageView  ->  compared.layout
    """
    layout, ordered = compared.layout, compared.ordered
    if layout.of[part] == view.look_ups[0]:
        return
    layout.of[part] = view.look_ups[0]
    first, count = pages.block_bounds[page], pages.block_bounds[page + 1] - pages.block_bounds[page]
    no_main = True
    for place in range(count):
        no_main &= not is_kept(pages.blocks[first + place])
    before, words, every = np.int64(0), np.int64(0), np.int64(0)
    for place in range(count):
        block = pages.blocks[first + place]
        size, start, is_text = words_of(block), _OUTSIDE, words_outside_links(block) >= LINK_BLOCK * words_of(block)
        layout.weight[place] = size / (size - 2.0) if is_text and size >= LEAST_TEXT else 1.0
        if is_in_part(part, view.flags[place], block, no_main):
            every += size
            start = words if is_text else _LINKS
            words += size if is_text else 0
        layout.start[part, place], layout.before[place], layout.sampled[place] = start, before, 0
        before += size
    layout.words[part, 0], layout.words[part, 1] = words, every
    begin, main, rest = pages.sample_bounds[page], 0.0, 0.0
    for rank in range(ordered.size[0]):
        place = place_of(pages.samples[begin + place_at(ordered, rank)])
        inside, kept = layout.start[part, place] != _OUTSIDE, is_kept(pages.blocks[first + place])
        layout.sampled[place] += 1
        main += layout.weight[place] if inside and kept else 0.0
        rest += layout.weight[place] if inside and not kept else 0.0
        layout.smaller[part, 0, rank + 1], layout.smaller[part, 1, rank + 1] = main, rest


@inlined
def most_contained(part, pages, page, view, compared):
    """An upper bound of the containment of a part of a page, after find_shared, in less time than measure_part.

    int64, PageTexts, int64, PageView, PairComparison -> float64
    """
    layout, ordered = compared.layout, compared.ordered
    _lay_out(part, pages, page, view, compared)
    first, begin = pages.block_bounds[page], pages.sample_bounds[page]
    main_shingles, rest_shingles = 1.0 / compared.density[0], 1.0 / compared.density[1]
    main, rest, shared = ordered.below[0], compared.counts[2], 0.0
    every = main_shingles * layout.smaller[part, 0, main] + rest_shingles * layout.smaller[part, 1, rest]
    for hit in range(compared.counts[0]):
        place = place_of(pages.samples[begin + compared.hits[hit]])
        if layout.start[part, place] != _OUTSIDE and not compared.whole[place]:
            kept = is_kept(pages.blocks[first + place])
            shared += layout.weight[place] * (main_shingles if kept else rest_shingles)
    for at in range(compared.counts[1]):
        place = compared.wholes[at]
        if layout.start[part, place] != _OUTSIDE:
            block = pages.blocks[first + place]
            words = _shingles_of(block) * layout.weight[place]
            shared += words
            # The shingles of a whole block are not compared: at most all in the sample were counted above.
            sampled = layout.sampled[place] * layout.weight[place]
            every += words - sampled * (main_shingles if is_kept(block) else rest_shingles)
    return shared / max(every, 1.0) if every > 0.5 else 1.0


@inlined
def _shingles_of(block):  # uint64 -> float64
    return max(1.0, words_of(block) - 2.0)


@inlined
def measure_part(part, pages, page, view, compared):
    """Measure one part of a page, after find_shared.

    int64, PageTexts, int64, PageView  ->  compared.figures[part]
    """
    layout = compared.layout
    _lay_out(part, pages, page, view, compared)
    first, count = pages.block_bounds[page], pages.block_bounds[page + 1] - pages.block_bounds[page]
    limit, limit_of_rest = compared.limits[0], compared.limits[1]
    exact = compared.density[0] == 1.0 and compared.density[1] == 1.0
    main_shingles, rest_shingles = 1.0 / compared.density[0], 1.0 / compared.density[1]
    compared.by_block[:count] = 0.0
    shared, size_of_whole, compared_shingles = 0.0, np.int64(0), np.int64(0)
    for at in range(compared.counts[1]):
        place = compared.wholes[at]
        if layout.start[part, place] != _OUTSIDE:
            size_of_whole += words_of(pages.blocks[first + place])
            shared += _shingles_of(pages.blocks[first + place]) * layout.weight[place]
    every, fresh, missing, missing_words, last = shared, 0.0, np.int64(0), 0.0, np.int64(0)
    begin = pages.sample_bounds[page]
    for at in range(begin, pages.sample_bounds[page + 1]):
        sample = pages.samples[at]
        place = place_of(sample)
        part_start, whole = layout.start[part, place], compared.whole[place]
        found = whole or compared.found[at - begin]
        if part_start == _OUTSIDE or (not found and hash_of(sample) > limit):
            continue
        kept = is_kept(pages.blocks[first + place])
        if not found and not kept and hash_of(sample) > limit_of_rest:
            continue
        shingles = main_shingles if kept else rest_shingles
        stands_for = shingles * layout.weight[place]
        compared.by_block[place, 0] += 1.0
        compared.by_block[place, 1] += found
        if not whole:
            compared_shingles += 1
            every += stands_for
            shared += stands_for if found else 0.0
        if part_start == _LINKS:
            continue
        if not found:
            missing += 1
            missing_words += stands_for
            continue
        # A position beyond 65,535 is that of its block: it is not known.
        start = part_start + max(position_of(sample) - layout.before[place], 0)
        end = start + width_of(sample)
        if whole:
            start, end = part_start, part_start + words_of(pages.blocks[first + place])
        fresh += _fresh_words(start - last, missing, missing_words, shingles == 1.0)
        last = max(last, end)
        missing, missing_words = np.int64(0), 0.0
    fresh += _fresh_words(layout.words[part, 0] - last, missing, missing_words, exact)
    few = compared_shingles < _FEW_SHINGLES and not exact
    compared.says_little[part] = few and 2 * size_of_whole < layout.words[part, 1]
    # If nothing was compared, other text decides.
    contained = shared / max(every, 1.0) if every > 0.0 else np.float64(compared.says_little[part])
    compared.figures[part, CONTAINMENT], compared.figures[part, FRESH] = contained, fresh


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
def contained_by_block(part, with_links, longest, pages, page, compared):
    """The contained words and all words of a part, block by block, after measure_part; and the words of its heading:
    the longest fresh block of at most `longest` words. float64 each.

    int64, bool (blocks of links count too), float64, PageTexts, int64, PairComparison
    """
    first, every, contained, heading = pages.block_bounds[page], 0.0, 0.0, 0.0
    for place in range(pages.block_bounds[page + 1] - first):
        of_block, found = compared.by_block[place, 0], compared.by_block[place, 1]
        start, whole = compared.layout.start[part, place], compared.whole[place]
        if start == _OUTSIDE or (start == _LINKS and not with_links) or (of_block == 0 and not whole):
            continue
        words = np.float64(words_of(pages.blocks[first + place]))
        every += words
        contained += words if whole else words * found / of_block
        if found == 0 and not whole and words <= longest:
            heading = max(heading, words)
    return contained, every, heading


@inlined
def _fresh_words(run, missing, missing_words, exact):  # int64, int64, float64, bool -> float64
    """The fresh words of a run of words between two shared shingles.

    missing, missing_words: compared shingles in it, and the words that they stand for  exact: no shingle of the run was
    left out by a sample
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
    first, begin, main, rest = pages.block_bounds[page], pages.sample_bounds[page], np.int64(0), np.int64(0)
    for hit in range(compared.counts[0]):
        place = place_of(pages.samples[begin + compared.hits[hit]])
        # Common text did not count when the other page was indexed.
        if flags[place] == IS_TEMPLATE and not compared.whole[place]:
            main += is_kept(pages.blocks[first + place])
            rest += not is_kept(pages.blocks[first + place])
    of_main = main / compared.density[0]
    return of_main + rest / compared.density[1], of_main


@inlined
def are_variants(pages, page, others, other, flags):  # PageTexts, int64, EntryTexts, int64, uint8[] -> bool
    """Whether all distinctive blocks of both pages have the same text, and some have other numbers."""
    first = pages.block_bounds[page]
    differ, compared = False, np.int64(0)
    for place in range(others.block_first[other], others.block_end[other]):
        wanted, same_text, same_numbers = identity_of(others.blocks[place]), False, False
        for at in range(first, pages.block_bounds[page + 1]):
            if identity_of(pages.blocks[at]) == wanted:
                same_text = True
                same_numbers |= pages.blocks[at] >> np.uint64(NUMBERS_SHIFT) == others.blocks[place] >> np.uint64(
                    NUMBERS_SHIFT
                )
        if not same_text and others.blocks[place] & NUMERIC == np.uint64(0):
            return False
        compared += 1
        differ |= not same_numbers
    own = np.int64(0)
    for at in range(first, pages.block_bounds[page + 1]):
        own += flags[at - first] & IS_DISTINCTIVE != 0
    return differ and min(own, np.int64(ENTRY_BLOCKS)) <= compared
