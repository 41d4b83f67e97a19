"""Finds the distinctive text of a page by its host memory, and lays out the columns by which pages are compared.

Distinctive text is the part of a page that stands on few pages of its host: block fingerprints that are not template
text, and title words that are not common on the host. `Texts` holds the columns, for the pages of a record and for
indexed pages.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import ITEM_COUNT_BITS, WORD_COUNT_BITS
from spotsieve.stream.base.jit import inlined
from spotsieve.stream.base.signature import OwnText, Signatures
from spotsieve.stream.judge.by_host import thresholds
from spotsieve.stream.judge.by_host.memory import common_limit, pages_with, template_limit
from spotsieve.stream.sign.features.block_fingerprints import (
    CLASS_MASK,
    CLASS_WEIGHTS,
    IDENTITY_SHIFT,
    KEPT,
    MOST_FINGERPRINTS,
    NUMBER,
)
from spotsieve.stream.sign.fingerprints.simhash import count_bits
from spotsieve.stream.sign.text.html.skips import MOST_TITLE_WORDS

TENTHS, _LEFT_OUT_TENTHS = 10, 4
"""The weight of a word, in tenths: of a main text block, and of a boilerplate block."""
_WEIGHTS = CLASS_WEIGHTS.astype(np.int64)
NO_TITLE = thresholds.NONE
PAGES, LIMIT, LISTED, TEMPLATE, OWN, OWN_PRINTS, OWN_TEXTS, OWN_NUMBERS, RARE = range(9)
"""Places in the figures of HostLookup."""
_TEMPLATE_MARKS, _COMMON_MARKS = 64, 2**16 // 64
"""The size, in 64-bit words, of the bit sets of HostLookup: 4,096 bits for several hundred identities, and one bit for
each title word."""


class HostFigures(NamedTuple):
    """A page by its host memory, in figures for people.

    pages: number of pages that taught the host
    limit: a block fingerprint on more pages than this is template text
    template_share: share of the page's listed main text that is template text
    own_words: words of the page's distinctive text
    rare_title_words: number of title words that are not common on the host
    """

    pages: int
    limit: float
    template_share: float
    own_words: float
    rare_title_words: int


class HostLookup(NamedTuple):
    """The text of the page that is being judged, by its host memory.

    figures: float64[9], by PAGES, LIMIT, ...: pages of the host; the limit of template text; words of the page's listed
    main text; words of it that are template text; tenths of words of its distinctive text; number of its distinctive
    block fingerprints, of those for main text, and of those for numbers in main text; number of its rare title words
    template: bool[MOST_FINGERPRINTS], whether each block fingerprint of the page is template text
    rare: uint16[MOST_TITLE_WORDS], the rare title words of the page
    templates: uint64[_TEMPLATE_MARKS], a bit set of the identities that are template text of the host, by their lowest
    bits. Most block fingerprints are not in it, and need no search in the host memory.
    commons: uint64[_COMMON_MARKS], a bit set of the title words that are common on the host
    """

    figures: NDArray[np.float64]
    template: NDArray[np.bool_]
    rare: NDArray[np.uint16]
    templates: NDArray[np.uint64]
    commons: NDArray[np.uint64]


def new_lookup() -> HostLookup:
    """An empty lookup."""
    marks = np.zeros(_TEMPLATE_MARKS, np.uint64), np.zeros(_COMMON_MARKS, np.uint64)
    return HostLookup(np.zeros(9), np.zeros(MOST_FINGERPRINTS, np.bool_), np.zeros(MOST_TITLE_WORDS, np.uint16), *marks)


def host_figures(asked: HostLookup) -> HostFigures:
    """The figures of the page that was looked up last."""
    figures = asked.figures.tolist()
    share = figures[TEMPLATE] / figures[LISTED] if figures[LISTED] else 0.0
    return HostFigures(int(figures[PAGES]), figures[LIMIT], share, figures[OWN] / TENTHS, int(figures[RARE]))


@inlined
def words_of(value):  # uint32 -> int64
    """The number of words that a block fingerprint stands for."""
    return _WEIGHTS[value & CLASS_MASK]


@inlined
def tenths_of(value):  # uint32 -> int64
    """The weight of a block fingerprint, in tenths of words."""
    return words_of(value) * (TENTHS if value & KEPT else _LEFT_OUT_TENTHS)


@inlined
def is_kept_text(value):  # uint32 -> bool
    """Whether a block fingerprint stands for the text, not the numbers, of a main text block."""
    return value & KEPT != 0 and value & NUMBER == 0


@inlined
def is_kept_number(value):  # uint32 -> bool
    """Whether a block fingerprint stands for the numbers of a main text block."""
    return value & KEPT != 0 and value & NUMBER != 0


@inlined
def _mark(rows, row, used, limit, count_bits, marks):  # limit: float64  ->  marks: uint64[m], m = 2^k
    """Mark the items that stand on more pages than the limit.

    rows: uint32[h, m], items or words; the first `used` elements of the row count
    count_bits: int64, number of low bits that hold the count
    """
    marks[:] = 0
    most, counts = np.int64(np.floor(limit)), (np.int64(1) << count_bits) - 1
    for place in range(used):
        value = np.int64(rows[row, place])
        if value & counts > most:
            at = value >> count_bits
            marks[(at >> 6) & (len(marks) - 1)] |= np.uint64(1) << np.uint64(at & 63)


@inlined
def _is_marked(marks, wanted):  # uint64[m], int64 -> bool
    return (marks[(wanted >> 6) & (len(marks) - 1)] >> np.uint64(wanted & 63)) & np.uint64(1) != 0


@inlined
def is_template(asked, memory, row, value):  # HostLookup, Memory, int64, uint32 -> bool
    """Whether a block fingerprint is template text on the host of the page that was looked up last."""
    identity = np.int64(value) >> IDENTITY_SHIFT
    if not _is_marked(asked.templates, identity):
        return False
    return pages_with(memory.items, row, memory.item_count[row], identity, ITEM_COUNT_BITS) > asked.figures[LIMIT]


@inlined
def look_up(pages, page, memory, row, share, asked):  # Texts, int64, Memory, int64, float64  ->  asked: HostLookup
    """Look up which text of a page is currently template text of its host. share: HostThresholds.template_share"""
    figures = asked.figures
    known = memory.pages[row]
    limit = template_limit(known, share)
    for place in range(len(figures)):
        figures[place] = 0.0
    figures[PAGES], figures[LIMIT] = known, limit
    _mark(memory.items, row, memory.item_count[row], limit, ITEM_COUNT_BITS, asked.templates)
    _mark(memory.words, row, memory.word_count[row], common_limit(known), WORD_COUNT_BITS, asked.commons)
    first = pages.print_first[page]
    for place in range(first, pages.print_end[page]):
        value = pages.prints[place]
        template = is_template(asked, memory, row, value)
        asked.template[place - first] = template
        if is_kept_text(value):
            figures[LISTED] += words_of(value)
            figures[TEMPLATE] += words_of(value) if template else 0
        if not template:
            figures[OWN] += tenths_of(value)
            figures[OWN_PRINTS] += 1
            figures[OWN_TEXTS] += is_kept_text(value)
            figures[OWN_NUMBERS] += is_kept_number(value)
    rare = np.int64(0)
    for place in range(pages.title_first[page], pages.title_end[page]):
        word = pages.titles[place]
        if not _is_marked(asked.commons, np.int64(word)):
            asked.rare[rare] = word
            rare += 1
    figures[RARE] = rare


@inlined
def listed_words(asked):  # HostLookup -> int64
    """The number of words in the page's listed main text."""
    return np.int64(asked.figures[LISTED])


@inlined
def template_share(asked):  # HostLookup -> float64
    """The share of the page's listed main text that is template text."""
    listed = asked.figures[LISTED]
    return asked.figures[TEMPLATE] / listed if listed > 0 else 0.0


@inlined
def title_overlap(others, other, asked):  # Texts, int64, HostLookup -> float64
    """The Jaccard similarity of both titles' rare words; NO_TITLE if neither title has one."""
    mine, theirs, both = np.int64(asked.figures[RARE]), np.int64(0), np.int64(0)
    for place in range(others.title_first[other], others.title_end[other]):
        word = others.titles[place]
        if not _is_marked(asked.commons, np.int64(word)):
            theirs += 1
            for rare in range(mine):
                both += asked.rare[rare] == word
    return both / (mine + theirs - both) if mine + theirs > 0 else NO_TITLE


class Texts(NamedTuple):
    """The columns by which c pages are compared.

    host: uint64[c]
    length: uint32[c], number of features
    sketch: uint64[c, w]
    site: uint16[c], equal for hosts of one site; 0 if unknown
    share: uint8[c], share of the listed main text that is template text, in 255ths
    listed: uint16[c], number of words in the listed main text
    prints: uint32[p], block fingerprints, of page i prints[print_first[i]:print_end[i]]; print_first, print_end:
    int64[c]
    titles: uint16[t], title words, of page i titles[title_first[i]:title_end[i]]; title_first, title_end: int64[c]
    """

    host: NDArray[np.uint64]
    length: NDArray[np.uint32]
    sketch: NDArray[np.uint64]
    site: NDArray[np.uint16]
    share: NDArray[np.uint8]
    listed: NDArray[np.uint16]
    prints: NDArray[np.uint32]
    print_first: NDArray[np.int64]
    print_end: NDArray[np.int64]
    titles: NDArray[np.uint16]
    title_first: NDArray[np.int64]
    title_end: NDArray[np.int64]


def texts_of(signatures: Signatures) -> Texts:
    """The columns of a record's pages, before their template text is known."""
    count, prints, titles = len(signatures), signatures.prints_bounds, signatures.titles_bounds
    return Texts(
        np.ascontiguousarray(signatures.host, np.uint64),
        np.ascontiguousarray(signatures.feature_count, np.uint32),
        np.ascontiguousarray(signatures.sketch, np.uint64),
        np.ascontiguousarray(signatures.site, np.uint16),
        np.zeros(count, np.uint8),
        np.zeros(count, np.uint16),
        np.ascontiguousarray(signatures.prints, np.uint32),
        prints[:-1].copy(),
        prints[1:].copy(),
        np.ascontiguousarray(signatures.titles, np.uint16),
        titles[:-1].copy(),
        titles[1:].copy(),
    )


def texts_of_entries(
    host: NDArray[np.uint64], length: NDArray[np.uint32], sketch: NDArray[np.uint64], own: OwnText
) -> Texts:
    """The columns of indexed pages."""
    return Texts(
        np.ascontiguousarray(host, np.uint64),
        np.ascontiguousarray(length, np.uint32),
        np.ascontiguousarray(sketch, np.uint64),
        own.site,
        own.share,
        own.listed,
        own.prints,
        own.print_bounds[:-1].copy(),
        own.print_bounds[1:].copy(),
        own.titles,
        own.title_bounds[:-1].copy(),
        own.title_bounds[1:].copy(),
    )


@inlined
def estimated_jaccard(pages, page, others, other):  # Texts, int64, Texts, int64 -> float64
    """The Jaccard similarity of two main texts, estimated from their sketches (Yuan et al. 2012, sec. 3)."""
    differing = np.int64(0)
    for word in range(pages.sketch.shape[1]):
        differing += count_bits(pages.sketch[page, word] ^ others.sketch[other, word])
    return max(1.0 - 2.0 * differing / (64 * pages.sketch.shape[1]), 0.0)
