"""Which HTML elements end a block, part two tokens, or hide their content, and the hash table that tells the kernel.

A block is a run of text between the tags of block-level elements; `<br>` and embedded things part tokens without ending
the block; every other tag, known or not, leaves no trace: `<b>w</b>ord` is the one token `word`.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

INLINE, BLOCK, BREAK, HIDDEN, HIDDEN_BREAK, SCRIPT, TEXTAREA, XMP, PLAINTEXT, TEMPLATE, FOREIGN = range(11)

ELEMENTS: dict[int, tuple[str, ...]] = {
    # blocks of the HTML standard's rendering section (15.3.3 ff), table parts, options, and the document's own parts
    BLOCK: tuple(
        "address article aside blockquote body caption center col colgroup datalist dd details dialog dir div dl dt "
        "fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li "
        "listing main marquee menu nav ol optgroup option p pre search section select summary table tbody td tfoot th "
        "thead tr ul".split()
    ),
    # embedded content and controls: something stands between the words, but the paragraph goes on
    BREAK: tuple("applet audio br button canvas embed image img input meter object progress rp rt video".split()),
    # never shown: the content up to the end tag is skipped, the words around are not parted
    HIDDEN: ("noembed", "noframes", "noscript", "style", "title"),
    HIDDEN_BREAK: ("iframe",),
    SCRIPT: ("script",),
    TEXTAREA: ("textarea",),
    XMP: ("xmp",),
    PLAINTEXT: ("plaintext",),
    TEMPLATE: ("template",),
    FOREIGN: ("math", "svg"),
}

SLOT_BITS = 10
LONG_NAME = np.uint64(0xC2B2AE3D27D4EB4F)
"""Multiplies bytes 8..15 of a tag name before they are folded into bytes 0..7."""


@dataclass(frozen=True, slots=True)
class ElementTable:
    """names: uint64[1024], the folded name in its slot, 0 for none; kinds: uint8[1024]; a name's slot is
    `name * multiplier >> 54`, and no two known names share one.
    """

    names: NDArray[np.uint64]
    kinds: NDArray[np.uint8]
    multiplier: np.uint64


@cache
def element_table() -> ElementTable:
    """Build the table, trying multipliers in a fixed order until every known name has a slot of its own."""
    kinds = {fold_name(name): kind for kind, names in ELEMENTS.items() for name in names}
    folded = np.array(list(kinds), dtype=np.uint64)
    for trial in range(1 << 20):
        multiplier = np.uint64((0x9E3779B97F4A7C15 * (2 * trial + 1)) & 0xFFFFFFFFFFFFFFFF)
        slots = folded * multiplier >> np.uint64(64 - SLOT_BITS)
        if len(np.unique(slots)) == len(folded):
            break
    table = ElementTable(
        np.zeros(1 << SLOT_BITS, dtype=np.uint64), np.zeros(1 << SLOT_BITS, dtype=np.uint8), multiplier
    )
    table.names[slots] = folded
    table.kinds[slots] = list(kinds.values())
    return table


def fold_name(name: str) -> int:
    """A tag name in lower case, at most 16 bytes, as one 64-bit word."""
    padded = name.encode("ascii").ljust(16, b"\0")
    first, second = int.from_bytes(padded[:8], "little"), int.from_bytes(padded[8:], "little")
    return first ^ second * int(LONG_NAME) & 0xFFFFFFFFFFFFFFFF
