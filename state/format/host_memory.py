"""Encodes and decodes the memories of hosts. state/FORMATS.md has the grammar.

    memory = version u8 (4), last 5 bytes, urls u64, texts u64, item hand u16, word hand u16, item floor u8,
             word floor u8, items u16 (i), words u8 (w), tallies u8 (t), tally u32[t], short slot[i + w], zeros
           | the same with t = 0 and without tallies, slot 7 bytes[i + w]
    slot   = identity << 28 | tally
    tally  = error << 24 | urls << 12 | texts
    short slot = identity << b | number of its tally, in 28 + b bits, where b bits hold t - 1

Items come before words. Short slots follow each other, lowest bits first, and zeros fill the last byte. Slots of one
page have one tally, so a host has few: if there are at most 255, and the value is smaller so, each is stored once, in
the order of their first use. This halves the memories of hosts with one page. A thousand slots of 50 pages take 4.5 KB
instead of 7.

A memory has no checksum of its own; RocksDB keeps one on every block. Decoding checks the version, the length, and all
bounds that the judge relies on.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from spotsieve.state.format.buckets import NUMBER_BYTES, encode_keys, read_word, write_word
from spotsieve.state.index import HostMemories
from spotsieve.stream.base.arrays import SPREAD, bounds_of
from spotsieve.stream.base.errors import CorruptRecord
from spotsieve.stream.base.jit import kernel

MEMORY_VERSION = 4
MAX_ITEMS, MAX_WORDS = 3072, 128
"""The greatest numbers of blocks and of title words that are counted on a host."""
MAX_FLOOR = 15
"""The greatest floor, and the greatest error of an item: an error has four bits."""
IDENTITY_SHIFT, ERROR_SHIFT, URLS_SHIFT = 28, 24, 12
BITMAP = 2**URLS_SHIFT - 1
"""The sketches of the URLs and texts with an item: 12 bits each."""
SLOT_BYTES = 7
"""Size of an item or a word; their highest 8 bits are 0."""
IDENTITY_BITS = 8 * SLOT_BYTES - IDENTITY_SHIFT
_URLS_AT = 1 + NUMBER_BYTES
_TEXTS_AT = _URLS_AT + 8
_HANDS_AT = _TEXTS_AT + 8
_FLOORS_AT = _HANDS_AT + 4
_SIZES_AT = _FLOORS_AT + 2
_TALLIES_AT = _SIZES_AT + 3
_HEAD_BYTES = _TALLIES_AT + 1
_TALLY_BYTES = 4
_MOST_TALLIES = 255
_TALLY = 2**IDENTITY_SHIFT - 1
_NUMBER_TABLE_BITS = 9
_NUMBER_TABLE_SIZE = 2**_NUMBER_TABLE_BITS
_TABLE_BITS = 12
_TABLE_SIZE = 2**_TABLE_BITS
_RULE = (
    f"must be version {MEMORY_VERSION}, have the length that it declares and no shorter value, URLs, at most "
    f"{MAX_ITEMS} items and {MAX_WORDS} words, each of another identity and with a URL and a text, hands that point "
    f"at one of them, and floors of at most {MAX_FLOOR}"
)


def encode_memories(memories: HostMemories) -> list[bytes | None]:
    """Write the memories of h hosts -> h values, None for a host without a memory (urls 0).

    Raises ValueError if a memory breaks the rules that decode_memories checks.
    """
    buffer, ends, wrong = _encode((*memories,))
    if wrong >= 0:
        raise ValueError(f"the memory of host {int(memories.hosts[wrong]):016x} {_RULE}")
    raw = buffer.tobytes()
    return [raw[start:end] or None for start, end in pairwise(ends.tolist())]


def decode_memories(hosts: NDArray[np.uint64], values: Sequence[bytes | None]) -> HostMemories:
    """Read the values under hosts: uint64[h] -> h memories. None stands for a host without a memory.

    Raises CorruptRecord, which names the host.
    """
    raw = np.frombuffer(b"".join([value for value in values if value is not None]), np.uint8)
    ends = bounds_of([0 if value is None else len(value) for value in values])
    wrong = next((place for place, value in enumerate(values) if value == b""), -1)
    *columns, wrong = _decode(hosts, raw, ends, wrong)
    if wrong >= 0:
        raise CorruptRecord("hosts", encode_keys(hosts[wrong : wrong + 1])[0], _RULE)
    return HostMemories(hosts, *columns)


def last_learned(hosts: Sequence[bytes], values: Sequence[bytes]) -> NDArray[np.uint64]:
    """Read the `last` of b memories (HostMemories) -> uint64[b]. Raises CorruptRecord."""
    for host, value in zip(hosts, values, strict=True):
        if len(value) < _HEAD_BYTES or value[0] != MEMORY_VERSION:
            raise CorruptRecord("hosts", host, _RULE)
    return np.array([int.from_bytes(value[1 : 1 + NUMBER_BYTES], "little") for value in values], np.uint64)


@kernel
def _decode(hosts, raw, ends, wrong):
    # hosts: uint64[h]  raw: uint8[...]  ends: int64[h + 1], of the values  wrong: int64, an invalid value, or -1
    # ->  the fields of HostMemories after `hosts`, and the first invalid value, or -1
    count = len(hosts)
    item_bounds, word_bounds = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
    if wrong < 0:
        wrong = _measure_memories(raw, ends, item_bounds, word_bounds)
    sound = wrong < 0
    memories = HostMemories(
        hosts,
        np.zeros(count, np.uint64),
        np.zeros(count, np.uint64),
        np.zeros(count, np.uint64),
        np.zeros(count, np.uint16),
        np.zeros(count, np.uint16),
        np.zeros(count, np.uint8),
        np.zeros(count, np.uint8),
        np.empty(item_bounds[count] if sound else 0, np.uint64),
        item_bounds,
        np.empty(word_bounds[count] if sound else 0, np.uint64),
        word_bounds,
    )
    if sound:
        wrong = _read_memories(raw, ends, memories)
    if wrong < 0:
        written = np.zeros(count + 1, np.int64)
        wrong = _first_fault(memories, written)
        for host in range(count):
            if wrong < 0 and written[host + 1] != ends[host + 1]:
                wrong = host
    return *memories[1:], wrong


@kernel
def _encode(memories):
    # memories: the fields of HostMemories of h hosts
    # ->  the values: uint8[...], their bounds: int64[h + 1], and the first host whose memory breaks a rule, or -1
    memories = HostMemories(*memories)
    ends = np.zeros(len(memories.hosts) + 1, np.int64)
    wrong = _first_fault(memories, ends)
    buffer = np.empty(ends[-1] if wrong < 0 else 0, np.uint8)
    if wrong < 0:
        _write_memories(memories, ends, buffer)
    return buffer, ends, wrong


@kernel
def _write_memories(memories, ends, buffer):
    # memories: HostMemories of h hosts  ends: int64[h + 1]  ->  buffer: uint8[ends[h]]
    tallies, table = np.empty(_MOST_TALLIES, np.uint64), np.empty(_NUMBER_TABLE_SIZE, np.int16)
    for host in range(len(ends) - 1):
        at = ends[host]
        if memories.urls[host] == 0:
            continue
        items, words = _rows(memories, host)
        buffer[at] = MEMORY_VERSION
        write_word(buffer, at + 1, NUMBER_BYTES, memories.last[host])
        write_word(buffer, at + _URLS_AT, 8, memories.urls[host])
        write_word(buffer, at + _TEXTS_AT, 8, memories.texts[host])
        write_word(buffer, at + _HANDS_AT, 2, np.uint64(memories.item_hand[host]))
        write_word(buffer, at + _HANDS_AT + 2, 2, np.uint64(memories.word_hand[host]))
        buffer[at + _FLOORS_AT], buffer[at + _FLOORS_AT + 1] = memories.item_floor[host], memories.word_floor[host]
        write_word(buffer, at + _SIZES_AT, 2, np.uint64(len(items)))
        count = _count_tallies(items, words, tallies, table)
        buffer[at + _SIZES_AT + 2], buffer[at + _TALLIES_AT] = len(words), count
        at += _HEAD_BYTES
        for number in range(count):
            write_word(buffer, at, _TALLY_BYTES, tallies[number])
            at += _TALLY_BYTES
        if count:
            _write_short_slots(items, words, tallies, table, _number_bits(count), buffer, at)
            continue
        for slots in (items, words):
            for slot in slots:
                write_word(buffer, at, SLOT_BYTES, slot)
                at += SLOT_BYTES


@kernel
def _write_short_slots(items, words, tallies, table, number_bits, buffer, at):
    # items, words: uint64[...]  tallies, table: of _count_tallies  number_bits, at: int64  ->  buffer: uint8[...]
    pending, bits = np.uint64(0), np.int64(0)  # Bits that do not fill a byte yet.
    for slots in (items, words):
        for slot in slots:
            number = np.uint64(table[_place_of(slot & np.uint64(_TALLY), tallies, table)])
            short = slot >> np.uint64(IDENTITY_SHIFT) << np.uint64(number_bits) | number
            pending |= short << np.uint64(bits)
            bits += IDENTITY_BITS + number_bits
            while bits >= 8:
                buffer[at] = pending & np.uint64(0xFF)
                pending >>= np.uint64(8)
                bits -= 8
                at += 1
    if bits:
        buffer[at] = pending


@kernel
def _measure_memories(raw, ends, item_bounds, word_bounds):
    # raw: uint8[...]  ends: int64[h + 1], of the values; a missing value is empty  ->  item_bounds, word_bounds:
    # int64[h + 1]; returns the first value with a wrong version or length, or without URLs, or -1
    for host in range(len(ends) - 1):
        at, size = ends[host], ends[host + 1] - ends[host]
        items, words = np.int64(0), np.int64(0)
        if size > 0:
            if raw[at] != MEMORY_VERSION or size < _HEAD_BYTES or read_word(raw, at + _URLS_AT, 8) == 0:
                return host
            items, words = np.int64(read_word(raw, at + _SIZES_AT, 2)), np.int64(raw[at + _SIZES_AT + 2])
            if size != _bytes_of(items + words, np.int64(raw[at + _TALLIES_AT])):
                return host
        item_bounds[host + 1], word_bounds[host + 1] = item_bounds[host] + items, word_bounds[host] + words
    return -1


@kernel
def _read_memories(raw, ends, memories):
    # raw: uint8[...]  ends: int64[h + 1]  ->  memories: HostMemories, whose bounds are given
    # returns the first value with wrong tallies, or -1
    for host in range(len(ends) - 1):
        at = ends[host]
        if at == ends[host + 1]:
            continue
        items, words = _rows(memories, host)
        memories.last[host] = read_word(raw, at + 1, NUMBER_BYTES)
        memories.urls[host], memories.texts[host] = read_word(raw, at + _URLS_AT, 8), read_word(raw, at + _TEXTS_AT, 8)
        memories.item_hand[host] = read_word(raw, at + _HANDS_AT, 2)
        memories.word_hand[host] = read_word(raw, at + _HANDS_AT + 2, 2)
        memories.item_floor[host], memories.word_floor[host] = raw[at + _FLOORS_AT], raw[at + _FLOORS_AT + 1]
        count = np.int64(raw[at + _TALLIES_AT])
        at += _HEAD_BYTES
        if count:
            if not _read_short_slots(raw, at, count, items, words):
                return host
            continue
        for slots in (items, words):
            for place in range(len(slots)):
                slots[place] = read_word(raw, at, SLOT_BYTES)
                at += SLOT_BYTES
    return -1


@kernel
def _read_short_slots(raw, tallies, count, items, words):
    # raw: uint8[...]  tallies: int64, where the tallies begin  count: int64, of them  ->  items, words: uint64[...]
    # returns whether all tallies are used, in the order of their first use, and zeros fill the last byte
    number_bits = _number_bits(count)
    width, mask = IDENTITY_BITS + number_bits, (np.int64(1) << number_bits) - 1
    at, used = tallies + _TALLY_BYTES * count, np.int64(0)
    pending, bits = np.uint64(0), np.int64(0)
    for slots in (items, words):
        for place in range(len(slots)):
            while bits < width:
                pending |= np.uint64(raw[at]) << np.uint64(bits)
                bits += 8
                at += 1
            number = np.int64(pending) & mask
            identity = (pending & ((np.uint64(1) << np.uint64(width)) - np.uint64(1))) >> np.uint64(number_bits)
            pending >>= np.uint64(width)
            bits -= width
            if number > used or number >= count:
                return False
            used = max(used, number + 1)
            tally = read_word(raw, tallies + _TALLY_BYTES * number, _TALLY_BYTES)
            if tally > np.uint64(_TALLY):
                return False
            slots[place] = identity << np.uint64(IDENTITY_SHIFT) | tally
    return used == count and pending == 0


@kernel
def _rows(memories, host):
    # memories: HostMemories  host: int64, a row  ->  its items and words: uint64[i], uint64[w]
    items = memories.items[memories.item_bounds[host] : memories.item_bounds[host + 1]]
    return items, memories.words[memories.word_bounds[host] : memories.word_bounds[host + 1]]


@kernel
def _bytes_of(slots, tallies):
    # int64, int64  ->  the size of a value with this number of slots, and tallies that are stored once
    if tallies == 0:
        return _HEAD_BYTES + SLOT_BYTES * slots
    return _HEAD_BYTES + _TALLY_BYTES * tallies + (slots * (IDENTITY_BITS + _number_bits(tallies)) + 7) // 8


@kernel
def _number_bits(tallies):
    # int64, at least 1  ->  int64, the bits that hold the numbers of this many tallies
    bits = np.int64(0)
    while tallies > np.int64(1) << bits:
        bits += 1
    return bits


@kernel
def _count_tallies(items, words, tallies, table):
    # items, words: uint64[...]  ->  tallies: uint64[_MOST_TALLIES], in the order of their first use, and their
    # table: int16[_NUMBER_TABLE_SIZE]; returns their number, or 0 if there are more, or the value is not smaller so
    count, slots = 0, len(items) + len(words)
    table[:] = -1
    for row in (items, words):
        for slot in row:
            tally = slot & np.uint64(_TALLY)
            place = _place_of(tally, tallies, table)
            if table[place] < 0:
                if count == _MOST_TALLIES:
                    return 0
                table[place], tallies[count] = count, tally
                count += 1
    return count if _bytes_of(slots, count) < _bytes_of(slots, 0) else 0


@kernel
def _place_of(tally, tallies, table):
    # tally: uint64  tallies: uint64[...]  table: int16[_NUMBER_TABLE_SIZE], numbers of tallies, -1: free
    # ->  the place of the tally in the table, or the free place for it
    place = (tally * SPREAD) >> np.uint64(64 - _NUMBER_TABLE_BITS)
    while table[place] >= 0 and tallies[table[place]] != tally:
        place = (place + np.uint64(1)) & np.uint64(_NUMBER_TABLE_SIZE - 1)
    return place


@kernel
def _first_fault(memories, ends):
    # memories: HostMemories of h hosts  ->  ends: int64[h + 1], of the values; returns the first host whose memory
    # breaks a rule, or -1
    table, tallies = np.zeros(_TABLE_SIZE, np.uint64), np.empty(_MOST_TALLIES, np.uint64)
    numbers = np.empty(_NUMBER_TABLE_SIZE, np.int16)
    for host in range(len(memories.urls)):
        items, words = _rows(memories, host)
        ends[host + 1] = ends[host]
        if memories.urls[host] == 0:
            if len(items) or len(words):
                return host
            continue
        if len(items) > MAX_ITEMS or len(words) > MAX_WORDS or memories.last[host] >> np.uint64(8 * NUMBER_BYTES):
            return host
        if memories.item_hand[host] >= max(len(items), 1) or memories.word_hand[host] >= max(len(words), 1):
            return host
        if memories.item_floor[host] > MAX_FLOOR or memories.word_floor[host] > MAX_FLOOR:
            return host
        ends[host + 1] += _bytes_of(len(items) + len(words), _count_tallies(items, words, tallies, numbers))
        stamp = np.uint64(2 * host + 1)
        if not _distinct(items, table, stamp) or not _distinct(words, table, stamp + np.uint64(1)):
            return host
    return -1


@kernel
def _distinct(slots, table, stamp):
    # slots: uint64[...]  table: uint64[_TABLE_SIZE], free places have other stamps
    # ->  whether all have another identity, and a URL and a text
    for slot in slots:
        if slot >> np.uint64(8 * SLOT_BYTES) or not slot & np.uint64(BITMAP):
            return False
        if not slot >> np.uint64(URLS_SHIFT) & np.uint64(BITMAP):
            return False
        identity = slot >> np.uint64(IDENTITY_SHIFT)
        marked = stamp << np.uint64(IDENTITY_SHIFT) | identity
        at = (identity * SPREAD) >> np.uint64(64 - _TABLE_BITS)
        while table[at] >> np.uint64(IDENTITY_SHIFT) == stamp:
            if table[at] == marked:
                return False
            at = (at + np.uint64(1)) & np.uint64(_TABLE_SIZE - 1)
        table[at] = marked
    return True
