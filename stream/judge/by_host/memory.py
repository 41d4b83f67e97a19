"""Host memory: the number of a host's pages that contain each block and each title word, which defines template text.

Every page in the log that has block fingerprints teaches its host, whatever its verdict, with two exceptions. A page
with the same bytes as an earlier one teaches nothing. A sure copy teaches only the text that its original lacks, and is
not counted: otherwise a page that is crawled ten times would become template text.

    template text: a block fingerprint on more than min(max(2, template_share * n), 10) pages
    common:        a title word on more than min(max(1, 0.3 n), 100) pages

Here n is the number of pages that taught the host.

So both depend only on the earlier pages, in the order of the log. The upper bounds serve large hosts of many sections.
A memory is bounded: if it holds more items than it has room for, the items with the lowest counts are removed until
three quarters are used (the same for words). Counts stay at their maximum value.

If only one page has taught a host, and this page is indexed, its entry is the lead of the host: it holds all that the
memory would hold, and replaces it.
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
"""The number of items of a host: ROOM_A_PAGE for each page that taught it, at least LEAST_ROOM, at most ROOM. A large
host has many sections, each with template text of its own that few pages in a row contain. The memory of a small host
must not cost more than its pages."""
WORD_ROOM = 64
LEAST_TEMPLATE, MOST_TEMPLATE = 2.0, 10.0
"""In pages: a block fingerprint on at most LEAST_TEMPLATE pages is not template text; on more than MOST_TEMPLATE pages
it is."""
COMMON_SHARE, LEAST_COMMON, MOST_COMMON = 0.3, 1.0, 100.0
"""The share of pages above which a title word is common, and the bounds of this limit, in pages."""


class Memory(NamedTuple):
    """The memories of the h hosts of a record, in the form that the kernels write.

    hosts: uint64[h], ascending
    pages: int64[h], number of pages that taught the host
    last: int64[h], the next entry number when the host last learned
    first: int64[h], entry number of the lead, or NOBODY
    items: uint32[h, ROOM + MOST_FINGERPRINTS], item_count: int64[h]; the first item_count elements of a row are the
    host's, laid out like HostMemories.items
    words: uint32[h, WORD_ROOM + MOST_TITLE_WORDS], word_count: int64[h]; the same for title words
    changed: bool[h]
    exclude: uint32[ROOM + MOST_FINGERPRINTS], scratch space
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
    """Lay out the stored memories of hosts. The entries of leads are read later (load_leads)."""
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
    """The entry numbers of the leads that still exist: int64[l]."""
    leads = memories.first[memories.first != NOBODY]
    alive = [found is not None for found in view.page_ids(leads.astype(np.uint64))] if len(leads) else []
    living: NDArray[np.int64] = leads[np.array(alive, np.bool_)]
    return living


def load_leads(memory: Memory, leads: NDArray[np.int64], place: NDArray[np.int64], own: OwnText) -> None:
    """Write the text that leads taught into the memories of their hosts.

    leads: int64[l], from live_leads
    place: int64[l], the place of each lead's entry in `own`
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
    """The memories of the hosts that have learned, in the form that the state stores."""
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
    """A ragged column as rows of one width, and the used length of each row."""
    rows = np.empty((len(bounds) - 1, width), np.uint32)
    _spread(column, bounds, rows)
    return rows, sizes_of(bounds)


@kernel
def _spread(column, bounds, rows):
    # column: uint32[c]  bounds: int64[h + 1]
    # -> rows: uint32[h, width], the used part of each row
    for row in range(len(rows)):
        for place in range(bounds[row], bounds[row + 1]):
            rows[row, place - bounds[row]] = column[place]


@kernel
def _ragged(rows, which, bounds):
    # rows: uint32[h, width]  which: int64[r]  bounds: int64[r + 1]
    # -> uint32[bounds[r]], the used parts of these rows
    column = np.empty(bounds[-1], np.uint32)
    for at in range(len(which)):
        for place in range(bounds[at], bounds[at + 1]):
            column[place] = rows[which[at], place - bounds[at]]
    return column


@inlined
def template_limit(pages, share):  # int64, float64 -> float64
    """The maximum number of pages that contain a block fingerprint that is not template text. pages: of the host"""
    return min(max(LEAST_TEMPLATE, share * pages), MOST_TEMPLATE)


@inlined
def common_limit(pages):  # int64 -> float64
    """The maximum number of pages whose titles contain a word that is not common. pages: of the host"""
    return min(max(LEAST_COMMON, COMMON_SHARE * pages), MOST_COMMON)


@inlined
def pages_with(rows, row, used, wanted, count_bits):  # uint32[h, m], int64, int64, int64, int64 -> int64
    """The number of pages that contain `wanted`, an identity or a title word.

    rows: items or words of hosts; the first `used` elements of the row count
    count_bits: number of low bits of an element that hold its count
    """
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
    """Add one page to the counts of values[first:end] >> shift, ascending; -> the used length of the row: int64.

    rows: uint32[h, m], items or words; the first `used` elements of the row count
    skipped: bool[...], values that are not counted, by place from `first` on
    count_bits: int64, number of low bits of an element that hold its count
    exclude: scratch space of the size of a row
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
def make_room(rows, row, used, room, count_bits):  # uint32[h, m], int64, int64, int64, int64 -> int64
    """If more than `room` elements are used, remove the lowest counts until three quarters are; -> the used length."""
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
    """Teach the host of a row from a page.

    prints[first:end], titles[title_first:title_end]: block fingerprints and title words of the page
    skipped: bool[MOST_FINGERPRINTS], block fingerprints that the page does not teach
    no_word: bool[MOST_TITLE_WORDS], all False
    whole: bool, the page is counted and teaches its title words
    number: int64, the page's entry number, or the next one if it is not indexed
    indexed: bool
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
