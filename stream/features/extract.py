"""Turns pages into spots, one kernel call for a batch."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.bounds import sizes_of
from spotsieve.stream.features.spots import SpotModel, chain_spots, choose_antecedents, mark_words
from spotsieve.stream.jit import kernel
from spotsieve.stream.text.batch import batch_at, check_batch, in_padded_parts, scan_page, scan_state
from spotsieve.stream.text.machine import slots


@dataclass(frozen=True, slots=True)
class PageFeatures:
    """The spots of n pages, and how many tokens and blocks they have.

    spots: uint64[m], of page i spots[spot_bounds[i]:spot_bounds[i + 1]]; by spot distance, the least first, then in
    page order, with repeats
    spot_bounds: int64[n + 1]  token_counts: int32[n]  block_counts: int32[n], blocks with at least one token
    """

    spots: NDArray[np.uint64]
    spot_bounds: NDArray[np.int64]
    token_counts: NDArray[np.int32]
    block_counts: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.token_counts)


def extract_spots(
    buffer: NDArray[np.uint8], bounds: NDArray[np.int64], markup: NDArray[np.bool_] | bool, model: SpotModel
) -> PageFeatures:
    """Blocks, tokens and spots of n pages (Theobald et al. 2008, sec. 3), in one kernel call without the GIL.

    buffer: uint8[N], the pages' UTF-8 one after the other; bytes that are none part tokens
    bounds: int64[n + 1], page i is buffer[bounds[i]:bounds[i + 1]]; ascending, within the buffer
    markup: bool[n] or one for all, True for HTML, False for plain text

    The kernel reads up to PADDING bytes behind a page. If the buffer has PADDING spare bytes behind bounds[n], nothing
    is copied, otherwise the last pages are. Raises TypeError and ValueError for other arrays.
    """
    parts = in_padded_parts(
        *check_batch(buffer, bounds, markup), lambda buffer, bounds, flags: _run(buffer, bounds, flags, model)
    )
    return parts[0] if len(parts) == 1 else _joined(parts)


def _joined(parts: list[PageFeatures]) -> PageFeatures:
    if not parts:
        none = np.zeros(0, dtype=np.int32)
        return PageFeatures(np.zeros(0, dtype=np.uint64), np.zeros(1, dtype=np.int64), none, none)
    first, second = parts
    return PageFeatures(
        np.concatenate([first.spots, second.spots]),
        np.concatenate([first.spot_bounds, second.spot_bounds[1:] + first.spot_bounds[-1]]),
        np.concatenate([first.token_counts, second.token_counts]),
        np.concatenate([first.block_counts, second.block_counts]),
    )


def _run(
    buffer: NDArray[np.uint8], bounds: NDArray[np.int64], markup: NDArray[np.bool_], model: SpotModel
) -> PageFeatures:
    # The arrays whose addresses are in the state must outlive the call.
    state, arrays = scan_state(int(sizes_of(bounds).max()))
    batch = batch_at(buffer, bounds, markup)
    features = PageFeatures(*_extract_batch(batch, state, model.table, model.settings.chain_length))
    arrays.clear()
    return features


@kernel
def _extract_batch(batch, state, table, chain_length):
    """batch: Batch of n pages  state: int64[24]  table: SpotTable  chain_length: int64

    ->  spots: uint64[m]  spot_bounds: int64[n + 1]  token_counts: int32[n]  block_counts: int32[n]
    """
    pages = batch.pages
    spot_bounds = np.zeros(pages + 1, dtype=np.int64)
    token_counts = np.zeros(pages, dtype=np.int32)
    block_counts = np.zeros(pages, dtype=np.int32)
    spots = np.empty(256 * pages + 64, dtype=np.uint64)
    antecedents, chosen = np.empty(1024, dtype=np.int32), np.empty(1024, dtype=np.int32)
    runs = np.empty((chain_length, 2), dtype=np.int64)
    for page in range(pages):
        scan_page(state, batch, page)
        token_counts[page] = count = state[slots.TOKEN_COUNT // 8]
        block_counts[page] = state[slots.BLOCK_COUNT // 8]
        if count >= len(antecedents):
            antecedents, chosen = np.empty(2 * count, dtype=np.int32), np.empty(2 * count, dtype=np.int32)
        tokens, places = state[slots.TOKENS // 8], np.int64(antecedents.ctypes.data)
        marked = mark_words(tokens, count, table, places)
        written = spot_bounds[page]
        if written + marked > len(spots):
            grown = np.empty(max(2 * len(spots), written + marked), dtype=np.uint64)
            grown[:written] = spots[:written]
            spots = grown
        # One distance after the other: the time is linear only for chains of one distance (see chain_spots).
        for distance in table.steps:
            if len(table.steps) > 1:
                places = np.int64(chosen.ctypes.data)
                found = choose_antecedents(tokens, np.int64(antecedents.ctypes.data), marked, table, distance, places)
            else:
                found = marked
            written += chain_spots(
                tokens, places, found, state[slots.BLOCKS // 8], block_counts[page], distance, runs, spots, written
            )
        spot_bounds[page + 1] = written
    return spots[: spot_bounds[pages]].copy(), spot_bounds, token_counts, block_counts
