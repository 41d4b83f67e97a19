"""The rule for two pages, by the host memory of the later page: whether it is a copy of the earlier one.

Two pages of one host are compared by distinctive text: the block fingerprints of both
(stream/sign/features/block_fingerprints.py) that are not template text of the host (stream/judge/by_host/memory.py),
weighted by their words, and their titles without the words that are common in the titles of the host. If the pages are
long enough, their sketches give a second similarity, of shingles, after the template share of each page is subtracted;
the larger similarity counts. The required similarity of two distinctive texts depends on the titles.

Across hosts the sketches decide, and the titles too if one page contains the other. Half of the new page's main text
must be distinctive, as far as its host is known.

Variants of one product have the same texts and different numbers: if variants are to be kept, such pairs do not match.

Block fingerprints are short, so unrelated pages of a large host may share one by accident. Shared text also shows in
the sketches: if the fingerprints claim more shared text than the sketches allow, the claim is ignored.

The value of a pair and the required value at each threshold are recorded during the comparison
(stream/judge/by_host/thresholds.py), so explanations come from the code that judged.

docs/measured/quality.md shows the effect of each rule, measured on the labelled sets.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.jit import inlined
from spotsieve.stream.base.verdict import Reason
from spotsieve.stream.judge.by_host import thresholds
from spotsieve.stream.judge.by_host.distinctive_text import (
    NO_TITLE,
    OWN,
    OWN_NUMBERS,
    OWN_PRINTS,
    OWN_TEXTS,
    PAGES,
    RARE,
    TENTHS,
    estimated_jaccard,
    is_kept_number,
    is_kept_text,
    is_template,
    template_share,
    tenths_of,
    title_overlap,
    words_of,
)
from spotsieve.stream.sign.features.block_fingerprints import IDENTITY_SHIFT
from spotsieve.stream.sign.schemes import Confirmations

FEW_PAGES = 4
"""On a host with fewer pages the template text is not known yet, and copies without matching titles must reach the
threshold for different titles (other_title_min_alike)."""
AGREE, DIFFER, EQUAL, SAME = 0.6, 0.2, 0.75, 0.95
"""Overlap of two titles (Jaccard): they agree (AGREE), differ (DIFFER), are nearly equal (EQUAL), are the same
(SAME)."""
ACROSS_TITLE = 0.8
LONG, THIN, SHORT, TINY = 60, 60, 40, 20
"""Words of distinctive text (LONG, SHORT, TINY), and features of a page (THIN)."""
TINY_CARE = 0.12
"""The increase of the threshold for a text of 0 words, if there are titles; it falls to 0 at TINY words."""
SAME_TITLE_ALIKE, EARLY_SAME_TITLE_ALIKE = 0.42, 0.45
CONTAINED, CONTAINED_ALIKE, CONTAINED_LEAST, CONTAINED_MOST = 0.85, 0.4, 4, 150
"""A print version of a thin page: the containment of the shorter text in the other (CONTAINED), the similarity
(CONTAINED_ALIKE), the least words of the shorter text and the most words of the longer one."""
HELD, HELD_ALIKE, HELD_JACCARD = 0.75, 0.28, 0.24
"""A page with injected lists: the containment of one page in the other, the similarity on one host, and the Jaccard
across hosts."""
SURE = 0.7
"""The similarity from which a copy is sure, so that it teaches its host only the text that its original lacks."""
ROOM_FOR_SKETCH, SHARE_FOR_SKETCH, ROOM_IF_AGREED, SHARE_IF_AGREED = 40, 0.6, 15, 0.5
"""The features outside template text, and their share of all features, from which sketches count; the last two values
apply if the titles agree."""
ALL_TEMPLATE_JACCARD = 0.95
"""The Jaccard from which pages without distinctive text are copies."""
LEAST_OWN = 0.5
"""Across hosts: the minimum share of a page's main text that must be distinctive."""
SITE_WORDS = 80
"""Two pages on two hosts of one site must also reach the threshold of one host, for a text of this many words."""
SURPRISE = 3.0
"""The number of standard errors of a sketch by which its estimate hardly ever misses the shared text of two pages."""
_OWN_TEXT, _CONTAINED, _SAME_TITLE, _NEAR = (
    np.uint8(reason) for reason in (Reason.OWN_TEXT, Reason.CONTAINED, Reason.SAME_TITLE, Reason.NEAR)
)


class PairResult(NamedTuple):
    """The result for the pair that was compared last. The first three fields have one element each.

    confirmed: accepted and score
    reason: uint8 (Reason)
    sure: bool, the page teaches its host only the text that its original lacks
    bars: float64[thresholds.THRESHOLDS, 2], the value of the pair and the required value; thresholds of the other case
    (one host or two hosts) hold values of an earlier pair
    figures: float64[thresholds.FIGURES], the other values of the pair
    """

    confirmed: Confirmations
    reason: NDArray[np.uint8]
    sure: NDArray[np.bool_]
    bars: NDArray[np.float64]
    figures: NDArray[np.float64]


def new_pair_result() -> PairResult:
    """The result before the first comparison."""
    return PairResult(
        Confirmations(np.zeros(1, np.bool_), np.zeros(1)),
        np.zeros(1, np.uint8),
        np.zeros(1, np.bool_),
        np.zeros((thresholds.THRESHOLDS, 2)),
        np.zeros(thresholds.FIGURES),
    )


@inlined
def threshold_of(title, words, pages, bars):  # float64, float64, float64, HostThresholds -> float64
    """The required similarity of two distinctive texts.

    title: overlap of the titles  words: number of words that the similarity is based on  pages: of the host
    """
    if title == NO_TITLE:
        fallen = min(max((words - TINY) / (SHORT - TINY), 0.0), 1.0)
        bar = bars.no_title_min_alike + fallen * (bars.min_alike - bars.no_title_min_alike)
    else:
        fallen = min(max((title - DIFFER) / (AGREE - DIFFER), 0.0), 1.0)
        bar = bars.other_title_min_alike + fallen * (bars.min_alike - bars.other_title_min_alike)
        bar += TINY_CARE * max(1.0 - words / TINY, 0.0)
    if pages < FEW_PAGES and title < AGREE:
        bar = max(bar, bars.other_title_min_alike)
    return bar


@inlined
def shared_features(jaccard, one, other):  # float64, float64, float64 -> float64
    """The number of features that two pages share, by their Jaccard and their numbers of features."""
    return min(jaccard * (one + other) / (1.0 + jaccard), one, other)


@inlined
def _reaches(answer, bar, had, needed):  # PairResult, int64, float64, float64 -> bool
    """Record the value of a pair and the minimum at a threshold; -> whether the pair reaches it."""
    answer.bars[bar, 0], answer.bars[bar, 1] = had, needed
    return had >= needed


@inlined
def _stays_below(answer, bar, had, most):  # PairResult, int64, float64, float64 -> bool
    """Record the value of a pair and the maximum at a threshold; -> whether the pair does not exceed it."""
    answer.bars[bar, 0], answer.bars[bar, 1] = had, most
    return had <= most


@inlined
def confirm_pair(pages, page, others, other, memory, row, asked, bars, answer):
    """Decide whether a page is a copy of an earlier one, and record the values at every threshold.

    Texts, int64, Texts, int64, Memory, int64, HostLookup, HostThresholds -> PairResult
    """
    jaccard = estimated_jaccard(pages, page, others, other)
    _confirm(pages, page, others, other, memory, row, asked, bars, jaccard, answer)


@inlined
def judge_pair(pages, page, others, other, memory, row, asked, bars, answer):
    """Decide like confirm_pair, but record no values for a pair of two hosts that the sketches alone rule out.

    Most candidates are such unrelated pages: a page of the benchmark has 80 candidates, and its resolution takes 15 us
    instead of 28 us.
    """
    jaccard = estimated_jaccard(pages, page, others, other)
    across = pages.host[page] != others.host[other]
    if across and not could_be_copy_across(pages, page, others, other, bars, jaccard):
        _answer_across(answer, False, jaccard)
    else:
        _confirm(pages, page, others, other, memory, row, asked, bars, jaccard, answer)


@inlined
def _confirm(pages, page, others, other, memory, row, asked, bars, jaccard, answer):
    """Compare a pair of this Jaccard with every threshold."""
    title = title_overlap(others, other, asked)
    answer.figures[thresholds.PAIR_JACCARD], answer.figures[thresholds.PAIR_TITLE] = jaccard, title
    if pages.host[page] == others.host[other]:
        _confirm_on_host(pages, page, others, other, memory, row, asked, bars, jaccard, title, answer)
    else:
        _confirm_across(pages, page, others, other, asked, bars, jaccard, title, answer)


@inlined
def _least_jaccard(shorter, bars):  # float64, HostThresholds -> float64
    """The minimum Jaccard of copies on two hosts. shorter: number of features of the shorter page"""
    return bars.thin_min_jaccard if shorter < THIN else bars.min_jaccard


@inlined
def _containment(jaccard, one, another):  # float64, float64, float64 -> float64
    """The share of the shorter page's features that the other page has."""
    return shared_features(jaccard, one, another) / max(min(one, another), 1.0)


@inlined
def could_be_copy_across(pages, page, others, other, bars, jaccard):
    """Whether a pair passes the conditions of _confirm_across that do not depend on host memory.

    Texts, int64, Texts, int64, HostThresholds, float64 -> bool
    """
    one, another = np.float64(pages.length[page]), np.float64(others.length[other])
    near = jaccard >= _least_jaccard(min(one, another), bars)
    # The Jaccard comes first: it rules out nearly all unrelated pages without a division.
    held = jaccard >= HELD_JACCARD and min(one, another) >= THIN and _containment(jaccard, one, another) >= HELD
    return not bars.one_host and (near or held)


@inlined
def _confirm_across(pages, page, others, other, asked, bars, jaccard, title, answer):
    """Apply the rule for two hosts."""
    one, another = np.float64(pages.length[page]), np.float64(others.length[other])
    shorter = min(one, another)
    of_site = pages.site[page] != 0 and pages.site[page] == others.site[other]
    for_site = threshold_of(title, float(SITE_WORDS), asked.figures[PAGES], bars) if of_site else 0.0
    may_meet = (
        _reaches(answer, thresholds.HOSTS_MEET, 1.0 - bars.one_host, 1.0)
        & _reaches(answer, thresholds.OWN_SHARE, 1.0 - template_share(asked), LEAST_OWN)
        & _reaches(answer, thresholds.ONE_SITE, jaccard, for_site)
    )
    near = _reaches(answer, thresholds.JACCARD, jaccard, _least_jaccard(shorter, bars))
    held = (
        _reaches(answer, thresholds.ACROSS_LONG, shorter, float(THIN))
        & _reaches(answer, thresholds.ACROSS_TITLE, title, ACROSS_TITLE)
        & _reaches(answer, thresholds.ACROSS_WORDS, asked.figures[RARE], 2.0)
        & _reaches(answer, thresholds.ACROSS_HELD, _containment(jaccard, one, another), HELD)
        & _reaches(answer, thresholds.ACROSS_JACCARD, jaccard, HELD_JACCARD)
    )
    _answer_across(answer, may_meet & (near | held), jaccard)


@inlined
def _answer_across(answer, accepted, jaccard):  # PairResult, bool, float64
    """Write the result for a pair of two hosts."""
    answer.confirmed.accepted[0], answer.confirmed.score[0] = accepted, jaccard
    answer.reason[0], answer.sure[0] = _NEAR, False


@inlined
def _confirm_on_host(pages, page, others, other, memory, row, asked, bars, jaccard, title, answer):
    """Apply the rule for one host."""
    figures, noted = asked.figures, answer.figures
    mine, theirs, both, became, are_variants = _compare_prints(pages, page, others, other, memory, row, asked, jaccard)
    union = mine + theirs - both
    alike = both / union if union > 0 else 0.0
    contained = both / min(mine, theirs) if min(mine, theirs) > 0 else 0.0
    words = min(mine, theirs) / TENTHS
    gone = others.share[other] / 255.0
    if others.listed[other] > 0:
        gone = min(1.0, gone + became / others.listed[other])
    one, another = np.float64(pages.length[page]), np.float64(others.length[other])
    template_one, template_another = one * template_share(asked), another * gone
    by_sketches, left, held = _compare_sketches(one, another, template_one, template_another, jaccard, title)
    noted[thresholds.PAIR_BY_PRINTS], noted[thresholds.PAIR_BY_SKETCHES] = alike, by_sketches
    if by_sketches > alike:
        alike, words = by_sketches, left
    elif by_sketches == thresholds.NONE and figures[OWN_PRINTS] == 0 and jaccard >= ALL_TEMPLATE_JACCARD:
        alike, words = jaccard, one + another - shared_features(jaccard, one, another)
        noted[thresholds.PAIR_BY_SKETCHES] = jaccard
    shorter, longer = min(mine, theirs) / TENTHS, max(mine, theirs) / TENTHS
    variants = bars.keep_variants and are_variants
    reason = _reason_on_host(
        answer,
        bars,
        title,
        figures[PAGES],
        alike,
        words,
        shorter,
        longer,
        contained,
        held,
        variants and bars.keep_variants,
    )
    noted[thresholds.PAIR_OWN], noted[thresholds.PAIR_OTHERS] = mine / TENTHS, theirs / TENTHS
    noted[thresholds.PAIR_SHARED], noted[thresholds.PAIR_ALIKE] = both / TENTHS, alike
    answer.confirmed.accepted[0], answer.confirmed.score[0] = reason != 0, min(alike, 1.0)
    answer.reason[0], answer.sure[0] = reason, alike >= SURE and (title >= AGREE or title == NO_TITLE)


@inlined
def _compare_prints(pages, page, others, other, memory, row, asked, jaccard):
    """Compare the distinctive text of two pages of one host by block fingerprints.

    Texts, int64, Texts, int64, Memory, int64, HostLookup, float64 (Jaccard) -> tenths of distinctive words of the page,
    of the other page, and of both (int64 each); int64, words of the other page's listed main text that have become
    template text since; bool, whether both have the same main text with different numbers
    """
    figures = asked.figures
    # `claimed`: features that both pages share, if equal fingerprints of main text stand for the same text
    mine, theirs, both = np.int64(figures[OWN]), np.int64(0), np.int64(0)
    plain_mine, plain_theirs = mine, np.int64(0)
    claimed, became = np.int64(0), np.int64(0)
    # Distinctive texts and numbers in main text that one page has and the other lacks
    my_texts, my_numbers = np.int64(figures[OWN_TEXTS]), np.int64(figures[OWN_NUMBERS])
    their_texts, their_numbers = np.int64(0), np.int64(0)
    first, end = pages.print_first[page], pages.print_end[page]
    at = first
    for place in range(others.print_first[other], others.print_end[other]):
        value = others.prints[place]
        identity = np.int64(value) >> IDENTITY_SHIFT
        while at < end and np.int64(pages.prints[at]) >> IDENTITY_SHIFT < identity:
            at += 1
        met = at < end and np.int64(pages.prints[at]) >> IDENTITY_SHIFT == identity
        template = asked.template[at - first] if met else is_template(asked, memory, row, value)
        if template:
            became += words_of(value) if is_kept_text(value) else 0
            continue
        tenths = tenths_of(value)
        plain_theirs += tenths
        if met:
            own = tenths_of(pages.prints[at])
            larger = max(tenths, own)
            mine += larger - own
            both += larger
            theirs += larger
            my_texts -= is_kept_text(pages.prints[at])
            my_numbers -= is_kept_number(pages.prints[at])
            if is_kept_text(value) and is_kept_text(pages.prints[at]):
                claimed += max(min(words_of(value), words_of(pages.prints[at])) - 2, 0)
        else:
            theirs += tenths
            their_texts += is_kept_text(value)
            their_numbers += is_kept_number(value)
    one, another = np.float64(pages.length[page]), np.float64(others.length[other])
    if claimed > 0 and min(np.float64(claimed), one, another) > _room(pages, one, another, jaccard):
        mine, theirs, both = plain_mine, plain_theirs, np.int64(0)
    variants = my_numbers > 0 and their_numbers > 0 and my_texts == 0 and their_texts == 0
    return mine, theirs, both, became, variants


@inlined
def _compare_sketches(one, another, template_one, template_another, jaccard, title):
    """The similarity of two pages of one host by their sketches, without template text.

    float64 each: features of each page, template features of each page, Jaccard, overlap of titles -> float64:
    similarity, or thresholds.NONE if too few features remain without template text; number of these features; the share
    of the shorter page's distinctive features that the other page has
    """
    shared = shared_features(jaccard, one, another)
    either = one + another - shared
    less, more = min(template_one, template_another), max(template_one, template_another)
    left = either - more
    if left >= max(ROOM_FOR_SKETCH, SHARE_FOR_SKETCH * either) or (
        title >= AGREE and left >= max(ROOM_IF_AGREED, SHARE_IF_AGREED * either)
    ):
        rest = max(shared - less, 0.0)
        less_own = min(one - template_one, another - template_another)
        return rest / left, left, rest / less_own if less_own > 0 else 0.0
    return thresholds.NONE, left, 0.0


@inlined
def _reason_on_host(answer, bars, title, known, alike, words, shorter, longer, contained, held, variants):
    """Compare a pair of one host with every threshold, and record the values.

    PairResult, HostThresholds, float64 each: overlap of titles, pages of the host, similarity and the words that it is
    based on, distinctive words of the shorter and of the longer page, containment of the shorter page in the other by
    block fingerprints and by sketches; bool: the pair are variants that are to be kept -> uint8: Reason, 0 if the pair
    does not match
    """
    none = title == NO_TITLE
    # If there are titles, they must not differ, or the texts must be long.
    untold = 0.0 if none or title > DIFFER else float(LONG)
    both_long = _reaches(answer, thresholds.BOTH_LONG, shorter, float(LONG))
    differs = _reaches(answer, thresholds.NOT_A_VARIANT, 0.0 if variants else 1.0, 1.0)
    own_text = _reaches(answer, thresholds.ALIKE, alike, threshold_of(title, words, known, bars)) & _reaches(
        answer, thresholds.OTHER_TITLES, words, untold
    )
    needed = EARLY_SAME_TITLE_ALIKE if known < FEW_PAGES else SAME_TITLE_ALIKE
    same_title = (
        _reaches(answer, thresholds.SAME_TITLE, title, EQUAL)
        & both_long
        & _reaches(answer, thresholds.SAME_TITLE_SHARED, alike, needed)
    )
    inside = (
        _reaches(answer, thresholds.INSIDE, contained, CONTAINED)
        & _reaches(answer, thresholds.INSIDE_LEAST, shorter, float(CONTAINED_LEAST))
        & _stays_below(answer, thresholds.INSIDE_MOST, longer, float(CONTAINED_MOST))
        & _reaches(answer, thresholds.INSIDE_ALIKE, alike, CONTAINED_ALIKE)
        & _reaches(answer, thresholds.INSIDE_TITLE, title, NO_TITLE if none else AGREE)
    )
    within = (
        _reaches(answer, thresholds.SAME_HEADLINE, title, SAME)
        & both_long
        & _reaches(answer, thresholds.HELD, max(contained, held), HELD)
        & _reaches(answer, thresholds.HELD_ALIKE, alike, HELD_ALIKE)
    )
    if differs and own_text:
        return _OWN_TEXT
    if differs and same_title:
        return _SAME_TITLE
    return _CONTAINED if differs and (inside or within) else np.uint8(0)


@inlined
def _room(pages, one, another, jaccard):  # Texts, float64, float64, float64 -> float64
    """The maximum number of features that two pages share, within the error of their sketches."""
    error = math.sqrt((1.0 - jaccard * jaccard) / (64 * pages.sketch.shape[1]))
    high = min(1.0, jaccard + SURPRISE * error)
    return high * (one + another) / (1.0 + high)
