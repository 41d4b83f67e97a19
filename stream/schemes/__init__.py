"""Owns what a scheme is: the seam between a published system and the judge.

A scheme turns pages into signatures and signatures into probes; the judge does the rest, the same way for all. A page
is looked up under its keys. What it finds there is tested in two steps:

1. Every key has inline bits, which are stored in its postings, and a limit. A posting passes where its inline bits
   differ from the key's in at most `limit` places: that covers fingerprints (limit k), equality (limit 0) and "whatever
   shares the bucket" (no inline bits). It is compiled into the judge's walk. Through a decisive key a posting that
   passes is accepted; through any other it is a candidate.
2. Candidates are confirmed by the scheme, sketch against sketch, many in one call.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from stream.page import Page
from stream.signature import Compared, Signatures


@dataclass(frozen=True, slots=True)
class Probes:
    """Where n pages are looked up, and filed if novel.

    keys: uint64[m], all different within a page  bounds: int64[n + 1] (page i's keys are keys[bounds[i]:bounds[i + 1]])
    inline: uint64[m]; postings store none for MINIMA_TAG, which has 0 here, and CHECK_BITS for CHECKED_MINIMA_TAG
    limit: uint8[m] (bits in which a posting that passes may differ from inline)
    decisive: bool[m] (a posting that passes is accepted at once, and not only a candidate)

    A page that has candidate keys needs a decisive one too, under which it meets itself when it is submitted again.
    """

    keys: NDArray[np.uint64]
    bounds: NDArray[np.int64]
    inline: NDArray[np.uint64]
    limit: NDArray[np.uint8]
    decisive: NDArray[np.bool_]


class Scheme(Protocol):
    """One published system. Pure: the same input gives the same output, whatever the batch."""

    @property
    def name(self) -> str:
        """The system's name in settings, verdicts and reports."""

    def sign(self, pages: Sequence[Page]) -> Signatures:
        """Pages of one micro-batch, in order -> their signatures."""

    def probe(self, signatures: Signatures) -> Probes:
        """Signatures -> bucket keys; a page that can match nothing has none."""

    def confirm(self, pages: Compared, others: Compared) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Row by row, a page against an earlier candidate -> accepted: bool[c], similarity in [0, 1]: float64[c].

        Each row is judged by itself. A page must be accepted as a copy of itself. Not called where c is 0.
        """

    def score(self, distance: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Of postings accepted through a decisive key, inline bits that differ: uint8[n] -> similarity: float64[n]."""
