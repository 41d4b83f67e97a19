"""Sorts hashes in linear time, whatever they are: by their highest digits, and by all digits where a page was built to
be slow.

An item is a hash of 32 bits above 32 bits of payload, such as a position.
"""

import numpy as np

from spotsieve.stream.base.jit import part
from spotsieve.stream.sign.text.machine import leading_zeros

_U0, _U1 = np.uint64(0), np.uint64(1)
_RADIX_BITS = 8
RADIX = 1 << _RADIX_BITS
"""The number of digits, one less than the slots of `starts`."""
_DIGIT = np.uint64((1 << _RADIX_BITS) - 1)
_MOVES = 8
"""Few items are sorted by two digits and then by insertion, which stops after this number of moves per item."""
_FEW = 4096
"""More items are sorted by all digits at once."""


@part
def sort_items(items, spare, starts, count, bound):
    """Sort items by their high halves, which are below the bound. Equal ones must stand in ascending order.

    items: uint64[>= count]  spare: uint64[>= count], overwritten  starts: uint64[257], overwritten
    count: int64  bound: uint64, at most 2^32
    """
    if count == 0:
        return
    if count <= _FEW:
        # The highest 16 bits leave few items out of order.
        bits = 64 - leading_zeros(bound - _U1)
        shift = np.uint64(32 + max(bits - 2 * _RADIX_BITS, 0))
        move_by_digit(items, spare, starts, count, shift)
        move_by_digit(spare, items, starts, count, shift + np.uint64(_RADIX_BITS))
        if sort_by_insertion(items, count):
            return
    for digit in range(32, 64, 2 * _RADIX_BITS):
        move_by_digit(items, spare, starts, count, np.uint64(digit))
        move_by_digit(spare, items, starts, count, np.uint64(digit + _RADIX_BITS))


@part
def sort_by_insertion(items, count):  # uint64[], int64 -> bool
    """Sort items that are nearly in order. Returns whether they are sorted.

    It stops after _MOVES moves per item, because a page can be built to need many.
    """
    most = _MOVES * count
    for behind in range(1, count):
        item = items[behind]
        place = behind
        while place > 0 and items[place - 1] > item:
            items[place] = items[place - 1]
            place -= 1
        items[place] = item
        most -= behind - place
        if most < 0:
            return False
    return True


@part
def move_by_digit(source, target, starts, count, shift):
    """Run one pass of a radix sort. source, target: uint64[]  starts: uint64[257], overwritten  shift: uint64"""
    starts[:] = 0
    for place in range(count):
        starts[(source[place] >> shift & _DIGIT) + _U1] += _U1
    before = _U0
    for digit in range(RADIX):
        before += starts[digit + 1]
        starts[digit + 1] = before
    for place in range(count):
        item = source[place]
        digit = item >> shift & _DIGIT
        target[starts[digit]] = item
        starts[digit] += _U1
