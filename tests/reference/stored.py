"""Stored values of hosts and own texts, read and written field by field: the twin of the kernels in state/format."""

import struct
from typing import NamedTuple


class ObviousMemory(NamedTuple):
    """What is known of one host."""

    pages: int
    last: int
    first: int
    items: tuple[int, ...]
    words: tuple[int, ...]


def memory_value(memory: ObviousMemory) -> bytes:
    """The stored value of a memory, by the grammar of FORMATS.md."""
    last = memory.last.to_bytes(5, "little")
    if memory.first >= 0:
        return b"\1" + last + memory.first.to_bytes(5, "little")
    head = struct.pack("<IHB", memory.pages, len(memory.items), len(memory.words))
    items = b"".join(item.to_bytes(4, "little") for item in memory.items)
    return b"\2" + last + head + items + b"".join(word.to_bytes(3, "little") for word in memory.words)


def own_text_of(entry: bytes) -> tuple[int, int, int, tuple[int, ...], tuple[int, ...]] | None:
    """The own text within a stored entry: site, share, listed, prints, titles."""
    words = entry[1]
    url_bytes = int.from_bytes(entry[26:28], "little")
    rest = entry[42 + 8 * words :]
    if url_bytes >> 15:
        rest = rest[4 + 8 * int.from_bytes(rest[:4], "little") :]
    if not url_bytes >> 14 & 1:
        return None
    site, share, listed, prints, titles = struct.unpack("<HBHBB", rest[:7])
    rest = rest[7:]
    found = tuple(int.from_bytes(rest[4 * at : 4 * at + 4], "little") for at in range(prints))
    rest = rest[4 * prints :]
    return (
        site,
        share,
        listed,
        found,
        tuple(int.from_bytes(rest[2 * at : 2 * at + 2], "little") for at in range(titles)),
    )
