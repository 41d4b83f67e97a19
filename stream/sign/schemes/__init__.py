"""Defines what a scheme is: the seam between a published system and the judge.

A scheme turns pages into signatures and signatures into probes; the judge does the rest, the same way for all. A page
is looked up under its keys. What it finds there passes two tests:

1. Every key has inline bits, which are stored in its postings, and a limit. A posting passes where its inline bits
   differ from the key's in at most `limit` places: that covers fingerprints (limit k), equality (limit 0) and "whatever
   shares the bucket" (no inline bits). It is compiled into the judge's walk. Through a decisive key a posting that
   passes is accepted; through any other it is a candidate.
2. Candidates are confirmed by the scheme, sketch against sketch or features against features, many in one call.

Pages of one host share its template. A scheme with bars has its candidates confirmed by the judge, which remembers
every host (stream/judge/by_host/): then `confirm` answers for pages of which nothing is known but their sketches.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.page import Page
from spotsieve.stream.base.signature import CandidateColumns, Signatures

UNCAPPED = np.iinfo(np.int64).max
CANDIDATE_LIMIT = 256
"""What most schemes take where index.candidate_limit is 0."""


@dataclass(frozen=True, slots=True)
class Probes:
    """Where n pages are looked up, and filed if novel.

    keys: uint64[m], all different within a page  bounds: int64[n + 1] (page i's keys are keys[bounds[i]:bounds[i + 1]])
    inline: uint64[m]; postings store none for the tags of stream/sign/fingerprints/permuted_tables.py BARE_TAGS,
    which have 0 here
    limit: uint8[m] (bits in which a posting that passes may differ from inline)
    decisive: bool[m] (a posting that passes is accepted at once, and not only a candidate)
    cap: int64[m] (no more pages than this are filed under the key, whatever the index would take: UNCAPPED)
    least_shared: a page met under fewer candidate keys than this is no candidate, and does not count as one

    A page with candidate keys needs a decisive one too: under that it meets itself when it is submitted again.
    """

    keys: NDArray[np.uint64]
    bounds: NDArray[np.int64]
    inline: NDArray[np.uint64]
    limit: NDArray[np.uint8]
    decisive: NDArray[np.bool_]
    cap: NDArray[np.int64]
    least_shared: int = 1


class Confirmations(NamedTuple):
    """What a scheme says of c pairs of a page and an earlier candidate.

    accepted: bool[c]  score: float64[c], similarity in [0, 1]
    """

    accepted: NDArray[np.bool_]
    score: NDArray[np.float64]


class ThresholdTest(NamedTuple):
    """One thing that a scheme asks of c pairs, and what they have of it.

    name: in the words of the scheme  had: float64[c]  needed: what is enough, float64[c], or one for all pairs
    unit: what it is counted in, "" for a share in 0..1  at_most: less is better  beyond: as much is not enough
    """

    name: str
    had: NDArray[np.float64]
    needed: NDArray[np.float64] | float
    unit: str = ""
    at_most: bool = False
    beyond: bool = False

    @property
    def reached(self) -> NDArray[np.bool_]:
        """bool[c]"""
        if self.at_most:
            return np.asarray(self.had <= self.needed)
        return np.asarray(self.had > self.needed if self.beyond else self.had >= self.needed)


class Criterion(NamedTuple):
    """A way for a pair to be accepted: it reaches every one of these bars. name: what that means"""

    name: str
    bars: tuple[ThresholdTest, ...]

    @property
    def reached(self) -> NDArray[np.bool_]:
        """bool[c]"""
        reached: NDArray[np.bool_] = np.logical_and.reduce([bar.reached for bar in self.bars])
        return reached


class HostThresholds(NamedTuple):
    """What the judge compares pages of one host by (stream/judge/by_host/pairs.py). Shares in 0..1, but the last two.

    template_share: what stands on more of a host's pages is template
    min_alike: copies share this much of their own text  other_title_min_alike: where their titles differ
    no_title_min_alike: where neither has a title and the texts are short
    min_jaccard: of pages of two hosts  thin_min_jaccard: of pages of two hosts, one of which is short
    one_host: pages of two hosts are never compared
    keep_variants: pages of one host that differ in numbers alone are no copies
    """

    template_share: float
    min_alike: float
    other_title_min_alike: float
    no_title_min_alike: float
    min_jaccard: float
    thin_min_jaccard: float
    one_host: bool
    keep_variants: bool


class Scheme(Protocol):
    """One published system. Pure: the same input gives the same output, whatever the batch."""

    @property
    def name(self) -> str:
        """The system's name in settings, verdicts and reports."""

    @property
    def compares_features(self) -> bool:
        """Whether confirm() needs the features of pages: only then do entries keep them, and the judge reads them."""

    @property
    def candidate_limit(self) -> int:
        """The most candidates that a page is compared with, where index.candidate_limit leaves it to the scheme."""

    @property
    def bars(self) -> HostThresholds | None:
        """By what the judge confirms candidates, with the memory of their hosts; None: by confirm()."""

    def sign(self, pages: Sequence[Page]) -> Signatures:
        """Pages of one micro-batch, in order -> their signatures."""

    def probe(self, signatures: Signatures) -> Probes:
        """Signatures -> bucket keys; a page that can match nothing has none."""

    def confirm(self, pages: CandidateColumns, others: CandidateColumns) -> Confirmations:
        """Row by row, a page against an earlier candidate: c pairs.

        Each row is judged by itself. A page must be accepted as a copy of itself. The judge does not call it where c
        is 0, nor where the scheme has bars.
        """

    def ways(self, pages: CandidateColumns, others: CandidateColumns) -> tuple[Criterion, ...]:
        """What confirm() asks of the same pairs, for people: a pair that it accepts reaches all bars of one way."""

    def score(self, distance: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Inline bits that differ in postings which a decisive key accepted: uint8[n] -> similarity: float64[n]."""
