"""Extracts the token hashes of whole pages, in one kernel call per batch, for schemes that use all text of a page."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.arrays import bounds_of, sizes_of
from spotsieve.stream.base.jit import kernel
from spotsieve.stream.sign.text import scan_layout
from spotsieve.stream.sign.text.batch import batch_at, check_batch, in_padded_parts, scan_page, scan_state
from spotsieve.stream.sign.text.hashing import HASH_BITS
from spotsieve.stream.sign.text.machine import load_word


@dataclass(frozen=True, slots=True)
class PageTokens:
    """The tokens of n pages, in page order, with repeats.

    hashes: uint64[m], of page i hashes[bounds[i]:bounds[i + 1]]; their two lowest bits are 0  bounds: int64[n + 1]
    """

    hashes: NDArray[np.uint64]
    bounds: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of tokens of each page: int64[n]."""
        return sizes_of(self.bounds)

    def without(self, left_out: NDArray[np.uint64]) -> "PageTokens":
        """The same pages without these tokens. left_out: uint64[s], hashes, ascending"""
        if not len(left_out):
            return self
        place = np.minimum(np.searchsorted(left_out, self.hashes), len(left_out) - 1)
        kept = left_out[place] != self.hashes
        before = bounds_of(kept)
        return PageTokens(self.hashes[kept], before[self.bounds])


def extract_tokens(buffer: NDArray[np.uint8], bounds: NDArray[np.int64], markup: NDArray[np.uint8] | int) -> PageTokens:
    """All tokens of n pages, in one kernel call without the GIL.

    buffer: uint8[N]  bounds: int64[n + 1], ascending, within the buffer  markup: uint8[n], or one Markup for all pages

    Raises TypeError and ValueError for wrong arrays.
    """
    parts = in_padded_parts(*check_batch(buffer, bounds, markup), _run)
    hashes, after = np.empty(0, np.uint64), np.zeros(1, np.int64)
    for tokens in parts:
        after = np.concatenate([after, tokens.bounds[1:] + len(hashes)])
        hashes = np.concatenate([hashes, tokens.hashes]) if len(hashes) else tokens.hashes
    return PageTokens(hashes, after)


def _run(buffer: NDArray[np.uint8], bounds: NDArray[np.int64], markup: NDArray[np.uint8]) -> PageTokens:
    # The arrays whose addresses are in the state must outlive the call.
    state, arrays = scan_state(int(sizes_of(bounds).max()))
    tokens = PageTokens(*_extract_batch(batch_at(buffer, bounds, markup), state))
    arrays.clear()
    return tokens


@kernel
def _extract_batch(batch, state):
    """batch: TextBatch of n pages  state: int64[92]  ->  hashes: uint64[m]  bounds: int64[n + 1]"""
    ends = np.zeros(batch.pages + 1, dtype=np.int64)
    hashes = np.empty(512 * batch.pages + 64, dtype=np.uint64)
    for page in range(batch.pages):
        scan_page(state, batch, page)
        tokens, count, written = state[scan_layout.TOKENS // 8], state[scan_layout.TOKEN_COUNT // 8], ends[page]
        if written + count > len(hashes):
            grown = np.empty(max(2 * len(hashes), written + count), dtype=np.uint64)
            grown[:written] = hashes[:written]
            hashes = grown
        for place in range(count):
            hashes[written + place] = load_word(tokens + (place << 3)) & HASH_BITS
        ends[page + 1] = written + count
    return hashes[: ends[batch.pages]].copy(), ends
