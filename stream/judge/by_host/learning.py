"""Teaches hosts from pages, and selects what an entry stores of a page.

This happens while pages are judged, and again without judging (learn_again).
"""

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import NOBODY
from spotsieve.stream.base.jit import inlined, kernel
from spotsieve.stream.base.signature import FINGERPRINTED, OwnText, Signatures
from spotsieve.stream.judge.by_host.distinctive_text import (
    Texts,
    listed_words,
    look_up,
    new_lookup,
    template_share,
    texts_of,
)
from spotsieve.stream.judge.by_host.memory import Memory, teach
from spotsieve.stream.sign.features.block_fingerprints import IDENTITY_SHIFT, MOST_FINGERPRINTS
from spotsieve.stream.sign.text.html.skips import MOST_TITLE_WORDS

_MOST_LISTED = 65_535
TAUGHT_NOTHING, TAUGHT_ALL, TAUGHT_REST = (np.uint8(how) for how in range(3))
"""What a page taught its host: nothing, all its text, or only the text that its original lacks (the page is a sure
copy)."""


def empty_own_texts(pages: Texts) -> Texts:
    """The pages as their entries store them, before their distinctive text is known."""
    return pages._replace(prints=pages.prints.copy(), print_end=pages.print_first.copy())


def learn_again(
    signatures: Signatures,
    row: NDArray[np.int64],
    memory: Memory,
    taught: NDArray[np.uint8],
    entry: NDArray[np.int64],
    original_row: NDArray[np.int64],
    indexed: Texts,
    place: NDArray[np.int64],
    template_from: float,
    first_number: int,
) -> Texts:
    """Teach the hosts again what the pages of a record taught them, without judging  ->  memory.

    Returns the texts of the indexed pages as their entries store them (HostResolution.within).
    row: int64[n], the row of each page's host in memory; NOBODY if another shard remembers the host
    taught: uint8[n] (TAUGHT_NOTHING, ...)
    entry: int64[n], entry numbers of indexed pages, or NOBODY
    original_row: int64[n], for sure copies: the original's place in the record, or NOBODY
    place: int64[n], for sure copies whose original is not in the record: its place in `indexed`
    template_from: the share of a host's pages above which text is template text (HostThresholds.template_share)
    first_number: entry number of the first page that is indexed
    """
    pages, judged = texts_of(signatures), signatures.status == FINGERPRINTED
    within = empty_own_texts(pages)
    _learn_kernel(
        pages,
        row,
        judged,
        taught,
        entry,
        within,
        original_row,
        indexed,
        place,
        memory,
        template_from,
        first_number,
        new_lookup(),
    )
    return within


def owned_texts(signatures: Signatures, within: Texts, pages: NDArray[np.int64]) -> OwnText:
    """The distinctive text that the entries of these pages store.

    within: the pages as their entries store them
    pages: int64[f], rows
    """
    bounds = signatures.titles_bounds
    return OwnText(
        signatures.site[pages],
        within.share[pages],
        within.listed[pages],
        *_runs(within.prints, within.print_first, within.print_end, pages),
        *_runs(signatures.titles, bounds[:-1], bounds[1:], pages),
    )


@kernel
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


@inlined
def keep_own(pages, own, page, asked):  # Texts, Texts, int64, HostLookup  ->  own: Texts
    """Store the distinctive text of a page that is indexed, and the template share of its main text."""
    first = pages.print_first[page]
    end = first
    for place in range(first, pages.print_end[page]):
        if not asked.template[place - first]:
            own.prints[end] = pages.prints[place]
            end += 1
    own.print_end[page] = end
    own.share[page] = np.uint8(np.floor(template_share(asked) * 255.0 + 0.5))
    own.listed[page] = np.uint16(min(listed_words(asked), _MOST_LISTED))


@inlined
def skip_shared(pages, page, others, original, asked, skipped):
    """Select the text that a sure copy does not teach: template text, and the distinctive text of its original.

    pages, others: Texts
    page, original: int64, places in them
    asked: HostLookup
    -> skipped: bool[MOST_FINGERPRINTS]
    """
    at, end = others.print_first[original], others.print_end[original]
    first = pages.print_first[page]
    for place in range(first, pages.print_end[page]):
        identity = np.int64(pages.prints[place]) >> IDENTITY_SHIFT
        while at < end and np.int64(others.prints[at]) >> IDENTITY_SHIFT < identity:
            at += 1
        has = at < end and np.int64(others.prints[at]) >> IDENTITY_SHIFT == identity
        skipped[place - first] = has or asked.template[place - first]


@inlined
def teach_page(memory, row, pages, page, sure, skipped, no_word, number, is_indexed):
    """Teach the host from a page. A sure copy teaches only the fingerprints that are not skipped.

    sure: bool
    skipped: bool[MOST_FINGERPRINTS]; read for sure copies, overwritten for other pages
    number: int64, the page's entry number, or the next one if it is not indexed
    The other parameters are those of `teach`.
    """
    if not sure:
        skipped[:] = False
    teach(
        memory,
        row,
        pages.prints,
        pages.print_first[page],
        pages.print_end[page],
        pages.titles,
        pages.title_first[page],
        pages.title_end[page],
        skipped,
        no_word,
        not sure,
        number,
        is_indexed,
    )


@kernel
def _learn_kernel(
    pages, row, judged, taught, entry, within, original_row, indexed, place, memory, share, number, asked
):
    # pages, within, indexed: Texts  row: int64[n], of each page's host, NOBODY if another shard remembers it  judged:
    # bool[n]  taught: uint8[n]  entry, original_row, place: int64[n], the parameters of learn_again  share: float64
    # number: int64  asked: overwritten
    # -> within, memory
    skipped, no_word = np.zeros(MOST_FINGERPRINTS, np.bool_), np.zeros(MOST_TITLE_WORDS, np.bool_)
    for page in range(len(row)):
        is_indexed = entry[page] != NOBODY
        if row[page] != NOBODY and judged[page] and (is_indexed or taught[page] != TAUGHT_NOTHING):
            look_up(pages, page, memory, row[page], share, asked)
            if is_indexed:
                keep_own(pages, within, page, asked)
            if taught[page] != TAUGHT_NOTHING:
                sure = taught[page] == TAUGHT_REST
                if sure:
                    skipped[:] = False
                    if original_row[page] != NOBODY:
                        skip_shared(pages, page, within, original_row[page], asked, skipped)
                    else:
                        skip_shared(pages, page, indexed, place[page], asked, skipped)
                teach_page(memory, row[page], pages, page, sure, skipped, no_word, number, is_indexed)
        number += is_indexed
