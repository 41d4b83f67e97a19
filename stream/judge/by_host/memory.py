"""Host memory: on how many pages of a host each block and each title word stands, which defines template text.

    template text: a block on at least min(max(3, template_share * n), 10) pages of a host
    common:        a title word on more than min(max(2, 0.3 n), 20) pages

Here n is the number of pages of the host. Every page in the log that has text is counted, whatever its verdict: a
verdict that kept a page from being counted would hide the template text that the next verdict needs.

Pages are counted by their URLs and by their texts, and the smaller number holds. So a page that is crawled ten times
counts once, also under ten session ids, and so do ten copies of one text. Both numbers are estimated by linear counting
(Whang et al. 1990): each item has two sketches of COUNT_BITS bits, in which every URL and every text sets one bit.
Equal pages set equal bits. A host has two sketches of HOST_BITS bits, and a page's bit of an item follows from that of
the host. So the sketches of a host tell how many pages an item on all of them would count. By chance, the first pages
of a host may set so few bits of an item that it is not template text yet: then the host does not count as known.

A memory is bounded. It has room for RARE_ITEMS blocks and for the recurring ones: those on LEAST_TEMPLATE pages and
more. If it is full, a new item replaces one that was seen on the fewest pages, and inherits this number as its error,
as in Space-Saving (Metwally et al. 2005): an item that was counted on more than N / room pages is in the memory, where
N is the sum of the numbers of all items that were ever counted. A page of many new blocks would replace all that pages
before it brought, and no block would be seen twice. So one page replaces at most MOST_REPLACED blocks, chosen by its
text: a block that recurs is chosen sooner or later, as in sticky sampling (Manku, Motwani 2002, sec. 4.1), and then
counted.

An error has four bits. When it would be larger than _MOST_ERROR, all errors are reduced instead, so items that are not
seen any more go on to leave. Items on more than _MOST_ERROR pages stay then, and the others share the rest of the room.
A hand that goes round finds the item to replace, so equal items leave in the order in which they came, and no order
depends on their identities.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.format.host_memory import MAX_FLOOR, MAX_ITEMS, MAX_WORDS
from spotsieve.state.index import HostMemories
from spotsieve.stream.base.jit import inlined, kernel, part
from spotsieve.stream.base.page_text import IDENTITY_BITS
from spotsieve.stream.sign.fingerprints.simhash import count_bits

ITEM_ROOM, WORD_ROOM = MAX_ITEMS, MAX_WORDS
"""The most blocks and title words of a host's memory."""
RARE_ITEMS, MOST_REPLACED = 768, 32
"""The room for blocks beside the recurring ones, and the most blocks of a full memory that one page replaces."""
COUNT_BITS, HOST_BITS = 12, 64
"""The sizes of the sketches of an item and of a host."""
ITEM_BITS = 28
"""The size of an item's identity: its highest bits in a memory."""
_ERROR_SHIFT, _URLS_SHIFT = 2 * COUNT_BITS, COUNT_BITS
_IDENTITY_SHIFT = _ERROR_SHIFT + 4
_MOST_ERROR = MAX_FLOOR
_SKETCH = np.int64((1 << COUNT_BITS) - 1)
BLOCK_TO_ITEM = IDENTITY_BITS - ITEM_BITS
LEAST_TEMPLATE, MOST_TEMPLATE = 3.0, 10.0
"""In pages: a block on fewer than LEAST_TEMPLATE pages is not template text; on MOST_TEMPLATE pages it is."""
COMMON_SHARE, LEAST_COMMON, MOST_COMMON = 0.3, 2.0, 20.0
"""The share of pages above which a title word is common, and the bounds of this limit, in pages."""


def _estimates(bits: int) -> NDArray[np.float64]:
    """The estimated number of values that set k of `bits` bits, by k (Whang et al. 1990, sec. 2.1)."""
    occupied = np.arange(bits)
    return np.append(-bits * np.log1p(-occupied / bits), 2.0 * bits * np.log(bits))


_BY_BITS, _PAGES_BY_BITS = np.floor(_estimates(COUNT_BITS) + 0.5).astype(np.int64), _estimates(HOST_BITS)
MOST_HOST_PAGES = round(float(_PAGES_BY_BITS[-1]))
"""The number of pages that stands for this and for all greater numbers."""


class Counts(NamedTuple):
    """Bounded counts of h hosts, for kernels: of blocks, or of title words.

    rare, most: int64, the most items of a host: `rare` beside the recurring ones, and `most` in all
    recurring: int64[h], the number of items on at least LEAST_TEMPLATE pages
    first: int64[h + 1], the first slot of each host
    items: uint64[first[h]], as in HostMemories  used: int64[h], number of slots in use
    hand, floor: int64[h], where the search for an item to replace goes on, and the number of pages it looks for
    heads: int32[...], the first slot of each chain, -1: none; those of host i begin at head_first[i]: int64[h + 1]
    following: int32[first[h]], the next slot of a chain, -1: none
    """

    rare: np.int64
    most: np.int64
    recurring: NDArray[np.int64]
    first: NDArray[np.int64]
    items: NDArray[np.uint64]
    used: NDArray[np.int64]
    hand: NDArray[np.int64]
    floor: NDArray[np.int64]
    heads: NDArray[np.int32]
    head_first: NDArray[np.int64]
    following: NDArray[np.int32]


class Memory(NamedTuple):
    """The memories of the h hosts of a record, for kernels.

    hosts: uint64[h], ascending
    urls, texts: uint64[h], sketches of the URLs and texts of a host's pages
    last: int64[h], the next entry number when the host last learned  changed: bool[h]
    blocks, words: counts of blocks and of title words
    """

    hosts: NDArray[np.uint64]
    urls: NDArray[np.uint64]
    texts: NDArray[np.uint64]
    last: NDArray[np.int64]
    changed: NDArray[np.bool_]
    blocks: Counts
    words: Counts


def load_memories(memories: HostMemories, new_blocks: NDArray[np.int64], new_words: NDArray[np.int64]) -> Memory:
    """Lay out the stored memories of h hosts.

    new_blocks, new_words: int64[h], upper bounds of the blocks and title words that the record adds to each host
    """
    laid: Memory = lay_out(memories, new_blocks, new_words)
    return laid


@kernel
def lay_out(memories, new_blocks, new_words):
    """Lay out the stored memories of h hosts, with room for new blocks and title words."""
    # memories: HostMemories of h hosts  new_blocks, new_words: int64[h]  ->  Memory
    item_bounds, word_bounds = memories.item_bounds, memories.word_bounds
    blocks = _counts_of(item_bounds, new_blocks, RARE_ITEMS, ITEM_ROOM, memories.item_hand, memories.item_floor)
    words = _counts_of(word_bounds, new_words, WORD_ROOM, WORD_ROOM, memories.word_hand, memories.word_floor)
    for row in range(len(memories.hosts)):
        for place in range(memories.item_bounds[row], memories.item_bounds[row + 1]):
            _put(blocks, row, place - memories.item_bounds[row], memories.items[place])
        for place in range(memories.word_bounds[row], memories.word_bounds[row + 1]):
            _put(words, row, place - memories.word_bounds[row], memories.words[place])
    changed = np.zeros(len(memories.hosts), np.bool_)
    last = memories.last.astype(np.int64)
    return Memory(memories.hosts, memories.urls.copy(), memories.texts.copy(), last, changed, blocks, words)


@part
def _counts_of(bounds, added, rare, most, hand, floor):
    # bounds: int64[h + 1], of the stored items  added: int64[h]  rare, most: int64  hand: uint16[h]  floor: uint8[h]
    # ->  Counts without items
    hosts = len(added)
    used, first, head_first = np.empty(hosts, np.int64), np.zeros(hosts + 1, np.int64), np.zeros(hosts + 1, np.int64)
    for row in range(hosts):
        used[row] = bounds[row + 1] - bounds[row]
        slots, heads = min(used[row] + added[row], np.int64(most)), np.int64(1)
        while heads < slots:
            heads *= 2
        first[row + 1], head_first[row + 1] = first[row] + slots, head_first[row] + heads
    return Counts(
        np.int64(rare),
        np.int64(most),
        np.zeros(hosts, np.int64),
        first,
        np.zeros(first[hosts], np.uint64),
        used,
        hand.astype(np.int64),
        floor.astype(np.int64),
        np.full(head_first[hosts], np.int32(-1), np.int32),
        head_first,
        np.full(first[hosts], np.int32(-1), np.int32),
    )


def memories_to_store(memory: Memory) -> HostMemories:
    """The memories of the hosts that have learned, as the state stores them."""
    stored: HostMemories = changed_memories(memory)
    return stored


@kernel
def changed_memories(memory):  # Memory -> HostMemories
    """The memories of the hosts that have learned, as the state stores them."""
    return HostMemories(*changed_columns(memory))


@part
def changed_columns(memory):  # Memory -> the fields of HostMemories
    """The memories of the hosts that have learned, for Python to make a named tuple of them."""
    rows = memory.changed.nonzero()[0]
    blocks, words = memory.blocks, memory.words
    items, item_bounds = _used_slots(blocks, rows)
    of_words, word_bounds = _used_slots(words, rows)
    return (
        memory.hosts[rows],
        memory.urls[rows],
        memory.texts[rows],
        memory.last[rows].astype(np.uint64),
        blocks.hand[rows].astype(np.uint16),
        words.hand[rows].astype(np.uint16),
        blocks.floor[rows].astype(np.uint8),
        words.floor[rows].astype(np.uint8),
        items,
        item_bounds,
        of_words,
        word_bounds,
    )


@part
def _used_slots(counts, rows):
    # counts: Counts  rows: int64[r]  ->  the used slots of these rows: uint64[...], and their bounds: int64[r + 1]
    bounds = np.zeros(len(rows) + 1, np.int64)
    for at in range(len(rows)):
        bounds[at + 1] = bounds[at] + counts.used[rows[at]]
    column = np.empty(bounds[len(rows)], np.uint64)
    for at in range(len(rows)):
        first = counts.first[rows[at]]
        column[bounds[at] : bounds[at + 1]] = counts.items[first : first + counts.used[rows[at]]]
    return column, bounds


@inlined
def pages_of_host(memory, row):  # Memory, int64 -> float64
    """The number of pages of a host, estimated: exact for a few, at most some 500.

    At most LEAST_TEMPLATE while not even a block on all of them would be template text.
    """
    urls, texts = memory.urls[row], memory.texts[row]
    pages = min(_PAGES_BY_BITS[count_bits(urls)], _PAGES_BY_BITS[count_bits(texts)])
    of_block = min(_BY_BITS[count_bits(_bits_of_item(urls))], _BY_BITS[count_bits(_bits_of_item(texts))])
    return pages if of_block >= LEAST_TEMPLATE else min(pages, LEAST_TEMPLATE)


@inlined
def sketch_bit(value):  # uint64, hash of a URL or text -> uint64
    """The bit of a page in a sketch of its host. In a sketch of an item it is this modulo COUNT_BITS."""
    return value >> np.uint64(58)


@inlined
def _bits_of_item(sketch):  # uint64, of a host -> uint64
    """The sketch of an item on all pages of a host."""
    bits = np.uint64(0)
    for shift in range(0, HOST_BITS, COUNT_BITS):
        bits |= sketch >> np.uint64(shift) & np.uint64(_SKETCH)
    return bits


@inlined
def template_limit(pages, share):  # float64, float64 -> float64
    """The number of pages from which a block is template text. pages: of the host"""
    return max(LEAST_TEMPLATE, min(MOST_TEMPLATE, share * pages))


@inlined
def common_limit(pages):  # float64 -> float64
    """The maximum number of pages whose titles contain a word that is not common. pages: of the host"""
    return min(max(LEAST_COMMON, COMMON_SHARE * pages), MOST_COMMON)


@inlined
def pages_with(counts, row, identity):  # Counts, int64, int64 -> int64
    """The number of a host's pages that contain a block or title word, estimated; 0 if it is not remembered."""
    slot = slot_of(counts, row, identity)
    return np.int64(0) if slot < 0 else _pages_of(counts.items[counts.first[row] + slot])


@inlined
def count_page(counts, row, identity, url, text):  # Counts, int64, int64, uint64, uint64  ->  counts
    """Count a page for one of its blocks or title words. url, text: hashes of its URL and text"""
    sketches = np.uint64(1) << (sketch_bit(url) % np.uint64(COUNT_BITS) + np.uint64(_URLS_SHIFT))
    sketches |= np.uint64(1) << sketch_bit(text) % np.uint64(COUNT_BITS)
    slot = slot_of(counts, row, identity)
    if slot < 0:
        error = np.int64(0)
        if counts.used[row] < room_of(counts, row):
            slot = counts.used[row]
            counts.used[row] += 1
        else:
            slot = _slot_to_replace(counts, row)
            _take_out(counts, row, slot)
            error = counts.floor[row]
        _put(counts, row, slot, np.uint64(identity << _IDENTITY_SHIFT | error << _ERROR_SHIFT))
    place = counts.first[row] + slot
    before = _pages_of(counts.items[place])
    counts.items[place] |= sketches
    counts.recurring[row] += before < LEAST_TEMPLATE <= _pages_of(counts.items[place])


@inlined
def room_of(counts, row):  # Counts, int64 -> int64
    """The most items of a host. It may have more: room shrinks when a recurring item leaves."""
    return min(counts.rare + counts.recurring[row], counts.most)


@inlined
def _pages_of(item):  # uint64 -> int64
    """The number of pages of an item, by the smaller of both estimates."""
    value = np.int64(item)
    urls, texts = value >> _URLS_SHIFT & _SKETCH, value & _SKETCH
    return min(_BY_BITS[count_bits(np.uint64(urls))], _BY_BITS[count_bits(np.uint64(texts))])


@inlined
def _error_of(item):  # uint64 -> int64
    """The most pages that may have shown an item before it was remembered, less what it aged."""
    return np.int64(item >> np.uint64(_ERROR_SHIFT)) & _MOST_ERROR


@inlined
def _head_of(counts, row, identity):  # Counts, int64, int64 -> int64
    """The place of the chain that contains an item, if it is remembered. Identities are hashes already."""
    first = counts.head_first[row]
    return first + (identity & (counts.head_first[row + 1] - first - 1))


@inlined
def slot_of(counts, row, identity):  # Counts, int64, int64 -> int64
    """The slot of an item among those of its host, or -1."""
    first = counts.first[row]
    slot = np.int64(counts.heads[_head_of(counts, row, identity)])
    while slot >= 0 and np.int64(counts.items[first + slot] >> np.uint64(_IDENTITY_SHIFT)) != identity:
        slot = np.int64(counts.following[first + slot])
    return slot


@inlined
def _put(counts, row, slot, item):  # Counts, int64, int64, uint64  ->  counts
    """Write an item into a slot, and put it into its chain."""
    first = counts.first[row]
    head = _head_of(counts, row, np.int64(item >> np.uint64(_IDENTITY_SHIFT)))
    counts.recurring[row] += _pages_of(item) >= LEAST_TEMPLATE
    counts.items[first + slot] = item
    counts.following[first + slot] = counts.heads[head]
    counts.heads[head] = np.int32(slot)


@inlined
def _take_out(counts, row, slot):  # Counts, int64, int64  ->  counts
    """Take the item of a slot out of its chain."""
    first = counts.first[row]
    counts.recurring[row] -= _pages_of(counts.items[first + slot]) >= LEAST_TEMPLATE
    head = _head_of(counts, row, np.int64(counts.items[first + slot] >> np.uint64(_IDENTITY_SHIFT)))
    at = np.int64(counts.heads[head])
    if at == slot:
        counts.heads[head] = counts.following[first + slot]
        return
    while counts.following[first + at] != slot:
        at = np.int64(counts.following[first + at])
    counts.following[first + at] = counts.following[first + slot]


@inlined
def _slot_to_replace(counts, row):  # Counts, int64 -> int64;  ->  counts.hand, counts.floor, counts.items
    """The slot of the next item, from the hand on, that was seen on the fewest pages."""
    first, used = counts.first[row], counts.used[row]
    while True:
        fewest, rarest = np.int64(1 << 30), np.int64(0)
        for _ in range(used):
            slot = counts.hand[row]
            counts.hand[row] = slot + 1 if slot + 1 < used else 0
            item = counts.items[first + slot]
            pages = _pages_of(item) + _error_of(item)
            if pages <= counts.floor[row]:
                return slot
            if pages < fewest:
                fewest, rarest = pages, slot
        counts.floor[row] = min(fewest, np.int64(_MOST_ERROR))
        if fewest > _MOST_ERROR and not _age(counts, row, fewest - _MOST_ERROR):
            counts.hand[row] = rarest + 1 if rarest + 1 < used else 0
            return rarest


@inlined
def _age(counts, row, pages):  # Counts, int64, int64 -> bool;  ->  counts.items
    """Reduce the error of every item of a host by this number of pages; whether any item had one."""
    first, aged = counts.first[row], False
    for place in range(first, first + counts.used[row]):
        less = min(_error_of(counts.items[place]), pages)
        counts.items[place] -= np.uint64(less << _ERROR_SHIFT)
        aged |= less > 0
    return aged
