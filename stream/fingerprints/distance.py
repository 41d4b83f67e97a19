"""Counts the bits in which fingerprints differ, inside kernels."""

import numpy as np

from spotsieve.stream.jit import kernel


@kernel
def count_bits(word):
    """Set bits of a uint64; LLVM turns this into one popcnt."""
    # word: uint64  ->  uint64
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (word * np.uint64(0x0101010101010101)) >> np.uint64(56)
