"""The rule for two pages of which one may be a copy of the other, by what is known of the new one's host.

On one host own text is compared: the prints of both (stream/sign/features/block_fingerprints.py) that are no template
of the host
(stream/judge/by_host/memory.py), weighed by their words, and their titles without the words that the host's titles
share. Where the pages are long enough, their sketches say the same of shingles, without the share of each that is
template; the larger likeness counts. How alike two own texts must be depends on their titles.

Across hosts the sketches decide, and the titles where one page holds the other. Half of what the new page keeps must be
its own, as far as its host is known.

Variants of one product have the same texts and other numbers: where they are to be kept, such pairs are no copies.

Prints are short, so strangers on a large host may share one by accident. What two pages share is in their sketches as
well: prints that claim more than the sketches can hold count for nothing.

What a pair has and what it needs at each bar is noted on the way (stream/judge/by_host/thresholds.py): explanations
are told
by what has judged.

docs/measured/quality.md has the effect of each rule, measured on the labelled sets.
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
"""Of a host: so early nobody knows its template, and copies without an agreeing title need OTHER_TITLE's bar."""
AGREE, DIFFER, EQUAL, SAME = 0.6, 0.2, 0.75, 0.95
"""Overlap of two titles (Jaccard): they agree, differ, are near equal, are the same."""
ACROSS_TITLE = 0.8
LONG, THIN, SHORT, TINY = 60, 60, 40, 20
"""Words of own text (LONG, SHORT, TINY), and features of a page (THIN)."""
TINY_CARE = 0.12
"""What the bar of a text without any word is higher by, where there are titles; falling to 0 at TINY words."""
SAME_TITLE_ALIKE, EARLY_SAME_TITLE_ALIKE = 0.42, 0.45
CONTAINED, CONTAINED_ALIKE, CONTAINED_LEAST, CONTAINED_MOST = 0.85, 0.4, 4, 150
"""A print version of a thin page: so much of the shorter one's words is in the other, so alike, so many words."""
HELD, HELD_ALIKE, HELD_JACCARD = 0.75, 0.28, 0.24
"""A page with lists injected: so much of one is in the other, so alike on one host, of such a Jaccard across hosts."""
SURE = 0.7
"""A copy so alike teaches its host only what its original lacks."""
ROOM_FOR_SKETCH, SHARE_FOR_SKETCH, ROOM_IF_AGREED, SHARE_IF_AGREED = 40, 0.6, 15, 0.5
"""Features beside the template, and their share of all, from which sketches count; and where titles agree."""
ALL_TEMPLATE_JACCARD = 0.95
"""Pages without own text are copies from this Jaccard on."""
LEAST_OWN = 0.5
"""Across hosts: share of what a page keeps that must be its own."""
SITE_WORDS = 80
"""Pages of two hosts of one site are held to the bar of one host too, for a text of so many words."""
SURPRISE = 3.0
"""Standard errors of a sketch that two pages which share what their prints say would hardly ever be apart."""
_OWN_TEXT, _CONTAINED, _SAME_TITLE, _NEAR = (
    np.uint8(reason) for reason in (Reason.OWN_TEXT, Reason.CONTAINED, Reason.SAME_TITLE, Reason.NEAR)
)


class PairResult(NamedTuple):
    """Whether the page is a copy of the one that it was compared with last. The first three have one element.

    confirmed: accepted and score  reason: uint8 (Reason)  sure: bool, it teaches only what its original lacks
    bars: float64[ways.BARS, 2], what the pair has and what it needs; those of the other case, of one host or of two,
    are left over from another pair  figures: float64[ways.FIGURES], the other figures of the pair
    """

    confirmed: Confirmations
    reason: NDArray[np.uint8]
    sure: NDArray[np.bool_]
    bars: NDArray[np.float64]
    figures: NDArray[np.float64]


def new_pair_result() -> PairResult:
    """Nothing was compared yet."""
    return PairResult(
        Confirmations(np.zeros(1, np.bool_), np.zeros(1)),
        np.zeros(1, np.uint8),
        np.zeros(1, np.bool_),
        np.zeros((thresholds.THRESHOLDS, 2)),
        np.zeros(thresholds.FIGURES),
    )


@inlined
def threshold_of(title, words, pages, bars):  # float64, float64, float64, HostThresholds -> float64
    """How alike two own texts of so many words must be, on a host of so many pages."""
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
    """Features of both of two pages, from their Jaccard and how many each has."""
    return min(jaccard * (one + other) / (1.0 + jaccard), one, other)


@inlined
def _reaches(answer, bar, had, needed):  # PairResult, int64, float64, float64 -> bool
    """Whether a pair reaches a bar; noted."""
    answer.bars[bar, 0], answer.bars[bar, 1] = had, needed
    return had >= needed


@inlined
def _stays_below(answer, bar, had, most):  # PairResult, int64, float64, float64 -> bool
    """Whether a pair has no more than is allowed; noted."""
    answer.bars[bar, 0], answer.bars[bar, 1] = had, most
    return had <= most


@inlined
def confirm_pair(pages, page, others, other, memory, row, asked, bars, answer):
    """Whether a page is a copy of an earlier one. Texts, int64, Texts, int64, Memory, int64, HostLookup,
    HostThresholds -> PairResult
    """
    jaccard = estimated_jaccard(pages, page, others, other)
    _confirm(pages, page, others, other, memory, row, asked, bars, jaccard, answer)


@inlined
def judge_pair(pages, page, others, other, memory, row, asked, bars, answer):
    """As confirm_pair, but nothing is noted of a pair of two hosts that the sketches alone tell is no copy.

    Most candidates are such strangers: a page of the benchmark meets 80, and its walk takes 15 us in place of 28.
    """
    jaccard = estimated_jaccard(pages, page, others, other)
    across = pages.host[page] != others.host[other]
    if across and not could_be_copy_across(pages, page, others, other, bars, jaccard):
        _answer_across(answer, False, jaccard)
    else:
        _confirm(pages, page, others, other, memory, row, asked, bars, jaccard, answer)


@inlined
def _confirm(pages, page, others, other, memory, row, asked, bars, jaccard, answer):
    """Compare a pair of this Jaccard with every bar."""
    title = title_overlap(others, other, asked)
    answer.figures[thresholds.PAIR_JACCARD], answer.figures[thresholds.PAIR_TITLE] = jaccard, title
    if pages.host[page] == others.host[other]:
        _confirm_on_host(pages, page, others, other, memory, row, asked, bars, jaccard, title, answer)
    else:
        _confirm_across(pages, page, others, other, asked, bars, jaccard, title, answer)


@inlined
def _least_jaccard(shorter, bars):  # float64, HostThresholds -> float64
    """The Jaccard of copies on two hosts. shorter: features of the shorter one"""
    return bars.thin_min_jaccard if shorter < THIN else bars.min_jaccard


@inlined
def _containment(jaccard, one, another):  # float64, float64, float64 -> float64
    """The share of the shorter one's features that the other has."""
    return shared_features(jaccard, one, another) / max(min(one, another), 1.0)


@inlined
def could_be_copy_across(pages, page, others, other, bars, jaccard):
    """Whether a page reaches what _confirm_across asks that does not depend on the memories of hosts.

    Texts, int64, Texts, int64, HostThresholds, float64 -> bool
    """
    one, another = np.float64(pages.length[page]), np.float64(others.length[other])
    near = jaccard >= _least_jaccard(min(one, another), bars)
    # The Jaccard comes first: it tells nearly all strangers, without a division.
    held = jaccard >= HELD_JACCARD and min(one, another) >= THIN and _containment(jaccard, one, another) >= HELD
    return not bars.one_host and (near or held)


@inlined
def _confirm_across(pages, page, others, other, asked, bars, jaccard, title, answer):
    """The rule for two hosts."""
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
    """Say whether two pages of two hosts are copies."""
    answer.confirmed.accepted[0], answer.confirmed.score[0] = accepted, jaccard
    answer.reason[0], answer.sure[0] = _NEAR, False


@inlined
def _confirm_on_host(pages, page, others, other, memory, row, asked, bars, jaccard, title, answer):
    """The rule for one host."""
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
    """What two pages of one host own, and share of it, by their prints.

    Texts, int64, Texts, int64, Memory, int64, HostLookup, float64: Jaccard -> int64, tenths of own words of the page,
    of the
    other, of both; int64, words of the other's listed text that became template since; bool, whether they own the same
    kept texts with other numbers
    """
    figures = asked.figures
    # `claimed`: features that they share, if what both keep is the same text
    mine, theirs, both = np.int64(figures[OWN]), np.int64(0), np.int64(0)
    plain_mine, plain_theirs = mine, np.int64(0)
    claimed, became = np.int64(0), np.int64(0)
    # Own kept texts and numbers that one page has and the other lacks
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
    """The likeness of two pages of one host by their sketches, without the template.

    float64: features of each, those of the template of each, Jaccard, overlap of titles -> float64: likeness, or
    ways.NONE where the template leaves too few features; how many it leaves; the share of the shorter one's own that
    the other has
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
    """Compare what a pair of one host has with every bar; noted.

    Answer, HostThresholds, float64: overlap of titles, pages of the host, likeness and the words that it stands for,
    own words of
    the shorter and the longer one, shares of the shorter one in the other by prints and by sketches; bool: variants
    that are to be kept -> uint8: Reason, 0 where the page is no copy
    """
    none = title == NO_TITLE
    # Where there are two titles, they must not differ, or the texts must be long.
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
    """The most features that two pages share, as far as their sketches can tell."""
    error = math.sqrt((1.0 - jaccard * jaccard) / (64 * pages.sketch.shape[1]))
    high = min(1.0, jaccard + SURPRISE * error)
    return high * (one + another) / (1.0 + high)
