"""The columns of the default scheme for a batch of pages, in one kernel call, and reasons for blocks."""

from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.arrays import Spares, bounds_of, sizes_of
from spotsieve.stream.base.errors import SettingError
from spotsieve.stream.base.jit import kernel, part, plain_tuples
from spotsieve.stream.base.page_text import MOST_BLOCKS, SHINGLE
from spotsieve.stream.sign.features.languages import Vocabulary, choose_language, vocabulary
from spotsieve.stream.sign.features.page_text import MOST_SAMPLES, make_text_buffers, pack_blocks, sample_shingles
from spotsieve.stream.sign.features.scorecard import KEPT_IN_NEED, REASONS, Scorecard, scorecard
from spotsieve.stream.sign.features.selection import select_blocks
from spotsieve.stream.sign.features.shingles import shingle_hashes
from spotsieve.stream.sign.fingerprints.digests import SHORT_BYTES, digest_body, new_lanes
from spotsieve.stream.sign.fingerprints.minhash import smallest_hashes
from spotsieve.stream.sign.text import scan_layout
from spotsieve.stream.sign.text.batch import (
    TOKENS_PER_BYTE,
    TextBatch,
    batch_at,
    check_batch,
    in_padded_parts,
    most_blocks,
    scan_page,
    scan_state,
)
from spotsieve.stream.sign.text.html.elements import section_of
from spotsieve.stream.sign.text.machine import load_int, load_word
from spotsieve.stream.sign.text.scan_layout import Blocks, empty_blocks, unpack_blocks
from spotsieve.stream.sign.text.words import MOST_TITLE_WORDS, read_title

MOST_SHINGLE_WORDS = 15
MOST_MINIMA = 255
_PREFORMATTED = section_of("pre")


@dataclass(frozen=True, slots=True)
class SieveSettings:
    """Settings of the columns. Every field changes verdicts. Raises SettingError for a value out of range.

    shingle_words: words of the shingles that make phrases (1..15); samples have shingles of their own
    minima: number of MinHash values of phrases (1..255)
    salt: changes the identities of blocks (0..2^64 - 1)
    """

    shingle_words: int = SHINGLE
    minima: int = 8
    salt: int = 0

    def __post_init__(self) -> None:
        for name, highest in (("shingle_words", MOST_SHINGLE_WORDS), ("minima", MOST_MINIMA)):
            value = getattr(self, name)
            if not 1 <= value <= highest:
                raise SettingError(name, f"must be a whole number in 1..{highest}", value, "leave it at its default")
        if not 0 <= self.salt < 2**64:
            raise SettingError("salt", "must be a whole number in 0..2^64 - 1", self.salt, "leave it at its default")


@dataclass(slots=True)
class SievedPages:
    """Columns of n pages.

    token_counts, kept_counts: int32[n], tokens of the page and of its main text  block_counts: int32[n]
    weak: bool[n], whether blocks were kept only because text was scarce
    body_digest: uint64[n, 2], XXH3-128 of the page's bytes, low word first; (0, 0) for pages of up to SHORT_BYTES
    feature_counts: uint32[n], number of shingles of the listed main text, with those that occur in several blocks
    language: uint8[n], path number (languages.path_names)
    minima: uint64[m], MinHash values; page i has minima[minima_bounds[i]:minima_bounds[i + 1]], ascending, all
    different  minima_bounds: int64[n + 1]
    blocks: uint64[b], packed blocks (stream/base/page_text.py)  block_bounds: int64[n + 1]
    samples: uint64[s], sampled shingles (stream/base/page_text.py)  sample_bounds: int64[n + 1]
    titles: uint16[t], words of titles (text/words.py)  title_bounds: int64[n + 1]
    headline: uint16[n], hash of two words of the title without the name of the site; 0 without a title
    """

    token_counts: NDArray[np.int32]
    kept_counts: NDArray[np.int32]
    block_counts: NDArray[np.int32]
    weak: NDArray[np.bool_]
    body_digest: NDArray[np.uint64]
    feature_counts: NDArray[np.uint32]
    language: NDArray[np.uint8]
    minima: NDArray[np.uint64]
    minima_bounds: NDArray[np.int64]
    blocks: NDArray[np.uint64]
    block_bounds: NDArray[np.int64]
    samples: NDArray[np.uint64]
    sample_bounds: NDArray[np.int64]
    titles: NDArray[np.uint16]
    title_bounds: NDArray[np.int64]
    headline: NDArray[np.uint16]

    def __len__(self) -> int:
        return len(self.token_counts)


class SieveBuffers(NamedTuple):
    """Tables and scratch of the kernel, large enough for the largest page of the batch. lanes: of new_lanes"""

    blocks: Blocks
    words: Vocabulary
    card: Scorecard
    lanes: NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class ScoredBlock:
    """One block of a page, and why the scorecards keep or drop it.

    tokens: its words  links: number of tokens that begin in a link  sections, lead: as in Blocks  reason: of REASONS
    place: among the packed blocks of the page; None for a repeat, and for a block that is not listed
    """

    tokens: tuple[str, ...]
    links: int
    sections: int
    lead: int
    reason: str
    place: int | None

    @property
    def kept(self) -> bool:
        """Whether the block is main text."""
        return self.reason in REASONS[: KEPT_IN_NEED + 1]


class SelectedBlocks(NamedTuple):
    """The n blocks of one page: which of them are main text, and where they end in the page.

    ends: the offset in bytes at which each block ends; it begins where the last one ends
    kept: whether each block is main text  preformatted: whether it is in <pre>
    places: the place of each block, or of the equal block before it, among the packed blocks; -1 without one
    title: where the content of <title> begins and ends in the page, (0, 0) without a title
    """

    ends: list[int]
    kept: list[bool]
    preformatted: list[bool]
    places: list[int]
    title: tuple[int, int]


def sieve_pages(
    buffer: NDArray[np.uint8],
    bounds: NDArray[np.int64],
    markup: NDArray[np.uint8] | int,
    settings: SieveSettings,
) -> SievedPages:
    """Main text, features and digests of n pages, in one kernel call without the GIL.

    buffer: uint8[N], the pages' UTF-8, concatenated
    bounds: int64[n + 1], page i is buffer[bounds[i]:bounds[i + 1]]; ascending, within the buffer
    markup: uint8[n], or one for all pages, of Markup (stream/base/page.py)
    Raises TypeError for wrong dtypes and ValueError for bad bounds.
    """
    parts = in_padded_parts(
        *check_batch(buffer, bounds, markup), lambda buffer, bounds, flags: _run(buffer, bounds, flags, settings)
    )
    return parts[0] if len(parts) == 1 else _joined(parts)


def blocks_of(page: bytes, markup: int) -> list[ScoredBlock]:
    """The blocks of one page, each with the reason why it is kept or dropped."""
    if not page:
        return []
    state, arrays = scan_state(len(page), tracing=True)
    blocks = empty_blocks(most_blocks(len(page)))
    in_padded_parts(
        *check_batch(np.frombuffer(page, dtype=np.uint8), np.array([0, len(page)]), markup),
        lambda buffer, bounds, flags: _call(batch_at(buffer, bounds, flags), state, _buffers(blocks), SieveSettings()),
    )
    words = arrays[scan_layout.TRACE][: state[scan_layout.TRACE_LENGTH // 8]].tobytes().decode().split("\n")
    count = int(state[scan_layout.BLOCK_COUNT // 8])
    ends = bounds_of(blocks.words[:count]).tolist()
    return [
        ScoredBlock(
            tuple(words[start:end]),
            int(blocks.links[block]),
            int(blocks.sections[block]),
            int(blocks.leads[block]),
            REASONS[blocks.reasons[block]],
            int(blocks.places[block]) if blocks.places[block] >= 0 else None,
        )
        for block, (start, end) in enumerate(pairwise(ends))
    ]


def selected_blocks(page: bytes, markup: int) -> SelectedBlocks:
    """The blocks of one page as places in its bytes, without their words."""
    if not page:
        return SelectedBlocks([], [], [], [], (0, 0))
    state, arrays = scan_state(len(page))
    blocks = empty_blocks(most_blocks(len(page)))

    def run(buffer: NDArray[np.uint8], bounds: NDArray[np.int64], flags: NDArray[np.uint8]) -> tuple[SievedPages, int]:
        batch = batch_at(buffer, bounds, flags)
        return _call(batch, state, _buffers(blocks), SieveSettings()), batch.buffer

    content = check_batch(np.frombuffer(page, dtype=np.uint8), np.array([0, len(page)]), markup)
    ((sieved, start),) = in_padded_parts(*content, run)
    count = int(sieved.block_counts[0])
    records = arrays[scan_layout.BLOCKS].view(np.int32).reshape(-1, (1 << scan_layout.BLOCK_SHIFT) // 4)[:count]
    first, last = (int(state[slot // 8]) for slot in (scan_layout.TITLE_START, scan_layout.TITLE_END))
    places = blocks.places[:count].tolist()
    if min(places, default=0) < 0:
        tokens = arrays[scan_layout.TOKENS]
        texts = [tokens[begin:end].tobytes() for begin, end in pairwise([0, *records[:, 0].tolist()])]
        listed = {text: place for text, place in zip(texts, places, strict=True) if place >= 0}
        places = [listed.get(text, -1) for text in texts]
    return SelectedBlocks(
        records[:, scan_layout.BLOCK_END // 4].tolist(),
        (blocks.reasons[:count] <= KEPT_IN_NEED).tolist(),
        (blocks.sections[:count] >> _PREFORMATTED & 1 != 0).tolist(),
        places,
        (first - start, last - start) if last else (0, 0),
    )


def _joined(parts: list[SievedPages]) -> SievedPages:
    if not parts:
        none = np.zeros(0, dtype=np.int32)
        hashes = np.zeros(0, dtype=np.uint64)
        bounds = np.zeros(1, dtype=np.int64)
        return SievedPages(
            none,
            none,
            none,
            none.astype(np.bool_),
            hashes.reshape(0, 2),
            none.astype(np.uint32),
            none.astype(np.uint8),
            hashes,
            bounds,
            hashes,
            bounds,
            hashes,
            bounds,
            none.astype(np.uint16),
            bounds,
            none.astype(np.uint16),
        )
    first, second = parts
    columns = {
        column.name: np.concatenate([getattr(part, column.name) for part in parts]) for column in fields(SievedPages)
    }
    for name in ("minima_bounds", "block_bounds", "sample_bounds", "title_bounds"):
        before, behind = getattr(first, name), getattr(second, name)
        columns[name] = np.append(before, behind[1:] + before[-1])
    return SievedPages(**columns)


class _Room(NamedTuple):
    """Tables and scratch for pages of up to `longest` bytes.

    arrays: the state has their addresses  buffers: SieveBuffers in plain tuples
    """

    longest: int
    state: NDArray[np.int64]
    arrays: dict[int, NDArray[Any]]
    buffers: tuple[Any, ...]


KEPT_BYTES = 1 << 17
"""The size of pages for which rooms are kept. The system provides memory only for the parts that pages use."""


def _run(
    buffer: NDArray[np.uint8], bounds: NDArray[np.int64], markup: NDArray[np.uint8], settings: SieveSettings
) -> SievedPages:
    longest = int(np.maximum.reduce(sizes_of(bounds)))
    room = _spares.take() if longest <= KEPT_BYTES else _new_room(longest)
    sieved = _call(batch_at(buffer, bounds, markup), room.state, room.buffers, settings)
    if room.longest == KEPT_BYTES:
        _spares.give_back(room)
    return sieved


def _new_room(longest: int) -> _Room:
    """A room. For one page of a few kilobytes, it takes half as long to make as the page takes to read."""
    return _Room(longest, *scan_state(longest), _buffers(empty_blocks(most_blocks(longest))))


_spares = Spares(lambda: _new_room(KEPT_BYTES))


def _buffers(blocks: Blocks) -> tuple[Any, ...]:
    """SieveBuffers in plain tuples."""
    buffers: tuple[Any, ...] = plain_tuples(
        SieveBuffers(blocks, vocabulary(), scorecard(len(blocks.words)), new_lanes())
    )
    return buffers


def _call(batch: TextBatch, state: NDArray[np.int64], buffers: tuple[Any, ...], settings: SieveSettings) -> SievedPages:
    pages, rules = batch.pages, (settings.shingle_words, settings.minima, np.uint64(settings.salt))
    # A kernel would take 1 us for each array that it returns.
    tokens, kept, blocks = np.zeros(pages, np.int32), np.zeros(pages, np.int32), np.zeros(pages, np.int32)
    weak, digest, features = np.zeros(pages, np.bool_), np.zeros((pages, 2), np.uint64), np.zeros(pages, np.uint32)
    language, headline = np.zeros(pages, np.uint8), np.zeros(pages, np.uint16)
    bounds = [np.zeros(pages + 1, np.int64) for _ in range(4)]
    fixed = tokens, kept, blocks, weak, digest, features, language
    minima, packed, samples, titles = _sieve_batch((*batch,), state, buffers, *rules, (*fixed, headline, *bounds))
    return SievedPages(
        *fixed, minima, bounds[0], packed, bounds[1], samples, bounds[2], titles, bounds[3], headline=headline
    )


@part
def _keep_tokens(tokens, blocks, count, kept):
    """Copy the tokens of the main text and return their number.

    tokens: address of uint64[]  blocks: Blocks  count: number of blocks  ->  kept: uint64[]; the number: int64
    """
    end, written = np.int64(0), np.int64(0)
    for block in range(count):
        start, end = end, end + blocks.words[block]
        if blocks.reasons[block] <= KEPT_IN_NEED:
            for place in range(start, end):
                kept[written] = load_word(tokens + (place << 3))
                written += 1
    return written


@part
def _most(batch, each):  # TextBatch, int64 -> int64
    """Slots for the pages of a batch, up to `each` per page, one for each token that a page can have."""
    slots = np.int64(0)
    for page in range(batch.pages):
        size = load_int(batch.bounds + (page << 3) + 8) - load_int(batch.bounds + (page << 3))
        slots += min(TOKENS_PER_BYTE * size + 1, each)
    return slots


@kernel
def _sieve_batch(batch, state, buffers, shingle_words, minima_count, salt, columns):
    # batch, buffers: TextBatch of n pages and SieveBuffers, in plain tuples  state: int64[92]
    # shingle_words, minima_count, salt: as in SieveSettings
    # ->  columns: columns of SievedPages, of n or n + 1 numbers; returns the others: minima, blocks, samples and titles
    batch, (blocks, words, card, lanes) = TextBatch(*batch), buffers
    buffers = SieveBuffers(Blocks(*blocks), Vocabulary(*words), Scorecard(*card), lanes)
    pages, blocks, words = batch.pages, buffers.blocks, buffers.words
    token_counts, kept_counts, block_counts, weak, body_digest, feature_counts, language, headline = columns[:8]
    minima_bounds, packed_bounds, sample_bounds, title_bounds = columns[8:]
    minima, packed = np.empty(pages * minima_count, dtype=np.uint64), np.empty(_most(batch, MOST_BLOCKS), np.uint64)
    samples, titles = np.empty(_most(batch, MOST_SAMPLES), np.uint64), np.empty(pages * MOST_TITLE_WORDS, np.uint16)
    explains = state[scan_layout.TRACE // 8] != 0
    kept, features = np.empty(1024, dtype=np.uint64), np.empty(1024, dtype=np.uint64)
    room = make_text_buffers(256, 1024)
    for page in range(pages):
        start, end = scan_page(state, batch, page)
        if end - start > SHORT_BYTES:
            body_digest[page, 0], body_digest[page, 1] = digest_body(start, end - start, buffers.lanes)
        tokens, count = state[scan_layout.TOKENS // 8], state[scan_layout.TOKEN_COUNT // 8]
        block_count = state[scan_layout.BLOCK_COUNT // 8]
        if count > len(kept) or block_count > len(room.keys):
            # Grow with the largest page so far.
            kept, features = np.empty(2 * count, dtype=np.uint64), np.empty(2 * count, dtype=np.uint64)
            room = make_text_buffers(max(2 * block_count, 256), 2 * count)
        token_counts[page], block_counts[page] = count, block_count
        unpack_blocks(state[scan_layout.BLOCKS // 8], block_count, blocks)
        weak[page] = select_blocks(blocks, block_count, buffers.card, explains)
        kept_count = _keep_tokens(tokens, blocks, block_count, kept)
        kept_counts[page] = kept_count
        # All text of a page without main text serves in its place, so that other hosts' copies are found.
        text, size = (np.int64(kept.ctypes.data), kept_count) if kept_count > 0 else (tokens, count)
        language[page] = choose_language(text, size, words)
        shingles = shingle_hashes(text, size, shingle_words, features)
        written = minima_bounds[page]
        minima_bounds[page + 1] = written + smallest_hashes(
            features, shingles, shingle_words - 1, minima[written : written + minima_count]
        )
        of_page = packed[packed_bounds[page] :]
        packed_bounds[page + 1] = packed_bounds[page] + pack_blocks(tokens, blocks, block_count, salt, room, of_page)
        sampled, feature_counts[page] = sample_shingles(
            *(tokens, blocks, block_count, features, shingle_words, room, of_page, samples[sample_bounds[page] :])
        )
        sample_bounds[page + 1] = sample_bounds[page] + sampled
        written = title_bounds[page]
        found, headline[page] = read_title(np.int64(state.ctypes.data), titles, written)
        title_bounds[page + 1] = written + found
    return (
        minima[: minima_bounds[pages]].copy(),
        packed[: packed_bounds[pages]].copy(),
        samples[: sample_bounds[pages]].copy(),
        titles[: title_bounds[pages]].copy(),
    )
