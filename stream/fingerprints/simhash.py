"""Folds a page's features into a 64-bit simhash (Charikar, STOC 2002; Manku, Jain, Das Sarma, WWW 2007, sec. 2)."""

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.bounds import sizes_of
from spotsieve.stream.jit import kernel, part
from spotsieve.stream.text.machine.memory import load_int
from spotsieve.stream.text.machine.vectors import count_bits

HASH_BITS = 64
_MOST_AT_ONCE = 255
"""Features that eight-bit counters can take before they are added to the wide ones."""


def simhash64(features: NDArray[np.uint64], bounds: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Fold each page's feature hashes into the signs of 64 sums (Manku et al. 2007, sec. 2).

    features: uint64[m]  bounds: int64[n + 1], page i has features[bounds[i]:bounds[i + 1]]
    -> fingerprints: uint64[n], present: bool[n]

    A feature's weight is how often it occurs. A zero sum gives bit 0; the paper leaves ties open. A page without
    features has no fingerprint: present is False and the value, 0, means nothing. Raises TypeError and ValueError.
    """
    if features.dtype != np.uint64 or features.ndim != 1:
        raise TypeError(f"features must be uint64[m], got {features.dtype}[{features.ndim} dimensions]")
    if bounds.dtype != np.int64 or bounds.ndim != 1 or len(bounds) == 0:
        raise TypeError(f"bounds must be int64[n + 1], got {bounds.dtype}[{bounds.shape}]")
    if bounds[0] < 0 or bounds[-1] > len(features) or (sizes_of(bounds) < 0).any():
        raise ValueError(f"bounds must ascend within 0..{len(features)}, got {bounds[0]}..{bounds[-1]}")
    features, bounds = np.ascontiguousarray(features), np.ascontiguousarray(bounds)
    fingerprints: NDArray[np.uint64] = _fold(features.ctypes.data, bounds.ctypes.data, len(bounds) - 1)
    return fingerprints, sizes_of(bounds) > 0


@kernel
def _fold(features, bounds, pages):
    """Addresses of features: uint64[m] and bounds: int64[n + 1]; pages: n -> uint64[n]

    Addresses, since numba compiles once more for an array that is read-only.
    """
    fingerprints = np.zeros(pages, dtype=np.uint64)
    ones = np.zeros(HASH_BITS, dtype=np.uint32)
    for page in range(pages):
        first, end = load_int(bounds + (page << 3)), load_int(bounds + (page << 3) + 8)
        fingerprints[page] = fold_features(features + (first << 3), end - first, ones)
    return fingerprints


@part
def fold_features(features, count, ones):
    """features: address of uint64[count]  ones: uint32[64], written over  ->  uint64, 0 where count is 0"""
    ones[:] = 0
    totals = np.int64(ones.ctypes.data)
    for start in range(0, count, _MOST_AT_ONCE):
        count_bits(features + (start << 3), min(count - start, _MOST_AT_ONCE), totals)
    fingerprint = np.uint64(0)
    for bit in range(HASH_BITS):
        # ones > zeros; the weighted sum of +1 and -1 is ones - zeros
        fingerprint |= np.uint64(2 * np.int64(ones[bit]) > count) << np.uint64(bit)
    return fingerprint
