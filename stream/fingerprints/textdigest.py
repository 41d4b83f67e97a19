"""The digest of a text: 128 bits over its tokens in order, whatever markup, blanks and case it came with.

    word i of the digest = folded(state ^ K1, K2) of a chain of all tokens (stream/text/hashing.py) that begins with
    TEXT_SEEDS[i]; (0, 0) for a text without tokens
"""

import numpy as np

from stream.text.hashing import chain_hash, finish_hash
from stream.text.sources import part
from stream.text.vectors import load_word

TEXT_SEEDS = (np.uint64(0x243F6A8885A308D3), np.uint64(0x13198A2E03707344))


@part
def digest_text(tokens, count):  # type: ignore[no-untyped-def]  # address of uint64[count], int64 -> (uint64, uint64)
    """The two words of the digest."""
    if count == 0:
        return np.uint64(0), np.uint64(0)
    first, second = TEXT_SEEDS
    for place in range(count):
        token = load_word(tokens + (place << 3))
        first, second = chain_hash(first, token), chain_hash(second, token)
    return finish_hash(first), finish_hash(second)
