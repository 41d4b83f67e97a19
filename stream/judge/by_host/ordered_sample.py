"""Orders the sampled hashes of a page, so that they are compared with the sample of an entry quickly.

An entry's hashes have 16 bits relative to its limit. The page's hashes below this limit are set in a table of 65,536
bits. Most hashes of a strange entry are not in it, and a page meets many entries with the same limit.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.jit import inlined
from spotsieve.stream.base.page_text import (
    EVERY_HASH,
    HASH_SHIFT,
    MAIN_SAMPLES,
    REST_SAMPLES,
    hash_of,
    is_kept,
    place_of,
    scaled_hash,
)

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
