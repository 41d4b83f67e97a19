"""Latent semantic indexing: project pages onto the concepts of a frozen decomposition (Roul et al., fig. 1, step 4).

    A = U s V^T of a sample's term-document matrix        U^T d = the column of s V^T of a page d of the sample

A term's row holds its IDF times its row of U, as integers. A page's vector is the sum of the rows of its tokens. The
sum is exact whatever the order, the machine or its BLAS. The paper divides it by the page's length, which changes no
cosine. The vector is then scaled so that its largest coordinate is +-127. A cosine takes integer sums, one square root
and one division, which IEEE 754 rounds in exactly one way: verdicts are the same on every machine.

Rows are found by a Directory: two reads instead of the 20 of a binary search over millions of hashes. Hashes are spread
evenly, so only one or two share their leading log2(t) bits.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.arrays import bounds_of
from spotsieve.stream.base.jit import kernel, part
from spotsieve.stream.sign.text.tokens import PageTokens


@dataclass(frozen=True, slots=True)
class Directory:
    """Sorted hashes with the position of the first hash for each value of their leading bits.

    hashes: uint64[t], ascending, all different
    first: int64[2^b + 1], hashes with the leading bits p are hashes[first[p]:first[p + 1]]
    shift: uint64, 64 - b
    """

    hashes: NDArray[np.uint64]
    first: NDArray[np.int64]
    shift: np.uint64


def directory_of(hashes: NDArray[np.uint64]) -> Directory:
    """Build a directory. hashes: uint64[t], ascending, all different"""
    bits = max(1, len(hashes).bit_length())
    shift = np.uint64(64 - bits)
    sizes = np.bincount((hashes >> shift).astype(np.int64), minlength=2**bits)
    return Directory(hashes, bounds_of(sizes), shift)


@part
def place_of(wanted, hashes, first, shift):
    """Index of a hash in a Directory, or -1. wanted: uint64; hashes, first, shift: fields of a Directory  ->  int64"""
    leading = wanted >> shift
    for place in range(first[leading], first[leading + np.uint64(1)]):
        if hashes[place] == wanted:
            return np.int64(place)
    return np.int64(-1)


MOST = 127
"""The largest coordinate. Its cosines differ by less than 0.01 from the cosines of exact coordinates."""


def project_pages(tokens: PageTokens, directory: Directory, rows: NDArray[np.int16]) -> NDArray[np.int8]:
    """LSI vectors of n pages: int8[n, d]. A page without a known term has the zero vector.

    directory: the terms of the model  rows: int16[t, d], one per term, in the directory's order
    """
    sums = np.zeros((len(tokens), rows.shape[1]), np.int64)
    _project(tokens.hashes.copy(), tokens.bounds.copy(), directory.hashes, directory.first, directory.shift, rows, sums)
    return quantise(sums)


def quantise(sums: NDArray[np.int64]) -> NDArray[np.int8]:
    """Scale each row so that its largest coordinate is +-127: int64[n, d], below 2^54 -> int8[n, d].

    Rounds to the nearest integer, halves away from zero.
    """
    size = np.abs(sums)
    greatest = np.maximum(size.max(axis=1, keepdims=True, initial=0), 1)
    scaled = (2 * MOST * size + greatest) // (2 * greatest)
    signed: NDArray[np.int8] = (np.sign(sums) * scaled).astype(np.int8)
    return signed


def cosines(one: NDArray[np.int8], other: NDArray[np.int8]) -> NDArray[np.float64]:
    """Cosines of c pairs of vectors: int8[c, d] each -> float64[c], 0 where a vector is zero."""
    left, right = one.astype(np.int64), other.astype(np.int64)
    squares = (left * left).sum(axis=1) * (right * right).sum(axis=1)
    cosine: NDArray[np.float64] = (left * right).sum(axis=1) / np.sqrt(np.maximum(squares, 1).astype(np.float64))
    return cosine


@kernel
def _project(tokens, bounds, known, first, shift, rows, sums):
    # tokens: uint64[m]  bounds: int64[n + 1]  known, first, shift: Directory  rows: int16[t, d]
    # ->  sums: int64[n, d], 0 before
    dimensions = rows.shape[1]
    for page in range(len(bounds) - 1):
        for place in range(bounds[page], bounds[page + 1]):
            found = place_of(tokens[place], known, first, shift)
            if found >= 0:
                for dimension in range(dimensions):
                    sums[page, dimension] += np.int64(rows[found, dimension])
