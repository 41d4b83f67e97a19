"""The scheme interface: the seam between a published system and the judge.

A scheme turns pages into signatures and signatures into probes; the judge does the rest in the same way for all
schemes. A page is looked up under its keys. Every posting that it finds passes two tests:

1. Every key has inline bits, which are stored in its postings, and a limit. A posting passes if its inline bits differ
   from the key's in at most `limit` places. That covers fingerprints (limit k), equality (limit 0) and every posting of
   the bucket (no inline bits). The test is compiled into the judge's sequential resolution. A posting that passes under
   a decisive key is a match; under any other key it is a candidate.
2. The scheme confirms candidates, sketch against sketch or features against features, many in one call.

Pages of one host share its template text. If a scheme has `host_thresholds`, the judge confirms its candidates with its
memory of every host (stream/judge/by_host/). `confirm` then serves callers that have only sketches.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from spotsieve.stream.base.page import Page
from spotsieve.stream.base.signature import CandidateColumns, Signatures

UNCAPPED = np.iinfo(np.int64).max
NOT_INDEXED = 0
"""The cap of a key under which a page is only looked up."""
CANDIDATE_LIMIT = 256
"""Default candidate limit of a scheme, where index.candidate_limit is 0."""


@dataclass(frozen=True, slots=True)
class Probes:
    """Keys under which n pages are looked up, and indexed if they are novel.

    keys: uint64[m], all different within a page; page i has keys[bounds[i]:bounds[i + 1]]  bounds: int64[n + 1]
    inline: uint64[m], bits that postings store beside the page; 0 for keys with a tag of permuted_tables.BARE_TAGS,
    whose postings store none
    limit: uint8[m], number of bits in which a passing posting may differ from inline
    decisive: bool[m], whether a passing posting is a match at once; otherwise it is a candidate
    cap: int64[m], limit on the pages indexed under the key, below the index's own limit; UNCAPPED for none
    least_shared: least number of candidate keys that a page must share to become a candidate

    A page with candidate keys needs a decisive key too, under which it finds itself when it is submitted again.
    """

    keys: NDArray[np.uint64]
    bounds: NDArray[np.int64]
    inline: NDArray[np.uint64]
    limit: NDArray[np.uint8]
    decisive: NDArray[np.bool_]
    cap: NDArray[np.int64]
    least_shared: int = 1


class Confirmations(NamedTuple):
    """Results for c pairs of a page and a candidate. accepted: bool[c]  score: float64[c], similarity in 0..1"""

    accepted: NDArray[np.bool_]
    score: NDArray[np.float64]


class ThresholdTest(NamedTuple):
    """One measure of c pairs, and the threshold that it must reach.

    name: the measure, in the words of the scheme  had: its values, float64[c]
    needed: the threshold, float64[c], or one for all pairs  unit: unit of the measure, "" for a share in 0..1
    at_most: whether smaller values are better  beyond: whether the value must exceed the threshold
    """

    name: str
    had: NDArray[np.float64]
    needed: NDArray[np.float64] | float
    unit: str = ""
    at_most: bool = False
    beyond: bool = False

    @property
    def reached(self) -> NDArray[np.bool_]:
        """Whether each pair reaches the threshold: bool[c]."""
        if self.at_most:
            return np.asarray(self.had <= self.needed)
        return np.asarray(self.had > self.needed if self.beyond else self.had >= self.needed)


class Criterion(NamedTuple):
    """One way to accept a pair: it reaches every threshold. name: the kind of match"""

    name: str
    tests: tuple[ThresholdTest, ...]

    @property
    def reached(self) -> NDArray[np.bool_]:
        """Whether each pair reaches all thresholds: bool[c]."""
        reached: NDArray[np.bool_] = np.logical_and.reduce([test.reached for test in self.tests])
        return reached


class HostThresholds(NamedTuple):
    """Thresholds by which the judge compares pages (stream/judge/by_host/pairs.py).

    template_share: text on at least this share of a host's pages is template text
    min_containment: the least share of a page's distinctive text that its original contains
    max_fresh_words: a page with this many fresh words is no copy; 0: no limit
    one_host: whether pages of two hosts are never compared
    drop_parts: whether a page that is a small part of a longer one is a copy of it
    keep_variants: whether pages of one host that differ only in numbers are distinct
    """

    template_share: float
    min_containment: float
    max_fresh_words: float
    one_host: bool
    drop_parts: bool
    keep_variants: bool


class Scheme(Protocol):
    """One published system. Pure: the same pages give the same output in any batch."""

    @property
    def name(self) -> str:
        """Name of the system in settings, verdicts and reports."""

    @property
    def compares_features(self) -> bool:
        """Whether confirm() needs the features of pages. Only then do entries store them and the judge read them."""

    @property
    def candidate_limit(self) -> int:
        """Largest number of candidates per page, unless index.candidate_limit sets it."""

    @property
    def host_thresholds(self) -> HostThresholds | None:
        """Thresholds with which the judge confirms candidates by the memory of their hosts; None: confirm() decides."""

    def sign(self, pages: Sequence[Page]) -> Signatures:
        """Signatures of the pages of one batch, in order."""

    def probe(self, signatures: Signatures) -> Probes:
        """Bucket keys of the signatures. A page that can match nothing has none."""

    def confirm(self, pages: CandidateColumns, others: CandidateColumns) -> Confirmations:
        """Confirm c pairs of a page and an earlier candidate, row by row.

        Each row is independent of the others. A page must be accepted as a copy of itself. The judge calls it only
        for c > 0, and only if `host_thresholds` is None.
        """

    def ways(self, pages: CandidateColumns, others: CandidateColumns) -> tuple[Criterion, ...]:
        """Criteria of confirm() for c pairs, for explanations. An accepted pair reaches all thresholds of one."""

    def score(self, distance: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Similarity of pages matched by a decisive key, from the inline bits that differ: uint8[n] -> float64[n]."""
