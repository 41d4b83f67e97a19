"""Reads and writes stored values of hosts and distinctive texts by field: the reference for state/format."""

import struct
from typing import NamedTuple


class ObviousMemory(NamedTuple):
    """What is known of one host."""

    urls: int
    texts: int
    last: int
    item_hand: int
    word_hand: int
    item_floor: int
    word_floor: int
    items: tuple[int, ...]
    words: tuple[int, ...]


def memory_value(memory: ObviousMemory) -> bytes:
    """The stored value of a memory, by the grammar of FORMATS.md."""
    urls, texts, last, *hands_and_floors, items, words = memory
    head = struct.pack("<QQHHBBHB", urls, texts, *hands_and_floors, len(items), len(words))
    slots = (*items, *words)
    tallies = list(dict.fromkeys(slot % 2**28 for slot in slots))
    bits = max(len(tallies) - 1, 0).bit_length()
    size = -(-len(slots) * (28 + bits) // 8)
    if len(tallies) > 255 or 4 * len(tallies) + size >= 7 * len(slots):
        stored = b"\0" + b"".join(slot.to_bytes(7, "little") for slot in slots)
    else:
        numbers = [slot >> 28 << bits | tallies.index(slot % 2**28) for slot in slots]
        short = sum(number << (28 + bits) * place for place, number in enumerate(numbers))
        table = b"".join(tally.to_bytes(4, "little") for tally in tallies)
        stored = bytes([len(tallies)]) + table + short.to_bytes(size, "little")
    return b"\4" + last.to_bytes(5, "little") + head + stored


ObviousText = tuple[int, int, int, int, int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def distinctive_text_of(entry: bytes) -> ObviousText | None:
    """The distinctive text within a stored entry: site, main, whole, every, limit, sample, blocks, titles."""
    words = entry[1]
    url_bytes = int.from_bytes(entry[26:28], "little")
    rest = entry[42 + 8 * words :]
    if url_bytes >> 15:
        rest = rest[4 + 8 * int.from_bytes(rest[:4], "little") :]
    if not url_bytes >> 14 & 1:
        return None
    site, main, whole, every, limit, *counts = struct.unpack("<HBBBIBBB", rest[:12])
    size, rows = obvious_sample_bytes(counts[0]), [obvious_sample(rest[12:], counts[0])]
    rest = rest[12 + size :]
    for count, size in zip(counts[1:], (8, 2), strict=True):
        rows.append(tuple(int.from_bytes(rest[size * at : size * at + size], "little") for at in range(count)))
        rest = rest[size * count :]
    sample, blocks, titles = rows
    return site, main, whole, every, limit, sample, blocks, titles


def low_bits_of(count: int) -> int:
    """The number of low bits of each of `count` hashes of 16 bits."""
    return 16 - max(count - 1, 0).bit_length()


def obvious_sample_bytes(count: int) -> int:
    """The size of the code of `count` hashes."""
    low = low_bits_of(count)
    return -(-(count * low + count + 2 ** (16 - low) - 1) // 8) if count else 0


def obvious_sample(code: bytes, count: int) -> tuple[int, ...]:
    """The hashes in a code: all low bits, then for each hash a 1 behind as many zeros as its high bits grow by."""
    low = low_bits_of(count)
    bits = [byte >> place & 1 for byte in code[: obvious_sample_bytes(count)] for place in range(8)]
    lows = [sum(bits[row * low + place] << place for place in range(low)) for row in range(count)]
    unary, high, highs = iter(bits[count * low :]), 0, list[int]()
    while len(highs) < count:
        if next(unary):
            highs.append(high)
        else:
            high += 1
    return tuple(high << low | bits for high, bits in zip(highs, lows, strict=True))
