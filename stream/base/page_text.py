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

OrderedSample holds a page's hashes in ascending order, and as bits: an entry's hashes have 16 bits relative to its
limit, most of a strange entry are not among the page's, and a page meets many entries with the same limit.

An entry keeps the ENTRY_SAMPLES smallest hashes of a page's distinctive text, each as 16 bits relative to a limit, and
its ENTRY_BLOCKS heaviest distinctive blocks.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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
"""The limit of a sample that holds all shingles of its text."""
_MANTISSA_BITS = 4
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
def scaled_hash(value, limit):  # int64, int64 -> int64
    """A hash that is not above the limit, in 16 bits relative to it."""
    return (value << 16) // (limit + 1)


_BUCKETS = 256


class OrderedSample(NamedTuple):
    """The sampled hashes of the page that was ordered last, in ascending order. It serves the pages of one PageTexts.

    hashes: uint64[MAIN_SAMPLES + REST_SAMPLES], hash << 32 | place in the page's sample
    page: int64[1], its number, or -1
    limits: int64[2], the hashes up to which the samples of main text and of other text are complete
    size: int64[1], their number
    scaled: uint64[1024], a bit for each hash up to a limit, in 16 bits relative to it
    below: int64[2], the number of these hashes, and the limit; 0 and -1 if no bit is set
    starts: scratch space
    """

    hashes: NDArray[np.uint64]
    page: NDArray[np.int64]
    limits: NDArray[np.int64]
    size: NDArray[np.int64]
    scaled: NDArray[np.uint64]
    below: NDArray[np.int64]
    starts: NDArray[np.int64]


def new_ordered_sample() -> OrderedSample:
    """Room for the sample of one page."""
    return OrderedSample(
        np.zeros(MAIN_SAMPLES + REST_SAMPLES, np.uint64),
        np.full(1, -1),
        np.zeros(2, np.int64),
        np.zeros(1, np.int64),
        np.zeros(1024, np.uint64),
        np.array([0, -1]),
        np.zeros(_BUCKETS + 1, np.int64),
    )


@inlined
def order_sample(pages, page, ordered):  # PageTexts, int64  ->  ordered: OrderedSample
    """Order the sampled hashes of a page, unless it was ordered last."""
    if ordered.page[0] == page:
        return
    # The bits of the former page go while its hashes are known.
    scale_sample(ordered, np.int64(-1))
    ordered.page[0] = page
    first, begin = pages.block_bounds[page], pages.sample_bounds[page]
    count = pages.sample_bounds[page + 1] - begin
    ordered.size[0] = count
    main, rest, largest_main, largest_rest = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    for at in range(begin, begin + count):
        value = hash_of(pages.samples[at])
        if is_kept(pages.blocks[first + place_of(pages.samples[at])]):
            main, largest_main = main + 1, max(largest_main, value)
        else:
            rest, largest_rest = rest + 1, max(largest_rest, value)
    ordered.limits[0] = sample_limit(main, largest_main, MAIN_SAMPLES)
    ordered.limits[1] = sample_limit(rest, largest_rest, REST_SAMPLES)
    # Hashes are uniform: a counting sort by their highest bits leaves little to the insertion sort.
    shift, starts = np.int64(0), ordered.starts
    while max(largest_main, largest_rest) >> shift >= _BUCKETS:
        shift += 1
    starts[:] = 0
    for at in range(begin, begin + count):
        starts[(hash_of(pages.samples[at]) >> shift) + 1] += 1
    for bucket in range(_BUCKETS):
        starts[bucket + 1] += starts[bucket]
    for at in range(begin, begin + count):
        bucket = hash_of(pages.samples[at]) >> shift
        ordered.hashes[starts[bucket]] = np.uint64(hash_of(pages.samples[at])) << np.uint64(HASH_SHIFT) | np.uint64(
            at - begin
        )
        starts[bucket] += 1
    sort(ordered.hashes, np.int64(0), count)


@inlined
def hash_at(ordered, rank):  # OrderedSample, int64 -> int64
    """The hash with this rank."""
    return np.int64(ordered.hashes[rank] >> np.uint64(HASH_SHIFT))


@inlined
def place_at(ordered, rank):  # OrderedSample, int64 -> int64
    """The place in a page's sample of the hash with this rank."""
    return np.int64(ordered.hashes[rank] & np.uint64(0xFFFFFFFF))


@inlined
def scale_sample(ordered, limit):  # OrderedSample, int64  ->  ordered.scaled, ordered.below
    """Set the bits of a page's hashes up to a limit, in 16 bits relative to it, unless they were set last."""
    if ordered.below[1] == limit:
        return
    for former in range(ordered.below[0]):
        ordered.scaled[scaled_hash(hash_at(ordered, former), ordered.below[1]) >> 6] = 0
    rank = np.int64(0)
    while rank < ordered.size[0] and hash_at(ordered, rank) <= limit:
        value = scaled_hash(hash_at(ordered, rank), limit)
        ordered.scaled[value >> 6] |= np.uint64(1) << np.uint64(value & 63)
        rank += 1
    ordered.below[0], ordered.below[1] = rank, limit


@inlined
def rank_of(ordered, wanted):  # OrderedSample, int64 -> int64
    """The rank of the first hash that is not below this one. wanted: in 16 bits relative to the limit of below"""
    low, high = np.int64(0), ordered.below[0]
    while low < high:
        middle = (low + high) >> 1
        if scaled_hash(hash_at(ordered, middle), ordered.below[1]) < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def sample_limit(count, largest, most):  # int64, int64, int64 -> int64
    """The hash up to which a sample of a text is complete. largest: of its hashes  most: the size of a full sample"""
    return largest if count >= most else np.int64(EVERY_HASH)


@inlined
def sort(values, first, count):  # uint64[], int64, int64
    """Sort values[first:first + count] in place, by insertion: they are few, or nearly in order."""
    for end in range(first + 1, first + count):
        value, at = values[end], end
        while at > first and values[at - 1] > value:
            values[at] = values[at - 1]
            at -= 1
        values[at] = value
