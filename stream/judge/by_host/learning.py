"""Has pages teach their hosts, and says what an entry keeps of a page: as it is judged, and again without judging."""

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
"""What a page taught its host: nothing, all that it has, or only what its original lacks (it is a sure copy)."""


def empty_own_texts(pages: Texts) -> Texts:
    """Pages as entries keep them, of which it is not known yet what they own."""
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
    """Have the pages of a record teach their hosts again as they did, without judging  ->  memory; as of
    HostResolution.within.

    row: int64[n], of each page's host in memory, NOBODY where it is remembered elsewhere  taught: uint8[n]
    entry: int64[n], entry numbers of filed pages, or NOBODY  first_number: entry number of the first filed page
    original_row, place: int64[n], of sure copies, where the original is among the pages, else NOBODY, and in `indexed`
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
    """What the entries of these pages keep: int64[f], rows. within: as of _Record"""
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
    # column: [c]  first, end: int64[n]  rows: int64[r]  ->  column[first[i]:end[i]] of these rows i, one after the
    # other, and where each lies there: int64[r + 1]
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
    """Note what a page that is filed owns, and how much of what it keeps is template."""
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
    """What a sure copy does not teach: the template, and what its original owns.

    pages, others: Texts  page, original: int64, in these  asked: HostLookup  ->  skipped: bool[MOST_FINGERPRINTS]
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
    """Have a page teach its host, a sure copy only what is not skipped. As of teach, skipped may hold anything else"""
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
    # pages, within, indexed: Texts  row: int64[n], of each page's host, NOBODY of hosts that are remembered elsewhere
    # judged: bool[n]  taught: uint8[n]  entry, original_row, place: int64[n], as of learn_again  number: int64
    # asked: written over  ->  within, memory
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
