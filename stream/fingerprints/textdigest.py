"""Digests a text: 128 bits over its tokens in order, whatever markup, blanks and case it came with.

state  = SEED, then for each two tokens:  state = folded(first ^ state, second ^ K3); a last token alone with 0
digest = folded(state ^ K1, K2), and the same with K4 in place of K3; (0, 0) for a text without tokens
"""

import numpy as np

from spotsieve.stream.text.hashing import HASH_BITS, K3, K4, SEED, finish_hash
from spotsieve.stream.text.memory import load_word
from spotsieve.stream.text.sources import part
from spotsieve.stream.text.vectors import folded_product


@part
def digest_text(tokens, count):  # type: ignore[no-untyped-def]  # address of uint64[count], int64 -> (uint64, uint64)
    """The two words of the digest."""
    if count == 0:
        return np.uint64(0), np.uint64(0)
    low, high = SEED, SEED
    for place in range(0, count, 2):
        first = load_word(tokens + (place << 3)) & HASH_BITS
        second = load_word(tokens + (place << 3) + 8) & HASH_BITS if place + 1 < count else np.uint64(0)
        low, high = folded_product(first ^ low, second ^ K3), folded_product(first ^ high, second ^ K4)
    return finish_hash(low), finish_hash(high)
