"""Encodes and decodes the memories of hosts. state/FORMATS.md has the grammar.

    memory = 1 u8, last 5 bytes, first 5 bytes                                      a lead: one page, which is indexed
           | 2 u8, last 5 bytes, pages u32, items u16 (i), words u8 (w), (item u32)[i], (word 3 bytes)[w]
    item   = identity of a block fingerprint << 4 | count
    word   = title word << 8 | count

Most hosts have one page, so the first layout is short: its items and words are in the entry of that page. A memory has
no checksum of its own; RocksDB keeps one on every block. Decoding checks version, length, order and counts.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.format.buckets import NUMBER_BYTES, encode_keys, read_word, write_word
from spotsieve.state.index import ITEM_COUNT_BITS, NOBODY, WORD_COUNT_BITS, HostMemories
from spotsieve.stream.base.arrays import bounds_of, sizes_of
from spotsieve.stream.base.errors import CorruptRecord
from spotsieve.stream.base.jit import kernel

LEAD_VERSION = 1
"""Version of a lead: the memory of a host with one page, which is indexed."""
MEMORY_VERSION = 2
MAX_ITEMS, MAX_WORDS = 2**16 - 1, 2**8 - 1
_LEAD_BYTES = 1 + 2 * NUMBER_BYTES
_ITEM_BYTES, _WORD_BYTES = 4, 3
_SIZES_AT = 1 + NUMBER_BYTES + 4
_HEAD_BYTES = _SIZES_AT + 3
_RULE = (
    f"must be version {LEAD_VERSION} or {MEMORY_VERSION} and have the length that it declares, with pages, and with "
    "items and words that ascend and are counted"
)


def encode_memories(memories: HostMemories) -> list[bytes | None]:
    """Write the memories of h hosts -> h values, None for a host without a memory (0 pages).

    Raises ValueError if a memory has more items or words than a value has room for, or a lead has any.
    """
    items, words = sizes_of(memories.item_bounds), sizes_of(memories.word_bounds)
    lead = memories.first != NOBODY
    if (
        items.max(initial=0) > MAX_ITEMS
        or words.max(initial=0) > MAX_WORDS
        or (lead & ((items > 0) | (words > 0) | (memories.pages > 1))).any()
    ):
        raise ValueError(
            f"a memory must have at most {MAX_ITEMS} items and {MAX_WORDS} words, and no items or words while the "
            "entry of its only page stands for them"
        )
    sizes = np.where(lead, _LEAD_BYTES, _HEAD_BYTES + _ITEM_BYTES * items + _WORD_BYTES * words)
    ends = bounds_of(np.where(memories.pages > 0, sizes, 0))
    buffer = np.empty(ends[-1], np.uint8)
    _write_memories(*memories[1:], ends, buffer)
    raw = buffer.tobytes()
    return [raw[start:end] or None for start, end in pairwise(ends.tolist())]


def decode_memories(hosts: NDArray[np.uint64], values: Sequence[bytes | None]) -> HostMemories:
    """Read the values under hosts: uint64[h] -> h memories. None stands for a host without a memory.

    Raises CorruptRecord, which names the host.
    """
    raw = np.frombuffer(b"".join([value for value in values if value is not None]), np.uint8)
    ends = bounds_of([0 if value is None else len(value) for value in values])
    item_bounds, word_bounds = np.zeros_like(ends), np.zeros_like(ends)
    wrong = _measure_memories(raw, ends, item_bounds, word_bounds)
    memories = HostMemories(
        hosts,
        np.zeros(len(hosts), np.uint32),
        np.zeros(len(hosts), np.uint64),
        np.full(len(hosts), NOBODY, np.int64),
        np.empty(item_bounds[-1], np.uint32),
        item_bounds,
        np.empty(word_bounds[-1], np.uint32),
        word_bounds,
    )
    empty = next((place for place, value in enumerate(values) if value == b""), -1)
    if wrong < 0 and empty < 0:
        wrong = _read_memories(raw, ends, *memories[1:])
    if wrong >= 0 or empty >= 0:
        place = wrong if empty < 0 else empty
        raise CorruptRecord("hosts", encode_keys(hosts[place : place + 1])[0], _RULE)
    return memories


def last_learned(hosts: Sequence[bytes], values: Sequence[bytes]) -> NDArray[np.uint64]:
    """Read the `last` of b memories (HostMemories) -> uint64[b]. Raises CorruptRecord."""
    for host, value in zip(hosts, values, strict=True):
        if len(value) < _LEAD_BYTES or value[0] not in (LEAD_VERSION, MEMORY_VERSION):
            raise CorruptRecord("hosts", host, _RULE)
    return np.array([int.from_bytes(value[1 : 1 + NUMBER_BYTES], "little") for value in values], np.uint64)


@kernel
def _write_memories(pages, last, first, items, item_bounds, words, word_bounds, ends, buffer):
    # pages to word_bounds: the columns of HostMemories for h hosts  ends: int64[h + 1]  ->  buffer: uint8[ends[h]]
    for host in range(len(ends) - 1):
        at = ends[host]
        if pages[host] == 0:
            continue
        write_word(buffer, at + 1, NUMBER_BYTES, last[host])
        if first[host] != NOBODY:
            buffer[at] = LEAD_VERSION
            write_word(buffer, at + 1 + NUMBER_BYTES, NUMBER_BYTES, np.uint64(first[host]))
            continue
        its_items, its_words = item_bounds[host : host + 2], word_bounds[host : host + 2]
        buffer[at] = MEMORY_VERSION
        write_word(buffer, at + 1 + NUMBER_BYTES, 4, np.uint64(pages[host]))
        write_word(buffer, at + _SIZES_AT, 2, np.uint64(its_items[1] - its_items[0]))
        buffer[at + _SIZES_AT + 2] = its_words[1] - its_words[0]
        at += _HEAD_BYTES
        for place in range(its_items[0], its_items[1]):
            write_word(buffer, at, _ITEM_BYTES, np.uint64(items[place]))
            at += _ITEM_BYTES
        for place in range(its_words[0], its_words[1]):
            write_word(buffer, at, _WORD_BYTES, np.uint64(words[place]))
            at += _WORD_BYTES


@kernel
def _measure_memories(raw, ends, item_bounds, word_bounds):
    # raw: uint8[...]  ends: int64[h + 1], of the values; a missing value is empty  ->  item_bounds, word_bounds:
    # int64[h + 1]; returns the first value with a wrong version or length, or -1
    for host in range(len(ends) - 1):
        at, size = ends[host], ends[host + 1] - ends[host]
        items, words = np.int64(0), np.int64(0)
        if size > 0 and raw[at] == MEMORY_VERSION and size >= _HEAD_BYTES:
            items, words = np.int64(read_word(raw, at + _SIZES_AT, 2)), np.int64(raw[at + _SIZES_AT + 2])
            if size != _HEAD_BYTES + _ITEM_BYTES * items + _WORD_BYTES * words:
                return host
        elif size > 0 and (raw[at] != LEAD_VERSION or size != _LEAD_BYTES):
            return host
        item_bounds[host + 1], word_bounds[host + 1] = item_bounds[host] + items, word_bounds[host] + words
    return -1


@kernel
def _read_memories(raw, ends, pages, last, first, items, item_bounds, words, word_bounds):
    # raw: uint8[...]  ends: int64[h + 1]  item_bounds, word_bounds: int64[h + 1]  ->  other columns of HostMemories;
    # returns the first value with 0 pages, or with items or words that do not ascend or have a count of 0, or -1
    for host in range(len(ends) - 1):
        at = ends[host]
        if at == ends[host + 1]:
            continue
        last[host] = read_word(raw, at + 1, NUMBER_BYTES)
        if raw[at] == LEAD_VERSION:
            pages[host] = 1
            first[host] = np.int64(read_word(raw, at + 1 + NUMBER_BYTES, NUMBER_BYTES))
            continue
        pages[host] = read_word(raw, at + 1 + NUMBER_BYTES, 4)
        if pages[host] == 0:
            return host
        at += _HEAD_BYTES
        for place in range(item_bounds[host], item_bounds[host + 1]):
            items[place] = read_word(raw, at, _ITEM_BYTES)
            at += _ITEM_BYTES
        for place in range(word_bounds[host], word_bounds[host + 1]):
            words[place] = read_word(raw, at, _WORD_BYTES)
            at += _WORD_BYTES
        if not _counted(items, item_bounds[host : host + 2], ITEM_COUNT_BITS):
            return host
        if not _counted(words, word_bounds[host : host + 2], WORD_COUNT_BITS):
            return host
    return -1


@kernel
def _counted(column, bounds, count_bits):
    # column: uint32[...]  bounds: int64[2]  ->  whether the items or words there ascend, and no count is 0
    for place in range(bounds[0], bounds[1]):
        if column[place] & ((1 << count_bits) - 1) == 0:
            return False
        if place > bounds[0] and column[place] >> count_bits <= column[place - 1] >> count_bits:
            return False
    return True
