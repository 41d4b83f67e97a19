"""Writes and reads words of 1 to 8 bytes, little endian, within a buffer: for the kernels of the stored formats."""

import numpy as np

from spotsieve.stream.jit import kernel


@kernel
def write_word(buffer, at, size, word):
    """Write the low `size` bytes of word: uint64 -> buffer: uint8[at:at + size]."""
    for byte in range(size):
        buffer[at + byte] = np.uint8(word >> np.uint64(8 * byte) & np.uint64(255))


@kernel
def read_word(buffer, at, size):
    """Read buffer: uint8[at:at + size] -> uint64."""
    word = np.uint64(0)
    for byte in range(size):
        word |= np.uint64(buffer[at + byte]) << np.uint64(8 * byte)
    return word
