"""Cuts fingerprints of any length into groups of bits, which are keys of an index (Yuan, Long, Zhang, Gui 2012).

Two fingerprints that differ in at most r bits have at least m - r of m groups equal. Of a group longer than 48 bits the
low 48 are the key (the paper's string index for k / m > 64), which costs comparisons and loses nothing.
"""

import numpy as np
from numpy.typing import NDArray

VALUE_BITS = 48


def cut_groups(k: int, m: int) -> NDArray[np.int64]:
    """Cut k bits into m groups whose widths differ by one at most: int64[m + 1], group i has the bits groups[i] to
    groups[i + 1] - 1.
    """
    return np.linspace(0, k, m + 1).astype(np.int64)


def group_values(fingerprints: NDArray[np.uint64], groups: NDArray[np.int64], group: int) -> NDArray[np.uint64]:
    """The low 48 bits of a group of each fingerprint: uint64[n, w] -> uint64[n]."""
    first, last = int(groups[group]), int(groups[group + 1])
    width = min(last - first, VALUE_BITS)
    word, shift = divmod(first, 64)
    values: NDArray[np.uint64] = fingerprints[:, word] >> np.uint64(shift)
    if shift + width > 64:
        values = values | fingerprints[:, word + 1] << np.uint64(64 - shift)
    return values & np.uint64((1 << width) - 1)
