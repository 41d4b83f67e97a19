"""Pages to features: one kernel call for a batch of pages, and the same for one page with its tokens shown."""

from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from stream.features.spots import SpotModel, SpotSettings, chain_spots
from stream.fingerprints.simhash import simhash64
from stream.text import words as slots
from stream.text.elements import element_table
from stream.text.scan import scan_markup, scan_plain
from stream.text.sources import part, sources_digest
from stream.text.tables import text_tables
from stream.text.vectors import PADDING, byte_at, load_int

MAX_PAGE_BYTES = (1 << 31) - 1
"""A page's tokens are counted in 31 bits."""


@dataclass(frozen=True, slots=True)
class PageFeatures:
    """What the kernel takes from a batch of n pages.

    spots: uint64[m], those of page i are spots[spot_bounds[i]:spot_bounds[i + 1]], in page order, repeats kept
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
    buffer, bounds, flags = _checked(buffer, bounds, markup)
    pages = len(bounds) - 1
    # Pages whose windows stay inside the buffer are read where they lie, the last ones from a padded copy
    direct = int(np.searchsorted(bounds[1:], len(buffer) - PADDING, side="right")) if pages else 0
    parts = []
    if direct:
        parts.append(_run(buffer, bounds[: direct + 1], flags[:direct], model))
    if direct < pages:
        tail = np.zeros(int(bounds[pages] - bounds[direct]) + PADDING, dtype=np.uint8)
        tail[: len(tail) - PADDING] = buffer[bounds[direct] : bounds[pages]]
        parts.append(_run(tail, bounds[direct:] - bounds[direct], flags[direct:], model))
    if len(parts) == 1:
        return parts[0]
    return _joined(parts)


def tokens_of(page: bytes, markup: bool) -> list[list[str]]:
    """The normalised tokens of one page, block by block, as the kernel sees them."""
    buffer = np.zeros(len(page) + PADDING, dtype=np.uint8)
    buffer[: len(page)] = np.frombuffer(page, dtype=np.uint8)
    state, arrays = _state(len(page), _no_words(), tracing=True)
    _call(buffer, np.array([0, len(page)]), np.array([markup]), state, _no_words().settings)
    trace, ends = arrays[slots.TRACE], arrays[slots.BLOCKS]
    tokens = trace[: state[slots.TRACE_LENGTH // 8]].tobytes().decode().split("\n")
    places = [0, *ends[: state[slots.BLOCK_COUNT // 8]].tolist()]
    return [tokens[start:end] for start, end in pairwise(places)]


def compile_kernels() -> None:
    """Compile text, spot and simhash kernels, or load them from numba's cache; called before a worker is ready."""
    page = b"<p>the first word of a page</p>"
    features = extract_spots(np.frombuffer(page, dtype=np.uint8), np.array([0, len(page)]), True, _no_words())
    simhash64(features.spots, features.spot_bounds)


@cache
def _no_words() -> SpotModel:
    return SpotModel(SpotSettings(antecedents=("the",), stop_words=()))


def _checked(
    buffer: NDArray[np.uint8], bounds: NDArray[np.int64], markup: NDArray[np.bool_] | bool
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.bool_]]:
    if buffer.dtype != np.uint8 or buffer.ndim != 1:
        raise TypeError(f"buffer must be uint8[N], got {buffer.dtype}[{buffer.ndim} dimensions]; use numpy.frombuffer")
    if bounds.dtype != np.int64 or bounds.ndim != 1 or len(bounds) == 0:
        raise TypeError(f"bounds must be int64[n + 1], got {bounds.dtype}[{bounds.shape}]; begin it with 0")
    sizes = np.diff(bounds)
    if bounds[0] < 0 or bounds[-1] > len(buffer) or (sizes < 0).any():
        raise ValueError(f"bounds must ascend within 0..{len(buffer)}, got {bounds[0]}..{bounds[-1]}; check the batch")
    if len(sizes) and sizes.max() > MAX_PAGE_BYTES:
        raise ValueError(f"a page must be at most {MAX_PAGE_BYTES} bytes, got {sizes.max()}; pass it on unchecked")
    flags = np.broadcast_to(np.asarray(markup, dtype=np.bool_), len(sizes))
    return np.ascontiguousarray(buffer), np.ascontiguousarray(bounds), np.ascontiguousarray(flags)


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
    state, arrays = _state(int(np.diff(bounds).max()), model)
    features = _call(buffer, bounds, markup, state, model.settings)
    arrays.clear()
    return features


def _call(
    buffer: NDArray[np.uint8],
    bounds: NDArray[np.int64],
    markup: NDArray[np.bool_],
    state: NDArray[np.int64],
    settings: SpotSettings,
) -> PageFeatures:
    spots, spot_bounds, token_counts, block_counts = _kernel()(
        buffer.ctypes.data,
        bounds.ctypes.data,
        markup.ctypes.data,
        len(markup),
        state,
        settings.distance,
        settings.chain_length,
    )
    return PageFeatures(spots, spot_bounds, token_counts, block_counts)


def _state(longest: int, model: SpotModel, tracing: bool = False) -> tuple[NDArray[np.int64], dict[int, NDArray[Any]]]:
    """The kernel's state for pages of up to `longest` bytes, and the arrays that it points into.

    Two tokens need a byte between them unless one is an ideograph of three bytes, so a page of s bytes has at most
    s / 2 + 1. The arrays have that size, but the system backs with memory only what a page really writes.
    """
    tables, elements = text_tables(), element_table()
    most = longest // 2 + 64
    arrays: dict[int, NDArray[Any]] = {
        slots.TOKENS: np.empty(most, dtype=np.uint64),
        slots.ANTECEDENTS: np.empty(most, dtype=np.int32),
        slots.BLOCKS: np.empty(most, dtype=np.int32),
        # a lower-case letter can need 3 bytes where its capital needs 2
        slots.SPELLED: np.empty(longest * 3 // 2 + 64, dtype=np.uint8),
        slots.PAGES: tables.pages,
        slots.LEAVES: tables.leaves,
        slots.ENTITY_KEYS: tables.entity_keys,
        slots.ENTITY_VALUES: tables.entity_values,
        slots.FLAGS: model.flags,
        slots.NAMES: elements.names,
        slots.KINDS: elements.kinds,
    }
    if tracing:
        arrays[slots.TRACE] = np.empty(longest * 2 + 64, dtype=np.uint8)
    state = np.zeros(slots.STATE_SLOTS, dtype=np.int64)
    for slot, array in arrays.items():
        state[slot // 8] = array.ctypes.data
    words = state.view(np.uint64)
    words[slots.FLAG_MULTIPLIER // 8], words[slots.FLAG_SHIFT // 8] = model.multiplier, model.shift
    words[slots.NAME_MULTIPLIER // 8] = elements.multiplier
    return state, arrays


@part
def _scan(state, start, end, markup):  # type: ignore[no-untyped-def]  # int64 address, int64, int64, bool -> None
    if markup:
        scan_markup(state, start, end)
    else:
        scan_plain(state, start, end)


@part
def _clear(state):  # type: ignore[no-untyped-def]  # int64[24] -> None
    state[slots.TOKEN_COUNT // 8 : slots.BLOCK_START // 8 + 1] = 0


@part
def _extract_batch(base, bounds, markup, pages, state, distance, chain_length):  # type: ignore[no-untyped-def]
    """Addresses of buffer: uint8[N], bounds: int64[n + 1], markup: bool[n]; pages: n  state: int64[24]

    Addresses, since numba compiles once more for an array that is read-only, as all are that come from bytes.
    """
    spot_bounds = np.zeros(pages + 1, dtype=np.int64)
    token_counts = np.zeros(pages, dtype=np.int32)
    block_counts = np.zeros(pages, dtype=np.int32)
    spots = np.empty(256 * pages + 64, dtype=np.uint64)
    runs = np.empty((chain_length, 2), dtype=np.int64)
    place = np.int64(state.ctypes.data)
    for page in range(pages):
        _clear(state)
        start, end = load_int(bounds + (page << 3)), load_int(bounds + (page << 3) + 8)
        _scan(place, base + start, base + end, byte_at(markup + page) != 0)
        token_counts[page] = state[slots.TOKEN_COUNT // 8]
        block_counts[page] = state[slots.BLOCK_COUNT // 8]
        marked = state[slots.ANTECEDENT_COUNT // 8]
        written = spot_bounds[page]
        if written + marked > len(spots):
            grown = np.empty(max(2 * len(spots), written + marked), dtype=np.uint64)
            grown[:written] = spots[:written]
            spots = grown
        spot_bounds[page + 1] = written + chain_spots(
            state[slots.TOKENS // 8],
            state[slots.ANTECEDENTS // 8],
            marked,
            state[slots.BLOCKS // 8],
            block_counts[page],
            distance,
            runs,
            spots,
            written,
        )
    return spots[: spot_bounds[pages]].copy(), spot_bounds, token_counts, block_counts


@cache
def _kernel():  # type: ignore[no-untyped-def]
    """The outermost function, the only one that is cached on disk (stream/text/sources.py says why)."""
    sources = sources_digest()

    @njit(nogil=True, cache=True)
    def extract(base, bounds, markup, pages, state, distance, chain_length):  # type: ignore[no-untyped-def]
        state[slots.SOURCES // 8] = sources
        return _extract_batch(base, bounds, markup, pages, state, distance, chain_length)

    return extract
