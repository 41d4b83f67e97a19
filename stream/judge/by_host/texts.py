"""What pages are compared by, as columns: of a record's pages, and of filed ones."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.fingerprints.distance import count_bits
from spotsieve.stream.jit import inlined
from spotsieve.stream.signature import OwnText, Signatures


class Texts(NamedTuple):
    """What c pages are compared by.

    host: uint64[c]  length: uint32[c], features  sketch: uint64[c, w]  site: uint16[c]
    share: uint8[c], listed: uint16[c], as of OwnText
    prints: uint32[p], print_first, print_end: int64[c]  titles: uint16[t], title_first, title_end: int64[c]
    """

    host: NDArray[np.uint64]
    length: NDArray[np.uint32]
    sketch: NDArray[np.uint64]
    site: NDArray[np.uint16]
    share: NDArray[np.uint8]
    listed: NDArray[np.uint16]
    prints: NDArray[np.uint32]
    print_first: NDArray[np.int64]
    print_end: NDArray[np.int64]
    titles: NDArray[np.uint16]
    title_first: NDArray[np.int64]
    title_end: NDArray[np.int64]


def texts_of(signatures: Signatures) -> Texts:
    """What the pages of a record are compared by, before it is known what of it is template."""
    count, prints, titles = len(signatures), signatures.prints_bounds, signatures.titles_bounds
    return Texts(
        np.ascontiguousarray(signatures.host, np.uint64),
        np.ascontiguousarray(signatures.feature_count, np.uint32),
        np.ascontiguousarray(signatures.sketch, np.uint64),
        np.ascontiguousarray(signatures.site, np.uint16),
        np.zeros(count, np.uint8),
        np.zeros(count, np.uint16),
        np.ascontiguousarray(signatures.prints, np.uint32),
        prints[:-1].copy(),
        prints[1:].copy(),
        np.ascontiguousarray(signatures.titles, np.uint16),
        titles[:-1].copy(),
        titles[1:].copy(),
    )


def texts_of_entries(
    host: NDArray[np.uint64], length: NDArray[np.uint32], sketch: NDArray[np.uint64], own: OwnText
) -> Texts:
    """What filed pages are compared by."""
    return Texts(
        np.ascontiguousarray(host, np.uint64),
        np.ascontiguousarray(length, np.uint32),
        np.ascontiguousarray(sketch, np.uint64),
        own.site,
        own.share,
        own.listed,
        own.prints,
        own.print_bounds[:-1].copy(),
        own.print_bounds[1:].copy(),
        own.titles,
        own.title_bounds[:-1].copy(),
        own.title_bounds[1:].copy(),
    )


@inlined
def estimated_jaccard(pages, page, others, other):  # Texts, int64, Texts, int64 -> float64
    """The Jaccard of the kept texts, by their sketches (Yuan et al. 2012, sec. 3)."""
    differing = np.int64(0)
    for word in range(pages.sketch.shape[1]):
        differing += count_bits(pages.sketch[page, word] ^ others.sketch[other, word])
    return max(1.0 - 2.0 * differing / (64 * pages.sketch.shape[1]), 0.0)
