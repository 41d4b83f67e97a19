"""The rule for two pages: whether an indexed page contains the distinctive text of a later one.

A page is a copy of an indexed page if that page contains at least min_containment of its distinctive text, few of its
words are fresh, and the indexed page is at most twice as long. Containment and fresh words are those of containment.py.
They are measured over one or two parts of the page, and must be enough in each:

- its distinctive main text, if that is long enough to speak for the page;
- all its distinctive text: alone if the main text is short, beside it if the page has distinctive text outside of it.
  Links beside a main text that is contained (SURE) under the same title may differ: lists of news change often;
- its main text with common text, if that is most of it. Between two hosts, this part then decides alone: a syndicated
  article is found so. If the titles are similar, it is no text of a theme, and needs no more than other text, unless
  the page has blocks of fresh text and the titles share fewer than HEADLINE rare words;
- nearly all its distinctive text, if only its main text is too short for the indexed page, or too little compared;
- all its main text, if the page consists of template text only, or of it and a few words in blocks with numbers.

More is required where less is known:

- An excerpt with an answer is no copy: the longer the indexed page, the less may be missing (EXCERPT).
- Containment that is estimated by a sample must be above the required one by MARGIN standard errors.
- On one host, pages of different titles are copies only if nearly all of the text is contained, and short ones never.
  Under a title that is not close, at most FRESH_TEXT words may be fresh if more of them lie in fresh blocks, however
  long the page is: it may show other pages too, or describe one of several things in the same terms.
- While a host has fewer than FEW_PAGES pages, its template text is unknown: as many as TEMPLATE_WORDS of the shared
  words may be template text. The rest must be contained as much as otherwise required, with at most FRESH_TEXT fresh
  words under another title or in blocks of their own; or else no word may be fresh, and hardly any beside it
  (YOUNG_FRESH). Under the same title, an edited copy differs from a page that fills the same template: its fresh words
  are scattered over its blocks, not in blocks of their own (EDITED_BLOCKS).

Pages of one host that differ in numbers only are variants: policy.variants says whether they are copies.

The comparison records the values of a pair and the required ones (criteria.py), so explanations come from this code.
"""

import numpy as np

from spotsieve.stream.base.jit import inlined
from spotsieve.stream.base.page_text import NUMERIC, identity_of, is_kept, words_of, words_of_code
from spotsieve.stream.base.verdict import Reason
from spotsieve.stream.judge.by_host import criteria
from spotsieve.stream.judge.by_host.containment import (
    ALL_TEXT,
    CONTAINMENT,
    FRESH,
    MAIN_TEXT,
    PARTS,
    TEMPLATE_TEXT,
    WHOLE_MAIN_TEXT,
    are_variants,
    contained_by_block,
    find_shared,
    measure_part,
    most_contained,
    share_in_fresh_blocks,
    shared_template_words,
)
from spotsieve.stream.judge.by_host.distinctive_text import (
    COMMON_LIMIT,
    EVERY,
    IS_DISTINCTIVE,
    LEAST_MAIN,
    LEAST_OWN,
    LIMIT,
    MAIN,
    NO_TITLE,
    OUTSIDE,
    OWN,
    PAGES,
    PROSE,
    RARE,
    WHOLE,
    WHOLE_COMMON,
)
from spotsieve.stream.judge.by_host.memory import BLOCK_TO_ITEM, pages_with

FEW_PAGES, TEMPLATE_WORDS = 4, 200
"""The pages of a host below which its template text is unknown, and the words of a page that may be template text
then."""
YOUNG_FRESH = 0.05
"""The share of fresh words in all text of such a page, beside a main text of up to TEMPLATE_WORDS words: the main text
may be template text."""
EDITED_FRESH, EDITED_BLOCKS = 0.25, 0.1
"""What an edited copy on such a host may have: a share of fresh words (an estimate; YOUNG_FRESH if it is exact). And
the share of shingles in fresh blocks that an edited copy may have on any host. A sample cannot tell a fresh run from
edited words that lie close together."""
FRESH_TEXT = 20.0
"""All text may have this many fresh words, however many of its words are in blocks of links. Links are never fresh, so
the fresh words are compared with the other words. A page of a host whose template text is unknown may have no more,
unless it is an edited copy, and under no other title. The same limit holds beside a page of one host whose title is not
close, if more than FRESH_TEXT words lie in fresh blocks."""
LEAST_MAIN_ON_HOST = 60
"""Main text speaks for a page from LEAST_MAIN_ON_HOST words on; between two hosts, and beside a page of its host under
another title, from LEAST_MAIN: other text may be the menu of a part of the host. Between two hosts the other text is
compared too if there is as much other prose, or much more other text: a page may join two texts."""
MOST_OUTSIDE, MOST_OWN = 6.0, 16.0
"""Other text is much more than main text if it has MOST_OUTSIDE times its words outside links, or if all distinctive
text has MOST_OWN times its words."""
KNOWN_PAGES, KNOWN_OUTSIDE = 20, 1 / 3
"""The pages of a host from which its template text is well known. Then other text is compared too between two hosts, if
it has KNOWN_OUTSIDE times the words of the main text, outside links, and the titles are not similar: under a similar
title, the main text is an article that both hosts have."""
MOST_LINKS, OTHER_LINKS = 2.0, 3.0
"""On one host, other text that consists of links is compared too if all distinctive text has MOST_LINKS times the words
of the main text. Beside the same article it may differ; under a title of few rare words, up to OTHER_LINKS times."""
HEADLINE = 4
"""Rare words of both titles from which on they name an article; pages of many sites are called "Contact"."""
THIN = 100
"""A text of fewer words is thin: nothing but its title may tell it from others."""
CAREFUL, THIN_CAREFUL, SIMILAR_CAREFUL, BESIDE = 0.625, 0.75, 0.875, 0.05
"""How the required containment follows from min_containment: what may be missing is this share of it for pages of one
host whose titles differ, for thin texts without titles, and for similar titles. Beside the main text, all text needs
BESIDE less, but never less than min_containment under another title of the host."""
EXCERPT = 0.35
"""What may be missing is divided by 1 + EXCERPT * (n - 1) if the indexed page has n times the length of the page."""
MARGIN = 0.25
"""Standard errors of the estimated containment that are added to the required one."""
SIMILAR_TITLE, CLOSE_TITLE, SAME_TITLE = 0.5, 0.7, 1.0
"""Overlaps of two titles: similar; close, which is enough for thin texts and for fresh blocks; the same."""
SHORT = 80
"""A text of fewer words under another title is no copy."""
SURE, SURE_WORDS = 0.95, 20
"""A text of SURE_WORDS words is a copy whatever the titles are if this share of it is contained, its heading not
counted."""
NEARLY_ALL, NEARLY_NONE = 0.9, 0.05
"""The containment that template text and common text need between two hosts, unless the titles are similar, and the
share of fresh words they may have; also the containment of a short page while the template text of its host is
unknown, and of all text of a page whose main text alone is too short."""
WHOLE_SHARE = 0.3
"""Between two hosts, main text with common text speaks for a page if it is this share of the words outside links."""
MOST_LENGTHS, LENGTH_SLACK = 2.1, 10
"""The length of an indexed page, in lengths of the page and words beside. Sizes are rounded by up to 1/16."""
_ROUNDING = 1e-9
_CONTAINED = np.uint8(Reason.CONTAINED)


@inlined
def judge_pair(pages, page, others, other, memory, row, view, thresholds, explains, result):
    """Decide whether a page is a copy of an indexed one, and record the values of the pair.

    PageTexts, int64, EntryTexts, int64, Memory, int64 (row of the page's host), PageView, HostThresholds -> PairResult
    explains: bool, all values are measured, also those after the first that is not enough
    """
    result.confirmed.accepted[0], result.confirmed.score[0], result.reason[0] = False, 0.0, 0
    result.values[:], result.other_values[:] = criteria.NONE, criteria.NONE
    same = pages.host[page] == others.host[other]
    if not same and thresholds.one_host:
        result.values[criteria.HOSTS_MATCH, 0], result.values[criteria.HOSTS_MATCH, 1] = 0.0, 1.0
        return
    if not find_shared(pages, page, others, other, result.compared):
        return
    figures = view.figures
    with_common = figures[WHOLE_COMMON] > figures[WHOLE] / 2 and figures[WHOLE] >= LEAST_MAIN
    if not same:
        with_common &= figures[WHOLE] >= WHOLE_SHARE * figures[EVERY]
    # The rest of the text of a page that is mostly common text says too little about a page of another host.
    alone = with_common and not same
    speaks = figures[MAIN] >= (LEAST_MAIN_ON_HOST if same else LEAST_MAIN)
    if same and not speaks and figures[MAIN] >= LEAST_MAIN:
        speaks = NO_TITLE < _title_overlap(pages, page, others, other, memory, row, view)[0] < SIMILAR_TITLE
    both = speaks and (figures[OUTSIDE] > 0 or figures[OWN] > MOST_LINKS * figures[MAIN])
    both |= speaks and figures[MAIN] < LEAST_MAIN_ON_HOST
    if not same:
        both = speaks and (
            figures[MAIN] <= figures[PROSE]
            or figures[OUTSIDE] > MOST_OUTSIDE * figures[MAIN]
            or figures[OWN] > MOST_OWN * figures[MAIN]
            or (
                figures[PAGES] >= KNOWN_PAGES
                and figures[OUTSIDE] > KNOWN_OUTSIDE * figures[MAIN]
                and _title_overlap(pages, page, others, other, memory, row, view)[0] < SIMILAR_TITLE
            )
        )
    own = _own_words(pages, page, view) if same else figures[OWN]
    beside = not alone and speaks + (both or not speaks) + with_common > 1
    title, shared_words, short_enough, lengths, by_all, first = NO_TITLE, np.int64(0), True, 1.0, False, True
    one_article, differ = False, False
    score, enough = 2.0, True
    for part in range(PARTS):
        words = figures[MAIN]
        is_compared = speaks
        if part == ALL_TEXT:
            is_compared, words = (both or not speaks) and own >= 3, figures[OWN]
        elif part == TEMPLATE_TEXT:
            is_compared, words = not speaks and own < 3, _template_words(pages, page)
        elif part == WHOLE_MAIN_TEXT:
            is_compared, words = with_common, figures[WHOLE]
        if not is_compared or (alone and part != WHOLE_MAIN_TEXT):
            continue
        # Most pairs have too little in common: they need no look at fresh words, titles and lengths.
        if first and not explains and _falls_short(part, words, same, pages, page, view, thresholds, result.compared):
            return
        measure_part(part, pages, page, view, result.compared)
        if first:
            first = False
            if same or alone:
                overlap, shared_words, differ = _title_overlap(pages, page, others, other, memory, row, view)
                title, differ = overlap if same else NO_TITLE, same and differ
                one_article = not same and overlap >= SIMILAR_TITLE
            result.other_values[criteria.PAIR_TITLE] = title
            short_enough, lengths, by_all = _record_length(
                pages, page, others, other, same, alone, memory, row, view, result
            )
            both, beside = both or by_all, beside or (by_all and speaks)
            if not (short_enough or thresholds.drop_parts or explains):
                return
        if result.compared.says_little[part] and part == MAIN_TEXT and both:
            by_all = True
        elif result.compared.says_little[part]:
            result.compared.figures[part, CONTAINMENT] = 0.0
        value = _contained_part(
            *(part, words, beside, lengths, by_all, pages, page),
            *(same, title, differ, shared_words, one_article, view, thresholds, result),
        )
        enough &= value >= 0.0
        score = min(score, value)
        if not (enough or explains):
            return
    if enough and thresholds.keep_variants and same and are_variants(pages, page, others, other, view.flags):
        enough = False
        result.values[criteria.NOT_A_VARIANT, 0] = 0.0
        result.values[criteria.NOT_A_VARIANT, 1] = 1.0
    if enough and (short_enough or thresholds.drop_parts):
        result.confirmed.accepted[0], result.confirmed.score[0] = True, min(score, 1.0)
        result.reason[0] = _CONTAINED


@inlined
def _falls_short(part, words, same, pages, page, view, thresholds, compared):
    """Whether a part is contained less than any title and any length may require, after find_shared.

    int64, float64, bool, PageTexts, int64, PageView, HostThresholds, PairComparison -> bool
    """
    # Beside its text, thin text has its title (_contained_blocks).
    if part == ALL_TEXT and _is_thin(part, words, same):
        return False
    return most_contained(part, pages, page, view, compared) < thresholds.min_containment - BESIDE - _ROUNDING


@inlined
def _is_thin(part, words, same):  # int64, float64, bool -> bool
    """Whether a part of a page is so small that nothing but its title may tell it from others."""
    return words < THIN and (not same or part != MAIN_TEXT)


@inlined
def _title_overlap(pages, page, others, other, memory, row, view):
    """The Jaccard similarity of both titles' rare words, NO_TITLE if neither title has one; the rare words in both; and
    whether the titles are not close, by all words if none is rare: lists of a host are called by its common words.

    PageTexts, int64, EntryTexts, int64, Memory, int64, PageView -> float64, int64, bool
    """
    first, end, theirs, both, equal = pages.title_bounds[page], pages.title_bounds[page + 1], 0, np.int64(0), 0
    for place in range(others.title_first[other], others.title_end[other]):
        word = others.titles[place]
        is_rare = pages_with(memory.words, row, np.int64(word)) <= view.figures[COMMON_LIMIT]
        theirs += is_rare
        for at in range(first, end):
            equal += pages.titles[at] == word
            both += is_rare and view.rare[at - first] and pages.titles[at] == word
    either = view.figures[RARE] + theirs - both
    if either > 0:
        return both / either, both, both < CLOSE_TITLE * either
    words, others_words = end - first, others.title_end[other] - others.title_first[other]
    differ = min(words, others_words) > 0 and equal < CLOSE_TITLE * (words + others_words - equal)
    return NO_TITLE, both, differ


@inlined
def _record_length(pages, page, others, other, same, alone, memory, row, view, result):
    """Compare the lengths of both pages, and record them.

    Returns whether the indexed page is at most twice as long: bool; its length in lengths of the page, from 1 to 2:
    float64; and whether its main text is longer, and all its text is not: bool. Selection may have kept less of the
    page than of the indexed one, so nearly all text of the page must be contained then.

    What has become template text of the host since the page was indexed is not counted any more: its heaviest blocks by
    the memory of the host, and other text that is template text of the later page.
    """
    figures = view.figures
    main, every = (
        np.float64(words_of_code(np.int64(others.main[other]))),
        np.float64(words_of_code(np.int64(others.every[other]))),
    )
    whole = np.float64(words_of_code(np.int64(others.whole[other])))
    if same:
        gone, gone_main = shared_template_words(pages, page, view.flags, result.compared)
        every, main = every - gone, main - gone_main
        for place in range(others.block_first[other], others.block_end[other]):
            block = others.blocks[place]
            shown = pages_with(memory.blocks, row, np.int64(identity_of(block)) >> BLOCK_TO_ITEM)
            if shown >= figures[LIMIT]:
                every -= words_of(block)
                main -= words_of(block) if is_kept(block) else 0
    if figures[OWN] < 3:
        return True, 1.0, False
    length, own = every, figures[OWN]
    if figures[MAIN] >= LEAST_MAIN:
        length, own = main, figures[MAIN]
    common = figures[WHOLE_COMMON] > figures[WHOLE] / 2
    longer = length > MOST_LENGTHS * own + LENGTH_SLACK
    if longer and figures[WHOLE] >= LEAST_MAIN and (common or figures[MAIN] >= LEAST_MAIN):
        length, own = whole, figures[WHOLE]
    by_all = not alone and length > MOST_LENGTHS * own + LENGTH_SLACK
    by_all &= every <= MOST_LENGTHS * figures[OWN] + LENGTH_SLACK
    if by_all:
        length, own = every, figures[OWN]
    most = MOST_LENGTHS * own + LENGTH_SLACK
    result.values[criteria.LENGTH, 0], result.values[criteria.LENGTH, 1] = max(length, 0.0), most
    return length <= most, min(max(1.0, length / own), 2.0), by_all


@inlined
def _own_words(pages, page, view):  # PageTexts, int64, PageView -> float64
    """The words of the distinctive text of a page, without blocks with numbers if it is tiny."""
    words = view.figures[OWN]
    if words < LEAST_OWN:
        first = pages.block_bounds[page]
        for place in range(pages.block_bounds[page + 1] - first):
            block = pages.blocks[first + place]
            words -= words_of(block) if view.flags[place] & IS_DISTINCTIVE and block & NUMERIC != np.uint64(0) else 0
    return words


@inlined
def _contained_part(
    part, words, beside, ratio, by_all, pages, page, same, title, differ, shared, one_article, view, thresholds, result
):
    """Record a part of a page, after measure_part; its containment if it is enough, else -1: float64.

    words: float64, of the part  beside: bool, another part is compared too  ratio, by_all: of _record_length
    title: float64, overlap of the titles  shared: int64, rare title words of both pages
    differ: bool, pages of one host whose titles are not close
    one_article: bool, pages of two hosts have similar titles, and most of the main text is common text
    """
    figures, compared = view.figures, result.compared
    contained, fresh = compared.figures[part, CONTAINMENT], compared.figures[part, FRESH]
    thin = _is_thin(part, words, same)
    new_host = same and figures[PAGES] < FEW_PAGES - 0.5
    links_may_differ = part == ALL_TEXT and beside and same and title >= SAME_TITLE and not (new_host or by_all)
    links_may_differ &= shared >= HEADLINE or figures[OWN] <= OTHER_LINKS * figures[MAIN]
    if links_may_differ and figures[MAIN] >= LEAST_MAIN_ON_HOST and compared.figures[MAIN_TEXT, CONTAINMENT] >= SURE:
        text, every, _ = contained_by_block(part, False, 0.0, pages, page, compared)
        contained = max(contained, text / max(every, 1.0))
    text_contained = contained
    young = new_host and (not beside or part == MAIN_TEXT)
    if thin and part == ALL_TEXT:
        contained, text_contained = _contained_blocks(pages, page, view, compared, same, shared)
    missing = (1.0 - thresholds.min_containment) / (1.0 + EXCERPT * (ratio - 1.0))
    in_fresh_blocks = 0.0
    if new_host or one_article or differ:  # Only these pairs need the look at all blocks.
        in_fresh_blocks = share_in_fresh_blocks(pages, page, compared)
    is_edited = (new_host or one_article) and in_fresh_blocks <= EDITED_BLOCKS
    is_one_text = is_edited and (title == NO_TITLE or title >= SIMILAR_TITLE)
    one_article &= is_edited or shared >= HEADLINE
    strict = part in (WHOLE_MAIN_TEXT, TEMPLATE_TEXT) and not same and not one_article
    nearly_all = by_all and part == ALL_TEXT
    needed = _needed_containment(part, words, thin, young, beside, same, title, missing, strict)
    needed = max(needed, NEARLY_ALL) if nearly_all else needed
    density = compared.density[0]
    needed += MARGIN * np.sqrt(needed * (1.0 - needed) * (1.0 - density) / max(1.0, words * density))
    most_fresh = (1.0 - needed) * words
    if thin and same and title == NO_TITLE:
        most_fresh = CAREFUL * (1.0 - thresholds.min_containment) * words
    if strict:
        most_fresh = NEARLY_NONE * words
    if (thin and not same and not young) or (beside and part != MAIN_TEXT):
        most_fresh = (1.0 - thresholds.min_containment) * words
        if new_host and figures[MAIN] <= TEMPLATE_WORDS:
            most_fresh = YOUNG_FRESH * words
        elif new_host and not is_one_text:
            most_fresh = FRESH_TEXT
    most_allowed = thresholds.max_fresh_words - 1.0 if thresholds.max_fresh_words > 0 else words
    if part == ALL_TEXT:
        # Beside a long list of links, a short text is a small share of all words.
        outside_links = np.float64(compared.layout.words[part, 0])
        most_allowed = min(most_allowed, max(FRESH_TEXT, (1.0 - thresholds.min_containment) * outside_links))
    if differ and in_fresh_blocks * words > FRESH_TEXT:
        most_allowed = min(most_allowed, FRESH_TEXT)
    if young and part != TEMPLATE_TEXT and words > TEMPLATE_WORDS and not nearly_all:
        rest = words - TEMPLATE_WORDS
        most_rest = (1.0 - thresholds.min_containment) * rest if is_one_text else FRESH_TEXT
        most_rest = min(most_rest, most_allowed)
        if (words * contained - TEMPLATE_WORDS) / rest >= needed and fresh <= most_rest:
            criteria.record_part(result, part, contained, needed, fresh, most_rest)
            return contained
    most_fresh = 0.0 if young else most_fresh
    if nearly_all:
        most_fresh = min(most_fresh, (1.0 - NEARLY_ALL) * words)
    elif is_edited and new_host and (young or beside) and title >= SAME_TITLE and part != TEMPLATE_TEXT:
        needed = min(needed, 1.0 - missing)
        most_fresh = max(most_fresh, (YOUNG_FRESH if density == 1.0 else EDITED_FRESH) * words)
    most_fresh = min(most_fresh, most_allowed)
    criteria.record_part(result, part, contained, needed, fresh, most_fresh)
    if contained < needed or fresh > most_fresh:
        return -1.0
    sure = text_contained >= SURE and words >= SURE_WORDS and not young and part != TEMPLATE_TEXT
    if title == NO_TITLE or sure:
        return contained
    least_title = CLOSE_TITLE if thin or part == TEMPLATE_TEXT else 0.0
    if young or words < SHORT:
        least_title = max(least_title, SIMILAR_TITLE)
    result.values[criteria.TITLE, 0] = title
    result.values[criteria.TITLE, 1] = max(result.values[criteria.TITLE, 1], least_title)
    return contained if title >= least_title else -1.0


@inlined
def _needed_containment(part, words, thin, young, beside, same, title, missing, strict):
    """The required containment of a part: float64.

    missing: the share that may be missing by default  strict: nearly all is required
    """
    needed = 1.0 - missing
    if same and title < SAME_TITLE:
        needed = 1.0 - CAREFUL * missing
        if title >= SIMILAR_TITLE and words >= LEAST_MAIN_ON_HOST:
            needed = 1.0 - SIMILAR_CAREFUL * missing
    if young:
        needed = max(needed, NEARLY_ALL if words <= TEMPLATE_WORDS else 1.0 - CAREFUL * missing)
    elif thin and title == NO_TITLE:
        needed = 1.0 - THIN_CAREFUL * missing
    if strict:
        needed = max(needed, NEARLY_ALL)
    if beside and part != MAIN_TEXT:
        needed = min(needed, 1.0 - missing - (0.0 if same and title < SIMILAR_TITLE else BESIDE))
    return needed


@inlined
def _contained_blocks(pages, page, view, compared, same, shared_words):
    """The containment of a thin text, block by block: (float64, float64).

    The first counts the own words of the title as text too. The second leaves out the heading: the longest fresh block
    that has no more words than the title has of its own.
    """
    longest = view.figures[RARE] if same else 0.0
    contained, every, heading = contained_by_block(ALL_TEXT, True, longest, pages, page, compared)
    of_text = contained / max(every - heading, 1e-9)
    if same:
        every, contained = every + view.figures[RARE], contained + shared_words
    return contained / max(every, 1e-9), of_text


@inlined
def _template_words(pages, page):  # PageTexts, int64 -> float64
    """The words of the main text of a page, or of all its text if it has no main text."""
    main, every = 0.0, 0.0
    for place in range(pages.block_bounds[page], pages.block_bounds[page + 1]):
        every += words_of(pages.blocks[place])
        main += words_of(pages.blocks[place]) if is_kept(pages.blocks[place]) else 0
    return main if main > 0 else every
