"""Prepares batches of pages for the kernels: checked arrays, padding after the last page, and the state of a scan.

It also scans a page, of markup or plain text, to token hashes and blocks. In plain text a blank line ends a block.
Header and signature of a message, such as an e-mail, are no text.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.arrays import sizes_of
from spotsieve.stream.base.jit import kernel, part
from spotsieve.stream.base.page import Markup
from spotsieve.stream.sign.text import scan_layout
from spotsieve.stream.sign.text.characters import is_alphanumeric, text_tables
from spotsieve.stream.sign.text.html.elements import LEAD_PLAIN, element_table
from spotsieve.stream.sign.text.html.scan import scan_markup
from spotsieve.stream.sign.text.html.skips import after_byte, find_byte
from spotsieve.stream.sign.text.machine import PADDING, byte_at, load_int, lowered16, put_int
from spotsieve.stream.sign.text.words import close_word, end_block, read_ascii, spell

_XML = np.uint8(Markup.XML)
MOST_SIGNATURE_LINES = 12
"""A message with more lines below "-- " goes on there: it is a digest of several messages."""
_LINE_FEED, _TAB, _SPACE, _DASH, _COLON, _TILDE = (np.uint8(ord(one)) for one in "\n\t -:~")
_FROM, _MBOX, _SUBJECT = (np.uint64(int.from_bytes(name, "little")) for name in (b"from", b"from ", b"subject"))


@part
def scan_plain(state, start, end):  # int64, int64, int64 -> None
    """Scan plain text. A blank line, of only blanks and control characters, separates blocks."""
    put_int(state + scan_layout.LEAD, np.int64(LEAD_PLAIN))
    line, text_end = message_bounds(start, end)
    while line < text_end:
        line_end = find_byte(line, text_end, _LINE_FEED)
        if _is_blank(line, line_end):
            end_block(state, line - start)
        else:
            _read_line(state, line, line_end)
        line = line_end + 1
    end_block(state, text_end - start)


@part
def _read_line(state, start, end):  # int64, int64, int64 -> None
    """Append the tokens of a line of plain text."""
    while start < end:
        start = read_ascii(state, start, end)
        # From a word with other characters to the next word of ASCII behind a separator.
        first, separated = start, False
        while start < end:
            character = byte_at(start)
            if character < 0x80 and is_alphanumeric(character):
                if separated:
                    break
            else:
                separated = character < 0x80
            start += 1
        spell(state, first, start, scan_layout.RAW)
        close_word(state)


@part
def message_bounds(start, end):  # int64, int64 -> (int64, int64)
    """The addresses at which the text of plain text begins and ends.

    A message begins with fields, From and Subject among them, and an empty line (RFC 5322, 2.1); the first line of mbox
    may precede them. They are about its text, like the head of HTML. Its signature is no text either. The subject does
    not serve as a title: pages with the same title are similar, but messages of one thread are not.
    """
    has_sender, has_subject = False, False
    first, _ = lowered16(start, min(end - start, np.int64(len("From "))))
    fields = line = after_byte(start, end, _LINE_FEED) if first == _MBOX else start
    while line < end:
        line_end = find_byte(line, end, _LINE_FEED)
        if line_end - line <= 1 and _is_blank(line, line_end):
            if not has_sender or not has_subject:
                break
            return line_end, _signature(line_end, end)
        # A field goes on in lines that begin with a blank.
        if line == fields or (byte_at(line) != _SPACE and byte_at(line) != _TAB):
            colon = line
            while colon < line_end and _SPACE < byte_at(colon) <= _TILDE and byte_at(colon) != _COLON:
                colon += 1
            if not line < colon < line_end or byte_at(colon) != _COLON:
                break
            name, _ = lowered16(line, min(colon - line, np.int64(16)))
            has_sender |= name == _FROM
            has_subject |= name == _SUBJECT
        line = line_end + 1
    return start, end


@part
def _signature(start, end):  # int64, int64 -> int64
    """The address of the line "-- " above the signature of a message (RFC 3676, 4.3), or `end` without one.

    Many programs drop the blank. A message that begins with this line has no signature.
    """
    while end > start and byte_at(end - 1) <= _SPACE:
        end -= 1
    line_end = end
    for _ in range(MOST_SIGNATURE_LINES + 1):
        line = line_end
        while line > start and byte_at(line - 1) != _LINE_FEED:
            line -= 1
        if line <= start:
            break
        dashes = line_end - line >= 2 and byte_at(line) == _DASH and byte_at(line + 1) == _DASH
        if dashes and line_end - line <= 4 and _is_blank(line + 2, line_end):
            return end if _is_blank(start, line) else line
        line_end = line - 1
    return end


@part
def _is_blank(start, end):  # int64, int64 -> bool
    """Whether there are only blanks and control characters."""
    while start < end and byte_at(start) <= _SPACE:
        start += 1
    return start == end


@kernel
def _message_bounds(page, size):  # int64 address, int64 -> (int64, int64)
    return message_bounds(page, page + size)


def message_span(page: bytes) -> tuple[int, int]:
    """The offsets at which the text of plain text begins and ends, as in `message_bounds`."""
    padded = np.frombuffer(page + bytes(PADDING), dtype=np.uint8)
    address = padded.ctypes.data
    first, last = _message_bounds(address, len(page))
    return first - address, last - address


MAX_PAGE_BYTES = (1 << 31) - 1
"""The tokens of a page are counted in 31 bits."""

Result = TypeVar("Result")


class TextBatch(NamedTuple):
    """Memory addresses of a batch of n pages. pages: n  buffer: of uint8[N]  bounds: of int64[n + 1]
    markup: of uint8[n], values of Markup (stream/base/page.py)

    A kernel takes addresses, because numba compiles it again for read-only arrays, and arrays over bytes are read-only.
    """

    pages: int
    buffer: int
    bounds: int
    markup: int


def check_batch(
    buffer: NDArray[np.uint8], bounds: NDArray[np.int64], markup: NDArray[np.uint8] | int
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.uint8]]:
    """The arrays, contiguous, with one Markup for each page. Raises TypeError and ValueError for wrong arrays.

    buffer: uint8[N]  bounds: int64[n + 1], ascending, within the buffer  markup: uint8[n], or one for all pages
    """
    if buffer.dtype != np.uint8 or buffer.ndim != 1:
        raise TypeError(f"buffer must be uint8[N], got {buffer.dtype}[{buffer.ndim} dimensions]; use numpy.frombuffer")
    if bounds.dtype != np.int64 or bounds.ndim != 1 or len(bounds) == 0:
        raise TypeError(f"bounds must be int64[n + 1], got {bounds.dtype}[{bounds.shape}]; begin it with 0")
    sizes = sizes_of(bounds)
    first, last = bounds.item(0), bounds.item(-1)
    if first < 0 or last > len(buffer) or np.minimum.reduce(sizes, initial=0) < 0:
        raise ValueError(f"bounds must ascend within 0..{len(buffer)}, got {first}..{last}; check the batch")
    # No page is longer than the buffer.
    if len(buffer) > MAX_PAGE_BYTES and sizes.max(initial=0) > MAX_PAGE_BYTES:
        raise ValueError(f"a page must be at most {MAX_PAGE_BYTES} bytes, got {sizes.max()}; pass it on unchecked")
    flags = np.asarray(markup, dtype=np.uint8)
    if flags.shape != sizes.shape:
        flags = np.broadcast_to(flags, len(sizes))
    return np.ascontiguousarray(buffer), np.ascontiguousarray(bounds), np.ascontiguousarray(flags)


def in_padded_parts(
    buffer: NDArray[np.uint8],
    bounds: NDArray[np.int64],
    flags: NDArray[np.uint8],
    run: Callable[[NDArray[np.uint8], NDArray[np.int64], NDArray[np.uint8]], Result],
) -> list[Result]:
    """The results of `run`, which is called zero, one or two times, each time with PADDING readable bytes after the
    pages.

    Pages whose read windows stay inside the buffer are read in place; the last pages are read from a padded copy.
    """
    pages = len(bounds) - 1
    direct = pages
    if bounds[pages] > len(buffer) - PADDING:
        direct = int(np.searchsorted(bounds[1:], len(buffer) - PADDING, side="right"))
    parts = []
    if direct:
        parts.append(run(buffer, bounds[: direct + 1], flags[:direct]))
    if direct < pages:
        tail = np.zeros(int(bounds[pages] - bounds[direct]) + PADDING, dtype=np.uint8)
        tail[: len(tail) - PADDING] = buffer[bounds[direct] : bounds[pages]]
        parts.append(run(tail, bounds[direct:] - bounds[direct], flags[direct:]))
    return parts


def batch_at(buffer: NDArray[np.uint8], bounds: NDArray[np.int64], flags: NDArray[np.uint8]) -> TextBatch:
    """The memory addresses of checked arrays, which must outlive the kernel call."""
    return TextBatch(len(flags), *_addresses(buffer, bounds, flags))


@kernel
def _addresses(buffer, bounds, flags):
    # uint8[N], int64[n + 1], uint8[n] -> their addresses. NumPy takes four times as long, and as `ctypes.data` twelve.
    return buffer.ctypes.data, bounds.ctypes.data, flags.ctypes.data


TOKENS_PER_BYTE = 2
SPELLED_BYTES = 4
POINTS_PER_BYTE = 2
TRACE_BYTES = 12
"""The most that a byte of a page gives: tokens, bytes of a word, characters of a decomposed word, and bytes of traced
tokens with their line feeds."""


def most_tokens(size: int) -> int:
    """Room for the tokens of a page of `size` bytes."""
    return TOKENS_PER_BYTE * size + 64


def most_blocks(size: int) -> int:
    """Room for the blocks of a page of `size` bytes: between two blocks there are a tag, or line feeds."""
    return size // 2 + 64


def scan_state(longest: int, tracing: bool = False) -> tuple[NDArray[np.int64], dict[int, NDArray[Any]]]:
    """A scan's state for pages of up to `longest` bytes, and the arrays that it points into. tracing: record token
    texts

    U+3316, of three bytes, is read as six ideographs, U+FDFA as 18 characters of 33 bytes, and U+321D is decomposed to
    five letters of Hangul. The arrays have room for pages of such characters, but the system provides memory
    only for the parts that are written.
    """
    tables, elements = text_tables(), element_table()
    arrays: dict[int, NDArray[Any]] = {
        scan_layout.TOKENS: np.empty(most_tokens(longest), dtype=np.uint64),
        scan_layout.BLOCKS: np.empty(most_blocks(longest) << scan_layout.BLOCK_SHIFT, dtype=np.uint8),
        scan_layout.SPELLED: np.empty(SPELLED_BYTES * longest + 64, dtype=np.uint8),
        # The characters of a word, and as many of scratch.
        scan_layout.POINTS: np.empty(2 * (POINTS_PER_BYTE * longest + 64), dtype=np.int32),
        scan_layout.PAGES: tables.pages,
        scan_layout.LEAVES: tables.leaves,
        scan_layout.EXPANSIONS: tables.expansions,
        scan_layout.COMPOSITION_KEYS: tables.composition_keys,
        scan_layout.COMPOSITION_VALUES: tables.composition_values,
        scan_layout.ENTITY_KEYS: tables.entity_keys,
        scan_layout.ENTITY_VALUES: tables.entity_values,
        scan_layout.NAMES: elements.names,
        scan_layout.TRAITS: elements.traits,
    }
    if tracing:
        arrays[scan_layout.TRACE] = np.empty(TRACE_BYTES * longest + 64, dtype=np.uint8)
    state = np.zeros(scan_layout.STATE_SLOTS, dtype=np.int64)
    for slot, array in arrays.items():
        state[slot // 8] = array.ctypes.data
    state.view(np.uint64)[scan_layout.NAME_MULTIPLIER // 8] = elements.multiplier
    return state, arrays


@part
def scan_page(state, batch, page):  # int64[92], TextBatch, int64 -> (int64, int64)
    """Write the tokens and blocks of a page into the arrays of the state.

    Returns the addresses at which the page begins and ends.
    """
    start = batch.buffer + load_int(batch.bounds + (page << 3))
    end = batch.buffer + load_int(batch.bounds + (page << 3) + 8)
    state[scan_layout.TOKEN_COUNT // 8 : scan_layout.LAST_CLEARED // 8 + 1] = 0
    place = np.int64(state.ctypes.data)
    markup = byte_at(batch.markup + page)
    if markup != 0:
        scan_markup(place, start, end, markup == _XML)
    else:
        scan_plain(place, start, end)
    return start, end
