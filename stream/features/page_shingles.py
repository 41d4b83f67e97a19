"""Hashes the shingles of whole pages: every run of w tokens in a row, with repeats (Broder et al. 1997).

A shingle of one token is the token, mixed once more because two bits of a token hash are always 0.
"""

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.bounds import bounds_of
from spotsieve.stream.features.shingles import shingle_hashes
from spotsieve.stream.jit import kernel
from spotsieve.stream.text.machine.memory import load_int
from spotsieve.stream.text.tokens import PageTokens


def shingle_pages(tokens: PageTokens, shortest: int, longest: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """All shingles of `shortest` to `longest` tokens of n pages, those of one length after the other.

    -> hashes: uint64[m], of page i hashes[bounds[i]:bounds[i + 1]]  bounds: int64[n + 1]
    A page with fewer tokens than a length has no shingle of it. Raises ValueError for lengths that are none.
    """
    if not 1 <= shortest <= longest:
        raise ValueError(f"shingles must have 1 <= shortest <= longest tokens, got {shortest} and {longest}")
    counts = tokens.counts
    sizes = sum((np.maximum(counts - width + 1, 0) for width in range(shortest, longest + 1)), np.zeros_like(counts))
    bounds = bounds_of(sizes)
    hashes = np.empty(bounds[-1], np.uint64)
    token_hashes, token_bounds = np.ascontiguousarray(tokens.hashes), np.ascontiguousarray(tokens.bounds)
    _shingle_batch(token_hashes.ctypes.data, token_bounds.ctypes.data, len(tokens), shortest, longest, hashes)
    return hashes, bounds


@kernel
def _shingle_batch(tokens, bounds, pages, shortest, longest, hashes):
    """Addresses of tokens: uint64[t] and bounds: int64[n + 1]; pages: n  ->  hashes: uint64[m]"""
    written = np.int64(0)
    for page in range(pages):
        first, end = load_int(bounds + (page << 3)), load_int(bounds + (page << 3) + 8)
        for width in range(shortest, longest + 1):
            if end - first >= width:
                written += shingle_hashes(tokens + (first << 3), end - first, width, hashes[written:])
