"""The layout of a page's text in a signature: packed blocks, and a sample of its shingle hashes.

    block  = identity << 24 | numbers << 16 | words << 8 | outside << 4 | numeric << 2 | wide << 1 | kept    uint64
    sample = hash << 32 | position << 16 | block << 4 | width                                         uint64

    identity   40 bits of a hash over the block's tokens; in a block that is not numeric, one constant replaces every
               token with a digit
    numbers    0 without such tokens, otherwise 1..255: a digest of the tokens themselves
    words      the number of tokens as a size code (below)
    outside    the share of tokens outside links, in 15ths
    numeric    whether at least a third of its tokens have a digit, such as a part number or a cell of a table
    wide       whether shingles have WIDE_SHINGLE tokens instead of SHINGLE
    kept       whether the block is main text
    hash       the 32 highest bits of the shingle's hash
    position   number of tokens of the page before the shingle, at most 65,535
    block      the place of its block among the page's blocks, and width its number of tokens

Blocks stand in page order, and equal blocks once. Samples stand in page order too, and equal shingles once. A page
keeps the MAIN_SAMPLES smallest hashes of its main text and the REST_SAMPLES smallest of its other text: bottom-k
sketches (Broder 1997), so every shingle whose hash is not above the largest kept one is in the sample.

An entry keeps the ENTRY_SAMPLES smallest hashes of a page's distinctive text, each as 16 bits relative to a limit, and
its ENTRY_BLOCKS heaviest distinctive blocks. The two sketches of a page end at different hashes, so an entry has two
limits, in one word:

    limits = main >> 8 << 8 | part                                                                    uint32

    main       no hash of main text up to this one is missing; its lowest 8 bits are all set
    part       no hash of other text is missing up to (part + 1) / 256 of main
"""

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.arrays import bounds_of, sizes_of
from spotsieve.stream.base.jit import inlined

IDENTITY_SHIFT, NUMBERS_SHIFT, WORDS_SHIFT, OUTSIDE_SHIFT = 24, 16, 8, 4
IDENTITY_BITS = 40
KEPT, WIDE, NUMERIC = np.uint64(1), np.uint64(2), np.uint64(4)
HASH_SHIFT, POSITION_SHIFT, PLACE_SHIFT = 32, 16, 4
SHINGLE, WIDE_SHINGLE = 3, 8
MOST_BLOCKS = 1024
MAIN_SAMPLES, REST_SAMPLES = 192, 128
ENTRY_SAMPLES, ENTRY_BLOCKS = 192, 16
EVERY_HASH = 2**32 - 1
"""The limit of a sample that holds all shingles of its text, and the limits of an entry with two of them."""
_MANTISSA_BITS = 4
_PART_BITS = 8
_PARTS = 1 << _PART_BITS
MOST_SIZE = 31 << 14


@inlined
def size_code(words):  # int64 -> int64
    """The code of a size in words, one byte: exact below 32, then rounded down by less than 1/16.

    A mantissa of 4 bits and an exponent; sizes below 16 are their own code. Sizes above MOST_SIZE get its code.
    """
    size, exponent = min(words, np.int64(MOST_SIZE)), np.int64(0)
    while size >= 32:
        size >>= 1
        exponent += 1
    return size if size < 16 else (exponent + 1) << _MANTISSA_BITS | size - 16


@inlined
def words_of_code(code):  # int64 -> int64
    """The size in words that a code stands for."""
    exponent, mantissa = code >> _MANTISSA_BITS, code & 15
    return mantissa if exponent == 0 else (mantissa + 16) << (exponent - 1)


@inlined
def words_of(block):  # uint64 -> int64
    """The number of words of a block."""
    return words_of_code(np.int64(block >> np.uint64(WORDS_SHIFT)) & 255)


@inlined
def words_outside_links(block):  # uint64 -> float64
    """The number of words of a block outside links."""
    return words_of(block) * (np.int64(block >> np.uint64(OUTSIDE_SHIFT)) & 15) / 15.0


def words_outside(blocks: NDArray[np.uint64], bounds: NDArray[np.int64]) -> NDArray[np.int64]:
    """The number of words outside links of each page, rounded down: int64[n].

    blocks: uint64[b]  bounds: int64[n + 1], page i has blocks[bounds[i]:bounds[i + 1]]
    """
    before = bounds_of(_FIFTEENTHS[(blocks & np.uint64(0xFFFF)).astype(np.intp)])
    return sizes_of(before[bounds]) // 15


_LOW = np.arange(0x10000)
_EXPONENT, _MANTISSA = _LOW >> WORDS_SHIFT + _MANTISSA_BITS, _LOW >> WORDS_SHIFT & 15
_WORDS = np.where(_EXPONENT == 0, _MANTISSA, (_MANTISSA + 16) << np.maximum(_EXPONENT - 1, 0))
_FIFTEENTHS = _WORDS * (_LOW >> OUTSIDE_SHIFT & 15)
"""The words outside links of a block by its 16 lowest bits, in 15ths of a word."""


@inlined
def identity_of(block):  # uint64 -> uint64
    """The identity of a block, below 2^40."""
    return block >> np.uint64(IDENTITY_SHIFT)


@inlined
def is_kept(block):  # uint64 -> bool
    """Whether a block is main text."""
    return block & KEPT != np.uint64(0)


@inlined
def place_of(sample):  # uint64 -> int64
    """The place of a shingle's block among the blocks of its page."""
    return np.int64(sample >> np.uint64(PLACE_SHIFT)) & 4095


@inlined
def position_of(sample):  # uint64 -> int64
    """The number of words of the page before a shingle."""
    return np.int64(sample >> np.uint64(POSITION_SHIFT)) & 65_535


@inlined
def width_of(sample):  # uint64 -> int64
    """The number of words of a shingle."""
    return np.int64(sample) & 15


@inlined
def hash_of(sample):  # uint64 -> int64
    """The hash of a shingle, below 2^32."""
    return np.int64(sample >> np.uint64(HASH_SHIFT))


@inlined
def pack_limits(main, rest):  # int64, int64 -> int64
    """The limits of an entry, rounded down. main, rest: hashes up to which no hash of the text is missing"""
    # The limit of the other text has to be at least one part of the limit of the main text.
    each = max(np.int64(1), min(main + 1 >> _PART_BITS, rest + 1))
    return each - 1 << _PART_BITS | min((rest + 1) // each, np.int64(_PARTS)) - 1


@inlined
def main_limit(limits):  # int64 -> int64
    """The hash up to which an entry has all main text."""
    return limits | _PARTS - 1


@inlined
def rest_limit(limits):  # int64 -> int64
    """The hash up to which an entry has all other text."""
    return ((limits >> _PART_BITS) + 1) * ((limits & _PARTS - 1) + 1) - 1


@inlined
def scaled_hash(value, limit):  # int64, int64 -> int64
    """A hash that is not above the limit, in 16 bits relative to it: (value << 16) // (limit + 1).

    Below 2^16, such a quotient is at least 2^-32 below the next integer, and the product is off by less than 2^-35. So
    a quarter makes up for the rounding, and a multiplication takes a tenth of the time of a division.
    """
    return np.int64((np.float64(value << 16) + 0.25) * (1.0 / np.float64(limit + 1)))
