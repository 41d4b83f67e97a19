"""Stored values of hosts and own texts, read and written field by field: the twin of the kernels in state/format."""

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
    return b"\3" + last.to_bytes(5, "little") + head + b"".join(slot.to_bytes(7, "little") for slot in (*items, *words))


ObviousText = tuple[int, int, int, int, int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def own_text_of(entry: bytes) -> ObviousText | None:
    """The own text within a stored entry: site, main, whole, every, limit, sample, blocks, titles."""
    words = entry[1]
    url_bytes = int.from_bytes(entry[26:28], "little")
    rest = entry[42 + 8 * words :]
    if url_bytes >> 15:
        rest = rest[4 + 8 * int.from_bytes(rest[:4], "little") :]
    if not url_bytes >> 14 & 1:
        return None
    site, main, whole, every, limit, *counts = struct.unpack("<HBBBIBBB", rest[:12])
    rest, rows = rest[12:], list[tuple[int, ...]]()
    for count, size in zip(counts, (2, 8, 2), strict=True):
        rows.append(tuple(int.from_bytes(rest[size * at : size * at + size], "little") for at in range(count)))
        rest = rest[size * count :]
    sample, blocks, titles = rows
    return site, main, whole, every, limit, sample, blocks, titles
