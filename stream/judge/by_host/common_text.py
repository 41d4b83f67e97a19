"""Common text: blocks that stand on several hosts under different headlines, such as notices and the texts of a theme.

A copy of an article stands on many hosts too, but mostly under the same headline, which is the title without the name
of the site. So for every block two sketches are kept: of the hosts that showed it, and of the headlines under which
they did. A block is common text if both have at least LEAST_HOSTS elements. The sketches count by linear counting
(Whang et al. 1990), so a host that shows a block again adds nothing.

A paragraph that names its site, such as a notice, differs from host to host. So a block of LEAST_PHRASED words is
counted under two keys: its identity, and its SMALLEST smallest shingles (the super shingles of Broder et al. 1997). In
five of six blocks of fifty words, a name of one word is in none of the three, and all these blocks have one key. More
than one shingle is needed, because a common phrase is the smallest shingle of many blocks.

The table is bounded. It consists of windows of WINDOW slots, in each of which the blocks stand in the order in which
they were last seen. A new block replaces the one of its window that fewest hosts have shown; of several, the one that
was seen least recently. Only blocks of LEAST_WORDS words and more take part: short ones say little.

Every page in the log with text is counted, in log order and whatever its verdict, so each process that reads the log
has the same table.
"""

import numpy as np

from spotsieve.state.index import COMMON_SLOTS
from spotsieve.state.index import COMMON_WINDOW as WINDOW
from spotsieve.stream.base.jit import inlined, kernel
from spotsieve.stream.base.page_text import EVERY_HASH, hash_of, identity_of, place_of, words_of
from spotsieve.stream.sign.fingerprints.simhash import count_bits

LEAST_WORDS = 8
LEAST_HOSTS = 3
"""Of 16 bits, three hosts set three with a chance of 0.82, and four hosts at least three with 0.95."""
NOTICE_BITS = 12
"""Of 16 bits: about 22 hosts set 12. A block that 22 hosts showed under 22 headlines is a notice. It counts as
template text on every host, except on a page with hardly any other text: there it is an article (look_up)."""
LEAST_PHRASED, SMALLEST = 20, 3
"""The words of a block that is also counted under its SMALLEST smallest shingles."""
NO_COMMON_TEXT, COMMON_TEXT, NOTICE = np.uint8(0), np.uint8(1), np.uint8(2)
_WINDOWS = COMMON_SLOTS // WINDOW
_MIX = np.uint64(0x9E3779B97F4A7C15)
_KEY_SHIFT, _HOSTS_SHIFT = np.uint64(32), np.uint64(16)
_SKETCH = np.uint64(0xFFFF)
_UNLISTED = np.uint64(0)
"""The identity of the block that stands for all unlisted ones of its page: two such blocks have nothing in common."""


@kernel
def find_common_text(table, judged, host, headline, blocks, block_bounds, samples, sample_bounds, counted):
    """How common each block is on other hosts, as far as the earlier pages show: uint8[b] (NO_COMMON_TEXT, ...).

    judged, counted: bool[n], pages that are compared, and those of them that are counted. The table stays as it is: the
    windows in which pages are counted are returned with their new contents: int64[k], uint64[k, WINDOW]
    """
    # table: uint64[COMMON_SLOTS]  host: uint64[n]  headline: uint16[n]
    # blocks: uint64[b]  block_bounds: int64[n + 1]  samples: uint64[s]  sample_bounds: int64[n + 1]
    how_common = np.zeros(len(blocks), np.uint8)
    most = min(2 * len(blocks), _WINDOWS) if counted.any() else 0
    numbers, new = np.empty(most, np.int64), np.empty(most * WINDOW, np.uint64)
    # A hash table of the windows in which pages are counted: with _WINDOWS places each has its own.
    places = 16
    while places < min(2 * most, _WINDOWS):
        places *= 2
    rows, used = np.full(places, -1, np.int32), np.int64(0)
    keys = np.empty(2, np.uint64)
    for page in range(len(judged)):
        if not judged[page]:
            continue
        shown = _sketch_of(host[page]) << _HOSTS_SHIFT
        # A page without a title shows its blocks under its host.
        shown |= _sketch_of(np.uint64(headline[page]) if headline[page] > 0 else host[page])
        at_sample = sample_bounds[page]
        for place in range(block_bounds[page], block_bounds[page + 1]):
            after, first_sample = np.int64(at_sample), np.int64(at_sample)
            while after < sample_bounds[page + 1] and place_of(samples[after]) == place - block_bounds[page]:
                after += 1
            at_sample = after
            keys[0], keys[1] = identity_of(blocks[place]), _UNLISTED
            if words_of(blocks[place]) < LEAST_WORDS or keys[0] == _UNLISTED:
                continue
            if words_of(blocks[place]) >= LEAST_PHRASED and after - first_sample >= SMALLEST:
                keys[1] = _key_of_smallest(samples, first_sample, after)
            for key in keys:
                if key == _UNLISTED:
                    continue
                window = _window_of(key)
                at = _place_of(rows, numbers, window)
                row = np.int64(rows[at])
                if row < 0 and counted[page]:
                    row = used
                    rows[at], numbers[row] = row, window
                    for slot in range(WINDOW):
                        new[row * WINDOW + slot] = table[window * WINDOW + slot]
                    used += 1
                slots, first = (table, window * WINDOW) if row < 0 else (new, row * WINDOW)
                slot = _find(slots, first, key)
                if slot >= 0:
                    how_common[place] = max(how_common[place], _how_common(slots[slot]))
                if counted[page]:
                    _count(slots, first, key, slot, shown)
    return how_common, numbers[:used], new[: used * WINDOW].reshape(used, WINDOW)


@inlined
def _place_of(rows, numbers, window):  # int32[...], int64[k], int64 -> int64
    """The place of a window in the hash table, or the free place for it."""
    at = window & (len(rows) - 1)
    while rows[at] >= 0 and numbers[rows[at]] != window:
        at = (at + 1) & (len(rows) - 1)
    return at


@inlined
def _sketch_of(value):  # uint64 -> uint64
    """The sketch of one host or title."""
    return np.uint64(1) << ((value * _MIX) >> np.uint64(60))


@inlined
def _how_common(slot):  # uint64 -> uint8 (NO_COMMON_TEXT, ...)
    bits = min(count_bits(slot >> _HOSTS_SHIFT & _SKETCH), count_bits(slot & _SKETCH))
    if bits >= NOTICE_BITS:
        return NOTICE
    return COMMON_TEXT if bits >= LEAST_HOSTS else NO_COMMON_TEXT


@inlined
def _key_of_smallest(samples, first, end):  # uint64[s], int64, int64 -> uint64
    """A key of 40 bits of the smallest hashes of a block, whose samples are samples[first:end]."""
    low, middle, high = np.uint64(EVERY_HASH), np.uint64(EVERY_HASH), np.uint64(EVERY_HASH)
    for at in range(first, end):
        value = np.uint64(hash_of(samples[at]))
        if value < low:
            low, middle, high = value, low, middle
        elif value < middle:
            middle, high = value, middle
        elif value < high:
            high = value
    mixed = ((low * _MIX ^ middle) * _MIX ^ high) * _MIX
    return mixed >> np.uint64(24) | np.uint64(1)


@inlined
def _window_of(identity):  # uint64 -> int64
    """The window of a block."""
    return np.int64(identity * _MIX >> np.uint64(40)) % _WINDOWS


@inlined
def _key_of(identity):  # uint64 -> uint64
    """The key of a block in its window: 32 bits, not 0."""
    return (identity & np.uint64(0xFFFFFFFF)) | np.uint64(1)


@inlined
def _find(slots, first, identity):  # uint64[...], int64, uint64 -> int64
    """The slot of a block in the window that begins at `first`, or -1."""
    key = _key_of(identity)
    for slot in range(first, first + WINDOW):
        if slots[slot] >> _KEY_SHIFT == key:
            return np.int64(slot)
    return np.int64(-1)


@inlined
def _count(slots, first, identity, slot, shown):  # uint64[...], int64, uint64, int64, uint64  ->  slots
    """Count a page for a block, and move the block to the front of its window, which begins at `first`.

    slot: of the block, or -1
    """
    value = slots[slot] | shown if slot >= 0 else _key_of(identity) << _KEY_SHIFT | shown
    if slot < 0:
        slot, fewest = np.int64(first + WINDOW - 1), np.uint64(17)
        for at in range(first, first + WINDOW):
            hosts = count_bits(slots[at] >> _HOSTS_SHIFT & _SKETCH)
            if hosts <= fewest:
                slot, fewest = np.int64(at), hosts
    for at in range(slot, first, -1):
        slots[at] = slots[at - 1]
    slots[first] = value
