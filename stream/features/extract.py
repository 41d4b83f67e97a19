"""Pages to spots: one kernel call for a batch of pages, and the tokens of one page in words."""

from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
from numba import njit
from numpy.typing import NDArray

from spotsieve.stream.features.spots import SpotModel, SpotSettings, chain_spots, choose_antecedents, mark_words
from spotsieve.stream.fingerprints.simhash import simhash64
from spotsieve.stream.text import words as slots
from spotsieve.stream.text.batch import check_batch, in_padded_parts, scan_page, scan_state
from spotsieve.stream.text.sources import part, sources_digest
from spotsieve.stream.text.vectors import byte_at, load_int


@dataclass(frozen=True, slots=True)
class PageFeatures:
    """What the kernel takes from a batch of n pages.

    spots: uint64[m], those of page i are spots[spot_bounds[i]:spot_bounds[i + 1]], in page order for each spot
    distance, the least first, repeats kept
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

    The kernel reads up to PADDING bytes behind a page. Where the buffer has PADDING spare bytes behind bounds[n]
    nothing is copied, otherwise the last pages are. Raises TypeError and ValueError for arrays that are not as above.
    """
    parts = in_padded_parts(
        *check_batch(buffer, bounds, markup), lambda buffer, bounds, flags: _run(buffer, bounds, flags, model)
    )
    return parts[0] if len(parts) == 1 else _joined(parts)


def tokens_of(page: bytes, markup: bool) -> list[list[str]]:
    """The normalised tokens of one page, block by block, as the kernel sees them."""
    state, arrays = scan_state(len(page), tracing=True)
    in_padded_parts(
        *check_batch(np.frombuffer(page, dtype=np.uint8), np.array([0, len(page)]), markup),
        lambda buffer, bounds, flags: _call(buffer, bounds, flags, state, _no_words()),
    )
    trace, blocks = arrays[slots.TRACE], arrays[slots.BLOCKS].view(np.int32).reshape(-1, 1 << slots.BLOCK_SHIFT - 2)
    tokens = trace[: state[slots.TRACE_LENGTH // 8]].tobytes().decode().split("\n")
    places = [0, *blocks[: state[slots.BLOCK_COUNT // 8], 0].tolist()]
    return [tokens[start:end] for start, end in pairwise(places)]


def compile_kernels() -> None:
    """Compile text, spot and simhash kernels, or load them from numba's cache; called before a worker is ready."""
    page = b"<p>the first word of a page</p>"
    features = extract_spots(np.frombuffer(page, dtype=np.uint8), np.array([0, len(page)]), True, _no_words())
    simhash64(features.spots, features.spot_bounds)


@cache
def _no_words() -> SpotModel:
    return SpotModel(SpotSettings(antecedents=("the",), stop_words=()))


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
    # the arrays whose addresses are in the state must outlive the call
    state, arrays = scan_state(int(np.diff(bounds).max()))
    features = _call(buffer, bounds, markup, state, model)
    arrays.clear()
    return features


def _call(
    buffer: NDArray[np.uint8],
    bounds: NDArray[np.int64],
    markup: NDArray[np.bool_],
    state: NDArray[np.int64],
    model: SpotModel,
) -> PageFeatures:
    spots, spot_bounds, token_counts, block_counts = _kernel()(
        buffer.ctypes.data,
        bounds.ctypes.data,
        markup.ctypes.data,
        len(markup),
        state,
        model.flags,
        model.multiplier,
        model.shift,
        model.distances,
        model.steps,
        model.settings.chain_length,
    )
    return PageFeatures(spots, spot_bounds, token_counts, block_counts)


@part
def _extract_batch(  # type: ignore[no-untyped-def]
    base, bounds, markup, pages, state, flags, multiplier, shift, distances, steps, chain_length
):
    """Addresses of buffer: uint8[N], bounds: int64[n + 1], markup: bool[n]; pages: n  state: int64[24]
    flags, multiplier, shift, distances, steps: of a SpotModel

    Addresses, since numba compiles once more for an array that is read-only, as all are that come from bytes.
    """
    spot_bounds = np.zeros(pages + 1, dtype=np.int64)
    token_counts = np.zeros(pages, dtype=np.int32)
    block_counts = np.zeros(pages, dtype=np.int32)
    spots = np.empty(256 * pages + 64, dtype=np.uint64)
    antecedents, chosen = np.empty(1024, dtype=np.int32), np.empty(1024, dtype=np.int32)
    runs = np.empty((chain_length, 2), dtype=np.int64)
    for page in range(pages):
        start, end = load_int(bounds + (page << 3)), load_int(bounds + (page << 3) + 8)
        scan_page(state, base + start, base + end, byte_at(markup + page) != 0)
        token_counts[page] = count = state[slots.TOKEN_COUNT // 8]
        block_counts[page] = state[slots.BLOCK_COUNT // 8]
        if count >= len(antecedents):
            antecedents, chosen = np.empty(2 * count, dtype=np.int32), np.empty(2 * count, dtype=np.int32)
        tokens, places = state[slots.TOKENS // 8], np.int64(antecedents.ctypes.data)
        table = np.int64(flags.ctypes.data)
        marked = mark_words(tokens, count, table, multiplier, shift, places)
        written = spot_bounds[page]
        if written + marked > len(spots):
            grown = np.empty(max(2 * len(spots), written + marked), dtype=np.uint64)
            grown[:written] = spots[:written]
            spots = grown
        # Distance by distance: chains of one distance alone keep the time linear (chain_spots says how).
        for distance in steps:
            if len(steps) > 1:
                places = np.int64(chosen.ctypes.data)
                found = choose_antecedents(
                    tokens, np.int64(antecedents.ctypes.data), marked, table, multiplier, shift,
                    np.int64(distances.ctypes.data), distance, places,
                )  # fmt: skip
            else:
                found = marked
            written += chain_spots(
                tokens, places, found, state[slots.BLOCKS // 8], block_counts[page], distance, runs, spots, written
            )
        spot_bounds[page + 1] = written
    return spots[: spot_bounds[pages]].copy(), spot_bounds, token_counts, block_counts


@cache
def _kernel():  # type: ignore[no-untyped-def]
    """The outermost function, the only one that is cached on disk (stream/text/sources.py says why)."""
    sources = sources_digest()

    @njit(nogil=True, cache=True)
    def extract(  # type: ignore[no-untyped-def]
        base, bounds, markup, pages, state, flags, multiplier, shift, distances, steps, chain_length
    ):
        state[slots.SOURCES // 8] = sources
        return _extract_batch(
            base, bounds, markup, pages, state, flags, multiplier, shift, distances, steps, chain_length
        )

    return extract
