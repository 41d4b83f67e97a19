"""Remembers hosts: on how many of its pages each block and each word of a title stands, so what is template there.

Every page in the log that has prints teaches its host, whatever its verdict, with two exceptions. The same bytes again
teach nothing. A copy that is sure teaches only what its original lacks, and is not counted: a page that is crawled ten
times makes nothing a template.

    template: a print on more pages than min(max(2, template_share * n), 10), of the n pages that taught the host
    common:   a title word on more pages than min(max(1, .3 n), 100)

So both depend on the pages before, in the order of the log, and on nothing else. The caps are for large hosts of many
sections. A memory is bounded: where it holds more items than it has room for, those of the least counts go until
three quarters are used (the same for words). Counts stay at their greatest value.

A host that one filed page has taught is a lead: its entry has all that the memory would hold, and stands for it.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.index import ITEM_COUNT_BITS, NOBODY, WORD_COUNT_BITS, HostMemories, StateView
from spotsieve.stream.base.arrays import bounds_of, sizes_of
from spotsieve.stream.base.jit import inlined, kernel
from spotsieve.stream.base.signature import OwnText
from spotsieve.stream.sign.features.block_fingerprints import IDENTITY_SHIFT, MOST_FINGERPRINTS
from spotsieve.stream.sign.text.html.skips import MOST_TITLE_WORDS

LEAST_ROOM, ROOM_A_PAGE, ROOM = 192, 5, 1024
"""Items of a host: so many for each page that taught it, within these bounds. A large host has many sections, each with
a template of its own, which few pages in a row show; a small one is not to cost more than its pages do."""
WORD_ROOM = 64
LEAST_TEMPLATE, MOST_TEMPLATE = 2.0, 10.0
"""Pages. A print on no more than LEAST_TEMPLATE pages is none of the template, one on more than MOST_TEMPLATE is."""
COMMON_SHARE, LEAST_COMMON, MOST_COMMON = 0.3, 1.0, 100.0
"""The same of the words of titles, with the share of pages between."""


class Memory(NamedTuple):
    """What is known of the h hosts of a record, as the kernels write it.

    hosts: uint64[h], ascending  pages, last, first: int64[h], as of HostMemories
    items: uint32[h, ROOM + MOST_FINGERPRINTS], item_count: int64[h]; words: uint32[h, ...], word_count: int64[h]: the
    first
    ones of a row are the host's own, laid out as in HostMemories  changed: bool[h]
    exclude: uint32[ROOM + MOST_FINGERPRINTS], written over
    """

    hosts: NDArray[np.uint64]
    pages: NDArray[np.int64]
    last: NDArray[np.int64]
    first: NDArray[np.int64]
    items: NDArray[np.uint32]
    item_count: NDArray[np.int64]
    words: NDArray[np.uint32]
    word_count: NDArray[np.int64]
    changed: NDArray[np.bool_]
    exclude: NDArray[np.uint32]


def load_memories(memories: HostMemories) -> Memory:
    """Lay out what the state knows of hosts; the entries of leads are still to be read (load_leads)."""
    count = len(memories.hosts)
    return Memory(
        memories.hosts,
        memories.pages.astype(np.int64),
        memories.last.astype(np.int64),
        memories.first.copy(),
        *_rows(memories.items, memories.item_bounds, ROOM + MOST_FINGERPRINTS),
        *_rows(memories.words, memories.word_bounds, WORD_ROOM + MOST_TITLE_WORDS),
        np.zeros(count, np.bool_),
        np.empty(ROOM + MOST_FINGERPRINTS, np.uint32),
    )


def live_leads(memories: HostMemories, view: StateView) -> NDArray[np.int64]:
    """The entries that stand for the memory of their host and are still there: int64[l]."""
    leads = memories.first[memories.first != NOBODY]
    alive = [found is not None for found in view.page_ids(leads.astype(np.uint64))] if len(leads) else []
    living: NDArray[np.int64] = leads[np.array(alive, np.bool_)]
    return living


def load_leads(memory: Memory, leads: NDArray[np.int64], place: NDArray[np.int64], own: OwnText) -> None:
    """Write what leads taught into the memory of their hosts: int64[l], those of live_leads.

    place: int64[l], where in `own` each one's entry is
    """
    at = dict(zip(leads.tolist(), place.tolist(), strict=True))
    for row in np.flatnonzero(memory.first != NOBODY).tolist():
        where = at.get(int(memory.first[row]))
        if where is not None:
            prints = own.prints[own.print_bounds[where] : own.print_bounds[where + 1]]
            words = own.titles[own.title_bounds[where] : own.title_bounds[where + 1]].astype(np.uint32)
            identities = prints >> np.uint32(IDENTITY_SHIFT)
            memory.items[row, : len(prints)] = identities << np.uint32(ITEM_COUNT_BITS) | np.uint32(1)
            memory.words[row, : len(words)] = words << np.uint32(WORD_COUNT_BITS) | np.uint32(1)
            memory.item_count[row], memory.word_count[row] = len(prints), len(words)


def memories_to_store(memory: Memory) -> HostMemories:
    """What the state is to know of the hosts that learned."""
    rows = np.flatnonzero(memory.changed)
    stored = memory.first[rows] == NOBODY
    item_bounds, word_bounds = bounds_of(memory.item_count[rows] * stored), bounds_of(memory.word_count[rows] * stored)
    return HostMemories(
        memory.hosts[rows],
        memory.pages[rows].astype(np.uint32),
        memory.last[rows].astype(np.uint64),
        memory.first[rows],
        _ragged(memory.items, rows, item_bounds),
        item_bounds,
        _ragged(memory.words, rows, word_bounds),
        word_bounds,
    )


def _rows(
    column: NDArray[np.uint32], bounds: NDArray[np.int64], width: int
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """A ragged column as rows of one width, and how much of each is used."""
    rows = np.empty((len(bounds) - 1, width), np.uint32)
    _spread(column, bounds, rows)
    return rows, sizes_of(bounds)


@kernel
def _spread(column, bounds, rows):
    # column: uint32[c]  bounds: int64[h + 1]  ->  rows: uint32[h, width], of each as much as it has
    for row in range(len(rows)):
        for place in range(bounds[row], bounds[row + 1]):
            rows[row, place - bounds[row]] = column[place]


@kernel
def _ragged(rows, which, bounds):
    # rows: uint32[h, width]  which: int64[r]  bounds: int64[r + 1]  ->  uint32[bounds[r]], the used parts of these rows
    column = np.empty(bounds[-1], np.uint32)
    for at in range(len(which)):
        for place in range(bounds[at], bounds[at + 1]):
            column[place] = rows[which[at], place - bounds[at]]
    return column


@inlined
def template_limit(pages, share):  # int64, float64 -> float64
    """The most pages of a host with n `pages` on which a print stands that is none of its template."""
    return min(max(LEAST_TEMPLATE, share * pages), MOST_TEMPLATE)


@inlined
def common_limit(pages):  # int64 -> float64
    """The same of a word of a title."""
    return min(max(LEAST_COMMON, COMMON_SHARE * pages), MOST_COMMON)


@inlined
def pages_with(rows, row, used, wanted, count_bits):  # uint32[h, m], int64, int64, int64, int64 -> int64
    """On how many pages `wanted`, an identity or a word, stands; rows: of items or words, the row's first `used`."""
    low, high = np.int64(0), used
    while low < high:
        middle = (low + high) >> 1
        if np.int64(rows[row, middle]) >> count_bits < wanted:
            low = middle + 1
        else:
            high = middle
    if low < used and np.int64(rows[row, low]) >> count_bits == wanted:
        return np.int64(rows[row, low]) & ((1 << count_bits) - 1)
    return np.int64(0)


@inlined
def count_in(rows, row, used, values, shift, first, end, skipped, count_bits, exclude):
    """Count one page more for each of values[first:end] >> shift, ascending, but for those that are skipped.

    rows, row, used, count_bits: as of pages_with  skipped: bool[...], by place from `first` on  exclude: as of Memory
    -> how much of the row is used: int64
    """
    most, one = (1 << count_bits) - 1, np.int64(1) << count_bits
    at, written = np.int64(0), np.int64(0)
    for place in range(first, end):
        if skipped[place - first]:
            continue
        wanted = np.int64(values[place]) >> shift
        while at < used and np.int64(rows[row, at]) >> count_bits < wanted:
            exclude[written] = rows[row, at]
            at += 1
            written += 1
        count = np.int64(0)
        if at < used and np.int64(rows[row, at]) >> count_bits == wanted:
            count = np.int64(rows[row, at]) & most
            at += 1
        exclude[written] = np.uint32(wanted * one + min(count + 1, most))
        written += 1
    while at < used:
        exclude[written] = rows[row, at]
        at += 1
        written += 1
    for place in range(written):
        rows[row, place] = exclude[place]
    return written


@inlined
def make_room(rows, row, used, room, count_bits):  # as of pages_with; int64 each -> int64
    """Remove what has the least counts until three quarters of `room` are used, if more are; -> how many stay."""
    least, most = np.int64(0), (1 << count_bits) - 1
    while used > room or (least > 0 and 4 * used > 3 * room):
        least += 1
        stay = np.int64(0)
        for place in range(used):
            if np.int64(rows[row, place]) & most > least:
                rows[row, stay] = rows[row, place]
                stay += 1
        used = stay
    return used


@inlined
def teach(memory, row, prints, first, end, titles, title_first, title_end, skipped, no_word, whole, number, indexed):
    """Have a page teach the host of a row.

    prints[first:end], titles[title_first:title_end]: of the page  skipped: bool[MOST_FINGERPRINTS], prints that it does
    not
    teach  no_word: bool[MOST_TITLE_WORDS], all False  whole: bool, it counts as a page and teaches its title's words
    number: int64, its entry number, or the next  indexed: bool
    """
    used = count_in(
        memory.items,
        row,
        memory.item_count[row],
        prints,
        IDENTITY_SHIFT,
        first,
        end,
        skipped,
        ITEM_COUNT_BITS,
        memory.exclude,
    )
    room = min(max(ROOM_A_PAGE * (memory.pages[row] + np.int64(whole)), LEAST_ROOM), ROOM)
    memory.item_count[row] = make_room(memory.items, row, used, room, ITEM_COUNT_BITS)
    memory.first[row] = number if indexed and whole and memory.pages[row] == 0 else NOBODY
    if whole:
        used = count_in(
            memory.words,
            row,
            memory.word_count[row],
            titles,
            0,
            title_first,
            title_end,
            no_word,
            WORD_COUNT_BITS,
            memory.exclude,
        )
        memory.word_count[row] = make_room(memory.words, row, used, WORD_ROOM, WORD_COUNT_BITS)
        memory.pages[row] += 1
    memory.last[row] = number
    memory.changed[row] = True
