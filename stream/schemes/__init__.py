"""Owns what a scheme is: the seam between a published system and the judge, and the registry of schemes.

A scheme turns pages into signatures and signatures into probes; the judge does the rest, the same way for all. What is
accepted is said in terms of the 64 inline bits that a posting carries: a posting is accepted where its inline bits
differ from the page's in at most `limit` places. That covers fingerprints (limit k), equality (limit 0) and, with limit
64, "whatever shares the bucket". It is compiled into the judge's walk rather than asked of the scheme pair by pair: a
micro-batch of n equal pages has n * n / 2 pairs, and only the walk knows which of them are real.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from stream.page import Page
from stream.signature import Signatures


@dataclass(frozen=True, slots=True)
class Probes:
    """Where n pages are looked up, and filed if novel.

    keys: uint64[m], all different within a page  bounds: int64[n + 1] (page i's keys are keys[bounds[i]:bounds[i + 1]])
    inline: uint64[n]  limit: uint8[n] (bits in which an accepted posting may differ from inline)
    """

    keys: NDArray[np.uint64]
    bounds: NDArray[np.int64]
    inline: NDArray[np.uint64]
    limit: NDArray[np.uint8]


class Scheme(Protocol):
    """One published system. Pure: the same input gives the same output, whatever the batch."""

    @property
    def name(self) -> str:
        """The system's name in settings, verdicts and reports."""

    def sign(self, pages: Sequence[Page]) -> Signatures:
        """Pages of one micro-batch, in order -> their signatures."""

    def probe(self, signatures: Signatures) -> Probes:
        """Signatures -> bucket keys; a page that can match nothing has none."""

    def score(self, distance: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Inline bits that differ: uint8[n] -> similarity in [0, 1]: float64[n]."""
